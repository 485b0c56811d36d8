//! How fast another tool's samples are read.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_sys::process;

use super::figure::{Bench, Figure, FigureResult, row};
use super::statistics::median;
use crate::failure::{Failure, Result, While};

/// Samples of 24 hours in koolwal2009's cyclictest runs, a line each.
const LINES: u64 = 65_500_000;
const RUNS: usize = 3;

pub(crate) const FIGURE: Figure = Figure {
    name: "import-rate",
    promise: "cyclictest -v text is imported at 150 MB/s",
    measure,
};

fn measure(bench: &Bench) -> Result<FigureResult> {
    let lines = if bench.is_quick { LINES / 20 } else { LINES };
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    let text = place.path().join("verbose.txt");
    let bytes = write_text(&text, lines).while_doing(|| "writing the text".to_owned())?;
    let mut seconds = Vec::new();
    let mut resident = 0;
    for index in 0..=RUNS {
        let out = place.path().join(format!("run{index}"));
        let (taken, memory) = import(bench, &text, &out)?;
        std::fs::remove_dir_all(&out).while_doing(|| "removing the run".to_owned())?;
        // The first warms the page cache.
        if index > 0 {
            seconds.push(taken);
            resident = resident.max(memory);
        }
    }
    let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = seconds.iter().copied().fold(0.0, f64::max);
    let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
    let mut table = vec![row([
        "lines",
        "text, MB",
        "min, s",
        "median, s",
        "max, s",
        "MB/s at the median",
        "million lines/s",
        "peak memory, MiB",
    ])];
    table.push(vec![
        lines.to_string(),
        format!("{:.1}", bytes as f64 / 1e6),
        format!("{fastest:.2}"),
        format!("{:.2}", median(&seconds)),
        format!("{slowest:.2}"),
        format!("{:.0}", rate(median(&seconds))),
        format!("{:.2}", lines as f64 / 1e6 / median(&seconds)),
        format!("{:.1}", resident as f64 / f64::from(1 << 20)),
    ]);
    Ok(FigureResult {
        reached: format!(
            "{:.0} MB/s ({:.2} s for {:.0} MB)",
            rate(median(&seconds)),
            median(&seconds),
            bytes as f64 / 1e6
        ),
        commands: vec!["tardy import verbose.txt --out RUN".to_owned()],
        tables: vec![table],
        notes: vec![
            "The text is that of two threads every 1 ms, in the format of cyclictest -v, values \
             about exponential; the resulting run is written and synced to the disk."
                .to_owned(),
            format!(
                "Wall time from the start to the end of the process, of {RUNS} runs after a run \
                 that warms the page cache."
            ),
        ],
    })
}

fn write_text(path: &Path, lines: u64) -> std::io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut bytes = 0;
    let preamble = "Max CPUs = 2\nOnline CPUs = 2\n# /dev/cpu_dma_latency set to 0us\nThread 0 \
                    Interval: 1000\nThread 1 Interval: 1000\n";
    out.write_all(preamble.as_bytes())?;
    bytes += preamble.len() as u64;
    for line in 0..lines {
        let value = 5 + (-8.0 * f64::ln(1.0 - random.random::<f64>())) as u64;
        let text = format!("{:8}:{:8}:{value:8}\n", line % 2, line / 2);
        bytes += text.len() as u64;
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    Ok(bytes)
}

/// Wall time and peak memory of `tardy import`.
fn import(bench: &Bench, text: &Path, out: &Path) -> Result<(f64, u64)> {
    let begin = Instant::now();
    let mut command = Command::new(&bench.tardy);
    command
        .arg("import")
        .arg(text)
        .arg("--out")
        .arg(out)
        .stdout(Stdio::null());
    let child = command
        .spawn()
        .while_doing(|| "starting tardy".to_owned())?;
    let pid = i32::try_from(child.id()).while_doing(|| "starting tardy".to_owned())?;
    let (status, usage) =
        process::reap_with_usage(pid).while_doing(|| "waiting for tardy".to_owned())?;
    if !status.success() {
        return Err(Failure::new(format!("`tardy import` failed ({status})")));
    }
    Ok((begin.elapsed().as_secs_f64(), usage.resident_bytes_max))
}
