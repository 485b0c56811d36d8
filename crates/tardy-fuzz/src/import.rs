//! The readers of other tools' output must not panic on any bytes in any format. An imported run
//! must be the same when it is read back after it was stored.

use std::io;
use std::path::Path;

use serde::Serialize;
use tardy_core::accounting::Counts;
use tardy_core::chunk::{CHUNK_HEAD_BYTES, Chunk, ChunkEncoder};
use tardy_core::histogram::Histogram;
use tardy_core::sample::{Record, Sample};
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_formats::import::sink::Sink;
use tardy_formats::import::{FORMATS, Settings, Source, Unit};
use tardy_run::imported::StatedTotals;
use tardy_samples::far_time::far_time;
use tardy_samples::histogram_file;

const SAMPLES_A_CHUNK: u64 = 4096;

/// A sink that encodes samples as a run folder does, reads them back to check them, and discards
/// them.
#[derive(Default)]
struct SampleStore {
    series: Vec<Series>,
    bytes: Vec<u8>,
}

struct Series {
    descriptor: Descriptor,
    encoder: ChunkEncoder,
    samples: Vec<Sample>,
}

impl SampleStore {
    /// Ends the current chunk, and checks that it is read back as it was written.
    fn close(&mut self, series: usize) {
        let Series {
            descriptor,
            encoder,
            samples,
        } = &mut self.series[series];
        self.bytes.clear();
        encoder.finish(&Counts::default(), false, &mut self.bytes);
        let mut chunk = Chunk::default();
        chunk
            .decode(&self.bytes[CHUNK_HEAD_BYTES..])
            .expect("written data can be read");
        assert!(
            chunk
                .samples(&descriptor.schedule)
                .map(|(_, sample)| sample)
                .eq(samples.drain(..))
        );
    }
}

impl Sink for SampleStore {
    fn open(&mut self, descriptor: Descriptor) -> io::Result<usize> {
        assert_is_near(&descriptor);
        let encoder = ChunkEncoder::new(&descriptor);
        self.series.push(Series {
            descriptor,
            encoder,
            samples: Vec::new(),
        });
        Ok(self.series.len() - 1)
    }

    fn push(&mut self, place: usize, record: Record) -> io::Result<()> {
        let series = &mut self.series[place];
        if let Record::Sample(sample) = record {
            // The summary computes the wake-up time of every sample, so this must not overflow.
            let _ = sample.wake();
            series.samples.push(sample);
        }
        series.encoder.push(record);
        if series.encoder.samples() >= SAMPLES_A_CHUNK {
            self.close(place);
        }
        Ok(())
    }

    fn state(&mut self, series: usize, stated: StatedTotals) {
        assert!(series < self.series.len());
        assert_is_near(&stated);
    }

    fn whole(
        &mut self,
        descriptor: Descriptor,
        histogram: &Histogram,
        stated: StatedTotals,
    ) -> io::Result<()> {
        assert_is_near(&stated);
        let _ = (
            histogram.count(),
            histogram.max(),
            histogram_file::encode(histogram, Path::new("fuzz.histogram")),
        );
        self.open(descriptor).map(|_| ())
    }
}

/// Checks that readers of runs accept the stored times.
fn assert_is_near(stored: &impl Serialize) {
    let stored = serde_json::to_value(stored).expect("all keys are text");
    assert_eq!(far_time(&stored), None, "{stored}");
}

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    // The first byte selects the format: `a` the first one, and so on; the letter after the last
    // format selects detection. The remaining bytes are the file. The file is read without
    // settings, and then with settings for the information that it may lack.
    let Some((&choice, file)) = bytes.split_first() else {
        return;
    };
    let choice = usize::from(choice.wrapping_sub(b'a')) % (FORMATS.len() + 1);
    let said = Settings {
        unit: Some(Unit::Us),
        period: Some(Nanos(1_000_000)),
        column: Some("2".to_owned()),
        part: None,
    };
    let without_times = Settings {
        unit: Some(Unit::Ns),
        ..Settings::default()
    };
    for settings in [Settings::default(), said, without_times] {
        let mut source = Source::of_bytes(file.to_vec());
        let detected = source.detect().ok();
        if let Some(format) = FORMATS.get(choice).or(detected) {
            let mut stored = SampleStore::default();
            if format.read(&mut source, &settings, &mut stored).is_ok() {
                (0..stored.series.len()).for_each(|series| stored.close(series));
            }
        }
    }
}
