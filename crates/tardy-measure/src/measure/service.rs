//! Reports the state of the run to the service manager (sd_notify(3)): that it has started to
//! measure, that it makes progress, and that it ends.
//!
//! If a run hangs, the manager's watchdog must stop it. If a thread fed the watchdog merely because
//! it is alive, a run that measures nothing would go unnoticed. So a separate thread on the
//! housekeeping CPUs feeds the watchdog, and only while the recorder takes samples from each ring
//! and the session's main loop runs. A series counts as hung if it pauses for longer than all of
//! these times: half of the manager's time-out, a second, and two periods of the series.
//!
//! The notifications use `std`'s datagram sockets and need no further crate. If the manager
//! restarts the service, the unit resumes the same run.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;
use tardy_sys::{affinity, clock, scoped};

use super::recorder::Progress;

/// Number of checks in the time that the manager allows between two notifications.
const LOOKS_A_TIMEOUT: i64 = 4;
/// Minimum and maximum time between two checks. The minimum applies even if the manager asks for
/// more frequent notifications.
const LOOK: (Nanos, Nanos) = (Nanos::from_millis(10), Nanos::from_secs(10));
/// Shortest pause after which a series is considered to hang. The recorder empties rings eight
/// times a second.
const STILL_MIN: Nanos = Nanos::from_secs(1);
const STACK_BYTES: usize = 256 << 10;

/// The manager that started this process, and its settings.
#[derive(Debug)]
pub(super) struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Time-out of the watchdog, after which the manager kills the process; absent if the manager
    /// has no watchdog for the process.
    timeout: Option<Nanos>,
}

/// Notifies the manager of the run's state.
#[derive(Debug)]
pub(super) struct ServiceNotifier {
    manager: Arc<ServiceManager>,
    turns: Arc<AtomicU64>,
    is_ending: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl ServiceManager {
    /// Returns the manager that started this process, according to the environment; `None` without
    /// one.
    pub(super) fn of_this_process() -> Option<Self> {
        let path = std::env::var_os("NOTIFY_SOCKET")?;
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(&path),
        };
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_meant =
            number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        let timeout = number("WATCHDOG_USEC").filter(|&us| is_meant && us > 0);
        let timeout =
            timeout.map(|us| Nanos(i64::try_from(us.saturating_mul(1000)).unwrap_or(i64::MAX)));
        let socket = UnixDatagram::unbound().ok()?;
        // The run must not wait for a manager that is slow to read.
        socket.set_nonblocking(true).ok()?;
        Some(Self {
            socket,
            address: address.ok()?,
            timeout,
        })
    }

    /// Sends a notification. The run continues if the manager is gone or does not listen.
    fn tell(&self, text: &str) {
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }
}

impl ServiceNotifier {
    /// Tells `manager` that the run has started to measure. Then feeds its watchdog from a thread
    /// on `cpus` as long as `progress` advances and [`Self::turn`] is called.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn start(
        manager: ServiceManager,
        cpus: &CpuList,
        run: &std::path::Path,
        progress: Arc<Mutex<Vec<Progress>>>,
    ) -> io::Result<Self> {
        let manager = Arc::new(manager);
        // A status text must be one line.
        let run = run.display().to_string().replace('\n', " ");
        manager.tell(&format!("READY=1\nSTATUS=Measuring into {run}"));
        let (turns, is_ending) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let Some(timeout) = manager.timeout else {
            return Ok(Self {
                manager,
                turns,
                is_ending,
                handle: None,
            });
        };
        let cpus: Vec<u32> = cpus.iter().map(|cpu| cpu.0).collect();
        let (told, turned, ending) = (
            Arc::clone(&manager),
            Arc::clone(&turns),
            Arc::clone(&is_ending),
        );
        let handle = std::thread::Builder::new()
            .name("tardy-service".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _ = affinity::set(0, &cpus);
                let look = Nanos(timeout.get() / LOOKS_A_TIMEOUT).clamp(LOOK.0, LOOK.1);
                let mut motion = Motion::new(Nanos(timeout.get() / 2).max(STILL_MIN));
                while !ending.load(Ordering::Acquire) {
                    let progress = progress
                        .lock()
                        .map(|progress| progress.clone())
                        .unwrap_or_default();
                    if motion.goes_on(
                        Nanos(clock::monotonic()),
                        turned.load(Ordering::Relaxed),
                        &progress,
                    ) {
                        told.tell("WATCHDOG=1");
                    }
                    std::thread::park_timeout(look.to_std());
                }
            });
        Ok(Self {
            manager,
            turns,
            is_ending,
            handle: Some(handle.map_err(scoped::refused)?),
        })
    }

    /// Records that the session's main loop has made another iteration.
    pub(super) fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the manager that the run ends. Afterwards, the manager's watchdog gets no more
    /// notifications.
    pub(super) fn finish(mut self) {
        self.end_thread();
        self.manager.tell("STOPPING=1");
    }

    fn end_thread(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if let Some(handle) = self.handle.take() {
            handle.thread().unpark();
            let _ = handle.join();
        }
    }
}

impl Drop for ServiceNotifier {
    fn drop(&mut self) {
        self.end_thread();
    }
}

/// The times at which the session and each series last made progress.
#[derive(Debug)]
struct Motion {
    still_max: Nanos,
    session: Option<Mover>,
    series: Vec<Mover>,
}

#[derive(Debug, Clone, Copy)]
struct Mover {
    count: u64,
    moved_at: Nanos,
}

impl Motion {
    /// A series is later considered to hang if its counter stays the same for longer than
    /// `still_max`, and also for longer than two periods of the series.
    fn new(still_max: Nanos) -> Self {
        Self {
            still_max,
            session: None,
            series: Vec::new(),
        }
    }

    /// Returns whether the session and all series still make progress at `now`. Ignores series with
    /// unknown due times, and those that have ended.
    fn goes_on(&mut self, now: Nanos, turns: u64, progress: &[Progress]) -> bool {
        let mut all = self
            .session
            .get_or_insert(Mover {
                count: turns,
                moved_at: now,
            })
            .goes_on(now, turns, self.still_max);
        self.series.resize(
            progress.len(),
            Mover {
                count: 0,
                moved_at: now,
            },
        );
        for (mover, series) in self.series.iter_mut().zip(progress) {
            let Some(period) = series.period.filter(|_| !series.is_closed) else {
                continue;
            };
            all &= mover.goes_on(
                now,
                series.counts.expected,
                self.still_max.max(period.saturating_add(period)),
            );
        }
        all
    }
}

impl Mover {
    fn goes_on(&mut self, now: Nanos, count: u64, still_max: Nanos) -> bool {
        if count != self.count {
            *self = Self {
                count,
                moved_at: now,
            };
        }
        now - self.moved_at <= still_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::accounting::Counts;

    const SECOND: i64 = 1_000_000_000;

    fn series(expected: u64, period: Option<Nanos>) -> Progress {
        let counts = Counts {
            expected,
            ..Counts::default()
        };
        Progress {
            probe: "cyclic".into(),
            cpu: None,
            counts,
            worst: None,
            period,
            is_closed: false,
        }
    }

    #[test]
    fn one_series_that_stands_still_takes_the_watchdog_from_the_run() {
        let mut motion = Motion::new(Nanos::from_secs(2));
        let period = Some(Nanos::from_millis(1));
        let mut answers = Vec::new();
        for second in 0..8 {
            let stands = 1000 * second.min(3);
            answers.push(motion.goes_on(
                Nanos(second as i64 * SECOND),
                second,
                &[series(1000 * second, period), series(stands, period)],
            ));
        }
        assert_eq!(answers, [true, true, true, true, true, true, false, false]);
        assert!(
            motion.goes_on(
                Nanos(8 * SECOND),
                8,
                &[series(8000, period), series(8000, period)]
            ),
            "it continues after that"
        );
    }

    #[test]
    fn a_session_that_hangs_loses_its_watchdog_though_samples_come() {
        let mut motion = Motion::new(Nanos::from_secs(2));
        let goes_on = |second: i64, motion: &mut Motion| {
            motion.goes_on(
                Nanos(second * SECOND),
                7,
                &[series(second as u64, Some(Nanos::from_millis(1)))],
            )
        };
        assert_eq!(
            [0, 2, 3].map(|second| goes_on(second, &mut motion)),
            [true, true, false]
        );
    }

    #[test]
    fn what_is_due_seldom_or_never_or_no_more_is_not_taken_for_hung() {
        let mut motion = Motion::new(Nanos::from_secs(2));
        let ended = Progress {
            is_closed: true,
            ..series(9, Some(Nanos::from_millis(1)))
        };
        let all = [
            series(1, Some(Nanos::from_secs(10))),
            series(0, None),
            ended,
        ];
        assert_eq!(
            [0, 5, 20, 21].map(|second| motion.goes_on(
                Nanos(second * SECOND),
                second as u64,
                &all
            )),
            [true, true, true, false]
        );
    }
}
