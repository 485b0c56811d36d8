//! Compares the event formats of two traces: `cargo run -p tardy-trace --example formats OLD.dat.gz
//! NEW.dat`. Prints a line for each difference. `cargo xtask golden` uses this example.

use std::io::Read;
use std::path::Path;

use tardy_trace::file::TraceFile;

#[path = "../tests/golden/formats.rs"]
mod formats;

use self::formats::Formats;

fn main() {
    let [old, new] = [1, 2].map(|place| {
        let path = std::env::args_os()
            .nth(place)
            .expect("two traces are given");
        of(Path::new(&path))
    });
    for change in old.changes(&new) {
        println!("{change}");
    }
}

fn of(path: &Path) -> Formats {
    let mut bytes =
        std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_end(&mut unpacked)
            .expect("it is whole");
        bytes = unpacked;
    }
    Formats::of(&TraceFile::parse(&bytes).expect("it is a trace.dat"))
}
