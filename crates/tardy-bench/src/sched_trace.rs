//! Counts switches between threads with sched:sched_switch, in a separate trace instance that does
//! not affect the user's tracing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

const TRACEFS: &str = "/sys/kernel/tracing";
/// Trace buffer in KiB per CPU. A switch takes about 70 bytes, and there are about 2000 per second.
const BUFFER_KIB: &str = "16384";

/// A running trace.
#[derive(Debug)]
pub(super) struct SchedTrace {
    instance: PathBuf,
    threads: Vec<u32>,
    is_mounted_here: bool,
}

impl SchedTrace {
    /// Starts to trace switches to and from these threads.
    pub(super) fn start(threads: &[u32]) -> Result<Self> {
        let is_mounted_here = mount()?;
        let instance =
            Path::new(TRACEFS).join(format!("instances/tardy-bench-{}", std::process::id()));
        let trace = Self {
            instance,
            threads: threads.to_vec(),
            is_mounted_here,
        };
        fs::create_dir(&trace.instance)
            .while_doing(|| format!("making {} (root may)", trace.instance.display()))?;
        let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
        trace.write("buffer_size_kb", BUFFER_KIB)?;
        trace.write("set_event_pid", &threads.join(" "))?;
        trace.write("events/sched/sched_switch/enable", "1")?;
        Ok(trace)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.instance.join(file);
        fs::write(&path, value).while_doing(|| format!("writing {value} to {}", path.display()))
    }

    /// Ends the trace. Returns how often each thread got each CPU.
    pub(super) fn finish(self) -> Result<BTreeMap<(u32, u32), u64>> {
        self.write("tracing_on", "0")?;
        let path = self.instance.join("trace");
        let text = workspace::read(&path)?;
        let lost = lost_events(&text);
        if lost > 0 {
            return Err(Failure::new(format!(
                "the trace lost {lost} events: its buffer was too small"
            )));
        }
        Ok(switches(&text, &self.threads))
    }
}

impl Drop for SchedTrace {
    fn drop(&mut self) {
        // A remaining instance only takes memory, and there is no way to report it here.
        let _ = fs::remove_dir(&self.instance);
        if self.is_mounted_here {
            let _ = Command::new("umount").arg(TRACEFS).status();
        }
    }
}

/// Mounts tracefs if necessary. Returns whether it was necessary.
fn mount() -> Result<bool> {
    if Path::new(TRACEFS).join("instances").is_dir() {
        return Ok(false);
    }
    program::capture(Command::new("mount").args(["-t", "tracefs", "tracefs", TRACEFS]))?;
    Ok(true)
}

/// Returns the number of lost events, from the head: `# entries-in-buffer/entries-written: 140/150
/// #P:2`.
fn lost_events(text: &str) -> u64 {
    let head = text
        .lines()
        .find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: "));
    let counts = head.and_then(|head| head.split_ascii_whitespace().next()?.split_once('/'));
    let counts = counts.and_then(|(kept, written)| {
        Some((kept.parse::<u64>().ok()?, written.parse::<u64>().ok()?))
    });
    counts.map_or(0, |(kept, written)| written.saturating_sub(kept))
}

/// Returns how often each thread left a CPU, which equals how often it got one. Leaving is counted
/// because the trace loses no switches from a thread to the idle thread. With a filter on threads,
/// and if nothing else runs, the trace loses nearly all switches in the other direction (Linux
/// 6.18).
fn switches(text: &str, threads: &[u32]) -> BTreeMap<(u32, u32), u64> {
    let mut switches = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        // The name of a thread may contain nearly any text. The needed fields follow in a fixed
        // order.
        let Some((head, event)) = line.split_once(": sched_switch: ") else {
            continue;
        };
        let cpu = head
            .rsplit_once('[')
            .and_then(|(_, rest)| rest.split(']').next()?.parse::<u32>().ok());
        let previous = event
            .split_once(" prev_prio=")
            .and_then(|(front, _)| front.rsplit_once("prev_pid=")?.1.parse::<u32>().ok());
        if let (Some(cpu), Some(previous)) = (cpu, previous)
            && threads.contains(&previous)
        {
            *switches.entry((cpu, previous)).or_default() += 1;
        }
    }
    switches
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# tracer: nop
# entries-in-buffer/entries-written: 140/150   #P:2
          <idle>-0       [001] d..2. 6831.454824: sched_switch: prev_comm=swapper/1 prev_pid=0 \
                        prev_prio=120 prev_state=R ==> next_comm=cyclic/1 next_pid=797 next_prio=4
        cyclic/1-797     [001] d..2. 6831.454830: sched_switch: prev_comm=cyclic/1 prev_pid=797 \
                        prev_prio=4 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
       a [9] b: -55      [000] d..2. 6831.454900: sched_switch: prev_comm=a [9] b:  prev_pid=55 \
                        prev_prio=120 prev_state=S ==> next_comm=tardy next_pid=795 next_prio=120
";

    #[test]
    fn threads_that_left_a_cpu_are_counted_by_it() {
        assert_eq!(
            switches(TEXT, &[55, 797]),
            BTreeMap::from([((1, 797), 1), ((0, 55), 1)])
        );
    }

    #[test]
    fn events_that_did_not_fit_are_noticed() {
        assert_eq!(lost_events(TEXT), 10);
        assert_eq!(lost_events("# nothing\n"), 0);
    }
}
