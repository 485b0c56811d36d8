//! Runs an experiment, which measures every variant in every replica, each in a separate guest. The
//! guests are distributed over the host's CPUs.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tardy_sys::scoped;

use super::boot::Guest;
use super::cache::Cache;
use super::diagnosis::{Cause, Failure};
use super::guest_job::GuestJob;
use super::host_cpu::HostCpu;
use super::initramfs::AddedFile;
use super::kept_digests::{self, OtherSamples};
use super::machine::Machine;
use super::provenance::Provenance;
use super::qemu::Qemu;
use super::snapshot::Snapshots;
use super::variant::Variant;
use super::watch::WatchSetup;

/// One of several equal parts of an experiment. Each part can run on a different machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Number of the part, counted from 1.
    number: usize,
    of: usize,
}

impl Shard {
    /// The whole experiment, in one part.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Returns whether the guest with this index belongs to the part.
    #[must_use]
    pub fn has(self, guest: usize) -> bool {
        guest % self.of == self.number - 1
    }
}

/// Parses text such as `2/8`.
impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(number, of)| {
            Some(Self {
                number: number.parse().ok()?,
                of: of.parse().ok()?,
            })
        });
        let shard =
            parts.filter(|shard| (1..=shard.of).contains(&shard.number) && shard.of <= 100_000);
        shard.ok_or_else(|| {
            format!("`{text}` is not a shard: write I/N with I from 1 to N, as in 2/8")
        })
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.number, self.of)
    }
}

/// The experiment to run.
pub struct Experiment<'a> {
    pub variants: &'a [Variant],
    /// The machine of the guests.
    pub machine: &'a Machine,
    /// Number of replicas, which are numbered from 0.
    pub replicas: u32,
    /// The part of the experiment that runs on this machine.
    pub shard: Shard,
    /// Whether each guest runs twice, to compare the samples of both runs.
    pub twice: bool,
    /// Returns the job for a replica, which contains the seed for the probes in this replica.
    pub job_of_replica: &'a (dyn Fn(u32) -> GuestJob + Sync),
    /// The static program for the guests.
    pub binary: &'a Path,
    /// Returns the additional files for the guests of a variant.
    pub added: &'a (dyn Fn(&Variant) -> Vec<AddedFile> + Sync),
    /// Time limit for each guest in wall-clock time of the host.
    pub wall_limit: Duration,
    /// Number of guests that run at the same time.
    pub jobs: usize,
    /// The lab's folder in the user's cache. The locks in it show which of the host's CPUs other
    /// labs use.
    pub cache: &'a Cache,
    /// The snapshots; absent if the guests boot.
    pub snapshots: Option<&'a Snapshots>,
    /// The plugin and its settings; absent if the guests are not watched. A second run is not
    /// watched, so that it shows whether watching changed the first.
    pub watching: Option<&'a WatchSetup>,
    /// The folder that contains the run folders, `VARIANT/replica-NNN`.
    pub out: &'a Path,
    /// Returns whether further guests are unnecessary after this outcome. Guests that already run
    /// are still completed.
    pub is_decided: &'a (dyn Fn(&Outcome) -> bool + Sync),
}

/// The outcome of one guest.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Index of the guest's variant.
    pub variant: usize,
    /// Number of the guest's replica.
    pub replica: u32,
    /// Run folder of the guest.
    pub folder: PathBuf,
    /// Result of the guest.
    pub result: Result<Provenance, Failure>,
    /// How the second run compares with the first; absent if there was no second run.
    pub repetition: Option<Repetition>,
    /// Wall time on the host; if the run was repeated, both runs together.
    pub wall: Duration,
}

/// How a second run of the same guest compares with the first.
#[derive(Debug, Clone)]
pub enum Repetition {
    /// The samples are equal.
    Same,
    /// The samples differ, so something in the guest is not deterministic. The folder of the second
    /// run is not removed.
    Different(PathBuf),
    /// The second run failed.
    Failed(Failure),
}

impl Experiment<'_> {
    /// Returns the variant and the replica of each guest, in the order in which the guests run. All
    /// variants of a replica come before the next replica, so that an interrupted experiment is
    /// comparable.
    #[must_use]
    pub fn guests(&self) -> Vec<(usize, u32)> {
        let all = (0..self.replicas)
            .flat_map(|replica| (0..self.variants.len()).map(move |variant| (variant, replica)));
        all.enumerate()
            .filter(|(place, _)| self.shard.has(*place))
            .map(|(_, guest)| guest)
            .collect()
    }

    /// Returns the path of a guest's run folder.
    #[must_use]
    pub fn folder(&self, (variant, replica): (usize, u32)) -> PathBuf {
        self.out
            .join(&self.variants[variant].name)
            .join(format!("replica-{replica:03}"))
    }

    /// Runs all guests; stops early if an outcome makes further guests unnecessary. Several threads
    /// call `began` with variant, replica and folder when a guest starts, and `done` with the
    /// outcome when it ends. Returns the outcomes in the order of variants and replicas.
    #[must_use]
    pub fn run(
        &self,
        qemu: &Qemu,
        began: &(dyn Fn(&Variant, u32, &Path) + Sync),
        done: &(dyn Fn(&Outcome) + Sync),
    ) -> Vec<Outcome> {
        let guests = self.guests();
        let next = AtomicUsize::new(0);
        let decided = AtomicBool::new(false);
        let outcomes = Mutex::new(Vec::new());
        let worker = AtomicUsize::new(0);
        let work = || {
            let _cpu = HostCpu::take(self.cache, worker.fetch_add(1, Ordering::Relaxed));
            loop {
                let guest = guests
                    .get(next.fetch_add(1, Ordering::Relaxed))
                    .filter(|_| !decided.load(Ordering::Relaxed));
                let Some(&(variant, replica)) = guest else {
                    return;
                };
                let folder = self.folder((variant, replica));
                began(&self.variants[variant], replica, &folder);
                let outcome = self.run_guest(qemu, variant, replica);
                done(&outcome);
                if (self.is_decided)(&outcome) {
                    decided.store(true, Ordering::Relaxed);
                }
                outcomes
                    .lock()
                    .expect("threads do not panic while they hold this lock")
                    .push(outcome);
            }
        };
        scoped::share(self.jobs.clamp(1, guests.len().max(1)), work);
        let mut outcomes = outcomes
            .into_inner()
            .expect("threads do not panic while they hold this lock");
        outcomes.sort_by_key(|outcome| (outcome.variant, outcome.replica));
        outcomes
    }

    /// If the guest is watched, and the same guest has run unwatched before, compares the samples
    /// of the two runs. Returns a failure if they differ.
    fn compared_with_unwatched(&self, provenance: Provenance) -> Result<Provenance, Failure> {
        if self.watching.is_none() {
            return Ok(provenance);
        }
        let failed = |error: OtherSamples| Failure {
            cause: Cause::Host(error.to_string()),
            console_tail: Vec::new(),
            has_booted: true,
        };
        kept_digests::compare(self.cache, &provenance).map_err(failed)?;
        Ok(provenance)
    }

    fn run_guest(&self, qemu: &Qemu, variant: usize, replica: u32) -> Outcome {
        let started = Instant::now();
        let job = (self.job_of_replica)(replica);
        let variant_ref = &self.variants[variant];
        let added = (self.added)(variant_ref);
        let guest = Guest {
            variant: variant_ref,
            machine: self.machine,
            pad: replica,
            job: &job,
            binary: self.binary,
            added: &added,
            wall_limit: self.wall_limit,
            snapshots: self.snapshots,
            watching: self.watching,
        };
        let folder = self.folder((variant, replica));
        let result = guest
            .run(qemu, &folder)
            .and_then(|provenance| self.compared_with_unwatched(provenance));
        let repetition = match &result {
            Ok(first) if self.twice => Some(repeat(
                &Guest {
                    watching: None,
                    ..guest.clone()
                },
                qemu,
                first,
                &folder,
            )),
            _ => None,
        };
        if let (Ok(provenance), true) = (
            &result,
            self.watching.is_none() || matches!(repetition, Some(Repetition::Same)),
        ) {
            kept_digests::keep(self.cache, provenance);
        }
        Outcome {
            variant,
            replica,
            folder,
            result,
            repetition,
            wall: started.elapsed(),
        }
    }
}

/// Returns the path for the second run of the guest in `folder`.
#[must_use]
pub fn again_folder(folder: &Path) -> PathBuf {
    let mut again = folder.as_os_str().to_owned();
    again.push("-again");
    PathBuf::from(again)
}

fn repeat(guest: &Guest<'_>, qemu: &Qemu, first: &Provenance, folder: &Path) -> Repetition {
    let again = again_folder(folder);
    match guest.run(qemu, &again) {
        Err(failure) => Repetition::Failed(failure),
        Ok(second) if !first.same_result(&second) => Repetition::Different(again),
        Ok(_) => match std::fs::remove_dir_all(&again) {
            Ok(()) => Repetition::Same,
            Err(error) => {
                let cause = Cause::Host(format!("{}: {error}", again.display()));
                Repetition::Failed(Failure {
                    cause,
                    console_tail: Vec::new(),
                    has_booted: true,
                })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_all_guests_and_are_written_as_a_number_of_how_many() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        for guest in 0..20 {
            assert_eq!(
                shards.iter().filter(|shard| shard.has(guest)).count(),
                1,
                "{guest}"
            );
            assert!(Shard::WHOLE.has(guest));
        }
        assert_eq!(shards[1].to_string(), "2/3");
        for wrong in ["0/3", "4/3", "1/0", "1", "a/b", "1/3/2", "-1/3"] {
            assert!(
                wrong.parse::<Shard>().unwrap_err().contains("as in 2/8"),
                "{wrong}"
            );
        }
    }
}
