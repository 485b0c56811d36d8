//! A secret that both ends of a link read from a file. The initiator of a session proves that it
//! knows the secret without sending it: HMAC-SHA-256 (RFC 2104) over a packet with a nonce that the
//! responder chose.
//!
//! It proves this only once, when a session starts, because computing a tag for every datagram
//! would lengthen each round trip. The responder computes the nonce from the address, the
//! conversation and the number of sessions, so it need not store anything when it is flooded with
//! hellos. Links without a secret use datagrams of version 1, so ends of older and newer versions
//! of tardy understand each other.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tardy_sys::regular_file;

/// Length of a tag in bytes.
pub(super) const TAG_BYTES: usize = 32;
/// Minimum length of a secret. Shorter secrets can be guessed.
const BYTES_MIN: usize = 16;
const BYTES_MAX: usize = 4_096;

/// Why a secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error(
        "cannot read the secret {0}: {1}: make one with `head -c 32 /dev/urandom | base64 > FILE`"
    )]
    Unreadable(PathBuf, io::Error),
    /// Other users may read the file.
    #[error("other users can read the secret {0}: run `chmod 600` on it")]
    NotSecret(PathBuf),
    /// The file is too short, or too long for a secret.
    #[error(
        "the secret {0} has {1} bytes, but needs {BYTES_MIN} to {BYTES_MAX}: make one with `head \
         -c 32 /dev/urandom | base64 > FILE`"
    )]
    Length(PathBuf, usize),
    /// A secret was given, but links of this kind take none.
    #[error(
        "{0} takes no secret, because only the other end of the link can reach it: leave the \
         secret out"
    )]
    NotTaken(String),
}

/// The shared secret.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Secret {
    /// Reads the secret from a file, without surrounding white space.
    ///
    /// # Errors
    /// Returns a [`SecretError`] that states why the secret cannot be used.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let unreadable = |error| SecretError::Unreadable(path.to_owned(), error);
        let file = regular_file::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.mode() & 0o007 != 0 {
            return Err(SecretError::NotSecret(path.to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(BYTES_MAX as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        let secret = bytes.trim_ascii();
        match secret.len() {
            BYTES_MIN..=BYTES_MAX => Ok(Self(secret.to_owned())),
            other => Err(SecretError::Length(path.to_owned(), other)),
        }
    }

    /// Makes a secret from the kernel's random numbers.
    ///
    /// # Errors
    /// Returns an error if /dev/urandom cannot be read.
    pub(super) fn drawn() -> io::Result<Self> {
        let mut bytes = vec![0; TAG_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the first eight bytes of the secret as a number.
    pub(super) fn number(&self) -> u64 {
        self.0
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Returns the tag of these bytes, which only a holder of the secret can compute.
    pub(super) fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        self.hmac(bytes).finalize().into_bytes().into()
    }

    /// Returns whether `tag` is the tag of `bytes`. The comparison takes the same time for all
    /// tags.
    pub(super) fn is_tag(&self, bytes: &[u8], tag: &[u8]) -> bool {
        self.hmac(bytes).verify_slice(tag).is_ok()
    }

    fn hmac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut hmac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of HMAC may have any length");
        hmac.update(bytes);
        hmac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_tag_is_that_of_the_rfc() {
        // RFC 4231, test case 2.
        let tag = Secret(b"Jefe".to_vec()).tag(b"what do ya want for nothing?");
        let hexadecimal: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hexadecimal,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_tag_is_of_its_bytes_and_its_secret_alone() {
        let (one, other) = (Secret::drawn().unwrap(), Secret::drawn().unwrap());
        let tag = one.tag(b"bytes");
        assert!(
            one.is_tag(b"bytes", &tag)
                && !one.is_tag(b"other", &tag)
                && !other.is_tag(b"bytes", &tag)
        );
        assert!(!one.is_tag(b"bytes", &tag[..31]) && !one.is_tag(b"bytes", b""));
        assert_eq!(format!("{one:?}"), "Secret", "its bytes are not printed");
    }

    #[test]
    fn a_file_that_others_may_read_or_that_can_be_guessed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str, mode| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Secret::read(&path).map_err(|error| error.to_string())
        };
        assert_eq!(
            file("good", "0123456789abcdef\n", 0o600).unwrap().0,
            b"0123456789abcdef"
        );
        assert!(
            file("open", "0123456789abcdef", 0o644)
                .unwrap_err()
                .contains("chmod 600")
        );
        assert!(
            file("short", "0123456789abcde\n\n", 0o600)
                .unwrap_err()
                .contains("has 15 bytes")
        );
        assert!(
            file("long", &"x".repeat(5_000), 0o600)
                .unwrap_err()
                .contains("4096")
        );
        assert!(
            Secret::read(&folder.path().join("none"))
                .unwrap_err()
                .to_string()
                .contains("/dev/urandom")
        );
        assert!(Secret::read(Path::new("/dev/zero")).is_err());
    }
}
