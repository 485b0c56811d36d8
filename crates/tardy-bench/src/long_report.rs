//! How long the HTML report of a day's samples takes, and how large its file is.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tardy_browser::{Browser, Screen};
use tardy_sys::process;

use super::figure::{Bench, Figure, FigureResult, row};
use super::made_run;
use super::statistics::median;
use crate::failure::{Failure, Result, While};

/// As in `long-summary`.
const SAMPLES: u64 = 65_500_000;
const RUNS: usize = 5;
/// Steps of zoom, one a frame; every twentieth goes back to the whole run, which is the most to
/// draw.
const ZOOM: &str = "new Promise((done) => {
  const press = (what) => document.querySelector(`figure.timeline .tools \
                    [data-do=${what}]`).click();
  document.querySelector('figure.timeline').scrollIntoView();
  const frames = [];
  let last = performance.now();
  const step = () => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    if (frames.length > 200) return done(frames.slice(1));
    press(frames.length % 20 === 0 ? 'all' : frames.length % 3 === 0 ? 'right' : 'in');
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})";

pub(crate) const FIGURE: Figure = Figure {
    name: "long-report",
    promise: "The HTML report of 65.5 million samples takes 5 s and 3 MB, and opens in 1 s",
    measure,
};

fn measure(bench: &Bench) -> Result<FigureResult> {
    let samples = if bench.is_quick {
        SAMPLES / 20
    } else {
        SAMPLES
    };
    let mut table = vec![row([
        "run",
        "samples",
        "min, s",
        "median, s",
        "max, s",
        "peak memory, MiB",
        "file, MB",
        "first paint, ms",
        "zoom: median frame, ms",
        "longest, ms",
    ])];
    let mut reached = Vec::new();
    for series in [2, 1] {
        let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
        let (run, file) = (place.path().join("run"), place.path().join("report.html"));
        made_run::make(&bench.tardy, &run, series, samples / u64::from(series))?;
        let mut seconds = Vec::new();
        let mut resident = 0;
        // The first one warms the page cache.
        for round in 0..=RUNS {
            let mut command = Command::new(&bench.tardy);
            command
                .arg("report")
                .arg(&run)
                .arg("--html")
                .arg(&file)
                .stdout(Stdio::null());
            let begin = Instant::now();
            let child = command
                .spawn()
                .while_doing(|| "starting tardy".to_owned())?;
            let pid = i32::try_from(child.id()).while_doing(|| "starting tardy".to_owned())?;
            let (status, usage) =
                process::reap_with_usage(pid).while_doing(|| "waiting for tardy".to_owned())?;
            if !status.success() {
                return Err(Failure::new(format!("`tardy report` failed ({status})")));
            }
            if round > 0 {
                seconds.push(begin.elapsed().as_secs_f64());
                resident = resident.max(usage.resident_bytes_max);
            }
        }
        let bytes = std::fs::metadata(&file)
            .while_doing(|| format!("looking at {}", file.display()))?
            .len();
        let (fastest, slowest) = seconds
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(min, max), &s| {
                (min.min(s), max.max(s))
            });
        let megabytes = bytes as f64 / 1e6;
        let shown = show(&file)?;
        table.push(vec![
            format!("{series} series"),
            samples.to_string(),
            format!("{fastest:.2}"),
            format!("{:.2}", median(&seconds)),
            format!("{slowest:.2}"),
            format!("{:.0}", resident as f64 / f64::from(1 << 20)),
            format!("{megabytes:.2}"),
            format!("{:.0}", median(&shown.paints)),
            format!("{:.1}", shown.frame_median),
            format!("{:.1}", shown.frame_longest),
        ]);
        reached.push(format!(
            "{:.2} s and {megabytes:.2} MB for {:.1} million in {series} series, first paint \
             after {:.0} ms, longest frame of the zoom {:.0} ms",
            median(&seconds),
            samples as f64 / 1e6,
            median(&shown.paints),
            shown.frame_longest
        ));
    }
    Ok(FigureResult {
        reached: reached.join("; "),
        commands: vec!["tardy report RUN --html report.html".to_owned()],
        tables: vec![table],
        notes: vec![
            "The runs are those of `long-summary`. The samples are read twice: for the numbers, \
             and in the order of time for the charts."
                .to_owned(),
            format!(
                "Wall time from the start to the end of the process, of {RUNS} runs after a run \
                 that warms the page cache; peak memory is the process's own (wait4)."
            ),
        ],
    })
}

/// Times that a page is opened.
const OPENED: usize = 5;

struct PaintTimes {
    paints: Vec<f64>,
    frame_median: f64,
    frame_longest: f64,
}

/// What a browser makes of the report, in ms.
fn show(file: &Path) -> Result<PaintTimes> {
    let mut paints = Vec::new();
    let mut frames = Vec::new();
    for _ in 0..OPENED {
        let mut browser = Browser::open(file, Screen::DESK);
        browser.settle();
        let paint =
            browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        paints.push(
            paint
                .as_f64()
                .ok_or_else(|| Failure::new("the browser told no time of its first paint"))?,
        );
        let zoom = browser.evaluate(ZOOM);
        frames = zoom
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_f64)
            .collect();
    }
    if frames.is_empty() {
        return Err(Failure::new("the browser drew no frame"));
    }
    Ok(PaintTimes {
        paints,
        frame_median: median(&frames),
        frame_longest: frames.iter().copied().fold(0.0, f64::max),
    })
}
