//! Debian's kernel packages. `debian:6.1-rt` means the newest 6.1 kernel with the flavour `rt`, in
//! the first release that has one. The search starts with the machine's own release. If the server
//! does not have the newest kernel that its lists name, older ones are tried.

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Kernel, KernelError, KernelSource, of_package_file};
use crate::apt::sources::{self, RELEASES, Source};
use crate::apt::{AptError, Package, PrivateApt, StaleLists};
use crate::architecture::Architecture;
use crate::cache::{Cache, CacheError, write_whole};

/// The flavours (configurations) in which Debian builds a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// The ordinary configuration.
    Stock,
    /// With PREEMPT_RT.
    Rt,
    /// A kernel with few drivers, for virtual machines.
    Cloud,
}

impl Flavour {
    const ALL: [Self; 3] = [Self::Stock, Self::Rt, Self::Cloud];

    /// Returns the part of a package's name that states the flavour, with its hyphen. In the name,
    /// the architecture follows this part.
    fn infix(self) -> &'static str {
        match self {
            Self::Stock => "",
            Self::Rt => "rt-",
            Self::Cloud => "cloud-",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Stock => "",
            Self::Rt => "-rt",
            Self::Cloud => "-cloud",
        }
    }
}

/// Number of packages tried in one release if the server lacks the newest ones. In November 2026,
/// the lists of bullseye-security named seven kernels for arm64 that its server had removed.
const OLDER_TRIED: usize = 12;

/// A kernel package, identified by version, flavour and optionally release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedKernel {
    /// Release such as `trixie` or `bookworm-backports`; absent if any release will do.
    pub release: Option<String>,
    /// The start of the package's version (`6.1`, `6.1.192-2`), or of the version in its name
    /// (`6.1.0-56`).
    pub version: String,
    /// The kernel's configuration.
    pub flavour: Flavour,
}

impl FromStr for PackagedKernel {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (release, rest) = match text.split_once('/') {
            Some((release, rest)) => (Some(release), rest),
            None => (None, text),
        };
        let with_suffix =
            |flavour: &Flavour| Some((rest.strip_suffix(flavour.suffix())?, *flavour));
        let (version, flavour) = [Flavour::Rt, Flavour::Cloud]
            .iter()
            .find_map(with_suffix)
            .unwrap_or((rest, Flavour::Stock));
        let plain = |text: &str| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || ".-+~".contains(c))
        };
        if !version.starts_with(|c: char| c.is_ascii_digit())
            || !plain(version)
            || release.is_some_and(|name| {
                !plain(name) || !name.starts_with(|c: char| c.is_ascii_alphabetic())
            })
        {
            return Err(());
        }
        Ok(Self {
            release: release.map(str::to_owned),
            version: version.to_owned(),
            flavour,
        })
    }
}

impl fmt::Display for PackagedKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let release = self
            .release
            .as_ref()
            .map(|release| format!("{release}/"))
            .unwrap_or_default();
        write!(
            formatter,
            "debian:{release}{}{}",
            self.version,
            self.flavour.suffix()
        )
    }
}

/// Returns whether `version` starts with `wanted`, and no further digit follows directly: 6.1
/// matches 6.1.192-2, but not 6.12.
fn begins_with(version: &str, wanted: &str) -> bool {
    version
        .strip_prefix(wanted)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns a key that sorts versions by the values of their numbers: 6.1.9 comes before 6.1.10. The
/// key suffices within one release, because all versions of a release are written in the same form.
fn version_key(version: &str) -> Vec<(u64, String)> {
    let mut key = Vec::new();
    let mut rest = version;
    while !rest.is_empty() {
        let (text, tail) = rest.split_at(
            rest.find(|c: char| c.is_ascii_digit())
                .unwrap_or(rest.len()),
        );
        let (digits, tail) = tail.split_at(
            tail.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(tail.len()),
        );
        key.push((digits.parse().unwrap_or(u64::MAX), text.to_owned()));
        rest = tail;
    }
    key
}

/// Finds and fetches the package, stores its image in the cache, and pins the package.
pub(super) fn resolve(
    wanted: &PackagedKernel,
    architecture: Architecture,
    cache: &Cache,
    refresh: bool,
    warn: &dyn Fn(&StaleLists),
) -> Result<Kernel, KernelError> {
    let pin_name = format!(
        "{}-{architecture}.json",
        wanted.to_string().replace(['/', ':'], "-")
    );
    let pin = cache.folder("pins")?.join(pin_name);
    if !refresh && let Some(kernel) = read_pin(&pin, cache) {
        return Ok(kernel);
    }
    let all_sources = sources::read_all(Path::new("/"));
    let releases = match &wanted.release {
        Some(release) => vec![release.clone()],
        None => search_order(&own_release(&all_sources)),
    };
    for release in &releases {
        let turned = sources::for_release(&all_sources, release);
        if turned.is_empty() {
            return Err(KernelError::NoSources(wanted.to_string()));
        }
        let apt = PrivateApt::open(cache, release, architecture, &turned)?;
        // Looks into the cache again, because another thread or process may have fetched the
        // package while this one waited for its turn.
        if !refresh && let Some(kernel) = read_pin(&pin, cache) {
            return Ok(kernel);
        }
        match apt.refresh(refresh) {
            Ok(stale) => stale.iter().for_each(warn),
            // The search continues if the server has no lists of a release.
            Err(_) if !apt.has_lists() && releases.len() > 1 => continue,
            Err(_) => {}
        }
        let candidates = find(&apt, wanted, architecture)?;
        if !candidates.is_empty() {
            let mut kernel =
                first_fetched(&candidates, |package| fetch(&apt, package, cache, wanted))?;
            kernel.name = format!("{}{}", wanted.version, wanted.flavour.suffix());
            write_whole(
                &pin,
                &serde_json::to_vec_pretty(&kernel)
                    .expect("a kernel can always be written as JSON"),
            )?;
            return Ok(kernel);
        }
    }
    Err(KernelError::NoPackage {
        wanted: wanted.to_string(),
        searched: releases.join(", "),
    })
}

/// Returns the kernels whose packages were fetched before, sorted by name.
///
/// # Errors
/// Returns [`CacheError::Io`] if the cache's folder cannot be made.
pub fn pinned(cache: &Cache) -> Result<Vec<Kernel>, CacheError> {
    let entries = std::fs::read_dir(cache.folder("pins")?)
        .into_iter()
        .flatten()
        .flatten();
    let mut kernels: Vec<Kernel> = entries
        .filter_map(|entry| read_pin(&entry.path(), cache))
        .collect();
    kernels.sort_by(|one, other| one.source.cmp(&other.source));
    Ok(kernels)
}

fn read_pin(pin: &Path, cache: &Cache) -> Option<Kernel> {
    let kernel: Kernel = serde_json::from_slice(&std::fs::read(pin).ok()?).ok()?;
    // The image may be missing, because the user may have moved or cleaned the cache since then.
    let image = cache.image(&kernel.digest)?;
    Some(Kernel { image, ..kernel })
}

/// Returns the first release that the machine's package sources name: `bookworm` for the suite
/// `bookworm-updates`.
fn own_release(sources: &[Source]) -> Option<String> {
    let suites = sources.iter().flat_map(|source| &source.suites);
    suites
        .filter_map(|suite| suite.split('-').next())
        .find(|base| RELEASES.contains(base))
        .map(str::to_owned)
}

/// Returns the releases in the order in which they are searched: the machine's own release, its
/// backports, then the other releases from the oldest on, each followed by its backports.
fn search_order(own: &Option<String>) -> Vec<String> {
    let others = RELEASES
        .iter()
        .map(|release| (*release).to_owned())
        .filter(|release| Some(release) != own.as_ref());
    let mut order = Vec::new();
    for release in own.iter().cloned().chain(others) {
        let has_backports = !["forky", "sid"].contains(&release.as_str());
        order.push(release.clone());
        if has_backports {
            order.push(format!("{release}-backports"));
        }
    }
    order
}

/// Returns the matching packages, newest first. These are packages with matching names, and
/// dependencies of the metapackage that always depends on the newest kernel.
fn find(
    apt: &PrivateApt,
    wanted: &PackagedKernel,
    architecture: Architecture,
) -> Result<Vec<Package>, KernelError> {
    let infix = wanted.flavour.infix();
    let mut found = Vec::new();
    for meta in apt.versions(&format!("linux-image-{infix}{architecture}"))? {
        let kernel = meta
            .depends
            .iter()
            .find(|name| name.starts_with("linux-image-"));
        if let Some(name) = kernel.filter(|_| begins_with(&meta.version, &wanted.version)) {
            found.extend(
                apt.versions(name)?
                    .into_iter()
                    .filter(|package| package.version == meta.version),
            );
        }
    }
    let mut names = kernel_names(apt, wanted.flavour, architecture)?;
    names.retain(|name| begins_with(&name.release, &wanted.version));
    names.sort_by_cached_key(|name| Reverse(version_key(&name.release)));
    for name in names.iter().take(OLDER_TRIED) {
        found.extend(apt.versions(&name.package)?);
    }
    found.sort_by_cached_key(|package| Reverse(version_key(&package.version)));
    found.dedup();
    Ok(found)
}

/// Tries to fetch the packages one after the other, and returns the kernel from the first one that
/// the server has. [`Kernel::package`] names that package.
fn first_fetched(
    packages: &[Package],
    fetch: impl Fn(&Package) -> Result<Kernel, KernelError>,
) -> Result<Kernel, KernelError> {
    let mut first_error = None;
    for package in packages.iter().take(OLDER_TRIED) {
        match fetch(package) {
            Err(error @ KernelError::Apt(AptError::Failed { .. })) => {
                first_error.get_or_insert(error);
            }
            result => return result,
        }
    }
    Err(first_error.unwrap_or_else(|| KernelError::NoPackage {
        wanted: "a kernel".to_owned(),
        searched: "no packages".to_owned(),
    }))
}

fn fetch(
    apt: &PrivateApt,
    package: &Package,
    cache: &Cache,
    wanted: &PackagedKernel,
) -> Result<Kernel, KernelError> {
    let folder = cache.scratch("downloads")?;
    fetch_into(apt, package, cache, wanted, folder.path())
}

/// Fetches the package that contains the kernel's image. From Linux 7.x on, the image is in a
/// separate package (`linux-binary-*`), on which `linux-image-*` depends.
fn fetch_into(
    apt: &PrivateApt,
    package: &Package,
    cache: &Cache,
    wanted: &PackagedKernel,
    folder: &Path,
) -> Result<Kernel, KernelError> {
    let mut candidates = vec![package.clone()];
    for name in package
        .depends
        .iter()
        .filter(|name| name.starts_with("linux-binary-"))
    {
        candidates.extend(
            apt.versions(name)?
                .into_iter()
                .filter(|binary| binary.version == package.version),
        );
    }
    // The more likely package comes first, so that usually only one is fetched.
    for candidate in candidates.iter().rev() {
        let file = apt.download(&candidate.name, &candidate.version, folder)?;
        match of_package_file(&file, cache, wanted.to_string()) {
            Err(KernelError::NoImage(_)) => {}
            Err(error) => return Err(error),
            Ok(kernel) => {
                return Ok(Kernel {
                    package: Some(format!("{} {}", candidate.name, candidate.version)),
                    ..kernel
                });
            }
        }
    }
    Err(KernelError::NoImage(folder.join(&package.name)))
}

/// Fetches packages that belong to a packaged kernel, such as its headers, into `folder`. These are
/// the packages `names`, in the same version as the kernel's package, and those of their
/// dependencies whose names start with `linux-`. Installs nothing.
///
/// # Errors
/// Returns [`KernelError::NoPackage`] when no release of the machine's sources has the packages, or
/// the kernel does not come from a package; [`KernelError::Apt`].
pub fn fetch_companions(
    kernel: &Kernel,
    names: &[String],
    cache: &Cache,
    folder: &Path,
) -> Result<Vec<PathBuf>, KernelError> {
    let (_, apt, found) = release_with(kernel, names, cache)?;
    fetch_with_dependencies(&apt, found, folder)
}

/// Fetches the packages `tools`, with everything that they need, into `folder`. Takes them from the
/// release that has the kernel's packages `names`, because programs in these packages need its C
/// library. Installs nothing, and fetches nothing if this machine has the same release.
///
/// # Errors
/// As [`fetch_companions`].
pub fn fetch_foreign_tools(
    kernel: &Kernel,
    names: &[String],
    tools: &[&str],
    cache: &Cache,
    folder: &Path,
) -> Result<Vec<PathBuf>, KernelError> {
    let (release, ..) = release_with(kernel, names, cache)?;
    let base = release.trim_end_matches("-backports");
    let all_sources = sources::read_all(Path::new("/"));
    if own_release(&all_sources).as_deref() == Some(base) {
        return Ok(Vec::new());
    }
    let turned = sources::for_release(&all_sources, base);
    let apt = PrivateApt::open(cache, base, kernel.architecture, &turned)?;
    apt.refresh(false)?;
    Ok(apt.download_with_dependencies(tools, folder)?)
}

/// Returns the first release that has the packages `names` in the version of the kernel's package,
/// and these packages.
fn release_with(
    kernel: &Kernel,
    names: &[String],
    cache: &Cache,
) -> Result<(String, PrivateApt, Vec<Package>), KernelError> {
    let all_sources = sources::read_all(Path::new("/"));
    let releases = search_order(&own_release(&all_sources));
    let missing = || KernelError::NoPackage {
        wanted: names.join(" and "),
        searched: releases.join(", "),
    };
    let (_, version) = kernel
        .package
        .as_deref()
        .and_then(|package| package.split_once(' '))
        .ok_or_else(missing)?;
    for release in &releases {
        let turned = sources::for_release(&all_sources, release);
        let apt = PrivateApt::open(cache, release, kernel.architecture, &turned)?;
        // No lists are fetched here, because the lists in which the kernel was found exist already.
        if !apt.has_lists() {
            continue;
        }
        let exact = |name: &String| -> Result<Option<Package>, AptError> {
            Ok(apt
                .versions(name)?
                .into_iter()
                .find(|package| package.version == version))
        };
        let found: Vec<Package> = names
            .iter()
            .map(exact)
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect();
        if found.len() == names.len() {
            return Ok((release.clone(), apt, found));
        }
    }
    Err(missing())
}

fn fetch_with_dependencies(
    apt: &PrivateApt,
    packages: Vec<Package>,
    folder: &Path,
) -> Result<Vec<PathBuf>, KernelError> {
    let newest = |name: &String| -> Result<Option<Package>, AptError> {
        Ok(apt
            .versions(name)?
            .into_iter()
            .max_by_key(|package| version_key(&package.version)))
    };
    let mut wanted = packages;
    let mut next = 0;
    while let Some(package) = wanted.get(next).cloned() {
        for name in package
            .depends
            .iter()
            .filter(|name| name.starts_with("linux-"))
        {
            if !wanted.iter().any(|known| known.name == *name) {
                wanted.extend(newest(name)?);
            }
        }
        next += 1;
    }
    wanted
        .iter()
        .map(|package| Ok(apt.download(&package.name, &package.version, folder)?))
        .collect()
}

/// Returns the kernels of a flavour whose versions lie between `from` and `to` (without these two).
/// Finds only kernels in lists that were fetched before. For each upstream version there is one
/// kernel, and the oldest comes first.
///
/// # Errors
/// Returns [`KernelError::Apt`], [`KernelError::Cache`], [`KernelError::NoSources`].
pub fn versions_between(
    flavour: Flavour,
    from: &str,
    to: &str,
    architecture: Architecture,
    cache: &Cache,
) -> Result<Vec<KernelSource>, KernelError> {
    let all_sources = sources::read_all(Path::new("/"));
    let mut found: Vec<(String, PackagedKernel)> = Vec::new();
    for release in search_order(&own_release(&all_sources)) {
        let turned = sources::for_release(&all_sources, &release);
        if turned.is_empty() {
            return Err(KernelError::NoSources("bisecting versions".to_owned()));
        }
        let apt = PrivateApt::open(cache, &release, architecture, &turned)?;
        if !apt.has_lists() {
            continue;
        }
        for name in kernel_names(&apt, flavour, architecture)? {
            for package in apt.versions(&name.package)? {
                let kernel = PackagedKernel {
                    release: Some(release.clone()),
                    version: name.release.clone(),
                    flavour,
                };
                found.push((package.version, kernel));
            }
        }
    }
    Ok(between(found, from, to)
        .into_iter()
        .map(KernelSource::Packaged)
        .collect())
}

/// Returns one kernel of each upstream version between the two versions, without these two.
fn between(mut found: Vec<(String, PackagedKernel)>, from: &str, to: &str) -> Vec<PackagedKernel> {
    let upstream = |version: &str| version_key(version.split('-').next().unwrap_or(version));
    let (first, last) = (upstream(from), upstream(to));
    found.retain(|(version, _)| first < upstream(version) && upstream(version) < last);
    found.sort_by_cached_key(|(version, _)| upstream(version));
    found.dedup_by_key(|(version, _)| upstream(version));
    found.into_iter().map(|(_, kernel)| kernel).collect()
}

/// The name of a kernel's package, and the part of the name that identifies the kernel's version.
struct KernelName {
    package: String,
    release: String,
}

/// Returns all kernels of a flavour that the lists name.
fn kernel_names(
    apt: &PrivateApt,
    flavour: Flavour,
    architecture: Architecture,
) -> Result<Vec<KernelName>, KernelError> {
    let end = format!("-{}{architecture}", flavour.infix());
    let name = |package: String| {
        let release = package
            .strip_prefix("linux-image-")?
            .strip_suffix(end.as_str())?
            .to_owned();
        let is_kernel = release.starts_with(|c: char| c.is_ascii_digit())
            && !release.ends_with("-rt")
            && !release.ends_with("-cloud");
        is_kernel.then_some(KernelName { package, release })
    };
    Ok(apt
        .names("linux-image-")?
        .into_iter()
        .filter_map(name)
        .collect())
}

/// A kernel that can be fetched from the package sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The text with which `--kernel` selects the kernel.
    pub kernel: String,
    /// The release that has the package.
    pub release: String,
    /// The package's version.
    pub version: String,
}

/// Returns the newest kernel of each flavour in every release for which package lists exist. With
/// `refresh`, first fetches the lists of all releases. If this fails for a release, but old lists
/// of it exist, uses these and calls `warn`.
///
/// # Errors
/// Returns [`KernelError::Apt`], [`KernelError::Cache`]; a release that cannot be fetched is left
/// out.
pub fn offers(
    architecture: Architecture,
    cache: &Cache,
    refresh: bool,
    warn: &dyn Fn(&StaleLists),
) -> Result<Vec<Offer>, KernelError> {
    let all_sources = sources::read_all(Path::new("/"));
    let mut offers = Vec::new();
    for release in search_order(&own_release(&all_sources)) {
        let turned = sources::for_release(&all_sources, &release);
        if turned.is_empty() {
            return Ok(offers);
        }
        let apt = PrivateApt::open(cache, &release, architecture, &turned)?;
        if refresh {
            match apt.refresh(true) {
                Ok(stale) => stale.iter().for_each(warn),
                Err(_) => continue,
            }
        }
        if !apt.has_lists() {
            continue;
        }
        for flavour in Flavour::ALL {
            for package in
                apt.versions(&format!("linux-image-{}{architecture}", flavour.infix()))?
            {
                let numbers: Vec<&str> = package.version.split(['.', '-', '~']).take(2).collect();
                let kernel = PackagedKernel {
                    release: Some(release.clone()),
                    version: numbers.join("."),
                    flavour,
                };
                let offer = Offer {
                    kernel: kernel.to_string(),
                    release: release.clone(),
                    version: package.version,
                };
                // The lists may contain an older point release besides the newest one.
                if !offers
                    .iter()
                    .any(|known: &Offer| known.kernel == offer.kernel)
                {
                    offers.push(offer);
                }
            }
        }
    }
    Ok(offers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_release_and_flavour() {
        let parsed = |text: &str| text.parse::<PackagedKernel>();
        assert_eq!(
            parsed("6.1-rt"),
            Ok(PackagedKernel {
                release: None,
                version: "6.1".into(),
                flavour: Flavour::Rt
            })
        );
        let full = PackagedKernel {
            release: Some("trixie".into()),
            version: "6.12.0-5".into(),
            flavour: Flavour::Stock,
        };
        assert_eq!(parsed("trixie/6.12.0-5"), Ok(full.clone()));
        assert_eq!(full.to_string(), "debian:trixie/6.12.0-5");
        for text in ["", "rt", "-rt", "6.1;x", "../6.1", "a/b/6.1", "x y/6.1"] {
            assert_eq!(parsed(text), Err(()), "{text}");
        }
    }

    #[test]
    fn six_point_one_does_not_mean_six_point_twelve() {
        assert!(begins_with("6.1.192-2", "6.1") && begins_with("6.1", "6.1"));
        assert!(!begins_with("6.12.95-1", "6.1") && !begins_with("16.1", "6.1"));
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let mut versions = ["6.1.10-1", "6.1.9-3", "6.12.1-1", "6.1.9-1"];
        versions.sort_by_key(|version| version_key(version));
        assert_eq!(versions, ["6.1.9-1", "6.1.9-3", "6.1.10-1", "6.12.1-1"]);
    }

    #[test]
    fn kernels_between_two_versions_are_in_their_order_and_each_once() {
        let found = |version: &str, release: &str| {
            let kernel = PackagedKernel {
                release: Some(release.into()),
                version: version.into(),
                flavour: Flavour::Stock,
            };
            (version.to_owned(), kernel)
        };
        let all = [
            found("6.12.117-1", "trixie"),
            found("6.1.9-1", "bookworm"),
            found("6.12.95-1~bpo12+1", "backports"),
            found("6.12.95-1", "trixie"),
            found("7.3.4-1", "sid"),
            found("6.1.10-1", "bookworm"),
            found("5.10.262-1", "bullseye"),
        ];
        let versions = |from: &str, to: &str| {
            between(all.to_vec(), from, to)
                .into_iter()
                .map(|kernel| kernel.version)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            versions("5.10.262-1", "7.3.4-1"),
            ["6.1.9-1", "6.1.10-1", "6.12.95-1~bpo12+1", "6.12.117-1"]
        );
        assert_eq!(versions("6.1.10-1", "6.12.95-1"), [""; 0]);
    }

    #[test]
    fn an_older_package_is_taken_where_the_server_lacks_the_newest_and_its_error_is_told_where_it_lacks_all()
     {
        let packages: Vec<Package> = ["8", "7", "6", "5", "4", "3", "2", "1"]
            .map(|version| Package {
                name: "k".into(),
                version: version.into(),
                depends: vec![],
            })
            .into();
        let kernel = |package: &Package| Kernel {
            source: String::new(),
            name: String::new(),
            image: "image".into(),
            digest: crate::digest::Digest::of_bytes(b"x"),
            architecture: Architecture::Amd64,
            version: None,
            package: Some(package.version.clone()),
        };
        let lacking = |package: &Package| {
            KernelError::Apt(AptError::Failed {
                command: "fetch".into(),
                message: package.version.clone(),
            })
        };
        let found = first_fetched(&packages, |package| {
            if package.version == "1" {
                Ok(kernel(package))
            } else {
                Err(lacking(package))
            }
        });
        assert_eq!(found.unwrap().package.as_deref(), Some("1"));
        let none = first_fetched(&packages, |package| Err(lacking(package)))
            .unwrap_err()
            .to_string();
        assert!(none.contains("failed: 8"), "{none}");
        let no_image = first_fetched(&packages, |package| {
            Err(KernelError::NoImage(package.version.clone().into()))
        })
        .unwrap_err();
        assert!(
            matches!(no_image, KernelError::NoImage(path) if path == Path::new("8")),
            "a faulty package is not replaced by another"
        );
    }

    #[test]
    fn the_machines_own_release_is_searched_first() {
        let order = search_order(&Some("trixie".into()));
        assert_eq!(&order[..3], ["trixie", "trixie-backports", "bullseye"]);
        assert_eq!(
            order.iter().filter(|release| *release == "trixie").count(),
            1
        );
    }
}
