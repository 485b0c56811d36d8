//! Changes text as logs and editors change it. docs/import.md names the changes that the import
//! ignores.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Returns `text` as bytes, changed in a random way. Lines of JSON and XML get no prefixes.
pub(super) fn pasted(random: &mut Pcg64Mcg, text: &str, is_by_line: bool) -> Vec<u8> {
    let kinds = if is_by_line { 14 } else { 8 };
    let lines = |prefix: &dyn Fn(usize) -> String| {
        let lines = text.lines().enumerate();
        let lines = lines.map(|(index, line)| format!("{}{line}\n", prefix(index)));
        lines.collect::<String>().into_bytes()
    };
    match random.random_range(0..kinds) {
        0 => text.replace('\n', "\r\n").into_bytes(),
        1 => format!("\u{feff}{text}").into_bytes(),
        2 => {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(u16::to_le_bytes).collect()
        }
        8 => lines(&|_| "    ".to_owned()),
        9 => lines(&|_| "> ".to_owned()),
        10 => lines(&|index| format!("2026-11-20T10:13:46.{:09}Z ", index * 1_001)),
        11 => lines(&|_| "Nov 20 10:13:46 board7 cyclictest[7031]: ".to_owned()),
        12 => lines(&|index| format!("[{:5}.{:06}] ", index / 7, index * 1_001)),
        13 => lines(&|_| "probe-1  | ".to_owned()),
        _ => text.as_bytes().to_vec(),
    }
}
