//! The kernel's symbols as an ELF file without code, from which a debugger names the functions and
//! variables of a guest.

use crate::kernel_symbols::KernelSymbols;

/// The lowest address of the kernel's code and of its modules on amd64 without KASLR
/// (Documentation/arch/x86/x86_64/mm.rst).
const CODE_BEGIN: u64 = 0xffff_ffff_8000_0000;

// Sizes and numbers of ELF-64 (elf(5)).
const HEADER_BYTES: u64 = 64;
const SECTION_BYTES: u64 = 64;
const SYMBOL_BYTES: u64 = 24;
const TYPE_EXECUTABLE: u16 = 2;
const MACHINE_AMD64: u16 = 62;
const SECTION_SYMBOLS: u32 = 2;
const SECTION_STRINGS: u32 = 3;
/// Type of an ELF section whose content is not in the file.
const SECTION_NO_CONTENT: u32 = 8;
const ALLOCATED_CODE: u64 = 2 | 4;
/// The section number of a symbol that has an absolute address.
const ABSOLUTE: u16 = 0xfff1;
const LOCAL_OBJECT: u8 = 1;
const LOCAL_FUNCTION: u8 = 2;

fn offset(strings: &[u8]) -> u32 {
    u32::try_from(strings.len()).unwrap_or(0)
}

/// Returns an ELF file for amd64 that contains the symbols. The names of modules' symbols do not
/// include the module's name.
#[must_use]
pub fn elf(symbols: &KernelSymbols) -> Vec<u8> {
    let mut strings = b"\0.text\0.symtab\0.strtab\0".to_vec();
    let mut table = vec![0; SYMBOL_BYTES as usize];
    for (address, name, is_code) in symbols.all() {
        let name = name.split(' ').next().unwrap_or(name);
        let (kind, section) = if is_code && address >= CODE_BEGIN {
            (LOCAL_FUNCTION, 1)
        } else {
            (LOCAL_OBJECT, ABSOLUTE)
        };
        table.extend(offset(&strings).to_le_bytes());
        table.extend([kind, 0]);
        table.extend(section.to_le_bytes());
        table.extend(address.to_le_bytes());
        table.extend(0_u64.to_le_bytes());
        strings.extend(name.bytes());
        strings.push(0);
    }
    let sections_at = HEADER_BYTES;
    let table_at = sections_at + 4 * SECTION_BYTES;
    let strings_at = table_at + table.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(TYPE_EXECUTABLE.to_le_bytes());
    file.extend(MACHINE_AMD64.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    // The file has no entry point and no program headers.
    file.extend([0; 16]);
    file.extend(sections_at.to_le_bytes());
    file.extend(0_u32.to_le_bytes());
    for half in [HEADER_BYTES as u16, 0, 0, SECTION_BYTES as u16, 4, 3] {
        file.extend(half.to_le_bytes());
    }
    file.extend([0; SECTION_BYTES as usize]);
    let last_local = (table.len() as u64 / SYMBOL_BYTES) as u32;
    for (name, kind, flags, address, at, bytes, link, info, align, entry) in [
        (
            1,
            SECTION_NO_CONTENT,
            ALLOCATED_CODE,
            CODE_BEGIN,
            0,
            u64::MAX - CODE_BEGIN,
            0,
            0,
            1,
            0,
        ),
        (
            7,
            SECTION_SYMBOLS,
            0,
            0,
            table_at,
            table.len() as u64,
            3,
            last_local,
            8,
            SYMBOL_BYTES,
        ),
        (
            15,
            SECTION_STRINGS,
            0,
            0,
            strings_at,
            strings.len() as u64,
            0,
            0,
            1,
            0,
        ),
    ] {
        let (name, link, info): (u32, u32, u32) = (name, link, info);
        file.extend(name.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [flags, address, at, bytes] {
            file.extend(word.to_le_bytes());
        }
        file.extend(link.to_le_bytes());
        file.extend(info.to_le_bytes());
        for word in [align, entry] {
            file.extend(u64::to_le_bytes(word));
        }
    }
    file.extend(table);
    file.extend(strings);
    file
}
