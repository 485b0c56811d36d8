//! Disks that are full, cannot be written, disappear, or lose power.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tardy_sys::process;
use xtask::failure::{Failure, Result, While};
use xtask::program;

use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{PATIENCE, Place, last_line};

pub(crate) const FULL: Fault = Fault {
    name: "disk-full",
    done: "the file system is full from the start, or fills up during a run or while an output is \
           written",
    demanded: "tardy refuses the run and states the space that the run needs, or the run opens and \
               reports the samples that were not stored; an older output is kept",
    attempt: full,
};

pub(crate) const READ_ONLY: Fault = Fault {
    name: "read-only",
    done: "the file system is read-only from the start, or becomes read-only during a run",
    demanded: "the command gives a reason in words; the samples that were stored before can be \
               opened",
    attempt: read_only,
};

pub(crate) const REMOVED: Fault = Fault {
    name: "removed",
    done: "the run's folder is removed, moved away, or replaced by another folder during the run",
    demanded: "the run stops with a reason in words; the moved folder opens; the folder that \
               replaced it is untouched",
    attempt: removed,
};

pub(crate) const POWER_CUT: Fault = Fault {
    name: "power-cut",
    done: "the power of the disk (ext4 on a loop device) fails during a run; then the device is \
           mounted again",
    demanded: "the file system mounts; the run opens, or had not started; its counts add up; the \
               samples end at most 12 s before the cut",
    attempt: power_cut,
};

/// A file system in a place, unmounted on drop.
struct DiskMount(PathBuf);

impl DiskMount {
    fn memory(place: &Place, kilobytes: usize) -> Result<Self> {
        Self::new(
            place,
            &[
                "-t",
                "tmpfs",
                "-o",
                &format!("size={kilobytes}k"),
                "tardy-faults",
            ],
        )
    }

    fn new(place: &Place, words: &[&str]) -> Result<Self> {
        let folder = place.path("disk");
        std::fs::create_dir_all(&folder).while_doing(|| "making a folder".to_owned())?;
        program::capture(Command::new("mount").args(words).arg(&folder))?;
        Ok(Self(folder))
    }

    fn make_read_only(&self) -> Result<()> {
        program::capture(
            Command::new("mount")
                .args(["-o", "remount,ro"])
                .arg(&self.0),
        )
        .map(drop)
    }

    /// Fills the file system, except for `left` bytes.
    fn fill(&self, left: usize) {
        let filler = self.0.join("filler");
        let _ = std::fs::write(&filler, vec![1; 64 << 20]);
        let length = std::fs::metadata(&filler).map_or(0, |data| data.len());
        if let Ok(file) = std::fs::OpenOptions::new().write(true).open(&filler) {
            let _ = file.set_len(length.saturating_sub(left as u64));
        }
    }
}

impl Drop for DiskMount {
    fn drop(&mut self) {
        // A lazy unmount works even if processes of a failed attempt still run there, so they
        // cannot affect the next attempt.
        let _ = program::output(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

const OLD: &[u8] = b"an older output\n";
/// A run with a period of 200 us, which fills a small disk within seconds.
const BUSY_RUN: &str = "run --for 2s --period 200us --load none --quiet --out disk/run";

fn full(ground: &Ground) -> Result<Tally> {
    folders::base(ground)?;
    let mut tally = Tally::default();
    for number in 0..ground.tries(3, 24) {
        // The sizes range from nearly nothing to more than the run needs.
        let kilobytes = 64 + number * number * 48;
        let place = ground.place()?;
        let _disk = DiskMount::memory(&place, kilobytes)?;
        let outcome = place.tardy(BUSY_RUN)?;
        count_run(
            &mut tally,
            &place,
            &format!("a disk of {kilobytes} KiB"),
            &outcome,
            &["room", "space", "disk"],
        )?;
    }
    for number in 0..ground.tries(3, 24) {
        let place = ground.place()?;
        let disk = DiskMount::memory(&place, 40_000)?;
        let running = place.start(place.tardy_command(BUSY_RUN))?;
        std::thread::sleep(Duration::from_millis(
            100 + number as u64 * 1900 / ground.tries(3, 24) as u64,
        ));
        disk.fill(number * 1000);
        let outcome = running.end(&place, PATIENCE)?;
        count_run(
            &mut tally,
            &place,
            &format!("a disk that fills up during the run (try {number})"),
            &outcome,
            &["room", "space", "stored"],
        )?;
    }
    let writers = [
        "export ../base/run --format csv --output",
        "report ../base/run --html",
        "plot ../base/run --kind hist -o",
        "history ../base --html",
    ];
    for line in writers {
        for left in (0..ground.tries(2, 12)).map(|number| number * 3000) {
            let place = ground.place()?;
            let disk = DiskMount::memory(&place, 2_000)?;
            std::fs::write(disk.0.join("output.svg"), OLD)
                .while_doing(|| "writing an older output".to_owned())?;
            disk.fill(left);
            let outcome = place.tardy(&format!("{line} disk/output.svg"))?;
            let mut wrong = folders::wrong(&outcome, &place)?;
            let now = std::fs::read(disk.0.join("output.svg")).unwrap_or_default();
            // With these exit codes, the command has written its output. The output may state that
            // there are too few runs.
            let is_done = matches!(outcome.code, Some(0 | 1 | 4));
            if (now == OLD) == is_done {
                wrong.push(format!(
                    "{}, and the output has {} bytes",
                    outcome.ending(),
                    now.len()
                ));
            }
            tally.count(
                &format!("tardy {line} with {left} bytes left"),
                outcome.ending(),
                wrong,
            );
        }
    }
    Ok(tally)
}

/// Counts a run in `disk/run` after a fault. Unless its exit code is 0, its messages must contain
/// one of `words`, which describe the cause.
fn count_run(
    tally: &mut Tally,
    place: &Place,
    about: &str,
    outcome: &crate::place::Outcome,
    words: &[&str],
) -> Result<()> {
    let mut wrong = folders::wrong(outcome, place)?;
    let folder = folders::look(place, "disk/run")?;
    wrong.extend(folder.wrong());
    let said = format!("{}{}{}", outcome.said, outcome.printed, folder.warnings()).to_lowercase();
    if outcome.code != Some(0) && !words.iter().any(|word| said.contains(word)) {
        wrong.push(format!(
            "{}, and nothing says why: {}",
            outcome.ending(),
            last_line(&said)
        ));
    }
    let seen = match folder {
        Folder::Opens { .. } => format!("{}, opens", outcome.ending()),
        _ => format!("{}, no run", outcome.ending()),
    };
    tally.count(about, seen, wrong);
    Ok(())
}

fn read_only(ground: &Ground) -> Result<Tally> {
    folders::base(ground)?;
    let mut tally = Tally::default();
    let place = ground.place()?;
    let disk = DiskMount::memory(&place, 40_000)?;
    std::fs::write(disk.0.join("output.svg"), OLD)
        .while_doing(|| "writing an older output".to_owned())?;
    disk.make_read_only()?;
    let writers = [
        "run --for 1s --load none --quiet --out disk/run",
        "cost --metric null-call --rounds 1 --out disk/run",
        "import ../base/verbose --period 1ms --out disk/run",
        "export ../base/run --format csv --output disk/output.svg",
        "report ../base/run --html disk/output.svg",
        "plot ../base/run --kind hist -o disk/output.svg",
        "history ../base --html disk/output.svg",
    ];
    for line in writers {
        let outcome = place.tardy(line)?;
        let mut wrong = folders::wrong(&outcome, &place)?;
        if !matches!(outcome.code, Some(2 | 3))
            || !outcome.said.contains("disk/")
            || !outcome.said.to_lowercase().contains("read-only")
        {
            wrong.push(format!(
                "{}: {}",
                outcome.ending(),
                last_line(&outcome.said)
            ));
        }
        tally.count(&format!("tardy {line}"), outcome.ending(), wrong);
    }
    for number in 0..ground.tries(1, 8) {
        let place = ground.place()?;
        let image = Image::new(&place)?;
        let mut running =
            place.start(place.tardy_command("run --for 2s --load none --quiet --out disk/run"))?;
        std::thread::sleep(Duration::from_millis(300 + 200 * number as u64));
        // A file system that finds an internal error shuts down in this way.
        image.shut_down()?;
        let about = format!("a file system that shuts down (try {number})");
        let ended_in_time = place.wait_until(|| running.has_ended());
        let outcome = running.end(&place, PATIENCE)?;
        let mut wrong: Vec<String> = outcome.disgrace().into_iter().collect();
        if !ended_in_time || outcome.code == Some(0) {
            wrong.push(format!(
                "{}: {}",
                outcome.ending(),
                last_line(&outcome.said)
            ));
        }
        tally.count(&about, outcome.ending(), wrong);
    }
    Ok(tally)
}

fn removed(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..ground.tries(1, 6) {
        for what in ["removed", "moved", "replaced"] {
            let place = ground.place()?;
            let running = place
                .start(place.tardy_command("run --for 1500ms --load none --quiet --out run"))?;
            let (run, moved) = (place.path("run"), place.path("moved"));
            if !place.wait_until(|| run.join("run.json").exists()) {
                return Err(Failure::new("a run did not begin"));
            }
            std::thread::sleep(Duration::from_millis(20 + 200 * number as u64));
            if what == "removed" {
                std::fs::remove_dir_all(&run).while_doing(|| "removing a run".to_owned())?;
            } else {
                std::fs::rename(&run, &moved).while_doing(|| "moving a run".to_owned())?;
            }
            if what == "replaced" {
                std::fs::create_dir(&run).while_doing(|| "making another folder".to_owned())?;
                std::fs::write(run.join("mine"), OLD)
                    .while_doing(|| "writing into it".to_owned())?;
            }
            let outcome = running.end(&place, PATIENCE)?;
            let mut wrong = folders::wrong(&outcome, &place)?;
            if outcome.code != Some(3) || !outcome.said.contains("removed or moved") {
                wrong.push(format!(
                    "{}: {}",
                    outcome.ending(),
                    last_line(&outcome.said)
                ));
            }
            if what != "removed" {
                let folder = folders::look(&place, "moved")?;
                wrong.extend(folder.wrong());
                if !matches!(folder, Folder::Opens { .. }) {
                    wrong.push(format!("the moved folder does not open: {folder:?}"));
                }
            }
            if what == "replaced" && crate::place::names(&run) != ["mine"] {
                wrong.push(format!(
                    "the other folder has {:?}",
                    crate::place::names(&run)
                ));
            }
            tally.count(
                &format!("folder {what} (try {number})"),
                outcome.ending(),
                wrong,
            );
        }
    }
    Ok(tally)
}

/// An ext4 file system in a file, mounted at `disk` through a loop device.
pub(crate) struct Image {
    file: PathBuf,
    mounted: DiskMount,
}

/// Makes a file of this size with an empty ext4 file system.
pub(crate) fn made_image(place: &Place, mib: u64) -> Result<PathBuf> {
    let file = place.path("image");
    std::fs::File::create(&file)
        .and_then(|file| file.set_len(mib << 20))
        .while_doing(|| "making a disk image".to_owned())?;
    program::capture(
        Command::new("/usr/sbin/mkfs.ext4")
            .args(["-q", "-m", "0", "-E", "lazy_itable_init=0"])
            .arg(&file),
    )?;
    Ok(file)
}

impl Image {
    fn new(place: &Place) -> Result<Self> {
        Self::open(place, made_image(place, 24)?)
    }

    pub(crate) fn open(place: &Place, file: PathBuf) -> Result<Self> {
        let mounted = DiskMount::new(place, &["-o", "loop", &file.to_string_lossy()])?;
        Ok(Self { file, mounted })
    }

    /// Returns the content of the device at one moment: two successive copies must be equal.
    fn cut(&self) -> Result<Vec<u8>> {
        let read = || std::fs::read(&self.file).while_doing(|| "reading a disk image".to_owned());
        let mut last = read()?;
        for _ in 0..200 {
            let now = read()?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
        Err(Failure::new("the disk image never stood still"))
    }

    fn shut_down(&self) -> Result<()> {
        // With `abort`, ext4 acts as if it had found an internal error. A plain remount as
        // read-only would be refused, because the file system is in use.
        program::capture(
            Command::new("mount")
                .args(["-o", "remount,abort"])
                .arg(&self.mounted.0),
        )
        .map(drop)
    }
}

fn power_cut(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    for number in 0..ground.tries(2, 20) {
        let (place, again) = (ground.place()?, ground.place()?);
        let image = Image::new(&place)?;
        let mut running =
            place.start(place.tardy_command("run --for 60s --load none --quiet --out disk/run"))?;
        let begun = place.wait_until(|| image.mounted.0.join("run/run.json").exists());
        let moment = Duration::from_millis(number as u64 * 25_000 / ground.tries(2, 20) as u64);
        std::thread::sleep(moment);
        let cut = image.cut()?;
        let had_ended = running.has_ended();
        running.signal(process::KILL)?;
        running.end(&place, PATIENCE)?;
        let file = again.path("image");
        std::fs::write(&file, cut).while_doing(|| "writing a disk image".to_owned())?;
        let mut wrong = Vec::new();
        let seen = match Image::open(&again, file) {
            Err(failure) => {
                wrong.push(format!("the file system does not mount: {failure}"));
                "does not mount".to_owned()
            }
            Ok(opened) => {
                let folder = folders::look(&again, "disk/run")?;
                wrong.extend(folder.wrong());
                wrong.extend(too_little(&folder, moment));
                drop(opened);
                match folder {
                    Folder::Opens { .. } => "opens".to_owned(),
                    _ => "not begun".to_owned(),
                }
            }
        };
        if !begun || had_ended {
            wrong.push("the run did not last".to_owned());
        }
        tally.count(
            &format!("power cut {moment:?} after the beginning"),
            seen,
            wrong,
        );
    }
    Ok(tally)
}

/// Returns an error if more samples are missing than allowed.
pub(crate) fn too_little(folder: &Folder, since_begin: Duration) -> Option<String> {
    // Series are synced to disk every ten seconds.
    let allowed = Duration::from_secs(12);
    let stored = match folder {
        Folder::Opens { summary, .. } => {
            let warnings = summary["warnings"].as_array()?;
            let until = warnings
                .iter()
                .find(|warning| warning["warning"] == "cut-off")?["stored_until"]
                .as_u64()
                .unwrap_or(0);
            Duration::from_nanos(until)
        }
        _ => Duration::ZERO,
    };
    (stored + allowed < since_begin)
        .then(|| format!("stored up to {stored:?}, cut {since_begin:?} after the beginning"))
}
