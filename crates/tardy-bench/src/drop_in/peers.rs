//! Downloads the packaged versions of cyclictest without installing them, each with the libraries
//! of its release.

use std::path::{Path, PathBuf};
use std::process::Command;

use tardy_lab::apt::sources::{self, Source};
use tardy_lab::apt::{AptError, PrivateApt};
use tardy_lab::architecture::Architecture;
use tardy_lab::cache::Cache;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

use super::options;

/// The releases of Debian: 11, 12, 13 and unstable.
const RELEASES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];

/// The cyclictest of a release.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) release: &'static str,
    /// Version of the package.
    pub(super) version: String,
    /// The long names of the options in its `--help`.
    pub(super) options: Vec<String>,
    loader: PathBuf,
    libraries: String,
    program: PathBuf,
}

impl Peer {
    /// Returns the words that start the program, without arguments.
    pub(super) fn words(&self) -> Vec<String> {
        [
            &self.loader.display().to_string(),
            "--library-path",
            &self.libraries,
            &self.program.display().to_string(),
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

/// Returns the cyclictest of every release, and fetches missing ones. A release that the server
/// lacks is reported and left out.
pub(super) fn all() -> Result<Vec<Peer>> {
    let folder = workspace::target_folder()?.join("drop-in");
    let mut peers = Vec::new();
    for release in RELEASES {
        match of_release(release, &folder.join(release)) {
            Ok(peer) => peers.push(peer),
            Err(failure) => eprintln!("xtask: cyclictest of {release} is missing: {failure}"),
        }
    }
    if peers.is_empty() {
        return Err(Failure::new("there is no cyclictest to compare with"));
    }
    Ok(peers)
}

fn of_release(release: &'static str, folder: &Path) -> Result<Peer> {
    let stamp = folder.join("version");
    if !stamp.exists() {
        let version = fetch(release, folder)?;
        workspace::write(&stamp, version)?;
    }
    let version = workspace::read(&stamp)?;
    let libraries = [
        library_folder(folder, "libc.so.6"),
        library_folder(folder, "libnuma.so.1"),
    ];
    let libraries = libraries.into_iter().collect::<Result<Vec<_>>>()?;
    let loader = find(folder, "ld-linux-x86-64.so.2")
        .ok_or_else(|| Failure::new("its C library has no loader for x86-64"))?;
    let mut peer = Peer {
        release,
        version,
        options: Vec::new(),
        loader,
        libraries: libraries.join(":"),
        program: folder.join("usr/bin/cyclictest"),
    };
    let words = peer.words();
    let help = program::capture(Command::new(&words[0]).args(&words[1..]).arg("--help"))?;
    peer.options = options::of_help(&help);
    Ok(peer)
}

/// Unpacks the package and the libraries on which it depends. Returns the package's version.
fn fetch(release: &str, folder: &Path) -> Result<String> {
    let fetching = || format!("fetching rt-tests of {release}");
    let sources: Vec<Source> = sources::for_release(&sources::read_all(Path::new("/")), release);
    let architecture = Architecture::of_this_binary()
        .ok_or_else(|| Failure::new("there are no packages for this architecture"))?;
    let cache = Cache::of_user().while_doing(fetching)?;
    let apt = PrivateApt::open(&cache, release, architecture, &sources).while_doing(fetching)?;
    apt.refresh(false).while_doing(fetching)?;
    let downloads = tempfile::tempdir().while_doing(fetching)?;
    let (version, files) = download(&apt, downloads.path())
        .or_else(|_| {
            // Package lists of last week may name a version that the server has replaced.
            apt.refresh(true)?;
            download(&apt, downloads.path())
        })
        .while_doing(fetching)?;
    std::fs::create_dir_all(folder).while_doing(fetching)?;
    for file in files {
        program::run(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(file)
                .arg(folder),
        )?;
    }
    Ok(version)
}

fn download(
    apt: &PrivateApt,
    folder: &Path,
) -> std::result::Result<(String, Vec<PathBuf>), AptError> {
    let newest = |name: &str| {
        let mut versions = apt.versions(name)?.into_iter();
        versions
            .next()
            .ok_or_else(|| AptError::NoFile(name.to_owned()))
    };
    let package = newest("rt-tests")?;
    let mut files = vec![apt.download(&package.name, &package.version, folder)?];
    for name in package
        .depends
        .iter()
        .filter(|name| name.starts_with("lib"))
    {
        let library = newest(name)?;
        files.push(apt.download(&library.name, &library.version, folder)?);
    }
    Ok((package.version, files))
}

fn library_folder(folder: &Path, name: &str) -> Result<String> {
    find(folder, name)
        .and_then(|file| Some(file.parent()?.display().to_string()))
        .ok_or_else(|| Failure::new(format!("its packages have no {name}")))
}

/// Returns the file with this name in one of the library folders.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    ["usr/lib", "lib"]
        .iter()
        .map(|below| folder.join(below).join("x86_64-linux-gnu").join(name))
        .find(|path| path.exists())
}
