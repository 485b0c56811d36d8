//! Runs in the guardian's own process: makes the namespace, starts its init, passes commands on,
//! and undoes changes when the tool is gone.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command as Program, ExitCode, Stdio};

use tardy_core::cpu::CpuList;
use tardy_machine::undo::{Undo, run_all};
use tardy_sys::namespace::{self, Namespace};
use tardy_sys::process::{self, WaitResult};
use tardy_sys::sched::{self, Policy};
use tardy_sys::scoped;
use tardy_sys::signal::{self, SignalFd, wait_readable};

use super::message::{Command, Containment, LoadEvent, Message};
use crate::lines::Lines;

/// Runs the guardian. `cpus` are the CPUs for the guardian and the init, in the kernel's notation
/// (empty for no change). `strongest` is the name of the strongest containment to try. `group` is
/// the control group to join, or empty.
pub(super) fn run(cpus: &str, strongest: &str, group: &Path) -> ExitCode {
    match Guard::start(cpus, strongest, group) {
        Ok(mut guard) => {
            guard.serve();
            guard.end();
            ExitCode::SUCCESS
        }
        Err(error) => {
            let error = scoped::refused(error);
            tell(format!(
                "the load supervisor cannot start: {error}; loads cannot run"
            ));
            ExitCode::from(3)
        }
    }
}

struct Guard {
    containment: Containment,
    init: Init,
    to_init: Option<ChildStdin>,
    signals: SignalFd,
    commands: Lines<std::io::Stdin>,
    undo: Vec<Undo>,
}

/// The init process. The kernel may reuse its process number as soon as it is reaped.
struct Init {
    process: i32,
    is_reaped: bool,
}

impl Init {
    /// Calls `reap` until it has reaped the init or finds no other ended child. Returns whether the
    /// init has ended. If `reap` fails, the init counts as ended. If there is no namespace, orphans
    /// of the loads become children of this process; they are reaped and ignored.
    fn has_ended(&mut self, mut reap: impl FnMut() -> std::io::Result<WaitResult>) -> bool {
        while !self.is_reaped {
            match reap() {
                Ok(WaitResult::Ended(process, _)) => self.is_reaped = process == self.process,
                Ok(WaitResult::NoneYet) => return false,
                Ok(WaitResult::NoChildren) => self.is_reaped = true,
                Err(_) => return true,
            }
        }
        true
    }

    /// Returns the init's process number, as long as the init is not reaped.
    fn number(&self) -> Option<i32> {
        (!self.is_reaped).then_some(self.process)
    }
}

impl Guard {
    fn start(cpus: &str, strongest: &str, group: &Path) -> std::io::Result<Self> {
        // The call fails if the process already leads a session; that session serves as well.
        let _ = process::new_session();
        process::become_subreaper()?;
        // The signals are blocked, not ignored. Every load's worker inherits this, and unblocks all
        // signals before it starts a user's own command. Ignored signals would stay ignored in that
        // command.
        let signals = SignalFd::block(&[
            process::CHILD_ENDED,
            signal::INTERRUPT,
            signal::TERMINATE,
            signal::HANG_UP,
        ])?;
        // The guardian and the loads must not keep the scheduling policy that the tool was started
        // with.
        let _ = sched::set_policy(0, Policy::Other { nice: 0 });
        let _ = sched::set_policy(0, sched::AHEAD);
        if !group.as_os_str().is_empty() {
            let named = |error: std::io::Error| {
                std::io::Error::new(
                    error.kind(),
                    format!("cannot join {}: {error}", group.display()),
                )
            };
            tardy_machine::groups::join_process(group).map_err(named)?;
        }
        bind(cpus)?;
        let unknown =
            || std::io::Error::other(format!("unknown kind of containment: `{strongest}`"));
        let containment = contain(Containment::from_name(strongest).ok_or_else(unknown)?)?;
        let mut command = Program::new("/proc/self/exe");
        command
            .arg0("tardy-init")
            .arg(super::INIT)
            .arg(containment.name())
            .stdin(Stdio::piped());
        let mut init = command.spawn()?;
        let to_init = init.stdin.take();
        let init = Init {
            process: i32::try_from(init.id()).unwrap_or(i32::MAX),
            is_reaped: false,
        };
        Ok(Self {
            containment,
            init,
            to_init,
            signals,
            commands: Lines::new(std::io::stdin()),
            undo: Vec::new(),
        })
    }

    /// Passes commands to the init until the tool or the init is gone.
    fn serve(&mut self) {
        while !self.commands.ended() {
            if wait_readable(&[self.commands.as_fd(), self.signals.as_fd()], -1).is_err() {
                return;
            }
            while let Ok(Some(signal)) = self.signals.take() {
                // The tool handles all other signals.
                if signal == process::CHILD_ENDED
                    && self.init.has_ended(|| process::reap_any(false))
                {
                    tell(
                        "the process that owns the loads ended; all loads have stopped".to_owned(),
                    );
                    return;
                }
            }
            for line in self.commands.take() {
                self.hand_on(&line);
            }
        }
    }

    fn hand_on(&mut self, line: &str) {
        match serde_json::from_str::<Command>(line) {
            Ok(Command::Begin { loads, .. }) => {
                // The guardian must know how to undo a load's changes before the load makes them.
                self.undo
                    .extend(loads.into_iter().flat_map(|load| load.undo));
            }
            Ok(Command::Prepare { .. } | Command::Finish { .. }) => {}
            Err(error) => {
                tell(format!(
                    "a command from the tool is unreadable and is ignored: {error}"
                ));
                return;
            }
        }
        let Some(to_init) = &mut self.to_init else {
            return;
        };
        if to_init
            .write_all(line.as_bytes())
            .and_then(|()| to_init.write_all(b"\n"))
            .is_err()
        {
            // The signal for ended children informs the guardian that the init has ended.
            self.to_init = None;
        }
    }

    /// Ends all processes below the guardian, then undoes the changes of loads.
    fn end(&mut self) {
        if let Some(init) = self.init.number() {
            let _ = process::kill(init, process::KILL);
            // In a namespace, this call returns when the kernel has ended every process of the
            // namespace.
            let _ = process::reap(init, true);
        }
        if self.containment == Containment::ParentSignals {
            end_orphans();
        }
        for (_, result) in run_all(&self.undo) {
            if let Err(error) = result {
                tell(error.to_string());
            }
        }
    }
}

/// Kills the descendants of a killed init. If there is no namespace, they become children of this
/// process, one generation after the other.
fn end_orphans() {
    loop {
        // Reaps all ended children before the next read of /proc, because such a read takes long
        // with many processes.
        loop {
            match process::reap_any(false) {
                Ok(WaitResult::Ended(..)) => {}
                Ok(WaitResult::NoneYet) => break,
                Ok(WaitResult::NoChildren) | Err(_) => return,
            }
        }
        for child in crate::children::of_this_process() {
            let _ = process::kill(child, process::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn bind(cpus: &str) -> std::io::Result<()> {
    let cpus: CpuList = cpus.parse().map_err(std::io::Error::other)?;
    if cpus.is_empty() {
        return Ok(());
    }
    tardy_sys::affinity::set(0, &cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>())
}

/// Sets up the strongest available containment that is not stronger than `strongest`, and returns
/// it.
fn contain(strongest: Containment) -> std::io::Result<Containment> {
    if strongest <= Containment::PidNamespace && namespace::unshare(Namespace::Processes).is_ok() {
        return Ok(Containment::PidNamespace);
    }
    let (user, group) = tardy_sys::user::user_and_group();
    if strongest > Containment::UserNamespace
        || namespace::unshare(Namespace::ProcessesAsUser).is_err()
    {
        return Ok(Containment::ParentSignals);
    }
    // The namespace keeps the tool's user and group, so that files are opened with the same rights
    // as without the namespace. user_namespaces(7) requires that setgroups is written before
    // gid_map.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(Containment::UserNamespace)
}

/// Sends a message of the guardian itself directly to the tool. A line is shorter than an atomic
/// pipe write, so it is not mixed with the init's lines.
fn tell(text: String) {
    let message = Message::Event(LoadEvent::Problem { load: None, text });
    if let Ok(mut line) = serde_json::to_vec(&message) {
        line.push(b'\n');
        // The tool may be gone.
        let _ = std::io::stdout().lock().write_all(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_number_that_was_reaped_is_not_killed() {
        let ended = |process| {
            Ok(WaitResult::Ended(
                process,
                std::process::ExitStatus::from_raw(9),
            ))
        };
        let mut init = Init {
            process: 7,
            is_reaped: false,
        };
        let mut orphans = vec![Ok(WaitResult::NoneYet), ended(8)];
        assert!(!init.has_ended(|| orphans.pop().unwrap()));
        assert!(init.has_ended(|| Err(std::io::Error::other("interrupted"))));
        assert_eq!(init.number(), Some(7));
        let mut all = vec![ended(9), ended(7), ended(8)];
        assert!(init.has_ended(|| all.pop().unwrap()));
        assert_eq!((init.number(), all.len()), (None, 1));
        let mut gone = Init {
            process: 7,
            is_reaped: false,
        };
        assert!(gone.has_ended(|| Ok(WaitResult::NoChildren)));
        assert_eq!(gone.number(), None);
    }
}
