//! Reads files of version 6, which are a sequence of parts.

use super::{
    Buffer, CPUS_MAX, Compression, CpuPages, FileError, Options, Parts, TraceFile, chosen_clock,
    long_text, printable,
};
use crate::bytes::Cursor;
use crate::layout::PageLayout;

/// Reads a file, starting after the page size.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    mut cursor: Cursor<'a>,
) -> Result<TraceFile<'a>, FileError> {
    let mut parts = Parts::default();
    parts.headers(&mut cursor)?;
    parts.tracer_formats(&mut cursor)?;
    parts.event_formats(&mut cursor)?;
    parts.symbols(&mut cursor)?;
    let print_formats = cursor.u32()? as usize;
    cursor.take(print_formats)?;
    parts.commands(&mut cursor)?;
    let cpus = cursor.u32()?;
    if cpus > CPUS_MAX {
        return Err(FileError::Unreasonable {
            what: "a number of CPUs of",
            value: cpus.into(),
        });
    }
    let layout = parts.layout.ok_or(FileError::Mark("header_page"))?;
    let mut mark = cursor.take(10)?;
    if mark == b"options  \0" {
        loop {
            let id = cursor.u16()?;
            if id == 0 {
                break;
            }
            let length = cursor.u32()? as usize;
            parts.options.take(id, cursor.take(length)?)?;
        }
        mark = cursor.take(10)?;
    }
    check_mark(mark)?;
    let mut buffers = vec![buffer(
        bytes,
        &mut cursor,
        cpus,
        layout,
        "",
        &parts.options,
    )?];
    for option in &parts.options.buffers {
        // The option contains where the instance's table is in the file, and the name of the
        // instance.
        let mut option = Cursor::at(option, 0);
        let place = usize::try_from(option.u64()?).map_err(|_| FileError::Mark("buffer"))?;
        let name = printable(option.terminated()?);
        let mut cursor = Cursor::at(bytes, place);
        check_mark(cursor.take(10)?)?;
        buffers.push(buffer(
            bytes,
            &mut cursor,
            cpus,
            layout,
            &name,
            &parts.options,
        )?);
    }
    parts.into_file(6, buffers)
}

fn check_mark(mark: &[u8]) -> Result<(), FileError> {
    match mark {
        b"flyrecord\0" => Ok(()),
        b"latency  \0" => Err(FileError::Latency),
        _ => Err(FileError::Mark("flyrecord")),
    }
}

/// Reads a table of positions and lengths, one per CPU, followed by the clock (since trace-cmd
/// 2.9).
fn buffer<'a>(
    bytes: &'a [u8],
    cursor: &mut Cursor<'a>,
    cpus: u32,
    layout: PageLayout,
    name: &str,
    options: &Options,
) -> Result<Buffer<'a>, FileError> {
    let mut pages = Vec::new();
    for cpu in 0..cpus {
        let (place, length) = (cursor.u64()?, cursor.u64()?);
        let both = usize::try_from(place)
            .ok()
            .zip(usize::try_from(length).ok());
        let (place, length) = both.ok_or(FileError::Unreasonable {
            what: "a page offset of",
            value: place,
        })?;
        // If a CPU has no pages, the file may contain a position past its own end for this CPU.
        let bytes = if length == 0 {
            &[]
        } else {
            Cursor::at(bytes, place).take(length)?
        };
        pages.push(CpuPages {
            cpu,
            bytes,
            compression: Compression::None,
        });
    }
    // If the option has no text, the clock comes after the table.
    let clock = options
        .clock
        .clone()
        .filter(|clock| !clock.is_empty())
        .or_else(|| {
            long_text(cursor)
                .ok()
                .map(|clock| chosen_clock(clock.as_bytes()))
        });
    Ok(Buffer {
        name: name.to_owned(),
        clock: clock.unwrap_or_default(),
        layout,
        cpus: pages,
    })
}
