//! Derives the functions that a guest executed before a sample from the sequence of executed code
//! blocks.
//!
//! If the executed block is at the start of a function, the function was called. If the executed
//! block starts where the block that made the call ends, the call has returned. If a call was made
//! before the first recorded block, it is inferred when the function returns to its caller.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kernel_symbols::Function;
use crate::stream::{Block, Step, Window};

/// Lowest address of the kernel on x86-64.
const KERNEL_HALF: u64 = 0xffff_8000_0000_0000;

/// Prefixes in the names of thunks: functions through which the kernel's code makes indirect jumps
/// and returns. A jump through a thunk is attributed to the function that makes it.
const THUNKS: [&str; 6] = [
    "__x86_indirect_",
    "__x86_return_",
    "srso_",
    "retbleed_",
    "its_return",
    "entry_untrain_ret",
];
/// Suffixes in the names of parts of functions that the compiler moved elsewhere.
const PARTS: [&str; 1] = [".cold"];

/// Returns whether the processor itself enters this function.
fn is_entry(name: &str) -> bool {
    [
        "asm_sysvec_",
        "asm_common_interrupt",
        "asm_spurious_interrupt",
        "asm_exc_",
        "entry_SYSCALL_64",
        "entry_SYSENTER",
        "entry_INT80",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

/// What is called: a task (the root of its calls), the task's program, or a function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A task of the guest, by its number. It is the root of all calls that the task makes.
    Task(u32),
    /// The task's program, outside the kernel.
    Program,
    /// A function of the kernel, by its index in the list of names.
    Function(u32),
}

/// A call, from its first instruction to its last one. If another task gets the CPU during the
/// call, the parts before and after count as separate calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub callee: Callee,
    /// Index of the caller's call, which starts earlier and ends later; `None` for a task.
    pub parent: Option<usize>,
    /// When the call starts, in ns relative to the window's due time.
    pub begin: i64,
    pub end: i64,
}

/// An interval in which the same call is the innermost one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub call: usize,
    pub begin: i64,
    pub end: i64,
}

/// An event within the window, with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// When the event occurs, in ns relative to the window's due time.
    pub at: i64,
    pub what: MomentKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MomentKind {
    /// A task gets the CPU.
    Task { task: u32, priority: i32 },
    /// From here on, interrupts and switches are forbidden or allowed as this context states.
    Context(crate::stream::Context),
    /// The call with this index starts.
    Called(usize),
    /// The call with this index ends.
    Returned(usize),
}

/// The code that was executed before a sample.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// Names of the kernel's functions.
    pub names: Arc<[Arc<str>]>,
    pub calls: Vec<Call>,
    /// The innermost calls in the order of time, without a gap, from the first block to the last.
    pub stretches: Vec<Stretch>,
    pub moments: Vec<Moment>,
}

impl Calls {
    /// Returns the name of a callee.
    #[must_use]
    pub fn name(&self, callee: Callee, tasks: &[String]) -> String {
        match callee {
            Callee::Task(task) => tasks.get(task as usize).cloned().unwrap_or_default(),
            Callee::Program => "(program)".to_owned(),
            Callee::Function(function) => self.names[function as usize].to_string(),
        }
    }

    /// Returns the functions of a call and of its callers, innermost first.
    pub fn path(&self, call: usize) -> impl Iterator<Item = &Arc<str>> {
        std::iter::successors(Some(call), |&call| self.calls[call].parent).filter_map(|call| {
            match self.calls[call].callee {
                Callee::Function(function) => Some(&self.names[function as usize]),
                _ => None,
            }
        })
    }

    /// Returns the index of the call that is the innermost one at a moment.
    #[must_use]
    pub fn at(&self, moment: i64) -> Option<usize> {
        let behind = self
            .stretches
            .partition_point(|stretch| stretch.begin <= moment);
        let stretch = self.stretches[..behind].last()?;
        (moment < stretch.end).then_some(stretch.call)
    }
}

/// What is known about a block.
#[derive(Debug, Clone, Copy)]
struct Code {
    begin: u64,
    end: u64,
    function: Option<u32>,
    is_program: bool,
    /// Whether the block is at the start of the function.
    is_first: bool,
    is_thunk: bool,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    callee: Callee,
    /// Return address of the call; 0 if it is unknown, or if the processor itself made the call.
    back: u64,
    is_entry: bool,
    call: usize,
}

/// A function, or a part of a function that the compiler moved elsewhere.
#[derive(Debug, Clone, Copy)]
struct Part {
    begin: u64,
    end: u64,
    function: u32,
    /// Whether this part is the function itself.
    is_whole: bool,
    is_thunk: bool,
}

/// The functions and blocks of a guest, for all its windows.
#[derive(Debug)]
pub struct Reader {
    names: Arc<[Arc<str>]>,
    entries: Vec<bool>,
    parts: Vec<Part>,
    codes: Vec<Code>,
}

impl Reader {
    /// Makes a reader. `functions` must be sorted by address.
    #[must_use]
    pub fn new(functions: &[Function]) -> Self {
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut parts = Vec::with_capacity(functions.len());
        for function in functions {
            let length = PARTS
                .iter()
                .filter_map(|part| function.name.find(part))
                .min()
                .unwrap_or(function.name.len());
            let whole = &function.name[..length];
            let number = *numbers.entry(whole).or_insert_with(|| {
                names.push(whole.into());
                (names.len() - 1) as u32
            });
            let is_thunk = THUNKS
                .iter()
                .any(|thunk| function.name.trim_start_matches("__pi_").starts_with(thunk));
            parts.push(Part {
                begin: function.begin,
                end: function.end,
                function: number,
                is_whole: whole == function.name,
                is_thunk,
            });
        }
        let entries = names.iter().map(|name| is_entry(name)).collect();
        Self {
            names: names.into(),
            entries,
            parts,
            codes: Vec::new(),
        }
    }

    fn code(&self, block: &Block) -> Code {
        let place = self
            .parts
            .partition_point(|part| part.begin <= block.pc)
            .checked_sub(1);
        let part = place
            .map(|place| self.parts[place])
            .filter(|part| block.pc < part.end);
        Code {
            begin: block.pc,
            end: block.pc.wrapping_add(block.bytes),
            function: part.map(|part| part.function),
            is_program: block.pc < KERNEL_HALF,
            is_first: part.is_some_and(|part| part.begin == block.pc && part.is_whole),
            is_thunk: part.is_some_and(|part| part.is_thunk),
        }
    }

    /// Returns the calls of a window. `blocks` must start with all blocks of the previous call of
    /// this method.
    #[must_use]
    pub fn calls(&mut self, window: &Window, blocks: &[Block], instruction_ns: u64) -> Calls {
        for block in &blocks[self.codes.len()..] {
            self.codes.push(self.code(block));
        }
        let nanos = |instructions: u64| {
            i64::try_from(instructions.saturating_mul(instruction_ns)).unwrap_or(i64::MAX)
        };
        // If a block was executed before the last idle time, it is unknown when it was executed.
        let first = window
            .steps
            .iter()
            .rposition(|step| *step == Step::Halt)
            .map_or(0, |halt| halt + 1);
        let instructions = |step: &Step| {
            if let Step::Block(block) = step {
                blocks[*block as usize].instructions
            } else {
                0
            }
        };
        let executed: u64 = window.steps[first..]
            .iter()
            .map(instructions)
            .fold(0, u64::saturating_add);
        let woke = i64::try_from(window.latency).unwrap_or(i64::MAX);
        let mut walk = Walk {
            reader: self,
            result: Calls {
                names: Arc::clone(&self.names),
                ..Calls::default()
            },
            frames: HashMap::new(),
            task: None,
            episode: 0,
            now: woke
                .saturating_add(nanos(window.after))
                .saturating_sub(nanos(executed)),
            before: None,
        };
        let known = window.steps[..first]
            .iter()
            .fold((None, None), |(task, context), step| match step {
                Step::Task { .. } => (Some(*step), context),
                Step::Context(_) => (task, Some(*step)),
                _ => (task, context),
            });
        for step in [known.0, known.1]
            .into_iter()
            .flatten()
            .chain(window.steps[first..].iter().copied())
        {
            match step {
                Step::Block(block) => walk.block(
                    self.codes[block as usize],
                    nanos(blocks[block as usize].instructions),
                ),
                Step::Task { task, priority } => walk.switch(task, priority),
                Step::Context(context) => walk.moment(MomentKind::Context(context)),
                Step::Halt => {}
            }
        }
        walk.finish()
    }
}

struct Walk<'a> {
    reader: &'a Reader,
    result: Calls,
    /// The stacks of the tasks' calls.
    frames: HashMap<u32, Vec<Frame>>,
    task: Option<u32>,
    /// Index of the first call since the task last got the CPU.
    episode: usize,
    now: i64,
    before: Option<Code>,
}

impl Walk<'_> {
    fn moment(&mut self, what: MomentKind) {
        self.result.moments.push(Moment { at: self.now, what });
    }

    fn stack(&mut self) -> &mut Vec<Frame> {
        self.frames.entry(self.task.unwrap_or(0)).or_default()
    }

    fn begin_call(&mut self, callee: Callee, parent: Option<usize>) -> usize {
        self.result.calls.push(Call {
            callee,
            parent,
            begin: self.now,
            end: i64::MAX,
        });
        self.result.calls.len() - 1
    }

    fn end_call(&mut self, call: usize) {
        self.result.calls[call].end = self.now;
        self.moment(MomentKind::Returned(call));
    }

    fn push(&mut self, callee: Callee, back: u64, is_entry: bool) {
        let parent = self.stack().last().map(|frame| frame.call);
        let call = self.begin_call(callee, parent);
        self.stack().push(Frame {
            callee,
            back,
            is_entry,
            call,
        });
        self.moment(MomentKind::Called(call));
    }

    /// Ends the innermost calls until `length` calls are left.
    fn pop_to(&mut self, length: usize) {
        while self.stack().len() > length {
            let call = self.stack().pop().expect("there are more frames").call;
            self.end_call(call);
        }
    }

    fn switch(&mut self, task: u32, priority: i32) {
        self.moment(MomentKind::Task { task, priority });
        if self.task == Some(task) {
            return;
        }
        let calls: Vec<usize> = self.stack().iter().map(|frame| frame.call).collect();
        calls.into_iter().rev().for_each(|call| self.end_call(call));
        self.task = Some(task);
        self.episode = self.result.calls.len();
        let mut frames = std::mem::take(self.stack());
        if frames.is_empty() {
            frames.push(Frame {
                callee: Callee::Task(task),
                back: 0,
                is_entry: false,
                call: 0,
            });
        }
        let mut parent = None;
        for frame in &mut frames {
            frame.call = self.begin_call(frame.callee, parent);
            parent = Some(frame.call);
        }
        *self.stack() = frames;
    }

    fn block(&mut self, code: Code, length: i64) {
        if self.task.is_none() {
            self.switch(0, 120);
        }
        if code.is_program {
            if self
                .stack()
                .last()
                .is_none_or(|frame| frame.callee != Callee::Program)
            {
                self.pop_to(1);
                self.push(Callee::Program, 0, false);
            }
        } else if let Some(function) = code.function.filter(|_| !code.is_thunk) {
            self.enter(function, code);
        }
        if !code.is_thunk {
            self.before = Some(code);
        }
        let call = self.stack().last().map_or(0, |frame| frame.call);
        let begin = self.now;
        self.now += length;
        let end = self.now;
        match self.result.stretches.last_mut() {
            Some(last) if last.call == call => last.end = end,
            _ => self.result.stretches.push(Stretch { call, begin, end }),
        }
    }

    /// Processes a block of a kernel function, which becomes the innermost function.
    fn enter(&mut self, function: u32, code: Code) {
        let callee = Callee::Function(function);
        let is_inside = self
            .stack()
            .last()
            .is_some_and(|frame| frame.callee == callee);
        if code.is_first {
            if self.reader.entries[function as usize] {
                self.push(callee, 0, true);
            } else if !is_inside {
                let back = self.before.map_or(0, |before| before.end);
                self.push(callee, back, false);
            }
            return;
        }
        if let Some(place) = self
            .stack()
            .iter()
            .rposition(|frame| frame.back == code.begin)
        {
            self.pop_to(place);
        }
        if self
            .stack()
            .last()
            .is_some_and(|frame| frame.callee == callee)
        {
            return;
        }
        let entry = self.stack().iter().rposition(|frame| frame.is_entry);
        // The interrupt has ended, and the interrupted code continues.
        if let Some(entry) =
            entry.filter(|&entry| entry > 0 && self.stack()[entry - 1].callee == callee)
        {
            self.pop_to(entry);
            return;
        }
        // After a jump, a function that is already on the stack may continue. All calls that this
        // function made have then ended.
        if let Some(place) = self
            .stack()
            .iter()
            .rposition(|frame| frame.callee == callee)
            && entry.is_none_or(|entry| place > entry)
        {
            self.pop_to(place + 1);
            return;
        }
        match entry {
            None => {
                self.pop_to(1);
                self.insert_caller(callee);
            }
            Some(entry) if entry == 1 && self.is_of_other_code(entry, function) => {
                self.pop_to(1);
                self.insert_caller(callee);
            }
            // The calls of all functions on the stack were seen. So the code has not returned to an
            // unknown caller, but has jumped into the middle of a function.
            Some(_) => {
                let back = self.before.map_or(0, |before| before.end);
                self.push(callee, back, false);
            }
        }
    }

    /// Returns whether `function` belongs to the interrupted code, although no call was seen there.
    /// This is the case if the interrupt at `entry` interrupted the task directly, and if
    /// `function` is not one through which the kernel leaves interrupts.
    fn is_of_other_code(&mut self, entry: usize, function: u32) -> bool {
        const LEAVING: [&str; 8] = [
            "common_interrupt_return",
            "swapgs_",
            "restore_",
            "error_",
            "paranoid_",
            "native_irq_return",
            "native_iret",
            "syscall_return",
        ];
        let name = &self.reader.names[function as usize];
        let is_leaving = LEAVING.iter().any(|prefix| name.starts_with(prefix))
            || name.starts_with("entry_")
            || is_entry(name);
        let first = self.stack()[entry].call;
        !is_leaving
            && self.result.calls[first]
                .parent
                .is_some_and(|parent| matches!(self.result.calls[parent].callee, Callee::Task(_)))
    }

    /// Inserts the call of a function that continues although its call was not seen. The function
    /// was active before the first observed block of its task, so it becomes the caller of all
    /// calls seen since then.
    fn insert_caller(&mut self, callee: Callee) {
        let root = self.stack()[0].call;
        let begin = self.result.calls[root].begin;
        let call = self.begin_call(callee, Some(root));
        self.result.calls[call].begin = begin;
        let episode = self.episode;
        for other in &mut self.result.calls[episode..call] {
            if other.parent == Some(root) && other.callee != Callee::Program {
                other.parent = Some(call);
            }
        }
        for stretch in self
            .result
            .stretches
            .iter_mut()
            .rev()
            .take_while(|stretch| stretch.begin >= begin)
        {
            if stretch.call == root {
                stretch.call = call;
            }
        }
        self.stack().push(Frame {
            callee,
            back: 0,
            is_entry: false,
            call,
        });
    }

    fn finish(mut self) -> Calls {
        let calls: Vec<usize> = self.stack().iter().map(|frame| frame.call).collect();
        calls.into_iter().rev().for_each(|call| self.end_call(call));
        let now = self.now;
        self.result
            .calls
            .iter_mut()
            .filter(|call| call.end == i64::MAX)
            .for_each(|call| call.end = now);
        self.result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stream::Context;

    const BASE: u64 = 0xffff_ffff_8100_0000;

    /// Makes a function of 0x100 bytes for each name.
    fn functions(names: &[&str]) -> Vec<Function> {
        let begin = |place: usize| BASE + 0x100 * place as u64;
        names
            .iter()
            .enumerate()
            .map(|(place, &name)| Function {
                begin: begin(place),
                end: begin(place + 1),
                name: name.to_owned(),
            })
            .collect()
    }

    const NAMES: [&str; 8] = [
        "outer",
        "inner",
        "asm_sysvec_apic_timer_interrupt",
        "handler",
        "__pi___x86_indirect_thunk_rax",
        "inner.cold",
        "tail",
        "entry_SYSCALL_64",
    ];

    /// Makes a window from blocks of 0x10 bytes and 4 instructions. Each block is given by its
    /// function and its offset in units of 0x10 bytes; `None` is the program.
    fn window(blocks: &[Option<(usize, u64)>]) -> (Vec<Block>, Window) {
        let pc = |block: &Option<(usize, u64)>| {
            block.map_or(0x40_0000, |(function, place)| {
                BASE + 0x100 * function as u64 + 0x10 * place
            })
        };
        let known: Vec<Block> = blocks
            .iter()
            .map(|block| Block {
                pc: pc(block),
                bytes: 0x10,
                instructions: 4,
            })
            .collect();
        let steps = (0..blocks.len()).map(|block| Step::Block(block as u32));
        let steps = std::iter::once(Step::Task {
            task: 0,
            priority: 120,
        })
        .chain(steps)
        .collect();
        (
            known,
            Window {
                latency: 16 * blocks.len() as u64,
                steps,
                ..Window::default()
            },
        )
    }

    /// Returns the functions of each interval, innermost first.
    fn paths(blocks: &[Option<(usize, u64)>]) -> Vec<String> {
        let (known, window) = window(blocks);
        let calls = Reader::new(&functions(&NAMES)).calls(&window, &known, 4);
        let path = |at: usize| {
            calls
                .path(calls.at(16 * at as i64 + 8).unwrap())
                .map(AsRef::as_ref)
                .collect::<Vec<_>>()
                .join(" < ")
        };
        (0..blocks.len()).map(path).collect()
    }

    #[test]
    fn a_call_returns_to_the_block_behind_the_one_that_made_it() {
        let blocks = [
            None,
            Some((7, 0)),
            Some((0, 0)),
            Some((1, 0)),
            Some((1, 3)),
            Some((0, 1)),
        ];
        let outer = "outer < entry_SYSCALL_64";
        let inner = "inner < outer < entry_SYSCALL_64";
        assert_eq!(
            paths(&blocks),
            ["", "entry_SYSCALL_64", outer, inner, inner, outer]
        );
    }

    #[test]
    fn what_an_interrupt_came_into_goes_on_behind_it() {
        let blocks = [
            Some((0, 0)),
            Some((1, 0)),
            Some((2, 0)),
            Some((3, 0)),
            Some((2, 1)),
            Some((1, 1)),
            Some((0, 1)),
        ];
        let told = paths(&blocks);
        assert_eq!(
            told[3],
            "handler < asm_sysvec_apic_timer_interrupt < inner < outer"
        );
        assert_eq!(
            told[4..],
            [
                "asm_sysvec_apic_timer_interrupt < inner < outer",
                "inner < outer",
                "outer"
            ]
        );
    }

    #[test]
    fn jumps_cold_parts_and_tail_calls_leave_the_callers_as_they_are() {
        let blocks = [
            Some((0, 0)),
            Some((4, 0)),
            Some((1, 0)),
            Some((5, 0)),
            Some((1, 2)),
            Some((6, 0)),
            Some((0, 1)),
        ];
        let told = paths(&blocks);
        assert_eq!(
            told,
            [
                "outer",
                "outer",
                "inner < outer",
                "inner < outer",
                "inner < outer",
                "tail < inner < outer",
                "outer"
            ]
        );
    }

    #[test]
    fn a_caller_from_before_the_first_block_is_told_by_the_return_to_it() {
        let blocks = [Some((1, 4)), Some((3, 0)), Some((1, 5)), Some((0, 7))];
        assert_eq!(
            paths(&blocks),
            [
                "inner < outer",
                "handler < inner < outer",
                "inner < outer",
                "outer"
            ]
        );
    }

    #[test]
    fn a_cpu_that_stood_still_has_no_blocks_before_that() {
        let (known, mut window) = window(&[Some((0, 0)), Some((2, 0)), Some((3, 0))]);
        window.steps.insert(2, Step::Halt);
        let calls = Reader::new(&functions(&NAMES)).calls(&window, &known, 4);
        assert_eq!(calls.stretches[0].begin, 16, "{calls:?}");
    }

    proptest! {
        /// Whatever is executed, intervals follow one another without a gap, and each call lies
        /// within the call of its caller.
        #[test]
        fn any_steps_make_whole_calls(
            steps in proptest::collection::vec((0_usize..9, 0_u64..16, 0_u32..12), 0..80),
        ) {
            let blocks: Vec<_> = steps.iter().map(|&(function, place, _)| (function < 8).then_some((function, place))).collect();
            let (known, mut window) = window(&blocks);
            for (at, &(_, _, other)) in steps.iter().enumerate().rev() {
                match other {
                    0..3 => window.steps.insert(at + 1, Step::Task { task: other, priority: 120 }),
                    3 => window.steps.insert(at + 1, Step::Context(Context(0x10_0000))),
                    4 => window.steps.insert(at + 1, Step::Halt),
                    _ => {}
                }
            }
            let calls = Reader::new(&functions(&NAMES)).calls(&window, &known, 4);
            for pair in calls.stretches.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].begin);
            }
            for call in &calls.calls {
                prop_assert!(call.begin <= call.end);
                if let Some(parent) = call.parent {
                    let parent = &calls.calls[parent];
                    prop_assert!(parent.begin <= call.begin && call.end <= parent.end, "{:?} in {:?}", call, parent);
                }
            }
            for stretch in &calls.stretches {
                let call = &calls.calls[stretch.call];
                prop_assert!(call.begin <= stretch.begin && stretch.end <= call.end);
                prop_assert!(calls.path(stretch.call).count() <= calls.calls.len());
            }
        }
    }
}
