//! Switches between processes. A token goes round a ring of pipes, and each process reads all of
//! its memory before it passes the token on.
//!
//! To get the cost of the switches alone, the cost of the same writes, reads and memory reads in a
//! single process is subtracted. To subtract this cost exactly, the costs with and without switches
//! are measured alternately, in short batches.
//!
//! The memory is read through atomics. With ordinary loads, the compiler could move a load out of
//! the loop in one of the two measurements and not in the other, and the subtracted cost would be
//! wrong.

use std::hint::black_box;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::clock;

use crate::metric::{Metric, Place, Unavailable, Work, share};
use crate::peer::Peer;

/// Number of rounds of the ring between two measurements of the cost without switches.
const STRETCH: u64 = 50;

const fn metric(
    name: &'static str,
    operation: &'static str,
    lmbench: &'static str,
    prepare: fn(&Place) -> Result<Box<dyn Work>, Unavailable>,
) -> Metric {
    Metric {
        name,
        group: Group::ContextSwitch,
        operation,
        bytes: None,
        state: CacheState::Warm,
        lmbench: Some(lmbench),
        prepare,
    }
}

/// A ring of two processes that read no memory.
pub(super) const OF_2_WITH_0K: Metric = metric(
    "switch-2p-0k",
    "switch in a ring of 2 processes",
    "lat_ctx -s 0 2",
    ring::<2, 0>,
);
/// A ring of two processes, each of which reads memory that fits into the first-level cache.
pub(super) const OF_2_WITH_16K: Metric = metric(
    "switch-2p-16k",
    "switch in a ring of 2 processes that read 16 KiB each",
    "lat_ctx -s 16 2",
    ring::<2, 16>,
);
/// A ring of two processes, each of which reads more memory than fits into the first-level cache.
pub(super) const OF_2_WITH_64K: Metric = metric(
    "switch-2p-64k",
    "switch in a ring of 2 processes that read 64 KiB each",
    "lat_ctx -s 64 2",
    ring::<2, 64>,
);
/// A ring of eight processes that read no memory.
pub(super) const OF_8_WITH_0K: Metric = metric(
    "switch-8p-0k",
    "switch in a ring of 8 processes",
    "lat_ctx -s 0 8",
    ring::<8, 0>,
);
/// A ring of eight processes that each read 16 KiB.
pub(super) const OF_8_WITH_16K: Metric = metric(
    "switch-8p-16k",
    "switch in a ring of 8 processes that read 16 KiB each",
    "lat_ctx -s 16 8",
    ring::<8, 16>,
);
/// A ring of eight processes that each read 64 KiB.
pub(super) const OF_8_WITH_64K: Metric = metric(
    "switch-8p-64k",
    "switch in a ring of 8 processes that read 64 KiB each",
    "lat_ctx -s 64 8",
    ring::<8, 64>,
);
/// A ring of sixteen processes that read no memory.
pub(super) const OF_16_WITH_0K: Metric = metric(
    "switch-16p-0k",
    "switch in a ring of 16 processes",
    "lat_ctx -s 0 16",
    ring::<16, 0>,
);
/// A ring of sixteen processes that each read 16 KiB.
pub(super) const OF_16_WITH_16K: Metric = metric(
    "switch-16p-16k",
    "switch in a ring of 16 processes that read 16 KiB each",
    "lat_ctx -s 16 16",
    ring::<16, 16>,
);
/// A ring of sixteen processes that each read 64 KiB.
pub(super) const OF_16_WITH_64K: Metric = metric(
    "switch-16p-64k",
    "switch in a ring of 16 processes that read 64 KiB each",
    "lat_ctx -s 64 16",
    ring::<16, 64>,
);

type Token = [u8; 4];

struct Ring {
    processes: u64,
    out: PipeWriter,
    back: PipeReader,
    /// Pipes that only this process writes to and reads from, to measure the cost without switches.
    alone: Vec<(PipeReader, PipeWriter)>,
    memory: Vec<AtomicU64>,
    _peers: Vec<Peer>,
}

fn ring<const PROCESSES: usize, const KIB: usize>(_: &Place) -> Result<Box<dyn Work>, Unavailable> {
    let pipe = || io::pipe().map_err(Unavailable::system("make pipes"));
    let (mut from, out) = pipe()?;
    let mut peers = Vec::new();
    for _ in 1..PROCESSES {
        let (next, mut to) = pipe()?;
        let mut own = std::mem::replace(&mut from, next);
        peers.push(Peer::start(move || {
            // The memory is allocated and written after the fork. Memory from before the fork would
            // be shared, even in the caches.
            let memory = memory(KIB);
            let mut token = Token::default();
            loop {
                own.read_exact(&mut token)?;
                read(&memory);
                to.write_all(&token)?;
            }
        })?);
    }
    let alone = (0..PROCESSES)
        .map(|_| pipe())
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(Ring {
        processes: PROCESSES as u64,
        out,
        back: from,
        alone,
        memory: memory(KIB),
        _peers: peers,
    }))
}

fn memory(kib: usize) -> Vec<AtomicU64> {
    (0..kib * 1024 / size_of::<AtomicU64>())
        .map(|_| AtomicU64::new(1))
        .collect()
}

/// Reads every word on each call, because the words are atomic. If they were plain integers, the
/// compiler could compute the sum only once in one of the processes, and on each call in another.
fn read(memory: &[AtomicU64]) {
    black_box(memory.iter().fold(0, |sum: u64, word| {
        sum.wrapping_add(word.load(Ordering::Relaxed))
    }));
}

impl Ring {
    fn turns(&mut self, turns: u64) -> io::Result<()> {
        let mut token = Token::default();
        for _ in 0..turns {
            self.out.write_all(&token)?;
            self.back.read_exact(&mut token)?;
            read(&self.memory);
        }
        Ok(())
    }

    fn turns_alone(&mut self, turns: u64) -> io::Result<()> {
        let mut token = Token::default();
        for _ in 0..turns {
            for (from, to) in &mut self.alone {
                to.write_all(&token)?;
                from.read_exact(&mut token)?;
                read(&self.memory);
            }
        }
        Ok(())
    }
}

impl Work for Ring {
    /// Runs whole rounds of the ring, and the same number of rounds without switches. Returns the
    /// difference between the two times, scaled to the requested number of switches.
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let turns = operations.div_ceil(self.processes);
        let (mut took, mut left) = (0, turns);
        while left > 0 {
            let stretch = left.min(STRETCH);
            let begin = clock::monotonic();
            self.turns(stretch)?;
            let middle = clock::monotonic();
            self.turns_alone(stretch)?;
            took += middle - begin - (clock::monotonic() - middle);
            left -= stretch;
        }
        Ok(share(Nanos(took), operations, turns * self.processes))
    }
}
