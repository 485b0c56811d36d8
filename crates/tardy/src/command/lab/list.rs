//! `tardy lab kernels`: what this machine can offer to `--kernel`.

use std::path::Path;

use serde::Serialize;
use tardy_lab::cache::Cache;
use tardy_lab::kernel::{Offer, offers, pinned};
use tardy_results::document::Format;
use tardy_results::exit::Exit;

use super::setting::{LabError, architecture};
use crate::cli::lab::KernelsArguments;

/// A kernel image of this machine.
#[derive(Serialize)]
struct InstalledKernel {
    kernel: String,
    /// Whether this user may read it.
    readable: bool,
}

#[derive(Serialize)]
struct KernelListing {
    installed: Vec<InstalledKernel>,
    pinned: Vec<tardy_lab::kernel::Kernel>,
    packages: Vec<Offer>,
}

pub(super) fn list(arguments: &KernelsArguments) -> Result<Exit, LabError> {
    let architecture = architecture(arguments.arch)?;
    let cache = Cache::of_user()?;
    let listing = KernelListing {
        installed: installed(Path::new("/boot")),
        pinned: pinned(&cache)?,
        packages: offers(architecture, &cache, arguments.refresh)?,
    };
    if arguments.json {
        print!("{}", Format::LAB_KERNELS.document(&listing));
    } else {
        print(&listing);
    }
    Ok(Exit::Done)
}

fn installed(boot: &Path) -> Vec<InstalledKernel> {
    let entries = std::fs::read_dir(boot).into_iter().flatten().flatten();
    let images = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"));
    let describe =
        |path: std::path::PathBuf| InstalledKernel { kernel: path.display().to_string(), readable: std::fs::File::open(&path).is_ok() };
    let mut installed: Vec<_> = images.map(|entry| describe(entry.path())).collect();
    installed.sort_by(|one, other| one.kernel.cmp(&other.kernel));
    installed
}

fn print(listing: &KernelListing) {
    for image in &listing.installed {
        println!("{}{}", image.kernel, if image.readable { "" } else { "  (not readable for this user)" });
    }
    for kernel in &listing.pinned {
        println!("{:<38} {:<8} kept     {}", kernel.source, kernel.architecture.name(), kernel.package.as_deref().unwrap_or_default());
    }
    for offer in &listing.packages {
        println!("{:<38} {:<8} package  {}", offer.kernel, "", offer.version);
    }
    if listing.packages.is_empty() {
        eprintln!(
            "no package lists were fetched yet, or this machine has no package sources of Debian: `tardy lab kernels --refresh` tries"
        );
    }
}
