//! A bare Debian in a folder. Commands run in it as on a machine without other software.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// The release of Debian in the folder.
pub(crate) const SUITE: &str = "bookworm";

/// A folder that contains a Debian.
pub(crate) struct Debian(PathBuf);

impl Debian {
    /// Makes a copy of a bare Debian. The original is fetched only once, and stored in the target
    /// folder.
    pub(crate) fn fresh(name: &str) -> Result<Self> {
        program::required("debootstrap", "debootstrap")?;
        let folder = workspace::target_folder()?.join("package");
        let kept = folder.join(format!("{SUITE}.tar"));
        let work = folder.join(name);
        workspace::remove(&work)?;
        if !kept.exists() {
            program::run(
                Command::new("debootstrap")
                    .args(["--variant=minbase", "--include=bash", SUITE])
                    .arg(&work),
            )?;
            // The archive gets its final name only when it is complete, because the next run would
            // otherwise use an incomplete one.
            let half = kept.with_extension("half");
            let mut tar = Command::new("tar");
            tar.args("--create --numeric-owner --one-file-system --directory".split(' '))
                .arg(&work)
                .arg("--file")
                .arg(&half)
                .arg(".");
            program::run(&mut tar)?;
            std::fs::rename(&half, &kept).while_doing(|| format!("keeping {}", kept.display()))?;
        } else {
            workspace::make_folder(&work)?;
            program::run(
                Command::new("tar")
                    .args(["--extract", "--numeric-owner", "--directory"])
                    .arg(&work)
                    .arg("--file")
                    .arg(&kept),
            )?;
        }
        Ok(Self(work))
    }

    pub(crate) fn put(&self, file: &Path, name: &str) -> Result<()> {
        std::fs::copy(file, self.path(name))
            .while_doing(|| format!("copying {}", file.display()))
            .map(drop)
    }

    /// Returns the path of a file inside this Debian.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs a command to its end and returns its output, with any exit code.
    pub(crate) fn output(&self, line: &str) -> Result<Output> {
        program::output(&mut self.command(line))
    }

    /// Returns a command that runs in this Debian, with a /proc, a /sys and a /dev that exist until
    /// the command ends.
    fn command(&self, line: &str) -> Command {
        let root = self.0.display();
        let script = format!(
            "mount -t proc proc '{root}/proc' && mount -t sysfs sysfs '{root}/sys' && mount \
             --bind /dev '{root}/dev' && exec chroot '{root}' /bin/sh -c \"$0\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "sh", "-c", &script, line]);
        command
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("LC_ALL", "C.UTF-8");
        command
    }

    /// Runs a command; fails if the command fails.
    pub(crate) fn shell(&self, line: &str) -> Result<()> {
        println!("# {line}");
        program::capture(&mut self.command(line)).map(drop)
    }

    /// Runs a command. Also fails if the command's output does not contain `text`.
    pub(crate) fn says(&self, line: &str, text: &str) -> Result<()> {
        println!("# {line}");
        let said = program::capture(&mut self.command(line))?;
        if said.contains(text) {
            Ok(())
        } else {
            Err(Failure::new(format!(
                "`{line}` does not print `{text}`, but: {said}"
            )))
        }
    }
}
