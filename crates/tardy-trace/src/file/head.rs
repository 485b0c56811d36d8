//! The head of a trace.dat of version 6, for pages that were read from the kernel. The head
//! contains what trace-cmd and KernelShark need in order to read these pages.

use super::MAGIC;

/// Content of the mark that comes before the table of pages.
const TABLE_MARK: &[u8] = b"flyrecord\0";

/// What a trace contains besides its pages: texts of tracefs and /proc, as the kernel wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceHead {
    /// `events/header_page`.
    pub header_page: String,
    /// `events/header_event`.
    pub header_event: String,
    /// The `format` files in `events/ftrace`.
    pub tracer_formats: Vec<String>,
    /// For each system, the `format` files of its events.
    pub event_formats: Vec<(String, Vec<String>)>,
    /// Lines of /proc/kallsyms.
    pub symbols: String,
    /// `saved_cmdlines`.
    pub commands: String,
    /// Content of `trace_clock`, with the clock in brackets.
    pub clock: String,
    /// Output of `uname -a`.
    pub kernel: String,
    /// Size of a ring buffer's page, in bytes.
    pub page_bytes: u32,
}

impl TraceHead {
    /// Returns the head of a file in which the pages of CPU 0 come first, then those of CPU 1, and
    /// so on. `lengths` has the number of bytes of each CPU's pages; all pages are whole.
    #[must_use]
    pub fn encode(&self, lengths: &[u64]) -> Vec<u8> {
        self.encode_with(lengths, None)
    }

    /// Returns the head as [`TraceHead::encode`] does, but for a file in which the pages of an
    /// instance come after these pages. `instance` contains the instance's name and, for each CPU,
    /// the number of bytes of its pages.
    #[must_use]
    pub fn encode_with(&self, lengths: &[u64], instance: Option<(&str, &[u64])>) -> Vec<u8> {
        let mut out = [MAGIC, b"6\0", &[0, 8]].concat();
        put(&mut out, self.page_bytes);
        out.extend_from_slice(b"header_page\0");
        put_long(&mut out, &self.header_page);
        out.extend_from_slice(b"header_event\0");
        put_long(&mut out, &self.header_event);
        formats(&mut out, &self.tracer_formats);
        put(&mut out, count(self.event_formats.len()));
        for (system, of_system) in &self.event_formats {
            out.extend_from_slice(system.as_bytes());
            out.push(0);
            formats(&mut out, of_system);
        }
        put(&mut out, count(self.symbols.len()));
        out.extend_from_slice(self.symbols.as_bytes());
        // The list of formats of printk is empty.
        put(&mut out, 0);
        put_long(&mut out, &self.commands);
        put(&mut out, count(lengths.len()));
        out.extend_from_slice(b"options  \0");
        option(&mut out, super::Options::UNAME, &self.kernel);
        // The option has no text, which means that the clock comes after the table.
        option(&mut out, super::Options::TRACE_CLOCK, "");
        let place_of_instance = instance.map(|(name, _)| {
            out.extend_from_slice(&super::Options::BUFFER.to_le_bytes());
            put(&mut out, count(8 + name.len() + 1));
            let place = out.len();
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(name.as_bytes());
            out.push(0);
            place
        });
        out.extend_from_slice(&0_u16.to_le_bytes());
        let table = self.table(&mut out, lengths.len());
        let Some(((_, more), place)) = instance.zip(place_of_instance) else {
            fill_table(&mut out, table, lengths, self.page_bytes);
            return out;
        };
        let mark = (out.len() as u64).to_le_bytes();
        out[place..place + 8].copy_from_slice(&mark);
        let table_of_instance = self.table(&mut out, more.len());
        let first = fill_table(&mut out, table, lengths, self.page_bytes);
        fill_rows(&mut out, table_of_instance, more, first);
        out
    }

    /// Adds a table of pages whose rows are zero for now, and the clock after the table; returns
    /// the table's offset.
    fn table(&self, out: &mut Vec<u8>, cpus: usize) -> usize {
        out.extend_from_slice(TABLE_MARK);
        let table = out.len();
        out.resize(table + cpus * 16, 0);
        put_long(out, &self.clock);
        table
    }
}

/// Returns the page size in bytes that is stored in a head made by [`TraceHead::encode`].
#[must_use]
pub fn page_bytes(head: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(head.get(14..18)?.try_into().ok()?)).filter(|&bytes| bytes > 0)
}

/// Returns a copy of the head in which the numbers of bytes of the CPUs' pages are replaced by
/// `lengths`. Returns `None` if [`TraceHead::encode`] did not make the head.
#[must_use]
pub fn with_lengths(head: &[u8], lengths: &[u64]) -> Option<Vec<u8>> {
    let page_bytes = page_bytes(head)?;
    let table = head
        .windows(TABLE_MARK.len())
        .rposition(|window| window == TABLE_MARK)?
        + TABLE_MARK.len();
    let mut out = head.to_vec();
    if table + lengths.len() * 16 > out.len() {
        return None;
    }
    fill_table(&mut out, table, lengths, page_bytes);
    Some(out)
}

/// Extends the head to the next page boundary, and fills in where each CPU's pages are. The pages
/// come directly after the head. Returns where the last page ends.
fn fill_table(out: &mut Vec<u8>, table: usize, lengths: &[u64], page_bytes: u32) -> u64 {
    out.resize(
        out.len().next_multiple_of((page_bytes as usize).max(4096)),
        0,
    );
    let place = out.len() as u64;
    fill_rows(out, table, lengths, place)
}

/// Fills in a table of pages that start at `place`, and returns where the last of them ends.
fn fill_rows(out: &mut [u8], table: usize, lengths: &[u64], mut place: u64) -> u64 {
    for (index, &length) in lengths.iter().enumerate() {
        let entry = table + index * 16;
        out[entry..entry + 8].copy_from_slice(&place.to_le_bytes());
        out[entry + 8..entry + 16].copy_from_slice(&length.to_le_bytes());
        place += length;
    }
    place
}

fn formats(out: &mut Vec<u8>, formats: &[String]) {
    put(out, count(formats.len()));
    formats.iter().for_each(|format| put_long(out, format));
}

fn option(out: &mut Vec<u8>, id: u16, text: &str) {
    out.extend_from_slice(&id.to_le_bytes());
    let length = if text.is_empty() { 0 } else { text.len() + 1 };
    put(out, count(length));
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(&[0][..usize::from(length > 0)]);
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_long(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::TraceFile;
    use super::*;

    fn head() -> TraceHead {
        let field = |name: &str, offset, size| {
            format!("\tfield: u64 {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
        };
        TraceHead {
            header_page: field("timestamp", 0, 8)
                + &field("commit", 8, 8)
                + &field("data", 16, 4080),
            tracer_formats: vec!["name: print\nID: 5\nformat:\n".into()],
            event_formats: vec![(
                "sched".into(),
                vec!["name: sched_switch\nID: 300\nformat:\n".into()],
            )],
            symbols: "ffffffff81000000 T hrtimer_wakeup\n".into(),
            commands: "7 my_loop\n".into(),
            clock: "local [mono] boot".into(),
            kernel: "Linux host 6.1.0-rt x86_64".into(),
            page_bytes: 4096,
            ..TraceHead::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let lengths = [4096, 0, 8192];
        let mut bytes = head().encode(&lengths);
        assert_eq!(
            with_lengths(&head().encode(&[0; 3]), &lengths).as_ref(),
            Some(&bytes)
        );
        bytes.resize(bytes.len() + 3 * 4096, 7);
        let file = TraceFile::parse(&bytes).unwrap();
        assert_eq!(
            (file.version, file.kernel.as_deref()),
            (6, Some("Linux host 6.1.0-rt x86_64"))
        );
        let names: Vec<_> = file
            .formats
            .iter()
            .map(|format| (format.system.as_str(), format.name.as_str()))
            .collect();
        assert_eq!(names, [("ftrace", "print"), ("sched", "sched_switch")]);
        assert_eq!(
            (
                file.symbols.name(0xffff_ffff_8100_0001),
                file.commands[&7].as_str()
            ),
            (Some("hrtimer_wakeup"), "my_loop")
        );
        let buffer = file.buffer(None).unwrap();
        assert_eq!(buffer.clock, "mono");
        let stored: Vec<_> = buffer
            .cpus
            .iter()
            .map(|cpu| (cpu.cpu, cpu.stored_bytes()))
            .collect();
        assert_eq!(stored, [(0, 4096), (1, 0), (2, 8192)]);
    }

    #[test]
    fn an_instance_has_pages_of_its_own() {
        let mut bytes = head().encode_with(&[4096, 8192], Some(("stacks", &[0, 4096])));
        let pages = bytes.len();
        bytes.resize(pages + 4 * 4096, 7);
        bytes[pages + 3 * 4096..].fill(9);
        let file = TraceFile::parse(&bytes).unwrap();
        let stored = |name| {
            let buffer = file.buffer(name).unwrap();
            assert_eq!(buffer.clock, "mono");
            let cpus = buffer.cpus.iter();
            cpus.map(|cpu| cpu.stored_bytes()).collect::<Vec<_>>()
        };
        assert_eq!(stored(None), [4096, 8192]);
        assert_eq!(stored(Some("stacks")), [0, 4096]);
        let buffer = file.buffer(Some("stacks")).unwrap();
        let chunk = buffer.cpus[1].chunks().next().unwrap().unwrap();
        assert!(chunk.iter().all(|&byte| byte == 9));
    }

    #[test]
    fn two_cpus_with_the_same_pages_are_refused() {
        let mut bytes = head().encode(&[4096, 0, 8192]);
        let table = bytes
            .windows(TABLE_MARK.len())
            .rposition(|window| window == TABLE_MARK)
            .unwrap()
            + TABLE_MARK.len();
        bytes.resize(bytes.len() + 3 * 4096, 7);
        bytes.copy_within(table..table + 8, table + 2 * 16);
        let refused = TraceFile::parse(&bytes).expect_err("CPU 2 has the page of CPU 0");
        assert_eq!(
            refused.to_string(),
            "trace.dat gives the same pages to CPU 0 and CPU 2: it is damaged"
        );
    }
}
