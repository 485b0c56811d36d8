//! Reads and writes one byte without a device, by alternating read(2) from /dev/zero and write(2)
//! to /dev/null.

use std::fs::File;
use std::io::{self, Read, Write};

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::clock;

use crate::metric::{Metric, Unavailable, Work};

pub(super) const METRIC: Metric = Metric {
    name: "null-io",
    group: Group::Processor,
    operation: "read 1 byte from /dev/zero, or write 1 byte to /dev/null, alternately",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_syscall read|write"),
    prepare: |_| {
        let zero = File::open("/dev/zero").map_err(Unavailable::system("open /dev/zero"))?;
        let null = File::options()
            .write(true)
            .open("/dev/null")
            .map_err(Unavailable::system("open /dev/null"))?;
        Ok(Box::new(NullIo { zero, null }))
    },
};

struct NullIo {
    zero: File,
    null: File,
}

impl Work for NullIo {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let mut byte = [0];
        let begin = clock::monotonic();
        for _ in 0..operations / 2 {
            self.zero.read_exact(&mut byte)?;
            self.null.write_all(&byte)?;
        }
        if operations % 2 == 1 {
            self.zero.read_exact(&mut byte)?;
        }
        Ok(Nanos(clock::monotonic() - begin))
    }
}
