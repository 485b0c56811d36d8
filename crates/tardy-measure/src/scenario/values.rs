//! Parses and checks values of a scenario. The checks are here because only the parser can add a
//! value's line to an error.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tardy_loads::load::LoadRequest;

/// Maximum number of repeats.
const REPEATS_MAX: u32 = 10_000;
/// Maximum number of cycles of a phase: four months at 1 kHz.
const CYCLES_MAX: u64 = 10_000_000_000;

pub(super) mod duration {
    //! Durations as text with a unit.
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use tardy_core::units::Nanos;

    pub(in crate::scenario) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Nanos, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.parse::<Nanos>() {
            Ok(duration) if duration >= Nanos::ZERO => Ok(duration),
            Ok(_) => Err(D::Error::custom(format!(
                "`{text}` is negative: write a time such as 500ms"
            ))),
            Err(error) => Err(D::Error::custom(error)),
        }
    }

    pub(in crate::scenario) fn serialize<S: Serializer>(
        duration: &Nanos,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&duration.exact())
    }
}

pub(super) mod positive_duration {
    //! Durations above zero.
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};
    use tardy_core::units::Nanos;

    pub(in crate::scenario) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Nanos, D::Error> {
        let duration = super::duration::deserialize(deserializer)?;
        if duration > Nanos::ZERO {
            Ok(duration)
        } else {
            Err(D::Error::custom("a time above zero is needed, such as 4s"))
        }
    }

    pub(in crate::scenario) fn serialize<S: Serializer>(
        duration: &Nanos,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::duration::serialize(duration, serializer)
    }
}

pub(super) mod duration_if_given {
    //! Durations that may be absent.
    use serde::{Deserializer, Serializer};
    use tardy_core::units::Nanos;

    pub(in crate::scenario) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Nanos>, D::Error> {
        super::duration::deserialize(deserializer).map(Some)
    }

    pub(in crate::scenario) fn serialize<S: Serializer>(
        duration: &Option<Nanos>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::duration::serialize(&duration.unwrap_or_default(), serializer)
    }
}

pub(super) mod positive_duration_if_given {
    //! Durations above zero that may be absent.
    use serde::{Deserializer, Serializer};
    use tardy_core::units::Nanos;

    pub(in crate::scenario) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Nanos>, D::Error> {
        super::positive_duration::deserialize(deserializer).map(Some)
    }

    pub(in crate::scenario) fn serialize<S: Serializer>(
        duration: &Option<Nanos>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::duration::serialize(&duration.unwrap_or_default(), serializer)
    }
}

pub(super) fn repeats<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let repeats = u32::deserialize(deserializer)?;
    if (1..=REPEATS_MAX).contains(&repeats) {
        Ok(repeats)
    } else {
        Err(D::Error::custom(format!(
            "{repeats} repeats: write 1 to {REPEATS_MAX}"
        )))
    }
}

/// Parses a number of cycles as `--cycles` does.
pub(super) fn cycles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let cycles = u64::deserialize(deserializer)?;
    if (1..=CYCLES_MAX).contains(&cycles) {
        Ok(Some(cycles))
    } else {
        Err(D::Error::custom(format!(
            "{cycles} cycles: write 1 to {CYCLES_MAX}"
        )))
    }
}

pub(super) fn priority<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    let priority = u32::deserialize(deserializer)?;
    if (1..=99).contains(&priority) {
        Ok(Some(priority))
    } else {
        Err(D::Error::custom(format!(
            "priority {priority}: write 1 to 99"
        )))
    }
}

pub(super) mod probe {
    //! A probe, written as for `--probe`.
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use tardy_probes::probe::ProbeSpec;

    pub(in crate::scenario) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ProbeSpec, D::Error> {
        ProbeSpec::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }

    pub(in crate::scenario) fn serialize<S: Serializer>(
        spec: &ProbeSpec,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(spec)
    }
}

pub(super) fn loads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let loads = Vec::<String>::deserialize(deserializer)?;
    for load in &loads {
        LoadRequest::parse(load).map_err(D::Error::custom)?;
    }
    Ok(loads)
}
