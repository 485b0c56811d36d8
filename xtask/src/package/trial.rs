//! The package in a bare Debian of its own: installed, used as a user would, removed, purged.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

const SUITE: &str = "bookworm";

/// A folder with Debian in it.
struct Debian(PathBuf);

/// Runs the trial with the package in the file `deb`.
pub(super) fn run(deb: &Path) -> Result<()> {
    let debian = Debian::fresh()?;
    debian.put(deb, "package.deb")?;
    debian.shell("dpkg --install /package.deb")?;
    debian.says("dpkg-query --show --showformat '${Status}' tardy-latency", "install ok installed")?;
    debian.says("tardy --version", "tardy ")?;
    debian.says("tardy list probes", "cyclic")?;
    debian.says("getent group realtime", "realtime:")?;
    debian.says("gzip --decompress --stdout /usr/share/man/man1/tardy-run.1.gz", ".TH")?;
    debian.says("bash -c '. /usr/share/bash-completion/completions/tardy; complete -p tardy'", "_tardy")?;
    debian.says("cat /etc/security/limits.d/95-tardy-latency.conf", "@realtime - rtprio 99")?;
    // A machine that is busy or lacks rights gives no verdict (4); what counts is that there is a run.
    debian.shell("cd /tmp && { tardy run --for 1s --load none --quiet --out run || [ $? -eq 4 ]; }")?;
    debian.says("tardy show /tmp/run --json", "\"probes\"")?;
    debian.shell("dpkg --remove tardy-latency")?;
    debian.shell("[ ! -e /usr/bin/tardy ] && [ -e /etc/security/limits.d/95-tardy-latency.conf ] && [ -e /tmp/run/run.json ]")?;
    debian.shell("dpkg --purge tardy-latency")?;
    debian.shell("[ -z \"$(find /etc /usr /var/lib/dpkg/info -name '*tardy*')\" ]")?;
    println!("installed, used and removed in a bare Debian ({SUITE})");
    Ok(())
}

impl Debian {
    /// A copy of a bare Debian, which is fetched once and kept in the target folder.
    fn fresh() -> Result<Self> {
        if program::find("debootstrap").is_none() {
            return Err(Failure::new("there is no debootstrap in PATH: install the package debootstrap"));
        }
        let folder = workspace::target_folder()?.join("package");
        let kept = folder.join(format!("{SUITE}.tar"));
        let work = folder.join("trial");
        if work.exists() {
            std::fs::remove_dir_all(&work).while_doing(|| format!("removing {}", work.display()))?;
        }
        if !kept.exists() {
            program::run(Command::new("debootstrap").args(["--variant=minbase", "--include=bash", SUITE]).arg(&work))?;
            // Half of one would be taken for a whole one the next time.
            let half = kept.with_extension("half");
            let mut tar = Command::new("tar");
            tar.args(["--create", "--numeric-owner", "--one-file-system", "--directory"]).arg(&work).arg("--file").arg(&half).arg(".");
            program::run(&mut tar)?;
            std::fs::rename(&half, &kept).while_doing(|| format!("keeping {}", kept.display()))?;
        } else {
            std::fs::create_dir_all(&work).while_doing(|| format!("making {}", work.display()))?;
            program::run(Command::new("tar").args(["--extract", "--numeric-owner", "--directory"]).arg(&work).arg("--file").arg(&kept))?;
        }
        Ok(Self(work))
    }

    fn put(&self, file: &Path, name: &str) -> Result<()> {
        std::fs::copy(file, self.0.join(name)).while_doing(|| format!("copying {}", file.display())).map(drop)
    }

    /// The command in that Debian, with a /proc, a /sys and a /dev that end with it.
    fn command(&self, line: &str) -> Command {
        let root = self.0.display();
        let script = format!(
            "mount -t proc proc '{root}/proc' && mount -t sysfs sysfs '{root}/sys' && mount --bind /dev '{root}/dev' && \
             exec chroot '{root}' /bin/sh -c \"$0\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "sh", "-c", &script, line]);
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
        command
    }

    fn shell(&self, line: &str) -> Result<()> {
        println!("# {line}");
        program::capture(&mut self.command(line)).map(drop)
    }

    /// Runs a command whose output must hold `text`.
    fn says(&self, line: &str, text: &str) -> Result<()> {
        println!("# {line}");
        let said = program::capture(&mut self.command(line))?;
        if said.contains(text) { Ok(()) } else { Err(Failure::new(format!("`{line}` does not say `{text}` but: {said}"))) }
    }
}
