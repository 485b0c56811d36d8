//! Runs the machine's own apt with a private configuration. Lists, state and downloads are in the
//! user's cache. So an ordinary user can fetch a kernel of any release in the machine's sources,
//! and nothing on the system is installed or changed.
//!
//! The private configuration contains the system's settings for fetching (proxies, time-outs). It
//! leaves out the system's hooks, because they act on the system's own folders.

pub mod sources;

use std::fmt;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use tardy_sys::child;

use super::architecture::Architecture;
use super::cache::{Cache, CacheError, Lock, write_whole};
use sources::Source;

/// Maximum age of lists in which an unpinned package is looked up; older lists are fetched again.
const LISTS_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why apt failed.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    /// This machine has no apt.
    #[error(
        "{0} is missing, so no package can be fetched: give the kernel as a .deb, vmlinuz or \
         bzImage file"
    )]
    Missing(&'static str),
    /// apt failed, or could not be started.
    #[error(
        "`{command}` failed: {message}: check the network and the machine's package sources, or \
         give the kernel as a file"
    )]
    Failed {
        /// The program and its arguments.
        command: String,
        /// The last three lines of the program's messages, or the error with which starting the
        /// program failed.
        message: String,
    },
    /// The private folder for apt cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// apt reported success, but there is no package file.
    #[error("apt fetched {0} but left no package file: free some space and try again")]
    NoFile(String),
}

/// Old lists that remain in use because fetching newer ones failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleLists {
    /// Name of the release.
    pub release: String,
    /// Time since all lists were fetched; absent if that never succeeded.
    pub age: Option<Duration>,
    /// Why fetching newer lists failed.
    pub message: String,
}

impl fmt::Display for StaleLists {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HOUR_S: u64 = 3600;
        write!(formatter, "the package lists of {} ", self.release)?;
        match self.age.map(|age| age.as_secs() / HOUR_S) {
            None => write!(formatter, "are incomplete")?,
            Some(hours @ 0..48) => write!(formatter, "are {hours} h old")?,
            Some(hours) => write!(formatter, "are {} days old", hours / 24)?,
        }
        write!(
            formatter,
            " and could not be renewed, so newer kernels may be missing: {}",
            self.message
        )
    }
}

/// One version of a package, as the lists describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// Names of the packages that this package depends on.
    pub depends: Vec<String>,
}

/// apt with the lists of one release for one architecture. No other thread or process can use these
/// lists until the value is dropped.
pub struct PrivateApt {
    release: String,
    root: PathBuf,
    config: PathBuf,
    _turn: Lock,
}

impl PrivateApt {
    /// Waits until no other thread or process uses these lists, and writes the configuration for
    /// the sources. Fetches nothing.
    ///
    /// # Errors
    /// Returns [`AptError::Cache`], [`AptError::Missing`].
    pub fn open(
        cache: &Cache,
        name: &str,
        architecture: Architecture,
        sources: &[Source],
    ) -> Result<Self, AptError> {
        let turn = cache.lock(&format!("apt-{name}-{architecture}"))?;
        let root = cache.folder(&format!("apt/{name}-{architecture}"))?;
        for folder in ["state/lists/partial", "cache/archives/partial", "sources.d"] {
            cache.folder(&format!("apt/{name}-{architecture}/{folder}"))?;
        }
        let paragraphs: Vec<String> = sources.iter().map(sources::paragraph).collect();
        write_whole(
            &root.join("sources.d/lab.sources"),
            paragraphs.join("\n").as_bytes(),
        )?;
        write_whole(&root.join("status"), b"")?;
        let config = root.join("apt.conf");
        write_whole(
            &config,
            configuration(&root, architecture, &fetch_settings()?).as_bytes(),
        )?;
        Ok(Self {
            release: name.to_owned(),
            root,
            config,
            _turn: turn,
        })
    }

    /// Fetches the package lists if they are missing or too old, or if `always` is set. Returns
    /// which old lists remain in use because fetching newer ones failed. The next call tries to
    /// fetch them again.
    ///
    /// # Errors
    /// Returns [`AptError::Failed`] or [`AptError::Missing`] if there is still no list afterwards,
    /// and [`AptError::Cache`] if the private folder cannot be used. A suite that the server lacks
    /// is skipped if there is a list of another suite.
    pub fn refresh(&self, always: bool) -> Result<Option<StaleLists>, AptError> {
        if !always && self.age().is_some_and(|age| age < LISTS_AGE_MAX) {
            return Ok(None);
        }
        let output = self.output("apt-get", &["-q", "update"], &self.root)?;
        self.settle(
            output.status.success(),
            &String::from_utf8_lossy(&output.stderr),
        )
    }

    /// Records the time of this update if it renewed all lists that the server has. `messages` is
    /// apt's standard error.
    fn settle(&self, is_success: bool, messages: &str) -> Result<Option<StaleLists>, AptError> {
        if is_renewed(is_success, messages) && (is_success || self.has_lists()) {
            write_whole(&self.stamp(), b"")?;
            return Ok(None);
        }
        let message = last_lines(messages);
        if !self.has_lists() {
            return Err(AptError::Failed {
                command: "apt-get -q update".to_owned(),
                message,
            });
        }
        Ok(Some(StaleLists {
            release: self.release.clone(),
            age: self.age(),
            message,
        }))
    }

    /// Returns the path of an empty file, whose modification time is the time of the last complete
    /// renewal.
    fn stamp(&self) -> PathBuf {
        self.root.join("fetched")
    }

    fn age(&self) -> Option<Duration> {
        let time = std::fs::metadata(self.stamp()).and_then(|file| file.modified());
        SystemTime::now().duration_since(time.ok()?).ok()
    }

    /// Returns whether the lists were fetched at least once.
    #[must_use]
    pub fn has_lists(&self) -> bool {
        std::fs::read_dir(self.root.join("state/lists")).is_ok_and(|entries| {
            entries
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
        })
    }

    /// Returns every version of `package` in the lists; an empty list for an unknown name.
    ///
    /// # Errors
    /// Returns [`AptError::Missing`].
    pub fn versions(&self, package: &str) -> Result<Vec<Package>, AptError> {
        match self.run("apt-cache", &["show", package], &self.root) {
            Ok(text) => Ok(parse_show(&text)),
            Err(AptError::Failed { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of packages that start with `prefix`, in alphabetical order.
    ///
    /// # Errors
    /// Returns [`AptError::Failed`], [`AptError::Missing`].
    pub fn names(&self, prefix: &str) -> Result<Vec<String>, AptError> {
        let mut names: Vec<String> = self
            .run("apt-cache", &["pkgnames", prefix], &self.root)?
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort();
        Ok(names)
    }

    /// Fetches a package file into `folder` and returns its path; apt checks its hash against the
    /// signed lists.
    ///
    /// # Errors
    /// Returns [`AptError::Failed`], [`AptError::Missing`], [`AptError::NoFile`].
    pub fn download(
        &self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, AptError> {
        let wanted = format!("{package}={version}");
        self.run("apt-get", &["-q", "download", &wanted], folder)?;
        let prefix = format!("{package}_");
        let is_it = |path: &PathBuf| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.starts_with(&prefix) && name.ends_with(".deb")
        };
        let found = std::fs::read_dir(folder)
            .ok()
            .and_then(|entries| entries.flatten().map(|entry| entry.path()).find(is_it));
        found.ok_or(AptError::NoFile(wanted))
    }

    /// Downloads packages and everything that they need into `folder`, as if nothing were
    /// installed. Returns the paths of the package files.
    ///
    /// # Errors
    /// Returns [`AptError::Failed`], [`AptError::Missing`].
    pub fn download_with_dependencies(
        &self,
        packages: &[&str],
        folder: &Path,
    ) -> Result<Vec<PathBuf>, AptError> {
        let archives = format!("Dir::Cache::archives={}", folder.display());
        let options = ["-q", "-y", "--download-only", "--no-install-recommends"];
        let mut arguments = options.to_vec();
        arguments.extend(["-o", &archives, "install"]);
        arguments.extend(packages);
        self.run("apt-get", &arguments, folder)?;
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        Ok(paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .collect())
    }

    fn run(
        &self,
        program: &'static str,
        arguments: &[&str],
        folder: &Path,
    ) -> Result<String, AptError> {
        let output = self.output(program, arguments, folder)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(AptError::Failed {
            command: format!("{program} {}", arguments.join(" ")),
            message: last_lines(&String::from_utf8_lossy(&output.stderr)),
        })
    }

    fn output(
        &self,
        program: &'static str,
        arguments: &[&str],
        folder: &Path,
    ) -> Result<Output, AptError> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(folder)
            .env("APT_CONFIG", &self.config)
            .env("LC_ALL", "C.UTF-8");
        // At a terminal, apt shows the progress (size, speed, remaining time) on its standard
        // output, to which it writes nothing else.
        if program == "apt-get"
            && io::stderr().is_terminal()
            && let Ok(terminal) = io::stderr().as_fd().try_clone_to_owned()
        {
            command.args(["-q=0"]).stdout(Stdio::from(terminal));
        }
        output_of(&mut command, program)
    }
}

/// Returns the last three lines of a program's messages.
fn last_lines(messages: &str) -> String {
    let mut lines: Vec<&str> = messages
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines.split_off(lines.len().saturating_sub(3)).join("; ")
}

/// Returns whether an update renewed all lists that the server has. If a server answers but lacks a
/// suite, apt reports a missing Release file. If a server cannot be reached, older versions of apt
/// only warn.
fn is_renewed(is_success: bool, messages: &str) -> bool {
    let failures = || {
        messages
            .lines()
            .filter(|line| line.starts_with("E: ") || line.starts_with("W: Failed to fetch "))
    };
    (is_success || failures().next().is_some())
        && failures().all(|line| line.ends_with("does not have a Release file."))
}

fn output_of(command: &mut Command, program: &'static str) -> Result<Output, AptError> {
    child::output(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => AptError::Missing(program),
        _ => AptError::Failed {
            command: program.to_owned(),
            message: error.to_string(),
        },
    })
}

/// Returns the system's settings for fetching, as a configuration file. Leaves out
/// `Acquire::IndexTargets`, which lists further downloads, and `Acquire::Languages`, which
/// [`configuration`] sets.
fn fetch_settings() -> Result<String, AptError> {
    let output = output_of(Command::new("apt-config").arg("dump"), "apt-config")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let kept = |line: &&str| {
        line.starts_with("Acquire::")
            && !line.starts_with("Acquire::IndexTargets")
            && !line.starts_with("Acquire::Languages")
    };
    Ok(text
        .lines()
        .filter(kept)
        .map(|line| format!("{line}\n"))
        .collect())
}

/// Returns the private configuration. The error mode `any` makes an update fail if any list could
/// not be renewed (apt-get(8), --error-on=any; older versions of apt ignore it).
fn configuration(root: &Path, architecture: Architecture, fetch_settings: &str) -> String {
    let root = root.display();
    format!(
        "Dir::Etc::Parts \"/dev/null\";\nDir::Etc::Main \"/dev/null\";\nDir::Etc::SourceList \
         \"/dev/null\";\nDir::Etc::SourceParts \"{root}/sources.d\";\nDir::Etc::Preferences \
         \"/dev/null\";\nDir::Etc::PreferencesParts \"/dev/null\";\nDir::State \
         \"{root}/state\";\nDir::State::status \"{root}/status\";\nDir::Cache \
         \"{root}/cache\";\nAPT::Architecture \"{architecture}\";\nAPT::Architectures {{ \
         \"{architecture}\"; }};\nAPT::Sandbox::User \"\";\nAPT::Update::Error-Mode \
         \"any\";\nAcquire::Languages \"none\";\n{fetch_settings}"
    )
}

/// Parses the packages in the output of `apt-cache show`.
#[must_use]
pub fn parse_show(text: &str) -> Vec<Package> {
    let field = |paragraph: &str, name: &str| {
        paragraph
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.trim().to_owned())
    };
    let package = |paragraph: &str| {
        let depends = field(paragraph, "Depends").unwrap_or_default();
        let names = depends
            .split([',', '|'])
            .filter_map(|part| part.split_whitespace().next())
            .map(str::to_owned)
            .collect();
        Some(Package {
            name: field(paragraph, "Package")?,
            version: field(paragraph, "Version")?,
            depends: names,
        })
    };
    text.split("\n\n").filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_dependencies_are_read_from_the_lists() {
        let text = "Package: linux-image-amd64\nVersion: 6.1.192-2\nDepends: \
                    linux-image-6.1.0-56-amd64 (= 6.1.192-2), a | b\n\nPackage: \
                    linux-image-amd64\nVersion: 6.1.176-1\nDescription: x\n\n";
        let packages = parse_show(text);
        assert_eq!(packages.len(), 2);
        assert_eq!(
            packages[0].depends,
            ["linux-image-6.1.0-56-amd64", "a", "b"]
        );
        assert_eq!(
            (packages[1].version.as_str(), packages[1].depends.len()),
            ("6.1.176-1", 0)
        );
    }

    #[test]
    fn lists_that_could_not_be_renewed_do_not_count_as_fresh() {
        let unreachable = "E: Failed to fetch http://x/dists/bookworm/InRelease  Could not \
                           connect\nE: Some index files failed to download. They have been \
                           ignored, or old ones used instead.\n";
        let no_suite = "E: The repository 'http://x trixie-updates Release' does not have a \
                        Release file.\n";
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path().join("cache"));
        let apt = PrivateApt {
            release: "trixie".into(),
            root: root.path().to_owned(),
            config: root.path().join("apt.conf"),
            _turn: cache.lock("x").unwrap(),
        };
        let failed = apt.settle(false, unreachable).unwrap_err();
        assert!(failed.to_string().contains("old ones"), "{failed}");

        let lists = root.path().join("state/lists");
        std::fs::create_dir_all(&lists).unwrap();
        std::fs::write(lists.join("x_main_binary-amd64_Packages"), "").unwrap();
        let stale = apt.settle(false, unreachable).unwrap().unwrap();
        assert_eq!((stale.age, apt.age()), (None, None));

        assert_eq!(apt.settle(true, "").unwrap(), None);
        let days_9 = SystemTime::now() - Duration::from_secs(9 * 24 * 3600);
        let stamp = std::fs::File::options().write(true).open(apt.stamp());
        stamp.unwrap().set_modified(days_9).unwrap();
        let stale = apt.settle(false, unreachable).unwrap().unwrap();
        assert!(
            stale.to_string().starts_with(
                "the package lists of trixie are 9 days old and could not be renewed, so newer \
                 kernels may be missing: E: Failed to fetch"
            ),
            "{stale}"
        );
        assert!(apt.age().unwrap() > LISTS_AGE_MAX);

        let both = format!("{no_suite}{unreachable}");
        let of_old_apt = unreachable.replace("E: ", "W: ");
        for (is_success, messages) in [(false, &*both), (true, &*of_old_apt), (false, "")] {
            assert!(apt.settle(is_success, messages).unwrap().is_some());
        }
        assert_eq!(apt.settle(false, no_suite).unwrap(), None);
        assert!(apt.age().unwrap() < LISTS_AGE_MAX);
    }

    #[test]
    fn nothing_of_the_systems_state_is_named_in_the_configuration() {
        let text = configuration(
            Path::new("/cache/apt/x"),
            Architecture::Arm64,
            "Acquire::http::Proxy \"p\";\n",
        );
        assert!(text.contains("APT::Architecture \"arm64\"") && text.contains("Proxy \"p\""));
        assert!(!text.contains("/var/") && !text.contains("/etc/"), "{text}");
    }
}
