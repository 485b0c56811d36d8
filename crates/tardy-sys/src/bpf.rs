//! Lists the loaded BPF programs: bpf(2), include/uapi/linux/bpf.h.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PROGRAM_NEXT_ID: libc::c_int = 11;
const PROGRAM_BY_ID: libc::c_int = 13;
const INFORMATION: libc::c_int = 15;
/// Byte range of `name` in `struct bpf_prog_info`. The structure is read only up to the end of
/// `name`.
const NAME: std::ops::Range<usize> = 64..80;
/// Maximum number of programs that are listed, in case the kernel's list never ends.
const PROGRAMS_MAX: usize = 65_536;

/// A loaded BPF program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfProgram {
    /// `enum bpf_prog_type`.
    pub kind: u32,
    /// The name given by the loader, at most 15 bytes; may be empty.
    pub name: String,
}

/// Returns all loaded programs, of any owner.
///
/// # Errors
/// Returns EPERM without CAP_SYS_ADMIN; ENOSYS or EINVAL if the kernel has no BPF or is older than
/// 4.13.
pub fn programs() -> io::Result<Vec<BpfProgram>> {
    let mut programs = Vec::new();
    let mut last = 0;
    while programs.len() < PROGRAMS_MAX {
        // start_id, next_id, open_flags
        let mut attributes = [last, 0, 0];
        match call(PROGRAM_NEXT_ID, &mut attributes) {
            Ok(_) => last = attributes[1],
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => break,
            Err(error) => return Err(error),
        }
        match program(last) {
            Ok(program) => programs.push(program),
            // The program was unloaded after it was listed.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(programs)
}

fn program(id: u32) -> io::Result<BpfProgram> {
    let descriptor = call(PROGRAM_BY_ID, &mut [id, 0, 0])?;
    // SAFETY: the call created the descriptor, and nothing else owns it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let mut information = [0_u8; NAME.end];
    let place = information.as_mut_ptr() as u64;
    // bpf_fd, info_len, info: the address of the output, which outlives the call
    let mut attributes = [
        descriptor.as_raw_fd() as u32,
        NAME.end as u32,
        place as u32,
        (place >> 32) as u32,
    ];
    call(INFORMATION, &mut attributes)?;
    let kind = u32::from_ne_bytes([
        information[0],
        information[1],
        information[2],
        information[3],
    ]);
    let name = information[NAME]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    Ok(BpfProgram {
        kind,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

/// Makes a bpf(2) call. `attributes` is `union bpf_attr` as 32-bit words; a 64-bit member takes two
/// words, the low one first.
fn call<const WORDS: usize>(
    command: libc::c_int,
    attributes: &mut [u32; WORDS],
) -> io::Result<libc::c_int> {
    let size = size_of_val(attributes);
    // SAFETY: the kernel reads and writes `size` bytes of the array. The caller keeps the memory at
    // the addresses in the array valid during the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size) };
    crate::check(result as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_listed_or_the_right_to_is_missing() {
        match programs() {
            Ok(programs) => {
                assert!(
                    programs.len() < PROGRAMS_MAX
                        && programs.iter().all(|program| program.name.len() <= 15),
                    "{programs:?}"
                )
            }
            Err(error) => assert!(
                [libc::EPERM, libc::ENOSYS, libc::EINVAL]
                    .contains(&error.raw_os_error().unwrap_or_default()),
                "{error}"
            ),
        }
    }
}
