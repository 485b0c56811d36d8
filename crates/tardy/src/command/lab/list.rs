//! `tardy lab kernels`: lists the kernels that `--kernel` accepts on this machine.

use std::path::Path;

use serde::Serialize;
use tardy_lab::cache::Cache;
use tardy_lab::kernel::{Offer, offers, pinned};
use tardy_report::report::table::Table;
use tardy_results::document::Format;
use tardy_results::exit::Exit;

use super::setting::{LabError, architecture};
use crate::cli::lab::KernelsArguments;
use crate::cli::lab::kernels::warn_of_lists;
use crate::command::output;

/// A kernel image of this machine.
#[derive(Serialize)]
struct InstalledKernel {
    kernel: String,
    /// Whether this user may read the image.
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
        packages: offers(architecture, &cache, arguments.refresh, &warn_of_lists)?,
    };
    let text = if arguments.json {
        Format::LAB_KERNELS.document(&listing)
    } else {
        text(&listing, output::screen_or_page().columns)
    };
    output::print(&text)
        .map_err(|error| LabError::Unable(format!("cannot write the list: {error}")))?;
    if !arguments.json && listing.packages.is_empty() {
        say!(
            "the package lists have not been fetched yet, or this machine has no Debian package \
             sources: try `tardy lab kernels --refresh`"
        );
    }
    Ok(Exit::Done)
}

fn installed(boot: &Path) -> Vec<InstalledKernel> {
    let entries = std::fs::read_dir(boot).into_iter().flatten().flatten();
    let images =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"));
    let describe = |path: std::path::PathBuf| InstalledKernel {
        kernel: path.display().to_string(),
        readable: std::fs::File::open(&path).is_ok(),
    };
    let mut installed: Vec<_> = images.map(|entry| describe(entry.path())).collect();
    installed.sort_by(|one, other| one.kernel.cmp(&other.kernel));
    installed
}

fn text(listing: &KernelListing, columns: usize) -> String {
    let mut table = Table::new(["kernel", "where", "version", "architecture"]).words([1, 2, 3]);
    for image in &listing.installed {
        table.row([
            image.kernel.as_str(),
            if image.readable {
                "installed"
            } else {
                "installed, not readable for this user"
            },
        ]);
    }
    for kernel in &listing.pinned {
        table.row([
            kernel.source.as_str(),
            "kept",
            kernel.package.as_deref().unwrap_or_default(),
            kernel.architecture.name(),
        ]);
    }
    for offer in &listing.packages {
        table.row([offer.kernel.as_str(), "package", offer.version.as_str()]);
    }
    table.chosen(columns, &["where", "version"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_the_kernel_and_where_it_is() {
        let offer = Offer {
            kernel: "debian:6.12-rt".into(),
            release: "trixie".into(),
            version: "6.12.48-1".into(),
        };
        let image = InstalledKernel {
            kernel: "/boot/vmlinuz-6.1.0-41-amd64".into(),
            readable: true,
        };
        let listing = KernelListing {
            installed: vec![image],
            pinned: Vec::new(),
            packages: vec![offer],
        };
        let expected = "kernel                        where      \
                        version\n/boot/vmlinuz-6.1.0-41-amd64  \
             installed\ndebian:6.12-rt                package    6.12.48-1\n";
        assert_eq!(
            text(&listing, 60)
                .lines()
                .map(|line| line.trim_end().to_owned() + "\n")
                .collect::<String>(),
            expected
        );
        assert!(
            text(&listing, 45)
                .lines()
                .all(|line| line.chars().count() <= 45),
            "{}",
            text(&listing, 45)
        );
    }
}
