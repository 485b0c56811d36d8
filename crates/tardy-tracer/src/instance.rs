//! A tracefs instance for one run: its buffers, its clock, its events and its CPUs. This module
//! writes only inside the instance's folder.
//!
//! If tracefs is not mounted, the tool mounts it without a mount point. The tool accesses this
//! mount through a descriptor. No other process sees the mount, and it disappears when the process
//! ends.
//!
//! When a buffer is full, new events overwrite old ones. Only in this mode does the kernel mark the
//! page before which events were lost, and count the lost events. In the other mode, it is unknown
//! where events were lost (kernel/trace/ring_buffer.c).
//!
//! Stacks are recorded only on request, by triggers of two events. Triggers need no tracer, and
//! their filters can leave out the idle thread. But recording a stack takes longer than everything
//! else that is recorded. `tardy compare` therefore refuses such a run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tardy_core::cpu::CpuList;
use tardy_machine::root::Root;
use tardy_machine::tracefs::{self, Tracefs};
use tardy_trace::event::MARKS;
use tardy_trace::file::TraceHead;
use tardy_trace::format::{EventFormat, FormatError};
use tardy_trace::layout::{LayoutError, PageLayout};

use crate::attach::function::Function;
use crate::events::{INTERRUPT_SYSTEMS, OF_LOOPS, OF_PROBES, WANTED, WantedEvent};
use crate::second_opinion::TIMERLAT;

/// Events that the kernel writes when the timer of a probe interrupts a CPU; only the first one
/// that exists is used. On x86, the timer has its own interrupt event. On other architectures, the
/// event of all device interrupts is needed, which include the timer's.
const TIMER_INTERRUPTS: [&str; 2] = ["irq_vectors/local_timer_entry", "irq/irq_handler_entry"];
/// Functions of the scheduler's own timers. The first two are names of the function for the tick
/// (kernel/time/tick-sched.c): one up to Linux 6.8, the other since then. The third one ends a
/// thread's time slice (kernel/sched/core.c). Debian's kernels 7.2 and 7.3 use the third one: in
/// the golden trace of 7.3-rt, 228 of 311 timers that are set call it.
const SCHEDULER_TIMERS: [&str; 3] = ["tick_sched_timer", "tick_nohz_handler", "hrtick"];
/// Maximum number of threads that a filter names. For more threads, the filter of stacks selects by
/// priority, and other filters select only the first threads.
const FILTER_PIDS_MAX: usize = 64;

/// Size in bytes of the buffer with which a file of tracefs is first read. The formats of most
/// events take 1 KiB.
const FILE_BYTES_USUAL: usize = 64 << 10;
/// Size in bytes of the largest buffer with which a file of tracefs is read. Larger files cause an
/// error.
const FILE_BYTES_MAX: usize = 16 << 20;
/// Size of the buffer per CPU, in KiB. It is enough for one second with 200,000 events of 40 bytes.
pub(crate) const BUFFER_KIB: u32 = 8192;
/// The clock of the trace, on which samples are measured, too.
pub(crate) const CLOCK: &str = "mono";

/// Why an instance cannot be used for recording.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The instance could not be made, or one of its files could not be written.
    #[error("{path}: {error}")]
    System {
        /// The file, as a path relative to tracefs.
        path: String,
        /// The error that the kernel returned.
        error: io::Error,
    },
    /// The kernel lacks an event that explanations require.
    #[error("the kernel has no event {0}")]
    Absent(String),
    /// The kernel's event formats cannot be parsed.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The kernel's page layout cannot be parsed.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// A tracefs instance; dropping the value removes it.
#[derive(Debug)]
pub struct Instance {
    tracefs: Tracefs,
    name: String,
    path: PathBuf,
    /// Names of the recorded events.
    pub enabled: Vec<String>,
    /// Events that this kernel does not have.
    pub absent: Vec<String>,
    /// Formats of the recorded events and of marks.
    pub formats: Vec<EventFormat>,
    /// Layout of the instance's pages.
    pub layout: PageLayout,
    /// The head of a file with the instance's pages.
    pub head: TraceHead,
    /// Events that are recorded only for measuring threads.
    of_threads: Vec<WantedEvent>,
}

/// An event to record, given by its folder below `events`.
struct RecordedEvent {
    system: String,
    event: String,
    /// Whether the instance is useless if the event is missing.
    is_needed: bool,
    /// The filter that selects which events of this kind are recorded. If there is no filter, or if
    /// it names a field that the event lacks, all events of this kind are recorded.
    filter: Option<String>,
}

impl Instance {
    /// Creates the instance and starts to record events of `cpus`; if `has_loops` is true, also
    /// records the events by which program loops are judged.
    ///
    /// # Errors
    /// Returns [`InstanceError`], after the instance was removed.
    pub fn create(
        tracefs: Tracefs,
        name: &str,
        cpus: &CpuList,
        has_loops: bool,
        root: &Root,
    ) -> Result<Self, InstanceError> {
        let of_loops = if has_loops { OF_LOOPS } else { &[] };
        let of_threads = OF_PROBES.iter().chain(of_loops).copied().collect();
        let mut instance = Self::empty(tracefs, name, of_threads)?;
        let mut wanted = instance.wanted();
        if has_loops {
            wanted.extend(instance.violations());
        }
        instance.set_up(cpus, wanted, root)?;
        instance.start()?;
        Ok(instance)
    }

    /// Makes an instance for these events of `cpus`; each event has its filter. The instance
    /// records nothing until [`Self::start`].
    ///
    /// # Errors
    /// Returns [`InstanceError`], after the instance was removed.
    pub fn create_of(
        tracefs: Tracefs,
        name: &str,
        cpus: &CpuList,
        events: &[(WantedEvent, Option<String>)],
        root: &Root,
    ) -> Result<Self, InstanceError> {
        let mut instance = Self::empty(tracefs, name, Vec::new())?;
        let recorded = |(wanted, filter): &(WantedEvent, Option<String>)| RecordedEvent {
            system: wanted.system.to_owned(),
            event: wanted.event.to_owned(),
            is_needed: wanted.is_needed,
            filter: filter.clone(),
        };
        instance.set_up(cpus, events.iter().map(recorded).collect(), root)?;
        Ok(instance)
    }

    fn empty(
        tracefs: Tracefs,
        name: &str,
        of_threads: Vec<WantedEvent>,
    ) -> Result<Self, InstanceError> {
        let path = tracefs.instance(name);
        fs::create_dir(&path).map_err(|error| system(&format!("instances/{name}"), error))?;
        let head = TraceHead::default();
        let layout = PageLayout {
            long_bytes: 8,
            data_offset: 16,
            page_bytes: 4096,
        };
        let (enabled, absent, formats) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self {
            tracefs,
            name: name.to_owned(),
            path,
            enabled,
            absent,
            formats,
            layout,
            head,
            of_threads,
        })
    }

    fn set_up(
        &mut self,
        cpus: &CpuList,
        events: Vec<RecordedEvent>,
        root: &Root,
    ) -> Result<(), InstanceError> {
        self.write("tracing_on", "0")?;
        // The clock is set first, because setting it empties the buffer.
        self.write("trace_clock", CLOCK)?;
        self.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        // The kernel marks lost events only if new events overwrite old ones.
        self.write("options/overwrite", "1")?;
        // The reader polls, because waking it would disturb the measurement.
        let _ = self.write("buffer_percent", "100");
        self.write("tracing_cpumask", &cpus.to_mask())?;
        self.read_head(root)?;
        self.enable(events)
    }

    /// Starts to record.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses this.
    pub fn start(&self) -> Result<(), InstanceError> {
        self.write("tracing_on", "1")
    }

    fn enable(&mut self, events: Vec<RecordedEvent>) -> Result<(), InstanceError> {
        let mut by_system: Vec<(String, Vec<String>)> = Vec::new();
        for RecordedEvent {
            system: system_name,
            event,
            is_needed,
            filter,
        } in events
        {
            let name = format!("{system_name}:{event}");
            let folder = format!("events/{system_name}/{event}");
            if let Some(filter) = filter {
                let _ = self.write(&format!("{folder}/filter"), &filter);
            }
            match self.write(&format!("{folder}/enable"), "1") {
                Ok(()) => {
                    let text = self.read(&format!("{folder}/format"))?;
                    self.formats.push(EventFormat::parse(&system_name, &text)?);
                    match by_system
                        .last_mut()
                        .filter(|(last, _)| *last == system_name)
                    {
                        Some((_, formats)) => formats.push(text),
                        None => by_system.push((system_name, vec![text])),
                    }
                    self.enabled.push(name);
                }
                Err(_) if is_needed => return Err(InstanceError::Absent(name)),
                Err(_) => self.absent.push(name),
            }
        }
        self.head.event_formats.append(&mut by_system);
        Ok(())
    }

    /// Creates the events [`MARKS`] for two functions of a program, and records them for threads
    /// that pass the filter `of_threads`.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot make such events, or refuses one of them.
    pub fn record_marks(
        &mut self,
        functions: &[Function; 2],
        of_threads: &str,
    ) -> Result<(), InstanceError> {
        let group = tracefs::uprobe_group(&self.name);
        let mut events = Vec::new();
        for (function, event) in functions.iter().zip(MARKS) {
            self.tracefs
                .add_uprobe(&function.definition(&group, event))
                .map_err(|error| system("uprobe_events", error))?;
            events.push(RecordedEvent {
                system: group.clone(),
                event: event.to_owned(),
                is_needed: true,
                filter: Some(of_threads.to_owned()),
            });
        }
        self.enable(events)
    }

    /// From now on, records [`MARKS`] only for threads that pass the filter `of_threads`.
    pub fn filter_marks(&self, of_threads: &str) {
        let group = tracefs::uprobe_group(&self.name);
        for event in MARKS {
            let _ = self.write(&format!("events/{group}/{event}/filter"), of_threads);
        }
    }

    /// Returns the events that explanations need.
    fn wanted(&self) -> Vec<RecordedEvent> {
        let recorded = |system: &str, event: &str, is_needed, filter| {
            let (system, event) = (system.to_owned(), event.to_owned());
            RecordedEvent {
                system,
                event,
                is_needed,
                filter,
            }
        };
        let of_all = WANTED
            .iter()
            .map(|wanted| recorded(wanted.system, wanted.event, wanted.is_needed, None));
        // At first, the filter selects no thread. It is replaced when the threads have written
        // their probe indices.
        let of_nobody = || Some("common_pid < 0".to_owned());
        let of_threads = self
            .of_threads
            .iter()
            .map(|wanted| recorded(wanted.system, wanted.event, wanted.is_needed, of_nobody()));
        let mut wanted: Vec<_> = of_all.chain(of_threads).collect();
        for system in INTERRUPT_SYSTEMS {
            let events = fs::read_dir(self.path.join("events").join(system))
                .into_iter()
                .flatten()
                .filter_map(Result::ok);
            let names = events.filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<_> = names
                .filter(|name| name.ends_with("_entry") || name.ends_with("_exit"))
                .collect();
            names.sort();
            wanted.extend(
                names
                    .iter()
                    .map(|event| recorded(system, event, false, None)),
            );
        }
        wanted
    }

    /// Returns the events by which the enabled monitors of runtime verification report violations.
    fn violations(&self) -> Vec<RecordedEvent> {
        let enabled = fs::read_to_string(self.tracefs.path().join("rv/enabled_monitors"));
        violations_of(&enabled.unwrap_or_default())
            .filter(|event| self.path.join("events/rv").join(event).exists())
            .map(|event| RecordedEvent {
                system: "rv".to_owned(),
                event,
                is_needed: false,
                filter: None,
            })
            .collect()
    }

    /// Reads what is the same for all instances: the page layout, and the formats of records that
    /// belong to no event system.
    fn read_head(&mut self, root: &Root) -> Result<(), InstanceError> {
        let top = self.tracefs.path().to_owned();
        let read = |name: &str| read_at_once(&top.join(name)).map_err(|error| system(name, error));
        let header_page = read("events/header_page")?;
        let page_bytes = self
            .read("buffer_subbuf_size_kb")
            .ok()
            .and_then(|text| text.trim().parse::<usize>().ok());
        self.layout = PageLayout::parse(&header_page)?;
        if let Some(kib) = page_bytes {
            self.layout = self.layout.with_page_bytes(kib << 10);
        }
        let print = read("events/ftrace/print/format")?;
        self.formats.push(EventFormat::parse("ftrace", &print)?);
        self.head = TraceHead {
            header_page,
            header_event: read("events/header_event")?,
            tracer_formats: vec![print],
            clock: self.read("trace_clock")?,
            kernel: kernel(root),
            page_bytes: u32::try_from(self.layout.page_bytes).unwrap_or(4096),
            ..TraceHead::default()
        };
        Ok(())
    }

    /// Returns the folder that contains the instance's files.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the kernel record its stack whenever a timer interrupts a thread other than the idle
    /// thread. On architectures other than x86, every device interrupt has this effect.
    ///
    /// # Errors
    /// Returns an error if the events cannot have such triggers.
    pub fn record_stacks(&mut self) -> Result<(), InstanceError> {
        self.learn_stacks()?;
        let events = self.path.join("events");
        let there = TIMER_INTERRUPTS
            .into_iter()
            .find(|event| events.join(event).exists())
            .unwrap_or(TIMER_INTERRUPTS[0]);
        self.write(
            &format!("events/{there}/trigger"),
            "stacktrace if common_pid != 0",
        )
    }

    /// Reads the format of stacks, without which a decoder cannot read them.
    ///
    /// # Errors
    /// Returns an error if the kernel has no such format.
    pub fn learn_stacks(&mut self) -> Result<(), InstanceError> {
        const FORMAT: &str = "events/ftrace/kernel_stack/format";
        let text = read_at_once(&self.tracefs.path().join(FORMAT))
            .map_err(|error| system(FORMAT, error))?;
        self.formats.push(EventFormat::parse("ftrace", &text)?);
        self.head.tracer_formats.push(text);
        Ok(())
    }

    /// Makes the kernel record its stack whenever a thread that passes the filter `of_threads` goes
    /// to sleep. Replaces the previous filter.
    ///
    /// # Errors
    /// Returns an error if the event cannot have such a trigger.
    pub fn record_stacks_of_sleeps(&self, of_threads: &str) -> Result<(), InstanceError> {
        const TRIGGER: &str = "events/sched/sched_switch/trigger";
        // An event can have only one trigger of a kind, so the previous one is removed first. The
        // first time there is none, so removing it fails, and this error is ignored.
        let _ = self.write(TRIGGER, "!stacktrace");
        // If a thread was preempted, the kernel adds TASK_REPORT_MAX to its state.
        let sleeps = "prev_state != 0 && prev_state < 256";
        self.write(TRIGGER, &format!("stacktrace if {sleeps} && {of_threads}"))
    }

    /// Runs the timerlat tracer in this instance, which records the tracer's output.
    ///
    /// # Errors
    /// Returns an error if the kernel has no timerlat tracer.
    pub fn run_timerlat(&mut self) -> Result<(), InstanceError> {
        let path = format!("events/ftrace/{TIMERLAT}/format");
        let text =
            read_at_once(&self.tracefs.path().join(&path)).map_err(|error| system(&path, error))?;
        self.write("current_tracer", TIMERLAT)?;
        self.formats.push(EventFormat::parse("ftrace", &text)?);
        self.head.tracer_formats.push(text);
        Ok(())
    }

    /// Makes the kernel record its stack whenever it switches from a thread to one of `pids`.
    /// Replaces the previous filter.
    ///
    /// # Errors
    /// Returns an error if the event cannot have such a trigger.
    pub fn record_stacks_of_switches_to(&self, pids: &[i32]) -> Result<(), InstanceError> {
        const TRIGGER: &str = "events/sched/sched_switch/trigger";
        // An event can have only one trigger of a kind, so the previous one is removed first. The
        // first time there is none, so removing it fails, and this error is ignored.
        let _ = self.write(TRIGGER, "!stacktrace");
        let named: Vec<String> = pids
            .iter()
            .map(|pid| format!("next_pid == {pid}"))
            .collect();
        let next = if pids.len() > FILTER_PIDS_MAX {
            "next_prio < 100".to_owned()
        } else {
            named.join(" || ")
        };
        self.write(TRIGGER, &format!("stacktrace if prev_pid != 0 && ({next})"))
    }

    /// From now on, does not record that the scheduler's own timers are set. They are set whenever
    /// a CPU enters or leaves idle, and at switches, and no thread sleeps on them. `symbols` is
    /// /proc/kallsyms. If `symbols` contains no addresses, or if the event cannot have such a
    /// filter, these timers are recorded as well.
    pub fn leave_out_scheduler_timers(&self, symbols: &str) {
        if let Some(filter) = without_scheduler_timers(symbols) {
            let _ = self.write("events/timer/hrtimer_start/filter", &filter);
        }
    }

    /// From now on, records the per-thread events only for these threads, and for at most
    /// `FILTER_PIDS_MAX` of them.
    pub fn record_events_of(&self, pids: &[i32]) {
        let named: Vec<String> = pids
            .iter()
            .take(FILTER_PIDS_MAX)
            .map(|pid| format!("common_pid == {pid}"))
            .collect();
        for WantedEvent { system, event, .. } in &self.of_threads {
            // Errors are ignored, because it is already known which events this kernel lacks.
            let _ = self.write(
                &format!("events/{system}/{event}/filter"),
                &named.join(" || "),
            );
        }
    }

    /// From now on, records events of this kind only if they match `filter`.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the filter.
    pub fn filter(
        &self,
        WantedEvent { system, event, .. }: WantedEvent,
        filter: &str,
    ) -> Result<(), InstanceError> {
        self.write(&format!("events/{system}/{event}/filter"), filter)
    }

    /// Sets the size of each CPU's buffer.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses this.
    pub(crate) fn resize(&self, kib: u32) -> Result<(), InstanceError> {
        self.write("buffer_size_kb", &kib.to_string())
    }

    /// Stops recording.
    pub fn stop(&self) {
        let _ = self.write("tracing_on", "0");
    }

    fn read(&self, name: &str) -> Result<String, InstanceError> {
        read_at_once(&self.path.join(name)).map_err(|error| system(name, error))
    }

    fn write(&self, name: &str, value: &str) -> Result<(), InstanceError> {
        let open = OpenOptions::new().write(true).open(self.path.join(name));
        open.and_then(|mut file| file.write_all(value.as_bytes()))
            .map_err(|error| system(name, error))
    }
}

/// Returns the names of the events by which these monitors may report violations. `enabled` has a
/// line for each monitor; a monitor of a collection has the name COLLECTION:MONITOR. A monitor of a
/// time limit has a second event, for an exceeded limit (include/rv/ha_monitor.h).
fn violations_of(enabled: &str) -> impl Iterator<Item = String> {
    let names = enabled
        .lines()
        .filter_map(|line| line.trim().rsplit(':').next());
    names.flat_map(|name| [format!("error_{name}"), format!("error_env_{name}")])
}

/// Returns a filter for `hrtimer_start` that leaves out [`SCHEDULER_TIMERS`]; `None` if `symbols`
/// does not contain their addresses.
fn without_scheduler_timers(symbols: &str) -> Option<String> {
    // The text has 200,000 lines. So the ends of lines are compared first, which is cheap and
    // excludes most lines.
    let is_like = |line: &&str| SCHEDULER_TIMERS.iter().any(|name| line.ends_with(name));
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_its = SCHEDULER_TIMERS.contains(&words.nth(1)?);
        (is_its && address != 0).then(|| format!("function != {address:#x}"))
    };
    let filters: Vec<String> = symbols
        .lines()
        .filter(is_like)
        .filter_map(address)
        .collect();
    (!filters.is_empty()).then(|| filters.join(" && "))
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.stop();
        let _ = self.write("current_tracer", "nop");
        // If another process is reading the instance, it cannot be removed now; `tardy restore` or
        // the next run removes it.
        let _ = self.tracefs.remove_instance(&self.name);
    }
}

/// Reads a whole file. Some files of tracefs answer only the first read
/// (kernel/trace/trace_events.c, `show_header`). So if a file fills the buffer, it is read again
/// from its start into a larger buffer.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut bytes = vec![0; FILE_BYTES_USUAL];
    loop {
        let (mut file, mut length) = (File::open(path)?, 0);
        while length < bytes.len() {
            match file.read(&mut bytes[length..])? {
                0 => {
                    bytes.truncate(length);
                    return String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into());
                }
                read => length += read,
            }
        }
        if bytes.len() >= FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        bytes.resize(2 * bytes.len(), 0);
    }
}

fn system(path: &str, error: io::Error) -> InstanceError {
    InstanceError::System {
        path: path.to_owned(),
        error,
    }
}

/// Returns the kernel in the form of `uname -a`, with `?` for unknown parts.
fn kernel(root: &Root) -> String {
    let text = |name| {
        root.text(format!("proc/sys/kernel/{name}"))
            .unwrap_or_else(|| "?".to_owned())
    };
    format!(
        "Linux {} {} {} {}",
        text("hostname"),
        text("osrelease"),
        text("version"),
        std::env::consts::ARCH
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_s_own_timers_are_left_out_where_their_addresses_are_known() {
        let symbols = "ffffffff813ba580 t hrtick\nffffffff813ba5f0 t hrtick_clear\n\
                       ffffffff8148bbe0 t hrtimer_wakeup\nffffffff814a4bf0 t tick_nohz_handler\n";
        assert_eq!(
            without_scheduler_timers(symbols).as_deref(),
            Some("function != 0xffffffff813ba580 && function != 0xffffffff814a4bf0")
        );
        let hidden = "0000000000000000 t hrtick\n0000000000000000 t tick_nohz_handler\n";
        assert_eq!(without_scheduler_timers(hidden), None);
    }

    #[test]
    fn enabled_monitors_have_events_for_violations() {
        let events: Vec<String> = violations_of("rtapp\nrtapp:sleep\nstall\n").collect();
        let of = |name: &str| [format!("error_{name}"), format!("error_env_{name}")];
        assert_eq!(events, [of("rtapp"), of("sleep"), of("stall")].concat());
    }

    #[test]
    fn a_file_is_read_whole_or_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("format");
        for length in [
            0,
            FILE_BYTES_USUAL - 1,
            FILE_BYTES_USUAL,
            FILE_BYTES_USUAL + 1,
            FILE_BYTES_MAX - 1,
        ] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            fs::write(&path, &text).unwrap();
            assert!(read_at_once(&path).unwrap() == text, "{length}");
        }
        fs::write(&path, vec![b'a'; FILE_BYTES_MAX]).unwrap();
        let refused = read_at_once(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }
}
