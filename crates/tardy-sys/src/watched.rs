//! What a program says to whoever watches the machine execute it from outside, as the lab's plugin of QEMU does: an instruction that does nothing, with a
//! number in it.
//!
//! On x86-64 it is the eight-byte `nop` with a displacement whose bytes are the number and `drt`; `outside/tardy_outside.c` looks for it. On other
//! architectures nothing is said, because nobody looks.

/// What the displacement has above the number.
#[cfg(target_arch = "x86_64")]
const NAME: u32 = u32::from_le_bytes([0, b'd', b'r', b't']);

/// The guest's program begins, or a shell's user does.
pub const BEGIN: u8 = 1;
/// It has ended: what comes is of no interest.
pub const END: u8 = 2;
/// The next phase of a run begins.
pub const PHASE: u8 = 3;

/// Says `WHAT`.
#[inline(always)]
pub fn say<const WHAT: u8>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no effect: it accesses no memory, changes no register and no flag.
    unsafe {
        core::arch::asm!(".byte 0x0f, 0x1f, 0x84, 0x00", ".long {what}", what = const NAME | WHAT as u32, options(nomem, nostack, preserves_flags));
    }
}
