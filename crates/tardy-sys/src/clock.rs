//! Clocks and absolute sleeps: clock_gettime(2), clock_nanosleep(2).
//!
//! Sleeps call the kernel without the C library. The wrapper of glibc is a cancellation point, and
//! takes 50 user instructions more than the system call. The measuring loop cannot afford these,
//! because its number of instructions per sample is limited.

use std::io;
use std::mem::MaybeUninit;

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// A clock on which timers can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// CLOCK_MONOTONIC.
    Monotonic,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_TAI.
    Tai,
}

impl Clock {
    /// Returns the clock's number in system calls.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Tai => libc::CLOCK_TAI,
        }
    }

    /// Returns the clock's time in ns.
    #[must_use]
    pub fn now(self) -> i64 {
        read(self.number())
    }

    /// Returns the exact time by which the clock is ahead of CLOCK_MONOTONIC, in ns.
    #[must_use]
    pub fn ahead(self) -> i64 {
        match self {
            Self::Monotonic => 0,
            Self::Realtime => realtime_ahead(),
            // A leap second changes both values at once, so they are read again until they stay the
            // same.
            Self::Tai => loop {
                let (before, seconds) = (realtime_ahead(), tai_offset());
                if realtime_ahead() == before && tai_offset() == seconds {
                    return before + seconds * NANOS_PER_SEC;
                }
            },
        }
    }
}

/// Returns by how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, in ns. The kernel advances the
/// coarse versions of both clocks together at its ticks. If one of them has the same value before
/// and after the other is read, the difference between the two values is exact.
fn realtime_ahead() -> i64 {
    loop {
        let before = read(libc::CLOCK_MONOTONIC_COARSE);
        let realtime = read(libc::CLOCK_REALTIME_COARSE);
        if read(libc::CLOCK_MONOTONIC_COARSE) == before {
            return realtime - before;
        }
    }
}

/// Returns by how much CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, in ns: the time in suspend.
/// CLOCK_BOOTTIME has no coarse version. Therefore both clocks are read several times in pairs, and
/// the pair whose readings are closest in time is used. The error is about 50 ns. An offset below a
/// millisecond is returned as 0.
#[must_use]
pub fn boottime_ahead() -> i64 {
    let pair = || {
        let before = monotonic();
        let boottime = read(libc::CLOCK_BOOTTIME);
        let after = monotonic();
        (after - before, boottime - before - (after - before) / 2)
    };
    let (_, ahead) = (0..5).map(|_| pair()).min().unwrap_or_default();
    if ahead < NANOS_PER_SEC / 1000 {
        0
    } else {
        ahead
    }
}

/// Returns by how many seconds CLOCK_TAI is ahead of CLOCK_REALTIME: 37 since 2017, or 0 if the
/// offset was never set.
#[must_use]
pub fn tai_offset() -> i64 {
    // SAFETY: timex is plain data, for which zeros are valid.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is valid and writable; without modes nothing is changed, and the call cannot
    // fail.
    unsafe { libc::adjtimex(&mut state) };
    i64::from(state.tai)
}

/// Sets by how many seconds CLOCK_TAI is ahead of CLOCK_REALTIME. Programs for time synchronisation
/// do this; the tool itself never does.
///
/// # Errors
/// Returns EPERM without CAP_SYS_TIME.
pub fn set_tai_offset(seconds: i32) -> io::Result<()> {
    // SAFETY: timex is plain data, for which zeros are valid.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    state.modes = libc::ADJ_TAI;
    // The kernel takes the new offset from `constant` (kernel/time/ntp.c, process_adjtimex_modes).
    state.constant = seconds.into();
    // SAFETY: `state` is valid and writable, and its one mode needs no other field.
    crate::check(unsafe { libc::adjtimex(&mut state) }).map(drop)
}

/// Returns CLOCK_MONOTONIC in ns.
#[inline]
#[must_use]
pub fn monotonic() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns CLOCK_BOOTTIME in ns: CLOCK_MONOTONIC plus the time in suspend.
#[must_use]
pub fn boottime() -> i64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Returns CLOCK_REALTIME in ns since 1970. Use it for metadata only, because it can jump.
#[must_use]
pub fn realtime() -> i64 {
    read(libc::CLOCK_REALTIME)
}

/// Returns the CPU time that the calling thread has used, in ns.
#[must_use]
pub fn thread_cpu_time() -> i64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time that the process has used, in ns.
#[must_use]
pub fn process_cpu_time() -> i64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the time of day from gettimeofday(2), in ns since 1970. The resolution of this time is 1
/// us.
#[inline]
#[must_use]
#[allow(
    clippy::unnecessary_cast,
    reason = "time_t has 32 bits on some targets"
)]
pub fn time_of_day() -> i64 {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    // SAFETY: `time` is writable; a null time zone is allowed, and the call cannot fail then.
    unsafe { libc::gettimeofday(&mut time, std::ptr::null_mut()) };
    time.tv_sec as i64 * NANOS_PER_SEC + time.tv_usec as i64 * 1000
}

/// Returns the CPU time that another thread of this process has used, in ns.
///
/// # Errors
/// Returns EINVAL if the thread has ended.
pub fn cpu_time_of_thread(tid: i32) -> io::Result<i64> {
    // The kernel's encoding of a thread's CPU clock: include/linux/posix-timers_types.h,
    // CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED.
    let clock = (!tid << 3) | 4 | 2;
    let mut time = MaybeUninit::uninit();
    // SAFETY: `time` is writable and large enough for a timespec; the kernel checks the clock's
    // number.
    crate::check(unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `time`.
    Ok(to_nanos(&unsafe { time.assume_init() }))
}

/// Returns the resolution of CLOCK_MONOTONIC timers in ns: 1 with high-resolution timers, otherwise
/// a tick.
///
/// # Errors
/// Returns the errors of clock_getres(2).
pub fn monotonic_resolution() -> io::Result<i64> {
    let mut time = MaybeUninit::uninit();
    // SAFETY: `time` is writable and large enough for a timespec.
    crate::check(unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled `time`.
    Ok(to_nanos(&unsafe { time.assume_init() }))
}

#[inline]
fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec. The clocks used in this file exist on every Linux, so the
    // call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    to_nanos(&time)
}

#[inline]
#[allow(
    clippy::unnecessary_cast,
    reason = "time_t has 32 bits on some targets"
)]
fn to_nanos(time: &libc::timespec) -> i64 {
    time.tv_sec as i64 * NANOS_PER_SEC + time.tv_nsec as i64
}

/// Converts ns to the kernel's structure.
pub(crate) fn timespec(nanos: i64) -> libc::timespec {
    libc::timespec {
        tv_sec: nanos.div_euclid(NANOS_PER_SEC) as _,
        tv_nsec: nanos.rem_euclid(NANOS_PER_SEC) as _,
    }
}

/// A point in time, both in ns and as the kernel's structure. Advancing it needs no division, and
/// reading it needs no multiplication.
#[derive(Debug, Clone, Copy)]
pub struct Instant {
    nanos: i64,
    time: libc::timespec,
}

impl Instant {
    /// Returns the point in time that is `nanos` ns after the clock's start.
    #[must_use]
    pub fn from_nanos(nanos: i64) -> Self {
        Self {
            nanos,
            time: timespec(nanos),
        }
    }

    /// Returns the time since the clock's start in ns.
    #[inline]
    #[must_use]
    pub fn to_nanos(self) -> i64 {
        self.nanos
    }

    /// Advances by `step`. This needs no division if `step` is at least 0 and below one second.
    #[inline]
    pub fn advance(&mut self, step: i64) {
        if !(0..NANOS_PER_SEC).contains(&step) {
            self.advance_far(step);
            return;
        }
        self.nanos += step;
        self.time.tv_nsec += step as libc::c_long;
        if self.time.tv_nsec >= NANOS_PER_SEC as libc::c_long {
            self.time.tv_nsec -= NANOS_PER_SEC as libc::c_long;
            self.time.tv_sec += 1;
        }
    }

    /// This code is not inlined into [`Self::advance`], because its division would take registers
    /// and cost instructions per sample in the measuring loop.
    #[cold]
    #[inline(never)]
    fn advance_far(&mut self, step: i64) {
        *self = Self::from_nanos(self.nanos + step);
    }
}

/// Sleeps until `due` on CLOCK_MONOTONIC. If a signal interrupts the sleep, the sleep continues.
///
/// # Errors
/// Returns the errors of clock_nanosleep(2) except EINTR.
#[inline]
pub fn sleep_until(due: &Instant) -> io::Result<()> {
    loop {
        match nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &due.time) {
            0 => return Ok(()),
            error if error == -i64::from(libc::EINTR) => {}
            error => return Err(io::Error::from_raw_os_error(-(error as i32))),
        }
    }
}

/// Sleeps until `due`, in ns of `clock`.
///
/// # Errors
/// Returns the errors of clock_nanosleep(2), including EINTR, so the caller can check whether the
/// clock was set.
#[inline]
pub fn sleep_until_on(clock: Clock, due: i64) -> io::Result<()> {
    match nanosleep(clock.number(), libc::TIMER_ABSTIME, &timespec(due)) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-(error as i32))),
    }
}

/// Sleeps for `duration` ns on `clock`; returns early, with `Ok`, when a signal interrupts it.
///
/// # Errors
/// Returns the errors of clock_nanosleep(2) except EINTR.
#[inline]
pub fn sleep_for(clock: Clock, duration: &Instant) -> io::Result<()> {
    match nanosleep(clock.number(), 0, &duration.time) {
        0 => Ok(()),
        error if error == -i64::from(libc::EINTR) => Ok(()),
        error => Err(io::Error::from_raw_os_error(-(error as i32))),
    }
}

/// Calls clock_nanosleep(clock, flags, time, NULL) without the C library. Returns 0, or a negative
/// errno.
#[cfg(target_arch = "x86_64")]
#[inline]
fn nanosleep(clock: libc::clockid_t, flags: libc::c_int, time: &libc::timespec) -> i64 {
    let result: i64;
    // SAFETY: the kernel reads one timespec at `time`, which is valid for the call; a null
    // remainder is allowed. On x86-64, the instruction clobbers rcx and r11, and both are declared.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_clock_nanosleep => result,
            in("rdi") i64::from(clock),
            in("rsi") i64::from(flags),
            in("rdx") std::ptr::from_ref(time),
            in("r10") 0_i64,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn nanosleep(clock: libc::clockid_t, flags: libc::c_int, time: &libc::timespec) -> i64 {
    let result: i64;
    // SAFETY: the kernel reads one timespec at `time`, which is valid for the call; a null
    // remainder is allowed. `svc` preserves all registers except x0.
    unsafe {
        std::arch::asm!(
            "svc #0",
            inlateout("x0") i64::from(clock) => result,
            in("x1") i64::from(flags),
            in("x2") std::ptr::from_ref(time),
            in("x3") 0_i64,
            in("x8") libc::SYS_clock_nanosleep,
            options(nostack),
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
fn nanosleep(clock: libc::clockid_t, flags: libc::c_int, time: &libc::timespec) -> i64 {
    // SAFETY: `time` is valid for the call and a null remainder is allowed.
    let result = unsafe { libc::clock_nanosleep(clock, flags, time, std::ptr::null_mut()) };
    -i64::from(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_sleep_never_ends_before_its_time() {
        let due = monotonic() + 2_000_000;
        sleep_until(&Instant::from_nanos(due)).unwrap();
        assert!(monotonic() >= due);
    }

    #[test]
    fn boot_time_lies_between_two_reads_of_the_monotonic_clock_moved_by_the_time_in_suspend() {
        let (ahead, before) = (boottime_ahead(), monotonic());
        let boottime = read(libc::CLOCK_BOOTTIME);
        let after = monotonic();
        let least = NANOS_PER_SEC / 1000;
        assert!(
            ahead >= 0 && before + ahead - least <= boottime && boottime <= after + ahead + least,
            "{before} {boottime} {after} {ahead}"
        );
    }

    #[test]
    fn each_clock_is_ahead_by_what_its_reads_say() {
        for clock in [Clock::Monotonic, Clock::Realtime, Clock::Tai] {
            // Another process may set the clock between the reads.
            let is_between = || {
                let (before, ahead) = (monotonic(), clock.ahead());
                let (now, after) = (clock.now(), monotonic());
                (before..=after).contains(&(now - ahead)) && ahead == clock.ahead()
            };
            assert!((0..100).any(|_| is_between()), "{clock:?}");
            let due = clock.now() + 1_000_000;
            sleep_until_on(clock, due).unwrap();
            assert!(monotonic() + clock.ahead() >= due, "{clock:?}");
            sleep_for(clock, &Instant::from_nanos(1000)).unwrap();
        }
    }

    #[test]
    fn a_time_that_is_no_time_is_an_error() {
        let mut bad = Instant::from_nanos(0);
        bad.time.tv_nsec = 2_000_000_000;
        assert_eq!(
            sleep_until(&bad).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(
            sleep_for(Clock::Monotonic, &bad)
                .unwrap_err()
                .raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn advancing_equals_adding() {
        let mut instant = Instant::from_nanos(1_999_999_999);
        for step in [0, 1, 999_999_999, 1_000_000, 5_000_000_001, -7_000_000_000] {
            let expected = instant.to_nanos() + step;
            instant.advance(step);
            assert_eq!(instant.to_nanos(), expected);
            assert_eq!(to_nanos(&instant.time), expected);
            assert!((0..1_000_000_000).contains(&instant.time.tv_nsec));
        }
    }

    #[test]
    fn cpu_clocks_of_threads_are_readable_and_dead_ones_are_an_error() {
        assert!(cpu_time_of_thread(crate::sched::thread_id()).unwrap() > 0);
        let ended = std::thread::spawn(crate::sched::thread_id).join().unwrap();
        assert_eq!(
            cpu_time_of_thread(ended).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert!(monotonic_resolution().unwrap() >= 1);
    }
}
