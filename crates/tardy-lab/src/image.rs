//! Recognises kernel images, and reads their architecture and version.
//!
//! Formats: Documentation/arch/x86/boot.rst (header at 0x1f1), Documentation/arch/arm64/booting.rst
//! and Documentation/arch/riscv/boot-image-header.rst (magic at 0x38).

use super::architecture::Architecture;

/// What an image states about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The architecture on which the image boots.
    pub architecture: Architecture,
    /// Release and build, such as
    /// `6.1.0-56-rt-amd64 (...) #1 SMP PREEMPT_RT Debian 6.1.192-2 (...)`; absent if they are in
    /// the compressed part of the image.
    pub version: Option<String>,
}

/// Why a file is not a bootable kernel image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The file is an uncompressed ELF kernel.
    #[error(
        "this is the ELF file of a kernel, which cannot boot: give the bzImage or Image from \
         arch/*/boot instead"
    )]
    Elf,
    /// The file is compressed as a whole.
    #[error("this image is compressed as a whole ({0}): decompress the image first")]
    Compressed(&'static str),
    /// The file is something else.
    #[error(
        "this is not a kernel image for amd64, arm64 or riscv64: give a bzImage, vmlinuz, Image or \
         .deb file"
    )]
    Unknown,
}

/// Recognises a kernel image from the bytes of its file.
///
/// # Errors
/// Returns [`ImageError`] for files that do not boot.
pub fn recognise(bytes: &[u8]) -> Result<Image, ImageError> {
    let at = |offset: usize, magic: &[u8]| {
        bytes
            .get(offset..)
            .is_some_and(|rest| rest.starts_with(magic))
    };
    if at(0x202, b"HdrS") && at(0x1fe, &[0x55, 0xaa]) {
        return Ok(Image {
            architecture: Architecture::Amd64,
            version: x86_version(bytes),
        });
    }
    if at(0x38, b"ARM\x64") {
        return Ok(Image {
            architecture: Architecture::Arm64,
            version: banner_version(bytes),
        });
    }
    if at(0x38, b"RSC\x05") {
        return Ok(Image {
            architecture: Architecture::Riscv64,
            version: banner_version(bytes),
        });
    }
    if at(0, b"\x7fELF") {
        return Err(ImageError::Elf);
    }
    if at(0, &[0x1f, 0x8b]) {
        return Err(ImageError::Compressed("gzip"));
    }
    if at(0, b"MZ") && at(4, b"zimg") {
        return Err(ImageError::Compressed("EFI zboot"));
    }
    Err(ImageError::Unknown)
}

/// Returns the text to which the field `kernel_version` points. The field is at 0x20e, and contains
/// the offset of the text relative to 0x200.
fn x86_version(bytes: &[u8]) -> Option<String> {
    let pointer = u16::from_le_bytes(*bytes.get(0x20e..)?.first_chunk()?);
    text_at(bytes, usize::from(pointer) + 0x200)
}

/// Returns the text after `Linux version ` in an image that is not compressed.
fn banner_version(bytes: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let start = bytes
        .windows(BANNER.len())
        .position(|window| window == BANNER)?
        + BANNER.len();
    text_at(bytes, start)
}

fn text_at(bytes: &[u8], start: usize) -> Option<String> {
    const LENGTH_MAX: usize = 512;
    let rest = bytes.get(start..)?;
    let end = rest
        .iter()
        .take(LENGTH_MAX)
        .position(|&byte| byte == 0 || byte == b'\n')?;
    let text = std::str::from_utf8(&rest[..end]).ok()?;
    (!text.is_empty() && text.chars().all(|c| !c.is_control())).then(|| text.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the shortest content that is recognised as a bzImage.
    pub(crate) fn bzimage(version: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x200_u16.to_le_bytes());
        bytes.extend_from_slice(version.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_bzimage_tells_its_version() {
        let image = recognise(&bzimage("6.1.0-56-rt-amd64 (x) #1 SMP PREEMPT_RT")).unwrap();
        assert_eq!(image.architecture, Architecture::Amd64);
        assert_eq!(
            image.version.as_deref(),
            Some("6.1.0-56-rt-amd64 (x) #1 SMP PREEMPT_RT")
        );
    }

    #[test]
    fn an_arm_image_tells_its_banner() {
        let mut bytes = vec![0; 0x100];
        bytes[0x38..0x3c].copy_from_slice(b"ARM\x64");
        bytes.extend_from_slice(b"Linux version 6.12.1 (y)\n\0");
        assert_eq!(
            recognise(&bytes),
            Ok(Image {
                architecture: Architecture::Arm64,
                version: Some("6.12.1 (y)".into())
            })
        );
    }

    #[test]
    fn what_does_not_boot_is_named() {
        assert_eq!(recognise(b"\x7fELF..."), Err(ImageError::Elf));
        assert_eq!(
            recognise(&[0x1f, 0x8b, 8]),
            Err(ImageError::Compressed("gzip"))
        );
        assert_eq!(
            recognise(b"MZ..zimg"),
            Err(ImageError::Compressed("EFI zboot"))
        );
        assert_eq!(recognise(b""), Err(ImageError::Unknown));
    }

    #[test]
    fn a_pointer_past_the_end_is_no_version() {
        let mut bytes = bzimage("x");
        bytes[0x20e..0x210].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(recognise(&bytes).unwrap().version, None);
    }
}
