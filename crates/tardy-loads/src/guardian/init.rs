//! Runs in the first process of the namespace: starts the workers of loads, reaps processes, and
//! reports events to the tool.

use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;

use tardy_core::units::Nanos;
use tardy_sys::clock;
use tardy_sys::process::{self, WaitResult};
use tardy_sys::sched;
use tardy_sys::signal::{self, SignalFd, wait_readable};

use super::message::{Command, Containment, LoadEvent, Message};
use super::reserve::Reserve;
use super::running::RunningLoad;
use crate::children;
use crate::lines::Lines;

/// Runs the init. `containment` is the name of the mechanism that the guardian set up.
pub(super) fn run(containment: &str) -> ExitCode {
    match Init::start(containment) {
        Ok(mut init) => {
            init.serve();
            // When this process ends, the kernel ends all other processes of the namespace.
            ExitCode::SUCCESS
        }
        Err(error) => {
            tardy_sys::say!(
                "tardy: the process that owns the loads cannot start: {error}; loads cannot run"
            );
            ExitCode::FAILURE
        }
    }
}

struct Init {
    commands: Lines<std::io::Stdin>,
    signals: SignalFd,
    reserve: Reserve,
    loads: Vec<RunningLoad>,
    /// Sleeping processes of workers whose loads have ended. The oldest is first.
    resting: VecDeque<i32>,
    /// Whether a worker that was killed or died may have left processes that only the init can end.
    orphans_possible: bool,
}

/// Maximum number of sleeping workers. In runs of many phases, the oldest workers beyond this
/// number are killed, because each sleeping worker keeps its memory block, its page tables and its
/// kernel stack.
const RESTING_MAX: usize = 64;
/// Interval between checks whether killed processes are gone.
const ORPHAN_CHECK_MS: i32 = 20;

impl Init {
    fn start(containment: &str) -> std::io::Result<Self> {
        let unknown =
            || std::io::Error::other(format!("unknown kind of containment: `{containment}`"));
        let containment = Containment::from_name(containment).ok_or_else(unknown)?;
        process::set_parent_death_signal(process::KILL)?;
        process::become_subreaper()?;
        let _ = sched::set_policy(0, sched::AHEAD);
        let signals = SignalFd::block(&[
            process::CHILD_ENDED,
            signal::INTERRUPT,
            signal::TERMINATE,
            signal::HANG_UP,
        ])?;
        say(&Message::Ready { containment });
        // If the guardian died before this process requested the parent-death signal, the input is
        // already closed, which ends the loop at once.
        Ok(Self {
            commands: Lines::new(std::io::stdin()),
            signals,
            reserve: Reserve::default(),
            loads: Vec::new(),
            resting: VecDeque::new(),
            orphans_possible: false,
        })
    }

    fn serve(&mut self) {
        while !self.commands.ended() {
            let descriptors: Vec<BorrowedFd<'_>> = [self.commands.as_fd(), self.signals.as_fd()]
                .into_iter()
                .chain(self.loads.iter().flat_map(RunningLoad::descriptors))
                .collect();
            if wait_readable(&descriptors, self.timeout_ms()).is_err() {
                return;
            }
            for line in self.commands.take() {
                self.obey(&line);
            }
            while let Ok(Some(_)) = self.signals.take() {}
            self.tend();
        }
    }

    fn obey(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Command::Prepare { workers }) => self.reserve.fill(workers),
            Ok(Command::Begin { phase, loads }) => {
                for plan in loads {
                    let load = RunningLoad::start(phase, plan, &mut self.reserve, &mut tell);
                    self.loads.push(load);
                }
            }
            Ok(Command::Finish { phase, within }) => {
                for load in self.loads.iter_mut().filter(|load| load.phase() == phase) {
                    load.finish(within);
                }
            }
            Err(error) => tell(LoadEvent::Problem {
                load: None,
                text: format!("a command is unreadable and is ignored: {error}"),
            }),
        }
    }

    /// Reads messages of workers, reaps and restarts workers, kills overdue processes, and reports
    /// which loads have ended.
    fn tend(&mut self) {
        for load in &mut self.loads {
            load.listen(&mut tell);
        }
        while let Ok(WaitResult::Ended(pid, status)) = process::reap_any(false) {
            if let Some(load) = self.loads.iter_mut().find(|load| load.owns(pid)) {
                self.orphans_possible |= !status.success();
                load.reaped(pid, status, &mut tell);
            }
            self.resting.retain(|&resting| resting != pid);
            self.reserve.reaped(pid);
        }
        let now = clock::monotonic();
        for load in &mut self.loads {
            load.keep_time(now, &mut self.reserve, &mut tell);
        }
        if self.orphans_possible {
            self.end_orphans();
        }
        // A load has ended only when all its processes have ended. While there are orphans, it is
        // unknown whether a load has ended.
        if !self.orphans_possible {
            let resting = &mut self.resting;
            self.loads.retain(|load| {
                let has_ended = load.tell_if_ended(&mut tell);
                if has_ended {
                    resting.extend(load.resting());
                }
                !has_ended
            });
            let too_many = self.resting.len().saturating_sub(RESTING_MAX);
            for pid in self.resting.drain(..too_many) {
                let _ = process::kill(pid, process::KILL);
            }
        }
    }

    /// Kills orphans. A living worker is the subreaper of its processes. So a child of this process
    /// that is not a worker has lost its worker.
    fn end_orphans(&mut self) {
        let orphans: Vec<i32> = children::of_this_process()
            .into_iter()
            .filter(|pid| !self.resting.contains(pid) && !self.reserve.contains(*pid))
            .filter(|&pid| !self.loads.iter().any(|load| load.owns(pid)))
            .collect();
        for &orphan in &orphans {
            let _ = process::kill(orphan, process::KILL);
        }
        self.orphans_possible = !orphans.is_empty();
    }

    /// Returns the time until the next due action in ms, or -1 if none is due.
    fn timeout_ms(&self) -> i32 {
        if self.orphans_possible {
            return ORPHAN_CHECK_MS;
        }
        let Some(due) = self.loads.iter().filter_map(RunningLoad::next_due).min() else {
            return -1;
        };
        let wait = (due - Nanos(clock::monotonic())).get().max(0);
        i32::try_from(wait / 1_000_000 + 1).unwrap_or(i32::MAX)
    }
}

fn tell(event: LoadEvent) {
    say(&Message::Event(event));
}

fn say(message: &Message) {
    let mut line = serde_json::to_vec(message).expect("a message can always be written as JSON");
    line.push(b'\n');
    // If the reader is gone, so is the tool. The guardian then ends this process.
    let _ = std::io::stdout().lock().write_all(&line);
}
