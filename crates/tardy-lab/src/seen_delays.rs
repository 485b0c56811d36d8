//! Compares injected delays, whose kind and length are known, with the sections that the plugin
//! saw.

use std::collections::BTreeSet;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_outside::kind::Kind;
use tardy_outside::store::{self, StoreError};
use tardy_outside::stream::Item;
use tardy_run::folder;
use tardy_samples::read_series::SeriesFile;

use super::injection::{Context, InjectedDelay, LOG_PATH, parse_log};

/// By how much a section may be longer than the delay that was timed within it. The section is
/// longer by the time from disabling to the first clock read, and by the time from the last clock
/// read to enabling.
pub const LONGER_NS_MAX: i64 = 1_500;
/// By how much a section may be longer than a delay in a softirq. In this case, the section is the
/// kernel's whole pass over the pending softirqs, so it includes the time of other softirqs.
pub const LONGER_PASS_NS_MAX: i64 = 20_000;
/// Suffix in the names of the functions that belong to the module.
const MODULE: &str = "[tardy_inject]";

/// Why delays and sections cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum SeenError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the guest was not watched")]
    NotWatched,
    #[error("the log of the delays: {0}")]
    Log(String),
}

/// The injected delays, compared with the sections that the plugin saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenDelays {
    /// Delays that the module made.
    pub made: usize,
    /// Lengths in ns of the sections that have the delays' kind and minimum length, in order of
    /// time. Unless the delays are in softirqs, these are only the sections that the module
    /// started. If delays in the run's context are not sections on the run's kernel, these are all
    /// sections that the module started; if the plugin is right, there are none.
    pub sections: Vec<i64>,
    /// For each delay that has a section: by how many ns the section is longer than the delay.
    pub longer: Vec<i64>,
    /// Whether delays in the run's context are sections on the run's kernel.
    pub are_sections: bool,
    /// By how much a section may be longer than its delay, in ns.
    pub longer_ns_max: i64,
    /// Number of delays during which one of the run's samples became due. Sampling can see only
    /// these delays.
    pub probed: usize,
}

impl SeenDelays {
    /// Returns whether the plugin saw, for every delay, a section of the right kind and length. If
    /// delays in this context are not sections, returns whether the plugin saw none.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        if !self.are_sections {
            return self.sections.is_empty();
        }
        self.sections.len() == self.made
            && self
                .longer
                .iter()
                .all(|longer| (0..=self.longer_ns_max).contains(longer))
    }
}

/// Returns which kind of section a delay in this context is; `None` if it is not a section. The
/// second value is the module's function that starts the section, if the module starts it.
fn truth(context: Context, is_real_time: bool) -> Option<(Kind, Option<&'static str>)> {
    match context {
        Context::PreemptionOff => Some((Kind::PreemptionOff, Some("spin_preemption_off"))),
        Context::InterruptsOff => Some((Kind::InterruptsOff, Some("spin_interrupts_off"))),
        Context::RawSpinlock => Some((Kind::PreemptionOff, Some("spin_raw_spinlock"))),
        Context::Spinlock if !is_real_time => Some((Kind::PreemptionOff, Some("spin_spinlock"))),
        Context::Softirq if !is_real_time => Some((Kind::Softirq, None)),
        // In these contexts, delays are not sections: waiters for the lock sleep, a thread serves
        // the softirq, or the system call disables nothing.
        Context::Spinlock | Context::Softirq | Context::Plain => None,
    }
}

/// Returns when the samples of a run were due. Returns no times if the run cannot be read.
fn dues(run: &Path) -> BTreeSet<Nanos> {
    let mut dues = BTreeSet::new();
    let Ok(record) = folder::open(run) else {
        return dues;
    };
    let samples = record
        .samples_folder
        .clone()
        .unwrap_or_else(|| run.join("samples"));
    for series in record
        .series
        .iter()
        .filter_map(|series| SeriesFile::open(&samples.join(&series.file)).ok())
    {
        let schedule = series.descriptor().schedule;
        series
            .read(&mut |chunk| dues.extend(chunk.samples(&schedule).map(|(_, sample)| sample.due)))
            .ok();
    }
    dues
}

/// Compares the injected delays of `context` with the sections of a watched run that last at least
/// `least_ns`.
///
/// # Errors
/// Returns [`SeenError`].
pub fn seen_delays(
    run: &Path,
    context: Context,
    least_ns: i64,
    is_real_time: bool,
) -> Result<SeenDelays, SeenError> {
    let log = std::fs::read_to_string(run.join(LOG_PATH))
        .map_err(|error| SeenError::Log(error.to_string()))?;
    let made = parse_log(&log).map_err(|line| {
        SeenError::Log(format!(
            "line {line} is not in the format that the module \
             writes"
        ))
    })?;
    let watched = store::read(run)?.ok_or(SeenError::NotWatched)?;
    let truth = truth(context, is_real_time);
    let mut sections = Vec::new();
    store::read_items(run, |item, reader| {
        let Item::Section(section) = item else { return };
        let site = reader.sites()[section.site as usize];
        let begin = watched
            .functions
            .get(&format!("{:x}", site.begin_pc))
            .map_or("", String::as_str);
        let length = i64::try_from(section.length.saturating_mul(watched.instruction_ns))
            .unwrap_or(i64::MAX);
        let is_wanted = match truth {
            Some((kind, Some(function))) => {
                site.kind == kind
                    && begin
                        .strip_prefix(function)
                        .is_some_and(|rest| rest.trim() == MODULE)
            }
            Some((kind, None)) => site.kind == kind,
            None => begin.ends_with(MODULE),
        };
        if is_wanted && length >= least_ns {
            sections.push(length);
        }
    })?;
    let inside = |delay: &InjectedDelay| delay.ended.0 - delay.begun.0;
    let longer = made
        .iter()
        .zip(&sections)
        .map(|(delay, section)| section - inside(delay))
        .collect();
    let longer_ns_max = if context == Context::Softirq {
        LONGER_PASS_NS_MAX
    } else {
        LONGER_NS_MAX
    };
    let dues = dues(run);
    let is_probed = |delay: &&InjectedDelay| dues.range(delay.begun..delay.ended).next().is_some();
    let probed = made.iter().filter(is_probed).count();
    Ok(SeenDelays {
        probed,
        made: made.len(),
        sections,
        longer,
        are_sections: truth.is_some(),
        longer_ns_max,
    })
}
