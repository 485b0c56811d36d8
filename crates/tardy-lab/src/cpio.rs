//! Archives in the kernel's own format ("newc" cpio,
//! Documentation/driver-api/early-userspace/buffer-format.rst). The lab writes such an archive for
//! the initial file system, and the guest writes one for the folder that it exports.
//!
//! The writer is reproducible: the same content gives the same bytes, because all times are zero,
//! root owns all files, and inode numbers count up from one entry to the next. The reader must cope
//! with any bytes, because a guest made the archive that it reads.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

const MAGIC: &[u8; 6] = b"070701";
/// Six bytes of magic and 13 fields of eight hexadecimal digits.
const HEADER_LENGTH: usize = 6 + 13 * 8;
const TRAILER: &str = "TRAILER!!!";
/// Longest path accepted by the reader; PATH_MAX of Linux.
const NAME_LENGTH_MAX: usize = 4096;

const KIND_MASK: u32 = 0o170_000;
const KIND_FOLDER: u32 = 0o040_000;
const KIND_FILE: u32 = 0o100_000;
const KIND_LINK: u32 = 0o120_000;
const KIND_CHARACTER_DEVICE: u32 = 0o020_000;

/// Writes an archive entry by entry; [`Writer::finish`] completes it.
pub struct Writer<W: Write> {
    sink: W,
    written: u64,
    entries: u32,
}

#[derive(Default)]
struct Header {
    mode: u32,
    device: (u32, u32),
    length: u32,
}

impl<W: Write> Writer<W> {
    /// Starts an archive without entries.
    pub fn new(sink: W) -> Self {
        Self {
            sink,
            written: 0,
            entries: 0,
        }
    }

    /// Adds a folder; the kernel requires a folder before its contents.
    ///
    /// # Errors
    /// Returns an error if writing to the sink fails.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        self.header(
            path,
            &Header {
                mode: KIND_FOLDER | 0o755,
                ..Header::default()
            },
        )
    }

    /// Adds a file of `length` bytes with the permission bits `permissions`.
    ///
    /// # Errors
    /// Returns an error if reading the source or writing to the sink fails; `UnexpectedEof` if the
    /// source is shorter than stated; `InvalidInput` if the file has 4 GiB or more, which the
    /// format does not allow.
    pub fn file(
        &mut self,
        path: &str,
        permissions: u32,
        length: u64,
        source: &mut dyn Read,
    ) -> io::Result<()> {
        let length_field = u32::try_from(length).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a file of 4 GiB or more does not fit into the archive",
            )
        })?;
        self.header(
            path,
            &Header {
                mode: KIND_FILE | permissions,
                length: length_field,
                ..Header::default()
            },
        )?;
        let copied = io::copy(&mut source.take(length), &mut self.sink)?;
        if copied != length {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        self.written += length;
        self.pad()
    }

    /// Adds a file with this content.
    ///
    /// # Errors
    /// Fails as [`Writer::file`] does.
    pub fn file_of_bytes(&mut self, path: &str, permissions: u32, bytes: &[u8]) -> io::Result<()> {
        self.file(path, permissions, bytes.len() as u64, &mut &bytes[..])
    }

    /// Adds a symbolic link to `target`.
    ///
    /// # Errors
    /// Returns an error if writing to the sink fails.
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let length = u32::try_from(target.len()).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a link of 4 GiB or more does not fit into the archive",
            )
        })?;
        self.header(
            path,
            &Header {
                mode: KIND_LINK | 0o777,
                length,
                ..Header::default()
            },
        )?;
        self.put(target.as_bytes())?;
        self.pad()
    }

    /// Adds a character device file with its major and minor number.
    ///
    /// # Errors
    /// Returns an error if writing to the sink fails.
    pub fn character_device(&mut self, path: &str, device: (u32, u32)) -> io::Result<()> {
        self.header(
            path,
            &Header {
                mode: KIND_CHARACTER_DEVICE | 0o600,
                device,
                ..Header::default()
            },
        )
    }

    /// Completes the archive, and returns the sink to which it was written.
    ///
    /// # Errors
    /// Returns an error if writing to the sink fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.header(TRAILER, &Header::default())?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn header(&mut self, path: &str, header: &Header) -> io::Result<()> {
        self.entries += 1;
        let inode = if path == TRAILER { 0 } else { self.entries };
        let name_length = u32::try_from(path.len() + 1).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a path of 4 GiB or more does not fit into the archive",
            )
        })?;
        let (owner, group, links, time) = (0, 0, 1, 0);
        let fields: [u32; 13] = [
            inode,
            header.mode,
            owner,
            group,
            links,
            time,
            header.length,
            0,
            0,
            header.device.0,
            header.device.1,
            name_length,
            0,
        ];
        let mut text = Vec::with_capacity(HEADER_LENGTH + path.len() + 1);
        text.extend_from_slice(MAGIC);
        for field in fields {
            write!(text, "{field:08x}")?;
        }
        text.extend_from_slice(path.as_bytes());
        text.push(0);
        self.put(&text)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.sink.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        let missing = (self.written.next_multiple_of(4) - self.written) as usize;
        self.put(&[0; 3][..missing])
    }
}

/// Adds everything below `folder` under the name `prefix`, sorted by name, so that the order on the
/// disk does not matter. Adds only files and folders; returns an error for anything else, because a
/// run folder should contain no links or devices.
///
/// # Errors
/// Returns an error if reading the folder or writing to the sink fails; `InvalidData` for links,
/// devices and names that are not UTF-8.
pub fn add_tree<W: Write>(writer: &mut Writer<W>, folder: &Path, prefix: &str) -> io::Result<()> {
    writer.folder(prefix)?;
    let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let invalid = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} is not a file or folder, or its name is not valid UTF-8",
                    entry.path().display()
                ),
            )
        };
        let name = entry.file_name().into_string().map_err(|_| invalid())?;
        let path = format!("{prefix}/{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add_tree(writer, &entry.path(), &path)?;
        } else if kind.is_file() {
            let mut file = std::fs::File::open(entry.path())?;
            writer.file(&path, 0o644, file.metadata()?.len(), &mut file)?;
        } else {
            return Err(invalid());
        }
    }
    Ok(())
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not an archive of this format, or the archive ends too early.
    #[error(
        "the archive is damaged at byte {0}: run again, and if this persists, give the guest more \
         memory (--memory)"
    )]
    Damaged(usize),
    /// A path in the archive leads out of the folder.
    #[error(
        "the archive contains the path `{0}`, which points outside its folder: the archive was \
         not unpacked"
    )]
    Outside(String),
    /// A file of the archive cannot be written.
    #[error("{path}: {error}: choose another folder with --out")]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error that the system reported.
        error: io::Error,
    },
}

/// One file or folder of a parsed archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The entry's path, relative and without `..`.
    pub path: PathBuf,
    /// The file's content; `None` for a folder.
    pub content: Option<&'a [u8]>,
}

/// Reads the files and folders of an archive. Entries of other types are errors.
///
/// # Errors
/// Returns [`ReadError::Damaged`] or [`ReadError::Outside`].
pub fn read(archive: &[u8]) -> Result<Vec<Entry<'_>>, ReadError> {
    let mut entries = Vec::new();
    let mut position = 0;
    loop {
        let damaged = || ReadError::Damaged(position);
        let header = archive
            .get(position..position + HEADER_LENGTH)
            .filter(|header| header.starts_with(MAGIC))
            .ok_or_else(damaged)?;
        let field = |index: usize| {
            let digits = std::str::from_utf8(&header[6 + index * 8..14 + index * 8]).ok()?;
            u32::from_str_radix(digits, 16).ok()
        };
        let (mode, length) = (
            field(1).ok_or_else(damaged)?,
            field(6).ok_or_else(damaged)? as usize,
        );
        let name_length = field(11)
            .map(|length| length as usize)
            .filter(|length| (1..=NAME_LENGTH_MAX).contains(length))
            .ok_or_else(damaged)?;
        let name_start = position + HEADER_LENGTH;
        let name = archive
            .get(name_start..name_start + name_length - 1)
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(damaged)?;
        if name == TRAILER {
            return Ok(entries);
        }
        let start = (name_start + name_length).next_multiple_of(4);
        let content = start
            .checked_add(length)
            .and_then(|end| archive.get(start..end))
            .ok_or_else(damaged)?;
        let path = PathBuf::from(name);
        if name.is_empty()
            || !path
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
        {
            return Err(ReadError::Outside(name.to_owned()));
        }
        let content = match mode & KIND_MASK {
            KIND_FILE => Some(content),
            KIND_FOLDER => None,
            _ => return Err(damaged()),
        };
        entries.push(Entry { path, content });
        position = (start + length).next_multiple_of(4);
    }
}

/// Writes the entries into `folder`, which must exist.
///
/// # Errors
/// Returns [`ReadError::Write`].
pub fn unpack(entries: &[Entry<'_>], folder: &Path) -> Result<(), ReadError> {
    for entry in entries {
        let path = folder.join(&entry.path);
        let result = match entry.content {
            None => std::fs::create_dir_all(&path),
            Some(content) => std::fs::write(&path, content),
        };
        result.map_err(|error| ReadError::Write { path, error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        writer.folder("out").unwrap();
        writer.file_of_bytes("out/a", 0o644, b"hello").unwrap();
        writer.file_of_bytes("out/empty", 0o644, b"").unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let archive = sample();
        assert_eq!(
            read(&archive).unwrap(),
            [
                Entry {
                    path: "out".into(),
                    content: None
                },
                Entry {
                    path: "out/a".into(),
                    content: Some(b"hello")
                },
                Entry {
                    path: "out/empty".into(),
                    content: Some(b"")
                },
            ]
        );
    }

    #[test]
    fn the_same_tree_gives_the_same_bytes_whatever_order_it_was_made_in() {
        let archive_of = |names: [&str; 3]| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("sub")).unwrap();
            names
                .iter()
                .for_each(|name| std::fs::write(folder.path().join(name), name).unwrap());
            let mut writer = Writer::new(Vec::new());
            add_tree(&mut writer, folder.path(), "out").unwrap();
            writer.finish().unwrap()
        };
        let first = archive_of(["b", "a", "sub/c"]);
        assert_eq!(first, archive_of(["sub/c", "a", "b"]));
        let paths: Vec<_> = read(&first)
            .unwrap()
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        assert_eq!(
            paths,
            ["out", "out/a", "out/b", "out/sub", "out/sub/c"].map(PathBuf::from)
        );
    }

    #[test]
    fn an_archive_cut_anywhere_is_damaged() {
        let archive = sample();
        let trailer = archive
            .windows(TRAILER.len())
            .position(|window| window == TRAILER.as_bytes())
            .unwrap();
        for length in 0..trailer + TRAILER.len() {
            assert!(
                matches!(read(&archive[..length]), Err(ReadError::Damaged(_))),
                "{length}"
            );
        }
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in ["../x", "/etc/x", "a/../../x", "."] {
            let mut writer = Writer::new(Vec::new());
            writer.file_of_bytes(path, 0o644, b"").unwrap();
            let archive = writer.finish().unwrap();
            assert!(
                matches!(read(&archive), Err(ReadError::Outside(_))),
                "{path}"
            );
        }
    }

    #[test]
    fn links_from_a_guest_are_refused() {
        let mut writer = Writer::new(Vec::new());
        writer.link("out", "/etc").unwrap();
        assert!(matches!(
            read(&writer.finish().unwrap()),
            Err(ReadError::Damaged(_))
        ));
    }

    #[test]
    fn a_source_shorter_than_said_is_an_error() {
        let mut writer = Writer::new(Vec::new());
        assert_eq!(
            writer
                .file("a", 0o644, 3, &mut &b"ab"[..])
                .unwrap_err()
                .kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(damage in proptest::collection::vec((0_usize..400, any::<u8>()), 1..4)) {
            let mut archive = sample();
            for (position, byte) in damage {
                let length = archive.len();
                archive[position % length] = byte;
            }
            let _ = read(&archive);
        }
    }
}
