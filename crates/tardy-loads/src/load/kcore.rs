//! `kcore`: reads the whole memory through /proc/kcore (abeni2002, sections 3.2 and 4.2.1: a file
//! of 512 MB in /proc on a machine of 512 MB).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tardy_run::parameter::Parameter;

use super::Unsupported;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::{Resolution, Resource};
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "kcore",
    does: "repeatedly reads the system's memory through /proc/kcore",
    effect: "the kernel copies long ranges of its memory; `all` leaves this load out, because it \
             reads memory of every process and driver",
    source: "abeni2002",
    parameters: &[
        Parameter::bytes(
            "size",
            "bytes of memory to read in a pass",
            "512MiB",
            4 << 10,
            1 << 46,
        ),
        Parameter::bytes("block", "bytes of one read call", "1MiB", 512, 1 << 24),
        PASSES,
    ],
    can_do_harm: true,
    placement: Placement::EachCpu,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[],
        opens: "/proc/kcore for reading",
    },
    resolve,
    run: Run::Prepared(prepare),
};

const KCORE: &str = "/proc/kcore";

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    let kcore = resolution.host.proc.join("kcore");
    if !kcore.exists() {
        return Err(Unsupported::new(
            KCORE,
            "use a kernel with CONFIG_PROC_KCORE",
        ));
    }
    File::open(&kcore).map_err(|error| {
        Unsupported::new(
            format!("the right to read {KCORE} ({error})"),
            "run as root, without kernel lockdown",
        )
    })?;
    resolution.plan.budget.memory =
        resolution.fit("block", 1, Resource::Memory)? * resolution.workers();
    resolution.plan.budget.processes = resolution.workers();
    Ok(())
}

fn prepare(_: &mut Worker) -> Result<Job, WorkError> {
    let file = File::open(KCORE).doing("open /proc/kcore")?;
    Ok(Box::new(move |worker| run(worker, &file)))
}

fn run(worker: &mut Worker, file: &File) -> Result<(), WorkError> {
    let memory = memory(file).doing("find the memory in /proc/kcore")?;
    let block = worker.block();
    while worker.begin_pass() {
        let mut left = worker.number("size");
        for part in &memory {
            let mut read = 0;
            while read < part.bytes.min(left) && worker.go_on() {
                let bytes = (part.bytes.min(left) - read).min(block.len() as u64) as usize;
                match file.read_at(&mut block[..bytes], part.offset + read) {
                    Ok(0) => break,
                    Ok(count) => {
                        read += count as u64;
                        worker.did(1, count as u64);
                    }
                    Err(_) => {
                        worker.failed();
                        break;
                    }
                }
            }
            left -= read;
        }
    }
    Ok(())
}

/// A part of the file that contains memory. The other parts are holes of the kernel's address
/// space, which read as zeros.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    offset: u64,
    bytes: u64,
}

/// Maximum size of the file's ELF header and program headers. The headers need 56 bytes for each
/// range of memory.
const HEADERS_BYTES: usize = 64 << 10;

fn memory(file: &File) -> io::Result<Vec<Part>> {
    let mut headers = vec![0; HEADERS_BYTES];
    let read = file.read_at(&mut headers, 0)?;
    parts(&headers[..read])
        .filter(|parts| !parts.is_empty())
        .ok_or_else(|| io::Error::other("the ELF headers of /proc/kcore list no memory"))
}

/// Returns the segments that have a physical address. The kernel gives the address -1 to parts of
/// its address space that are not RAM, such as vmalloc and vmemmap (fs/proc/kcore.c,
/// `read_kcore_iter`). Returns `None` if the bytes are not ELF headers.
fn parts(headers: &[u8]) -> Option<Vec<Part>> {
    /// PT_LOAD of <elf.h>.
    const LOAD: u64 = 1;
    if headers.get(..4)? != b"\x7fELF" {
        return None;
    }
    let number = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        let taken = headers.get(at..at.checked_add(bytes)?)?;
        if cfg!(target_endian = "little") {
            word[..bytes].copy_from_slice(taken);
        } else {
            word[8 - bytes..].copy_from_slice(taken);
        }
        Some(u64::from_ne_bytes(word))
    };
    // Offsets of fields in Elf64_Ehdr and Elf64_Phdr, or in their 32-bit forms (elf(5)).
    let is_64 = headers.get(4)? == &2;
    let (word, table_at, entry_at, count_at) = if is_64 {
        (8, 32, 54, 56)
    } else {
        (4, 28, 42, 44)
    };
    let (offset_at, address_at, size_at) = if is_64 { (8, 24, 32) } else { (4, 12, 16) };
    let no_address = if is_64 { u64::MAX } else { u64::from(u32::MAX) };
    let (table, entry, count) = (
        number(table_at, word)?,
        number(entry_at, 2)?,
        number(count_at, 2)?,
    );
    let mut parts = Vec::new();
    for index in 0..count {
        let header = usize::try_from(table.checked_add(index * entry)?).ok()?;
        if number(header, 4)? == LOAD && number(header + address_at, word)? != no_address {
            parts.push(Part {
                offset: number(header + offset_at, word)?,
                bytes: number(header + size_at, word)?,
            });
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns 64-bit ELF headers for `segments`, each given as type, offset, physical address and
    /// size.
    fn headers(segments: &[(u32, u64, u64, u64)]) -> Vec<u8> {
        let mut made = b"\x7fELF\x02\x01\x01".to_vec();
        made.resize(64, 0);
        made[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        made[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        made[56..58].copy_from_slice(&(segments.len() as u16).to_ne_bytes());
        for (kind, offset, physical, size) in segments {
            made.extend(kind.to_ne_bytes());
            made.extend(7_u32.to_ne_bytes());
            for word in [*offset, !0 - offset, *physical, *size, *size, 4096] {
                made.extend(word.to_ne_bytes());
            }
        }
        made
    }

    #[test]
    fn memory_is_in_the_segments_that_have_a_physical_address() {
        let note = (4, 0x2a8, 0, 0x1000);
        let vmalloc = (1, 0x4100_0000_3000, u64::MAX, 0x1fff_ffff_ffff);
        let low = (1, 0x4000, 0x1000, 0x9_e000);
        let high = (1, 0x10_3000, 0x10_0000, 0x7fe0_0000);
        let made = headers(&[note, vmalloc, low, high]);
        let expected = [(0x4000, 0x9_e000), (0x10_3000, 0x7fe0_0000)];
        let expected: Vec<Part> = expected
            .into_iter()
            .map(|(offset, bytes)| Part { offset, bytes })
            .collect();
        assert_eq!(parts(&made), Some(expected));
        assert_eq!(
            parts(&made[..made.len() - 1]).map(|parts| parts.len()),
            Some(2)
        );
        assert_eq!(parts(&made[..made.len() - 56]), None, "cut off");
        assert_eq!(parts(b"no ELF"), None);
    }
}
