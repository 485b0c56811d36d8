//! Determines whether the machine's clock counts real or virtual time.

use tardy_core::series::ClockKind;
use tardy_core::units::Nanos;

use super::root::Root;

/// A word that the lab adds to a guest's kernel command line. It means that the guest's clock
/// advances with the number of executed instructions. A program inside the guest could not find
/// this out otherwise.
pub const VIRTUAL_CLOCK_MARK: &str = "tardy.clock=virtual";

/// Start of a word on a guest's kernel command line. In this word, the lab states how much virtual
/// time each instruction takes. The guest's clock, divided by this time, is the number of executed
/// instructions.
pub const INSTRUCTION_MARK: &str = "tardy.instruction_ns=";

/// Returns the virtual time of one instruction in a guest of the lab whose clock counts
/// instructions; `None` on other machines.
#[must_use]
pub fn instruction_time(root: &Root) -> Option<Nanos> {
    let line = root.text("proc/cmdline")?;
    let time = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(INSTRUCTION_MARK))?
        .parse()
        .ok()?;
    (time > 0 && clock_kind(root) == ClockKind::Virtual).then_some(Nanos(time))
}

/// Returns the kind of this machine's clock.
#[must_use]
pub fn clock_kind(root: &Root) -> ClockKind {
    let line = root.text("proc/cmdline").unwrap_or_default();
    if line
        .split_whitespace()
        .any(|word| word == VIRTUAL_CLOCK_MARK)
    {
        ClockKind::Virtual
    } else {
        ClockKind::Hardware
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_labs_word_makes_the_clock_a_virtual_one() {
        let kind = |line: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("proc")).unwrap();
            std::fs::write(folder.path().join("proc/cmdline"), line).unwrap();
            clock_kind(&Root::at(folder.path()))
        };
        assert_eq!(kind("quiet tardy.clock=virtual x\n"), ClockKind::Virtual);
        assert_eq!(kind("quiet tardy.clock=virtually\n"), ClockKind::Hardware);
        assert_eq!(clock_kind(&Root::at("/nonexistent")), ClockKind::Hardware);
    }
}
