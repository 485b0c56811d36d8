//! `tardy show` with its statistics, `tardy explain`, and the readers for `tardy history` and for
//! costs must not panic on any run folder, and text for a terminal must have no control characters.
//!
//! The input consists of the folder's files, separated by [`SEPARATOR`]: run.json, and the samples,
//! the histogram and the delays of the series `a.series`. Checksums are corrected before the files
//! are read, because no fuzzer would guess them.

use std::path::Path;

use tardy_core::verdict::requirement::Requirement;
use tardy_report::report::screen::Screen;
use tardy_report::report::terminal_histogram::{self, Blocks};
use tardy_report::report::{statistics_text, summary_text};
use tardy_results::document;
use tardy_results::explain::Late;
use tardy_results::explain::run::RunQuestion;
use tardy_results::explain::source::explain_run;
use tardy_results::history::run::HistoryRun;
use tardy_results::statistics::read::{Question, statistics};
use tardy_results::summary::model::ProbeSummary;
use tardy_results::summary::read::read;
use tardy_run::record::RunKind;

use crate::place;

/// The bytes that separate two files of the input.
pub const SEPARATOR: &[u8] = b"\0file\0";
const NAMES: [&str; 4] = [
    "run.json",
    "samples/a.series",
    "samples/a.histogram",
    "trace/a.delays",
];
/// Length of the magic at the start of a series file and of a delays file.
const MAGIC_BYTES: usize = 8;
const CHUNK_HEAD_BYTES: usize = 12;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let place = place::folder();
    let folder = place.path();
    for (name, content) in NAMES.iter().zip(split(bytes)) {
        let mut content = content.to_vec();
        match *name {
            "samples/a.series" => seal_series(&mut content),
            "samples/a.histogram" => seal_histogram(&mut content),
            "trace/a.delays" => seal_chunks(&mut content, MAGIC_BYTES),
            _ => {}
        }
        place::write(&folder.join(name), &content);
    }
    show(folder);
    match explain_run(
        folder,
        RunQuestion {
            worst: 3,
            late: Late::Worst,
            from_outside: false,
        },
    ) {
        Ok(explanation) => drop(document::Format::SHOW.document(&explanation)),
        Err(error) => drop(error.to_string()),
    }
    let _ = HistoryRun::read(folder);
    if tardy_results::cost::run::is_cost(folder) {
        let _ = tardy_results::cost::run::CostRun::read(folder);
    }
}

fn show(folder: &Path) {
    let run = match read(folder, &Requirement::default()) {
        Ok(run) if run.record.kind != RunKind::Cost => run,
        Ok(_) => return,
        Err(error) => return drop(error.to_string()),
    };
    let summary = run.summary();
    let histogram = |probe: &ProbeSummary, lines| {
        terminal_histogram::text(
            &run.of_probe(&probe.probe).latency,
            &probe.quantity,
            (100, lines),
            Blocks::Unicode,
        )
    };
    let shown = summary_text::text(
        &summary,
        Screen {
            columns: 100,
            lines: Some(24),
        },
        histogram,
    );
    let full = summary_text::full(&summary, 100, histogram);
    for text in [shown, full] {
        assert!(
            !text.contains(|character: char| character.is_control() && character != '\n'),
            "{text:?}"
        );
    }
    let _ = document::Format::SHOW.document(&summary);
    if let Ok(statistics) = statistics(&run, &Question::default()) {
        let _ = statistics_text::text(&statistics, 100);
    }
}

/// Splits the input into files, and returns them in their order.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut files = Vec::new();
    let mut rest = bytes;
    while let Some(end) = rest
        .windows(SEPARATOR.len())
        .position(|window| window == SEPARATOR)
    {
        files.push(&rest[..end]);
        rest = &rest[end + SEPARATOR.len()..];
    }
    files.push(rest);
    files
}

/// Corrects the checksums of a series: those of the descriptor and of the chunks
/// (`tardy_core::chunk`).
fn seal_series(bytes: &mut [u8]) {
    let begin = MAGIC_BYTES + 4;
    let Some(length) = number(bytes, MAGIC_BYTES) else {
        return;
    };
    let end = begin.saturating_add(length);
    let Some(descriptor) = bytes.get(begin..end) else {
        return;
    };
    let checksum = crc32fast::hash(descriptor);
    if let Some(place) = bytes.get_mut(end..end + 4) {
        place.copy_from_slice(&checksum.to_le_bytes());
        seal_chunks(bytes, end + 4);
    }
}

/// Corrects the checksums of chunks. A chunk consists of a magic of four bytes, the length of its
/// body, its checksum, and its body.
fn seal_chunks(bytes: &mut [u8], mut begin: usize) {
    while let Some(length) = number(bytes, begin + 4) {
        let body = begin + CHUNK_HEAD_BYTES;
        let Some(checksum) = bytes
            .get(body..body.saturating_add(length))
            .map(crc32fast::hash)
        else {
            return;
        };
        bytes[begin + 8..body].copy_from_slice(&checksum.to_le_bytes());
        begin = body + length;
    }
}

/// Corrects the checksum at the end of a histogram.
fn seal_histogram(bytes: &mut [u8]) {
    let Some(end) = bytes.len().checked_sub(4).filter(|end| *end >= MAGIC_BYTES) else {
        return;
    };
    let checksum = crc32fast::hash(&bytes[MAGIC_BYTES..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let number = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*number)).ok()
}
