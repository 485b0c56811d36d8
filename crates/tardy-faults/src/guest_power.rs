//! Power failure of a whole machine: QEMU is killed while a run in its guest writes to a disk, and
//! then the disk is mounted again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_lab::kernel::{self, Kernel};
use tardy_lab::several_cpus::{self, Equipment, Guest, GuestProcess};
use xtask::failure::{Failure, Result, While};

use crate::disks::{self, DiskMount};
use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
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

/// Modules for the disk: the driver, and the modules that ext4 needs but does not declare as
/// dependencies.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];
/// Text that the script prints once the run has started.
const BEGUN: &str = "tardy-faults: the run has begun";
const MOUNT: &str = "mount -t ext4 /dev/vda /mnt || { echo 'no disk' >/dev/console; exit 1; }\n";
/// Size of each guest's disk, which is several times the size of a run.
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
        // The moments are spread over an interval that starts with the first write to the disk and
        // includes several syncs.
        let moment = Duration::from_millis(2_000 + number as u64 * 26_000 / tries as u64);
        let since_begin = cut_power_after(guest, moment)?;
        let (folder, mut wrong) = look_at_disk(&place, &disk)?;
        wrong.extend(too_little(&folder, since_begin));
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

/// Waits for `moment`, then kills the guest. Returns how long it actually waited.
fn cut_power_after(guest: GuestProcess, moment: Duration) -> Result<Duration> {
    let begun = Instant::now();
    std::thread::sleep(moment);
    let since_begin = begun.elapsed();
    guest
        .cut_power()
        .while_doing(|| "killing QEMU".to_owned())?;
    Ok(since_begin)
}

/// Mounts a guest's disk, and inspects its run. Returns the run's state and the violations. A run
/// that does not open counts as a violation.
fn look_at_disk(place: &Place, disk: &Path) -> Result<(Folder, Vec<String>)> {
    let mounted = match DiskMount::image(place, disk) {
        Ok(mounted) => mounted,
        Err(failure) => {
            let wrong = format!("the file system does not mount: {failure}");
            return Ok((Folder::Absent, vec![wrong]));
        }
    };
    let folder = folders::look(place, "disk/run")?;
    drop(mounted);
    let mut wrong = folder.wrong();
    if !folder.is_open() {
        wrong.push(format!("a run that had begun does not open: {folder:?}"));
    }
    Ok((folder, wrong))
}

/// Returns an error if more samples are missing than allowed.
fn too_little(folder: &Folder, since_begin: Duration) -> Option<String> {
    // The tool syncs series to disk every ten seconds.
    let allowed = Duration::from_secs(12);
    let warning = folder.warnings_of("cut-off").next()?;
    let stored = Duration::from_nanos(warning["stored_until"].as_u64().unwrap_or(0));
    (stored + allowed < since_begin)
        .then(|| format!("stored up to {stored:?}, cut {since_begin:?} after the beginning"))
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
