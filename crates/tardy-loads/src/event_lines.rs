//! Formats the events of loads, one line each. The lines show the work of loads as rates, and how
//! loads end.

use tardy_core::bytes::format_bytes;
use tardy_core::cpu::CpuId;
use tardy_core::units::Nanos;

use crate::guardian::{LoadEnd, LoadEvent};

/// Formats events as lines. The formatter must receive every event, because it computes a rate from
/// two successive reports.
#[derive(Debug, Default)]
pub struct EventLines {
    /// Number of CPUs of each load.
    cpus: Vec<(String, usize)>,
    /// When each load started.
    started: Vec<(String, Nanos)>,
    /// The work of each worker at the time of its last line; rates are computed from it.
    previous: Vec<PreviousLine>,
}

const RATE_INTERVAL_MIN: Nanos = Nanos::from_millis(200);

#[derive(Debug)]
struct PreviousLine {
    load: String,
    cpu: Option<CpuId>,
    operations: u64,
    bytes: u64,
    cpu_time: Nanos,
    kernel_time: Nanos,
    at: Nanos,
}

impl EventLines {
    /// Creates the formatter from the labels of the loads and the number of CPUs of each load.
    #[must_use]
    pub fn of(cpus: Vec<(String, usize)>) -> Self {
        Self {
            cpus,
            ..Self::default()
        }
    }

    /// Returns the line of an event; empty for internal events.
    #[must_use]
    pub fn line(&mut self, event: &LoadEvent) -> String {
        match event {
            LoadEvent::Started { load, at, .. } => {
                self.started.push((load.clone(), *at));
                String::new()
            }
            LoadEvent::Working { .. } | LoadEvent::Stopped { .. } => String::new(),
            LoadEvent::Work {
                load,
                cpu,
                operations,
                bytes,
                errors,
                cpu_time,
                kernel_time,
                at,
                ..
            } => {
                let on = cpu.map_or_else(|| "all".to_owned(), |cpu| format!("cpu{cpu}"));
                let index = self
                    .previous
                    .iter()
                    .position(|previous| previous.load == *load && previous.cpu == *cpu);
                let line = |operations, bytes, cpu_time, kernel_time, at| PreviousLine {
                    load: load.clone(),
                    cpu: *cpu,
                    operations,
                    bytes,
                    cpu_time,
                    kernel_time,
                    at,
                };
                let now = line(*operations, *bytes, *cpu_time, *kernel_time, *at);
                let index = index.unwrap_or_else(|| {
                    let at = self
                        .started
                        .iter()
                        .find(|(started, _)| started == load)
                        .map_or(*at, |(_, at)| *at);
                    self.previous.push(line(0, 0, Nanos::ZERO, Nanos::ZERO, at));
                    self.previous.len() - 1
                });
                // The last report may come directly after a regular one. A rate over so short a
                // time is meaningless.
                if now.at - self.previous[index].at < RATE_INTERVAL_MIN {
                    return String::new();
                }
                // A worker on several CPUs may use more than 100 % of one CPU, so its line also
                // states the number of these CPUs.
                let summed = self
                    .cpus
                    .iter()
                    .find(|(label, _)| cpu.is_none() && label == load)
                    .map(|(_, cpus)| *cpus);
                let text = rate_line(&self.previous[index], &now, (&on, summed), *errors);
                self.previous[index] = now;
                text
            }
            LoadEvent::Ended { load, how, .. } => match how {
                LoadEnd::Finished => format!("{load}: ended"),
                LoadEnd::Killed => format!("{load}: did not stop in time and was killed"),
                LoadEnd::Died { status } => format!("{load}: died ({status})"),
                LoadEnd::Absent => format!("{load}: absent"),
            },
            LoadEvent::Absent {
                load,
                missing,
                remedy,
                ..
            } => format!("{load}: cannot run here, because it needs {missing}; {remedy}"),
            LoadEvent::Problem { load, text } => {
                format!("{}: {text}", load.as_deref().unwrap_or("supervisor"))
            }
        }
    }
}

fn rate_line(
    before: &PreviousLine,
    now: &PreviousLine,
    (on, summed): (&str, Option<usize>),
    errors: u64,
) -> String {
    let of = summed.map_or_else(String::new, |cpus| {
        format!(" of {cpus} CPU{}", if cpus == 1 { "" } else { "s" })
    });
    let seconds = (now.at - before.at).as_secs_f64().max(1e-9);
    let operations = (now.operations - before.operations) as f64 / seconds;
    let bytes = format_bytes(((now.bytes - before.bytes) as f64 / seconds) as u64);
    let used = (now.cpu_time - before.cpu_time).as_secs_f64();
    let busy = 100.0 * used / seconds;
    let kernel = 100.0 * (now.kernel_time - before.kernel_time).as_secs_f64() / used.max(1e-9);
    format!(
        "{:<24} {on:<6} {operations:>12.0} op/s {bytes:>14}/s {busy:>6.1} % CPU{of}, \
         {kernel:>3.0} % of it in the kernel {errors:>6} errors",
        now.load
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_summed_over_cpus_says_over_how_many() {
        let at = |seconds| PreviousLine {
            load: "hackbench".to_owned(),
            cpu: None,
            operations: 0,
            bytes: 0,
            cpu_time: Nanos::from_millis(2_908 * seconds),
            kernel_time: Nanos::from_millis(727 * seconds),
            at: Nanos::from_secs(seconds),
        };
        let line = rate_line(&at(1), &at(2), ("all", Some(2)), 0);
        assert!(
            line.contains(" 290.8 % CPU of 2 CPUs,  25 % of it in the kernel "),
            "{line}"
        );
        assert!(
            !rate_line(&at(1), &at(2), ("cpu1", None), 0).contains("CPUs"),
            "{line}"
        );
    }
}
