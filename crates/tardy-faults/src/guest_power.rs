//! The power of a whole machine fails: QEMU is killed while a run in its guest writes to a disk, and the disk is mounted again.

use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_lab::kernel;
use tardy_lab::several_cpus::{self, Equipment, Guest, GuestProcess};
use xtask::failure::{Failure, Result, While};

use crate::disks::{self, Image};
use crate::fault::{Fault, Ground, Tally};
use crate::folders::{self, Folder};
use crate::guests;
use crate::place::PATIENCE;

pub(crate) const GUEST_POWER: Fault = Fault {
    name: "guest-power",
    done: "a guest is killed (SIGKILL of QEMU) while a run in it writes to the guest's disk (ext4 on virtio): the disk is mounted again",
    demanded: "the file system mounts; the run opens, its counts add up; samples reach up to 12 s before the cut",
    attempt: guest_power,
};

/// The driver of the disk, and what ext4 needs beside what it depends on.
const MODULES: &[&str] = &["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];
/// What the script prints when the run has begun.
const BEGUN: &str = "tardy-faults: the run has begun";
const SCRIPT: &str = "mount -t ext4 /dev/vda /mnt || { echo 'no disk' >/dev/console; exit 1; }\n\
    /init run --for 2m --load none --quiet --out /mnt/run >/dev/console 2>&1 &\n\
    until [ -s /mnt/run/run.json ] && [ -s /mnt/run/state.jsonl ]; do usleep 10000; done\n";

fn guest_power(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    if let Some(missing) = guests::missing() {
        tally.left_out.push(missing);
        return Ok(tally);
    }
    let kernel = guests::kernel()?;
    let modules = kernel::modules(&kernel, MODULES, &guests::cache()?).while_doing(|| "looking for the modules of a disk".to_owned())?;
    let tries = ground.tries(2, 8);
    for number in 0..tries {
        let place = ground.place()?;
        let disk = disks::made_image(&place)?;
        let script = format!("{SCRIPT}echo '{BEGUN}' >/dev/console\nwait\n");
        let files = guests::script_files(&place, &script)?;
        let equipment = Equipment { program: Some("/bin/script"), files: &files, modules: &modules, disk: Some(&disk) };
        let guest = Guest {
            cpus: 2,
            memory_mib: 768,
            kernel: &kernel.image,
            words: "",
            tardy: place.binary(),
            time_limit: Nanos::from_secs(300),
            equipment,
        };
        let mut guest = several_cpus::start(guest, &[]).while_doing(|| "starting a guest with a disk".to_owned())?;
        wait_until_begun(&mut guest)?;
        let begun = Instant::now();
        // From the first write to the disk on, over several of the moments at which everything is brought there.
        std::thread::sleep(Duration::from_millis(2_000 + number as u64 * 26_000 / tries as u64));
        let since_begin = begun.elapsed();
        guest.cut_power().while_doing(|| "killing QEMU".to_owned())?;
        let mut wrong = Vec::new();
        let seen = match Image::open(&place, disk) {
            Err(failure) => {
                wrong.push(format!("the file system does not mount: {failure}"));
                "does not mount"
            }
            Ok(_opened) => {
                let folder = folders::look(&place, "disk/run")?;
                wrong.extend(folder.wrong());
                wrong.extend(disks::too_little(&folder, since_begin));
                match folder {
                    Folder::Opens { .. } => "opens",
                    _ => {
                        wrong.push(format!("a run that had begun does not open: {folder:?}"));
                        "does not open"
                    }
                }
            }
        };
        tally.count(&format!("power cut {since_begin:?} after the beginning"), seen, wrong);
    }
    Ok(tally)
}

fn wait_until_begun(guest: &mut GuestProcess) -> Result<()> {
    let start = Instant::now();
    while !guest.console().contains(BEGUN) {
        let is_running = guest.is_running().while_doing(|| "waiting for a guest".to_owned())?;
        if !is_running || start.elapsed() > 2 * PATIENCE {
            return Err(Failure::new(format!("no run began in the guest; its console: {}", guest.console().trim())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
