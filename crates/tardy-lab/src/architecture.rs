//! The CPU architectures of guests, with the names that Debian, QEMU, Linux and Rust use for them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A guest's architecture, by the name that Debian and most users use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// 64-bit x86.
    Amd64,
    /// 64-bit Arm.
    Arm64,
    /// 64-bit RISC-V.
    Riscv64,
}

impl Architecture {
    /// Every architecture.
    pub const ALL: [Self; 3] = [Self::Amd64, Self::Arm64, Self::Riscv64];

    /// Returns the architecture that this binary was built for.
    #[must_use]
    pub fn of_this_binary() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::Amd64),
            "aarch64" => Some(Self::Arm64),
            "riscv64" => Some(Self::Riscv64),
            _ => None,
        }
    }

    /// Returns the architecture's name as used in package names and on tardy's command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// Returns the name of QEMU's program for the architecture.
    #[must_use]
    pub fn qemu_program(self) -> &'static str {
        match self {
            Self::Amd64 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
            Self::Riscv64 => "qemu-system-riscv64",
        }
    }

    /// Returns the packages that contain QEMU's program: first Debian's and Ubuntu's name, then
    /// Fedora's.
    #[must_use]
    pub fn qemu_packages(self) -> (&'static str, &'static str) {
        match self {
            Self::Amd64 => ("qemu-system-x86", "qemu-system-x86-core"),
            Self::Arm64 => ("qemu-system-arm", "qemu-system-aarch64-core"),
            Self::Riscv64 => ("qemu-system-misc", "qemu-system-riscv-core"),
        }
    }

    /// Returns the kernel's name for the serial port of QEMU's machine.
    #[must_use]
    pub fn console(self) -> &'static str {
        match self {
            Self::Amd64 | Self::Riscv64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }

    /// Returns the architecture's number in the header of an ELF file (`e_machine`,
    /// /usr/include/elf.h).
    #[must_use]
    pub fn elf_machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
            Self::Riscv64 => 243,
        }
    }

    /// Returns the Rust target with which static binaries for the architecture are built.
    #[must_use]
    pub fn rust_target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
            // rustup has no musl library for RISC-V (Rust 1.95).
            Self::Riscv64 => "riscv64gc-unknown-linux-gnu",
        }
    }

    /// Returns the commands (of rustup, and of apt-get on Debian) that install the requirements for
    /// building for the Rust target.
    #[must_use]
    pub fn build_needs(self) -> &'static str {
        match self {
            Self::Amd64 => "rustup target add x86_64-unknown-linux-musl",
            Self::Arm64 => "rustup target add aarch64-unknown-linux-musl",
            Self::Riscv64 => {
                "rustup target add riscv64gc-unknown-linux-gnu; apt-get install \
                 gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"
            }
        }
    }

    /// Returns the path of the bootable image within a kernel tree.
    #[must_use]
    pub fn image_in_tree(self) -> &'static Path {
        Path::new(match self {
            Self::Amd64 => "arch/x86/boot/bzImage",
            Self::Arm64 => "arch/arm64/boot/Image",
            Self::Riscv64 => "arch/riscv/boot/Image",
        })
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is not the name of an architecture of the lab.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an architecture of the lab: use amd64, arm64 or riscv64")]
pub struct ParseArchitectureError(String);

impl FromStr for Architecture {
    type Err = ParseArchitectureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "amd64" | "x86_64" | "x86" => Ok(Self::Amd64),
            "arm64" | "aarch64" => Ok(Self::Arm64),
            "riscv64" | "riscv" => Ok(Self::Riscv64),
            _ => Err(ParseArchitectureError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_again_and_others_are_refused() {
        for architecture in Architecture::ALL {
            assert_eq!(architecture.name().parse(), Ok(architecture));
        }
        assert!(
            "sparc"
                .parse::<Architecture>()
                .unwrap_err()
                .to_string()
                .contains("amd64")
        );
    }
}
