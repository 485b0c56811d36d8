//! Lets commands write to disks that are full or read-only.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use xtask::failure::{Result, While};
use xtask::{program, workspace};

use crate::fault::{Fault, Ground, Tally};
use crate::folders;
use crate::output;
use crate::place::{Outcome, PATIENCE, Place, last_line};

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

/// A file system mounted in the folder of an attempt, and unmounted on drop.
pub(crate) struct DiskMount(PathBuf);

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

    /// Mounts a file with an ext4 file system through a loop device.
    pub(crate) fn image(place: &Place, file: &Path) -> Result<Self> {
        Self::new(place, &["-o", "loop", &file.to_string_lossy()])
    }

    fn new(place: &Place, words: &[&str]) -> Result<Self> {
        let folder = place.path("disk");
        workspace::make_folder(&folder)?;
        program::capture(Command::new("mount").args(words).arg(&folder))?;
        Ok(Self(folder))
    }

    fn remount(&self, option: &str) -> Result<()> {
        let option = format!("remount,{option}");
        program::capture(Command::new("mount").args(["-o", &option]).arg(&self.0)).map(drop)
    }

    /// Fills the file system until only `left` bytes are free.
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
        // A lazy unmount works even while processes of a failed attempt still use the file system,
        // so they cannot affect the next attempt.
        let _ = program::output(Command::new("umount").arg("--lazy").arg(&self.0));
    }
}

/// A run with a period of 200 us, which fills a small disk within seconds.
const BUSY_RUN: &str = "run --for 2s --period 200us --load none --quiet --out disk/run";

fn full(ground: &Ground) -> Result<Tally> {
    folders::base(ground)?;
    let mut tally = Tally::default();
    for number in 0..ground.tries(3, 24) {
        // The disk sizes range from nearly nothing to more than the run needs.
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
            let output = disk.0.join(output::NAME);
            output::write_old(&output)?;
            disk.fill(left);
            let outcome = place.tardy(&format!("{line} disk/output.svg"))?;
            let (mut wrong, _) = folders::after(&place, outcome.disgrace(), "run")?;
            // A command that ends with one of these exit codes has written its output, even if the
            // output only reports that there are too few runs.
            let is_done = matches!(outcome.code, Some(0 | 1 | 4));
            if output::is_old(&output) == is_done {
                wrong.push(format!("{}, and the output is another", outcome.ending()));
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

/// Records the outcome of a run that wrote to `disk/run` while a fault occurred. Unless the run's
/// exit code is 0, its messages must contain one of `words`, which describe the cause.
fn count_run(
    tally: &mut Tally,
    place: &Place,
    about: &str,
    outcome: &Outcome,
    words: &[&str],
) -> Result<()> {
    let (mut wrong, folder) = folders::after(place, outcome.disgrace(), "disk/run")?;
    let said = format!("{}{}{}", outcome.said, outcome.printed, folder.warnings()).to_lowercase();
    if outcome.code != Some(0) && !words.iter().any(|word| said.contains(word)) {
        wrong.push(format!(
            "{}, and nothing says why: {}",
            outcome.ending(),
            last_line(&said)
        ));
    }
    let opens = if folder.is_open() { "opens" } else { "no run" };
    let seen = format!("{}, {opens}", outcome.ending());
    tally.count(about, seen, wrong);
    Ok(())
}

fn read_only(ground: &Ground) -> Result<Tally> {
    folders::base(ground)?;
    let mut tally = Tally::default();
    let place = ground.place()?;
    let disk = DiskMount::memory(&place, 40_000)?;
    output::write_old(&disk.0.join(output::NAME))?;
    disk.remount("ro")?;
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
        let (mut wrong, _) = folders::after(&place, outcome.disgrace(), "disk/run")?;
        if !matches!(outcome.code, Some(2 | 3))
            || !outcome.said.contains("disk/")
            || !outcome.said.to_lowercase().contains("read-only")
        {
            wrong.push(outcome.ending_and_reason());
        }
        tally.count(&format!("tardy {line}"), outcome.ending(), wrong);
    }
    for number in 0..ground.tries(1, 8) {
        let place = ground.place()?;
        let disk = DiskMount::image(&place, &made_image(&place, 24)?)?;
        let mut running =
            place.start(place.tardy_command("run --for 2s --load none --quiet --out disk/run"))?;
        std::thread::sleep(Duration::from_millis(300 + 200 * number as u64));
        // Makes the file system refuse writes, as it does after an internal error. A plain remount
        // as read-only would be refused, because the file system is in use.
        disk.remount("abort")?;
        let about = format!("a file system that shuts down (try {number})");
        let ended_in_time = place.wait_until(|| running.has_ended());
        let outcome = running.end(&place, PATIENCE)?;
        let mut wrong: Vec<String> = outcome.disgrace().into_iter().collect();
        if !ended_in_time || outcome.code == Some(0) {
            wrong.push(outcome.ending_and_reason());
        }
        tally.count(&about, outcome.ending(), wrong);
    }
    Ok(tally)
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
