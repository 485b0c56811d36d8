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
    /// Addresses and names, sorted by address.
    addresses: Vec<(u64, String)>,
}

/// Maximum distance of an address from the start of the function that contains it; kallsyms does
/// not list the ends of functions.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

impl Symbols {
    /// Reads lines `ADDRESS TYPE NAME [MODULE]`, and ignores other lines. If the kernel hides its
    /// addresses, they are all 0; then no names are known.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16)
                .ok()
                .filter(|&address| address != 0)?;
            let name = words.nth(1)?;
            Some((
                address,
                shown(name)
                    .chars()
                    .filter(|character| !character.is_control())
                    .take(100)
                    .collect(),
            ))
        };
        let mut addresses: Vec<(u64, String)> = text.lines().filter_map(line).collect();
        addresses.sort_by_key(|&(address, _)| address);
        Self { addresses }
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
        let found = self.addresses.iter().find(|(_, known)| known == name);
        found.map(|&(address, _)| address)
    }

    /// Returns the names of all functions, sorted by address.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().map(|(_, name)| name.as_str())
    }

    /// Returns the last function that starts at or before `address`, and the distance from its
    /// start.
    #[must_use]
    pub fn nearest(&self, address: u64) -> Option<(&str, u64)> {
        let after = self
            .addresses
            .partition_point(|&(start, _)| start <= address);
        let (start, name) = self.addresses.get(after.checked_sub(1)?)?;
        Some((name, address - start))
    }
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
