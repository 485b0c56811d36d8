//! `console`: switches virtual terminals (abeni2002, sections 3.2 and 4.2.1).

use std::fs::{File, OpenOptions};

use tardy_core::units::Nanos;
use tardy_machine::undo::Undo;
use tardy_run::parameter::Parameter;
use tardy_sys::capability;
use tardy_sys::console;

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "console",
    does: "switches between the virtual terminal that is shown and a free one",
    effect: "the console driver redraws the screen in long code paths; `all` leaves this load out, \
             because it takes the screen from its user",
    source: "abeni2002",
    parameters: &[
        Parameter::duration(
            "pause",
            "rest between switches",
            "10ms",
            Nanos::ZERO,
            Nanos::from_secs(10),
        ),
        PASSES,
    ],
    can_do_harm: true,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[capability::SYS_TTY_CONFIG],
        opens: "the console",
    },
    resolve,
    run: Run::Prepared(prepare),
};

const CONSOLE: &str = "tty0";

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let path = resolution.host.dev.join(CONSOLE);
    let console = open_console(&path)?;
    let number = console::active(&console).map_err(|error| no_terminal(&path, &error))?;
    console::free(&console).map_err(|error| no_terminal(&path, &error))?;
    resolution.plan.undo.push(Undo::ShowTerminal {
        console: path,
        number,
    });
    resolution.plan.budget.processes = 1;
    Ok(())
}

/// Opens a virtual terminal with the access that the loads need.
pub(super) fn open_console(path: &std::path::Path) -> Result<File, Unsupported> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| no_terminal(path, &error))
}

fn no_terminal(path: &std::path::Path, error: &std::io::Error) -> Unsupported {
    let remedy = "run as root, on a kernel with CONFIG_VT and either a screen or \
                  CONFIG_DUMMY_CONSOLE";
    Unsupported::new(
        format!(
            "access to the virtual terminal {} ({error})",
            path.display()
        ),
        remedy,
    )
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let Some(Undo::ShowTerminal {
        console: path,
        number,
    }) = worker.plan.load.undo.first().cloned()
    else {
        return Err(WorkError::Bound(
            "the load's plan names no terminal to return to".to_owned(),
        ));
    };
    let console = open_console(&path).map_err(WorkError::Absent)?;
    Ok(Box::new(move |worker| run(worker, &console, number)))
}

fn run(worker: &mut Worker, console: &File, number: u16) -> Result<(), WorkError> {
    let other = console::free(console).doing("find a free terminal")?;
    let pause = worker.plan.load.parameters.duration("pause");
    let mut next = other;
    while worker.begin_pass() && worker.rest(pause) {
        match console::show(console, next) {
            Ok(()) => worker.did(1, 0),
            Err(_) => worker.failed(),
        }
        next = if next == other { number } else { other };
    }
    console::show(console, number).doing("show the first terminal again")
}
