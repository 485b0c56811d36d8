//! Sends SIGKILL to every command that writes files, at moments spread over the command's duration.

use std::path::Path;
use std::time::{Duration, Instant};

use tardy_sys::process;
use xtask::failure::Result;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::output;
use crate::place::PATIENCE;

pub(crate) const FAULT: Fault = Fault {
    name: "kill",
    done: "each command that writes is killed (SIGKILL) at moments spread over its run time",
    demanded: "after `tardy restore`, no process, mount or scratch file is left; a run's folder \
               opens, and the run's counts add up; an output file is either the whole older file \
               or the whole new one",
    attempt,
};

/// Commands that write files, each with the number of kills in the short form and in the full form.
const WRITERS: &str = "\
6 40 run --for 1500ms --load none --quiet --out run
3 20 run --for 1500ms --load io --load fork --quiet --out run
3 15 run --for 1500ms --load none --quiet --spool spool --out run
2 10 run --for 1500ms --load hackbench --explain --quiet --out run
2 10 run --for 1500ms --load none --move-irqs --cpus last --quiet --out run
2 5 cyclictest -D 1 -q --tardy-out run
2 10 load memory procfs --for 1s
2 15 cost --metric null-call --metric open-close --rounds 1 --trials 3 --out run
3 15 import ../base/verbose --period 1ms --out run
3 15 export ../base/run --format csv --output output.svg
2 10 export ../base/run --format hgrm --output output.svg
3 15 report ../base/run --html output.svg
2 10 plot ../base/run --kind hist -o output.svg
2 10 history ../base --html output.svg
0 8 lab run --kernel debian:6.1 --for 300ms --load none --replicas 1 --out lab
";

/// A command from [`WRITERS`], with its number of kills in both forms.
struct Writer {
    line: &'static str,
    short: usize,
    full: usize,
}

fn writers() -> impl Iterator<Item = Writer> {
    WRITERS.lines().map(|row| {
        let mut parts = row.splitn(3, ' ');
        let mut number = || parts.next().and_then(|part| part.parse().ok());
        let (short, full) = (number(), number());
        Writer {
            line: parts.next().expect("a row has a command"),
            short: short.expect("a row begins with a number"),
            full: full.expect("a row has two numbers"),
        }
    })
}

/// The brief form kills only commands that the short form kills at least this many times.
const BRIEF_MIN: usize = 3;

fn attempt(ground: &Ground) -> Result<Tally> {
    folders::base(ground)?;
    let mut tally = Tally::default();
    for writer in writers() {
        let kills = ground.tries(writer.short, writer.full);
        if kills == 0 || ground.is_brief() && writer.short < BRIEF_MIN {
            continue;
        }
        let line = writer
            .line
            .replace("--cpus last", &format!("--cpus {}", folders::last_cpu()));
        let place = ground.place()?;
        let start = Instant::now();
        let size = match output::of_undisturbed(&place, place.tardy_command(&line), &line) {
            Ok(size) => size,
            Err(failure) => {
                tally.failures.push(failure.to_string());
                continue;
            }
        };
        let length = start.elapsed();
        for number in 0..kills {
            // The fractional parts of multiples of the golden ratio are evenly spread for any
            // number of kills, and are the same in every test.
            let share = (0.5 + number as f64 * 0.618_033_988_75).fract();
            let moment = length.mul_f64(share * 1.02);
            let (seen, wrong) = killed(ground, &line, moment, size)?;
            tally.count(
                &format!(
                    "tardy {line}, killed after {:.1} ms",
                    moment.as_secs_f64() * 1e3
                ),
                seen,
                wrong,
            );
        }
    }
    Ok(tally)
}

/// Kills `tardy LINE` when it has run for the time `moment`. `size` is the size of a complete
/// output, if the command writes one.
fn killed(
    ground: &Ground,
    line: &str,
    moment: Duration,
    size: Option<u64>,
) -> Result<(&'static str, Vec<String>)> {
    let place = ground.place()?;
    let output = place.path(output::NAME);
    if size.is_some() {
        output::write_old(&output)?;
    }
    let mounts = mounts();
    let mut running = place.start(place.tardy_command(line))?;
    std::thread::sleep(moment);
    let had_ended = running.has_ended();
    if !had_ended {
        running.signal(process::KILL)?;
    }
    running.end(&place, PATIENCE)?;
    let (mut wrong, folder) = folders::after(&place, None, "run")?;
    if self::mounts() != mounts {
        wrong.push("a mount is left".to_owned());
    }
    let seen = match size {
        Some(size) => {
            wrong.extend(output::partly_replaced(&output, size));
            if output::is_old(&output) {
                "output unchanged"
            } else {
                "output replaced"
            }
        }
        None if line.ends_with("out run") => folder.seen(had_ended),
        None => "no output to check",
    };
    Ok((seen, wrong))
}

fn mounts() -> usize {
    std::fs::read_to_string(Path::new("/proc/self/mounts"))
        .unwrap_or_default()
        .lines()
        .count()
}

impl Folder {
    fn seen(&self, had_ended: bool) -> &'static str {
        match self {
            Self::Absent => "run not started",
            Self::NotBegun => "folder without run.json",
            Self::Opens { state, .. } if state == "finished" || had_ended => "run finished",
            Self::Opens { .. } => "run cut off, opens",
            Self::Refused(_) => "does not open",
        }
    }
}

/// Returns how often the command is killed in the full form.
#[cfg(test)]
pub(crate) fn all() -> usize {
    writers().map(|writer| writer.full).sum()
}
