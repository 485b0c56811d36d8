//! The folder of a hunt. It stores the question, the result of every guest, and the findings.
//!
//! `hunt.json` contains the question, and `idle.json` the sections that occur while no program
//! runs. `guided` and `random` contain a folder for each round, in which each guest has a file. The
//! files of guests contain nothing about the host, so they are the same wherever the guest ran. How
//! long the guest took on the host is in a separate file beside the guest's file. `findings`
//! contains a folder for each finding.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tardy_results::lab_hunt::{Finding, HuntQuestion, ProgramResult};
use tardy_run::operations::Program;
use tardy_sys::regular_file;

use super::{Choice, NoResult};
use crate::cache::{CacheError, write_whole};

const QUESTION_NAME: &str = "hunt.json";
const IDLE_NAME: &str = "idle.json";
const FINDINGS_NAME: &str = "findings";
const FINDING_NAME: &str = "finding.json";
/// Size limit of each file; real ones are far smaller.
const BYTES_MAX: u64 = 64 << 20;

/// Identifies a guest of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestPlace {
    pub round: u32,
    pub guest: u32,
}

/// The programs of a guest, and their results or why there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestResult {
    pub programs: Vec<Program>,
    pub results: Result<Vec<ProgramResult>, NoResult>,
}

/// A guest whose result is in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptGuest {
    pub place: GuestPlace,
    pub result: GuestResult,
    pub wall: Duration,
}

/// Why the folder of a hunt cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HuntFolderError {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Write(#[from] CacheError),
    #[error(
        "{} has another hunt ({there}): repeat that hunt's options, or give another folder with \
         --out", path.display()
    )]
    Other { path: PathBuf, there: String },
}

/// The folder of a hunt.
#[derive(Debug, Clone)]
pub struct HuntFolder {
    path: PathBuf,
}

impl HuntFolder {
    /// Makes the folder, or opens it if it has the same question.
    ///
    /// # Errors
    /// Returns [`HuntFolderError`].
    pub fn open(path: &Path, question: &HuntQuestion) -> Result<Self, HuntFolderError> {
        let file = path.join(QUESTION_NAME);
        match read::<HuntQuestion>(&file)? {
            Some(there) if there == *question => {}
            Some(there) => {
                return Err(HuntFolderError::Other {
                    path: path.to_owned(),
                    there: difference(&there, question),
                });
            }
            None => {
                make(path)?;
                write_whole(&file, &text(question))?;
            }
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the results of the guest in which no program runs; `None` if it has not run.
    ///
    /// # Errors
    /// Returns [`HuntFolderError::File`].
    pub fn idle(&self) -> Result<Option<Vec<ProgramResult>>, HuntFolderError> {
        read(&self.path.join(IDLE_NAME))
    }

    /// Stores the results of the guest in which no program runs.
    ///
    /// # Errors
    /// Returns [`HuntFolderError::Write`].
    pub fn write_idle(&self, results: &[ProgramResult]) -> Result<(), HuntFolderError> {
        write_whole(&self.path.join(IDLE_NAME), &text(&results))?;
        Ok(())
    }

    fn file(&self, choice: Choice, place: GuestPlace) -> PathBuf {
        let round = format!("round-{:04}", place.round);
        let guest = format!("guest-{:03}.json", place.guest);
        self.path.join(choice.name()).join(round).join(guest)
    }

    /// Returns the result of a guest; `None` if it has not run.
    ///
    /// # Errors
    /// Returns [`HuntFolderError::File`].
    pub fn read(
        &self,
        choice: Choice,
        place: GuestPlace,
    ) -> Result<Option<GuestResult>, HuntFolderError> {
        read(&self.file(choice, place))
    }

    /// Stores the result of a guest, and how long the guest took on the host.
    ///
    /// # Errors
    /// Returns [`HuntFolderError`].
    pub fn write(
        &self,
        choice: Choice,
        place: GuestPlace,
        result: &GuestResult,
        wall: Duration,
    ) -> Result<(), HuntFolderError> {
        let file = self.file(choice, place);
        make(file.parent().unwrap_or(&self.path))?;
        write_whole(&file.with_extension("wall"), &text(&wall.as_millis()))?;
        write_whole(&file, &text(result))?;
        Ok(())
    }

    /// Returns all guests of a search that have run, in the order of rounds.
    ///
    /// # Errors
    /// Returns [`HuntFolderError::File`].
    pub fn guests(&self, choice: Choice) -> Result<Vec<KeptGuest>, HuntFolderError> {
        let mut guests = Vec::new();
        for (round, folder) in numbered(&self.path.join(choice.name()), "round-", "")? {
            for (guest, file) in numbered(&folder, "guest-", ".json")? {
                let millis: Option<u64> = read(&file.with_extension("wall"))?;
                if let Some(result) = read(&file)? {
                    guests.push(KeptGuest {
                        place: GuestPlace { round, guest },
                        result,
                        wall: Duration::from_millis(millis.unwrap_or(0)),
                    });
                }
            }
        }
        Ok(guests)
    }

    /// Returns the findings of the folder, the longest section first.
    ///
    /// # Errors
    /// Returns [`HuntFolderError::File`].
    pub fn findings(&self) -> Result<Vec<Finding>, HuntFolderError> {
        let mut findings: Vec<Finding> = Vec::new();
        for (_, folder) in numbered(&self.path.join(FINDINGS_NAME), "", "")? {
            findings.extend(read::<Finding>(&folder.join(FINDING_NAME))?);
        }
        findings.sort_by_key(|finding: &Finding| std::cmp::Reverse(finding.result.longest_ns()));
        Ok(findings)
    }

    /// Returns the name of the folder for the next finding, relative to the hunt's folder.
    #[must_use]
    pub fn next_finding(&self, known: usize) -> String {
        format!("{FINDINGS_NAME}/{:03}", known + 1)
    }

    /// Stores a finding in its folder.
    ///
    /// # Errors
    /// Returns [`HuntFolderError`].
    pub fn write_finding(&self, finding: &Finding) -> Result<(), HuntFolderError> {
        let folder = self.path.join(&finding.folder);
        make(&folder)?;
        write_whole(&folder.join(FINDING_NAME), &text(finding))?;
        Ok(())
    }
}

/// Describes the first difference between two questions.
fn difference(there: &HuntQuestion, asked: &HuntQuestion) -> String {
    let of = |name: &str, there: &dyn std::fmt::Display| format!("{name} {there}");
    if there.kernel != asked.kernel {
        of("kernel", &there.kernel)
    } else if there.seed != asked.seed {
        of("seed", &there.seed)
    } else if there.guest != asked.guest {
        "another tardy, QEMU, kernel package or machine".to_owned()
    } else {
        format!(
            "{} guests a round with {} programs",
            there.guests_a_round, there.programs_a_guest
        )
    }
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> HuntFolderError + use<> {
    let path = path.to_owned();
    move |error| HuntFolderError::File { path, error }
}

fn make(folder: &Path) -> Result<(), HuntFolderError> {
    std::fs::create_dir_all(folder).map_err(file_error(folder))
}

fn text(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("these values can always be written as JSON")
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, HuntFolderError> {
    match regular_file::read(path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path)(error)),
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| file_error(path)(error.into())),
    }
}

/// Returns the entries of a folder whose names consist of `before`, a number and `after`, sorted by
/// the number; no entries if the folder does not exist.
fn numbered(
    folder: &Path,
    before: &str,
    after: &str,
) -> Result<Vec<(u32, PathBuf)>, HuntFolderError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(file_error(folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(file_error(folder))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| {
            let name = name.strip_prefix(before)?.strip_suffix(after)?;
            name.parse::<u32>().ok()
        });
        found.extend(number.map(|number| (number, entry.path())));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::hunt::corpus::tests::{made_result, question};

    #[test]
    fn a_folder_continues_only_the_same_hunt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hunt");
        let question = question();
        let hunt = HuntFolder::open(&path, &question).unwrap();
        assert!(hunt.guests(Choice::Guided).unwrap().is_empty());
        let program: Program = "timers=3".parse().unwrap();
        let place = GuestPlace { round: 1, guest: 2 };
        let result = GuestResult {
            programs: vec![program.clone()],
            results: Ok(vec![made_result(&program)]),
        };
        let wall = Duration::from_millis(5);
        hunt.write(Choice::Guided, place, &result, wall).unwrap();
        let hunt = HuntFolder::open(&path, &question).unwrap();
        assert_eq!(
            hunt.guests(Choice::Guided).unwrap(),
            [KeptGuest {
                place,
                result,
                wall
            }]
        );
        assert!(hunt.guests(Choice::Random).unwrap().is_empty());
        let other = HuntQuestion {
            seed: 8,
            ..question
        };
        let error = HuntFolder::open(&path, &other).unwrap_err().to_string();
        assert!(error.contains("another hunt (seed 7)"), "{error}");
    }

    #[test]
    fn findings_are_numbered_and_the_longest_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let hunt = HuntFolder::open(folder.path(), &question()).unwrap();
        for (known, text) in ["timers=3", "timers=9"].iter().enumerate() {
            let program: Program = text.parse().unwrap();
            let finding = Finding {
                call_path: (*text).to_owned(),
                found: vec![program.clone()],
                found_ns: tardy_core::units::Nanos(5),
                result: made_result(&program),
                reduced: vec![program],
                reductions: 1,
                reductions_max: 1,
                is_complete: true,
                repeats: 2,
                equal: 2,
                folder: hunt.next_finding(known),
            };
            hunt.write_finding(&finding).unwrap();
        }
        let findings = hunt.findings().unwrap();
        let folders: Vec<&str> = findings
            .iter()
            .map(|finding| finding.folder.as_str())
            .collect();
        assert_eq!(folders, ["findings/002", "findings/001"]);
    }
}
