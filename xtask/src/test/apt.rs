//! Installing packages of the running release, and nothing else: a simulation comes first, and anything that it would upgrade or remove
//! stops the installation.

use std::process::Command;

use crate::failure::{Failure, Result};
use crate::program;

/// Whether the package is installed.
pub(super) fn is_installed(name: &str) -> bool {
    let status = program::capture(Command::new("dpkg-query").args(["--show", "--showformat", "${db:Status-Status}\n", name]));
    status.is_ok_and(|status| status.lines().any(|line| line == "installed"))
}

/// Installs the packages.
pub(super) fn install(names: &[&str]) -> Result<()> {
    program::run(&mut as_root(&["update", "--quiet"])?)?;
    let mut simulation = Command::new("apt-get");
    // Without the translation of its messages; the lines that are read are not translated, errors are for people.
    simulation.env("LC_ALL", "C").args(["--simulate", "--no-install-recommends", "install"]).args(names);
    let changes = Changes::read(&program::capture(&mut simulation)?);
    if let Some(objection) = changes.objection() {
        let names = names.join(" ");
        return Err(Failure::new(format!("{objection}: nothing was installed; decide yourself with `apt-get install {names}`")));
    }
    let arguments = [&["install", "--yes", "--quiet", "--no-install-recommends", "--no-upgrade", "--no-remove"], names].concat();
    let mut installation = as_root(&arguments)?;
    installation.env("DEBIAN_FRONTEND", "noninteractive");
    program::run(&mut installation)
}

/// apt-get, by sudo where that is needed.
fn as_root(arguments: &[&str]) -> Result<Command> {
    if program::capture(Command::new("id").arg("--user"))?.trim() == "0" {
        let mut command = Command::new("apt-get");
        command.args(arguments);
        return Ok(command);
    }
    if program::find("sudo").is_none() {
        return Err(Failure::new(format!("installing needs root, and there is no sudo: run `apt-get {}` as root", arguments.join(" "))));
    }
    let mut command = Command::new("sudo");
    command.arg("--preserve-env=DEBIAN_FRONTEND").arg("apt-get").args(arguments);
    Ok(command)
}

/// What apt-get would do to packages that are there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    upgraded: Vec<String>,
    removed: Vec<String>,
}

impl Changes {
    /// From the output of a simulation: `Inst NAME [OLD VERSION] (NEW ...)` is an upgrade, without `[...]` a new package; `Remv NAME ...`.
    fn read(simulation: &str) -> Self {
        let mut changes = Self::default();
        for line in simulation.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("Inst"), Some(name), Some(version)) if version.starts_with('[') => changes.upgraded.push(name.to_owned()),
                (Some("Remv"), Some(name), _) => changes.removed.push(name.to_owned()),
                _ => {}
            }
        }
        changes
    }

    fn objection(&self) -> Option<String> {
        let list = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")));
        let both: Vec<String> = [list("upgrade", &self.upgraded), list("remove", &self.removed)].into_iter().flatten().collect();
        (!both.is_empty()).then(|| format!("installing what is missing would {}", both.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_packages_are_no_objection() {
        let simulation = "NOTE: This is only a simulation!\nInst libnuma1 (2.0.16-1 Debian:12.11/oldstable [amd64])\n\
                          Inst rt-tests (2.4-1 Debian:12.11/oldstable [amd64])\nConf libnuma1 (2.0.16-1 Debian:12.11/oldstable [amd64])\n";
        assert_eq!(Changes::read(simulation).objection(), None);
    }

    #[test]
    fn an_upgrade_or_a_removal_is_an_objection() {
        let simulation = "Remv exim4 [4.96-15]\nInst libc6 [2.36-9] (2.36-9+deb12u1 Debian:12.11/oldstable [amd64]) []\n";
        let changes = Changes::read(simulation);
        assert_eq!(changes, Changes { upgraded: vec!["libc6".into()], removed: vec!["exim4".into()] });
        assert_eq!(changes.objection().unwrap(), "installing what is missing would upgrade libc6 and remove exim4");
    }

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert!(!is_installed("no-such-package-anywhere"));
    }
}
