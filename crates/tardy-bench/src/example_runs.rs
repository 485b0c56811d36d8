//! Runs for people to look at: pictures of the documents, and pages for the test of accessibility.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::failure::{Failure, Result, While};
use crate::figure::scratch;
use crate::program;

/// What a run or a comparison ends with when there is something to show.
const SHOWN: [i32; 3] = [0, 1, 4];

/// How long a run may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with runs of this machine.
pub(crate) struct ExampleRuns {
    folder: TempDir,
    tardy: PathBuf,
}

impl ExampleRuns {
    /// Measures for about a minute. What a run under `--explain` needs may be missing; then that
    /// run is as the others are.
    pub(crate) fn make(tardy: &Path) -> Result<Self> {
        let folder = scratch()?;
        let runs = Self {
            folder,
            tardy: tardy.to_owned(),
        };
        let usual = [
            "--load",
            "hackbench",
            "--load",
            "io",
            "--deadline",
            "10ms",
            "--for",
            "12s",
        ];
        for (name, flags) in [
            ("board7", &["--label", "kernel=old"]),
            ("board7-new", &["--label", "kernel=new"]),
        ] {
            runs.tardy(&[&["run", "--quiet", "--out", name], &usual[..], &flags[..]].concat())?;
        }
        let probes = [
            "--probe", "cyclic", "--probe", "futex", "--probe", "timerfd",
        ];
        runs.tardy(
            &[
                &["run", "--quiet", "--out", "probes"],
                &probes[..],
                &usual[..],
            ]
            .concat(),
        )?;
        runs.tardy(&[
            "run",
            "--quiet",
            "--explain",
            "--load",
            "hackbench",
            "--for",
            "6s",
            "--deadline",
            "5ms",
            "--out",
            "explained",
        ])?;
        Ok(runs)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn program(&self) -> &Path {
        &self.tardy
    }

    /// Starts the tool in the folder; its run is there when this returns.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = Command::new(&self.tardy);
        command
            .args(arguments)
            .current_dir(self.folder())
            .env("TARDY_CONFIG", "")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command
            .spawn()
            .while_doing(|| format!("starting {}", self.tardy.display()))?;
        let begin = Instant::now();
        let name = arguments.last().copied().unwrap_or_default();
        while !self.folder().join(name).join("run.json").exists() {
            if begin.elapsed() > PATIENCE {
                return Err(Failure::new(format!(
                    "`{}` made no run",
                    program::line(&command)
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(child)
    }

    /// Runs the tool in the folder.
    pub(crate) fn tardy(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.tardy);
        command
            .args(arguments)
            .current_dir(self.folder())
            .env("TARDY_CONFIG", "");
        let output = program::output(&mut command)?;
        if output
            .status
            .code()
            .is_some_and(|code| SHOWN.contains(&code))
        {
            return Ok(());
        }
        Err(Failure::new(format!(
            "`{}`: {}",
            program::line(&command),
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }

    /// The page of these runs.
    pub(crate) fn report(&self, runs: &[&str]) -> Result<PathBuf> {
        let name = format!("{}.html", runs.join("-and-"));
        self.tardy(&[&["report"], runs, &["--html", &name]].concat())?;
        Ok(self.folder().join(name))
    }
}
