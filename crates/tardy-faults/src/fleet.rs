//! Runs one command on eight boards, each of which has a different fault. A board is an sshd in its
//! own namespaces ([`Board`]). The monotonic clock of one board is 12 years ahead; its
//! CLOCK_REALTIME is not, because a time namespace cannot shift that clock.

use std::path::Path;
use std::time::{Duration, Instant};

use xtask::failure::Result;
use xtask::workspace;

use crate::board::{Board, Rack};
use crate::fault::{Fault, Form, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{Outcome, PATIENCE, Place};

pub(crate) const FLEET: Fault = Fault {
    name: "fleet",
    done: "`run --on` on eight boards, each behind an sshd in namespaces. Each board has one \
           fault: 100 ms of delay each way; 3 % of the packets lost; a monotonic clock 12 years \
           ahead; all processes stopped (SIGSTOP); an endless output; a full disk; a reboot; sshd \
           killed. Each of the last five faults occurs while tardy looks for a folder, copies \
           itself, starts the run, measures, or sends the results",
    demanded: "the command ends in time with the documented exit code; the results of the first \
               three boards arrive whole and are in the table; the results of each other board \
               arrive whole, or a message names the board and the reason; after `tardy fetch` and \
               `tardy restore --on`, no process, file or mount is left on any board",
    attempt: fleet,
};

/// The fault of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Delay,
    Loss,
    Clock,
    Hang,
    Endless,
    Full,
    Reboot,
    Daemon,
}

use Trouble::{Clock, Daemon, Delay, Endless, Full, Hang, Loss, Reboot};

const TROUBLES: [Trouble; 8] = [Delay, Loss, Clock, Hang, Endless, Full, Reboot, Daemon];
/// The faults of the brief form, which end quickly.
const QUICK: [Trouble; 3] = [Clock, Endless, Full];
/// The steps at which faults occur. Each is a text that occurs only in the command that the step
/// executes on the board. Shorter forms try only the first step. A fault occurs before the step's
/// command does anything; in `WHILE_MEASURING`, it occurs after the first samples.
const STEPS: [&str; 5] = [
    WHILE_MEASURING,
    "tardy-machine",
    "on-board digest",
    "on-board start",
    "on-board send",
];
const WHILE_MEASURING: &str = "on-board wait";
/// How long `run --on` may take after the last fault: ssh gives up a silent board after a minute,
/// and then `tardy` tries for 78 s to reach the board again. Each step before the start of the
/// command may take two minutes.
const COMMAND: Duration = Duration::from_secs(180);
/// How long a board stays off during a reboot. A board whose sshd was killed has no sshd for the
/// same time.
const OFF: Duration = Duration::from_secs(3);

impl Trouble {
    /// Returns whether the complete results must arrive in spite of the fault.
    fn is_harmless(self) -> bool {
        matches!(self, Delay | Loss | Clock)
    }

    /// Returns texts that name the fault. If the results do not arrive completely, the error
    /// message must contain at least one of these texts.
    fn reasons(self) -> &'static [&'static str] {
        match self {
            Delay | Loss | Clock => &[],
            Hang => &["not responding", "timed out", "did not answer"],
            Endless => &["printed more than", "not an archive"],
            Full => &["No space left on device"],
            Reboot | Daemon => &[
                "Connection",
                "closed by remote host",
                "restart",
                "Broken pipe",
            ],
        }
    }

    /// Returns whether the fault always prevents complete results. A board that reboots before or
    /// after its run can deliver complete results.
    fn is_always_named(self) -> bool {
        matches!(self, Hang | Endless)
    }
}

fn fleet(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    let troubles = if ground.is_brief() {
        &QUICK[..]
    } else {
        &TROUBLES
    };
    let steps = if ground.form == Form::Full {
        &STEPS[..]
    } else {
        &STEPS[..1]
    };
    for step in steps {
        round(ground, troubles, step, &mut tally)?;
    }
    Ok(tally)
}

/// Runs one command on all boards. All harmful faults of the boards occur at `step`.
fn round(ground: &Ground, troubles: &[Trouble], step: &str, tally: &mut Tally) -> Result<()> {
    let place = ground.place()?;
    let rack = Rack::new(&place)?;
    let mut boards: Vec<Board> = troubles
        .iter()
        .enumerate()
        .map(|(number, &trouble)| {
            let step = (!trouble.is_harmless()).then_some(step);
            Board::new(&place, &rack, number, trouble, step)
        })
        .collect::<Result<_>>()?;
    let lines: String = boards
        .iter()
        .map(|board| format!("{0} ssh://{0}\n", board.name))
        .collect();
    workspace::write(&place.path("boards.txt"), lines)?;

    let line = "run --for 4s --load fork --on boards.txt --ssh-config ssh_config --out out";
    let mut running = rack.start(&place, line)?;
    let mut since = Instant::now();
    while !running.has_ended() && since.elapsed() < COMMAND {
        for board in &mut boards {
            if board.suffer(step == WHILE_MEASURING, OFF)? {
                since = Instant::now();
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let outcome = running.end(&place, Duration::ZERO)?;
    let mut wrong: Vec<String> = outcome.disgrace().into_iter().collect();
    let mut is_any_named = false;
    for board in &mut boards {
        board.mend()?;
    }
    for board in &boards {
        let mut of_board = Vec::new();
        let folder = folders::look_at(&place, &place.path("out").join(&board.name))?;
        of_board.extend(folder.wrong());
        // On a busy machine, the watchdog may end a run; this does not count as a violation.
        let is_ended = |state: &str| ["finished", "ended-by-watchdog"].contains(&state);
        let is_whole = matches!(&folder, Folder::Opens { state, .. } if is_ended(state))
            && folder.warnings_of("samples-not-stored").next().is_none();
        if folder.is_open() && !has_row(&outcome.printed, &board.name) {
            of_board.push("the table has no row of it".to_owned());
        }
        let said = said_of(&format!("{}{}", outcome.said, outcome.printed), &board.name);
        let reasons = board.trouble.reasons();
        let has_reason = reasons.iter().any(|reason| said.contains(reason));
        if !is_whole && !has_reason || is_whole && board.trouble.is_always_named() {
            of_board.push(format!("whole: {is_whole}, and the messages are: {said}"));
        }
        is_any_named |= !is_whole;
        let seen = match (is_whole, &folder) {
            (true, _) => "the results are whole",
            (false, Folder::Opens { .. }) => "named, the results so far arrive",
            (false, _) => clean_up(&place, &rack, board, &outcome, &mut of_board)?,
        };
        if board.trouble == Reboot {
            let line = format!("restore --on ssh://{} --ssh-config ssh_config", board.name);
            let restored = rack.start(&place, &line)?.end(&place, PATIENCE)?;
            if restored.code != Some(0) {
                of_board.push(format!("{line}: {}", restored.said));
            }
        }
        place.wait_until(|| board.left().is_empty());
        of_board.extend(board.left());
        tally.count(
            &format!("{} at {step}", board.name),
            format!("{}: {seen}", board.name),
            of_board,
        );
    }
    if outcome.code != Some(3) && is_any_named {
        wrong.push(format!("{}: {}", outcome.ending(), outcome.said));
    }
    drop(boards);
    wrong.extend(place.leftovers()?);
    tally
        .failures
        .extend(wrong.into_iter().map(|why| format!("{step}: {why}")));
    Ok(())
}

/// Does what the command's messages request: runs `tardy fetch`, or deletes a folder.
fn clean_up(
    place: &Place,
    rack: &Rack,
    board: &Board,
    outcome: &Outcome,
    wrong: &mut Vec<String>,
) -> Result<&'static str> {
    let mut said = said_of(&outcome.said, &board.name);
    let mut seen = "named";
    let fetch = said
        .split_whitespace()
        .find(|word| word.starts_with("ssh://"))
        .map(str::to_owned);
    if let Some(address) = fetch {
        let out = format!("fetched-{}", board.name);
        let line = format!("fetch {address} --ssh-config ssh_config --out {out}");
        let fetched = rack.start(place, &line)?.end(place, PATIENCE)?;
        wrong.extend(fetched.disgrace());
        let folder = folders::look(place, &out)?;
        wrong.extend(folder.wrong());
        if folder.is_open() {
            seen = "named, then fetched";
        }
        said = fetched.said;
    }
    let by_hand = |line: &&str| line.contains("delete it by hand") || line.contains("rm -r ");
    for line in said.lines().filter(by_hand) {
        seen = "named, folder deleted by hand";
        for folder in line
            .split_whitespace()
            .filter_map(|word| word.find("/").map(|at| &word[at..]))
        {
            board.remove(Path::new(folder));
        }
    }
    Ok(seen)
}

/// Returns whether the table has a row that starts with this name.
fn has_row(printed: &str, name: &str) -> bool {
    printed
        .lines()
        .any(|line| line.split_whitespace().next() == Some(name))
}

/// Returns those lines of the messages that are about a board.
fn said_of(said: &str, name: &str) -> String {
    let begins = ["tardy: ", "! ", ""].map(|begin| format!("{begin}{name}: "));
    said.lines()
        .filter(|line| begins.iter().any(|begin| line.starts_with(begin)))
        .collect::<Vec<_>>()
        .join("\n")
}
