//! `exec`: runs any command of the user.

use tardy_core::units::Nanos;
use tardy_run::parameter::{Kind, Parameter};

use super::Unsupported;
use super::info::{LoadInfo, Placement, Rights, Run, WorkError};
use super::program::{self, Outcome};
use super::resolution::Resolution;
use super::worker::Worker;
use crate::children::tied_command;

pub const INFO: LoadInfo = LoadInfo {
    name: "exec",
    does: "runs your command in a shell, and restarts the command when it exits; to stop the \
           command, sends SIGTERM, then SIGKILL 5 s later",
    effect: "depends on the command; tardy does not limit the command's memory, files or processes",
    source: "today",
    parameters: &[Parameter {
        name: "command",
        means: "the command, with its arguments",
        kind: Kind::Text,
        default: None,
        needed: true,
    }],
    can_do_harm: true,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::All,
    resolve,
    run: Run::Plain(run),
};

/// Number of failures in a row after which the command is not run again. This stops the endless
/// repetition of a mistyped name.
const FAILURES_MAX: u32 = 3;
/// Pause after the command has failed.
const FAILURE_REST: Nanos = Nanos::from_millis(500);

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    resolution.needs_program("sh", "dash")?;
    resolution.plan.budget.processes = 2;
    Ok(())
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    let text = worker.plan.load.parameters.text("command").to_owned();
    let mut failures = 0;
    while worker.go_on() {
        let mut command = tied_command("/bin/sh".as_ref());
        command.args(["-c", &text]);
        match program::run(worker, &mut command, |_, _| ())? {
            Outcome::Stopped => return Ok(()),
            Outcome::Ended(status, _) if status.success() => {
                worker.did(1, 0);
                failures = 0;
            }
            Outcome::Ended(status, error) => {
                worker.failed();
                failures += 1;
                if failures == FAILURES_MAX {
                    return Err(WorkError::Bound(format!(
                        "`{text}` failed {failures} times in a row ({status}): {error}"
                    )));
                }
                worker.rest(FAILURE_REST);
            }
        }
    }
    Ok(())
}
