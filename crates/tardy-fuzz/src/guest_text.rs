//! The readers of a guest's texts must not panic. The texts are a kernel's symbols, its
//! configuration, and the log of injected delays.

use tardy_lab::injection::parse_log;
use tardy_machine::kernel_configuration::KernelConfiguration;
use tardy_outside::kernel_symbols::{KernelSymbols, PluginOptions};

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    let symbols = KernelSymbols::parse(text);
    for address in [0, 0xffff_ffff_8100_0000, u64::MAX] {
        let _ = symbols.function(address);
    }
    let _ = symbols.known(
        256,
        PluginOptions {
            instruction_ns: 1,
            worst: 3,
            paths: true,
        },
    );
    let configuration = KernelConfiguration::parse(text);
    let _ = (
        configuration.value("HZ"),
        configuration.is_on("PREEMPT_RT"),
        configuration.is_built_in("PREEMPT"),
    );
    let _ = parse_log(text);
}
