//! Shows the progress of the machines: a line per event, and on a terminal a last line that counts
//! machines.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use tardy_remote::board::Event;
use tardy_remote::host::Host;

/// Interval between updates of the last line.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// The state of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Preparing,
    UnderWay { folder: String, is_started: bool },
    Ended,
    Failed,
}

/// The progress of all machines.
#[derive(Debug)]
pub(super) struct Progress {
    names: Vec<String>,
    steps: Vec<Step>,
    begin: Instant,
    is_quiet: bool,
    is_terminal: bool,
}

impl Progress {
    pub(super) fn new(hosts: &[Host], is_quiet: bool) -> Self {
        Self {
            names: hosts.iter().map(|host| host.name.clone()).collect(),
            steps: vec![Step::Preparing; hosts.len()],
            begin: Instant::now(),
            is_quiet,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub(super) fn event(&mut self, index: usize, event: &Event) {
        let text = match event {
            Event::Copied { bytes } => format!("copied tardy ({:.1} MB)", *bytes as f64 / 1e6),
            Event::Starting { folder } => {
                self.steps[index] = Step::UnderWay {
                    folder: folder.clone(),
                    is_started: false,
                };
                return;
            }
            Event::Started { folder } => {
                self.steps[index] = Step::UnderWay {
                    folder: folder.clone(),
                    is_started: true,
                };
                "started".to_owned()
            }
            Event::Interrupted { said, left } => {
                format!(
                    "the connection broke ({said}); the command keeps running on the machine; \
                     trying to reconnect for {:.0} s",
                    left.as_secs_f64()
                )
            }
            Event::Ended => "ended".to_owned(),
            // Folders that stay on the machine are also reported with `--quiet`.
            Event::Left { folder } => {
                self.clear();
                say!(
                    "{}: {folder} could not be removed and may still be there: delete it by hand",
                    self.names[index]
                );
                return;
            }
        };
        self.say(&format!("{}: {text}", self.names[index]));
    }

    /// Records that the machine has finished. The reason for a failure is printed at the end.
    pub(super) fn ended(&mut self, index: usize, error: Option<String>) {
        self.steps[index] = if error.is_some() {
            Step::Failed
        } else {
            Step::Ended
        };
        if error.is_some() && self.names.len() > 1 {
            self.say(&format!("{}: failed", self.names[index]));
        }
    }

    /// Returns each machine on which the command is running, or may be running, with the command's
    /// folder there.
    pub(super) fn under_way(&self) -> Vec<(usize, String)> {
        self.folders(false)
    }

    /// Returns each machine on which the command is running, with the command's folder there.
    pub(super) fn started(&self) -> Vec<(usize, String)> {
        self.folders(true)
    }

    fn folders(&self, must_run: bool) -> Vec<(usize, String)> {
        let folder = |(index, step): (usize, &Step)| match step {
            Step::UnderWay { folder, is_started } if *is_started || !must_run => {
                Some((index, folder.clone()))
            }
            _ => None,
        };
        self.steps.iter().enumerate().filter_map(folder).collect()
    }

    pub(super) fn say(&mut self, text: &str) {
        if self.is_quiet {
            return;
        }
        self.clear();
        say!("{text}");
        self.tick();
    }

    pub(super) fn tick(&mut self) {
        if self.is_quiet || !self.is_terminal {
            return;
        }
        let count =
            |wanted: fn(&Step) -> bool| self.steps.iter().filter(|step| wanted(step)).count();
        let parts = [
            (count(|step| *step == Step::Preparing), "prepared"),
            (
                count(|step| matches!(step, Step::UnderWay { .. })),
                "under way",
            ),
            (count(|step| *step == Step::Ended), "done"),
            (count(|step| *step == Step::Failed), "failed"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let seconds = self.begin.elapsed().as_secs();
        tardy_sys::standard_error::write(&format!(
            "\r\x1b[K{}, {}:{:02}",
            parts.join(", "),
            seconds / 60,
            seconds % 60
        ));
        let _ = std::io::stderr().flush();
    }

    pub(super) fn clear(&mut self) {
        if self.is_terminal && !self.is_quiet {
            tardy_sys::standard_error::write("\r\x1b[K");
        }
    }
}
