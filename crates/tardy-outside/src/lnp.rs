//! The latency that non-preemptible sections cause, according to the model of abeni2002. In this
//! model, a task is due at a random moment. If this moment lies in a section, the task waits for
//! the rest of the section.

/// The distribution of latencies in a phase, which follows from the length of the phase and the
/// lengths of its sections. All times are in the same unit.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionLatency {
    /// The lengths of the sections, the longest first.
    lengths: Vec<u64>,
    /// Running sums of the lengths.
    sums: Vec<f64>,
    phase: f64,
}

impl SectionLatency {
    /// Makes the distribution; `None` if the phase has the length 0.
    #[must_use]
    pub fn new(mut lengths: Vec<u64>, phase: u64) -> Option<Self> {
        if phase == 0 {
            return None;
        }
        lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
        let mut sum = 0.0;
        let sums = lengths.iter().map(|length| {
            sum += *length as f64;
            sum
        });
        Some(Self {
            sums: sums.collect(),
            lengths,
            phase: phase as f64,
        })
    }

    /// Returns the length of the longest section; 0 if there is none.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.lengths.first().copied().unwrap_or(0)
    }

    /// Returns the share of the phase's time during which a section lasts.
    #[must_use]
    pub fn share(&self) -> f64 {
        (self.sums.last().copied().unwrap_or(0.0) / self.phase).min(1.0)
    }

    /// Returns the probability that the latency exceeds x: P(L > x) = sum((C - x)+) / T.
    #[must_use]
    pub fn exceeds(&self, x: u64) -> f64 {
        let longer = self.lengths.partition_point(|length| *length > x);
        let Some(sum) = longer.checked_sub(1).map(|last| self.sums[last]) else {
            return 0.0;
        };
        ((sum - longer as f64 * x as f64) / self.phase).min(1.0)
    }

    /// Compares the fraction of samples above x with the fraction that the model gives, and returns
    /// the largest difference for any x. Only considers x of at least `from`. Returns `None` if
    /// there are no samples. In the model, a sample takes the time `way` if it waits for no
    /// section; otherwise, it takes `way` plus the wait.
    ///
    /// `samples` must be sorted. Also returns the critical value at 5 %: 1.358 / sqrt(n), the
    /// asymptotic value of Kolmogorov's test. This value is conservative if only some values of x
    /// are considered.
    #[must_use]
    pub fn distance(&self, samples: &[u64], way: u64, from: u64) -> Option<Distance> {
        /// Critical value of Kolmogorov's limiting distribution at 5 %.
        const CRITICAL: f64 = 1.358;
        let (first, count) = (
            samples.partition_point(|sample| *sample < from),
            samples.len() as f64,
        );
        if samples.is_empty() {
            return None;
        }
        let model = |latency: u64| {
            if latency < way {
                1.0
            } else {
                self.exceeds(latency - way)
            }
        };
        let mut distance = ((samples.len() - first) as f64 / count - model(from)).abs();
        for (place, latency) in samples.iter().enumerate().skip(first) {
            let share = model(*latency);
            let (at_least, above) = (
                (samples.len() - place) as f64 / count,
                (samples.len() - place - 1) as f64 / count,
            );
            distance = distance
                .max((at_least - share).abs())
                .max((above - share).abs());
        }
        Some(Distance {
            samples: samples.len() as u64,
            distance,
            critical: CRITICAL / count.sqrt(),
        })
    }
}

/// How far the samples are from the model.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Distance {
    pub samples: u64,
    /// The largest difference between the share of samples above a latency and the share that the
    /// model gives for this latency.
    pub distance: f64,
    /// If the model is right, the distance is larger than this in one of twenty cases.
    pub critical: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_above_x_is_what_of_the_sections_is_longer_than_x() {
        let model = SectionLatency::new(vec![10, 30, 20], 1000).unwrap();
        for (x, share) in [
            (0, 0.06),
            (10, 0.03),
            (15, 0.02),
            (29, 0.001),
            (30, 0.0),
            (99, 0.0),
        ] {
            assert!(
                (model.exceeds(x) - share).abs() < 1e-12,
                "{x}: {}",
                model.exceeds(x)
            );
        }
        assert_eq!(SectionLatency::new(Vec::new(), 0), None);
        assert_eq!(
            SectionLatency::new(Vec::new(), 10)
                .unwrap()
                .exceeds(0)
                .to_bits(),
            0.0_f64.to_bits()
        );
    }

    #[test]
    fn samples_that_follow_the_sections_are_near_and_others_are_far() {
        // A section takes the first 400 of 1000 time units. A sample that is due at one of these
        // 400 moments waits for the rest of the section.
        let model = SectionLatency::new(vec![400], 1000).unwrap();
        let way = 7;
        let mut samples: Vec<u64> = (0..1000)
            .map(|moment| way + 400_u64.saturating_sub(moment))
            .collect();
        samples.sort_unstable();
        let near = model.distance(&samples, way, way + 1).unwrap();
        assert!(
            near.distance < 0.002 && near.distance < near.critical && near.samples == 1000,
            "{near:?}"
        );
        let mut late: Vec<u64> = samples.iter().map(|sample| sample + 150).collect();
        late.sort_unstable();
        let far = model.distance(&late, way, way + 1).unwrap();
        assert!(far.distance > far.critical, "{far:?}");
        assert_eq!(model.distance(&[], way, 0), None);
    }
}
