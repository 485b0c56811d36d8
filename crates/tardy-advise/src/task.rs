//! The user's description of the real-time work. A statement that the user did not make is absent;
//! this module assumes no values.

use serde::Serialize;
use tardy_core::units::Nanos;
use tardy_core::verdict::Window;

pub use tardy_run::work_kind::WorkKind;

/// The work and its requirements.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Task {
    /// Length of an undisturbed unit of work on the fast kernel.
    pub work_ns: Option<Nanos>,
    /// Time from the due time of a unit until it must be done.
    pub deadline_ns: Option<Nanos>,
    /// Time between the due times of two units.
    pub period_ns: Option<Nanos>,
    /// The kind of work.
    pub kind: Option<WorkKind>,
    /// Share of units that may be late. If absent or 0, all units must be on time.
    pub misses: Option<f64>,
    /// Intended utilisation of the CPUs by all programs together.
    pub utilisation: Option<f64>,
    /// Memory that all programs together use, in bytes.
    pub memory_bytes: Option<u64>,
    /// Whether only throughput matters.
    pub is_throughput_only: Option<bool>,
    /// Whether parallel threads wait for each other at barriers.
    pub has_barriers: Option<bool>,
    /// Whether the work runs on a virtual machine. This statement overrides the measured or current
    /// machine.
    pub is_virtual: Option<bool>,
}

/// Why the stated work cannot be done, so that no advice is given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The work would never be done.
    #[error(
        "--work {work} is longer than --period {period}: such work never catches up; give a \
         longer period, or split the work"
    )]
    LongerThanPeriod { work: String, period: String },
    /// The work would always be late.
    #[error(
        "--work {work} is longer than --deadline {deadline}: it would miss the deadline even if \
         it started at once; give a later deadline, or split the work"
    )]
    LongerThanDeadline { work: String, deadline: String },
}

impl Task {
    /// Refuses contradictory statements.
    ///
    /// # Errors
    /// Returns [`TaskError`].
    pub fn check(&self) -> Result<(), TaskError> {
        if let (Some(work), Some(period)) = (self.work_ns, self.period_ns)
            && work > period
        {
            return Err(TaskError::LongerThanPeriod {
                work: work.exact(),
                period: period.exact(),
            });
        }
        if let (Some(work), Some(deadline)) = (self.work_ns, self.deadline_ns)
            && work > deadline
        {
            return Err(TaskError::LongerThanDeadline {
                work: work.exact(),
                deadline: deadline.exact(),
            });
        }
        Ok(())
    }

    /// Returns the allowed share of misses in the form that verdicts expect, which is `None` for a
    /// share of 0.
    #[must_use]
    pub fn misses_allowed(&self) -> Option<f64> {
        self.misses.filter(|share| *share > 0.0)
    }

    /// Returns how long the work takes if it is slowed down by the fraction `slowdown`.
    #[must_use]
    pub fn stretched(&self, slowdown: f64) -> Option<Nanos> {
        self.work_ns
            .map(|work| Nanos((work.get() as f64 * (1.0 + slowdown)).ceil() as i64))
    }

    /// Returns the window of measured values that meet the deadline. `added` is the time that the
    /// work takes in addition to the measured part; it may be negative. `None` without a deadline.
    #[must_use]
    pub fn window(&self, added: Nanos) -> Option<Window> {
        self.deadline_ns
            .map(|deadline| Window::deadline(deadline - added))
    }

    /// Returns the share of one CPU that the work alone uses.
    #[must_use]
    pub fn own_utilisation(&self) -> Option<f64> {
        Some(self.work_ns?.get() as f64 / self.period_ns?.get() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(work_us: i64, deadline_us: i64, period_us: i64) -> Task {
        let us = |us| Some(Nanos::from_micros(us));
        Task {
            work_ns: us(work_us),
            deadline_ns: us(deadline_us),
            period_ns: us(period_us),
            ..Task::default()
        }
    }

    #[test]
    fn what_can_never_be_in_time_is_refused() {
        assert_eq!(task(100, 250, 1000).check(), Ok(()));
        assert!(matches!(
            task(300, 250, 1000).check(),
            Err(TaskError::LongerThanDeadline { .. })
        ));
        assert!(
            task(1100, 2000, 1000)
                .check()
                .unwrap_err()
                .to_string()
                .contains("--period 1ms")
        );
        assert_eq!(Task::default().check(), Ok(()));
    }

    #[test]
    fn slower_work_has_to_begin_sooner() {
        let task = task(100, 250, 1000);
        let latest = |slowdown| {
            task.window(task.stretched(slowdown).unwrap())
                .unwrap()
                .latest
        };
        assert_eq!(
            (latest(0.0), latest(0.168)),
            (Nanos::from_micros(150), Nanos(133_200))
        );
        assert_eq!(
            task.window(Nanos::ZERO).unwrap().latest,
            Nanos::from_micros(250)
        );
        assert_eq!(
            (
                Task::default().window(Nanos(5)),
                Task::default().stretched(1.0)
            ),
            (None, None)
        );
        assert_eq!(task.own_utilisation(), Some(0.1));
    }

    #[test]
    fn a_share_of_none_allows_none() {
        assert_eq!(
            Task {
                misses: Some(0.0),
                ..Task::default()
            }
            .misses_allowed(),
            None
        );
        assert_eq!(
            Task {
                misses: Some(1e-6),
                ..Task::default()
            }
            .misses_allowed(),
            Some(1e-6)
        );
    }
}
