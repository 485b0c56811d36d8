//! Messages from a program to an observer that emulates the machine, such as the lab's QEMU plugin.
//! A message is an instruction that has no effect but contains a number.
//!
//! On x86-64 it is an eight-byte `nop` with a displacement whose bytes are the number and `drt`;
//! `outside/tardy_outside.c` searches for it. On other architectures there are no messages.

/// Environment variable that every guest of the lab sets. If it is set, every sample is announced,
/// whether or not an observer is present.
pub const VARIABLE: &str = "TARDY_TELLS_SAMPLES";

/// The upper bytes of the displacement, above the number.
#[cfg(target_arch = "x86_64")]
const NAME: u32 = u32::from_le_bytes([0, b'd', b'r', b't']);

/// From now on, the guest runs its program, or a shell in which a user starts programs.
pub const BEGIN: u8 = 1;
/// The program has ended. The observer ignores everything that happens later.
pub const END: u8 = 2;
/// The next phase of a run starts.
pub const PHASE: u8 = 3;
/// The number in the displacement of the instruction that loads a sample's due time. The
/// instruction that loads the latency has a displacement with this number plus 8.
#[cfg(target_arch = "x86_64")]
const SAMPLE: u32 = 4;

/// Sends the message `WHAT`.
#[inline(always)]
pub fn say<const WHAT: u8>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no effect: it accesses no memory, changes no register and no
    // flag.
    unsafe {
        core::arch::asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {what}", what = const NAME | WHAT as u32, options(nomem, nostack, preserves_flags));
    }
}

/// Announces the due time and the latency of a sample, by loading both values from memory. The
/// observer recognises these two instructions by their displacements.
#[inline(always)]
pub fn sample(due_and_latency: &[core::sync::atomic::AtomicI64; 2]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the base address is that of the two words minus the displacement, so both loads read
    // these words; the asm block declares its outputs.
    unsafe {
        core::arch::asm!(
            ".byte 0x48, 0x8b, 0xbe",
            ".long {due}",
            ".byte 0x48, 0x8b, 0xb6",
            ".long {latency}",
            due = const NAME | SAMPLE,
            latency = const NAME | (SAMPLE + 8),
            inout("rsi") due_and_latency.as_ptr().wrapping_byte_sub((NAME | SAMPLE) as usize) => _,
            out("rdi") _,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = due_and_latency;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    #[test]
    fn what_is_said_of_a_sample_is_read_where_it_stands() {
        // `sample` loads the due time and the latency from memory. If it used a wrong address, the
        // process would crash.
        super::sample(&[AtomicI64::new(1), AtomicI64::new(2)]);
    }
}
