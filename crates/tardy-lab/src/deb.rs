//! Reads Debian packages (deb(5)). A package is an `ar` archive that contains a compressed tar
//! archive. The reader starts no other program, so it can read kernel packages on any distribution.

use std::ffi::OsStr;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tardy_sys::regular_file;

/// Why a package cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DebError {
    /// The package cannot be read.
    #[error("{path}: {error}")]
    Read {
        path: PathBuf,
        /// The error that the system or the decompressor reported.
        error: io::Error,
    },
    /// The file is not a package.
    #[error("{0} is not a Debian package, or is damaged: fetch it again")]
    NoPackage(PathBuf),
    /// This reader does not know the compression.
    #[error(
        "{path} has an unknown compression ({member}): unpack it with dpkg-deb -x and give the \
         folder"
    )]
    Compression {
        path: PathBuf,
        /// Name of the package's member that has the unknown compression.
        member: String,
    },
}

/// A file found in a package.
pub struct PackedFile {
    /// Path of the file, without the leading `./`.
    pub path: PathBuf,
    pub content: Vec<u8>,
}

/// Largest file that is extracted from a package, in bytes, to limit what a damaged or hostile
/// package can do. Kernel images have less than 40 MB.
const FILE_LENGTH_MAX: u64 = 512 << 20;
/// Maximum length of a file name and of the metadata stored with it, in bytes.
const NAME_LENGTH_MAX: u64 = 64 << 10;
/// Maximum memory for decompressing xz, in KiB. `xz -9` has a dictionary of 64 MiB, but a hostile
/// header of 24 bytes can ask for 4 GiB.
const XZ_MEMORY_MAX: u32 = 256 << 10;
/// Maximum length of an unpacked package, in bytes. Without this limit, a hostile package of a few
/// kB could unpack to any length. Kernels with all their modules have 0.5 GB.
const UNPACKED_MAX: u64 = 4 << 30;

/// Extracts the files that `wanted` selects, in the order of the package. Stops when `enough`
/// returns true for the files found so far.
///
/// # Errors
/// Returns [`DebError`].
pub fn extract(
    package: &Path,
    wanted: &dyn Fn(&Path) -> bool,
    enough: &dyn Fn(&[PackedFile]) -> bool,
) -> Result<Vec<PackedFile>, DebError> {
    let read_error = |error| DebError::Read {
        path: package.to_owned(),
        error,
    };
    let mut archive = tar::Archive::new(data_member(package)?.take(UNPACKED_MAX));
    let mut found = Vec::new();
    let mut long_name = None;
    // In raw mode, the `tar` crate also returns the entries that carry long names, and
    // [`name_of_next`] limits the length of these names. Otherwise the crate would read a name of
    // any length into memory.
    for entry in archive.entries().map_err(read_error)?.raw(true) {
        let mut entry = entry.map_err(read_error)?;
        if let Some(name) = name_of_next(&mut entry).map_err(read_error)? {
            long_name = name.or(long_name);
            continue;
        }
        let path = match long_name.take() {
            Some(name) => name,
            None => entry.path().map_err(read_error)?.into_owned(),
        };
        let path = path.strip_prefix("./").map(Path::to_owned).unwrap_or(path);
        if !entry.header().entry_type().is_file() || !wanted(&path) {
            continue;
        }
        if entry.size() > FILE_LENGTH_MAX {
            return Err(DebError::NoPackage(package.to_owned()));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(read_error)?;
        found.push(PackedFile { path, content });
        if enough(&found) {
            break;
        }
    }
    Ok(found)
}

/// A path that is too long for a header is stored in a separate entry before the file's own entry.
/// If `entry` is such an entry, returns the path. If `entry` contains other metadata, returns
/// `Some(None)`; if `entry` is an ordinary one, returns `None`.
fn name_of_next(entry: &mut tar::Entry<'_, impl Read>) -> io::Result<Option<Option<PathBuf>>> {
    let kind = entry.header().entry_type();
    let is_extended = kind.is_pax_local_extensions();
    if !is_extended
        && !kind.is_gnu_longname()
        && !kind.is_gnu_longlink()
        && !kind.is_pax_global_extensions()
    {
        return Ok(None);
    }
    if entry.size() > NAME_LENGTH_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the package contains a name that is longer than any path",
        ));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    let path = |bytes: &[u8]| {
        PathBuf::from(OsStr::from_bytes(
            bytes.strip_suffix(b"\0").unwrap_or(bytes),
        ))
    };
    if is_extended {
        let mut fields = tar::PaxExtensions::new(&bytes).flatten();
        return Ok(Some(
            fields
                .find(|field| field.key_bytes() == b"path")
                .map(|field| path(field.value_bytes())),
        ));
    }
    Ok(Some(kind.is_gnu_longname().then(|| path(&bytes))))
}

/// Returns the decompressed tar archive with the package's files.
fn data_member(package: &Path) -> Result<Box<dyn Read>, DebError> {
    let read_error = |error| DebError::Read {
        path: package.to_owned(),
        error,
    };
    let mut file = BufReader::new(regular_file::open(package).map_err(read_error)?);
    let mut magic = [0; 8];
    file.read_exact(&mut magic)
        .map_err(|_| DebError::NoPackage(package.to_owned()))?;
    if &magic != b"!<arch>\n" {
        return Err(DebError::NoPackage(package.to_owned()));
    }
    loop {
        let mut header = [0; 60];
        file.read_exact(&mut header)
            .map_err(|_| DebError::NoPackage(package.to_owned()))?;
        let (name, length) =
            member(&header).ok_or_else(|| DebError::NoPackage(package.to_owned()))?;
        if !name.starts_with("data.tar") {
            let skip = i64::try_from(length.next_multiple_of(2))
                .map_err(|_| DebError::NoPackage(package.to_owned()))?;
            file.seek(SeekFrom::Current(skip)).map_err(read_error)?;
            continue;
        }
        let content = file.take(length);
        return match name.as_str() {
            "data.tar" => Ok(Box::new(content)),
            "data.tar.xz" => Ok(Box::new(lzma_rust2::XzReader::new_mem_limit(
                content,
                true,
                XZ_MEMORY_MAX,
            ))),
            "data.tar.gz" => Ok(Box::new(flate2::read::MultiGzDecoder::new(content))),
            "data.tar.zst" => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(content)
                    .map_err(|error| read_error(io::Error::other(error)))?;
                Ok(Box::new(decoder))
            }
            _ => Err(DebError::Compression {
                path: package.to_owned(),
                member: name,
            }),
        };
    }
}

/// Returns the name and the length of an archive member, from the member's header (ar(5)); `None`
/// if the header is damaged.
fn member(header: &[u8; 60]) -> Option<(String, u64)> {
    if &header[58..] != b"`\n" {
        return None;
    }
    let name = std::str::from_utf8(&header[..16])
        .ok()?
        .trim_end()
        .trim_end_matches('/')
        .to_owned();
    let length = std::str::from_utf8(&header[48..58])
        .ok()?
        .trim_end()
        .parse()
        .ok()?;
    Some((name, length))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn ar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = b"!<arch>\n".to_vec();
        for (name, content) in members {
            bytes.extend_from_slice(
                format!(
                    "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
                    0,
                    0,
                    0,
                    100_644,
                    content.len()
                )
                .as_bytes(),
            );
            bytes.extend_from_slice(content);
            if content.len() % 2 == 1 {
                bytes.push(b'\n');
            }
        }
        bytes
    }

    /// Makes a package that is compressed with gzip and contains these files.
    pub(crate) fn package(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar_of(files)).unwrap();
        ar_of(&[
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", b"odd"),
            ("data.tar.gz", &gzip.finish().unwrap()),
        ])
    }

    fn vmlinuz_of(bytes: &[u8]) -> Result<Vec<PackedFile>, DebError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("package.deb");
        std::fs::write(&path, bytes).unwrap();
        extract(&path, &|path| path.starts_with("boot"), &|found| {
            found.len() == 1
        })
    }

    const FILES: [(&str, &[u8]); 2] = [
        ("usr/share/doc", b"text"),
        ("./boot/vmlinuz-6.1", b"kernel"),
    ];

    #[test]
    fn files_come_out_of_every_compression_that_debian_uses() {
        let tar = tar_of(&FILES);
        let zstd = ruzstd::encoding::compress_to_vec(
            &tar[..],
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        // The program `xz` made this archive from the same two files, because the crate that
        // decompresses xz is built without its encoder.
        let xz = include_bytes!("../tests/data/two-files.tar.xz");
        let packages = [
            package(&FILES),
            ar_of(&[("data.tar/", &tar)]),
            ar_of(&[("debian-binary", b"2.0\n"), ("data.tar.zst", &zstd)]),
            ar_of(&[("debian-binary", b"2.0\n"), ("data.tar.xz", xz)]),
        ];
        for bytes in packages {
            let found = vmlinuz_of(&bytes).unwrap();
            assert_eq!(
                (found[0].path.as_path(), &found[0].content[..]),
                (Path::new("boot/vmlinuz-6.1"), &b"kernel"[..])
            );
        }
    }

    #[test]
    fn a_long_name_is_read_and_one_without_an_end_is_refused_before_it_is() {
        let long = format!("boot/{}", "long/".repeat(50));
        let found = vmlinuz_of(&package(&[
            ("usr/share/doc", b"text"),
            (&format!("{long}file"), b"kernel"),
        ]))
        .unwrap();
        assert_eq!(found[0].path, Path::new(&format!("{long}file")));
        let fields = b"30 comment=something or other\n23 path=./boot/vmlinuz\n";
        let mut builder = tar::Builder::new(Vec::new());
        let mut add = |kind, name: &str, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, name, content).unwrap();
        };
        add(tar::EntryType::XHeader, "PaxHeader", fields);
        add(tar::EntryType::Regular, "short", b"kernel");
        let extended = builder.into_inner().unwrap();
        assert_eq!(
            vmlinuz_of(&ar_of(&[("data.tar", &extended)])).unwrap()[0].path,
            Path::new("boot/vmlinuz")
        );
        let mut endless = tar_of(&[("././@LongLink", &vec![b'a'; 70_000])]);
        endless[156] = b'L';
        let mut header = tar::Header::from_byte_slice(&endless[..512]).clone();
        header.set_cksum();
        endless[..512].copy_from_slice(header.as_bytes());
        let said = vmlinuz_of(&ar_of(&[("data.tar", &endless)]))
            .err()
            .unwrap()
            .to_string();
        assert!(said.contains("longer than any path"), "{said}");
    }

    #[test]
    fn a_package_that_asks_for_gigabytes_of_memory_is_refused() {
        let mut xz = include_bytes!("../tests/data/two-files.tar.xz").to_vec();
        // The header of the block comes after the header of the stream, which has 12 bytes. The
        // fields of the block's header are its length in words minus one, flags, filter, length of
        // the property, and the dictionary's size.
        let end = 12 + (usize::from(xz[12]) + 1) * 4 - 4;
        assert_eq!(
            xz[13..16],
            [0, 0x21, 1],
            "one filter, LZMA2, without lengths"
        );
        xz[16] = 40;
        let checksum = crc32fast::hash(&xz[12..end]).to_le_bytes();
        xz[end..end + 4].copy_from_slice(&checksum);
        let said = vmlinuz_of(&ar_of(&[("data.tar.xz", &xz)]))
            .err()
            .unwrap()
            .to_string();
        assert!(said.contains("memory"), "{said}");
    }

    #[test]
    fn what_is_no_package_is_refused() {
        assert!(matches!(vmlinuz_of(b"short"), Err(DebError::NoPackage(_))));
        assert!(matches!(
            vmlinuz_of(b"!<arch>\nnothing"),
            Err(DebError::NoPackage(_))
        ));
        assert!(matches!(
            vmlinuz_of(&ar_of(&[("debian-binary", b"2.0\n")])),
            Err(DebError::NoPackage(_))
        ));
        assert!(matches!(
            vmlinuz_of(&ar_of(&[("data.tar.lzma", b"x")])),
            Err(DebError::Compression { .. })
        ));
    }

    #[test]
    fn a_package_cut_in_the_middle_is_an_error() {
        let bytes = package(&FILES);
        assert!(matches!(
            vmlinuz_of(&bytes[..bytes.len() - 60]),
            Err(DebError::Read { .. })
        ));
    }
}
