//! Maps the columns of `latency`'s data lines to their meaning, by the names in the line `RTH|`.
//! Xenomai, EVL and RTAI print different columns in different orders.

use super::Unit;
use super::text::nanos;

/// The meaning of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Min,
    Mean,
    Max,
    Overruns,
    /// Any other column.
    Other,
}

/// Names of columns, without the hyphens and spaces around them.
const NAMES: [(&str, Role); 13] = [
    ("lat min", Role::Min),
    ("lat avg", Role::Mean),
    ("lat max", Role::Max),
    ("overrun", Role::Overruns),
    ("msw", Role::Other),
    ("lat best", Role::Min),
    ("lat worst", Role::Max),
    // Names in RTAI's output.
    ("ovl min", Role::Min),
    ("ovl max", Role::Max),
    ("overruns", Role::Overruns),
    ("freq.cntr", Role::Other),
    ("jit fast", Role::Other),
    ("jit slow", Role::Other),
];

#[derive(Debug, Clone)]
pub(super) struct Columns {
    roles: Vec<Role>,
    /// Minimum number of fields in a line.
    least: usize,
}

impl Default for Columns {
    /// Returns the columns of Xenomai and EVL, for output without the line of names (-l 0). Old
    /// versions lack `msw`, which does not affect the four columns that are read.
    fn default() -> Self {
        Self {
            roles: vec![Role::Min, Role::Mean, Role::Max, Role::Overruns],
            least: 4,
        }
    }
}

/// The values of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Values {
    /// Smallest value, in ns.
    pub(super) min: i64,
    pub(super) mean: i64,
    pub(super) max: i64,
    /// Number of overruns since the start, if the tool counts them.
    pub(super) overruns: Option<u64>,
}

impl Columns {
    /// Parses the columns after `RTH|`; returns `None` if one is unknown, or a latency is missing.
    pub(super) fn of(header: &str) -> Option<Self> {
        let role = |name: &str| {
            let name = name.trim_matches(['-', ' ']);
            let known = NAMES.iter().find(|(known, _)| *known == name);
            known.map(|&(_, role)| role)
        };
        let roles: Vec<Role> = header
            .trim_end()
            .split('|')
            .map(role)
            .collect::<Option<_>>()?;
        let has = |role| roles.contains(&role);
        (has(Role::Min) && has(Role::Mean) && has(Role::Max)).then_some(Self {
            least: roles.len(),
            roles,
        })
    }

    pub(super) fn counts_overruns(&self) -> bool {
        self.roles.contains(&Role::Overruns)
    }

    /// Returns the values in the text after `RTD|`.
    pub(super) fn values(&self, line: &str, unit: Unit) -> Option<Values> {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        if fields.len() < self.least {
            return None;
        }
        let all = |wanted: Role| -> Option<Vec<i64>> {
            let of_role = self.roles.iter().zip(&fields);
            let wanted = of_role.filter(|(role, _)| **role == wanted);
            wanted.map(|(_, field)| nanos(field, unit)).collect()
        };
        let overruns = self.roles.iter().position(|role| *role == Role::Overruns);
        Some(Values {
            min: all(Role::Min)?.into_iter().min()?,
            mean: all(Role::Mean)?.into_iter().next()?,
            max: all(Role::Max)?.into_iter().max()?,
            overruns: match overruns {
                Some(at) => Some(fields[at].parse().ok()?),
                None => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_the_header_names_them() {
        let of = |header: &str, line: &str, unit| {
            let values = Columns::of(header)?.values(line, unit)?;
            Some((values.min, values.mean, values.max, values.overruns))
        };
        let xenomai = "----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst";
        assert_eq!(
            of(xenomai, "  1.2|  1.5|  9.8|  3|  0|  1.0|  11.5", Unit::Us),
            Some((1_000, 1_500, 11_500, Some(3)))
        );
        let rtai = "    lat min|    ovl min|    lat avg|    lat max|    ovl max|   overruns";
        assert_eq!(
            of(rtai, "-34|  -35|  -10|  24|  63|  2", Unit::Ns),
            Some((-35, -10, 63, Some(2)))
        );
        let preempt = "     lat min|     lat avg|     lat max|    jit fast|    jit slow";
        assert_eq!(
            of(preempt, "-34|  -9|  26|  207|  270", Unit::Ns),
            Some((-34, -9, 26, None))
        );
        // A truncated line, and headers without latencies.
        assert_eq!(of(rtai, "-34|  -35|  -10|  24|  6", Unit::Ns), None);
        assert!(Columns::of("---------cpu|ctx switches|-------total").is_none());
        assert!(Columns::of("lat min|lat avg|lat max|lost").is_none());
        let usual = Columns::default().values("1.2|1.5|9.8|3|0|1.2|9.8", Unit::Us);
        assert_eq!(usual.map(|values| values.max), Some(9_800));
    }
}
