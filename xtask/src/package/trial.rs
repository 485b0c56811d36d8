//! Tests the package in a bare Debian: installs it, uses it as a user would, removes it, and purges
//! it.

use std::path::Path;

use crate::debian::{Debian, SUITE};
use crate::failure::Result;

/// Runs the test with the package in the file `deb`.
pub(super) fn run(deb: &Path) -> Result<()> {
    let debian = Debian::fresh("trial")?;
    debian.put(deb, "package.deb")?;
    debian.shell("dpkg --install /package.deb")?;
    debian.says(
        "dpkg-query --show --showformat '${Status}' tardy-latency",
        "install ok installed",
    )?;
    debian.says("tardy --version", "tardy ")?;
    debian.says("tardy list probes", "cyclic")?;
    debian.says("getent group realtime", "realtime:")?;
    debian.says(
        "gzip --decompress --stdout /usr/share/man/man1/tardy-run.1.gz",
        ".TH",
    )?;
    debian.says(
        "bash -c '. /usr/share/bash-completion/completions/tardy; complete -p tardy'",
        "_tardy",
    )?;
    debian.says(
        "cat /etc/security/limits.d/95-tardy-latency.conf",
        "@realtime - rtprio 99",
    )?;
    debian.says(
        "cat /usr/lib/udev/rules.d/60-tardy-latency.rules",
        "cpu_dma_latency",
    )?;
    // On a busy machine, or without rights, the run is inconclusive (4). This is accepted, because
    // the test only needs a run.
    debian.shell(
        "cd /tmp && { tardy run --for 1s --load none --quiet --out run || [ $? -eq 4 ]; }",
    )?;
    debian.says("tardy show /tmp/run --json", "\"probes\"")?;
    debian.shell("dpkg --remove tardy-latency")?;
    debian.shell(
        "[ ! -e /usr/bin/tardy ] && [ -e /etc/security/limits.d/95-tardy-latency.conf ] && [ -e \
         /tmp/run/run.json ]",
    )?;
    debian.shell("dpkg --purge tardy-latency")?;
    debian.shell("[ -z \"$(find /etc /usr /var/lib/dpkg/info -name '*tardy*')\" ]")?;
    println!("installed, used and removed in a bare Debian ({SUITE})");
    Ok(())
}
