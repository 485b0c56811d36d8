//! Compares theory and measurement. From the sections of a phase, this module computes the bound of
//! the scheduling latency (ECRTS 2020) and the distribution of the latency by sections (abeni2002).
//! The report shows each of the two beside the corresponding measurement in the same guests.

use serde::Serialize;
use tardy_core::units::Nanos;

use crate::bound::{Instances, Interrupts, Stretches, bound};
use crate::kind::{Longest, Stretch};
use crate::lnp::{Distance, SectionLatency};

/// Limits in us. For each of these limits, a table shows which fraction of latencies is above it:
/// once according to the model, once according to the probes.
const LIMITS_US: [u64; 8] = [5, 10, 20, 50, 100, 500, 1_000, 5_000];
/// The model and the samples are compared only for latencies that exceed the time of an undisturbed
/// sample by at least this time. For smaller latencies, a comparison would show nothing, because
/// the times of undisturbed samples differ by as much as short sections last.
const COMPARED_FROM_NS: u64 = 10_000;

/// Number of points of the curve for each factor of ten in latency.
const POINTS_A_DECADE: f64 = 40.0;

/// The longest interval of one kind, and what caused it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LongestRow {
    pub what: Longest,
    pub length_ns: Nanos,
    /// The function in which the interval started.
    pub begin: String,
    /// The function in which the interval ended.
    pub end: String,
    /// The task that had the CPU when the interval started.
    pub task: String,
    /// The function that was executed when the interval started, and its callers, innermost first;
    /// empty if they were not stored.
    pub path: Vec<String>,
}

/// The bound of the scheduling latency. This latency starts when a switch is due, and ends when the
/// scheduler is done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchedulingBound {
    /// The bound if there are no interrupts: `max(D_ST, D_POID) + D_PAIE + D_PSD`.
    pub without_interrupts_ns: Nanos,
    /// The longest measured scheduling latency of all switches in the same guests; absent if no
    /// switch was due.
    pub observed_ns: Option<Nanos>,
    /// Number of hard interrupts that the plugin saw.
    pub interrupts: u64,
    pub bounds: Vec<AssumedBound>,
}

/// The bound if one assumption about interrupts holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AssumedBound {
    pub interrupts: Interrupts,
    /// The bound; absent if it does not converge.
    pub bound_ns: Option<Nanos>,
    /// The bound divided by the longest measured latency.
    pub ratio: Option<f64>,
}

/// The distribution of latencies according to abeni2002's model, and according to the probes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SectionLatencyRow {
    /// Virtual length of the phase, summed over all guests.
    pub phase_ns: Nanos,
    /// How long an undisturbed sample takes: the median of the samples that wait for no section.
    pub way_ns: Nanos,
    pub shares: Vec<ShareAbove>,
    /// Both distributions, from the time of an undisturbed sample up to the longest latency, with
    /// enough points for a picture.
    #[serde(skip)]
    pub curve: Vec<ShareAbove>,
    /// The two distributions are compared only for latencies of at least this length.
    pub compared_from_ns: Nanos,
    pub distance: Distance,
}

/// The shares of latencies above a limit, according to the sections and to the probes. Latencies
/// include the time of an undisturbed sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShareAbove {
    pub above_ns: Nanos,
    pub by_sections: f64,
    pub by_probes: f64,
}

/// The intervals, interrupts and samples of all guests of one variant under one load.
#[derive(Debug, Clone, Default)]
pub(crate) struct GuestTotals {
    /// The interrupts of each guest.
    pub interrupts: Vec<Instances>,
    /// Lengths of the intervals in which no other task could run, in ns.
    pub blocked: Vec<u64>,
    pub phase_ns: u64,
    /// Latencies of the probes, in ns.
    pub samples: Vec<u64>,
}

/// Returns the bound, if the plugin reported the intervals from which it follows.
pub(crate) fn scheduling_bound(
    longest: &[LongestRow],
    gathered: &GuestTotals,
    instruction_ns: u64,
) -> Option<SchedulingBound> {
    let of = |stretch| {
        longest
            .iter()
            .find(|row| row.what == Longest::Stretch(stretch))
            .map(|row| row.length_ns.0.max(0).cast_unsigned())
    };
    let instructions = |stretch| of(stretch).map_or(0, |ns| ns / instruction_ns.max(1));
    of(Stretch::ToSchedule)?;
    let stretches = Stretches {
        before_scheduler: instructions(Stretch::BeforeScheduler),
        switch_due: instructions(Stretch::SwitchDue),
        to_schedule: instructions(Stretch::ToSchedule),
        switch_tail: instructions(Stretch::SwitchTail),
    };
    let observed = of(Stretch::SwitchDelay).filter(|ns| *ns > 0);
    let nanos =
        |count: u64| Nanos(i64::try_from(count.saturating_mul(instruction_ns)).unwrap_or(i64::MAX));
    let assumed = |interrupts| {
        let bound_ns = bound(stretches, &gathered.interrupts, interrupts).map(nanos);
        let ratio = bound_ns
            .zip(observed)
            .map(|(bound, observed)| bound.0 as f64 / observed as f64);
        AssumedBound {
            interrupts,
            bound_ns,
            ratio,
        }
    };
    Some(SchedulingBound {
        without_interrupts_ns: nanos(stretches.sum()),
        observed_ns: observed.map(|ns| Nanos(i64::try_from(ns).unwrap_or(i64::MAX))),
        interrupts: gathered.interrupts.iter().map(Instances::count).sum(),
        bounds: Interrupts::ALL.map(assumed).to_vec(),
    })
}

/// Returns the index of the median among those samples that wait for no section. The lowest of the
/// sorted samples are assumed to be those that wait for no section. `share` is the fraction of time
/// during which a section lasts. The minimum would be too small: if a sample is due during the
/// interrupt of another timer, its wake-up needs no further interrupt.
fn undisturbed_middle(samples: usize, share: f64) -> usize {
    (samples as f64 * (1.0 - share) / 2.0) as usize
}

/// Returns the distribution according to abeni2002's model, if there are samples for a comparison.
pub(crate) fn section_latency(gathered: &mut GuestTotals) -> Option<SectionLatencyRow> {
    let model = SectionLatency::new(std::mem::take(&mut gathered.blocked), gathered.phase_ns)?;
    let samples = &mut gathered.samples;
    samples.sort_unstable();
    let way = *samples.get(undisturbed_middle(samples.len(), model.share()))?;
    let from = way.saturating_add(COMPARED_FROM_NS);
    let distance = model.distance(samples, way, from)?;
    let nanos = |ns: u64| Nanos(i64::try_from(ns).unwrap_or(i64::MAX));
    let share = |above: u64| {
        let behind = samples.partition_point(|sample| *sample <= above);
        ShareAbove {
            above_ns: nanos(above),
            by_sections: if above < way {
                1.0
            } else {
                model.exceeds(above - way)
            },
            by_probes: (samples.len() - behind) as f64 / samples.len() as f64,
        }
    };
    let longest = samples
        .last()?
        .saturating_add(1)
        .max(way.saturating_add(model.longest()));
    let steps = ((longest as f64 / way.max(1) as f64).log10() * POINTS_A_DECADE)
        .ceil()
        .max(1.0);
    let latency = |step: u32| {
        (way as f64 * (longest as f64 / way.max(1) as f64).powf(f64::from(step) / steps)).round()
            as u64
    };
    Some(SectionLatencyRow {
        phase_ns: nanos(gathered.phase_ns),
        way_ns: nanos(way),
        shares: LIMITS_US.map(|micros| share(micros * 1_000)).to_vec(),
        curve: (0..=steps as u32)
            .map(|step| share(latency(step)))
            .collect(),
        compared_from_ns: nanos(from),
        distance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stretch: Stretch, ns: i64) -> LongestRow {
        let name = String::new;
        LongestRow {
            what: Longest::Stretch(stretch),
            length_ns: Nanos(ns),
            begin: name(),
            end: name(),
            task: name(),
            path: Vec::new(),
        }
    }

    #[test]
    fn the_bound_stands_beside_what_was_observed_under_each_assumption() {
        let longest = [
            row(Stretch::BeforeScheduler, 4000),
            row(Stretch::ToSchedule, 2000),
            row(Stretch::SwitchDelay, 3000),
        ];
        let mut interrupts = Instances::default();
        interrupts.add(1, 0, 500);
        let gathered = GuestTotals {
            interrupts: vec![interrupts],
            ..GuestTotals::default()
        };
        let bound = scheduling_bound(&longest, &gathered, 4).unwrap();
        assert_eq!(
            (
                bound.without_interrupts_ns,
                bound.observed_ns,
                bound.interrupts
            ),
            (Nanos(6000), Some(Nanos(3000)), 1)
        );
        let assumed: Vec<_> = bound
            .bounds
            .iter()
            .map(|assumed| (assumed.bound_ns, assumed.ratio))
            .collect();
        assert_eq!(assumed[0], (Some(Nanos(6000)), Some(2.0)));
        assert_eq!(assumed[1], (Some(Nanos(8000)), Some(8.0 / 3.0)));
        assert_eq!(
            scheduling_bound(&longest[..1], &gathered, 4),
            None,
            "the scheduler was not seen"
        );
    }

    #[test]
    fn the_distribution_begins_behind_the_way_of_what_waits_for_no_section() {
        let samples = vec![14_000, 14_000, 64_000, 14_000];
        let mut gathered = GuestTotals {
            blocked: vec![100_000, 200_000],
            phase_ns: 1_000_000,
            samples,
            ..GuestTotals::default()
        };
        let row = section_latency(&mut gathered).unwrap();
        assert_eq!(
            (row.way_ns, row.compared_from_ns, row.distance.samples),
            (Nanos(14_000), Nanos(24_000), 4)
        );
        let share = row
            .shares
            .iter()
            .find(|share| share.above_ns == Nanos(50_000))
            .unwrap();
        // The expected share is the part of both sections that lies beyond 36 us, which is the
        // limit of 50 us minus the 14 us of an undisturbed sample.
        assert!(
            (share.by_sections - 0.228).abs() < 1e-9 && (share.by_probes - 0.25).abs() < 1e-9,
            "{share:?}"
        );
        // The curve falls between the time of an undisturbed sample and this time plus the longest
        // section.
        let (first, last) = (row.curve.first().unwrap(), row.curve.last().unwrap());
        assert_eq!(
            (
                first.above_ns,
                last.above_ns,
                last.by_sections,
                last.by_probes
            ),
            (Nanos(14_000), Nanos(214_000), 0.0, 0.0)
        );
        assert!(
            (first.by_sections - 0.3).abs() < 1e-9
                && row
                    .curve
                    .is_sorted_by(|a, b| a.by_sections >= b.by_sections),
            "{:?}",
            row.curve
        );
        // If a single sample needs no further interrupt, this does not change the median, which is
        // the time of an undisturbed sample.
        let samples = vec![2_000, 14_000, 14_000, 14_000, 14_000, 64_000];
        let mut gathered = GuestTotals {
            blocked: vec![100_000, 200_000],
            phase_ns: 1_000_000,
            samples,
            ..GuestTotals::default()
        };
        assert_eq!(
            section_latency(&mut gathered).unwrap().way_ns,
            Nanos(14_000)
        );
        assert_eq!(section_latency(&mut GuestTotals::default()), None);
    }
}
