//! Power failure of a whole machine: QEMU is killed while a run in its guest writes to a disk. Then
//! the disk is mounted again, on the host or by the next guest.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_lab::kernel::{self, Kernel};
use tardy_lab::several_cpus::{self, Equipment, Guest, GuestProcess};
use xtask::failure::{Failure, Result, While};

use crate::disks;
use crate::fault::{Fault, Ground, Tally};
use crate::folders::Folder;
use crate::guests;
use crate::place::{PATIENCE, Place};

pub(crate) const GUEST_POWER: Fault = Fault {
    name: "guest-power",
    done: "a guest is killed (SIGKILL of QEMU) while a run in the guest writes to the guest's disk \
           (ext4 on virtio); then the disk is mounted again",
    demanded: "the file system mounts; the run opens, and its counts add up; the samples end at \
               most 12 s before the cut",
    attempt: |ground| guests::attempt(ground, guest_power),
};

pub(crate) const REBOOT: Fault = Fault {
    name: "reboot",
    done: "a guest whose run has --until-stopped, --disk and --resume is killed (SIGKILL of QEMU) \
           and booted again with the same disk, two times; then the run is stopped",
    demanded: "the run resumes after each boot; at the end, there is one finished run whose counts \
               add up, no stored sample is lost, and both gaps are reported",
    attempt: |ground| guests::attempt(ground, reboot),
};

/// Modules for the disk: its driver, and those that ext4 needs besides its declared dependencies.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];
/// Text that the script prints when the run has started.
const BEGUN: &str = "tardy-faults: the run has begun";
const MOUNT: &str = "mount -t ext4 /dev/vda /mnt || { echo 'no disk' >/dev/console; exit 1; }\n";
/// Size of the disks: several times that of the runs.
const DISK_MIB: u64 = 96;

/// The files needed to boot a guest with a disk.
struct Parts {
    kernel: Kernel,
    modules: Vec<PathBuf>,
}

impl Parts {
    fn find() -> Result<Self> {
        let kernel = guests::kernel()?;
        let modules = kernel::modules(&kernel, MODULES, &guests::cache()?)
            .while_doing(|| "looking for the modules of a disk".to_owned())?;
        Ok(Self { kernel, modules })
    }

    /// Boots a guest that runs `script`, with its disk at /mnt.
    fn start(&self, place: &Place, disk: &Path, script: &str) -> Result<GuestProcess> {
        let files = guests::script_files(place, &format!("{MOUNT}{script}"))?;
        let equipment = Equipment {
            program: Some("/bin/script"),
            files: &files,
            modules: &self.modules,
            disk: Some(disk),
        };
        let guest = Guest {
            cpus: 2,
            memory_mib: 768,
            kernel: &self.kernel.image,
            words: "",
            tardy: place.binary(),
            time_limit: Nanos::from_secs(300),
            equipment,
        };
        several_cpus::start(guest, &[]).while_doing(|| "starting a guest with a disk".to_owned())
    }
}

fn guest_power(ground: &Ground, tally: &mut Tally) -> Result<()> {
    let parts = Parts::find()?;
    let script = format!(
        "/init run --for 2m --load none --quiet --out /mnt/run >/dev/console 2>&1 &\nuntil [ -s \
         /mnt/run/run.json ] && [ -s /mnt/run/state.jsonl ]; do usleep 10000; done\necho \
         '{BEGUN}' >/dev/console\nwait\n"
    );
    let tries = ground.tries(2, 8);
    for number in 0..tries {
        let place = ground.place()?;
        let disk = disks::made_image(&place, DISK_MIB)?;
        let mut guest = parts.start(&place, &disk, &script)?;
        wait_until_begun(&mut guest)?;
        // The moments are spread from the first write to the disk over several syncs.
        let moment = Duration::from_millis(2_000 + number as u64 * 26_000 / tries as u64);
        let since_begin = cut_power_after(guest, moment)?;
        let (folder, mut wrong) = look_at_disk(&place, disk)?;
        wrong.extend(disks::too_little(&folder, since_begin));
        let seen = if wrong.is_empty() {
            "opens"
        } else {
            "does not open, or not whole"
        };
        tally.count(
            &format!("power cut {since_begin:?} after the beginning"),
            seen,
            wrong,
        );
    }
    Ok(())
}

/// Number of power failures before the run is stopped.
const CUTS: usize = 2;

fn reboot(ground: &Ground, tally: &mut Tally) -> Result<()> {
    let parts = Parts::find()?;
    // The run's record names the boot in which the run was resumed.
    let script = format!(
        "/init run --until-stopped --disk 32MiB --resume --deadline 10s --quiet --out /mnt/run \
         >/dev/console 2>&1 &\nrun=$!\nboot=$(cat /proc/sys/kernel/random/boot_id)\nuntil grep -q \
         $boot /mnt/run/run.json && [ -s /mnt/run/state.jsonl ]; do usleep 10000; done \
         2>/dev/null\necho '{BEGUN}' >/dev/console\n"
    );
    for number in 0..ground.tries(1, 4) {
        let place = ground.place()?;
        let disk = disks::made_image(&place, DISK_MIB)?;
        let (mut wrong, mut recorded) = (Vec::new(), 0);
        for cut in 0..CUTS {
            let mut guest = parts.start(&place, &disk, &format!("{script}wait\n"))?;
            wait_until_begun(&mut guest)?;
            cut_power_after(
                guest,
                Duration::from_millis(12_500 + 3_700 * (number + cut) as u64),
            )?;
            let (folder, odd) = look_at_disk(&place, disk.clone())?;
            wrong.extend(odd);
            wrong.extend(not_more(&folder, &mut recorded));
        }
        let guest = parts.start(
            &place,
            &disk,
            &format!("{script}sleep 5\nkill -TERM $run\nwait $run\numount /mnt\n"),
        )?;
        guest
            .finish()
            .while_doing(|| "running the last guest".to_owned())?;
        let (folder, odd) = look_at_disk(&place, disk)?;
        wrong.extend(odd);
        wrong.extend(not_more(&folder, &mut recorded));
        wrong.extend(not_one_run(&folder));
        tally.count(
            &format!("{CUTS} cuts, then stopped"),
            if wrong.is_empty() {
                "one finished run"
            } else {
                "not one run"
            },
            wrong,
        );
    }
    Ok(())
}

/// Checks that the number of recorded samples has increased. `recorded` is the previous number, and
/// is updated. Returns the violation.
fn not_more(folder: &Folder, recorded: &mut u64) -> Option<String> {
    if !folder.is_open() {
        return None;
    }
    let now = folder.recorded();
    let before = std::mem::replace(recorded, now);
    (now <= before).then(|| format!("{before} samples, and {now} after one more part"))
}

/// Returns why this is not one finished run with a gap for each power failure.
fn not_one_run(folder: &Folder) -> Option<String> {
    let Folder::Opens { state, .. } = folder else {
        return None;
    };
    (state != "finished" || folder.reboots() != CUTS)
        .then(|| format!("{state}: {}", folder.warnings()))
}

/// Kills the guest at `moment`. Returns the time since this call.
fn cut_power_after(guest: GuestProcess, moment: Duration) -> Result<Duration> {
    let begun = Instant::now();
    std::thread::sleep(moment);
    let since_begin = begun.elapsed();
    guest
        .cut_power()
        .while_doing(|| "killing QEMU".to_owned())?;
    Ok(since_begin)
}

/// Reads the run on a guest's disk, which must open. Returns the run, and errors.
fn look_at_disk(place: &Place, disk: PathBuf) -> Result<(Folder, Vec<String>)> {
    let (folder, mut wrong) = disks::look_at_image(place, disk)?;
    if !folder.is_open() {
        wrong.push(format!("a run that had begun does not open: {folder:?}"));
    }
    Ok((folder, wrong))
}

fn wait_until_begun(guest: &mut GuestProcess) -> Result<()> {
    let start = Instant::now();
    while !guest.console().contains(BEGUN) {
        let is_running = guest
            .is_running()
            .while_doing(|| "waiting for a guest".to_owned())?;
        if !is_running || start.elapsed() > 2 * PATIENCE {
            return Err(Failure::new(format!(
                "the guest started no run; its console: {}",
                guest.console().trim()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
