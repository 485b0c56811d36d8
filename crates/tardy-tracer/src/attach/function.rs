//! Finds a function of a running program in those files that the program has mapped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;

use object::elf::{PT_LOAD, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::read::{ReadCache, ReadRef};
use object::{Endianness, elf};
use tardy_trace::symbols::shown;

use super::process::Process;

/// If a name ends with this, it stands for the return from the function, as in perf-probe(1).
const RETURN: &str = "%return";
/// Maximum number of similar names that an error lists.
const SIMILAR_MAX: usize = 5;

/// Why calls of a function cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum NoFunction {
    /// No file that the program has mapped defines the function.
    #[error(
        "process {process} has no function {name:?} in its {files} files with code{}",
        advice(.similar)
    )]
    Absent {
        process: u32,
        name: String,
        files: usize,
        /// Functions whose longer names contain the given name, such as C++ names.
        similar: Vec<String>,
    },
    /// The list of mapped files cannot be read.
    #[error("the files of process {process} cannot be read: {error}")]
    Maps { process: u32, error: io::Error },
    /// A file of the program is not an ELF file that tardy can read.
    #[error("{}: {reason}", .path.display())]
    File { path: PathBuf, reason: String },
}

fn advice(names: &[String]) -> String {
    if names.is_empty() {
        ": stripped programs have no names of functions".to_owned()
    } else {
        format!("; give one of: {}", names.join(", "))
    }
}

/// A function of a program, at whose start or return the kernel writes an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The function's name as the user gave it: a symbol, or the path of a Rust function.
    pub name: String,
    /// Path of the file below /proc, which is valid even outside the program's container.
    pub path: PathBuf,
    /// Offset of the function's first instruction in the file.
    pub offset: u64,
    /// Whether the event occurs at the return from the function, not at its start.
    pub is_return: bool,
}

impl Function {
    /// Finds `name`, or `name%return` for the return from the function. The program's own file is
    /// searched before its libraries.
    ///
    /// # Errors
    /// Returns [`NoFunction`].
    pub fn find(process: &Process, name: &str) -> Result<Self, NoFunction> {
        let (symbol, is_return) = match name.strip_suffix(RETURN) {
            Some(symbol) => (symbol, true),
            None => (name, false),
        };
        let files = process.code_files().map_err(|error| NoFunction::Maps {
            process: process.id,
            error,
        })?;
        let mut similar = BTreeSet::new();
        for path in &files {
            let failed = |reason: String| NoFunction::File {
                path: path.clone(),
                reason,
            };
            let file = File::open(path).map_err(|error| failed(error.to_string()))?;
            let found =
                find(file, symbol, &mut similar).map_err(|error| failed(error.to_string()))?;
            if let Some(offset) = found {
                return Ok(Self {
                    name: name.to_owned(),
                    path: path.clone(),
                    offset,
                    is_return,
                });
            }
        }
        Err(NoFunction::Absent {
            process: process.id,
            name: symbol.to_owned(),
            files: files.len(),
            similar: similar.into_iter().take(SIMILAR_MAX).collect(),
        })
    }

    /// Returns the line for `uprobe_events` of tracefs that creates the event `group/event`.
    #[must_use]
    pub fn definition(&self, group: &str, event: &str) -> String {
        let kind = if self.is_return { 'r' } else { 'p' };
        format!(
            "{kind}:{group}/{event} {}:{:#x}",
            self.path.display(),
            self.offset
        )
    }
}

/// Returns where a function starts in a file; `None` if the file does not define it. Adds longer
/// names that contain `name` to `similar`; if several Rust functions have the name, also adds their
/// symbols.
fn find(
    file: File,
    name: &str,
    similar: &mut BTreeSet<String>,
) -> Result<Option<u64>, object::Error> {
    let data = ReadCache::new(file);
    match object::FileKind::parse(&data)? {
        object::FileKind::Elf64 => {
            find_in::<elf::FileHeader64<Endianness>, _>(&data, name, similar)
        }
        object::FileKind::Elf32 => {
            find_in::<elf::FileHeader32<Endianness>, _>(&data, name, similar)
        }
        _ => Ok(None),
    }
}

fn find_in<'data, Header, Data>(
    data: Data,
    name: &str,
    similar: &mut BTreeSet<String>,
) -> Result<Option<u64>, object::Error>
where
    Header: FileHeader<Endian = Endianness>,
    Data: ReadRef<'data>,
{
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    // Returns the Rust functions whose decoded name is `name`, by address. There can be several,
    // such as the instances of a generic function.
    let mut decoded = BTreeMap::new();
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let symbols = sections.symbols(endian, data, kind)?;
        for symbol in symbols.iter() {
            if symbol.st_type() != STT_FUNC || symbol.is_undefined(endian) {
                continue;
            }
            let found = symbol.name(endian, symbols.strings())?;
            if found == name.as_bytes() {
                let address: u64 = symbol.st_value(endian).into();
                return offset::<Header, _>(header, endian, data, address).map(Some);
            }
            let Ok(found) = std::str::from_utf8(found) else {
                continue;
            };
            let shown = shown(found);
            if shown == name {
                decoded.insert(symbol.st_value(endian).into(), found.to_owned());
            } else if shown.contains(name) && similar.len() < SIMILAR_MAX {
                similar.insert(shown.into_owned());
            }
        }
    }
    if let Some((&address, _)) = decoded.first_key_value().filter(|_| decoded.len() == 1) {
        return offset::<Header, _>(header, endian, data, address).map(Some);
    }
    similar.extend(decoded.into_values());
    Ok(None)
}

/// Converts a virtual address of an ELF file to an offset in the file.
fn offset<'data, Header, Data>(
    header: &Header,
    endian: Endianness,
    data: Data,
    address: u64,
) -> Result<u64, object::Error>
where
    Header: FileHeader<Endian = Endianness>,
    Data: ReadRef<'data>,
{
    for segment in header.program_headers(endian, data)? {
        let start: u64 = segment.p_vaddr(endian).into();
        let length: u64 = segment.p_filesz(endian).into();
        let begin: u64 = segment.p_offset(endian).into();
        if segment.p_type(endian) == PT_LOAD
            && let Some(within) = address.checked_sub(start).filter(|within| *within < length)
        {
            return Ok(begin.saturating_add(within));
        }
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use tardy_machine::root::Root;

    use super::*;

    #[inline(never)]
    fn function_to_find(value: u64) -> u64 {
        value.rotate_left(7) ^ 0x5ca1_ab1e
    }

    #[test]
    fn a_function_of_this_program_is_found_at_its_first_instruction() {
        let process = Process::find(&Root::system(), std::process::id()).unwrap();
        let error = Function::find(&process, "function_to_fin").unwrap_err();
        let message = error.to_string();
        let names = message.split_once("; give one of: ").unwrap().1;
        let name = names.split(", ").next().unwrap();
        assert!(name.ends_with("::function_to_find"), "{message}");

        let found = Function::find(&process, &format!("{name}%return")).unwrap();
        let line = found.definition("tardy_7_1", "tardy_to");
        assert!(line.starts_with("r:tardy_7_1/tardy_to /proc/"), "{line}");

        let code = std::hint::black_box(function_to_find as fn(u64) -> u64);
        let [mut in_file, mut in_memory] = [[0; 4]; 2];
        let read = |path: &str, bytes: &mut [u8], at: u64| {
            File::open(path).unwrap().read_exact_at(bytes, at).unwrap();
        };
        read("/proc/self/exe", &mut in_file, found.offset);
        read("/proc/self/mem", &mut in_memory, code as usize as u64);
        assert_eq!((in_file, code(0)), (in_memory, 0x5ca1_ab1e));
    }

    #[test]
    fn a_function_that_is_nowhere_is_an_error_that_says_what_was_searched() {
        let process = Process::find(&Root::system(), std::process::id()).unwrap();
        let error = Function::find(&process, "no_such_function_anywhere_else").unwrap_err();
        assert!(error.to_string().contains("has no function"), "{error}");
    }
}
