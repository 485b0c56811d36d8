//! Installs packages of the running release only. A simulation runs first, and nothing is installed
//! if apt would remove a package, or upgrade one to another release. Upgrades within the release
//! (such as a server that must have its client's version) are reported and made.

use std::process::Command;

use crate::failure::{Failure, Result};
use crate::program;

/// Returns whether the package is installed.
pub(super) fn is_installed(name: &str) -> bool {
    let status = program::capture(Command::new("dpkg-query").args([
        "--show",
        "--showformat",
        "${db:Status-Status}\n",
        name,
    ]));
    status.is_ok_and(|status| status.lines().any(|line| line == "installed"))
}

/// Installs the packages.
pub(super) fn install(names: &[&str]) -> Result<()> {
    program::run(&mut as_root(&["update", "--quiet"])?)?;
    let mut simulation = Command::new("apt-get");
    // LC_ALL is set although the parsed lines are never translated: errors are shown in English.
    simulation
        .env("LC_ALL", "C")
        .args(["--simulate", "--no-install-recommends", "install"])
        .args(names);
    let changes = Changes::read(&program::capture(&mut simulation)?, &release());
    if let Some(objection) = changes.objection() {
        let names = names.join(" ");
        return Err(Failure::new(format!(
            "{objection}: apt-get was not run; to install anyway: `apt-get install {names}`"
        )));
    }
    if !changes.renewed.is_empty() {
        println!(
            "These are upgraded within their release: {}",
            changes.renewed.join(", ")
        );
    }
    let arguments = [
        &[
            "install",
            "--yes",
            "--quiet",
            "--no-install-recommends",
            "--no-upgrade",
            "--no-remove",
        ],
        names,
    ]
    .concat();
    let mut installation = as_root(&arguments)?;
    installation.env("DEBIAN_FRONTEND", "noninteractive");
    program::run(&mut installation)
}

/// Returns apt-get, with sudo if necessary.
fn as_root(arguments: &[&str]) -> Result<Command> {
    if program::capture(Command::new("id").arg("--user"))?.trim() == "0" {
        let mut command = Command::new("apt-get");
        command.args(arguments);
        return Ok(command);
    }
    if program::find("sudo").is_none() {
        return Err(Failure::new(format!(
            "installing needs root, and there is no sudo: run `apt-get {}` as root",
            arguments.join(" ")
        )));
    }
    let mut command = Command::new("sudo");
    command
        .arg("--preserve-env=DEBIAN_FRONTEND")
        .arg("apt-get")
        .args(arguments);
    Ok(command)
}

/// Returns the version of the running release, such as `12`; empty if it has none.
fn release() -> String {
    let file = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let version = file
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_ID="));
    version.unwrap_or_default().trim_matches('"').to_owned()
}

/// Changes that apt-get would make to existing packages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    /// Upgrades to a version of the running release.
    renewed: Vec<String>,
    /// Upgrades to any other version.
    upgraded: Vec<String>,
    removed: Vec<String>,
}

impl Changes {
    /// Parses the output of a simulation. `Inst NAME [OLD VERSION] (NEW ORIGIN:RELEASE/SUITE, ...
    /// [amd64])` is an upgrade; without the first `[...]`, it is a new package. `Remv NAME ...` is
    /// a removal. `release` is the running release.
    fn read(simulation: &str, release: &str) -> Self {
        let is_of_release = |origin: &str| {
            let version = origin.split_once(':').map_or("", |(_, version)| version);
            !release.is_empty()
                && version
                    .strip_prefix(release)
                    .is_some_and(|rest| rest.starts_with(['.', '/']))
        };
        let mut changes = Self::default();
        for line in simulation.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("Inst"), Some(name), Some(version)) if version.starts_with('[') => {
                    let origins = line
                        .split_once('(')
                        .map_or("", |(_, new)| new)
                        .split(' ')
                        .skip(1);
                    let is_renewed = origins
                        .take_while(|word| !word.starts_with('['))
                        .any(is_of_release);
                    let list = if is_renewed {
                        &mut changes.renewed
                    } else {
                        &mut changes.upgraded
                    };
                    list.push(name.to_owned());
                }
                (Some("Remv"), Some(name), _) => changes.removed.push(name.to_owned()),
                _ => {}
            }
        }
        changes
    }

    fn objection(&self) -> Option<String> {
        let list = |what: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let both: Vec<String> = [
            list("upgrade", &self.upgraded),
            list("remove", &self.removed),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!both.is_empty())
            .then(|| format!("installing what is missing would {}", both.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_packages_are_no_objection() {
        let simulation = "NOTE: This is only a simulation!\nInst libnuma1 (2.0.16-1 \
                          Debian:12.11/oldstable [amd64])\nInst rt-tests (2.4-1 \
                          Debian:12.11/oldstable [amd64])\nConf libnuma1 (2.0.16-1 \
                          Debian:12.11/oldstable [amd64])\n";
        assert_eq!(Changes::read(simulation, "12"), Changes::default());
    }

    #[test]
    fn what_the_running_release_brings_anew_is_no_objection_and_is_told() {
        let simulation = "Inst openssh-client [1:9.2p1-2+deb12u6] (1:9.2p1-2+deb12u10 \
                          Debian:12.15/oldstable, Debian-Security:12/oldstable-security \
                          [amd64])\nInst openssh-server (1:9.2p1-2+deb12u10 \
                          Debian:12.15/oldstable [amd64])\n";
        let changes = Changes::read(simulation, "12");
        assert_eq!(
            (changes.renewed.as_slice(), changes.objection()),
            (&["openssh-client".to_owned()][..], None)
        );
        for other in ["1", "13", "", "12.1"] {
            let objection = Changes::read(simulation, other).objection();
            assert_eq!(
                objection.as_deref(),
                Some("installing what is missing would upgrade openssh-client"),
                "{other}"
            );
        }
    }

    #[test]
    fn an_upgrade_or_a_removal_is_an_objection() {
        let simulation =
            "Remv exim4 [4.96-15]\nInst libc6 [2.36-9] (2.41-12 Debian:13.2/stable [amd64]) []\n";
        let changes = Changes::read(simulation, "12");
        assert_eq!(
            changes,
            Changes {
                renewed: Vec::new(),
                upgraded: vec!["libc6".into()],
                removed: vec!["exim4".into()]
            }
        );
        assert_eq!(
            changes.objection().unwrap(),
            "installing what is missing would upgrade libc6 and remove exim4"
        );
    }

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert!(!is_installed("no-such-package-anywhere"));
    }
}
