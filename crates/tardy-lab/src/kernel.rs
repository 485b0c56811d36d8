//! Finds the kernel that the user names, and its image.
//!
//! A path names an image, a Debian package, or a folder (an unpacked package, a kernel tree, or a
//! /boot that contains one kernel). `debian:6.1-rt` names a package of the machine's own package
//! sources. Once the package is found, a pin in the cache stores which one it was, so that an
//! update of the distribution does not change a comparison unless the user requests it. `--refresh`
//! removes the pin.

mod modules;
mod packaged;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tardy_sys::regular_file;

use super::apt::{AptError, StaleLists};
use super::architecture::Architecture;
use super::cache::{Cache, CacheError};
use super::deb::{self, DebError, PackedFile};
use super::digest::Digest;
use super::image::{self, ImageError};

pub use modules::{MODULE_BYTES_MAX, modules, release_of_module};
pub use packaged::{
    Flavour, Offer, PackagedKernel, fetch_companions, fetch_foreign_tools, offers, pinned,
    versions_between,
};

/// Where the user wants a kernel to come from: the value of `--kernel`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// A file or a folder.
    Path(PathBuf),
    /// A kernel package of Debian.
    Packaged(PackagedKernel),
}

/// Why a text does not name a source of kernels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseKernelError {
    /// The version after `debian:` is missing.
    #[error(
        "`{0}` does not name a kernel: write debian:VERSION, optionally with -rt or -cloud, as in \
         debian:6.1-rt, or debian:trixie/6.12"
    )]
    Packaged(String),
    /// The text is empty.
    #[error("the kernel's name is empty: give a file, a folder or debian:VERSION")]
    Empty,
}

impl FromStr for KernelSource {
    type Err = ParseKernelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("debian:") {
            Some(rest) => rest
                .parse()
                .map(Self::Packaged)
                .map_err(|()| ParseKernelError::Packaged(text.to_owned())),
            None if text.is_empty() => Err(ParseKernelError::Empty),
            // A version alone, such as 6.1-rt, names a packaged kernel, except if there is a file
            // of that name.
            None => match text.parse() {
                Ok(packaged) if is_version(text) && !Path::new(text).exists() => {
                    Ok(Self::Packaged(packaged))
                }
                _ => Ok(Self::Path(PathBuf::from(text))),
            },
        }
    }
}

fn is_version(text: &str) -> bool {
    text.contains('.') && text.starts_with(|first: char| first.is_ascii_digit())
}

impl fmt::Display for KernelSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(formatter),
            Self::Packaged(packaged) => packaged.fmt(formatter),
        }
    }
}

/// A kernel that can be booted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The text that the user gave.
    pub source: String,
    /// A short name for tables and folders: `6.1-rt`, or the release that the image states.
    pub name: String,
    /// Path of the image.
    pub image: PathBuf,
    /// The image's digest, which identifies the kernel.
    pub digest: Digest,
    /// The architecture on which the kernel boots.
    pub architecture: Architecture,
    /// The version that the image states.
    pub version: Option<String>,
    /// Name and version of the kernel's package, or the name of its package file; absent if it
    /// comes from no package.
    pub package: Option<String>,
}

impl Kernel {
    /// Returns the kernel's release as printed by `uname -r`, if the image states it.
    #[must_use]
    pub fn release(&self) -> Option<&str> {
        self.version.as_deref()?.split_whitespace().next()
    }

    /// Returns a text by which two builds of one release can be distinguished: the package's
    /// version, or the release if there is no package.
    #[must_use]
    pub fn short_version(&self) -> Option<String> {
        let of_package = self
            .package
            .as_deref()
            .and_then(|package| package.split_once(' '))
            .map(|(_, version)| version);
        of_package.or(self.release()).map(str::to_owned)
    }

    /// Returns whether the image states that the kernel was built with PREEMPT_RT; `None` if
    /// unknown.
    #[must_use]
    pub fn is_real_time(&self) -> Option<bool> {
        self.version
            .as_ref()
            .map(|version| version.contains("PREEMPT_RT"))
    }
}

/// Why no bootable kernel was found.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file or folder cannot be read.
    #[error("{path}: {error}: check the path and its permissions")]
    Read {
        /// The path that cannot be read.
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
    /// The file is not a kernel image.
    #[error("{path}: {error}")]
    Image {
        path: PathBuf,
        /// Why the file is not an image.
        error: ImageError,
    },
    /// The image is for another machine.
    #[error("{path} is a kernel for {found}: give --arch {found}")]
    Architecture { path: PathBuf, found: Architecture },
    /// The folder or package contains no kernel.
    #[error(
        "{0} holds no kernel image (boot/vmlinuz-*, lib/modules/*/vmlinuz or arch/*/boot): give \
         the image itself"
    )]
    NoImage(PathBuf),
    /// The folder or package contains more than one kernel.
    #[error("{folder} holds several kernels ({names}): give one of them")]
    SeveralImages {
        folder: PathBuf,
        /// Paths of the kernels that were found.
        names: String,
    },
    /// None of the searched releases has the package.
    #[error(
        "the machine's package sources have no {wanted}; looked in {searched}; `tardy lab kernels \
         --refresh` lists those available"
    )]
    NoPackage {
        /// The requested package.
        wanted: String,
        /// Names of the searched releases.
        searched: String,
    },
    /// The kernel's package has no such module.
    #[error(
        "there is no module {name} for {kernel}: give the kernel as debian:VERSION or as a .deb \
         file, which contains the modules, and check the kernel's config"
    )]
    NoModule {
        /// Name of the module. The user requested the module, or another module requires it.
        name: String,
        /// The kernel that lacks the module.
        kernel: String,
    },
    /// The machine has no package sources of Debian.
    #[error(
        "{0} needs Debian package sources on this machine: give the kernel as a .deb, vmlinuz or \
         bzImage file instead"
    )]
    NoSources(String),
    /// The package cannot be read.
    #[error(transparent)]
    Deb(#[from] DebError),
    /// apt could not fetch the package.
    #[error(transparent)]
    Apt(#[from] AptError),
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Finds the kernel. With `refresh`, searches the package sources again even if the cache has
/// stored which package to use. If fetching newer package lists fails, but old lists exist, uses
/// these and calls `warn`.
///
/// # Errors
/// Returns [`KernelError`].
pub fn resolve(
    source: &KernelSource,
    architecture: Architecture,
    cache: &Cache,
    refresh: bool,
    warn: &dyn Fn(&StaleLists),
) -> Result<Kernel, KernelError> {
    let kernel = match source {
        KernelSource::Packaged(packaged) => {
            packaged::resolve(packaged, architecture, cache, refresh, warn)?
        }
        KernelSource::Path(path) => of_path(path, architecture, cache)?,
    };
    if kernel.architecture == architecture {
        Ok(kernel)
    } else {
        Err(KernelError::Architecture {
            path: kernel.image,
            found: kernel.architecture,
        })
    }
}

/// Size limit of a kernel image; a vmlinux with full debugging information has 1 GB.
const IMAGE_BYTES_MAX: u64 = 2 << 30;

fn of_path(path: &Path, architecture: Architecture, cache: &Cache) -> Result<Kernel, KernelError> {
    let read_error = |error| KernelError::Read {
        path: path.to_owned(),
        error,
    };
    let metadata = std::fs::metadata(path).map_err(read_error)?;
    let file = if metadata.is_dir() {
        image_in_folder(path, architecture)?
    } else {
        path.to_owned()
    };
    if file.extension().is_some_and(|extension| extension == "deb") {
        return of_package_file(&file, cache, path.display().to_string());
    }
    let file = std::path::absolute(&file).map_err(read_error)?;
    let bytes = regular_file::read(&file, IMAGE_BYTES_MAX).map_err(|error| KernelError::Read {
        path: file.clone(),
        error,
    })?;
    described(path.display().to_string(), file, &bytes)
}

/// Returns the kernel in a package file; stores its image in the cache.
fn of_package_file(package: &Path, cache: &Cache, source: String) -> Result<Kernel, KernelError> {
    let found = deb::extract(
        package,
        &|path| is_image_path(path),
        &|found: &[PackedFile]| !found.is_empty(),
    )?;
    let Some(file) = found.into_iter().next() else {
        return Err(KernelError::NoImage(package.to_owned()));
    };
    let (path, _) = cache.keep_image(&file.content)?;
    let mut kernel = described(source, path, &file.content)?;
    kernel.package = package
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    Ok(kernel)
}

fn is_image_path(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (path.starts_with("boot") && (name.starts_with("vmlinuz-") || name.starts_with("vmlinux-")))
        || (name == "vmlinuz"
            && (path.starts_with("lib/modules") || path.starts_with("usr/lib/modules")))
}

fn image_in_folder(folder: &Path, architecture: Architecture) -> Result<PathBuf, KernelError> {
    let in_tree = folder.join(architecture.image_in_tree());
    if in_tree.is_file() {
        return Ok(in_tree);
    }
    let names = |folder: &Path| {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        paths.sort();
        paths
    };
    let is_boot_image = |path: &PathBuf| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .starts_with("vmlinuz-")
    };
    let mut found: Vec<PathBuf> = [folder.to_owned(), folder.join("boot")]
        .iter()
        .flat_map(|folder| names(folder))
        .filter(is_boot_image)
        .collect();
    for modules in ["lib/modules", "usr/lib/modules"] {
        found.extend(
            names(&folder.join(modules))
                .into_iter()
                .map(|release| release.join("vmlinuz"))
                .filter(|path| path.is_file()),
        );
    }
    match found.len() {
        0 => Err(KernelError::NoImage(folder.to_owned())),
        1 => Ok(found.remove(0)),
        _ => {
            let names: Vec<String> = found
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Err(KernelError::SeveralImages {
                folder: folder.to_owned(),
                names: names.join(", "),
            })
        }
    }
}

fn described(source: String, path: PathBuf, bytes: &[u8]) -> Result<Kernel, KernelError> {
    let image = image::recognise(bytes).map_err(|error| KernelError::Image {
        path: path.clone(),
        error,
    })?;
    let release = image
        .version
        .as_ref()
        .and_then(|version| version.split_whitespace().next())
        .map(str::to_owned);
    let digest = Digest::of_bytes(bytes);
    let name = release.unwrap_or_else(|| digest.short().to_owned());
    Ok(Kernel {
        source,
        name,
        image: path,
        digest,
        architecture: image.architecture,
        version: image.version,
        package: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deb::tests::package;
    use crate::image::tests::bzimage;

    const VERSION: &str = "6.1.0-56-rt-amd64 (x) #1 SMP PREEMPT_RT Debian 6.1.192-2";

    fn resolved(path: &Path, cache: &Path) -> Result<Kernel, KernelError> {
        let source = path.to_str().unwrap().parse().unwrap();
        resolve(
            &source,
            Architecture::Amd64,
            &Cache::at(cache.to_owned()),
            false,
            &|_| (),
        )
    }

    #[test]
    fn the_same_kernel_is_found_as_a_file_in_a_folder_in_a_tree_and_in_a_package() {
        let folder = tempfile::tempdir().unwrap();
        let image = bzimage(VERSION);
        let at = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, bytes).unwrap();
            path
        };
        at("unpacked/boot/vmlinuz-6.1", &image);
        at("split/usr/lib/modules/6.1/vmlinuz", &image);
        at("tree/arch/x86/boot/bzImage", &image);
        let packed = package(&[("./boot/config-6.1", b"x"), ("./boot/vmlinuz-6.1", &image)]);
        let sources = [
            at("file", &image),
            folder.path().join("unpacked"),
            folder.path().join("unpacked/boot"),
            folder.path().join("split"),
            folder.path().join("tree"),
            at("linux.deb", &packed),
        ];
        for source in sources {
            let kernel = resolved(&source, &folder.path().join("cache")).unwrap();
            assert_eq!(kernel.digest, Digest::of_bytes(&image), "{source:?}");
            assert_eq!(kernel.digest, Digest::of_file(&kernel.image).unwrap());
            assert_eq!(
                (kernel.name.as_str(), kernel.is_real_time()),
                ("6.1.0-56-rt-amd64", Some(true))
            );
        }
    }

    #[test]
    fn a_version_alone_is_a_package_and_everything_else_a_path() {
        let source = |text: &str| text.parse::<KernelSource>().unwrap();
        assert_eq!(source("6.1-rt"), source("debian:6.1-rt"));
        assert_eq!(source("6.12"), source("debian:6.12"));
        for path in ["./6.1", "vmlinuz", "6", "linux-6.1/vmlinux"] {
            assert_eq!(source(path), KernelSource::Path(PathBuf::from(path)));
        }
    }

    #[test]
    fn a_folder_with_several_kernels_is_refused_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["vmlinuz-1", "vmlinuz-2"] {
            std::fs::write(folder.path().join(name), bzimage(VERSION)).unwrap();
        }
        let error = resolved(folder.path(), folder.path()).unwrap_err();
        assert!(
            matches!(error, KernelError::SeveralImages { .. })
                && error.to_string().contains("vmlinuz-2")
        );
    }

    #[test]
    fn a_kernel_for_another_machine_is_refused_with_the_option_that_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Image");
        let mut bytes = vec![0; 0x100];
        bytes[0x38..0x3c].copy_from_slice(b"ARM\x64");
        std::fs::write(&path, bytes).unwrap();
        assert!(
            resolved(&path, folder.path())
                .unwrap_err()
                .to_string()
                .contains("--arch arm64")
        );
    }

    #[test]
    fn what_holds_no_kernel_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(
            resolved(folder.path(), folder.path()),
            Err(KernelError::NoImage(_))
        ));
        assert!(matches!(
            resolved(&folder.path().join("none"), folder.path()),
            Err(KernelError::Read { .. })
        ));
        let path = folder.path().join("x.deb");
        std::fs::write(&path, package(&[("./usr/x", b"x")])).unwrap();
        assert!(matches!(
            resolved(&path, folder.path()),
            Err(KernelError::NoImage(_))
        ));
        assert_eq!("".parse::<KernelSource>(), Err(ParseKernelError::Empty));
    }
}
