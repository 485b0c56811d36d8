//! The virtual machine of a guest, and the kernel's command line. Both are inputs of a run.
//!
//! Runs repeat exactly only if QEMU's main thread and the guest take turns: see [`MainThread`].

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_machine::clock::{INSTRUCTION_MARK, VIRTUAL_CLOCK_MARK};

use super::architecture::Architecture;
use super::guest_job::MARK;

/// How QEMU executes the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// QEMU translates the guest's code, and the guest's clock counts instructions, so runs are
    /// deterministic.
    Tcg,
    /// The host's CPU executes the guest's code, and the guest uses the host's clock: this is fast,
    /// but not reproducible.
    Kvm,
}

/// How much virtual time each instruction takes, as a power of two of nanoseconds. QEMU offers only
/// powers of two (`-icount shift=N`, 0 to 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstructionShift(u8);

impl InstructionShift {
    /// 4 ns per instruction: the wake-up path has about 3500 instructions, and so takes 14 us, as
    /// on a small board.
    pub const DEFAULT: Self = Self(2);

    #[must_use]
    pub fn exponent(self) -> u8 {
        self.0
    }

    /// Returns the virtual time of one instruction.
    #[must_use]
    pub fn per_instruction(self) -> Nanos {
        Nanos(1 << self.0)
    }
}

/// A time that is not a power of two of nanoseconds, or is above 1024 ns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a valid time per instruction: use a power of two from 1ns to 1024ns")]
pub struct InstructionTimeError(Nanos);

impl TryFrom<Nanos> for InstructionShift {
    type Error = InstructionTimeError;

    fn try_from(time: Nanos) -> Result<Self, Self::Error> {
        (0..=10)
            .map(Self)
            .find(|shift| shift.per_instruction() == time)
            .ok_or(InstructionTimeError(time))
    }
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Architecture of the guest's CPU. Several CPUs would also be deterministic, but QEMU runs
    /// them alternately in one thread, so each CPU would delay the others.
    pub architecture: Architecture,
    /// How QEMU executes the guest.
    pub accelerator: Accelerator,
    /// Virtual time per instruction; has no effect under KVM.
    pub instruction_shift: InstructionShift,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Size in MiB of the memory through which the guest exports its result to the host; a power of
    /// two.
    pub shared_mib: u32,
}

/// When QEMU's main thread may run while the guest executes.
///
/// When the guest halts, QEMU's main thread advances the clock to the next timer. If the main
/// thread may run at any time, it can notice the halt before QEMU has counted the instructions that
/// led to it. Then it advances the clock too far (`icount_start_warp_timer` against
/// `rr_cpu_thread_fn`, QEMU 7.2 and later). On a busy host, this made 3 of 36 runs differ from
/// their repetitions, even if QEMU was bound to one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainThread {
    /// The main thread waits until QEMU has counted the instructions. The lock that QEMU uses for
    /// record and replay enforces this; the record itself is discarded.
    TakesTurns,
    /// The main thread runs at any time. QEMU needs this in order to save its state, and for a
    /// terminal.
    Free,
}

impl Machine {
    /// Enough memory for loads that touch 128 MB, and for the result.
    pub const MEMORY_MIB_DEFAULT: u32 = 768;
    /// Enough shared memory for some 30 million samples.
    pub const SHARED_MIB_DEFAULT: u32 = 64;

    /// Returns QEMU's options for the machine, except the names of files. The inputs of a run are
    /// these options, the kernel, the initial file system and the command line.
    #[must_use]
    pub fn options(&self, main_thread: MainThread) -> Vec<String> {
        let mut options: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| options.extend(words.iter().map(|word| (*word).to_owned()));
        match self.architecture {
            Architecture::Amd64 => {}
            Architecture::Arm64 => add(&[
                "-M",
                "virt",
                "-cpu",
                if self.accelerator == Accelerator::Kvm {
                    "host"
                } else {
                    "cortex-a57"
                },
            ]),
            Architecture::Riscv64 => add(&["-M", "virt"]),
        }
        match self.accelerator {
            Accelerator::Tcg => {
                let turns = match main_thread {
                    MainThread::TakesTurns => ",rr=record,rrfile=/dev/null",
                    MainThread::Free => "",
                };
                add(&[
                    "-accel",
                    "tcg",
                    "-icount",
                    &format!(
                        "shift={},sleep=off{turns}",
                        self.instruction_shift.exponent()
                    ),
                ]);
                // The clock starts at a fixed date, because with the host's time of day, the
                // guest's boot would differ from run to run.
                add(&["-rtc", "base=2020-01-01,clock=vm"]);
            }
            Accelerator::Kvm => add(&["-accel", "kvm"]),
        }
        add(&[
            "-m",
            &self.memory_mib.to_string(),
            "-smp",
            "1",
            "-seed",
            "1",
        ]);
        add(&[
            "-nodefaults",
            "-nic",
            "none",
            "-display",
            "none",
            "-monitor",
            "none",
            "-no-reboot",
        ]);
        options
    }
}

/// Returns the kernel's command line for a machine: first the lab's words, then the variant's,
/// which override them.
#[must_use]
pub fn kernel_command_line(machine: &Machine, variant: &[String], pad: u32) -> String {
    let console = format!("console={}", machine.architecture.console());
    // cryptomgr.notests: the self-tests of the crypto layer would keep the CPU busy for seconds
    // after boot. panic and oops: a kernel that fails ends the machine at once instead of at the
    // time limit.
    let fixed = [
        console.as_str(),
        "quiet",
        "panic=-1",
        "oops=panic",
        "nokaslr",
        "random.trust_cpu=off",
        "cryptomgr.notests",
        MARK,
    ];
    let mut words: Vec<String> = fixed.map(str::to_owned).to_vec();
    if machine.accelerator == Accelerator::Tcg {
        words.push(VIRTUAL_CLOCK_MARK.to_owned());
        words.push(format!(
            "{INSTRUCTION_MARK}{}",
            machine.instruction_shift.per_instruction().get()
        ));
    }
    words.extend_from_slice(variant);
    if pad > 0 {
        words.push(pad_word(pad));
    }
    words.join(" ")
}

/// Returns a word that the kernel parses and ignores. The kernel takes some instructions longer to
/// boot with this word, which shifts the phase of everything that happens later.
fn pad_word(pad: u32) -> String {
    format!("tardy.pad={pad}{}", "-".repeat(pad as usize % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            architecture: Architecture::Amd64,
            accelerator: Accelerator::Tcg,
            instruction_shift: InstructionShift::DEFAULT,
            memory_mib: 512,
            shared_mib: 64,
        }
    }

    #[test]
    fn the_options_hold_the_clock_still() {
        let options = machine().options(MainThread::TakesTurns).join(" ");
        for wanted in [
            "-icount shift=2,sleep=off,rr=record,rrfile=/dev/null",
            "-rtc base=2020-01-01,clock=vm",
            "-smp 1",
            "-seed 1",
            "-no-reboot",
        ] {
            assert!(options.contains(wanted), "{wanted} is missing: {options}");
        }
        let kvm = Machine {
            accelerator: Accelerator::Kvm,
            ..machine()
        }
        .options(MainThread::TakesTurns)
        .join(" ");
        assert!(
            !machine()
                .options(MainThread::Free)
                .join(" ")
                .contains("rr=")
        );
        assert!(!kvm.contains("icount") && kvm.contains("-accel kvm"));
    }

    #[test]
    fn the_variants_words_come_after_the_labs() {
        let line = kernel_command_line(&machine(), &["preempt=none".into()], 0);
        assert!(
            line.starts_with("console=ttyS0 quiet")
                && line.ends_with(
                    "tardy.lab=1 tardy.clock=virtual tardy.instruction_ns=4 preempt=none"
                ),
            "{line}"
        );
        let kvm = Machine {
            accelerator: Accelerator::Kvm,
            ..machine()
        };
        assert!(!kernel_command_line(&kvm, &[], 0).contains("virtual"));
    }

    #[test]
    fn every_pad_gives_another_line() {
        let lines: std::collections::BTreeSet<_> = (0..200)
            .map(|pad| kernel_command_line(&machine(), &[], pad))
            .collect();
        assert_eq!(lines.len(), 200);
    }

    #[test]
    fn an_instruction_takes_a_power_of_two_nanoseconds() {
        assert_eq!(
            InstructionShift::try_from(Nanos(4)),
            Ok(InstructionShift::DEFAULT)
        );
        assert_eq!(
            InstructionShift::try_from(Nanos(1)).map(InstructionShift::exponent),
            Ok(0)
        );
        for nanos in [0, 3, 2048, -4] {
            assert!(InstructionShift::try_from(Nanos(nanos)).is_err(), "{nanos}");
        }
    }
}
