//! Checks whether the kernel's trace and the plugin's trace of the same run name the same holders
//! of the CPU for the run's late samples.

use std::collections::BTreeMap;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_results::explain::Late;
use tardy_results::explain::run::{RunError, RunQuestion, SampleStory};
use tardy_results::explain::source::explain_run;
use tardy_trace::explain::{Cause, Component};

/// A holder of the CPU during a sample's interval, and the total time that each source attributes
/// to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderTime {
    pub component: Component,
    pub cause: Cause,
    /// Name of the interrupt, softirq or thread.
    pub name: String,
    pub by_trace_ns: u64,
    pub by_execution_ns: u64,
    /// Number of separate intervals in which the holder had the CPU. If the two sources differ,
    /// this is the larger of their numbers.
    pub pieces: u64,
}

impl HolderTime {
    /// Returns by how much the times of the two sources differ.
    #[must_use]
    pub const fn off_ns(&self) -> u64 {
        self.by_trace_ns.abs_diff(self.by_execution_ns)
    }

    const fn is_agreed(&self) -> bool {
        let longer = if self.by_trace_ns > self.by_execution_ns {
            self.by_trace_ns
        } else {
            self.by_execution_ns
        };
        let at_switch = if matches!(self.component, Component::Switch) {
            SWITCH_NS
        } else {
            0
        };
        self.off_ns() <= NEAR_NS * self.pieces + at_switch && self.off_ns() <= longer / 2
    }
}

/// A sample for which the two sources name different holders.
#[derive(Debug, Clone)]
pub struct Difference {
    pub due: Nanos,
    pub latency_ns: u64,
    /// The holder that had the CPU longest according to the kernel's trace, and the one that had it
    /// longest according to the plugin's trace.
    pub holders: Vec<HolderTime>,
}

/// How well the two explanations of a run agree with each other. `samples` counts the samples that
/// both explanations cover.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    pub samples: u64,
    /// The largest difference between the times that the two sources give for the same holder, over
    /// all samples on which the sources agree.
    pub off_ns: u64,
    pub differences: Vec<Difference>,
    /// Samples that only the plugin trace covers.
    pub only_executed: u64,
    /// Samples that only the kernel's trace covers. The plugin stores only the worst samples, and
    /// of these only those before which the guest executed so little code that the plugin could
    /// store it.
    pub only_traced: u64,
}

/// Tolerance for each separate interval in which a holder had the CPU; it covers the errors at both
/// ends. At each end, the kernel's event and the function that the plugin sees are 1.2 us of
/// virtual time apart, because writing an event takes this time.
const NEAR_NS: u64 = 3_000;

/// Additional tolerance for the switch to the thread. The kernel writes the switch event before it
/// changes the address space and the task, and the plugin sees only the change of the task.
const SWITCH_NS: u64 = 2_000;

/// Compares the holders that both sources name for those samples of a run folder whose latency
/// exceeds `above`. The sources agree on a sample if the holder with the longest time in one source
/// has nearly the same time in the other source, and the other way round.
///
/// So the sources also agree if two holders have nearly equal times, and each source puts a
/// different one of them first.
///
/// # Errors
/// Returns [`RunError`].
pub fn agreement(run: &Path, above: Nanos) -> Result<Agreement, RunError> {
    let question = RunQuestion {
        worst: usize::MAX,
        late: Late::Above(above),
        from_outside: false,
    };
    let traced = explain_run(run, question)?;
    let outside = explain_run(
        run,
        RunQuestion {
            from_outside: true,
            ..question
        },
    )?;
    let mut by_due: BTreeMap<Nanos, &SampleStory> = BTreeMap::new();
    by_due.extend(traced.worst.iter().map(|story| (story.due_ns, story)));
    let mut agreement = Agreement::default();
    for executed in &outside.worst {
        let Some(traced) = by_due.remove(&executed.due_ns) else {
            agreement.only_executed += 1;
            continue;
        };
        let holders = longest(&holder_times(traced, executed));
        agreement.samples += 1;
        if holders.iter().all(HolderTime::is_agreed) {
            agreement.off_ns = holders
                .iter()
                .map(HolderTime::off_ns)
                .fold(agreement.off_ns, u64::max);
        } else {
            agreement.differences.push(Difference {
                due: executed.due_ns,
                latency_ns: executed.latency_ns,
                holders,
            });
        }
    }
    agreement.only_traced = by_due.len() as u64;
    Ok(agreement)
}

fn holder_times(traced: &SampleStory, executed: &SampleStory) -> Vec<HolderTime> {
    let mut times: Vec<HolderTime> = Vec::new();
    let mut by_execution: Vec<u64> = Vec::new();
    let pieces = traced
        .pieces
        .iter()
        .map(|piece| (piece, true))
        .chain(executed.pieces.iter().map(|piece| (piece, false)));
    for (piece, is_traced) in pieces {
        let (component, cause, name) = (piece.component, piece.holder.cause, &piece.holder.name);
        let place = times
            .iter()
            .position(|time| (time.component, time.cause, &time.name) == (component, cause, name));
        let place = place.unwrap_or_else(|| {
            times.push(HolderTime {
                component,
                cause,
                name: name.clone(),
                by_trace_ns: 0,
                by_execution_ns: 0,
                pieces: 0,
            });
            by_execution.push(0);
            times.len() - 1
        });
        if is_traced {
            times[place].by_trace_ns += piece.length_ns;
            times[place].pieces += 1;
        } else {
            times[place].by_execution_ns += piece.length_ns;
            by_execution[place] += 1;
            times[place].pieces = times[place].pieces.max(by_execution[place]);
        }
    }
    times
}

/// Returns the holder that had the CPU longest according to the kernel's trace. If another holder
/// had it longest according to the plugin's trace, also returns that one.
fn longest(times: &[HolderTime]) -> Vec<HolderTime> {
    let traced = times.iter().max_by_key(|time| time.by_trace_ns);
    let executed = times.iter().max_by_key(|time| time.by_execution_ns);
    traced
        .into_iter()
        .chain(executed.filter(|executed| Some(*executed) != traced))
        .cloned()
        .collect()
}
