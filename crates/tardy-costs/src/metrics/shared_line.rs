//! Lets two CPUs write a cache line alternately. Each CPU spins until its turn. The time that the
//! line takes to move to the other CPU is part of the cost of every contended lock and counter.

use std::hint::spin_loop;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::{affinity, clock};

use crate::metric::{Metric, Place, Unavailable, Work};
use crate::peer::Partner;

pub(super) const METRIC: Metric = Metric {
    name: "shared-line",
    group: Group::Today,
    operation: "pass a turn over one cache line to a thread that spins on another CPU, and back",
    bytes: None,
    state: CacheState::Warm,
    lmbench: None,
    prepare: |place| Ok(Box::new(Turns::start(place)?)),
};

const NEAR: u32 = 0;
const FAR: u32 = 1;
const NOBODY: u32 = 2;
/// Number of times that a CPU reads the line before it checks whether the other thread still
/// exists.
const LOOKS: u32 = 1_000_000;

/// A word with the alignment of two cache lines, because CPUs fetch lines in pairs.
#[repr(align(128))]
struct Line(AtomicU32);

struct Turns {
    line: Arc<Line>,
    partner: Partner,
}

impl Turns {
    fn start(place: &Place) -> Result<Self, Unavailable> {
        let other = place.other_cpu.ok_or_else(|| Unavailable::Missing {
            what: "there is only one CPU".to_owned(),
            remedy: "let the tool run on two CPUs (taskset, cpuset), or leave this metric out",
        })?;
        let line = Arc::new(Line(AtomicU32::new(NEAR)));
        let (far, last) = (Arc::clone(&line), Arc::clone(&line));
        let body = move |_: &AtomicBool| {
            affinity::set(0, &[other.0])?;
            loop {
                match far.0.load(Ordering::Acquire) {
                    FAR => far.0.store(NEAR, Ordering::Release),
                    NOBODY => return Ok(()),
                    _ => spin_loop(),
                }
            }
        };
        let partner = Partner::start(body, move || last.0.store(NOBODY, Ordering::Release))?;
        Ok(Self { line, partner })
    }
}

impl Work for Turns {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let begin = clock::monotonic();
        for _ in 0..operations {
            self.line.0.store(FAR, Ordering::Release);
            let mut looks = 0;
            while self.line.0.load(Ordering::Acquire) != NEAR {
                spin_loop();
                looks += 1;
                if looks % LOOKS == 0 && self.partner.has_ended() {
                    return Err(io::Error::other("the thread on the other CPU ended"));
                }
            }
        }
        Ok(Nanos(clock::monotonic() - begin))
    }
}
