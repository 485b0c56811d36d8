//! The gaps that the probe `oslat` finds against what the load `busy` wrote down of itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tardy_core::cpu::CpuId;
use tardy_machine::cpu_time::CpuTimes;
use tardy_machine::root::Root;
use tardy_samples::read_series::SeriesFile;
use tardy_sys::clock;

use super::figure::{Bench, Figure, FigureResult, row};
use crate::failure::{Failure, Result, While};
use crate::program;

pub(crate) const FIGURE: Figure = Figure {
    name: "oslat",
    promise: "The probe oslat finds each gap that the load busy recorded, with its length within 5 us; the test leaves out at most 20 % of the gaps",
    measure,
};

const LENGTH_DIFFERENCE_MAX: i64 = 5_000;
const LEFT_OUT_MAX: f64 = 0.2;
/// How often the CPU's steal time is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// What the record's elapsed and CPU time may differ by without a gap: the reads of both clocks,
/// the first one just after a wake-up.
const CLOCK_READS: i64 = 6_000;

/// A stretch of time on the monotonic clock, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    begin: i64,
    end: i64,
}

impl Stretch {
    fn length(self) -> i64 {
        self.end - self.begin
    }

    fn touches(self, other: Self) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }
}

/// What came of an interval that the load occupied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GapMatch {
    /// Something else had the CPU meanwhile, so that its length is not known.
    LeftOut,
    /// No gap holds it, or several touch it.
    Skipped,
    /// By how much the gap is longer.
    Longer(i64),
}

fn measure(bench: &Bench) -> Result<FigureResult> {
    let cpu = bench.measured_cpu()?;
    let place = tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
    let (record, run) = (place.path().join("record"), place.path().join("run"));
    let seconds = if bench.is_quick { 3 } else { 60 };
    let load = format!(
        "busy:length=3ms:period=40ms:priority=50:record={}",
        record.display()
    );
    let mut command = Command::new(&bench.tardy);
    command.args([
        "run",
        "--for",
        &format!("{seconds}s"),
        "--probe",
        "oslat:least=500us",
        "--cpus",
        &cpu.to_string(),
    ]);
    command
        .args([
            "--load",
            &load,
            "--load-cpus",
            "measured",
            "--quiet",
            "--json",
            "--out",
        ])
        .arg(&run);
    let line = program::line(&command);
    let stolen = while_watched(&mut command, cpu)?;
    let gaps = gaps(&run.join(format!("samples/oslat.cpu{cpu}.series")))?;
    let tasks = self::gaps(&run.join(format!("samples/oslat.tasks.cpu{cpu}.series")))?;
    let text = std::fs::read_to_string(place.path().join(format!("record.cpu{cpu}")))
        .while_doing(|| "reading the record".to_owned())?;
    let ended = gaps.last().map_or(0, |gap| gap.end);
    // The probe may end before the load does.
    let intervals: Vec<(Stretch, i64)> = intervals(&text)?
        .into_iter()
        .filter(|(interval, _)| interval.end <= ended)
        .collect();
    let found: Vec<GapMatch> = intervals
        .iter()
        .map(|(interval, cpu_time)| compare(*interval, *cpu_time, &gaps, &stolen))
        .collect();
    let is_told_as_task =
        |(interval, _): &&(Stretch, i64)| tasks.iter().any(|gap| gap.touches(*interval));
    let told = intervals.iter().filter(is_told_as_task).count();
    Ok(report(&found, told, gaps.len(), place.path(), line))
}

/// Runs the command, and tells the stretches of time in which the CPU's steal time grew.
fn while_watched(command: &mut Command, cpu: u32) -> Result<Vec<Stretch>> {
    let steal = || {
        let times = CpuTimes::read(&Root::system())
            .map_err(|error| Failure::new(format!("/proc/stat: {error}")))?;
        times
            .cpus
            .get(&CpuId(cpu))
            .map(|times| times.steal)
            .ok_or_else(|| Failure::new(format!("/proc/stat has no CPU {cpu}")))
    };
    let mut child = command
        .stdout(Stdio::null())
        .spawn()
        .while_doing(|| "starting tardy".to_owned())?;
    let (mut stolen, mut before, mut begin) = (Vec::new(), steal()?, clock::monotonic());
    loop {
        std::thread::sleep(LOOK);
        let (now, end) = (steal()?, clock::monotonic());
        if now != before {
            stolen.push(Stretch { begin, end });
        }
        (before, begin) = (now, end);
        match child
            .try_wait()
            .while_doing(|| "waiting for tardy".to_owned())?
        {
            None => {}
            Some(status) if status.success() => return Ok(stolen),
            Some(status) => return Err(Failure::new(format!("tardy ended with {status}"))),
        }
    }
}

fn gaps(path: &Path) -> Result<Vec<Stretch>> {
    let failed = |error: tardy_samples::read_series::SeriesError| Failure::new(error.to_string());
    let file = SeriesFile::open(path).map_err(failed)?;
    let schedule = file.descriptor().schedule;
    let mut gaps = Vec::new();
    file.read(&mut |chunk| {
        gaps.extend(chunk.samples(&schedule).map(|(_, sample)| Stretch {
            begin: sample.due.get(),
            end: sample.wake().get(),
        }));
    })
    .map_err(failed)?;
    Ok(gaps)
}

/// The load's record: start, end and CPU time of each interval.
fn intervals(text: &str) -> Result<Vec<(Stretch, i64)>> {
    let interval = |line: &str| {
        let mut numbers = line.split(' ').map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(begin)), Some(Ok(end)), Some(Ok(cpu_time))) => {
                Ok((Stretch { begin, end }, cpu_time))
            }
            _ => Err(Failure::new(format!(
                "the load's record has the line `{line}`"
            ))),
        }
    };
    text.lines().map(interval).collect()
}

fn compare(interval: Stretch, cpu_time: i64, gaps: &[Stretch], stolen: &[Stretch]) -> GapMatch {
    let has_gap = interval.length() - cpu_time > CLOCK_READS;
    if has_gap || stolen.iter().any(|stretch| stretch.touches(interval)) {
        return GapMatch::LeftOut;
    }
    let touching: Vec<&Stretch> = gaps.iter().filter(|gap| gap.touches(interval)).collect();
    match touching.as_slice() {
        [gap] => GapMatch::Longer(gap.length() - interval.length()),
        _ => GapMatch::Skipped,
    }
}

fn report(
    found: &[GapMatch],
    told: usize,
    gaps: usize,
    place: &Path,
    line: String,
) -> FigureResult {
    let left_out = found
        .iter()
        .filter(|found| **found == GapMatch::LeftOut)
        .count();
    let mut longer: Vec<i64> = found
        .iter()
        .filter_map(|found| {
            if let GapMatch::Longer(ns) = found {
                Some(*ns)
            } else {
                None
            }
        })
        .collect();
    longer.sort_unstable();
    let compared = found.len() - left_out;
    let median = longer
        .get(longer.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or_default();
    let steady = longer
        .iter()
        .filter(|ns| (*ns - median).abs() <= LENGTH_DIFFERENCE_MAX)
        .count();
    let within = longer
        .iter()
        .filter(|ns| ns.abs() <= LENGTH_DIFFERENCE_MAX)
        .count();
    let share = left_out as f64 / found.len().max(1) as f64;
    let holds = |is_reached: bool| if is_reached { "holds" } else { "NOT reached" };
    let count_holds = compared > 0 && compared - longer.len() <= 1;
    let at = |part: f64| {
        longer
            .get((longer.len().saturating_sub(1) as f64 * part) as usize)
            .map_or_else(String::new, |ns| micros(*ns))
    };
    FigureResult {
        reached: format!(
            "{} of {compared} found: {}; {within} of {} within 5 us: {}; {:.1} % left out: {}",
            longer.len(),
            holds(count_holds),
            longer.len(),
            holds(within == longer.len() && within > 0),
            100.0 * share,
            holds(share <= LEFT_OUT_MAX),
        ),
        commands: vec![line.replace(&*place.to_string_lossy(), "FOLDER")],
        tables: vec![vec![
            row([
                "intervals of the load",
                "left out",
                "compared",
                "found",
                "told as a task's",
                "gaps in all",
                "longer by: least",
                "median",
                "p90",
                "p99",
                "most",
                "within 5 us of the median",
            ]),
            vec![
                found.len().to_string(),
                left_out.to_string(),
                compared.to_string(),
                longer.len().to_string(),
                told.to_string(),
                gaps.to_string(),
                at(0.0),
                at(0.5),
                at(0.9),
                at(0.99),
                at(1.0),
                steady.to_string(),
            ],
        ]],
        notes: vec![
            "A gap lasts from the probe's last read of the counter to the next one, so it includes \
             the switches to the load and back, unlike the load's record: the median, in us, is \
             mostly the time of these switches and of other work."
                .to_owned(),
            "Left out: intervals with less CPU time than length, and those next to which the \
             kernel's steal time grew. The kernel reports steal time in steps of 10 ms; it was read every 5 ms."
            .to_owned(),
        ],
    }
}

fn micros(ns: i64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stretch(begin: i64, end: i64) -> Stretch {
        Stretch { begin, end }
    }

    #[test]
    fn an_interval_is_found_by_the_one_gap_that_touches_it_unless_its_length_is_not_known() {
        let gaps = [
            stretch(90_000, 3_104_000),
            stretch(9_000_000, 9_001_000),
            stretch(9_002_000, 9_900_000),
        ];
        assert_eq!(
            compare(stretch(100_000, 3_100_000), 2_998_000, &gaps, &[]),
            GapMatch::Longer(14_000)
        );
        assert_eq!(
            compare(stretch(100_000, 3_100_000), 2_990_000, &gaps, &[]),
            GapMatch::LeftOut
        );
        assert_eq!(
            compare(
                stretch(100_000, 3_100_000),
                3_000_200,
                &gaps,
                &[stretch(3_000_000, 8_000_000)]
            ),
            GapMatch::LeftOut
        );
        assert_eq!(
            compare(stretch(5_000_000, 8_000_000), 3_000_000, &gaps, &[]),
            GapMatch::Skipped
        );
        assert_eq!(
            compare(stretch(9_000_500, 9_800_000), 799_500, &gaps, &[]),
            GapMatch::Skipped
        );
    }

    #[test]
    fn the_record_is_read_line_by_line() {
        assert_eq!(
            intervals("10 20 9\n30 45 15\n").unwrap(),
            [(stretch(10, 20), 9), (stretch(30, 45), 15)]
        );
        assert!(intervals("10 20\n").is_err());
    }

    #[test]
    fn one_that_is_not_found_is_allowed_and_two_are_not() {
        let reached =
            |found: &[GapMatch]| report(found, 0, 0, Path::new("/nowhere"), String::new()).reached;
        assert!(
            reached(&[GapMatch::Longer(1); 5]).starts_with(
                "5 of 5 found: holds; 5 of 5 within 5 us: holds; 0.0 % left out: holds"
            )
        );
        assert!(
            reached(&[GapMatch::Longer(1), GapMatch::Skipped]).starts_with("1 of 2 found: holds")
        );
        assert!(
            reached(&[GapMatch::Longer(6000), GapMatch::Skipped, GapMatch::Skipped])
                .contains("1 of 3 found: NOT reached; 0 of 1 within 5 us: NOT")
        );
        assert!(
            reached(&[GapMatch::LeftOut, GapMatch::Longer(1)])
                .contains("50.0 % left out: NOT reached")
        );
    }
}
