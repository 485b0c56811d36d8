//! Divides the stints of a thread into cycles. A stint is an interval in which the thread runs,
//! waits for a CPU, or sleeps.
//!
//! A cycle starts with the wake-up from a sleep in the thread's wait place, and ends when the
//! thread sleeps there again. The wait place is determined separately for each group of sleeps. If
//! any place has at least two sleeps, places with a single sleep are ignored, because one long
//! sleep before a loop is not where the loop waits.
//!
//! The wait place is a place where the thread's own timers ended the sleeps. These timers must be
//! absolute, or the sleeps at the place must make up at least a tenth of the time slept. If several
//! places meet this rule, the wait place is the one where the thread slept longest in total. If no
//! place meets it, all of the sleeps may belong to a single call, such as fsync(2) of many pages:
//! the wait place stays the same for up to a second. After that, the wait place is the place where
//! the thread slept longest in total.

use foldhash::HashMap;
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::units::Nanos;
use tardy_trace::contexts::{Held, Waker};
use tardy_trace::occupants::Occupant;
use tardy_trace::stints::{Doing, Stint};
use tardy_trace::wake_ups::{Cause, WakeUp};

use super::{
    Cycle, CycleRow, Cycles, IDLE, Marks, OtherPlaces, PlaceRow, Shares, Stretch, StretchKind,
    WORST_MAX, WaitPlace,
};

/// Number of sleeps that are collected before a thread's wait place is determined.
const GROUP_SLEEPS: usize = 32;
/// Maximum number of stints in a group.
const GROUP_STINTS: usize = 1024;
/// At least this many sleeps occur at a wait place, and the thread's own timers end at least this
/// many of them. A condition that no place in a group meets is ignored.
const SLEEPS_MIN: u32 = 2;
/// If the timers at a wait place are relative, the sleeps there must make up at least the time
/// slept divided by this number. This excludes places where a worker sleeps briefly during its
/// work.
const TIMERS_SHARE: i64 = 10;
/// Maximum time in ns without a sleep in the wait place, after which a place where no timers end
/// the sleeps may become the wait place.
const AWAY_MAX: i64 = 1_000_000_000;
/// Maximum number of parts that are stored per cycle. In a part, the thread has no CPU.
const STRETCHES_MAX: usize = 32;
/// Minimum number of cycles that are stored for each thread, namely its longest.
const WORST_OF_THREAD: usize = 10;
/// Maximum number of threads that are followed.
const THREADS_MAX: usize = 1024;
/// Maximum number of places per thread that are counted separately. Further places are counted
/// together.
const PLACES_MAX: usize = 64;

/// Index of a place in the list for [`Cutter::result`]; absent if the place is unknown.
type Place = Option<u32>;

/// Builds cycles from stints.
#[derive(Debug, Default)]
pub struct Cutter {
    /// Whether cycles are the times between two functions of the program, see [`Self::mark`].
    is_marked: bool,
    marks: Marks,
    threads: HashMap<i32, ThreadCut>,
    /// For each thread, its last wake-up by a timer.
    timers: HashMap<i32, WakeUp>,
    cut_off: u64,
    has_more_threads: bool,
}

/// A stint with its wait place and due time.
#[derive(Debug, Clone, Copy)]
struct Piece {
    stint: Stint,
    place: Place,
    /// Due time, if the thread waits for a CPU after a wake-up by its own timer.
    due: Option<i64>,
    /// If the thread waits for a CPU: the thread that had this CPU longest.
    occupant: Option<Occupant>,
}

#[derive(Debug)]
struct ThreadCut {
    group: Vec<Piece>,
    sleeps: usize,
    home: Option<Place>,
    /// End of the last stint.
    last: i64,
    /// Start of the last sleep in the wait place, while the thread sleeps there or has just been
    /// woken.
    slept_at_home: Option<i64>,
    /// End of the last sleep in the wait place.
    left_home: i64,
    open: Option<OpenCycle>,
    response: Histogram,
    sum: Shares,
    blocked: Blocked,
    worst: Vec<RawCycle>,
}

/// The sleeps of one group that took place at one place.
#[derive(Debug, Clone, Copy, Default)]
struct Sleeps {
    count: u32,
    by_timers: u32,
    /// Number of sleeps that an absolute timer of the thread ended.
    until_times: u32,
    length: i64,
}

/// Sleeps inside cycles, by place.
#[derive(Debug, Clone, Default)]
struct Blocked {
    places: Vec<(Place, Total)>,
    others: Total,
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    sleeps: u64,
    sum: i64,
    max: i64,
}

impl Blocked {
    fn add(&mut self, place: Place, sleeps: Total) {
        let total = match self.places.iter().position(|(at, _)| *at == place) {
            Some(known) => &mut self.places[known].1,
            None if self.places.len() < PLACES_MAX => {
                self.places.push((place, sleeps));
                return;
            }
            None => &mut self.others,
        };
        total.add(sleeps);
    }

    fn add_all(&mut self, other: &Self) {
        for &(place, sleeps) in &other.places {
            self.add(place, sleeps);
        }
        self.others.add(other.others);
    }
}

impl Total {
    fn add(&mut self, other: Self) {
        self.sleeps += other.sleeps;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }
}

#[derive(Debug, Clone, Default)]
struct OpenCycle {
    begin: i64,
    shares: Shares,
    blocked: Blocked,
    stretches: Vec<RawStretch>,
    left_out: u64,
    left_out_ns: i64,
}

#[derive(Debug, Clone)]
struct RawCycle {
    end: i64,
    cycle: OpenCycle,
}

impl RawCycle {
    fn response(&self) -> i64 {
        self.end - self.cycle.begin
    }
}

#[derive(Debug, Clone, Copy)]
struct RawStretch {
    kind: StretchKind,
    start: i64,
    length: i64,
    place: Place,
    by: By,
}

#[derive(Debug, Clone, Copy)]
enum By {
    /// The cause of the end of a sleep.
    Waker(Waker),
    /// The interrupt or softirq that had the CPU, and for how many ns.
    Work(Waker, i64),
    /// The thread that had the CPU longest.
    Occupant(Option<Occupant>),
}

impl Default for ThreadCut {
    fn default() -> Self {
        Self {
            group: Vec::new(),
            sleeps: 0,
            home: None,
            last: 0,
            slept_at_home: None,
            left_home: i64::MIN,
            open: None,
            response: Histogram::new(Budget::RECORDER),
            sum: Shares::default(),
            blocked: Blocked::default(),
            worst: Vec::new(),
        }
    }
}

impl Cutter {
    /// Creates a cutter for cycles between two functions of the program, instead of between sleeps.
    #[must_use]
    pub fn between_marks() -> Self {
        Self {
            is_marked: true,
            ..Self::default()
        }
    }

    /// Records that a running thread called one of the two functions. The caller must have added
    /// the thread's earlier stints. Returns the start and the end of the cycle that ends here.
    pub fn mark(&mut self, thread: i32, time: i64, is_end: bool) -> Option<(i64, i64)> {
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&thread) {
            self.has_more_threads = true;
            return None;
        }
        let kept = self.kept_of_thread();
        let thread = self.threads.entry(thread).or_default();
        if is_end {
            self.marks.ends += 1;
            let Some(mut cycle) = thread.open.take() else {
                self.marks.ends_without_start += 1;
                return None;
            };
            cycle.shares.running_ns += Nanos(time - thread.last);
            let begin = cycle.begin;
            thread.close(RawCycle { end: time, cycle });
            thread.keep_worst(kept);
            return Some((begin, time));
        }
        self.marks.starts += 1;
        thread.last = time;
        let begun = OpenCycle {
            begin: time,
            ..OpenCycle::default()
        };
        self.marks.restarts += u64::from(thread.open.replace(begun).is_some());
        None
    }

    /// Records that events were lost, or that no further events follow. Unfinished cycles between
    /// marks are cut off.
    pub fn lose(&mut self) {
        if self.is_marked {
            for thread in self.threads.values_mut() {
                self.cut_off += u64::from(thread.open.take().is_some());
            }
        }
    }

    /// Records a wake-up. The caller must do this before it adds the stint that the wake-up ends.
    /// Only wake-ups by a timer of the program are recorded, because only these give a cycle a due
    /// time. All other cycles start at the time of the wake-up, which the stint itself contains.
    pub fn wake_up(&mut self, wake_up: &WakeUp) {
        let has_room = self.timers.len() < THREADS_MAX || self.timers.contains_key(&wake_up.thread);
        if has_room && matches!(wake_up.cause, Cause::Timer { .. }) {
            self.timers.insert(wake_up.thread, *wake_up);
        }
    }

    /// Returns the due time of the wake-up by its own timer after which a thread waited for a CPU
    /// in this stint; `None` if there is no such wake-up. The wake-up must have been added before.
    #[must_use]
    pub fn due(&self, stint: &Stint) -> Option<i64> {
        if self.is_marked || !matches!(stint.doing, Doing::Ready { .. }) {
            return None;
        }
        let wake_up = self.timers.get(&stint.thread)?;
        (wake_up.ran == stint.end).then_some(wake_up.due)
    }

    /// Adds the next stint of a thread. If the stint is a sleep, `place` is where the thread slept.
    /// If it is a wait for a CPU, `occupant` is the thread that had this CPU longest, from the due
    /// time on if there is one.
    pub fn take(&mut self, stint: Stint, place: Place, occupant: Option<Occupant>) {
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&stint.thread) {
            self.has_more_threads = true;
            return;
        }
        let kept = self.kept_of_thread();
        let is_marked = self.is_marked;
        let due = self.due(&stint);
        let thread = self.threads.entry(stint.thread).or_default();
        if is_marked {
            self.cut_off += thread.add_between_marks(stint, place, occupant);
            return;
        }
        thread.sleeps += usize::from(matches!(stint.doing, Doing::Ready { .. }));
        thread.group.push(Piece {
            stint,
            place,
            due,
            occupant,
        });
        if thread.sleeps >= GROUP_SLEEPS || thread.group.len() >= GROUP_STINTS {
            self.cut_off += thread.cut_group();
            thread.keep_worst(kept);
        }
    }

    fn kept_of_thread(&self) -> usize {
        (WORST_MAX / self.threads.len().max(1)).max(WORST_OF_THREAD)
    }

    /// Returns the place where a thread sleeps between cycles, if this place is already known.
    #[must_use]
    pub fn waiting_place(&self, thread: i32) -> Option<Option<u32>> {
        self.threads.get(&thread)?.home
    }

    /// Ends the cycles of a thread that has exited.
    pub fn unfollow(&mut self, thread: i32) {
        self.timers.remove(&thread);
        if let Some(thread) = self.threads.get_mut(&thread) {
            self.cut_off += thread.cut_group();
            thread.group = Vec::new();
            let is_cut_off = thread.open.take().is_some();
            self.cut_off += u64::from(is_cut_off && self.is_marked);
        }
    }

    /// Makes cycles of the remaining stints of each thread. The caller must have added all stints.
    pub fn finish(&mut self) {
        for thread in self.threads.values_mut() {
            self.cut_off += thread.cut_group();
        }
        self.lose();
    }

    /// Returns the cycles up to now. `places` lists all places by index; `name` returns the name of
    /// a thread.
    #[must_use]
    pub fn result(&mut self, places: &[WaitPlace], name: &impl Fn(i32) -> String) -> Cycles {
        let mut cycles = Cycles {
            marks: self.is_marked.then_some(self.marks),
            cut_off: self.cut_off,
            has_more_threads: self.has_more_threads,
            ..Cycles::default()
        };
        let kept = self.kept_of_thread();
        for (&number, thread) in &mut self.threads {
            let Some(row) = thread.row(number, places, name) else {
                continue;
            };
            thread.keep_worst(kept);
            let told = |raw: &RawCycle| raw.told(number, &row.name, places, name);
            cycles.worst.extend(thread.worst.iter().map(told));
            cycles.threads.push(row);
        }
        let longest = |cycle: &Cycle| (std::cmp::Reverse(cycle.response_ns), cycle.begin_ns);
        cycles.worst.sort_by_key(longest);
        cycles
            .threads
            .sort_by_key(|row| (std::cmp::Reverse(row.max_ns), row.thread));
        cycles
    }
}

impl ThreadCut {
    /// Divides the stored stints into cycles. Returns the number of incomplete cycles, which are
    /// dropped.
    fn cut_group(&mut self) -> u64 {
        let home = self.waiting_place();
        let mut cut_off = 0;
        if home.is_some() && home != self.home {
            cut_off += u64::from(self.open.take().is_some());
            self.home = home;
            self.slept_at_home = None;
        }
        let group = std::mem::take(&mut self.group);
        for piece in &group {
            cut_off += self.cut(piece);
        }
        self.group = group;
        self.group.clear();
        self.sleeps = 0;
        cut_off
    }

    /// Returns the place where the thread sleeps between cycles, according to this group and, if it
    /// does not show the place, the known one; `None` if the thread did not sleep.
    fn waiting_place(&self) -> Option<Place> {
        let mut found: Vec<(Place, Sleeps)> = Vec::new();
        for pair in self.group.windows(2) {
            let [asleep, ready] = pair else { continue };
            if !matches!(asleep.stint.doing, Doing::Asleep { .. }) {
                continue;
            }
            let place = match found.iter().position(|(place, ..)| *place == asleep.place) {
                Some(place) => place,
                None => {
                    found.push((asleep.place, Sleeps::default()));
                    found.len() - 1
                }
            };
            let sleeps = &mut found[place].1;
            sleeps.count += 1;
            let is_relative = matches!(
                asleep.stint.doing,
                Doing::Asleep {
                    is_relative: true,
                    ..
                }
            );
            sleeps.by_timers += u32::from(ready.due.is_some());
            sleeps.until_times += u32::from(ready.due.is_some() && !is_relative);
            sleeps.length += asleep.stint.length();
        }
        if found.iter().any(|(_, sleeps)| sleeps.count >= SLEEPS_MIN) {
            found.retain(|(_, sleeps)| sleeps.count >= SLEEPS_MIN);
        }
        // If the stacks of some sleeps are missing, only the other sleeps are used.
        if found.iter().any(|(place, _)| place.is_some()) {
            found.retain(|(place, _)| place.is_some());
        }
        let all: i64 = found.iter().map(|(_, sleeps)| sleeps.length).sum();
        let rank = |sleeps: &Sleeps| {
            let is_long = sleeps.length >= all / TIMERS_SHARE;
            let is_periodic =
                sleeps.until_times >= SLEEPS_MIN || sleeps.by_timers >= SLEEPS_MIN && is_long;
            (is_periodic, sleeps.length)
        };
        let (best, sleeps) = found.iter().max_by_key(|(_, sleeps)| rank(sleeps))?;
        let (is_periodic, _) = rank(sleeps);
        let is_found = |home: Place| {
            let mut places = found.iter();
            places.any(|(place, sleeps)| *place == home && sleeps.count >= SLEEPS_MIN)
        };
        let stays = |home: Place| home.is_some() && !is_found(home) && self.away(home) <= AWAY_MAX;
        let known = self.home.filter(|home| !is_periodic && stays(*home));
        Some(known.unwrap_or(*best))
    }

    /// Returns the time from the thread's last sleep at `home` to the end of this group.
    fn away(&self, home: Place) -> i64 {
        let at_home = |piece: &&Piece| {
            piece.place == home && matches!(piece.stint.doing, Doing::Asleep { .. })
        };
        let last = self.group.iter().rfind(at_home);
        let left = last.map_or(self.left_home, |piece| piece.stint.end);
        let end = self.group.last().map_or(0, |piece| piece.stint.end);
        end.saturating_sub(left)
    }

    /// Adds the next stint to the open cycle. Returns 1 if the cycle was cut off, otherwise 0.
    fn cut(&mut self, piece: &Piece) -> u64 {
        let stint = piece.stint;
        let mut cut_off = 0;
        if stint.start != self.last {
            // There is a gap before this stint, because events were lost.
            cut_off = u64::from(self.open.take().is_some());
            self.slept_at_home = None;
        }
        self.last = stint.end;
        let length = stint.length();
        match stint.doing {
            Doing::Asleep { .. } if self.home == Some(piece.place) => {
                if let Some(cycle) = self.open.take() {
                    self.close(RawCycle {
                        end: stint.start,
                        cycle,
                    });
                }
                self.slept_at_home = Some(stint.start);
                self.left_home = stint.end;
            }
            Doing::Ready { held, .. } => match (self.slept_at_home.take(), &mut self.open) {
                (Some(slept), _) => {
                    let begin = piece.due.map_or(stint.start, |due| due.max(slept));
                    let mut cycle = OpenCycle {
                        begin,
                        ..OpenCycle::default()
                    };
                    cycle.shares.wake_up_ns = Nanos(stint.end - begin);
                    let by = holder(piece.occupant, held, begin, stint.end);
                    cycle.push(StretchKind::WakeUp, begin, stint.end, None, by);
                    self.open = Some(cycle);
                }
                (None, Some(cycle)) => {
                    cycle.shares.preempted_ns += Nanos(length);
                    let (start, end) = (stint.start, stint.end);
                    let by = holder(piece.occupant, held, start, end);
                    cycle.push(StretchKind::Preempted, start, end, None, by);
                }
                (None, None) => {}
            },
            // The stack of this sleep was lost, so the thread may have slept in its wait place.
            Doing::Asleep { .. } if piece.place.is_none() && self.home.flatten().is_some() => {
                cut_off += 1;
                self.open = None;
                self.slept_at_home = None;
            }
            Doing::Asleep { waker, .. } => {
                if let Some(cycle) = &mut self.open {
                    cycle.shares.blocked_ns += Nanos(length);
                    let sleep = Total {
                        sleeps: 1,
                        sum: length,
                        max: length,
                    };
                    cycle.blocked.add(piece.place, sleep);
                    let (start, end) = (stint.start, stint.end);
                    let by = By::Waker(waker);
                    cycle.push(StretchKind::Blocked, start, end, piece.place, by);
                }
            }
            Doing::Preempted { .. } => {
                if let Some(cycle) = &mut self.open {
                    cycle.shares.preempted_ns += Nanos(length);
                    let (start, end) = (stint.start, stint.end);
                    let by = By::Occupant(piece.occupant);
                    cycle.push(StretchKind::Preempted, start, end, None, by);
                }
            }
            Doing::Running => {
                if let Some(cycle) = &mut self.open {
                    cycle.shares.running_ns += Nanos(length);
                }
            }
        }
        cut_off
    }

    /// Adds a stint to the open cycle between two marks. Returns 1 if the cycle was cut off,
    /// otherwise 0.
    ///
    /// A stint may have started before the start mark. Only the part of the stint after the mark
    /// belongs to the cycle.
    fn add_between_marks(&mut self, stint: Stint, place: Place, occupant: Option<Occupant>) -> u64 {
        if self.open.is_none() || stint.end <= self.last {
            return 0;
        }
        if stint.start > self.last {
            // There is a gap between the stints, because events were lost.
            self.open = None;
            return 1;
        }
        let stint = Stint {
            start: self.last,
            ..stint
        };
        // Cycles between marks do not end with a sleep.
        self.home = None;
        self.cut(&Piece {
            stint,
            place,
            due: None,
            occupant,
        })
    }

    fn close(&mut self, mut raw: RawCycle) {
        debug_assert_eq!(raw.cycle.shares.sum(), Nanos(raw.response()));
        self.response.record(raw.response());
        self.sum.add(&raw.cycle.shares);
        self.blocked
            .add_all(&std::mem::take(&mut raw.cycle.blocked));
        self.worst.push(raw);
    }

    fn keep_worst(&mut self, kept: usize) {
        if self.worst.len() <= kept {
            return;
        }
        self.worst
            .sort_by_key(|raw| (std::cmp::Reverse(raw.response()), raw.cycle.begin));
        self.worst.truncate(kept);
    }

    fn row(
        &self,
        thread: i32,
        places: &[WaitPlace],
        name: &impl Fn(i32) -> String,
    ) -> Option<CycleRow> {
        let cycles = self.response.count();
        let ranks = [cycles.div_ceil(2), cycles - cycles / 100, cycles];
        let values = self.response.values_at(&ranks);
        let [Some(median), Some(p99), Some(max)] = *values.as_slice() else {
            return None;
        };
        let mut blocked_in: Vec<PlaceRow> = self
            .blocked
            .places
            .iter()
            .map(|(place, total)| PlaceRow {
                place: told_place(*place, places),
                sleeps: total.sleeps,
                sum_ns: Nanos(total.sum),
                max_ns: Nanos(total.max),
            })
            .collect();
        blocked_in.sort_by(|a, b| (b.sum_ns, &a.place).cmp(&(a.sum_ns, &b.place)));
        Some(CycleRow {
            thread,
            name: name(thread),
            cycles,
            ends_in: self
                .home
                .flatten()
                .map(|home| told_place(Some(home), places)),
            median_ns: Nanos(median),
            p99_ns: Nanos(p99),
            max_ns: Nanos(max),
            sum: self.sum,
            blocked_in,
            other_places: OtherPlaces {
                sleeps: self.blocked.others.sleeps,
                sum_ns: Nanos(self.blocked.others.sum),
                max_ns: Nanos(self.blocked.others.max),
            },
        })
    }
}

impl OpenCycle {
    fn push(&mut self, kind: StretchKind, start: i64, end: i64, place: Place, by: By) {
        self.stretches.push(RawStretch {
            kind,
            start,
            length: end - start,
            place,
            by,
        });
        if self.stretches.len() <= STRETCHES_MAX {
            return;
        }
        let shortest = self
            .stretches
            .iter()
            .enumerate()
            .min_by_key(|(_, stretch)| stretch.length)
            .map(|(at, _)| at);
        if let Some(at) = shortest {
            let left_out = self.stretches.remove(at);
            self.left_out += 1;
            self.left_out_ns += left_out.length;
        }
    }
}

impl RawCycle {
    fn told(
        &self,
        thread: i32,
        own: &str,
        places: &[WaitPlace],
        name: &impl Fn(i32) -> String,
    ) -> Cycle {
        let stretch = |raw: &RawStretch| {
            let (by, by_ns) = match raw.by {
                By::Waker(waker) => (told_waker(waker, name), None),
                By::Work(work, length) => (told_waker(work, name), Some(Nanos(length))),
                By::Occupant(occupant) => (
                    occupant.map(told_occupant),
                    occupant.map(|occupant| Nanos(occupant.length)),
                ),
            };
            Stretch {
                kind: raw.kind,
                at_ns: Nanos(raw.start - self.cycle.begin),
                length_ns: Nanos(raw.length),
                place: (raw.kind == StretchKind::Blocked).then(|| told_place(raw.place, places)),
                by,
                by_ns,
            }
        };
        Cycle {
            thread,
            name: own.to_owned(),
            begin_ns: Nanos(self.cycle.begin),
            response_ns: Nanos(self.response()),
            shares: self.cycle.shares,
            stretches: self.cycle.stretches.iter().map(stretch).collect(),
            left_out: self.cycle.left_out,
            left_out_ns: Nanos(self.cycle.left_out_ns),
        }
    }
}

/// Returns who had the CPU in this interval: the interrupt or softirq that had it for at least half
/// of the interval, otherwise the thread that had it longest.
fn holder(occupant: Option<Occupant>, held: Option<Held>, start: i64, end: i64) -> By {
    let held = held.and_then(|held| Some(By::Work(held.by, held.most_of(start, end)?)));
    held.unwrap_or(By::Occupant(occupant))
}

/// Returns the printable name of the thread that had a CPU.
pub(super) fn told_occupant(occupant: Occupant) -> String {
    match occupant.thread.pid {
        0 => IDLE.to_owned(),
        pid => format!("{}/{pid}", occupant.thread.name),
    }
}

fn told_place(place: Place, places: &[WaitPlace]) -> WaitPlace {
    let known = place.and_then(|place| places.get(place as usize));
    known.cloned().unwrap_or_else(|| WaitPlace {
        call: "unknown".to_owned(),
        function: "unknown".to_owned(),
    })
}

/// Softirqs by number (include/linux/interrupt.h).
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Returns the printable name of a waker, or `None` if the waker is unknown.
#[must_use]
pub fn told_waker(waker: Waker, name: &impl Fn(i32) -> String) -> Option<String> {
    match waker {
        Waker::Unknown => None,
        Waker::Timer => Some("timer".to_owned()),
        Waker::Interrupt(handler) if handler.is_empty() => Some("interrupt".to_owned()),
        Waker::Interrupt(handler) => Some(format!("irq {handler}")),
        Waker::Softirq(number) => Some(
            number
                .and_then(|number| SOFTIRQS.get(usize::try_from(number).ok()?))
                .map_or_else(|| "softirq".to_owned(), |name| format!("softirq {name}")),
        ),
        Waker::Thread(0) => Some(IDLE.to_owned()),
        Waker::Thread(thread) => Some(format!("{}/{thread}", name(thread))),
    }
}

#[cfg(test)]
mod tests;
