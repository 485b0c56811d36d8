//! The symbols of a guest's kernel, from its own /proc/kallsyms. They map addresses to names. The
//! plugin gets them as input.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tardy_trace::symbols::shown;

/// Why a kernel cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SymbolsError {
    /// The kernel lacks a symbol that Linux 5.8 and later have on amd64.
    #[error(
        "the kernel has no symbol {0}: sections can be watched on amd64 kernels from Linux 5.8 on \
         that have CONFIG_KALLSYMS_ALL"
    )]
    Missing(&'static str),
}

/// A function of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    pub begin: u64,
    pub end: u64,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Symbol {
    address: u64,
    name: String,
    is_code: bool,
}

/// Settings of the plugin.
#[derive(Debug, Clone, Copy)]
pub struct PluginOptions {
    /// Virtual time of an instruction in ns.
    pub instruction_ns: u64,
    /// For how many of the worst samples of each phase the plugin stores the code that was executed
    /// before them; at most 1024.
    pub worst: u32,
    /// Whether the plugin stores the call path of the longest interval of each kind.
    pub paths: bool,
}

/// The symbols, sorted by address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSymbols {
    symbols: Vec<Symbol>,
}

/// Prefixes in the names of functions that act on behalf of their caller: they lock, unlock,
/// disable or enable bottom halves, or check whether a switch is due. Results name the caller
/// instead of these functions.
const WRAPPERS: [&str; 11] = [
    "_raw_spin_",
    "_raw_read_",
    "_raw_write_",
    "__local_bh_",
    "_local_bh_enable",
    "preempt_count_add",
    "preempt_count_sub",
    "__cond_resched",
    "_cond_resched",
    "__SCT__cond_resched",
    "__SCT__might_resched",
];

impl KernelSymbols {
    /// Parses lines of the form `ADDRESS TYPE NAME [MODULE]`. Ignores other lines.
    #[must_use]
    pub fn parse(kallsyms: &str) -> Self {
        let symbol = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let mut name = shown(words.next()?).into_owned();
            if let Some(module) = words.next() {
                name.push(' ');
                name.push_str(module);
            }
            Some(Symbol {
                address,
                name,
                is_code,
            })
        };
        let mut symbols: Vec<Symbol> = kallsyms.lines().filter_map(symbol).collect();
        symbols.sort_by_key(|symbol| symbol.address);
        Self { symbols }
    }

    /// Returns address and name of each symbol, and whether it is code.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, &str, bool)> {
        self.symbols
            .iter()
            .map(|symbol| (symbol.address, symbol.name.as_str(), symbol.is_code))
    }

    /// Returns the address of a symbol.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        self.symbols
            .iter()
            .find(|symbol| symbol.name == name)
            .map(|symbol| symbol.address)
    }

    /// Returns the function that contains an address. If a function has several names, returns the
    /// first in the kernel's list that does not name padding.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<&str> {
        let behind = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let last = self.symbols[..behind]
            .iter()
            .rev()
            .find(|symbol| symbol.is_code)?;
        let from = self
            .symbols
            .partition_point(|symbol| symbol.address < last.address);
        let alike = self.symbols[from..behind]
            .iter()
            .filter(|symbol| symbol.is_code && symbol.address == last.address);
        alike
            .min_by_key(|symbol| symbol.name.starts_with("__pfx_"))
            .map(|symbol| symbol.name.as_str())
    }

    /// Returns the functions that contain these addresses, each function once, sorted by address.
    pub(crate) fn functions(&self, addresses: impl Iterator<Item = u64>) -> Vec<Function> {
        let mut found = BTreeMap::new();
        for address in addresses {
            let Some(name) = self.function(address) else {
                continue;
            };
            let behind = self
                .symbols
                .partition_point(|symbol| symbol.address <= address);
            let Some(symbol) = self.symbols[..behind]
                .iter()
                .rev()
                .find(|symbol| symbol.is_code)
            else {
                continue;
            };
            let code = self.symbols[behind..].iter().find(|symbol| symbol.is_code);
            let end = code.map_or(u64::MAX, |next| next.address);
            found.entry(symbol.address).or_insert_with(|| Function {
                begin: symbol.address,
                end,
                name: name.to_owned(),
            });
        }
        found.into_values().collect()
    }

    /// Returns where the code of a symbol ends.
    fn end_of(&self, symbol: &Symbol) -> u64 {
        let behind = self
            .symbols
            .partition_point(|other| other.address <= symbol.address);
        self.symbols
            .get(behind)
            .map_or(symbol.address, |next| next.address)
    }

    /// Returns the plugin's input as lines of text. `memory_mib` is the size of the guest's memory.
    ///
    /// # Errors
    /// Returns [`SymbolsError`].
    pub fn known(&self, memory_mib: u32, asked: PluginOptions) -> Result<String, SymbolsError> {
        let required = |name: &'static str| self.address(name).ok_or(SymbolsError::Missing(name));
        let mut text = String::new();
        let mut line = |name: &str, value: u64| {
            writeln!(text, "{name} {value:x}").expect("writing to a string cannot fail")
        };
        line("text_begin", required("_stext")?);
        line("text_end", required("_etext")?);
        line("banner", required("linux_banner")?);
        line("memory", u64::from(memory_mib) << 20);
        line("instruction_ns", asked.instruction_ns);
        line("worst", asked.worst.into());
        line("paths", asked.paths.into());
        line("per_cpu_offset", required("__per_cpu_offset")?);
        line("init_task", required("init_task")?);
        // Each CPU has a preemption count, and a pointer to the task that it executes. From Linux
        // 6.2 to 6.14, the count and the pointer are in one structure (struct pcpu_hot,
        // arch/x86/include/asm/current.h: the pointer, then the count).
        let (count, current) = match self.address("pcpu_hot") {
            Some(hot) => (hot.wrapping_add(8), hot),
            None => (required("__preempt_count")?, required("current_task")?),
        };
        line("preempt_count", count);
        line("current", current);
        required("asm_exc_page_fault")?;
        for symbol in self.symbols.iter().filter(|symbol| symbol.is_code) {
            let name = symbol.name.as_str();
            let is = |names: &[&str]| names.contains(&name);
            if name.starts_with("asm_sysvec_")
                || is(&["asm_common_interrupt", "asm_spurious_interrupt"])
            {
                line("interrupt", symbol.address);
            } else if name.starts_with("asm_exc_") {
                line("exception", symbol.address);
            } else if is(&[
                "entry_SYSCALL_64",
                "entry_SYSCALL_compat",
                "entry_SYSENTER_compat",
                "entry_INT80_compat",
                "asm_int80_emulation",
            ]) {
                line("system_call", symbol.address);
            } else if name == "__schedule" || name.starts_with("__schedule.") {
                line("scheduler", symbol.address);
            } else if is(&["__cond_resched", "_cond_resched"]) {
                line("chance", symbol.address);
            } else if name.starts_with("__cond_resched_lock")
                || name.starts_with("__cond_resched_rwlock")
            {
                line("chance_of_lock", symbol.address);
            }
            // If the function is a wrapper, the plugin must record the caller of the wrapper.
            if WRAPPERS.iter().any(|wrapper| name.starts_with(wrapper)) {
                line("wrapper_begin", symbol.address);
                line("wrapper_end", self.end_of(symbol));
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: PluginOptions = PluginOptions {
        instruction_ns: 4,
        worst: 10,
        paths: true,
    };
    const TEXT: &str = "\
000000000001fd50 A __preempt_count
000000000001fbc0 A current_task
ffffffff81000000 T _stext
ffffffff81000010 t __pfx_quiet
ffffffff81000010 T quiet
ffffffff81000040 T _raw_spin_lock
ffffffff81000080 t asm_exc_page_fault
ffffffff810000c0 t asm_sysvec_apic_timer_interrupt
ffffffff81000100 T entry_SYSCALL_64
ffffffff81000140 t __schedule
ffffffff81000180 T __cond_resched
ffffffff810001c0 T __cond_resched_lock
ffffffff81ffffff T _etext
ffffffff82000000 D linux_banner
ffffffff82000100 D __per_cpu_offset
ffffffff82000200 D init_task
ffffffffc0000000 t work\t[some_module]
";

    #[test]
    fn a_guest_that_puts_its_variables_at_the_end_of_all_addresses_is_no_panic() {
        let text = format!("{TEXT}ffffffffffffffff D pcpu_hot\n");
        assert!(
            KernelSymbols::parse(&text)
                .known(64, ASKED)
                .unwrap()
                .contains("preempt_count 7\n")
        );
    }

    #[test]
    fn an_address_has_the_name_of_its_function_and_module() {
        let symbols = KernelSymbols::parse(TEXT);
        assert_eq!(symbols.function(0xffff_ffff_8100_0017), Some("quiet"));
        assert_eq!(
            symbols.function(0xffff_ffff_8100_0040),
            Some("_raw_spin_lock")
        );
        assert_eq!(
            symbols.function(0xffff_ffff_c000_0123),
            Some("work [some_module]")
        );
        assert_eq!(symbols.function(0x1000), None);
    }

    #[test]
    fn the_plugin_is_told_entries_wrappers_and_where_the_count_lies() {
        let known = KernelSymbols::parse(TEXT).known(768, ASKED).unwrap();
        for line in [
            "preempt_count 1fd50",
            "current 1fbc0",
            "memory 30000000",
            "exception ffffffff81000080",
            "interrupt ffffffff810000c0",
            "system_call ffffffff81000100",
            "wrapper_begin ffffffff81000040",
            "wrapper_end ffffffff81000080",
            "paths 1",
            "scheduler ffffffff81000140",
            "chance ffffffff81000180",
            "wrapper_begin ffffffff81000180",
            "chance_of_lock ffffffff810001c0",
        ] {
            assert!(known.lines().any(|other| other == line), "{line}: {known}");
        }
        let hot = KernelSymbols::parse(&TEXT.replace("1fd50 A __preempt_count", "20 A pcpu_hot"))
            .known(1, ASKED)
            .unwrap();
        assert!(
            hot.contains("preempt_count 28\n") && hot.contains("current 20\n"),
            "{hot}"
        );
    }

    #[test]
    fn a_kernel_without_the_symbols_is_refused_by_the_first_that_lacks() {
        let without = KernelSymbols::parse(&TEXT.replace("init_task", "other"));
        assert_eq!(
            without.known(1, ASKED),
            Err(SymbolsError::Missing("init_task"))
        );
    }
}
