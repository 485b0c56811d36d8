//! Makes example runs for the pictures of the documents, and for the pages of the accessibility
//! test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::failure::{Failure, Result, While};
use crate::figure::scratch;
use crate::program;

/// Exit codes of runs and comparisons that gave a result.
const SHOWN: [i32; 3] = [0, 1, 4];

/// Maximum wait for a run to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with runs made on this machine.
pub(crate) struct ExampleRuns {
    folder: TempDir,
    tardy: PathBuf,
}

impl ExampleRuns {
    /// Makes the runs, which takes about a minute. If this machine cannot run `--explain`, the run
    /// that should be explained is made without it.
    pub(crate) fn make(tardy: &Path) -> Result<Self> {
        let folder = scratch()?;
        let runs = Self {
            folder,
            tardy: tardy.to_owned(),
        };
        let usual = "--load hackbench --load io --deadline 10ms --for 12s";
        runs.tardy(&format!(
            "run --quiet --out board7 {usual} --label kernel=old"
        ))?;
        runs.tardy(&format!(
            "run --quiet --out board7-new {usual} --label kernel=new"
        ))?;
        runs.tardy(
            "run --quiet --explain --load hackbench --for 6s --deadline 5ms --out explained",
        )?;
        Ok(runs)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn program(&self) -> &Path {
        &self.tardy
    }

    /// Returns the command `tardy` with these arguments, separated by blanks, to be run in the
    /// folder.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.tardy);
        command
            .args(words.split(' '))
            .current_dir(self.folder())
            .env("TARDY_CONFIG", "");
        command
    }

    /// Starts tardy in the folder, and waits until its run exists.
    pub(crate) fn start(&self, words: &str) -> Result<Child> {
        let mut command = self.command(words);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .while_doing(|| format!("starting {}", self.tardy.display()))?;
        let begin = Instant::now();
        let name = words.rsplit(' ').next().unwrap_or_default();
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

    /// Runs tardy in the folder.
    pub(crate) fn tardy(&self, words: &str) -> Result<()> {
        let mut command = self.command(words);
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

    /// Writes a report of these runs, and returns its path.
    pub(crate) fn report(&self, runs: &[&str]) -> Result<PathBuf> {
        let name = format!("{}.html", runs.join("-and-"));
        self.tardy(&format!("report {} --html {name}", runs.join(" ")))?;
        Ok(self.folder().join(name))
    }
}
