//! The binary that runs in the guest: either the running binary itself, or one built for the
//! guest's architecture. The binary must be static, because the guest has no libraries.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tardy_sys::regular_file;

use super::architecture::Architecture;

/// Why a binary cannot run in a guest.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    /// The binary's file cannot be read.
    #[error("{path}: {error}: give the guest's binary with --guest-binary")]
    Read {
        path: PathBuf,
        /// The error that the system reported.
        error: std::io::Error,
    },
    #[error("{0} is not a 64-bit ELF program: give the guest's binary with --guest-binary")]
    NoProgram(PathBuf),
    /// The binary needs shared libraries.
    #[error(
        "{0} needs shared libraries, but guests have none: build the binary with plain `cargo \
         build --release` (unset RUSTFLAGS), or add --target {1}"
    )]
    Dynamic(PathBuf, &'static str),
    /// The binary is for another machine.
    #[error(
        "{path} does not run on {wanted}: build tardy for it (`{}`, then `cargo build --release --target {}`) and give it with --guest-binary",
        wanted.build_needs(),
        wanted.rust_target()
    )]
    Architecture {
        path: PathBuf,
        /// The guest's architecture.
        wanted: Architecture,
    },
}

/// Returns the running binary's file.
///
/// # Errors
/// Returns [`BinaryError::Read`].
pub fn running() -> Result<PathBuf, BinaryError> {
    std::env::current_exe().map_err(|error| BinaryError::Read {
        path: PathBuf::from("/proc/self/exe"),
        error,
    })
}

/// Checks that `path` is a static program for `architecture` (ELF-64 little-endian, no PT_INTERP
/// segment; elf(5)).
///
/// # Errors
/// Returns [`BinaryError`].
pub fn check(path: &Path, architecture: Architecture) -> Result<(), BinaryError> {
    /// Type of the program header that names the dynamic loader. Only programs with shared
    /// libraries have such a header.
    const PT_INTERP: u32 = 3;
    /// Linkers put the headers within this many bytes from the start of a program.
    const HEADERS_LENGTH_MAX: u64 = 64 << 10;
    let no_program = || BinaryError::NoProgram(path.to_owned());
    let mut bytes = Vec::new();
    let file = regular_file::open(path)
        .and_then(|file| file.take(HEADERS_LENGTH_MAX).read_to_end(&mut bytes));
    file.map_err(|error| BinaryError::Read {
        path: path.to_owned(),
        error,
    })?;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err(no_program());
    }
    let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let table = bytes
        .get(32..)
        .and_then(|rest| rest.first_chunk())
        .map(|field| u64::from_le_bytes(*field));
    let (Some(table), Some(machine), Some(size), Some(count)) =
        (table, half(18), half(54), half(56))
    else {
        return Err(no_program());
    };
    if machine != architecture.elf_machine() {
        return Err(BinaryError::Architecture {
            path: path.to_owned(),
            wanted: architecture,
        });
    }
    for index in 0..u64::from(count) {
        let at = table
            .checked_add(index * u64::from(size))
            .and_then(|at| usize::try_from(at).ok())
            .ok_or_else(no_program)?;
        let kind = bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map(|kind| u32::from_le_bytes(*kind))
            .ok_or_else(no_program)?;
        if kind == PT_INTERP {
            return Err(BinaryError::Dynamic(
                path.to_owned(),
                architecture.rust_target(),
            ));
        }
    }
    Ok(())
}

/// Returns a program's file without the parts that the kernel does not load. These parts are
/// symbols and debugging information. They come after the last segment, and make up most of a
/// development build. The ELF header of the result states that there are no sections (elf(5)).
/// Files other than 64-bit little-endian ELF are returned unchanged.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn loaded_part(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular_file::open(path)?.read_to_end(&mut bytes)?;
    if let Some(end) = segments_end(&bytes).filter(|&end| end < bytes.len()) {
        bytes.truncate(end);
        // The header fields e_shoff, e_shnum and e_shstrndx.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
    }
    Ok(bytes)
}

/// Describes where a 64-bit little-endian ELF file has its table of segments.
struct Segments<'a> {
    bytes: &'a [u8],
    table: usize,
    size: usize,
    count: usize,
}

struct Segment {
    kind: u32,
    begin: usize,
    length: usize,
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok()
}

impl<'a> Segments<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let is_elf = bytes.starts_with(b"\x7fELF\x02\x01");
        is_elf.then_some(())?;
        // The header fields e_phoff, e_phentsize and e_phnum.
        Some(Self {
            bytes,
            table: long(bytes, 32)?,
            size: half(bytes, 54)?.into(),
            count: half(bytes, 56)?.into(),
        })
    }

    fn segment(&self, index: usize) -> Option<Segment> {
        let at = self.table.checked_add(index * self.size)?;
        // The segment's fields p_type, p_offset and p_filesz.
        Some(Segment {
            kind: u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?),
            begin: long(self.bytes, at.checked_add(8)?)?,
            length: long(self.bytes, at.checked_add(32)?)?,
        })
    }
}

/// Returns where the last segment of an ELF file ends, in bytes from the file's start. The result
/// is at least the position at which the headers end. Returns `None` for files of other formats,
/// and for damaged headers.
fn segments_end(bytes: &[u8]) -> Option<usize> {
    let segments = Segments::of(bytes)?;
    let table_end = segments.table.checked_add(segments.size * segments.count)?;
    (0..segments.count).try_fold(table_end.max(64), |end, index| {
        let segment = segments.segment(index)?;
        Some(end.max(segment.begin.checked_add(segment.length)?))
    })
}

/// Returns the number of the architecture and the dynamic loader that the ELF file `bytes` names
/// (segment PT_INTERP); a static program names no loader. Returns `None` unless the file is 64-bit
/// little-endian ELF.
pub(super) fn machine_and_loader(bytes: &[u8]) -> Option<(u16, Option<String>)> {
    const PT_INTERP: u32 = 3;
    let segments = Segments::of(bytes)?;
    let loader = |index: usize| {
        let segment = segments.segment(index)?;
        (segment.kind == PT_INTERP).then_some(())?;
        let path = bytes.get(segment.begin..)?.get(..segment.length)?;
        let path = path.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(path).into_owned())
    };
    Some((half(bytes, 18)?, (0..segments.count).find_map(loader)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(kind: u32, machine: u16) -> Result<(), BinaryError> {
        let mut bytes = vec![0; 64 + 2 * 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 2;
        bytes[64] = 1;
        bytes[64 + 56..64 + 60].copy_from_slice(&kind.to_le_bytes());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, bytes).unwrap();
        check(&path, Architecture::Amd64)
    }

    #[test]
    fn a_static_program_passes_and_a_dynamic_one_is_refused_with_the_remedy() {
        checked(1, 62).unwrap();
        let error = checked(3, 62).unwrap_err();
        assert!(
            matches!(error, BinaryError::Dynamic(..)) && error.to_string().contains("RUSTFLAGS")
        );
    }

    #[test]
    fn a_program_for_another_machine_is_refused_with_the_target_to_build() {
        assert!(
            checked(1, 183)
                .unwrap_err()
                .to_string()
                .contains("x86_64-unknown-linux-musl")
        );
    }

    #[test]
    fn what_no_kernel_loads_is_left_out_and_the_rest_is_a_program_that_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let loaded = loaded_part(&std::env::current_exe().unwrap()).unwrap();
        assert!(
            loaded.len() < whole.len(),
            "this test has symbols: {} bytes of {}",
            loaded.len(),
            whole.len()
        );
        assert_eq!(loaded[64..], whole[64..loaded.len()]);
        std::fs::write(&path, &loaded).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let output = std::process::Command::new(&path)
            .arg("--list")
            .output()
            .unwrap();
        assert!(
            output.status.success()
                && String::from_utf8_lossy(&output.stdout).contains("what_no_kernel_loads")
        );
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        assert_eq!(loaded_part(&path).unwrap(), b"#!/bin/sh\n");
    }

    #[test]
    fn a_header_that_names_no_end_leaves_the_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut bytes = vec![0; 4096];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[54] = 56;
        bytes[56] = 1;
        for (table, offset) in [(u64::MAX, 0_u64), (64, u64::MAX), (4090, 0)] {
            bytes[32..40].copy_from_slice(&table.to_le_bytes());
            bytes[72..80].copy_from_slice(&offset.to_le_bytes());
            bytes[96..104].copy_from_slice(&1_u64.to_le_bytes());
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(
                loaded_part(&path).unwrap(),
                bytes,
                "table at {table}, segment at {offset}"
            );
        }
    }

    #[test]
    fn a_script_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(matches!(
            check(&path, Architecture::Amd64),
            Err(BinaryError::NoProgram(_))
        ));
    }
}
