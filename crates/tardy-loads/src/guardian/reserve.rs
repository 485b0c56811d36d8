//! Starts the processes of workers before the measurement. They then wait for their plans.
//!
//! If a worker were started in its own phase, the start of its process would delay samples of this
//! phase: the kernel loads the program, and frees memory of the process from which it was started.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command as Program, Stdio};

use super::message::WorkerKind;
use crate::lines::Lines;
use crate::load::worker::WorkerPlan;

/// The process of a worker.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    pub(super) pid: i32,
    /// Standard input of the worker. Its first line is the worker's plan. Closing this input asks
    /// the worker to stop.
    pub(super) stop: Option<ChildStdin>,
    pub(super) reports: Lines<ChildStdout>,
    pub(super) killed: bool,
    /// Whether the worker has ended all its work and only sleeps.
    pub(super) is_resting: bool,
}

/// The processes of workers that wait for their plans.
#[derive(Debug, Default)]
pub(super) struct Reserve(Vec<(WorkerKind, WorkerProcess)>);

impl Reserve {
    /// Starts a process for each of these workers. A process that cannot be started now is started
    /// in its phase, which reports the error.
    pub(super) fn fill(&mut self, workers: Vec<WorkerKind>) {
        let started = workers.into_iter().filter_map(|kind| {
            let process = WorkerProcess::start(&kind).ok()?;
            Some((kind, process))
        });
        self.0.extend(started);
    }

    /// Returns the process of a worker that executes `plan`. Starts a process if none waits.
    pub(super) fn worker(&mut self, plan: &WorkerPlan) -> std::io::Result<WorkerProcess> {
        let kind = WorkerKind::of(&plan.load);
        let mut process = match self.0.iter().position(|(waiting, _)| *waiting == kind) {
            Some(place) => self.0.remove(place).1,
            None => WorkerProcess::start(&kind)?,
        };
        let mut line = serde_json::to_vec(plan).expect("a plan can always be written as JSON");
        line.push(b'\n');
        if let Some(input) = &mut process.stop {
            input.write_all(&line)?;
        }
        Ok(process)
    }

    pub(super) fn contains(&self, pid: i32) -> bool {
        self.0.iter().any(|(_, process)| process.pid == pid)
    }

    /// Removes a process that has ended.
    pub(super) fn reaped(&mut self, pid: i32) {
        self.0.retain(|(_, process)| process.pid != pid);
    }
}

impl WorkerProcess {
    fn start(kind: &WorkerKind) -> std::io::Result<Self> {
        let mut program = Program::new("/proc/self/exe");
        // A separate process group can be killed as a whole. A worker that makes a session thereby
        // makes a process group, too.
        if !kind.makes_session {
            program.process_group(0);
        }
        let mut child = program
            .arg0(format!("tardy-load-{}", kind.load))
            .arg(super::WORKER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self {
            pid: i32::try_from(child.id()).unwrap_or(i32::MAX),
            stop: child.stdin.take(),
            reports: child
                .stdout
                .take()
                .map(Lines::new)
                .expect("standard output was configured as a pipe"),
            killed: false,
            is_resting: false,
        })
    }
}
