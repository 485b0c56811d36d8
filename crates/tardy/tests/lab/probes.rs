//! Tests probes in guests. The guests' clock counts instructions, so the results are compared with
//! known values and do not depend on the host's timing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_lab::architecture::Architecture;
use tardy_lab::guest_job::{self, GuestJob, Program, Task};
use tardy_lab::initramfs;
use tardy_lab::qemu::Qemu;
use tardy_samples::read_series::SeriesFile;

use super::{REAL_TIME, STOCK, compared, kernel, lab, lab_is_there};

pub(super) const MILLI: i64 = 1_000_000;
/// Length of a tick of Debian's kernels, 1/HZ (CONFIG_HZ=250).
pub(super) const TICK: i64 = 4 * MILLI;

pub(super) fn stored(run: &Path, series: &str) -> Vec<Sample> {
    let file = SeriesFile::open(&run.join("samples").join(format!("{series}.series"))).unwrap();
    let schedule = file.descriptor().schedule;
    let mut samples = Vec::new();
    file.read(&mut |chunk| samples.extend(chunk.samples(&schedule).map(|(_, sample)| sample)))
        .unwrap();
    samples
}

pub(super) fn notes(run: &Path) -> String {
    std::fs::read_to_string(run.join("run.json")).unwrap()
}

/// Length of the intervals in which the load occupies the CPU, and the time between their starts.
const LENGTH: i64 = 2 * MILLI;
const PERIOD: i64 = 20 * MILLI;
/// Maximum time by which a gap exceeds the load's interval in it. This time is for the load's
/// wake-up, two context switches, and recording the interval. A wake-up takes 3,700 instructions;
/// this constant allows 15,000.
const AROUND: i64 = 60_000;

/// Runs the probe together with the load `busy` in a guest. Returns the run's folder and the
/// intervals that the load recorded.
fn beside_spin(out: &Path, kernel: &str, probe: &str) -> (PathBuf, Vec<[i64; 3]>) {
    let load = "busy:length=2ms:period=20ms:priority=50:record=/run/out/record";
    let own = [
        "run",
        "--for",
        "1s",
        "--probe",
        probe,
        "--load",
        load,
        "--quiet",
        "--out",
        "/run/out/run",
    ];
    let out_text = out.to_str().unwrap();
    let output = lab(&[
        &[
            "run",
            "--kernel",
            kernel,
            "--out",
            out_text,
            "--program",
            "/init",
            "--",
        ],
        &own[..],
    ]
    .concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let folder = std::fs::read_dir(out)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("replica-000");
    let text = std::fs::read_to_string(folder.join("record.cpu0")).unwrap();
    let line = |line: &str| -> [i64; 3] {
        line.split(' ')
            .map(|number| number.parse().unwrap())
            .collect::<Vec<_>>()
            .try_into()
            .unwrap()
    };
    (folder.join("run"), text.lines().map(line).collect())
}

/// Checks that each recorded interval lies in one gap. Most gaps are as long as their interval; the
/// others also contain a task of the tool, which shares the guest's only CPU and runs for up to
/// some ms. Other gaps must not be as long as an interval.
fn assert_all_found(what: &str, gaps: &[Sample], intervals: &[[i64; 3]]) {
    // The load may occupy the CPU for one more interval after the probe has ended.
    let last = gaps.last().map_or(0, |gap| gap.wake().get());
    let within: Vec<&[i64; 3]> = intervals
        .iter()
        .filter(|[_, ended, _]| *ended < last)
        .collect();
    // The load starts during its phase of one second.
    assert!(
        (25..=51).contains(&within.len()),
        "{what}: {} intervals in a second of one each {PERIOD} ns",
        within.len()
    );
    let (first, last) = (within[0][0], within[within.len() - 1][1]);
    let is_as_long = |gap: &Sample| (LENGTH - AROUND..LENGTH + AROUND).contains(&gap.latency.get());
    let mut alone = 0;
    for [begun, ended, _] in &within {
        // The load reads the clock, then its CPU time, and then records its start. An interval ends
        // at the load's first clock read after the requested length.
        assert!(
            (ended - begun - LENGTH).abs() < AROUND,
            "{what}: {} ns",
            ended - begun
        );
        let holding: Vec<&Sample> = gaps
            .iter()
            .filter(|gap| gap.due.get() < *ended && *begun < gap.wake().get())
            .collect();
        let [gap] = holding.as_slice() else {
            panic!("{what}: {begun} to {ended} is in {holding:?}")
        };
        assert!(
            gap.due.get() < *begun && *ended < gap.wake().get(),
            "{what}: {gap:?} does not hold {begun} to {ended}"
        );
        alone += usize::from(gap.latency.get() - (ended - begun) < AROUND);
    }
    assert!(
        alone * 3 >= within.len() * 2,
        "{what}: only {alone} of {} gaps are as long as their interval",
        within.len()
    );
    // Each gap that is as long as an interval must contain one.
    let holds_one = |gap: &Sample| {
        within
            .iter()
            .any(|[begun, ended, _]| gap.due.get() < *begun && *ended < gap.wake().get())
    };
    let between = |gap: &&Sample| gap.due.get() >= first && gap.wake().get() <= last;
    let invented: Vec<&Sample> = gaps
        .iter()
        .filter(between)
        .filter(|gap| is_as_long(gap) && !holds_one(gap))
        .collect();
    assert!(
        invented.is_empty(),
        "{what}: gaps as long as the load's, in which it did nothing: {invented:?}"
    );
}

#[test]
fn spin_finds_every_interval_that_the_load_spin_occupied_and_lays_it_to_a_task() {
    if !lab_is_there("gaps found by oslat", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (run, intervals) = beside_spin(folder.path(), REAL_TIME, "oslat");
    let gaps = stored(&run, "oslat.cpu0");
    assert_all_found("oslat", &gaps, &intervals);
    let tasks = stored(&run, "oslat.tasks.cpu0");
    assert_all_found("oslat.tasks", &tasks, &intervals);
    // The guest has no steal time, so gaps without a task are interrupts, mostly the tick.
    let interrupts = stored(&run, "oslat.interrupts.cpu0");
    assert!(
        interrupts.len() > 100,
        "{} gaps by interrupts in a second with 250 ticks",
        interrupts.len()
    );
    assert!(
        interrupts.iter().all(|gap| gap.latency.get() < AROUND),
        "{interrupts:?}"
    );
    let unseen = stored(&run, "oslat.unseen.cpu0");
    assert_eq!(
        gaps.len(),
        tasks.len() + interrupts.len() + unseen.len(),
        "each gap is laid to one of them"
    );
    assert!(unseen.is_empty(), "{unseen:?}");
}

#[test]
fn gtod_finds_every_interval_that_the_load_spin_occupied() {
    if !lab_is_there("gaps found by gtod", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (run, intervals) = beside_spin(folder.path(), STOCK, "gtod");
    // The two clocks are read in turn, so either series may contain a gap.
    let mut gaps: Vec<Sample> = ["gtod.cpu0", "gtod.monotonic.cpu0"]
        .iter()
        .flat_map(|series| stored(&run, series))
        .collect();
    gaps.sort_by_key(|gap| gap.due);
    assert_all_found("gtod", &gaps, &intervals);
}

/// Takes all moments modulo the tick, and returns the length in ns of the shortest part of a tick
/// that contains them. This length is the tick minus the longest part of the tick without a moment.
fn spread(moments: &[i64]) -> i64 {
    let mut places: Vec<i64> = moments
        .iter()
        .map(|moment| moment.rem_euclid(TICK))
        .collect();
    places.sort_unstable();
    let inner = places
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap_or(0);
    TICK - inner.max(places[0] + TICK - places[places.len() - 1])
}

fn wakes(samples: &[Sample]) -> Vec<i64> {
    samples.iter().map(|sample| sample.wake().get()).collect()
}

/// The longest path from a tick to the last of several real-time threads, in ns.
pub(super) const PATH: i64 = 250_000;

#[test]
fn timers_sit_on_ticks_without_high_resolution_and_do_not_with_it() {
    if !lab_is_there("ticks", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let variants = [
        "--kernel",
        STOCK,
        "--cmdline",
        "highres=off nohz=off",
        "--kernel",
        REAL_TIME,
        "--cmdline",
        "highres=on",
    ];
    let how = ["--for", "2s", "--load", "none", "--"];
    let probes = [
        "--probe",
        "cyclic:period=10ms",
        "--probe",
        "itimer:period=10ms",
        "--probe",
        "media:delay=1ms:delay-every=10",
        "--probe",
        "rtc",
    ];
    let found = compared(
        folder.path(),
        &[&variants[..], &how[..], &probes[..]].concat(),
    );
    let run = |part: &str| {
        let name = found
            .keys()
            .find(|name| name.contains(part))
            .unwrap_or_else(|| panic!("no {part} in {:?}", found.keys()));
        folder.path().join(name).join("replica-000")
    };
    let (coarse, fine) = (run("highres=off"), run("highres=on"));
    for probe in ["cyclic.cpu0", "itimer.cpu0", "media.frame.cpu0"] {
        let (mut coarse, fine) = (wakes(&stored(&coarse, probe)), wakes(&stored(&fine, probe)));
        // The last wake-up comes after the other threads have ended, so its path is shorter.
        coarse.pop();
        assert!(
            coarse.len() > 50 && fine.len() > 50,
            "{probe}: {} and {} wake-ups",
            coarse.len(),
            fine.len()
        );
        assert!(
            spread(&coarse) < PATH,
            "{probe} is off its ticks by up to {} ns",
            spread(&coarse)
        );
        for pair in coarse.windows(2) {
            let ticks = (pair[1] - pair[0] + TICK / 2) / TICK;
            assert!(
                ticks > 0 && (pair[1] - pair[0] - ticks * TICK).abs() < PATH,
                "{probe}: {} ns between two",
                pair[1] - pair[0]
            );
        }
        // A period of 10 ms has two positions within a tick of 4 ms; one of 33.3 ms has twelve or
        // more.
        assert!(
            spread(&fine) > TICK / 4,
            "{probe} sits on ticks with high-resolution timers: within {} ns",
            spread(&fine)
        );
    }
    // With ticks, a frame lasts 32 or 36 ms instead of 33.3 ms; with high-resolution timers, it
    // lasts 33.3 ms.
    let errors = |run: &Path| -> Vec<i64> {
        stored(run, "media.frame.cpu0")
            .iter()
            .map(|sample| sample.latency.get())
            .collect()
    };
    let (coarse_errors, fine_errors) = (errors(&coarse), errors(&fine));
    assert!(
        coarse_errors.iter().any(|error| *error > 2 * MILLI)
            && coarse_errors.iter().any(|error| *error < -MILLI),
        "{coarse_errors:?}"
    );
    assert!(
        fine_errors.iter().all(|error| error.abs() < PATH),
        "{fine_errors:?}"
    );
    // The skew is negative exactly at each tenth frame, where the sound is delayed.
    let skews: Vec<i64> = stored(&fine, "media.cpu0")
        .iter()
        .map(|sample| sample.latency.get())
        .collect();
    for (frame, skew) in skews.iter().enumerate() {
        let due = if frame % 10 == 0 { -MILLI } else { 0 };
        assert!(
            (0..PATH).contains(&(skew - due)),
            "frame {frame} has a skew of {skew} ns: {skews:?}"
        );
    }
    assert_rtc(&fine);
}

#[test]
fn the_rtc_probe_ends_on_preempt_rt_although_it_has_the_higher_priority() {
    if !lab_is_there("the end of the rtc probe", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let how = ["--kernel", REAL_TIME, "--for", "200ms", "--load", "none"];
    compared(
        folder.path(),
        &[&how[..], &["--", "--probe", "rtc"]].concat(),
    );
    let run = folder.path().join("6.1-rt/replica-000");
    assert!(
        notes(&run).contains("\"state\": \"finished\""),
        "{}",
        notes(&run)
    );
}

/// Checks the interrupts of the real-time clock at 2048 Hz. The kernel emulates these interrupts
/// with a timer, and the run must report this.
fn assert_rtc(run: &Path) {
    let samples = stored(run, "rtc.cpu0");
    let skipped: i64 = samples.iter().map(|sample| i64::from(sample.skipped)).sum();
    // The clock runs for the measurement's two seconds. The first interrupt only begins an
    // interval.
    assert!(
        (4090..=4096).contains(&(samples.len() as i64 + skipped)),
        "{} interrupts and {skipped} skipped",
        samples.len()
    );
    let wakes = wakes(&samples);
    let (first, last) = (wakes[0], wakes[wakes.len() - 1]);
    let period = (last - first) / (samples.len() as i64 - 1 + skipped);
    assert!(
        (period - 1_000_000_000 / 2048).abs() < 1_000,
        "{period} ns between two interrupts"
    );
    let notes = notes(run);
    assert!(
        notes.contains("emulated with an hrtimer, not a device interrupt")
            && !notes.contains("faults-in-loop"),
        "{notes}"
    );
}

/// A guest that runs on the host's clock and answers on its second serial port. The guest is killed
/// on drop.
struct AnsweringGuest {
    qemu: Child,
    terminal: String,
}

impl AnsweringGuest {
    fn start(folder: &Path) -> Self {
        let program = Program {
            path: None,
            arguments: ["respond", "serial-bytes:/dev/ttyS1"]
                .map(str::to_owned)
                .to_vec(),
        };
        let job = GuestJob {
            version: guest_job::VERSION,
            task: Task::Run(program),
            settle: Nanos::ZERO,
            time_limit: Nanos::from_secs(3600),
            modules: Vec::new(),
            late_modules: Vec::new(),
            loads: Vec::new(),
            injection: None,
            hand_out_symbols: false,
            scenario: None,
        };
        let initial = folder.join("initial");
        initramfs::write(
            std::fs::File::create(&initial).unwrap(),
            Path::new(env!("CARGO_BIN_EXE_tardy")),
            &job,
            &[],
        )
        .unwrap();
        Qemu::find(Architecture::Amd64).unwrap();
        // Instructions are not counted: like the serial port, the guest's clock is in real time.
        let options = "-accel tcg -m 1024 -smp 1 -nodefaults -nic none -display none -monitor \
                       none -no-reboot -serial file:console -serial pty";
        let mut qemu = Command::new(Architecture::Amd64.qemu_program());
        qemu.args(options.split(' '))
            .arg("-kernel")
            .arg(kernel(REAL_TIME).unwrap().image)
            .arg("-initrd")
            .arg(&initial);
        qemu.args([
            "-append",
            "console=ttyS0 quiet panic=-1 cryptomgr.notests tardy.lab=1",
        ]);
        let mut qemu = qemu
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(qemu.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        // A line such as `char device redirected to /dev/pts/3 (label serial1)`.
        let terminal = line
            .split_whitespace()
            .find(|word| word.starts_with("/dev/pts/"))
            .unwrap_or_else(|| panic!("no terminal: {line}"));
        Self {
            qemu,
            terminal: terminal.to_owned(),
        }
    }
}

impl Drop for AnsweringGuest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

#[test]
fn a_guest_answers_over_its_serial_port_and_the_time_is_the_hosts() {
    if !lab_is_there("response over a serial port", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut guest = AnsweringGuest::start(folder.path());
    let probe = format!("response:serial-bytes:{}", guest.terminal);
    // While the guest boots, the probe gets no answers, and the command must report this.
    let mut said = String::new();
    for attempt in 0..60 {
        let run = folder.path().join(format!("run-{attempt}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tardy"));
        command.args([
            "run",
            "--load",
            "none",
            "--for",
            "2s",
            "--quiet",
            "--json",
            "--probe",
            &probe,
            "--period",
            "20ms",
            "--deadline",
            "10s",
            "--out",
        ]);
        let output = command.arg(&run).output().unwrap();
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            guest.qemu.try_wait().unwrap().is_none(),
            "the guest ended: {said}"
        );
        if output.status.code() != Some(3) {
            let summary =
                crate::support::document::read_as(&String::from_utf8_lossy(&output.stdout), "show");
            // While the guest boots, its terminal may echo single bytes.
            if response(&summary)["counts"]["recorded"].as_u64() > Some(50) {
                return assert_answered(&summary, &run);
            }
            said = summary.to_string();
        } else {
            assert!(said.contains("run `tardy respond`"), "{said}");
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let console = std::fs::read_to_string(folder.path().join("console")).unwrap_or_default();
    panic!("the guest does not answer: {said}: {console}");
}

fn response(summary: &Value) -> &Value {
    summary["series"]
        .as_array()
        .unwrap()
        .iter()
        .find(|series| series["probe"] == "response")
        .unwrap()
}

fn assert_answered(summary: &Value, run: &Path) {
    let series = response(summary);
    let count = |name: &str| series["counts"][name].as_u64().unwrap();
    assert_eq!(count("lost"), 0, "{series}");
    assert_eq!(
        count("expected"),
        count("recorded") + count("skipped"),
        "{series}"
    );
    let cpu = series["cpu"].as_u64().unwrap();
    assert!(
        stored(run, &format!("response.cpu{cpu}"))
            .iter()
            .all(|round_trip| round_trip.latency > Nanos::ZERO)
    );
    // The clock is that of the host, on which the initiator runs. A pseudo-terminal does not leave
    // the machine.
    assert_eq!(summary["clock"], "hardware", "{}", summary["clock"]);
    assert!(
        summary["warnings"].to_string().contains("external=false"),
        "{}",
        summary["warnings"]
    );
    assert_ne!(
        summary["verdict"]["outcome"], "passed",
        "{}",
        summary["verdict"]
    );
}
