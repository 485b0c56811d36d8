//! `operations`: executes a program of operations, such as one that `tardy lab hunt` found.
//!
//! [`tardy_run::operations`] has the table of operations. In each pass, a program starts without
//! any resources, and everything that it has acquired is released at the end of the pass.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tardy_core::units::Nanos;
use tardy_run::operations::{Action, Program, Step};
use tardy_run::parameter::{Kind, Parameter};
use tardy_sys::clock::{self, Clock, Instant};
use tardy_sys::epoll::Epoll;
use tardy_sys::mapping::Mapping;
use tardy_sys::posix_timer::PosixTimer;
use tardy_sys::process::{self, WaitResult};
use tardy_sys::rlimit::{self, Resource as Limit};
use tardy_sys::timer_fd::TimerFd;
use tardy_sys::{futex, memory_file, signal};

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::{PASSES, Worker};

/// Name of the parameter with the program.
const STEPS: &str = "steps";

pub const INFO: LoadInfo = LoadInfo {
    name: "operations",
    does: "executes a list of operations on memory, files, pipes, futexes, timers and processes",
    effect: "a list that `tardy lab hunt` found keeps interrupts or preemption off for as long as \
             possible",
    source: "today",
    parameters: &[
        PASSES,
        Parameter {
            name: STEPS,
            means: "the operations with their amounts, as in timers=2000,fork=100,kill",
            kind: Kind::Text,
            default: Some("align=500,timers=200,fork=20,kill"),
            needed: false,
        },
    ],
    can_do_harm: true,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::NONE,
    resolve,
    run: Run::Prepared(prepare),
};

/// Number of descriptors that the worker needs for itself.
const OTHER_FILES: u64 = 32;
/// Processes of the load end by themselves after this time, even if the worker is killed.
const LIFE_MAX: Nanos = Nanos::from_secs(60);
/// Distance between two moments of the time grid, in ns. The operation `align` waits until the next
/// moment of this grid.
const GRID: i64 = 1_000_000;
/// Time allowed to arm each timer before all timers fire, in ns; arming takes about 1,000
/// instructions.
const TIME_TO_ARM: i64 = 10_000;
/// Number of small operations, or of MiB, between two checks whether the load must stop.
const BETWEEN_CHECKS: u64 = 64;
const MEBIBYTES_BETWEEN_CHECKS: usize = 4;
const MEBIBYTE: usize = 1 << 20;
/// Stack of a thread, in bytes.
const STACK_BYTES: usize = 16 << 10;

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let text = resolution.plan.parameters.text(STEPS);
    let program = text.parse::<Program>().map_err(|error| {
        let missing = format!("a list of operations ({error})");
        Unsupported::new(missing, "give operations:steps=... a valid list")
    })?;
    let need = program.need();
    let files = rlimit::get(Limit::OpenFiles).map_or(1024, |(_, hard)| hard);
    if need.files + OTHER_FILES > files && !resolution.host.superuser {
        return Err(Unsupported::new(
            format!(
                "a limit of {} open files (it is {files})",
                need.files + OTHER_FILES
            ),
            "raise the hard limit (ulimit -Hn), or give operations:steps=... smaller amounts",
        ));
    }
    resolution.plan.budget.memory = need.memory;
    resolution.plan.budget.processes = need.processes + 1;
    Ok(())
}

/// Raises the resource limits to what the program needs. If the worker may not raise them,
/// operations beyond the limits fail and are counted.
fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let text = worker.plan.load.parameters.text(STEPS);
    let program = text
        .parse::<Program>()
        .map_err(|error| WorkError::Bound(format!("the list of operations: {error}")))?;
    let need = program.need();
    for (limit, needed) in [
        (Limit::OpenFiles, need.files + OTHER_FILES),
        (Limit::PendingSignals, need.signals + OTHER_FILES),
    ] {
        let (_, hard) = rlimit::get(limit).doing("read a limit")?;
        // The old limits stay if the tool may not raise them.
        let _ = rlimit::set(limit, needed.max(hard), needed.max(hard))
            .or_else(|_| rlimit::set(limit, hard, hard));
    }
    Ok(Box::new(move |worker| run(worker, &program)))
}

fn run(worker: &mut Worker, program: &Program) -> Result<(), WorkError> {
    while worker.begin_pass() {
        let mut state = State::new().doing("make a pipe and a file in memory")?;
        for step in &program.0 {
            if !worker.go_on() {
                break;
            }
            let done = state.execute(step, &mut || worker.go_on());
            match done {
                Ok(()) => worker.did(1, 0),
                Err(_) => worker.failed(),
            }
        }
        state.release();
    }
    Ok(())
}

/// Returns whether to continue, see [`Worker::go_on`].
type GoOn<'a> = &'a mut dyn FnMut() -> bool;

/// All resources that a program has acquired.
struct State {
    areas: Vec<Mapping>,
    file: File,
    duplicates: Vec<File>,
    pipe: (PipeReader, PipeWriter),
    sets: Vec<Epoll>,
    /// The process group of the children; absent without children.
    group: Option<i32>,
    /// Time from each whole ms to the moment at which timers fire, in ns.
    offset: i64,
}

impl State {
    fn new() -> io::Result<Self> {
        Ok(Self {
            areas: Vec::new(),
            file: memory_file::create("operations")?,
            duplicates: Vec::new(),
            pipe: io::pipe()?,
            sets: Vec::new(),
            group: None,
            offset: 0,
        })
    }

    fn execute(&mut self, step: &Step, go_on: GoOn<'_>) -> io::Result<()> {
        let amount = step.amount;
        match step.operation.action {
            Action::Map => self.map(amount, false, go_on),
            Action::MapHuge => self.map(amount, true, go_on),
            Action::Unmap => {
                if !self.areas.is_empty() {
                    self.areas.remove(0);
                }
                Ok(())
            }
            Action::Discard => self.areas.last_mut().map_or(Ok(()), |area| {
                let whole = area.len();
                area.discard(0, whole)
            }),
            Action::Protect => self.areas.last_mut().map_or(Ok(()), |area| {
                let whole = area.len();
                area.set_writable(0, whole, false)?;
                area.set_writable(0, whole, true)
            }),
            Action::Write => self.write(amount, go_on),
            Action::Read => self.read(go_on),
            Action::Truncate => self.file.set_len(0).and_then(|()| self.file.rewind()),
            Action::Duplicate => each(amount, go_on, || {
                self.duplicates.push(self.file.try_clone()?);
                Ok(())
            }),
            Action::Close => {
                self.duplicates.clear();
                Ok(())
            }
            Action::Watch => each(amount, go_on, || {
                let set = Epoll::new()?;
                set.add_readable(self.pipe.0.as_fd(), 0)?;
                self.sets.push(set);
                Ok(())
            }),
            Action::Listen => each(amount, go_on, || {
                let pipe = &self.pipe.0;
                adopt(&mut self.group, || listen(pipe))
            }),
            Action::Poke => {
                self.pipe.1.write_all(&[0])?;
                self.pipe.0.read_exact(&mut [0])
            }
            Action::Threads => threads(amount),
            Action::Timers => self.posix_timers(amount, go_on),
            Action::TimerFiles => self.timer_files(amount, go_on),
            Action::Fork => each(amount, go_on, || adopt(&mut self.group, sleep_for_life)),
            Action::Signal => self.group.map_or(Ok(()), |group| {
                process::kill_group(group, process::CONTINUE)
            }),
            Action::Kill => {
                self.kill();
                Ok(())
            }
            Action::Orphans => self.orphans(amount),
            Action::Sleep => {
                let us = i64::try_from(amount).unwrap_or(0);
                sleep_until(clock::monotonic() + us * 1000)
            }
            Action::Align => {
                self.offset = i64::try_from(amount).unwrap_or(0) * 1000;
                sleep_until(self.moment_after(clock::monotonic()))
            }
        }
    }

    fn map(&mut self, mebibytes: u64, is_huge: bool, go_on: GoOn<'_>) -> io::Result<()> {
        let mut area = Mapping::anonymous(mebibytes as usize * MEBIBYTE)?;
        // Kernels without huge pages refuse both calls.
        let _ = if is_huge {
            area.ask_for_huge_pages()
        } else {
            area.forbid_huge_pages()
        };
        let whole = area.len();
        for from in (0..whole).step_by(MEBIBYTES_BETWEEN_CHECKS * MEBIBYTE) {
            if !go_on() {
                break;
            }
            area.touch(
                from,
                (from + MEBIBYTES_BETWEEN_CHECKS * MEBIBYTE).min(whole),
            );
        }
        self.areas.push(area);
        Ok(())
    }

    fn write(&mut self, mebibytes: u64, go_on: GoOn<'_>) -> io::Result<()> {
        let block = vec![1; MEBIBYTE / 4];
        self.file.seek(io::SeekFrom::End(0))?;
        for _ in 0..mebibytes * 4 {
            if !go_on() {
                break;
            }
            self.file.write_all(&block)?;
        }
        Ok(())
    }

    fn read(&mut self, go_on: GoOn<'_>) -> io::Result<()> {
        let mut block = vec![0; MEBIBYTE / 4];
        self.file.rewind()?;
        while self.file.read(&mut block)? > 0 && go_on() {}
        Ok(())
    }

    /// Returns the first moment of the grid after `time`.
    fn moment_after(&self, time: i64) -> i64 {
        (time - self.offset).div_euclid(GRID) * GRID + GRID + self.offset
    }

    /// Returns a moment at which `amount` timers can fire together.
    fn common_moment(&self, amount: u64) -> i64 {
        let to_arm = i64::try_from(amount).unwrap_or(i64::MAX / TIME_TO_ARM) * TIME_TO_ARM;
        self.moment_after(clock::monotonic() + to_arm)
    }

    fn posix_timers(&self, amount: u64, go_on: GoOn<'_>) -> io::Result<()> {
        let mut timers = Vec::new();
        each(amount, go_on, || {
            timers.push(PosixTimer::new(Clock::Monotonic)?);
            Ok(())
        })?;
        let due = self.common_moment(amount);
        each_of(&timers, go_on, |timer| timer.arm_at(due, 0))?;
        sleep_until(due)
    }

    fn timer_files(&self, amount: u64, go_on: GoOn<'_>) -> io::Result<()> {
        let mut timers = Vec::new();
        each(amount, go_on, || {
            timers.push(TimerFd::new()?);
            Ok(())
        })?;
        let due = self.common_moment(amount);
        each_of(&timers, go_on, |timer| timer.arm_at(due))?;
        sleep_until(due)
    }

    fn orphans(&mut self, amount: u64) -> io::Result<()> {
        let group = self.group;
        let parent = process::fork(|| {
            let joined = process::join_group(0, group.unwrap_or(0));
            let forked = (0..amount).try_for_each(|_| process::fork(sleep_for_life).map(drop));
            i32::from(joined.and(forked).is_err())
        })?;
        self.group.get_or_insert(parent);
        process::reap(parent, true).map(drop)
    }

    /// Kills all children with one call and reaps them.
    fn kill(&mut self) {
        let Some(group) = self.group.take() else {
            return;
        };
        // The group has no process if none could be forked.
        let _ = process::kill_group(group, process::KILL);
        while matches!(process::reap_any(true), Ok(WaitResult::Ended(..))) {}
    }

    fn release(mut self) {
        self.kill();
    }
}

/// Repeats a small operation until `amount` is reached or the load must stop.
fn each(
    amount: u64,
    go_on: GoOn<'_>,
    mut operation: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    for index in 0..amount {
        if index % BETWEEN_CHECKS == 0 && !go_on() {
            break;
        }
        operation()?;
    }
    Ok(())
}

fn each_of<T>(
    items: &[T],
    go_on: GoOn<'_>,
    mut operation: impl FnMut(&T) -> io::Result<()>,
) -> io::Result<()> {
    let mut items = items.iter();
    each(items.len() as u64, go_on, || {
        items.next().map_or(Ok(()), &mut operation)
    })
}

/// Forks a child that runs `child`, in the process group of all children.
fn adopt(group: &mut Option<i32>, child: impl FnOnce() -> i32) -> io::Result<()> {
    let pid = process::fork(|| {
        // If there is no PID namespace and only the worker is killed, only this signal ends the
        // child.
        match process::set_parent_death_signal(process::KILL) {
            Ok(()) => child(),
            Err(_) => 1,
        }
    })?;
    let group = *group.get_or_insert(pid);
    process::join_group(pid, group)
}

fn sleep_for_life() -> i32 {
    i32::from(sleep_until(clock::monotonic() + LIFE_MAX.get()).is_err())
}

fn listen(pipe: &PipeReader) -> i32 {
    let end = clock::monotonic() + LIFE_MAX.get();
    loop {
        let left = end - clock::monotonic();
        if left <= 0 {
            return 0;
        }
        let wait = Some(Duration::from_nanos(left.unsigned_abs()));
        if signal::wait_readable_within(&[pipe.as_fd()], wait).is_err() {
            return 1;
        }
    }
}

fn sleep_until(due: i64) -> io::Result<()> {
    clock::sleep_until(&Instant::from_nanos(due))
}

/// Runs a process whose threads wait for one futex, and wakes all of them with one call.
fn threads(amount: u64) -> io::Result<()> {
    let child = process::fork(|| {
        let parent = process::set_parent_death_signal(process::KILL);
        i32::from(parent.and_then(|()| wake_threads(amount)).is_err())
    })?;
    process::reap(child, true).map(drop)
}

fn wake_threads(amount: u64) -> io::Result<()> {
    static ARRIVED: AtomicU32 = AtomicU32::new(0);
    static WORD: AtomicU32 = AtomicU32::new(0);
    for _ in 0..amount {
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(|| {
                ARRIVED.fetch_add(1, Ordering::Relaxed);
                while WORD.load(Ordering::Acquire) == 0 {
                    if futex::wait(&WORD, 0).is_err() {
                        return;
                    }
                }
            })?;
    }
    while u64::from(ARRIVED.load(Ordering::Relaxed)) < amount {
        std::thread::sleep(Duration::from_micros(100));
    }
    WORD.store(1, Ordering::Release);
    futex::wake(&WORD, i32::MAX).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_on_the_grid_and_later() {
        let mut state = State::new().unwrap();
        assert_eq!(state.moment_after(0), GRID);
        state.offset = 250_000;
        assert_eq!(state.moment_after(0), 250_000);
        assert_eq!(state.moment_after(250_000), GRID + 250_000);
        assert_eq!(state.moment_after(7 * GRID + 1), 7 * GRID + 250_000);
    }

    /// Operations that fork need a process with one thread. The lab's test of the hunt executes
    /// these operations.
    #[test]
    fn every_operation_without_a_process_can_be_executed() {
        let program: Program = "map=8,protect,discard,map-huge=2,unmap,write=1,read,truncate,\
                                duplicate=9,close,watch=5,poke,timers=3,timer-files=5,signal,kill,\
                                sleep=1,align=999"
            .parse()
            .unwrap();
        let mut state = State::new().unwrap();
        for step in &program.0 {
            state.execute(step, &mut || true).unwrap();
        }
        assert_eq!((state.areas.len(), state.sets.len()), (1, 5));
        assert_eq!(state.file.metadata().unwrap().len(), 0);
        state.release();
    }
}
