//! Parses the values of cyclictest's options (numbers, times, clocks and CPU sets in cyclictest's
//! syntax), and makes probes that measure like cyclictest's threads.
//!
//! `tardy cyclictest` makes a normal run, but has another command line and another output. It
//! converts cyclictest's options to a request like that of `tardy run`, and makes the output from
//! the files in the run's folder. So the measurement is the same as that of `tardy run`, and
//! `--tardy-out` keeps the whole run. Threads with the same interval, priority and offset on
//! different CPUs become one probe. Other threads become separate probes, each limited to its CPUs
//! by `cpus=`.

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

/// The threads of cyclictest that become one probe: they have the same interval, priority and
/// offset, and each has its own CPU.
#[derive(Debug)]
pub struct Group {
    pub name: String,
    pub interval: Nanos,
    pub priority: u32,
    /// Offset of the due times from full seconds or from the first thread's due times, if
    /// cyclictest's options request one.
    pub offset: Option<Nanos>,
    pub cpus: CpuList,
}

impl Group {
    /// Returns the value of `--probe` for a probe of this kind that replaces these threads.
    #[must_use]
    pub fn probe(&self, kind: &str) -> String {
        let mut text = format!("{kind}:period={}:cpus={}", self.interval.exact(), self.cpus);
        if self.name != kind {
            text += &format!(":name={}", self.name);
        }
        if self.priority > 0 {
            text += &format!(":priority={}", self.priority);
        }
        if let Some(offset) = self.offset {
            text += &format!(":offset={}", offset.exact());
        }
        text
    }
}

/// Returns a parser for a whole number within limits. Blanks around the number are allowed.
pub fn number<T: TryFrom<i64> + Clone + Send + Sync + 'static>(
    least: i64,
    most: i64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text
            .trim()
            .parse::<i64>()
            .ok()
            .filter(|number| (least..=most).contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("`{}` is not a number from {least} to {most}", text.trim()))
    }
}

/// Parses a clock's number as cyclictest does.
///
/// # Errors
/// Returns an error message if the clock cannot be measured.
pub fn clock(text: &str) -> Result<u8, String> {
    match text.trim() {
        "0" => Ok(0),
        "1" => Ok(1),
        _ => Err("only clocks 0 (monotonic) and 1 (realtime) are measured".to_owned()),
    }
}

/// Parses a time as cyclictest does: seconds, or a number with s, m, h or d.
///
/// # Errors
/// Returns an error message if the text is not a time.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((end, letter)) if letter.is_ascii_alphabetic() => (&text[..end], letter),
        _ => (text, 's'),
    };
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => 0,
    };
    let count = number
        .parse::<i64>()
        .ok()
        .filter(|&count| count >= 0 && seconds > 0 && count <= 3650 * 86_400 / seconds);
    count
        .map(|count| Nanos::from_secs(count * seconds))
        .ok_or_else(|| format!("`{text}` is not a time: write seconds, or a number with m, h or d"))
}

/// Parses CPUs as libnuma does: a list, `all` for all CPUs in `usable`, or `!` and a list for all
/// CPUs in `usable` except those in the list.
///
/// # Errors
/// Returns an error message if the text is not a list.
pub fn cpus(text: &str, usable: &CpuList) -> Result<CpuList, String> {
    let (is_all_but, list) = text
        .trim()
        .strip_prefix('!')
        .map_or((false, text.trim()), |list| (true, list));
    let list = if list == "all" {
        Ok(usable.clone())
    } else {
        list.parse::<CpuList>()
    };
    let list = list.map_err(|error| format!("-a: {error}, or !0-3,6 for all CPUs except these"))?;
    Ok(if is_all_but {
        usable.minus(&list)
    } else {
        list
    })
}
