//! What the live view of `tardy run` costs, and where its thread runs.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::figure::{Bench, Figure, FigureResult, row, scratch};
use super::sched_trace::SchedTrace;
use super::threads::{self, Thread};
use crate::failure::{Failure, Result, While};

pub(crate) const FIGURE: Figure = Figure {
    name: "live-view",
    promise: "The live view takes at most 1 % of a CPU, and never runs on a measured CPU",
    measure,
};

const SHARE_MAX: f64 = 0.01;
const PATIENCE: Duration = Duration::from_secs(30);

fn measure(bench: &Bench) -> Result<FigureResult> {
    let cpu = bench.measured_cpu()?;
    let seconds = if bench.is_quick { 5 } else { 30 };
    let with = observe(bench, cpu, seconds, "")?;
    let without = observe(bench, cpu, seconds, " --no-live")?;
    let share = |observed: &Observation, name: &str| {
        let time: u64 = observed
            .spent
            .iter()
            .filter(|thread| thread.name == name)
            .map(|thread| thread.cpu_time)
            .sum();
        time as f64 / 1e9 / seconds as f64
    };
    let mut table = vec![row(["thread", "share of a CPU, with the view", "without"])];
    let mut more = 0.0;
    for name in ["tardy-view", "tardy-recorder", "tardy"] {
        let (with, without) = (share(&with, name), share(&without, name));
        more += with - without;
        table.push(vec![
            name.to_owned(),
            format!("{:.3} %", with * 100.0),
            format!("{:.3} %", without * 100.0),
        ]);
    }
    let on_measured = with.others_on_measured;
    let verdict = if more <= SHARE_MAX && on_measured == 0 {
        "holds"
    } else {
        "NOT reached"
    };
    Ok(FigureResult {
        reached: format!(
            "{:.2} % of one CPU more, {on_measured} turns of other threads on the measured CPU in \
             {seconds} s: {verdict}",
            more * 100.0
        ),
        tables: vec![table],
        notes: vec![format!(
            "CPU {cpu} measured at 1 kHz, a terminal of 80 x 24 made by script(1). CPU time by \
             /proc/PID/task/TID/schedstat; turns counted by sched:sched_switch."
        )],
    })
}

struct Observation {
    spent: Vec<Thread>,
    others_on_measured: u64,
}

fn observe(bench: &Bench, cpu: u32, seconds: u64, flags: &str) -> Result<Observation> {
    let place = scratch()?;
    let line = format!(
        "{} run --cycles {} --cpus {cpu} --load none --out run{flags}",
        bench.tardy.display(),
        (seconds + 5) * 1000
    );
    let mut command = Command::new("script");
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .current_dir(place.path())
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    bench.note(&command);
    let mut child = command
        .spawn()
        .while_doing(|| "starting script of util-linux".to_owned())?;
    let observed = follow(&child, cpu, seconds);
    let _ = child.kill();
    let _ = child.wait();
    let (spent, others_on_measured) = observed?;
    Ok(Observation {
        spent,
        others_on_measured,
    })
}

/// What the tool's threads use once it measures, and how often those that do not measure came onto
/// the measured CPU.
fn follow(child: &Child, cpu: u32, seconds: u64) -> Result<(Vec<Thread>, u64)> {
    let patience = Instant::now() + PATIENCE;
    let tool = loop {
        let threads = threads::when_measuring(child.id())
            .ok_or_else(|| Failure::new("the tool does not measure in a terminal"))?;
        if let Some(recorder) = threads
            .iter()
            .find(|thread| thread.name == "tardy-recorder")
        {
            break recorder.process;
        }
        if Instant::now() > patience {
            return Err(Failure::new("the tool has no recorder"));
        }
    };
    let before = threads::of_tree(tool);
    let trace = SchedTrace::start(&before.iter().map(|thread| thread.id).collect::<Vec<_>>());
    std::thread::sleep(Duration::from_secs(seconds));
    let switches = trace.and_then(SchedTrace::finish)?;
    let spent = threads::since(&before, &threads::of_tree(tool));
    let measuring = threads::measuring(&spent)
        .ok_or_else(|| Failure::new("the tool has no thread that measures"))?
        .id;
    let others = switches
        .iter()
        .filter(|&(&(on, thread), _)| on == cpu && thread != measuring)
        .map(|(_, count)| count)
        .sum();
    Ok((spent, others))
}
