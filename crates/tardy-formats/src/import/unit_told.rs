//! Finds the unit of cyclictest's values if its output does not state it. The unit is us, or ns
//! with -N. If the two are confused, a machine seems 1000 times worse or better than it is, so only
//! conclusive evidence counts.
//!
//! Typical values below 1000 are in us, because no wake-up takes less than 1 us. Typical values
//! above the interval are in ns, because if they were in us, most wake-ups would come after the
//! next due time. Between these limits both units are possible, and the tool asks for the unit.

use super::{ImportError, Settings, Source, Unit};

/// Values below this one are in us. In ns, they would be below 1 us, and no wake-up is that fast.
/// In us, they are below 1 ms, like nearly all wake-ups.
const DIVIDE: i64 = 1_000;

/// The typical value of a thread in the file's unit, and its interval in us.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypicalValue {
    pub(super) value: i64,
    pub(super) interval_us: Option<i64>,
}

/// The unit, and a note about how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitChoice {
    pub(super) unit: Unit,
    pub(super) note: Option<String>,
}

/// Returns the unit that the user gave, or the unit that follows from the values.
///
/// # Errors
/// Returns [`ImportError::Ask`] if both units are possible.
pub(super) fn unit(
    source: &Source,
    settings: &Settings,
    typical: &[TypicalValue],
) -> Result<UnitChoice, ImportError> {
    if let Some(unit) = settings.unit {
        return Ok(UnitChoice { unit, note: None });
    }
    told(typical).ok_or_else(|| {
        source.ask(
            "this output",
            "the unit of its values, which could be us or ns (cyclictest -N)",
            "--unit us or --unit ns",
        )
    })
}

fn told(typical: &[TypicalValue]) -> Option<UnitChoice> {
    let Some(least) = typical.iter().min_by_key(|typical| typical.value) else {
        return Some(UnitChoice {
            unit: Unit::Us,
            note: Some(
                "the file does not state the unit: tardy assumes microseconds (us)".to_owned(),
            ),
        });
    };
    if least.value < DIVIDE {
        let note = "the file does not state the unit: tardy assumes microseconds (us), because no \
                    wake-up takes so few ns";
        return Some(UnitChoice {
            unit: Unit::Us,
            note: Some(note.to_owned()),
        });
    }
    // If these values were in us, most wake-ups would come after the next due time.
    let is_beyond = |typical: &TypicalValue| {
        typical
            .interval_us
            .is_some_and(|interval| typical.value > interval)
    };
    typical.iter().all(is_beyond).then(|| UnitChoice {
        unit: Unit::Ns,
        note: Some(format!(
            "the file does not state the unit: tardy assumes nanoseconds (ns, cyclictest -N), \
             because a usual latency of {} us would be longer than the interval; if the values are \
             in us, give --unit us",
            least.value
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_told_where_only_one_is_possible() {
        let of = |values: &[(i64, i64)]| {
            let typical: Vec<TypicalValue> = values
                .iter()
                .map(|&(value, us)| TypicalValue {
                    value,
                    interval_us: (us > 0).then_some(us),
                })
                .collect();
            told(&typical).map(|told| told.unit)
        };
        assert_eq!(of(&[(23, 1_000), (31, 1_500)]), Some(Unit::Us));
        assert_eq!(of(&[(22_926, 1_000), (31_000, 1_500)]), Some(Unit::Ns));
        // The unit is ambiguous: the machine may be a slow emulator, or a fast machine with a long
        // interval.
        assert_eq!((of(&[(4_000, 10_000)]), of(&[(4_000, 0)])), (None, None));
        // The typical value of the second thread exceeds its interval, because this thread is
        // usually late. The first thread still reveals the unit.
        assert_eq!(
            (of(&[(900, 500), (5_000, 500)]), of(&[])),
            (Some(Unit::Us), Some(Unit::Us))
        );
    }
}
