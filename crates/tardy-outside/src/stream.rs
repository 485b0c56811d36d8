//! Reads the plugin's output, which is a stream of items, one by one. The reader accepts any bytes
//! without a panic. If the stream is truncated, it returns an error.
//!
//! Numbers are little-endian base-128 (unsigned LEB128), as in Perfetto and DWARF. Addresses are
//! eight bytes. `outside/README.md` describes the format.

use std::io::{self, BufRead};

use tardy_core::varint::unfold;

use crate::kind::{Kind, Longest};

/// The first bytes of a stream.
const MAGIC: &[u8; 8] = b"tardyout";
/// Version 1 contains sections; version 2 also contains the code executed before the worst samples;
/// version 3 also contains the longest intervals of each phase and their call paths.
const VERSION: u64 = 3;
/// Maximum length of a task's name in the kernel (TASK_COMM_LEN).
const NAME_BYTES: usize = 16;
/// Maximum number of sites or tasks. A stream with more is damaged.
const DEFINITIONS_MAX: usize = 1 << 18;
/// Maximum number of code blocks, or of steps of a window. The plugin never writes as many.
const BLOCKS_MAX: usize = 1 << 20;
const STEPS_MAX: u64 = 1 << 23;
/// Maximum length of a block, in bytes. A block ends at the latest with the second page that it
/// reaches.
const BLOCK_BYTES_MAX: u64 = 1 << 13;

/// Maximum time in a stream, in instructions or ns: 13 days at one instruction per ns. With this
/// limit, the sum of times in a damaged stream cannot overflow.
const TIME_MAX: u64 = 1 << 50;

const TAG_SITE: u64 = 0;
const TAG_TASK: u64 = 1;
const TAG_MARK: u64 = 2;
const TAG_OF_TASK: u64 = 3;
const TAG_END: u64 = 4;
const TAG_WINDOW: u64 = 5;
const TAG_BLOCK: u64 = 6;
const TAG_LONGEST: u64 = 7;
const TAG_FIRST_SITE: u64 = 8;

/// Why a stream cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The stream stops in the middle of an item.
    #[error(
        "the record of sections is truncated: the guest did not finish, or the disk was full; \
         measure again"
    )]
    Cut,
    /// The content does not come from the plugin.
    #[error("the record of sections is damaged at byte {0}: measure again")]
    Damaged(u64),
    /// A newer plugin wrote the stream.
    #[error(
        "the record of sections has version {0}, this tardy knows {VERSION}: use the tardy that \
         made it"
    )]
    Version(u64),
    #[error("the record of sections cannot be read: {0}")]
    Io(io::Error),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Cut,
            // The stream is compressed, and its decompressor found an error.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Self::Damaged(0),
            _ => Self::Io(error),
        }
    }
}

/// Where the sections of one kind start and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    pub kind: Kind,
    /// Address of the instruction that started the section; for an interrupt, of the kernel's
    /// entry.
    pub begin_pc: u64,
    /// Address of the instruction that ended the section.
    pub end_pc: u64,
}

/// One section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Where the section starts and ends, as an index in [`StreamReader::sites`].
    pub site: u32,
    /// The number of the task that had the CPU when the section started; 0 if it is unknown.
    pub task: u32,
    /// When the section ended, as the number of instructions executed since the start of the
    /// guest's program. An idle CPU executes none.
    pub ended_at: u64,
    /// Number of instructions executed in the section.
    pub length: u64,
}

/// A block of code that QEMU has translated as a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Address of the block's first instruction.
    pub pc: u64,
    /// Length of the block in bytes.
    pub bytes: u64,
    /// Number of the block's instructions.
    pub instructions: u64,
}

/// The code executed from before a sample's due time until the program reported the sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// When the sample was due, on the guest's clock.
    pub due: i64,
    /// Latency of the sample in ns.
    pub latency: u64,
    /// Number of the task that took this sample.
    pub task: u32,
    /// When the program last read the clock, counted in instructions, as [`Section::ended_at`] is.
    pub clock_at: u64,
    /// Number of instructions that were executed from the clock read to the end of the last block.
    pub after: u64,
    pub steps: Vec<Step>,
}

/// The longest interval of one kind in a phase. In the stream, it precedes the phase's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongestStretch {
    pub what: Longest,
    /// Address of the instruction that started the interval.
    pub begin_pc: u64,
    pub end_pc: u64,
    /// The number of the task that had the CPU when the interval started.
    pub task: u32,
    /// When the interval ended, counted in instructions, as [`Section::ended_at`] is.
    pub ended_at: u64,
    /// Number of instructions executed in the interval. For some kinds, hard interrupts are left
    /// out.
    pub length: u64,
    /// The code executed before the interval, as a window that ends at its start. The window has no
    /// steps if the code was not stored.
    pub before: Window,
}

/// A step of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The block with this number is executed.
    Block(u32),
    /// From here on, this task has the CPU.
    Task {
        /// Number of the task.
        task: u32,
        /// Priority of the task, as the kernel numbers priorities.
        priority: i32,
    },
    /// From here on, interrupts and switches are forbidden or allowed as this context states.
    Context(Context),
    /// The CPU is idle until the next interrupt.
    Halt,
}

/// Whether interrupts, and switches to another task, are forbidden while code is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Context(pub u32);

impl Context {
    /// Returns how many nested sections have preemption off.
    #[must_use]
    pub fn depth(self) -> u8 {
        self.0 as u8
    }

    /// Returns whether a softirq is served outside of a thread.
    #[must_use]
    pub fn is_in_softirq(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// Returns whether a hard interrupt is served.
    #[must_use]
    pub fn is_in_interrupt(self) -> bool {
        self.0 & 0xf_0000 != 0
    }

    /// Returns whether interrupts are off.
    #[must_use]
    pub fn are_interrupts_off(self) -> bool {
        self.0 & 0x10_0000 != 0
    }

    /// Returns whether the task was asked to give up the CPU.
    #[must_use]
    pub fn is_switch_due(self) -> bool {
        self.0 & 0x20_0000 != 0
    }
}

/// One item of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    Section(Section),
    Window(Box<Window>),
    Longest(Box<LongestStretch>),
    /// A message from a program in the guest (`tardy_sys::watched`).
    Mark {
        what: u64,
        at: u64,
    },
    End(End),
}

/// The counts that the plugin writes as its last item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Number of interrupts that came while interrupts seemed to be off: their enabling was not
    /// seen.
    pub corrected: u64,
    /// Number of sections left out because they started or ended at too many code addresses.
    pub unstored: u64,
    /// Whether the plugin found the preemption count in the guest's memory.
    pub knows_preemption: bool,
    /// Number of worst samples for which the code executed before them could not be stored.
    pub left_out_windows: u64,
    /// Whether the plugin saw the scheduler run. If it did not, no switches are known.
    pub knows_scheduler: bool,
    /// Number of longest intervals whose call path could not be stored.
    pub left_out_paths: u64,
}

/// Reads items from a stream.
#[derive(Debug)]
pub struct StreamReader<R> {
    source: R,
    version: u64,
    position: u64,
    at: u64,
    task: u32,
    sites: Vec<Site>,
    tasks: Vec<String>,
    blocks: Vec<Block>,
}

impl<R: BufRead> StreamReader<R> {
    /// Reads the head of the stream.
    ///
    /// # Errors
    /// Returns [`StreamError`].
    pub fn new(source: R) -> Result<Self, StreamError> {
        let mut reader = Self {
            source,
            version: 0,
            position: 0,
            at: 0,
            task: 0,
            sites: Vec::new(),
            tasks: vec![String::new()],
            blocks: Vec::new(),
        };
        if reader.bytes::<8>()? != *MAGIC {
            return Err(StreamError::Damaged(0));
        }
        reader.version = reader.number()?;
        if (1..=VERSION).contains(&reader.version) {
            Ok(reader)
        } else {
            Err(StreamError::Version(reader.version))
        }
    }

    /// Returns the next item. The last item of a stream is [`Item::End`].
    ///
    /// # Errors
    /// Returns [`StreamError`].
    pub fn next_item(&mut self) -> Result<Item, StreamError> {
        loop {
            match self.number()? {
                TAG_SITE => {
                    let kind = self.number()?;
                    let site = Site {
                        kind: Kind::of_number(kind).ok_or(StreamError::Damaged(self.position))?,
                        begin_pc: u64::from_le_bytes(self.bytes()?),
                        end_pc: u64::from_le_bytes(self.bytes()?),
                    };
                    self.hold(self.sites.len())?;
                    self.sites.push(site);
                }
                TAG_TASK => {
                    let name: [u8; NAME_BYTES] = self.bytes()?;
                    let length = name
                        .iter()
                        .position(|byte| *byte == 0)
                        .unwrap_or(NAME_BYTES);
                    self.hold(self.tasks.len())?;
                    self.tasks
                        .push(String::from_utf8_lossy(&name[..length]).into_owned());
                }
                TAG_OF_TASK => {
                    let task = self.number()?;
                    self.task = self.known(task, self.tasks.len())?;
                }
                TAG_MARK => {
                    let what = self.number()?;
                    self.advance()?;
                    return Ok(Item::Mark { what, at: self.at });
                }
                TAG_END => {
                    let (corrected, unstored, knows_preemption) =
                        (self.number()?, self.number()?, self.number()? == 1);
                    let left_out_windows = if self.version > 1 { self.number()? } else { 0 };
                    let (knows_scheduler, left_out_paths) = if self.version > 2 {
                        (self.number()? == 1, self.number()?)
                    } else {
                        (false, 0)
                    };
                    return Ok(Item::End(End {
                        corrected,
                        unstored,
                        knows_preemption,
                        left_out_windows,
                        knows_scheduler,
                        left_out_paths,
                    }));
                }
                TAG_BLOCK => {
                    let block = Block {
                        pc: u64::from_le_bytes(self.bytes()?),
                        bytes: self.number()?,
                        instructions: self.number()?,
                    };
                    if self.blocks.len() >= BLOCKS_MAX
                        || block.bytes > BLOCK_BYTES_MAX
                        || block.instructions > block.bytes
                    {
                        return Err(StreamError::Damaged(self.position));
                    }
                    self.blocks.push(block);
                }
                TAG_LONGEST => return Ok(Item::Longest(Box::new(self.longest()?))),
                TAG_WINDOW => return Ok(Item::Window(Box::new(self.window()?))),
                tag if tag >= TAG_FIRST_SITE => {
                    let site = self.known(tag - TAG_FIRST_SITE, self.sites.len())?;
                    self.advance()?;
                    let length = self.time()?;
                    return Ok(Item::Section(Section {
                        site,
                        task: self.task,
                        ended_at: self.at,
                        length,
                    }));
                }
                _ => return Err(StreamError::Damaged(self.position)),
            }
        }
    }

    /// Returns the sites that were read so far; a site's number is its index.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Returns the names of the tasks read so far, by number. The first name is empty.
    #[must_use]
    pub fn tasks(&self) -> &[String] {
        &self.tasks
    }

    /// Returns the blocks of code read so far, by their numbers.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn window(&mut self) -> Result<Window, StreamError> {
        let due = unfold(self.number()?);
        let latency = self.time()?;
        let task = self.number()?;
        let task = self.known(task, self.tasks.len())?;
        let (clock_at, after) = (self.time()?, self.time()?);
        if due.unsigned_abs() > TIME_MAX {
            return Err(StreamError::Damaged(self.position));
        }
        Ok(Window {
            due,
            latency,
            task,
            clock_at,
            after,
            steps: self.steps()?,
        })
    }

    fn longest(&mut self) -> Result<LongestStretch, StreamError> {
        let what = self.number()?;
        let what = Longest::of_number(what).ok_or(StreamError::Damaged(self.position))?;
        let (begin_pc, end_pc) = (
            u64::from_le_bytes(self.bytes()?),
            u64::from_le_bytes(self.bytes()?),
        );
        let task = self.number()?;
        let task = self.known(task, self.tasks.len())?;
        let (ended_at, length, after) = (self.time()?, self.time()?, self.time()?);
        let before = Window {
            task,
            after,
            steps: self.steps()?,
            ..Window::default()
        };
        Ok(LongestStretch {
            what,
            begin_pc,
            end_pc,
            task,
            ended_at,
            length,
            before,
        })
    }

    fn steps(&mut self) -> Result<Vec<Step>, StreamError> {
        let count = self.number()?;
        if count > STEPS_MAX {
            return Err(StreamError::Damaged(self.position));
        }
        let mut steps = Vec::new();
        for _ in 0..count {
            let number = self.number()?;
            let value = number >> 2;
            steps.push(match number & 3 {
                0 => Step::Block(self.known(value, self.blocks.len())?),
                1 => {
                    let task = self.known(value & 0xf_ffff, self.tasks.len())?;
                    Step::Task {
                        task,
                        priority: (value >> 20 & 0xff) as i32 - 1,
                    }
                }
                2 => Step::Context(Context((value & 0xffff_ffff) as u32)),
                _ => Step::Halt,
            });
        }
        Ok(steps)
    }

    fn hold(&self, count: usize) -> Result<(), StreamError> {
        if count >= DEFINITIONS_MAX {
            Err(StreamError::Damaged(self.position))
        } else {
            Ok(())
        }
    }

    fn known(&self, number: u64, count: usize) -> Result<u32, StreamError> {
        let known = u32::try_from(number)
            .ok()
            .filter(|number| (*number as usize) < count);
        known.ok_or(StreamError::Damaged(self.position))
    }

    fn advance(&mut self) -> Result<(), StreamError> {
        let step = self.number()?;
        self.at = self
            .at
            .checked_add(step)
            .filter(|at| *at <= TIME_MAX)
            .ok_or(StreamError::Damaged(self.position))?;
        Ok(())
    }

    /// Reads a length or a time.
    fn time(&mut self) -> Result<u64, StreamError> {
        let time = self.number()?;
        if time > TIME_MAX {
            Err(StreamError::Damaged(self.position))
        } else {
            Ok(time)
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], StreamError> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes)?;
        self.position += N as u64;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, StreamError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.bytes::<1>()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(StreamError::Damaged(self.position))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kind::Stretch;
    use proptest::prelude::*;

    /// Writes a stream in the plugin's format.
    #[derive(Debug)]
    pub(crate) struct Writer(pub(crate) Vec<u8>);

    impl Writer {
        pub(crate) fn new() -> Self {
            let mut writer = Self(MAGIC.to_vec());
            writer.number(VERSION);
            writer
        }

        pub(crate) fn number(&mut self, mut value: u64) -> &mut Self {
            loop {
                let byte = (value & 0x7f) as u8;
                value >>= 7;
                self.0.push(byte | if value > 0 { 0x80 } else { 0 });
                if value == 0 {
                    return self;
                }
            }
        }

        pub(crate) fn site(&mut self, kind: Kind, begin_pc: u64, end_pc: u64) -> &mut Self {
            self.number(TAG_SITE).number(kind.index() as u64);
            self.0.extend(begin_pc.to_le_bytes());
            self.0.extend(end_pc.to_le_bytes());
            self
        }

        pub(crate) fn task(&mut self, name: &str) -> &mut Self {
            self.number(TAG_TASK);
            let mut bytes = [0; NAME_BYTES];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            self.0.extend(bytes);
            self
        }

        pub(crate) fn mark(&mut self, what: u8, step: u64) -> &mut Self {
            self.number(TAG_MARK).number(u64::from(what)).number(step)
        }

        pub(crate) fn of_task(&mut self, task: u64) -> &mut Self {
            self.number(TAG_OF_TASK).number(task)
        }

        pub(crate) fn section(&mut self, site: u64, step: u64, length: u64) -> &mut Self {
            self.number(TAG_FIRST_SITE + site)
                .number(step)
                .number(length)
        }

        pub(crate) fn block(&mut self, pc: u64, bytes: u64, instructions: u64) -> &mut Self {
            self.number(TAG_BLOCK);
            self.0.extend(pc.to_le_bytes());
            self.number(bytes).number(instructions)
        }

        pub(crate) fn window(&mut self, window: &Window) -> &mut Self {
            self.number(TAG_WINDOW)
                .number(tardy_core::varint::fold(window.due))
                .number(window.latency)
                .number(window.task.into());
            self.number(window.clock_at)
                .number(window.after)
                .steps(&window.steps)
        }

        pub(crate) fn longest(&mut self, longest: &LongestStretch) -> &mut Self {
            self.number(TAG_LONGEST).number(longest.what.number());
            self.0.extend(longest.begin_pc.to_le_bytes());
            self.0.extend(longest.end_pc.to_le_bytes());
            self.number(longest.task.into())
                .number(longest.ended_at)
                .number(longest.length)
                .number(longest.before.after);
            self.steps(&longest.before.steps)
        }

        fn steps(&mut self, steps: &[Step]) -> &mut Self {
            self.number(steps.len() as u64);
            for step in steps {
                self.number(match *step {
                    Step::Block(block) => u64::from(block) << 2,
                    Step::Task { task, priority } => {
                        (u64::from(task) | ((priority + 1) as u64) << 20) << 2 | 1
                    }
                    Step::Context(context) => u64::from(context.0) << 2 | 2,
                    Step::Halt => 3,
                });
            }
            self
        }

        pub(crate) fn end(&mut self) -> Vec<u8> {
            self.number(TAG_END)
                .number(0)
                .number(0)
                .number(1)
                .number(0)
                .number(1)
                .number(0);
            self.0.clone()
        }
    }

    fn window() -> Window {
        let steps = vec![
            Step::Task {
                task: 1,
                priority: -1,
            },
            Step::Context(Context(0x10_0001)),
            Step::Halt,
            Step::Block(0),
        ];
        Window {
            due: -7,
            latency: 1_000,
            task: 1,
            clock_at: 1 << 40,
            after: 3,
            steps,
        }
    }

    pub(crate) fn longest(what: Longest, length: u64) -> LongestStretch {
        let steps = vec![
            Step::Task {
                task: 1,
                priority: 120,
            },
            Step::Context(Context(0)),
            Step::Block(0),
        ];
        LongestStretch {
            what,
            begin_pc: 0xffff_ffff_8100_0010,
            end_pc: 0xffff_ffff_8100_0120,
            task: 1,
            ended_at: 1 << 33,
            length,
            before: Window {
                task: 1,
                after: 2,
                steps,
                ..Window::default()
            },
        }
    }

    fn items(bytes: &[u8]) -> Result<Vec<Item>, StreamError> {
        let mut reader = StreamReader::new(bytes)?;
        let mut items = Vec::new();
        loop {
            items.push(reader.next_item()?);
            if matches!(items.last(), Some(Item::End(_))) {
                return Ok(items);
            }
        }
    }

    fn small() -> Vec<u8> {
        let mut writer = Writer::new();
        writer
            .mark(1, 100)
            .site(
                Kind::PreemptionOff,
                0xffff_ffff_8100_0000,
                0xffff_ffff_8100_0100,
            )
            .task("kworker/0:1");
        writer
            .of_task(1)
            .section(0, 300, 250)
            .section(0, u64::from(u32::MAX), 7);
        writer
            .block(0xffff_ffff_8100_0000, 20, 5)
            .window(&window())
            .longest(&longest(Longest::Stretch(Stretch::NoChance), 77))
            .mark(2, 1);
        writer.end()
    }

    #[test]
    fn what_is_written_is_read() {
        let items = items(&small()).unwrap();
        assert_eq!(items[0], Item::Mark { what: 1, at: 100 });
        assert_eq!(
            items[1],
            Item::Section(Section {
                site: 0,
                task: 1,
                ended_at: 400,
                length: 250
            })
        );
        assert_eq!(
            items[2],
            Item::Section(Section {
                site: 0,
                task: 1,
                ended_at: 400 + u64::from(u32::MAX),
                length: 7
            })
        );
        assert_eq!(items[3], Item::Window(Box::new(window())));
        assert_eq!(
            items[4],
            Item::Longest(Box::new(longest(Longest::Stretch(Stretch::NoChance), 77)))
        );
        assert_eq!(
            items[6],
            Item::End(End {
                corrected: 0,
                unstored: 0,
                knows_preemption: true,
                left_out_windows: 0,
                knows_scheduler: true,
                left_out_paths: 0
            })
        );
    }

    #[test]
    fn times_that_no_guest_reaches_are_damage() {
        let section = |step: u64, length: u64| {
            let mut writer = Writer::new();
            writer
                .site(Kind::PreemptionOff, 1, 2)
                .section(0, step, length)
                .section(0, 1, 1);
            items(&writer.end()).is_ok()
        };
        assert!(section(TIME_MAX - 1, TIME_MAX));
        assert!(!section(TIME_MAX, 1) && !section(1, TIME_MAX + 1) && !section(u64::MAX, u64::MAX));
        let late = |window: Window| {
            let mut writer = Writer::new();
            writer.task("dd").block(0, 20, 5).window(&window);
            items(&writer.end()).is_ok()
        };
        assert!(late(Window {
            due: -(1 << 50),
            latency: TIME_MAX,
            ..window()
        }));
        for far in [
            Window {
                due: i64::MAX,
                ..window()
            },
            Window {
                due: i64::MIN,
                ..window()
            },
            Window {
                latency: TIME_MAX + 1,
                ..window()
            },
        ] {
            assert!(!late(far.clone()), "{far:?}");
        }
    }

    #[test]
    fn every_cut_is_noticed() {
        let whole = small();
        for length in 0..whole.len() {
            assert!(
                items(&whole[..length]).is_err(),
                "{length} of {} bytes",
                whole.len()
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(tail in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..200, byte in any::<u8>()) {
            let mut bytes = Writer::new().0;
            bytes.extend(tail);
            items(&bytes).ok();
            let mut changed = small();
            let at = at % changed.len();
            changed[at] = byte;
            items(&changed).ok();
        }
    }
}
