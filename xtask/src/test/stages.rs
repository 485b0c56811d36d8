//! The stages of a check: each has its wall time, its CPU time, and the load of the machine.

use std::fmt;
use std::time::{Duration, Instant};

use crate::failure::{self, Result};
use crate::program::children_cpu_s;

/// The stages that have run, in order, and those of them that failed.
#[derive(Debug, Default)]
pub(super) struct Stages {
    rows: Vec<Row>,
    failed: Vec<String>,
}

#[derive(Debug)]
struct Row {
    name: String,
    wall: Duration,
    /// CPU time of the stage's processes, in s.
    cpu: f64,
    /// Load average of the last minute at the end of the stage.
    load: String,
}

impl Stages {
    /// Runs a stage on which later stages depend.
    pub(super) fn run<T>(&mut self, name: &str, stage: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("== {name}");
        let (begin, cpu) = (Instant::now(), children_cpu_s());
        let result = stage();
        self.rows.push(Row {
            name: name.to_owned(),
            wall: begin.elapsed(),
            cpu: children_cpu_s() - cpu,
            load: load(),
        });
        result
    }

    /// Runs a stage on which no later stage depends; if it fails, later stages still run.
    pub(super) fn try_run(&mut self, name: &str, stage: impl FnOnce() -> Result<()>) {
        if let Err(failure) = self.run(name, stage) {
            eprintln!("xtask: {failure}");
            self.fail(name);
        }
    }

    /// Records a failure.
    pub(super) fn fail(&mut self, name: &str) {
        self.failed.push(name.to_owned());
    }

    /// If any stages failed, returns an error that names all of them.
    pub(super) fn result(&self) -> Result<()> {
        failure::unless_empty("failed: ", &self.failed)
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<28} {:>8} {:>8} {:>6}",
            "stage", "wall", "CPU", "load"
        )?;
        for row in &self.rows {
            let wall = row.wall.as_secs_f64();
            writeln!(
                f,
                "{:<28} {wall:>6.0} s {:>6.0} s {:>6}",
                row.name, row.cpu, row.load
            )?;
        }
        let wall: f64 = self.rows.iter().map(|row| row.wall.as_secs_f64()).sum();
        let cpu: f64 = self.rows.iter().map(|row| row.cpu).sum();
        writeln!(
            f,
            "{:<28} {:>4.1} min {:>4.1} min",
            "all",
            wall / 60.0,
            cpu / 60.0
        )
    }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn a_failed_stage_is_named_and_the_next_one_runs() {
        let mut stages = Stages::default();
        stages.try_run("first", || Err(Failure::new("broken")));
        stages.try_run("second", || Ok(()));
        assert_eq!(stages.result().unwrap_err().to_string(), "failed: first");
        let table = stages.to_string();
        assert!(
            table.contains("first") && table.contains("second"),
            "{table}"
        );
    }
}
