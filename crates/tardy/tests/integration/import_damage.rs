//! Tests the import of damaged output of other tools. Readers do not panic: a reader either refuses
//! the file with its name and line or creates a run that can be read like any other.
//! `cargo +nightly fuzz run import` does the same with many more bytes.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use rand::{RngExt, SeedableRng};
use tardy_core::histogram::Histogram;
use tardy_core::sample::Record;
use tardy_core::series::Descriptor;
use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_formats::import::folder_sink::import;
use tardy_formats::import::sink::Sink;
use tardy_formats::import::{FORMATS, ImportError, Settings, Source, Unit};
use tardy_results::statistics::read::{Question, statistics};
use tardy_results::summary::read::read;
use tardy_run::imported::StatedTotals;

use crate::import::sample;
use crate::support;

/// A change to a file's bytes.
#[derive(Debug, Clone)]
enum Damage {
    /// One byte is replaced.
    Byte(Index, u8),
    /// The rest of the file is removed.
    Cut(Index),
    /// Some bytes are removed.
    Hole(Index, usize),
    /// Some bytes are repeated.
    Again(Index, usize),
    /// The next number is replaced by this number, or by text like a number.
    Number(Index, &'static str),
}

fn damage() -> impl Strategy<Value = Damage> {
    let numbers = [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "1e308",
        "nan",
        "99999999999999999999999",
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), 1..80_usize).prop_map(|(at, length)| Damage::Hole(at, length)),
        (any::<Index>(), 1..200_usize).prop_map(|(at, length)| Damage::Again(at, length)),
        (any::<Index>(), proptest::sample::select(numbers.to_vec()))
            .prop_map(|(at, number)| Damage::Number(at, number)),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match self {
            Self::Byte(at, byte) if !bytes.is_empty() => *at.get_mut(bytes) = *byte,
            Self::Byte(..) => {}
            Self::Cut(at) => bytes.truncate(place(at)),
            Self::Hole(at, length) => {
                drop(bytes.drain(place(at)..(place(at) + length).min(bytes.len())))
            }
            Self::Again(at, length) => {
                let from = place(at);
                bytes.extend_from_within(from..(from + length).min(bytes.len()));
            }
            Self::Number(at, number) => {
                // Replaces the next number, if there is one.
                let from = place(at);
                let is_part = |byte: &u8| byte.is_ascii_digit() || b".-+e".contains(byte);
                let begin = from
                    + bytes[from..]
                        .iter()
                        .position(u8::is_ascii_digit)
                        .unwrap_or(0);
                let end = begin
                    + bytes[begin..]
                        .iter()
                        .position(|byte| !is_part(byte))
                        .unwrap_or(bytes.len() - begin);
                drop(bytes.splice(begin..end, number.bytes()));
            }
        }
    }
}

/// Name and bytes of every test file. Long files are cut; readers accept the beginning as a shorter
/// file.
fn samples() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/import");
    let mut samples = Vec::new();
    let others = ["import-cases", "import-posted"].map(|name| folder.with_file_name(name));
    let entries = [folder]
        .into_iter()
        .chain(others)
        .flat_map(|folder| fs::read_dir(folder).unwrap());
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let mut bytes = fs::read(entry.path()).unwrap();
        bytes.truncate(28 * 600);
        samples.push((name, bytes));
    }
    samples.sort();
    samples
}

/// Checks that an error names a position in the file, or the flag for a value that the file lacks.
fn assert_names_the_place(error: &ImportError, file: &Path, bytes: &[u8]) {
    let text = error.to_string();
    assert!(text.starts_with(&file.display().to_string()), "{text}");
    match error {
        ImportError::Expected { line, .. } => {
            let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
            assert!((1..=lines).contains(line), "line {line} of {lines}: {text}");
            assert!(
                text.contains(&format!(": line {line}: expected ")) && text.contains(", found "),
                "{text}"
            );
        }
        ImportError::ExpectedAt { byte, .. } => {
            assert!(
                *byte <= bytes.len() as u64,
                "byte {byte} of {}: {text}",
                bytes.len()
            );
            assert!(
                text.contains(&format!(": byte {byte}: expected ")),
                "{text}"
            );
        }
        ImportError::Ask { flag, .. } => assert!(
            text.contains("does not state") && text.ends_with(flag),
            "{text}"
        ),
        ImportError::Empty { .. } => assert!(
            bytes.is_empty() && text.ends_with("the file is empty: there is nothing to import"),
            "{text}"
        ),
        ImportError::Unknown { .. } | ImportError::Mixed { .. } => {
            assert!(text.contains("--as"), "{text}");
        }
        ImportError::Several { .. } | ImportError::SinglePart { .. } => {
            assert!(text.contains("--part"), "{text}");
        }
        ImportError::Refused { tool, why, .. } => {
            assert!(text.ends_with(&format!("this is {tool}: {why}")), "{text}");
        }
        ImportError::Unreadable { .. }
        | ImportError::Unwritable { .. }
        | ImportError::Folder(_) => panic!("{text}"),
    }
}

/// Imports `bytes` as `format`, or as the detected format, and reads the resulting run.
fn check(bytes: &[u8], format: Option<usize>, settings: &Settings) {
    let place = tempfile::tempdir().unwrap();
    let (file, out) = (place.path().join("damaged"), place.path().join("run"));
    fs::write(&file, bytes).unwrap();
    match import(&file, format.map(|format| &FORMATS[format]), settings, &out) {
        Err(error) => {
            assert_names_the_place(&error, &file, bytes);
            assert_eq!(
                fs::read_dir(place.path()).unwrap().count(),
                1,
                "only the file is left"
            );
        }
        Ok(made) => {
            let run = read(&out, &Requirement::default()).unwrap();
            let summary = run.summary();
            assert_eq!(summary.series.len(), made.series);
            for series in &summary.series {
                assert!(series.counts.is_exact(), "{:?}", series.counts);
                if let Some(numbers) = &series.numbers {
                    assert!(numbers.min_ns <= numbers.max_ns, "{numbers:?}");
                }
            }
            statistics(&run, &Question::default()).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(400), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_named_with_its_place_or_read_as_a_run(
        sample in any::<Index>(),
        damages in proptest::collection::vec(damage(), 1..6),
        format in proptest::option::of(0..FORMATS.len()),
        is_said in any::<bool>(),
    ) {
        let said = Settings { unit: Some(Unit::Us), period: Some(Nanos(1_000_000)), column: Some("2".to_owned()), part: None };
        let samples = samples();
        let (_, mut bytes) = sample.get(&samples).clone();
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        check(&bytes, format, &if is_said { said } else { Settings::default() });
    }
}

/// An empty file has no lines, so no error may name a line.
#[test]
fn an_empty_file_is_called_empty_whatever_it_is_taken_for() {
    for format in (0..FORMATS.len()).map(Some).chain([None]) {
        check(b"", format, &Settings::default());
        check(b"\n", format, &Settings::default());
    }
}

/// Inputs that made a reader fail, found by fuzzing or by review.
#[test]
fn what_once_made_a_reader_fail_is_named_or_read() {
    let said = Settings {
        unit: Some(Unit::Us),
        period: Some(Nanos(1_000_000)),
        column: Some("2".to_owned()),
        part: None,
    };
    for text in [
        // Numbers that overflow: counts, and the lower end of oslat's last bucket.
        "oslat V 2.40\n Core:\t 1\n 001 (us):\t 18446744073709551615\n 001 (us):\t \
         18446744073709551615\n Maximum:\t 9 (us)\n",
        "oslat V 2.40\n Core:\t 1\n -9223372036854775 (us):\t 1\n Maximum:\t 9 (us)\n",
        // A CPU number that is too large for a list of CPUs.
        "T: 0 ( 1234) P:95 I:1000 C: 500 Min: 3 Act: 20 Avg: 23 Max: 200\nT:39936 ( 1234) P:95 \
         I:1000 C: 500 Min: 3 Act: 20 Avg: 23 Max: 200\n",
        // A minimum above the maximum.
        "T: 0 ( 1234) P:95 I:1000 C: 500 Min: 30 Act: 20 Avg: 23 Max: 2\n",
    ] {
        check(text.as_bytes(), None, &said);
        check(text.as_bytes(), None, &Settings::default());
    }
    // One due time in a raw file is earlier than the one before. The error names the byte of the
    // row, because the file has no lines.
    let raw: Vec<u8> = (0..1_100_u64)
        .flat_map(|row| {
            let nanos = if row == 1_050 {
                500_000
            } else {
                500_000 * (row + 1)
            };
            [
                &0_u32.to_le_bytes()[..],
                &1_u64.to_le_bytes(),
                &nanos.to_le_bytes()[..],
                &5_u64.to_le_bytes(),
            ]
            .concat()
        })
        .collect();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("samples.raw");
    fs::write(&file, &raw).unwrap();
    let settings = Settings {
        unit: Some(Unit::Us),
        ..Settings::default()
    };
    let error = import(&file, None, &settings, &place.path().join("run")).unwrap_err();
    assert!(
        matches!(error, ImportError::ExpectedAt { byte, .. } if byte == 1_050 * 28),
        "{error}"
    );
}

/// Discards all samples, and counts only the series.
struct NullSink(usize);

impl Sink for NullSink {
    fn open(&mut self, _: Descriptor) -> std::io::Result<usize> {
        self.0 += 1;
        Ok(self.0 - 1)
    }

    fn push(&mut self, series: usize, _: Record) -> std::io::Result<()> {
        assert!(series < self.0);
        Ok(())
    }

    fn state(&mut self, series: usize, _: StatedTotals) {
        assert!(series < self.0);
    }

    fn whole(
        &mut self,
        _: Descriptor,
        histogram: &Histogram,
        _: StatedTotals,
    ) -> std::io::Result<()> {
        let _ = (histogram.count(), histogram.max());
        self.0 += 1;
        Ok(())
    }
}

#[test]
fn no_damage_to_a_sample_makes_any_reader_panic() {
    let mut random = rand_pcg::Pcg64::seed_from_u64(1);
    for name in support::workplace::names(&sample("")) {
        let mut whole = std::fs::read(sample(&name)).unwrap();
        whole.truncate(20_000);
        for _ in 0..75 {
            let mut bytes = whole.clone();
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..5) {
                    0 => bytes[at] = random.random(),
                    1 => bytes.truncate(at.max(1)),
                    2 => drop(bytes.splice(at..at, std::iter::repeat_n(b'9', 25))),
                    3 => drop(bytes.drain(at..(at + 40).min(bytes.len()))),
                    _ => bytes.extend_from_slice(&whole[..at.min(whole.len())]),
                }
                if bytes.is_empty() {
                    bytes.push(b'\n');
                }
            }
            for format in FORMATS {
                for settings in [
                    Settings::default(),
                    Settings {
                        unit: Some(Unit::Us),
                        period: Some(Nanos(1_000_000)),
                        ..Settings::default()
                    },
                ] {
                    let _ = format.read(
                        &mut Source::of_bytes(bytes.clone()),
                        &settings,
                        &mut NullSink(0),
                    );
                }
            }
        }
    }
}
