//! Records the kernel's trace of the followed threads, in two instances. The first instance has the
//! few events of the threads' wake-ups. The second instance has the events that are only needed for
//! explanations: switches between other threads, stacks of sleeps, page faults, and waits for kernel
//! locks. If these are too many
//! for tardy to read in time, the kernel overwrites only such events, but no wake-ups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use tardy_core::cpu::CpuList;
use tardy_machine::journal::{self, Journal};
use tardy_machine::root::Root;
use tardy_machine::tracefs::{self, Tracefs};
use tardy_machine::undo::Undo;
use tardy_samples::loop_rules::RecordedKinds;
use tardy_trace::event::Decoder;
use tardy_trace::file::TraceHead;
use tardy_trace::live::{Counts, Live};
use tardy_trace::merge::Item;
use tardy_trace::timers::TimerKind;

use super::error::NotAttached;
use super::filters::{filters, of_other_switches, of_rules, of_threads};
use super::function::Function;
use crate::events::WantedEvent;
use crate::events::of_timers::{EXPIRE_EXIT, INTERRUPTS};
use crate::evidence::Evidence;
use crate::instance::{BUFFER_KIB, Instance, InstanceError};
use crate::pages::PageReader;
use crate::tracer::NotTraced;

/// Name that the second instance has in a trace.dat.
const EXPLANATIONS: &str = "explanations";
/// Size of the second instance's buffer per CPU, in KiB.
const EXPLANATIONS_KIB: u32 = BUFFER_KIB / 2;

/// The instances, and the readers of their pages.
#[derive(Debug)]
pub(super) struct Traces {
    wake_ups: Trace,
    /// The second instance; absent if the kernel refused it.
    explanations: Option<Trace>,
    /// Why the places where threads sleep are unknown; absent if they are known.
    pub(super) no_stacks: Option<String>,
    is_between_functions: bool,
    // The journal must be dropped after the instances.
    _journal: Journal,
}

/// An instance.
#[derive(Debug)]
struct Trace {
    live: Live,
    state: State,
    reader: PageReader,
    instance: Instance,
}

/// An item from the two instances, in the order of time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Recorded {
    /// An event, or a loss of events from which wake-ups are measured.
    Item(Item),
    /// Explanations were lost.
    ExplanationsLost,
}

impl Traces {
    /// Starts to record these threads. This comes after all other changes to the kernel, because
    /// enabling events delays threads.
    pub(super) fn start(
        root: &Root,
        functions: &[(u64, TimerKind)],
        threads: &BTreeSet<i32>,
        between: Option<&[Function; 2]>,
    ) -> Result<Self, NotAttached> {
        let tracefs = || Tracefs::open(root).map_err(NotTraced::NoTracefs);
        tracefs()?.remove_left_behind(root);
        let name = tracefs::instance_name(root);
        let second = tracefs::second_instance_name(&name);
        let undo = [&name, &second].map(|name| Undo::RemoveTraceInstance(name.clone()));
        let journal = Journal::write(&journal::folder(), root, Vec::new(), undo.into())?;
        let cpus = root.online_cpus().unwrap_or_default();
        let events: Vec<_> = filters(functions, threads.iter().copied(), &BTreeSet::new())
            .into_iter()
            .map(|(event, filter)| (event, Some(filter)))
            .chain([(EXPIRE_EXIT, None)])
            .chain(INTERRUPTS.map(|(event, filter)| (event, filter.map(str::to_owned))))
            .collect();
        let mut instance = Instance::create_of(tracefs()?, &name, &cpus, &events, root)
            .map_err(NotTraced::from)?;
        if let Some(functions) = between {
            instance
                .record_marks(
                    functions,
                    &of_threads("common_pid", threads.iter().copied()),
                )
                .map_err(NotAttached::NoMarks)?;
        }
        let wake_ups = Trace::of(instance, &cpus)?;
        // A stack must come after the switch to which it belongs. The instance that records stacks
        // is therefore created second, because the kernel then also writes to it second.
        let mut events = of_rules(threads);
        events.push(of_other_switches(threads, &BTreeSet::new()));
        let explained = explanations(tracefs()?, &second, &cpus, events, root);
        let (explanations, mut no_stacks) = match explained {
            Ok(instance) => (Some(Trace::of(instance, &cpus)?), None),
            Err(error) => (None, Some(error.to_string())),
        };
        if let Some(trace) = &explanations {
            no_stacks = trace.record_stacks(threads.iter().copied());
            trace.instance.start().map_err(NotTraced::from)?;
        }
        wake_ups.instance.start().map_err(NotTraced::from)?;
        Ok(Self {
            wake_ups,
            explanations,
            no_stacks,
            is_between_functions: between.is_some(),
            _journal: journal,
        })
    }

    /// Writes a text into the trace.
    pub(super) fn mark(&self, text: &str) -> io::Result<()> {
        let path = self.wake_ups.instance.path().join("trace_marker");
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.write_all(text.as_bytes())
    }

    /// Reads all pages that are available.
    pub(super) fn read(&mut self, evidence: &mut Option<Evidence>) -> io::Result<()> {
        let places = self.wake_ups.reader.cpus().len();
        self.wake_ups.read(0, evidence)?;
        match &mut self.explanations {
            Some(trace) => trace.read(places, evidence),
            None => Ok(()),
        }
    }

    /// Returns the next item before `until`.
    pub(super) fn next_before(&mut self, until: u64) -> Option<Recorded> {
        let wake_up = self.wake_ups.live.next_time();
        let explanation = self
            .explanations
            .as_ref()
            .and_then(|trace| trace.live.next_time());
        match &mut self.explanations {
            Some(trace)
                if explanation.is_some_and(|time| wake_up.is_none_or(|first| time < first)) =>
            {
                let item = trace.live.next_before(until)?;
                Some(match item {
                    Item::Event(_) => Recorded::Item(item),
                    Item::Lost { .. } => Recorded::ExplanationsLost,
                })
            }
            _ => self.wake_ups.live.next_before(until).map(Recorded::Item),
        }
    }

    /// Returns the addresses of the stack at an index, innermost first.
    pub(super) fn stack(&self, place: u32) -> &[u64] {
        let explanations = self.explanations.as_ref();
        explanations.map_or(&[], |trace| trace.live.stack(place))
    }

    /// From now on, records the events of the threads in `followed`, and the wake-ups of the
    /// threads in `linked`; if there are many threads, [`filters`] leaves out `linked`. `has_new`
    /// states whether `followed` contains threads that are new. If threads have only ended, most
    /// filters of the second instance are not changed, because the kernel records no stacks while
    /// it replaces the filter of stacks.
    pub(super) fn follow(
        &mut self,
        functions: &[(u64, TimerKind)],
        followed: &BTreeSet<i32>,
        linked: &BTreeSet<i32>,
        has_new: bool,
    ) {
        // If an event has no filters, all events of this kind are recorded.
        if let Some(trace) = &self.explanations {
            trace.filter([of_other_switches(followed, linked)]);
        }
        let numbers = || followed.iter().copied();
        self.wake_ups.filter(filters(functions, numbers(), linked));
        if !has_new {
            return;
        }
        if self.is_between_functions {
            let threads = of_threads("common_pid", numbers());
            self.wake_ups.instance.filter_marks(&threads);
        }
        if let Some(trace) = &self.explanations {
            trace.filter(of_rules(followed));
            if self.no_stacks.is_none() {
                self.no_stacks = trace.record_stacks(numbers());
            }
        }
    }

    /// Returns a text if another program switched the recording off or changed its clock.
    pub(super) fn change(&self) -> Option<String> {
        let mut traces = [Some(&self.wake_ups), self.explanations.as_ref()].into_iter();
        traces.find_map(|trace| trace?.state.change())
    }

    /// Stops recording.
    pub(super) fn stop(&self) {
        self.wake_ups.instance.stop();
        if let Some(trace) = &self.explanations {
            trace.instance.stop();
        }
    }

    /// Returns how much was read: first for the events from which wake-ups are measured, then for
    /// explanations.
    pub(super) fn counts(&self) -> [Counts; 2] {
        let explanations = self.explanations.as_ref();
        let explanations = explanations.map(|trace| trace.live.counts());
        [
            self.wake_ups.live.counts(),
            explanations.unwrap_or_default(),
        ]
    }

    /// Returns the kinds of events by which violations of the rules are counted.
    pub(super) fn recorded_kinds(&self) -> RecordedKinds {
        let explanations = self.explanations.iter();
        let enabled = explanations.flat_map(|trace| &trace.instance.enabled);
        let enabled: Vec<String> = enabled
            .chain(&self.wake_ups.instance.enabled)
            .cloned()
            .collect();
        RecordedKinds {
            // The system call's event is not needed, because the stacks of sleeps show waits for a
            // futex.
            futex: self.no_stacks.is_none(),
            ..RecordedKinds::of(&enabled)
        }
    }

    /// Returns an empty store for the pages around the worst wake-ups.
    pub(super) fn evidence(&self, bytes_max: Option<u64>) -> Evidence {
        let cpus = self.wake_ups.reader.cpus().len();
        if self.explanations.is_some() {
            Evidence::new(2 * cpus, bytes_max).with_instance(cpus, EXPLANATIONS)
        } else {
            Evidence::new(cpus, bytes_max)
        }
    }

    /// Returns the head of a file with the pages of both instances, and for each buffer in the file
    /// the CPU to which it belongs. `symbols` are lines of /proc/kallsyms.
    pub(super) fn head(
        &self,
        names: &BTreeMap<i32, String>,
        symbols: String,
    ) -> (TraceHead, Vec<u32>) {
        let mut head = TraceHead {
            symbols,
            ..self.wake_ups.instance.head.clone()
        };
        let mut cpus = self.wake_ups.reader.cpus().to_vec();
        if let Some(trace) = &self.explanations {
            let more = &trace.instance.head;
            head.tracer_formats.clone_from(&more.tracer_formats);
            head.event_formats
                .extend(more.event_formats.iter().cloned());
            cpus.extend(trace.reader.cpus());
        }
        let commands = names.iter();
        head.commands = commands
            .map(|(thread, name)| format!("{thread} {name}\n"))
            .collect();
        (head, cpus)
    }
}

/// Creates the tracefs instance for the events that are only needed for explanations.
fn explanations(
    tracefs: Tracefs,
    name: &str,
    cpus: &CpuList,
    events: Vec<(WantedEvent, String)>,
    root: &Root,
) -> Result<Instance, InstanceError> {
    let events: Vec<_> = events
        .into_iter()
        .map(|(event, filter)| (event, Some(filter)))
        .collect();
    let mut instance = Instance::create_of(tracefs, name, cpus, &events, root)?;
    instance.resize(EXPLANATIONS_KIB)?;
    instance.learn_stacks()?;
    Ok(instance)
}

impl Trace {
    fn of(instance: Instance, cpus: &CpuList) -> Result<Self, NotTraced> {
        let failed = |what| move |error| NotTraced::System { what, error };
        let reader =
            PageReader::open(&instance, cpus).map_err(failed("cannot read the trace's pages"))?;
        let state = State::open(&instance).map_err(failed("cannot read the state of the trace"))?;
        let live = Live::new(
            Decoder::new(&instance.formats),
            instance.layout,
            reader.cpus().iter().copied(),
        );
        Ok(Self {
            live,
            state,
            reader,
            instance,
        })
    }

    /// Reads every page that contains events from before this call. `first` is the index that this
    /// reader's first CPU has in `evidence`.
    fn read(&mut self, first: usize, evidence: &mut Option<Evidence>) -> io::Result<()> {
        // The number of pages is limited, because otherwise reading might never end: the kernel may
        // write pages as fast as they are read.
        let pages_max = (BUFFER_KIB as usize * 1024 / self.instance.layout.page_bytes) + 2;
        for place in 0..self.reader.cpus().len() {
            for _ in 0..pages_max {
                let Some(page) = self.reader.next(place)? else {
                    break;
                };
                // If a page is damaged, its events are lost, and `live` reports this.
                let begins = self.live.page(place, &page);
                if let (Some(evidence), Ok(begins)) = (evidence.as_mut(), begins) {
                    evidence.page(first + place, begins, page);
                }
            }
        }
        Ok(())
    }

    fn filter(&self, filters: impl IntoIterator<Item = (WantedEvent, String)>) {
        for (event, filter) in filters {
            let _ = self.instance.filter(event, &filter);
        }
    }

    /// Makes the kernel record the stacks of these threads' sleeps. Returns the reason if the
    /// kernel refuses.
    fn record_stacks(&self, threads: impl Iterator<Item = i32>) -> Option<String> {
        let recorded = self
            .instance
            .record_stacks_of_sleeps(&of_threads("prev_pid", threads));
        recorded.err().map(|error| error.to_string())
    }
}

/// Files by which another program could stop the instance or change its clock.
#[derive(Debug)]
struct State {
    is_on: File,
    clock: File,
}

impl State {
    fn open(instance: &Instance) -> io::Result<Self> {
        Ok(Self {
            is_on: File::open(instance.path().join("tracing_on"))?,
            clock: File::open(instance.path().join("trace_clock"))?,
        })
    }

    /// Returns a message for the user if another program has switched the tracing off or changed
    /// its clock.
    fn change(&self) -> Option<String> {
        let text = |file: &File| {
            let mut bytes = [0; 512];
            let read = file.read_at(&mut bytes, 0).ok()?;
            Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
        };
        if text(&self.is_on).is_some_and(|text| text.trim() != "1") {
            return Some("another program switched off tracing".to_owned());
        }
        let clock = text(&self.clock)?;
        let is_ours = clock.contains(&format!("[{}]", crate::instance::CLOCK));
        (!is_ours).then(|| "another program changed the clock of the trace".to_owned())
    }
}
