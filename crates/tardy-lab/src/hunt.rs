//! The hunt searches for the program that causes the longest section.
//!
//! A hunt consists of rounds. Each round is a separate search. Its random numbers come only from
//! the hunt's seed and the round's number, and it uses only results of its own guests. So the
//! rounds of a hunt can run on several machines and in any order, with the same result. The guests
//! of a round run one after the other. All guests start from the same snapshot, and each guest runs
//! several programs. A program is kept if it causes a long section with a new call path, a longer
//! section with a known call path, or a larger latency than before. Programs of later guests are
//! mutations of programs that were kept. A random search serves as the control: it draws all
//! programs at random.
//!
//! [`mutation`] draws and changes programs, [`corpus`] keeps the best, [`reduction`] shortens the
//! programs of a finding, and [`folder`] keeps the results of every guest. [`guests`] runs the
//! guests.

pub mod corpus;
pub mod folder;
pub mod guests;
pub mod mutation;
pub mod reduction;

use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use tardy_results::lab_hunt::{HuntQuestion, ProgramResult};
use tardy_run::operations::Program;
use tardy_sys::scoped;

use self::corpus::{Corpus, Idle};
use self::folder::{GuestPlace, GuestResult, HuntFolder, HuntFolderError};

/// Why a guest left no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct NoResult(pub String);

/// Runs programs in guests.
pub trait Bench: Sync {
    /// Runs the programs one after the other in one guest that starts from the snapshot. Returns
    /// the result of each program, or why the guest left no result.
    fn run(&self, programs: &[Program]) -> Result<Vec<ProgramResult>, NoResult>;
}

/// How the programs of a search are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// By mutation of the best programs that the round has found so far.
    Guided,
    /// At random.
    Random,
}

impl Choice {
    /// Returns the name of the folder with the searches that choose programs in this way.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Guided => "guided",
            Self::Random => "random",
        }
    }
}

/// A search that is in progress.
pub struct Hunt<'a> {
    pub question: &'a HuntQuestion,
    pub choice: Choice,
    /// The sections that occur in a guest while no program runs.
    pub idle: &'a Idle,
    pub folder: &'a HuntFolder,
    pub bench: &'a dyn Bench,
    /// Decides whether another guest is started.
    pub go_on: &'a (dyn Fn() -> bool + Sync),
    /// Is called after each guest.
    pub done: &'a (dyn Fn(GuestPlace, &GuestResult) + Sync),
}

impl Hunt<'_> {
    /// Runs the missing guests of these rounds, up to `jobs` rounds at the same time, until
    /// [`Self::go_on`] returns false.
    ///
    /// # Errors
    /// Returns an error if the hunt's folder cannot be read or written.
    pub fn run(
        &self,
        rounds: impl Iterator<Item = u32> + Send,
        jobs: usize,
    ) -> Result<(), HuntFolderError> {
        let rounds = std::sync::Mutex::new(rounds);
        let failures = std::sync::Mutex::new(Vec::new());
        let failed = AtomicU32::new(0);
        scoped::share(jobs.max(1), || {
            while failed.load(Ordering::Relaxed) == 0 && (self.go_on)() {
                let next = rounds.lock().map(|mut rounds| rounds.next());
                let Ok(Some(round)) = next else { return };
                if let Err(error) = self.round(round) {
                    failed.fetch_add(1, Ordering::Relaxed);
                    if let Ok(mut failures) = failures.lock() {
                        failures.push(error);
                    }
                }
            }
        });
        let failures = failures.into_inner().unwrap_or_default();
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// Runs the missing guests of a round. Results of guests that ran earlier are read from the
    /// folder.
    fn round(&self, round: u32) -> Result<(), HuntFolderError> {
        let mut corpus = Corpus::new(self.idle);
        for guest in 0..self.question.guests_a_round {
            let place = GuestPlace { round, guest };
            let programs = self.programs(place, &corpus);
            let result = match self.folder.read(self.choice, place)? {
                Some(result) => result,
                None if !(self.go_on)() => return Ok(()),
                None => {
                    let started = std::time::Instant::now();
                    let result = GuestResult {
                        results: self.bench.run(&programs),
                        programs,
                    };
                    let wall = started.elapsed();
                    self.folder.write(self.choice, place, &result, wall)?;
                    (self.done)(place, &result);
                    result
                }
            };
            for result in result.results.iter().flatten() {
                corpus.add(result);
            }
        }
        Ok(())
    }

    /// Returns the programs that a guest runs. They depend only on the hunt's question, the guest's
    /// round and number, and the results of earlier guests of the round.
    fn programs(&self, place: GuestPlace, corpus: &Corpus<'_>) -> Vec<Program> {
        let mut random = mutation::random_of(self.question.seed, self.choice, place);
        let mut programs: Vec<Program> = Vec::new();
        while programs.len() < self.question.programs_a_guest as usize {
            let program = match self.choice {
                Choice::Guided => mutation::next(&mut random, corpus),
                Choice::Random => mutation::random_program(&mut random),
            };
            // A result is looked up by its program, so no guest may run the same program twice.
            if !programs.contains(&program) {
                programs.push(program);
            }
        }
        programs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use crate::experiment::Shard;
    use crate::hunt::corpus::tests::{made_result, question};

    /// A simulated guest. In its results, a program's section lasts about 1 us for each timer of
    /// the program, and the call path depends on the program's first operation.
    pub(super) struct MadeBench;

    impl Bench for MadeBench {
        fn run(&self, programs: &[Program]) -> Result<Vec<ProgramResult>, NoResult> {
            if programs[0].0.len() == 6 {
                return Err(NoResult("the kernel panicked".to_owned()));
            }
            Ok(programs.iter().map(made_result).collect())
        }
    }

    fn hunt(folder: &Path, choice: Choice, shard: Shard, guests: u32) -> usize {
        hunt_for(&question(), folder, choice, shard, guests)
    }

    fn hunt_for(
        question: &HuntQuestion,
        folder: &Path,
        choice: Choice,
        shard: Shard,
        guests: u32,
    ) -> usize {
        let idle = Idle::default();
        let left = AtomicU32::new(guests);
        let folder = HuntFolder::open(folder, question).unwrap();
        let hunt = Hunt {
            question,
            choice,
            idle: &idle,
            folder: &folder,
            bench: &MadeBench,
            go_on: &|| left.load(Ordering::Relaxed) > 0,
            done: &|_, _| {
                left.fetch_sub(1, Ordering::Relaxed);
            },
        };
        let rounds = (0..5).filter(|round| shard.has(*round as usize));
        hunt.run(rounds, 1).unwrap();
        (guests - left.into_inner()) as usize
    }

    fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(&next).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_none_or(|extension| extension != "wall") {
                    let name = path.strip_prefix(folder).unwrap().display().to_string();
                    files.push((name, std::fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }

    #[test]
    fn shards_and_a_stopped_hunt_give_byte_for_byte_what_one_machine_gives() {
        let folder = tempfile::tempdir().unwrap();
        let [whole, shards, stopped] =
            ["whole", "shards", "stopped"].map(|name| folder.path().join(name));
        assert_eq!(hunt(&whole, Choice::Guided, Shard::WHOLE, 1000), 15);
        for shard in ["2/2", "1/2"] {
            hunt(&shards, Choice::Guided, shard.parse().unwrap(), 1000);
        }
        assert_eq!(content(&shards), content(&whole));
        assert_eq!(hunt(&stopped, Choice::Guided, Shard::WHOLE, 4), 4);
        assert_ne!(content(&stopped), content(&whole));
        assert_eq!(hunt(&stopped, Choice::Guided, Shard::WHOLE, 1000), 11);
        assert_eq!(content(&stopped), content(&whole));
        assert_eq!(hunt(&stopped, Choice::Guided, Shard::WHOLE, 1000), 0);
    }

    #[test]
    fn a_guided_search_finds_more_than_a_random_one() {
        let folder = tempfile::tempdir().unwrap();
        // A search learns only after it has run some guests.
        let question = HuntQuestion {
            guests_a_round: 20,
            ..question()
        };
        let longest = |choice: Choice| {
            let folder = folder.path().join(choice.name());
            hunt_for(&question, &folder, choice, Shard::WHOLE, 1000);
            let folder = HuntFolder::open(&folder, &question).unwrap();
            let guests = folder.guests(choice).unwrap();
            let results = guests
                .iter()
                .flat_map(|guest| guest.result.results.iter().flatten());
            results.map(ProgramResult::longest_ns).max().unwrap()
        };
        let both = [Choice::Guided, Choice::Random].map(longest);
        assert!(both[0] > both[1], "{both:?}");
    }
}
