//! Runs programs in watched guests. Each program is a phase of a scenario, with the load
//! `operations`.

use std::fmt::Write as _;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_outside::census::{self, Group};
use tardy_outside::kind::Longest;
use tardy_results::lab_hunt::{LongSection, ProgramResult};
use tardy_results::summary::summarize::summarize;
use tardy_run::operations::Program;

use super::{Bench, NoResult};
use crate::boot::Guest;
use crate::cache::Cache;
use crate::digest::Digest;
use crate::guest_job::GuestJob;
use crate::qemu::Qemu;

/// How long the phase of a program lasts. Nearly all programs need less time. For the rest of the
/// phase, the guest is idle, which takes no time on the host.
const PHASE: Nanos = Nanos::from_secs(2);

/// Runs programs in guests.
pub struct GuestBench<'a> {
    /// The guest to run. Its job is replaced by that of `job_of_scenario`.
    pub guest: Guest<'a>,
    /// Returns the job of a guest that runs the scenario with this text.
    pub job_of_scenario: &'a (dyn Fn(String) -> GuestJob + Sync),
    pub qemu: &'a Qemu,
    pub cache: &'a Cache,
}

impl GuestBench<'_> {
    /// Runs the programs in one guest, and leaves the guest's run in `folder`. Returns the result
    /// of each program, and the digest of the samples.
    ///
    /// # Errors
    /// Returns why there are no results.
    pub fn run_in(
        &self,
        programs: &[Program],
        folder: &Path,
    ) -> Result<(Vec<ProgramResult>, Option<Digest>), NoResult> {
        let job = (self.job_of_scenario)(scenario(programs));
        let guest = Guest {
            job: &job,
            ..self.guest.clone()
        };
        let provenance = guest
            .run(self.qemu, folder)
            .map_err(|failure| NoResult(failure.cause.to_string()))?;
        let unreadable = |error: &dyn std::fmt::Display| NoResult(error.to_string());
        let census = census::census(folder).map_err(|error| unreadable(&error))?;
        let summary =
            summarize(folder, &Requirement::default()).map_err(|error| unreadable(&error))?;
        let result = |program: &Program| {
            let load = load(program);
            let group = census.groups.iter().find(|group| group.load == load);
            let phase = summary
                .phases
                .iter()
                .find(|phase| phase.loads == [load.as_str()]);
            let numbers = phase.into_iter().flat_map(|phase| &phase.probes);
            ProgramResult {
                program: program.clone(),
                largest_latency_ns: numbers
                    .filter_map(|(_, numbers)| Some(Nanos(numbers.as_ref()?.max_ns)))
                    .max(),
                sections: group.map(sections).unwrap_or_default(),
            }
        };
        Ok((
            programs.iter().map(result).collect(),
            provenance.sample_digest,
        ))
    }
}

impl Bench for GuestBench<'_> {
    fn run(&self, programs: &[Program]) -> Result<Vec<ProgramResult>, NoResult> {
        let folder = self.cache.scratch("hunt");
        let folder = folder.map_err(|error| NoResult(error.to_string()))?;
        Ok(self.run_in(programs, folder.path())?.0)
    }
}

/// Returns the longest section of each kind. Leaves out intervals that are not sections.
fn sections(group: &Group) -> Vec<LongSection> {
    let rows = group.longest.iter();
    rows.filter_map(|row| {
        let Longest::Section(kind) = row.what else {
            return None;
        };
        Some(LongSection {
            kind,
            length_ns: row.length_ns,
            begin: row.begin.clone(),
            end: row.end.clone(),
            task: row.task.clone(),
            path: row.path.clone(),
        })
    })
    .collect()
}

/// Returns the text of a load that executes the program once.
fn load(program: &Program) -> String {
    format!("operations:passes=1:steps={program}")
}

/// Returns a scenario with a phase for each program, followed by a phase without loads. The tool
/// ends in this last phase. When the tool ends, it causes long sections, which would otherwise
/// count as sections of a program. The probe's due times are at whole ms of the monotonic clock,
/// from which the operation `align` counts, too.
#[must_use]
pub fn scenario(programs: &[Program]) -> String {
    let mut text = String::from(
        "name = \"hunt\"\nabout = \"Programs of tardy lab hunt\"\n\n[[probe]]\nname = \
         \"cyclic\"\nperiod = \"1ms\"\nalign = \"monotonic\"\n",
    );
    for (number, program) in programs.iter().enumerate() {
        // This cannot fail, because the text is written to a `String`.
        let _ = write!(
            text,
            "\n[[phase]]\nname = \"program-{number}\"\nlength = \"{}ms\"\nloads = [\"{}\"]\n",
            PHASE.get() / 1_000_000,
            load(program)
        );
    }
    text.push_str("\n[[phase]]\nname = \"end\"\nlength = \"100ms\"\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_a_phase_for_each_program_and_one_without_loads_after_them() {
        let programs = ["fork=3,kill", "sleep=5"].map(|text| text.parse().unwrap());
        let text = scenario(&programs);
        assert_eq!(text.matches("[[phase]]").count(), 3);
        let line = "loads = [\"operations:passes=1:steps=fork=3,kill\"]";
        assert!(text.contains(line), "{text}");
        let last = text.rsplit("[[phase]]").next().unwrap();
        assert!(!last.contains("loads"), "{text}");
    }
}
