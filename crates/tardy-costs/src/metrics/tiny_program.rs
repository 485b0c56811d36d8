//! Makes the smallest program of each architecture, which is an ELF file without libraries that
//! only exits with code 0.

/// Load address of the program. The kernel forbids mappings at very low addresses; any higher
/// address works.
const LOADED_AT: u64 = 0x40_0000;
const HEADER_BYTES: u16 = 64;
const SEGMENT_BYTES: u16 = 56;

/// Returns the program for this architecture; `None` if its code is not known here.
#[must_use]
pub(super) fn image() -> Option<Vec<u8>> {
    let (machine, code) = match std::env::consts::ARCH {
        "x86_64" => (X86_64, &EXIT_X86_64[..]),
        "aarch64" => (AARCH64, &EXIT_AARCH64[..]),
        "riscv64" => (RISCV, &EXIT_RISCV64[..]),
        _ => return None,
    };
    Some(executable(machine, code))
}

/// e_machine of elf(5).
const X86_64: u16 = 62;
const AARCH64: u16 = 183;
const RISCV: u16 = 243;

/// xor edi,edi; mov eax,60 (exit); syscall
const EXIT_X86_64: [u8; 9] = [0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
/// mov x0,#0; mov x8,#93 (exit); svc #0
const EXIT_AARCH64: [u8; 12] = [
    0x00, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4,
];
/// li a0,0; li a7,93 (exit); ecall
const EXIT_RISCV64: [u8; 12] = [
    0x13, 0x05, 0x00, 0x00, 0x93, 0x08, 0xd0, 0x05, 0x73, 0x00, 0x00, 0x00,
];

/// Returns a 64-bit little-endian ELF file with one segment, which is the whole file (elf(5)).
fn executable(machine: u16, code: &[u8]) -> Vec<u8> {
    let code_at = u64::from(HEADER_BYTES + SEGMENT_BYTES);
    let length = code_at + code.len() as u64;
    let mut image = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut half =
        |values: &[u16]| image.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    half(&[2, machine, 1, 0]);
    let mut words =
        |values: &[u64]| image.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    // The entry point; the position of the segment's header, which directly follows this header;
    // and 0, because there are no sections.
    words(&[LOADED_AT + code_at, u64::from(HEADER_BYTES), 0]);
    let mut half =
        |values: &[u16]| image.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    half(&[0, 0, HEADER_BYTES, SEGMENT_BYTES, 1, 0, 0, 0]);
    // PT_LOAD, readable and executable.
    half(&[1, 0, 5, 0]);
    let mut words =
        |values: &[u64]| image.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    words(&[0, LOADED_AT, LOADED_AT, length, length, 0x1000]);
    image.extend_from_slice(code);
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_this_machine_ends_with_zero() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, image().expect("tests run on a known architecture")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        // A process that another test has forked may hold the file open for writing for a moment
        // (ETXTBSY).
        let status = (0..100).find_map(|_| match std::process::Command::new(&path).status() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => None,
            result => Some(result.unwrap()),
        });
        assert_eq!(status.unwrap().code(), Some(0));
    }

    #[test]
    fn headers_have_their_sizes() {
        assert_eq!(
            executable(X86_64, &[]).len(),
            usize::from(HEADER_BYTES + SEGMENT_BYTES)
        );
    }
}
