//! Names of kernel functions by address, read from /proc/kallsyms or from the copy in a trace file.
//! Also converts the names to the form in which people read them.

use std::borrow::Cow;

/// If the Rust compiler encoded the name of a function, returns the name as it is in the source.
/// Programs in Rust and Linux modules in Rust have such names. Other names are returned unchanged.
#[must_use]
pub fn shown(name: &str) -> Cow<'_, str> {
    match rustc_demangle::try_demangle(name) {
        // The hash at the end of an encoded name is left out, because it differs from build to
        // build.
        Ok(decoded) => Cow::Owned(format!("{decoded:#}")),
        Err(_) => Cow::Borrowed(name),
    }
}

/// Functions by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Sorted by address.
    symbols: Vec<Symbol>,
    /// All names, one after the other.
    names: String,
}

/// A function or a variable.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    address: u64,
    /// Where the name starts in `names`.
    start: u32,
    length: u16,
}

/// Maximum distance of an address from the start of the function that contains it; kallsyms does
/// not list the ends of functions.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of characters of a name.
const NAME_MAX: usize = 100;

impl Symbols {
    /// Reads lines `ADDRESS TYPE NAME [MODULE]`, and ignores other lines. If the kernel hides its
    /// addresses, they are all 0; then no names are known.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        // /proc/kallsyms has more than 100,000 lines, and a program that starts a measurement waits
        // for them.
        for line in text.lines() {
            let (address, end) = leading_hex(line);
            let Some(name) = line[end..].strip_prefix(' ').and_then(|rest| rest.get(2..)) else {
                continue;
            };
            let is_end = |byte: &u8| matches!(byte, b' ' | b'\t');
            let name = match name.as_bytes().iter().position(is_end) {
                Some(end) => &name[..end],
                None => name,
            };
            if address != 0 && !name.is_empty() {
                found.push(address, name);
            }
        }
        found.symbols.sort_by_key(|symbol| symbol.address);
        found
    }

    fn push(&mut self, address: u64, name: &str) {
        let start = self.names.len();
        let is_plain = name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain && !may_be_encoded(name) {
            self.names.push_str(name);
        } else {
            let shown = shown(name);
            let characters = shown.chars().filter(|character| !character.is_control());
            self.names.extend(characters.take(NAME_MAX));
        }
        if let (Ok(start), Ok(length)) = (
            u32::try_from(start),
            u16::try_from(self.names.len() - start),
        ) {
            self.symbols.push(Symbol {
                address,
                start,
                length,
            });
        }
    }

    fn name_of(&self, symbol: &Symbol) -> &str {
        let start = symbol.start as usize;
        &self.names[start..start + usize::from(symbol.length)]
    }

    /// Returns the name of the function at `address`; if there is none, the address as text.
    #[must_use]
    pub fn name_or_address(&self, address: u64) -> String {
        self.name(address)
            .map_or_else(|| format!("{address:#x}"), str::to_owned)
    }

    /// Returns the function that has code at `address`.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<&str> {
        self.nearest(address)
            .filter(|&(_, distance)| distance < FUNCTION_BYTES_MAX)
            .map(|(name, _)| name)
    }

    /// Returns the address of the function or variable with this name.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        let found = self.iter().find(|&(_, known)| known == name);
        found.map(|(address, _)| address)
    }

    /// Returns the addresses and the names of all functions and variables, sorted by address.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        let symbols = self.symbols.iter();
        symbols.map(|symbol| (symbol.address, self.name_of(symbol)))
    }

    /// Returns the last function that starts at or before `address`, and the distance from its
    /// start.
    #[must_use]
    pub fn nearest(&self, address: u64) -> Option<(&str, u64)> {
        let after = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        Some((self.name_of(symbol), address - symbol.address))
    }
}

/// Returns the number at the start of a line, and the number of its hexadecimal digits.
fn leading_hex(line: &str) -> (u64, usize) {
    let (mut number, mut digits) = (0, 0);
    for byte in line.bytes() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => break,
        };
        number = number << 4 | u64::from(digit);
        digits += 1;
    }
    (number, digits)
}

/// Returns whether the name starts like one that the Rust compiler encoded.
fn may_be_encoded(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    name.starts_with('R') || name.starts_with("ZN")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_functions_are_those_of_their_source() {
        let symbols = Symbols::parse(
            "ffffffff81000100 t _RNvNtCs1234_7mycrate4loop4step\n\
             ffffffff81000200 t _ZN7mycrate4loop4stop17h0123456789abcdefE\n\
             ffffffff81000300 t _Z4loopv\n\
             ffffffff81000400 t _Rno_name_of_rust\n",
        );
        assert_eq!(
            symbols.name(0xffff_ffff_8100_0100),
            Some("mycrate::loop::step")
        );
        assert_eq!(
            symbols.name(0xffff_ffff_8100_0200),
            Some("mycrate::loop::stop")
        );
        assert_eq!(symbols.name(0xffff_ffff_8100_0300), Some("_Z4loopv"));
        assert_eq!(
            symbols.name(0xffff_ffff_8100_0400),
            Some("_Rno_name_of_rust")
        );
    }

    #[test]
    fn an_address_is_of_the_function_before_it() {
        let symbols = Symbols::parse(
            "ffffffff81000020 T b [module]\nffffffff81000000 t a\nbad\n0000000000000000 t hidden\n",
        );
        assert_eq!(symbols.name(0xffff_ffff_8100_001f), Some("a"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0020), Some("b"));
        assert_eq!(symbols.name(0x10), None);
        assert_eq!(symbols.name(u64::MAX), None);
        assert_eq!(symbols.address("a"), Some(0xffff_ffff_8100_0000));
        assert_eq!(symbols.address("hidden"), None);
        assert_eq!(Symbols::parse("").name(1), None);
    }
}
