//! The places in the kernel where threads wait. When a thread leaves its CPU, its stack shows the
//! system call and the function in which it waits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tardy_samples::cycles::WaitPlace;
use tardy_samples::wake_up_kind;
use tardy_trace::recent::Recent;
use tardy_trace::symbols::Symbols;

/// Maximum number of different places.
const PLACES_MAX: usize = 4096;
/// Minimum number of recent stacks for which the place is stored; stacks with relative timers and
/// with absolute timers are counted separately. The trace itself stores at most 2 * 4096 recent
/// stacks.
const STACKS_MAX: usize = 1 << 14;
/// Maximum number of functions that are written into a trace file.
const FUNCTIONS_MAX: usize = 1 << 14;
/// Functions of the scheduler and of tracing that the waiting function calls.
const SCHEDULER: [&str; 8] = [
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
    "schedule_rtlock",
    "io_schedule",
    "io_schedule_timeout",
    "rt_mutex_schedule",
];
/// Prefixes in the names of further such functions.
const SCHEDULER_PREFIXES: [&str; 6] = [
    "trace_event_raw_",
    "event_triggers_",
    "__traceiter_",
    "__bpf_trace_",
    "schedule_hrtimeout",
    "trace_event_buffer_",
];
/// Prefixes in the names of the kernel's functions for system calls.
const SYSTEM_CALLS: [&str; 9] = [
    "__x64_sys_",
    "__ia32_sys_",
    "__arm64_sys_",
    "__riscv_sys_",
    "__se_sys_",
    "__do_sys_",
    "__sys_",
    "ksys_",
    "sys_",
];
/// Functions that call the kernel's functions for system calls.
const ENTRIES: [&str; 5] = [
    "x64_sys_call",
    "do_syscall_64",
    "do_int80_emulation",
    "invoke_syscall",
    "do_trap_ecall_u",
];
/// The kernel's function that waits in clock_nanosleep(2).
const NANOSLEEP: &str = "do_nanosleep";

/// The places where threads wait, by the stack with which they wait.
#[derive(Debug)]
pub(super) struct Places {
    symbols: Symbols,
    of_stacks: Recent<(u32, bool), Option<u32>>,
    numbers: HashMap<WaitPlace, u32>,
    places: Vec<WaitPlace>,
    /// The system call of each place, in the form that the kinds of wake-ups use.
    calls: Vec<Arc<str>>,
    /// The functions that occur in stacks, by address. Trace files contain the names of these
    /// functions.
    met: BTreeMap<u64, String>,
}

impl Places {
    pub(super) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            of_stacks: Recent::new(STACKS_MAX),
            numbers: HashMap::new(),
            places: Vec::new(),
            calls: Vec::new(),
            met: BTreeMap::new(),
        }
    }

    /// Stores the name of the function at an address.
    pub(super) fn meet(&mut self, address: u64) {
        if let Some((name, distance)) = self.symbols.nearest(address)
            && self.met.len() < FUNCTIONS_MAX
        {
            self.met
                .entry(address - distance)
                .or_insert_with(|| name.to_owned());
        }
    }

    /// Returns the functions that were found in stacks so far, as lines of /proc/kallsyms.
    pub(super) fn symbol_lines(&self) -> String {
        let functions = self.met.iter();
        // The list ends with an extra line, because trace-cmd gives no name to the last function of
        // a list.
        let end = (&u64::MAX, &"end".to_owned());
        functions
            .chain([end])
            .map(|(address, name)| format!("{address:016x} T {name}\n"))
            .collect()
    }

    /// Returns the number of the place that belongs to the stack with the number `stack`.
    pub(super) fn number(&mut self, stack: u32, is_relative: bool, frames: &[u64]) -> Option<u32> {
        if let Some(&mut number) = self.of_stacks.touch(&(stack, is_relative)) {
            return number;
        }
        frames.iter().for_each(|&address| self.meet(address));
        let names: Vec<&str> = frames
            .iter()
            .filter_map(|&address| self.symbols.name(address))
            .collect();
        let number = place(&names, is_relative).and_then(|place| {
            let next = u32::try_from(self.places.len()).ok()?;
            match self.numbers.get(&place) {
                Some(&number) => Some(number),
                None if self.places.len() < PLACES_MAX => {
                    self.numbers.insert(place.clone(), next);
                    self.calls.push(wake_up_kind::call(&place.call));
                    self.places.push(place);
                    Some(next)
                }
                None => None,
            }
        });
        self.of_stacks.insert((stack, is_relative), number);
        number
    }

    /// Returns the system call of the place with this number.
    pub(super) fn call(&self, number: u32) -> Option<&Arc<str>> {
        self.calls.get(usize::try_from(number).ok()?)
    }

    /// Returns whether threads at this place wait for a futex without priority inheritance. With
    /// priority inheritance, they would wait in functions of `rt_mutex`.
    pub(super) fn is_plain_futex(&self, number: u32) -> bool {
        let place = usize::try_from(number)
            .ok()
            .and_then(|at| self.places.get(at));
        place.is_some_and(|place| {
            place.call.starts_with("futex") && place.function.contains("futex_")
        })
    }

    /// Returns all places; the index of a place is its number.
    pub(super) fn all(&self) -> &[WaitPlace] {
        &self.places
    }
}

/// Returns the place that a stack shows; `names` starts with the innermost function.
fn place(names: &[&str], is_relative: bool) -> Option<WaitPlace> {
    // Compilers append suffixes to names, as in `do_nanosleep.isra.0`.
    let names: Vec<&str> = names
        .iter()
        .map(|name| name.split('.').next().unwrap_or(name))
        .collect();
    let is_waiting = |name: &&&str| {
        !SCHEDULER.contains(*name)
            && !SCHEDULER_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
    };
    let function = names.iter().find(is_waiting)?;
    let system_call = names.iter().rev().find_map(|name| {
        SYSTEM_CALLS
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
    });
    let is_fault = names
        .iter()
        .take_while(|name| system_call.is_none_or(|call| !name.ends_with(call)))
        .any(|name| ["handle_mm_fault", "exc_page_fault", "do_page_fault"].contains(name));
    let call = match (is_fault, system_call) {
        (true, Some(call)) => format!("page fault in {call}"),
        (true, None) => "page fault".to_owned(),
        (false, Some(call)) if *function == NANOSLEEP && is_relative => {
            format!("{call} for a time")
        }
        (false, Some(call)) => call.to_owned(),
        // If a function for a system call ends with a tail call, the stack does not contain it.
        (false, None) => names
            .iter()
            .position(|name| ENTRIES.contains(name))
            .and_then(|entry| names.get(entry.checked_sub(1)?))
            .map_or_else(|| "kernel".to_owned(), |name| (*name).to_owned()),
    };
    Some(WaitPlace {
        call,
        function: (*function).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_means_a_call_and_the_function_that_waits() {
        let told = |names: &[&str], is_relative| {
            let place = place(names, is_relative).unwrap();
            format!("{}: {}", place.call, place.function)
        };
        let sleep = [
            "__schedule",
            "schedule",
            "do_nanosleep.isra.0",
            "hrtimer_nanosleep",
            "__x64_sys_clock_nanosleep",
            "do_syscall_64",
        ];
        assert_eq!(told(&sleep, false), "clock_nanosleep: do_nanosleep");
        assert_eq!(
            told(&sleep, true),
            "clock_nanosleep for a time: do_nanosleep"
        );
        let fault = [
            "io_schedule",
            "folio_wait_bit_common",
            "filemap_fault",
            "handle_mm_fault",
            "exc_page_fault",
        ];
        assert_eq!(told(&fault, true), "page fault: folio_wait_bit_common");
        let in_call = [&fault[..], &["vfs_write", "__arm64_sys_write"]].concat();
        assert_eq!(
            told(&in_call, false),
            "page fault in write: folio_wait_bit_common"
        );
        let pipe = [
            "schedule",
            "anon_pipe_write",
            "vfs_write",
            "ksys_write",
            "do_syscall_64",
        ];
        assert_eq!(told(&pipe, false), "write: anon_pipe_write");
        let other = ["schedule", "do_epoll_wait", "x64_sys_call", "do_syscall_64"];
        assert_eq!(told(&other, false), "do_epoll_wait: do_epoll_wait");
        let thread = ["schedule", "exit_to_user_mode_loop"];
        assert_eq!(told(&thread, false), "kernel: exit_to_user_mode_loop");
        assert_eq!(place(&["schedule"], false), None);
    }

    #[test]
    fn each_place_has_one_number() {
        let symbols = "ffffffff81000000 t schedule\nffffffff81000100 t pipe_write\n\
                       ffffffff81000200 t __x64_sys_write\n";
        let mut places = Places::new(Symbols::parse(symbols));
        let frames = [
            0xffff_ffff_8100_0010,
            0xffff_ffff_8100_0110,
            0xffff_ffff_8100_0210,
        ];
        assert_eq!(places.number(5, false, &frames), Some(0));
        assert_eq!(places.number(6, true, &frames), Some(0));
        assert_eq!(places.number(7, false, &[]), None);
        let place = WaitPlace {
            call: "write".to_owned(),
            function: "pipe_write".to_owned(),
        };
        assert_eq!(places.all(), [place]);
    }

    #[test]
    fn the_place_of_a_recent_stack_is_known_however_many_came_before() {
        let symbols = "ffffffff81000000 t schedule\nffffffff81000100 t pipe_write\n";
        let mut places = Places::new(Symbols::parse(symbols));
        let frames = [0xffff_ffff_8100_0010, 0xffff_ffff_8100_0110];
        // Each stack has a number that no other stack gets. If a stack is given without its frames,
        // its place is known only if it was stored.
        for stack in 0..200_000 {
            assert_eq!(places.number(stack, false, &frames), Some(0));
            assert_eq!(places.number(stack, false, &[]), Some(0), "{stack}");
        }
        assert_eq!(places.number(0, false, &[]), None, "an old stack");
    }

    #[test]
    fn waits_for_a_futex_are_told_from_waits_with_priority_inheritance() {
        let functions = [
            "schedule",
            "futex_do_wait",
            "rt_mutex_wait_proxy_lock",
            "__x64_sys_futex",
            "__x64_sys_read",
        ];
        let address = |at: usize| 0xffff_ffff_8100_0000 + at as u64 * 0x100;
        let lines = functions.iter().enumerate();
        let lines = lines.map(|(at, name)| format!("{:x} t {name}\n", address(at)));
        let mut places = Places::new(Symbols::parse(&lines.collect::<String>()));
        let mut is_plain = |stack, frames: &[usize]| {
            let frames: Vec<u64> = frames.iter().map(|&at| address(at) + 1).collect();
            let number = places.number(stack, false, &frames).unwrap();
            places.is_plain_futex(number)
        };
        assert!(is_plain(1, &[0, 1, 3]));
        assert!(!is_plain(2, &[0, 2, 3]));
        assert!(!is_plain(3, &[0, 4]));
    }
}
