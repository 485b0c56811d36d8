//! Chooses the binary for a board: the running binary if the architecture is the same, otherwise a
//! binary built for the board's architecture.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tardy_sys::regular_file;

/// Folder in which a package puts binaries of other architectures, such as `tardy-aarch64`.
const INSTALLED: &str = "/usr/lib/tardy";
/// Size limit for a binary, in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Why there is no binary for a board.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    #[error("tardy does not support the machine's architecture, {0}")]
    Unknown(String),
    #[error(
        "the machine's architecture is {architecture}: build tardy for it (`cargo xtask build \
         {architecture}`) and put it beside {} as tardy-{architecture}, or give it with \
         --board-binary", beside.display()
    )]
    Missing {
        architecture: &'static str,
        beside: PathBuf,
    },
    #[error("cannot read {0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
}

/// (name in `uname -m`, name in this project, the compiler's target)
const ARCHITECTURES: [(&str, &str, &str); 7] = [
    ("x86_64", "x86_64", "x86_64-unknown-linux-musl"),
    ("aarch64", "aarch64", "aarch64-unknown-linux-musl"),
    ("arm64", "aarch64", "aarch64-unknown-linux-musl"),
    ("armv7l", "armv7", "armv7-unknown-linux-gnueabihf"),
    ("armv8l", "armv7", "armv7-unknown-linux-gnueabihf"),
    ("arm", "armv7", "armv7-unknown-linux-gnueabihf"),
    ("riscv64", "riscv64", "riscv64gc-unknown-linux-gnu"),
];

/// Returns the binary to copy to a board whose `uname -m` prints `machine`. `given` is the binary
/// that the user named.
///
/// # Errors
/// Returns a [`BinaryError`] if there is no binary for the board.
pub fn for_machine(machine: &str, given: Option<&Path>) -> Result<PathBuf, BinaryError> {
    let known = |machine: &str| ARCHITECTURES.iter().find(|(name, ..)| *name == machine);
    let Some((_, architecture, target)) = known(machine) else {
        return Err(BinaryError::Unknown(machine.to_owned()));
    };
    let own = std::env::current_exe()
        .map_err(|error| BinaryError::Unreadable(PathBuf::from("/proc/self/exe"), error))?;
    if known(std::env::consts::ARCH).is_some_and(|(_, here, _)| here == architecture) {
        return Ok(own);
    }
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let name = format!("tardy-{architecture}");
    // In a checkout, binaries of other architectures are in the target folder.
    let built = own
        .ancestors()
        .skip(1)
        .take(3)
        .map(|folder| folder.join(target).join("dist/tardy"));
    let candidates = [own.with_file_name(&name), Path::new(INSTALLED).join(&name)]
        .into_iter()
        .chain(built);
    candidates
        .into_iter()
        .find(|path| path.is_file())
        .ok_or(BinaryError::Missing {
            architecture,
            beside: own,
        })
}

/// Returns the SHA-256 of a file in the notation of `sha256sum`.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn digest(path: &Path) -> std::io::Result<String> {
    Ok(Sha256::digest(regular_file::read(path, BYTES_MAX)?)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_of_this_architecture_gets_this_binary_and_another_one_the_binary_that_was_given() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(for_machine(std::env::consts::ARCH, None).unwrap(), own);
        let other = if std::env::consts::ARCH == "riscv64" {
            "aarch64"
        } else {
            "riscv64"
        };
        assert_eq!(
            for_machine(other, Some(Path::new("/x/tardy"))).unwrap(),
            Path::new("/x/tardy")
        );
        assert!(
            for_machine("vax", None)
                .unwrap_err()
                .to_string()
                .contains("vax")
        );
    }
}
