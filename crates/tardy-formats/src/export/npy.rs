//! Writes the samples of one probe as a NumPy array of records (format 1.0, numpy.lib.format):
//! `numpy.load(file)["latency_ns"]`.

use std::io::Write;

use super::run::ExportedRun;
use super::{ExportError, Exporter, Options};

/// `--format npy`.
pub(super) struct Npy;

/// `cpu` is -1 for a thread that is not bound to a CPU. `copy` tells apart the threads of a probe
/// that are not bound to CPUs; it is -1 for all other threads. Due times count from the start of
/// the run.
const FIELDS: &str = "[('cpu', '<i4'), ('copy', '<i4'), ('due_ns', '<i8'), ('latency_ns', '<i8'), \
                      ('skipped', '<u4')]";
/// The header is padded to a multiple of this number of bytes.
const ALIGNMENT: usize = 64;

impl Exporter for Npy {
    fn name(&self) -> &'static str {
        "npy"
    }

    fn about(&self) -> &'static str {
        "samples of one probe as a NumPy array of records: cpu, copy, due_ns, latency_ns, skipped"
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(
        &self,
        run: &ExportedRun,
        _: &Options,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        run.one_probe("npy")?;
        run.needs_samples()?;
        let mut samples = 0;
        for series in &run.series {
            samples += series.stored()?;
        }
        out.write_all(&head(samples))?;
        let start = run.record.started.monotonic_ns;
        for series in &run.series {
            let number = |number: Option<u32>| {
                number
                    .and_then(|number| i32::try_from(number).ok())
                    .unwrap_or(-1)
                    .to_le_bytes()
            };
            let (cpu, copy) = (
                number(series.descriptor.cpu.map(|cpu| cpu.0)),
                number(series.descriptor.copy),
            );
            series.samples(|sample| {
                out.write_all(&cpu)?;
                out.write_all(&copy)?;
                out.write_all(&sample.due.get().wrapping_sub(start.get()).to_le_bytes())?;
                out.write_all(&sample.latency.get().to_le_bytes())?;
                out.write_all(&sample.skipped.to_le_bytes())
            })?;
        }
        Ok(())
    }
}

fn head(samples: u64) -> Vec<u8> {
    let mut dictionary =
        format!("{{'descr': {FIELDS}, 'fortran_order': False, 'shape': ({samples},), }}");
    let unpadded = 10 + dictionary.len() + 1;
    dictionary.extend(std::iter::repeat_n(
        ' ',
        unpadded.next_multiple_of(ALIGNMENT) - unpadded,
    ));
    dictionary.push('\n');
    let length =
        u16::try_from(dictionary.len()).expect("the head of the array takes a few hundred bytes");
    [
        b"\x93NUMPY\x01\x00".as_slice(),
        &length.to_le_bytes(),
        dictionary.as_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_aligned_and_says_its_length() {
        for samples in [0, 7, u64::MAX] {
            let head = head(samples);
            assert_eq!(head.len() % ALIGNMENT, 0);
            assert_eq!(
                usize::from(u16::from_le_bytes([head[8], head[9]])) + 10,
                head.len()
            );
            assert!(
                head.ends_with(b"\n")
                    && String::from_utf8_lossy(&head).contains(&format!("({samples},)"))
            );
        }
    }
}
