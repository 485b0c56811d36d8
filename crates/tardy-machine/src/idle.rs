//! Idle time of the CPUs.

use tardy_core::units::Nanos;

use super::root::Root;

/// Returns the idle time of all CPUs since boot, in steps of 10 ms; `None` if the kernel does not
/// report it.
#[must_use]
pub fn idle_time(root: &Root) -> Option<Nanos> {
    parse(&root.text("proc/uptime")?)
}

/// Parses the second number of /proc/uptime, in seconds with two decimals (proc_uptime(5)).
fn parse(text: &str) -> Option<Nanos> {
    let (seconds, hundredths) = text.split_whitespace().nth(1)?.split_once('.')?;
    let hundredths: i64 = (hundredths.len() == 2).then(|| hundredths.parse().ok())??;
    Some(Nanos(
        seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)? + hundredths * 10_000_000,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_the_second_number() {
        assert_eq!(parse("12.34 5.06"), Some(Nanos(5_060_000_000)));
        for text in ["", "12.34", "12.34 5", "12.34 5.6", "12.34 x.00"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
