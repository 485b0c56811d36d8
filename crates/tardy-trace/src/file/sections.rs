//! Reads files of version 7, which consist of sections in any order. Options contain the positions
//! of the sections. Sections may be compressed.

use std::borrow::Cow;

use super::{
    Buffer, CPUS_MAX, Compression, CpuPages, FileError, Parts, SECTION_BYTES_MAX, TraceFile,
    chosen_clock, printable,
};
use crate::bytes::Cursor;
use crate::layout::{PAGE_BYTES_MAX, PageLayout};

/// Numbers of sections. An option that contains the position of a section has the same number as
/// that section.
const OPTIONS: u16 = 0;
const HEADER_INFO: u16 = 16;
const TRACER_FORMATS: u16 = 17;
const EVENT_FORMATS: u16 = 18;
const SYMBOLS: u16 = 19;
const COMMANDS: u16 = 21;
const BUFFER: u16 = 3;
/// The only flag that a section can have.
const IS_COMPRESSED: u16 = 1;

/// Reads a file, starting after the page size.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    mut cursor: Cursor<'a>,
) -> Result<TraceFile<'a>, FileError> {
    let compression = Compression::named(cursor.terminated()?)?;
    let _version = cursor.terminated()?;
    let mut place = cursor.u64()?;
    let mut parts = Parts::default();
    let mut sections = Vec::new();
    while place != 0 {
        let next = options(
            &section(bytes, place, OPTIONS, compression)?,
            &mut parts,
            &mut sections,
        )?;
        // Each section of options contains the position of the next one. These positions must
        // increase: if the sections formed a cycle, reading would never end.
        if next != 0 && next <= place {
            return Err(FileError::Unreasonable {
                what: "a next-options offset of",
                value: next,
            });
        }
        place = next;
    }
    for (id, place) in sections {
        let content = section(bytes, place, id, compression)?;
        let mut cursor = Cursor::at(&content, 0);
        match id {
            HEADER_INFO => parts.headers(&mut cursor)?,
            TRACER_FORMATS => parts.tracer_formats(&mut cursor)?,
            EVENT_FORMATS => parts.event_formats(&mut cursor)?,
            SYMBOLS => parts.symbols(&mut cursor)?,
            _ => parts.commands(&mut cursor)?,
        }
    }
    let layout = parts.layout.ok_or(FileError::Mark("header_page"))?;
    let described = std::mem::take(&mut parts.options.buffers);
    let buffers = described
        .iter()
        .map(|option| buffer(bytes, option, layout, compression))
        .collect::<Result<_, _>>()?;
    parts.into_file(7, buffers)
}

/// Reads options up to the last one, which contains the position of the next section of options.
/// Returns this position.
fn options(
    content: &[u8],
    parts: &mut Parts,
    sections: &mut Vec<(u16, u64)>,
) -> Result<u64, FileError> {
    let mut cursor = Cursor::at(content, 0);
    loop {
        let id = cursor.u16()?;
        let length = cursor.u32()? as usize;
        let data = cursor.take(length)?;
        match id {
            OPTIONS => return Ok(Cursor::at(data, 0).u64()?),
            HEADER_INFO | TRACER_FORMATS | EVENT_FORMATS | SYMBOLS | COMMANDS => {
                // A file in which a section occurs twice is refused, because repeated sections
                // would take a multiple of the memory.
                if sections.iter().any(|&(known, _)| known == id) {
                    return Err(FileError::Unreasonable {
                        what: "a second section of type",
                        value: id.into(),
                    });
                }
                sections.push((id, Cursor::at(data, 0).u64()?));
            }
            _ => parts.options.take(id, data)?,
        }
    }
}

/// Reads the head of a section: number, flags, description, length. The returned cursor is after
/// the head.
fn head(bytes: &[u8], place: u64, id: u16) -> Result<(Cursor<'_>, bool, u64), FileError> {
    let place = usize::try_from(place).map_err(|_| FileError::Unreasonable {
        what: "a section offset of",
        value: place,
    })?;
    let mut cursor = Cursor::at(bytes, place);
    if cursor.u16()? != id {
        return Err(FileError::Mark("section"));
    }
    let is_compressed = cursor.u16()? & IS_COMPRESSED != 0;
    let _description = cursor.u32()?;
    let length = cursor.u64()?;
    Ok((cursor, is_compressed, length))
}

fn section<'a>(
    bytes: &'a [u8],
    place: u64,
    id: u16,
    compression: Compression,
) -> Result<Cow<'a, [u8]>, FileError> {
    let (mut cursor, is_compressed, length) = head(bytes, place, id)?;
    if is_compressed {
        return Ok(compression.part(&mut cursor, SECTION_BYTES_MAX)?);
    }
    let length = usize::try_from(length).map_err(|_| FileError::Unreasonable {
        what: "a section of",
        value: length,
    })?;
    Ok(Cow::Borrowed(cursor.take(length)?))
}

/// Returns the buffer that an option describes. The option contains where the buffer's section is,
/// and where each CPU's pages are.
fn buffer<'a>(
    bytes: &'a [u8],
    option: &[u8],
    layout: PageLayout,
    compression: Compression,
) -> Result<Buffer<'a>, FileError> {
    let mut option = Cursor::at(option, 0);
    let (_, is_compressed, _) = head(bytes, option.u64()?, BUFFER)?;
    let name = printable(option.terminated()?);
    let clock = chosen_clock(option.terminated()?);
    let page_bytes = option.u32()?;
    if (page_bytes as usize) < layout.data_offset || page_bytes as usize > PAGE_BYTES_MAX {
        return Err(FileError::Unreasonable {
            what: "a page size of",
            value: page_bytes.into(),
        });
    }
    let count = option.u32()?;
    if count > CPUS_MAX {
        return Err(FileError::Unreasonable {
            what: "a number of CPUs of",
            value: count.into(),
        });
    }
    let mut cpus = Vec::new();
    for _ in 0..count {
        let (cpu, place, length) = (option.u32()?, option.u64()?, option.u64()?);
        let both = usize::try_from(place)
            .ok()
            .zip(usize::try_from(length).ok());
        let (place, length) = both.ok_or(FileError::Unreasonable {
            what: "a page offset of",
            value: place,
        })?;
        // trace-cmd 3.1.6 does not count the word with the number of chunks as part of the length.
        let length = if length > 0 && is_compressed {
            length.saturating_add(4)
        } else {
            length
        };
        let bytes = if length == 0 {
            &[]
        } else {
            Cursor::at(bytes, place).take(length)?
        };
        cpus.push(CpuPages {
            cpu,
            bytes,
            compression: if is_compressed {
                compression
            } else {
                Compression::None
            },
        });
    }
    Ok(Buffer {
        name,
        clock,
        layout: layout.with_page_bytes(page_bytes as usize),
        cpus,
    })
}
