//! SHA-256 digests of inputs and results.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use tardy_sys::regular_file;

/// A SHA-256 digest, printed as 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Returns the digest of `bytes`.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut digester = Digester::default();
        digester.update(bytes);
        digester.finish()
    }

    /// Returns the digest of a file's content.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = regular_file::open(path)?;
        let mut digester = Digester::default();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(digester.finish()),
                length => digester.update(&buffer[..length]),
            }
        }
    }

    /// Returns the first twelve digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }

    /// Returns all digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// Computes the digest of bytes that arrive in parts.
#[derive(Default)]
pub struct Digester(sha2::Sha256);

impl Digester {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the length of a text or block, and then the text or block itself, so that `ab` + `c`
    /// differs from `a` + `bc`.
    pub fn update_block(&mut self, bytes: &[u8]) {
        self.update(&(bytes.len() as u64).to_le_bytes());
        self.update(bytes);
    }

    /// Returns the digest of all bytes added.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut text = String::with_capacity(64);
        for byte in self.0.finalize() {
            text.push_str(&format!("{byte:02x}"));
        }
        Digest(text)
    }
}

impl io::Write for Digester {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example is from FIPS 180-2, appendix B.1.
    #[test]
    fn the_standards_example_is_reproduced() {
        assert_eq!(
            Digest::of_bytes(b"abc").as_str(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn blocks_do_not_run_into_each_other() {
        let of = |blocks: [&str; 2]| {
            let mut digester = Digester::default();
            blocks
                .iter()
                .for_each(|block| digester.update_block(block.as_bytes()));
            digester.finish()
        };
        assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
    }
}
