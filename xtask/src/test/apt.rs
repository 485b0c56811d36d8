//! Installs packages of the running release only. A simulation runs first, and nothing is installed
//! if apt would remove a package, or upgrade one to another release. Upgrades within the release
//! are allowed, because a server, for example, may need the same version as its client.

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
    // LC_ALL is set so that errors are shown in English; the parsed lines are never translated
    // anyway.
    simulation
        .env("LC_ALL", "C")
        .args(["--simulate", "--no-install-recommends", "install"])
        .args(names);
    let objections = objections(&program::capture(&mut simulation)?, &release());
    if !objections.is_empty() {
        let names = names.join(" ");
        return Err(Failure::new(format!(
            "installing what is missing would {}: apt-get was not run; to install anyway: \
             `apt-get install {names}`",
            objections.join(" and ")
        )));
    }
    let options = "install --yes --quiet --no-install-recommends --no-upgrade --no-remove";
    let arguments: Vec<&str> = options.split(' ').chain(names.iter().copied()).collect();
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

/// Returns what a simulation would remove, and what it would upgrade to a release other than the
/// running one. `Inst NAME [OLD VERSION] (NEW ORIGIN:RELEASE/SUITE, ... [amd64])` is an upgrade;
/// without the first `[...]`, it is a new package. `Remv NAME ...` is a removal.
fn objections(simulation: &str, release: &str) -> Vec<String> {
    let is_of_release = |origin: &str| {
        let version = origin.split_once(':').map_or("", |(_, version)| version);
        let rest = version.strip_prefix(release);
        !release.is_empty() && rest.is_some_and(|rest| rest.starts_with(['.', '/']))
    };
    let objection = |line: &str| {
        let mut words = line.split(' ');
        match (words.next()?, words.next()?, words.next()) {
            ("Inst", name, Some(version)) if version.starts_with('[') => {
                let new = line.split_once('(').map_or("", |(_, new)| new);
                let mut origins = new
                    .split(' ')
                    .skip(1)
                    .take_while(|word| !word.starts_with('['));
                (!origins.any(is_of_release)).then(|| format!("upgrade {name}"))
            }
            ("Remv", name, _) => Some(format!("remove {name}")),
            _ => None,
        }
    };
    simulation.lines().filter_map(objection).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_packages_are_no_objection() {
        let simulation = "NOTE: This is only a simulation!\nInst rt-tests (2.4-1 \
                          Debian:12.11/oldstable [amd64])\nConf rt-tests (2.4-1 \
                          Debian:12.11/oldstable [amd64])\n";
        assert_eq!(objections(simulation, "12"), [""; 0]);
    }

    #[test]
    fn an_upgrade_within_the_running_release_is_no_objection() {
        let simulation = "Inst openssh-client [1:9.2p1-2+deb12u6] (1:9.2p1-2+deb12u10 \
                          Debian:12.15/oldstable, Debian-Security:12/oldstable-security \
                          [amd64])\n";
        assert_eq!(objections(simulation, "12"), [""; 0]);
        for other in ["1", "13", "", "12.1"] {
            let found = objections(simulation, other);
            assert_eq!(found, ["upgrade openssh-client"], "{other}");
        }
    }

    #[test]
    fn an_upgrade_or_a_removal_is_an_objection() {
        let simulation =
            "Remv exim4 [4.96-15]\nInst libc6 [2.36-9] (2.41-12 Debian:13.2/stable [amd64]) []\n";
        assert_eq!(
            objections(simulation, "12"),
            ["remove exim4", "upgrade libc6"]
        );
    }

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert!(!is_installed("no-such-package-anywhere"));
    }
}
