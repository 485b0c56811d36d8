//! A log that consists of lines and whose length is bounded. When the log is full, every second
//! line is dropped, so that the distance between lines is larger for older lines.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use tardy_samples::reserved_file;

/// Adds whole lines to the file at `path`, which must exist. Afterwards the file has at most
/// `length_max` bytes, unless the new lines alone take more.
///
/// # Errors
/// Returns an error if the file cannot be read or written. If an error occurs while lines are
/// dropped, either the old or the new file remains.
pub fn append(path: &Path, lines: &[u8], length_max: u64) -> io::Result<()> {
    let mut length = fs::metadata(path)?.len();
    let more = lines.len() as u64;
    if length + more > length_max {
        let mut content = fs::read(path)?;
        while content.len() as u64 + more > length_max / 4 * 3 && !content.is_empty() {
            content = every_second(&content);
        }
        reserved_file::replace(path, &content)?;
        length = content.len() as u64;
    }
    let written = OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(lines));
    written.inspect_err(|_| {
        // If the last line is incomplete, it is removed, because the next line would continue it.
        let _ = OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(length));
    })
}

/// Returns every second line, starting with the first.
fn every_second(content: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = content.split_inclusive(|&byte| byte == b'\n').collect();
    let kept = if lines.len() > 1 {
        lines.iter().step_by(2).copied().collect()
    } else {
        Vec::new()
    };
    kept.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_keeps_whole_lines_of_its_whole_time_and_the_newest_second_by_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.jsonl");
        fs::write(&path, "").unwrap();
        for second in 0..20_000 {
            append(&path, format!("{{\"second\":{second}}}\n").as_bytes(), 4096).unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 4096);
        }
        let text = fs::read_to_string(&path).unwrap();
        let seconds: Vec<u32> = text
            .lines()
            .map(|line| {
                line.trim_matches(['{', '}'])
                    .split_once(':')
                    .unwrap()
                    .1
                    .parse()
                    .unwrap()
            })
            .collect();
        assert!(
            seconds.is_sorted() && seconds[0] == 0 && seconds.last() == Some(&19_999),
            "{seconds:?}"
        );
        let gaps: Vec<u32> = seconds.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            gaps.last() == Some(&1) && gaps[0] > 100 && gaps.len() > 50,
            "{gaps:?}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
