//! `cargo +nightly fuzz run import`: no bytes make a reader of other tools' output panic, whatever they are taken for.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use tardy::import::record::Stated;
use tardy::import::sink::Sink;
use tardy::import::{FORMATS, Settings, Source, Unit};
use tardy_core::histogram::Histogram;
use tardy_core::sample::Record;
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;

/// Takes everything and keeps nothing, but for how many series there are.
struct Nowhere(usize);

impl Sink for Nowhere {
    fn open(&mut self, _: Descriptor) -> io::Result<usize> {
        self.0 += 1;
        Ok(self.0 - 1)
    }

    fn push(&mut self, series: usize, record: Record) -> io::Result<()> {
        assert!(series < self.0);
        if let Record::Sample(sample) = record {
            // What the summary does with every sample.
            let _ = sample.wake();
        }
        Ok(())
    }

    fn state(&mut self, series: usize, _: Stated) {
        assert!(series < self.0);
    }

    fn whole(&mut self, _: Descriptor, histogram: &Histogram, _: Stated) -> io::Result<()> {
        let _ = (histogram.count(), histogram.max());
        self.0 += 1;
        Ok(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses the format; the rest is the file, read with and without what it may not say.
    let Some((&choice, file)) = bytes.split_first() else { return };
    let said = Settings { unit: Some(Unit::Us), period: Some(Nanos(1_000_000)) };
    for settings in [Settings::default(), said] {
        let mut source = Source::of_bytes(file.to_vec());
        let detected = source.detect().ok();
        let chosen = FORMATS.get(usize::from(choice)).or(detected);
        if let Some(format) = chosen {
            let _ = (format.read)(&mut source, &settings, &mut Nowhere(0));
        }
    }
});
