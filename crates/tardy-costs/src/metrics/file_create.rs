//! Creates and removes small files, in a separate folder on the file system of temporary files.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use tardy_core::units::Nanos;
use tardy_run::cost::{CacheState, Group};
use tardy_sys::{clock, file};

use crate::metric::{Metric, Place, Unavailable, Work};

/// Maximum number of files that exist at the same time. It is fixed because the cost depends on the
/// size of the folder.
const FILES: usize = 1000;
const TEN_KIB: usize = 10 << 10;

/// Creates empty files.
pub(super) const CREATE_0K: Metric = Metric {
    name: "file-create-0k",
    group: Group::FileAndMemory,
    operation: "create and close an empty file, in a folder of TMPDIR with up to 1000 such files",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_fs (0k, created)"),
    prepare: |place| files(place, 0, TimedOperation::Creation),
};

/// Removes empty files.
pub(super) const DELETE_0K: Metric = Metric {
    name: "file-delete-0k",
    group: Group::FileAndMemory,
    operation: "remove an empty file",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_fs (0k, deleted)"),
    prepare: |place| files(place, 0, TimedOperation::Removal),
};

/// Creates files of 10 KiB.
pub(super) const CREATE_10K: Metric = Metric {
    name: "file-create-10k",
    group: Group::FileAndMemory,
    operation: "create, write and close a file of 10 KiB",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_fs (10k, created)"),
    prepare: |place| files(place, TEN_KIB, TimedOperation::Creation),
};

/// Removes files of 10 KiB.
pub(super) const DELETE_10K: Metric = Metric {
    name: "file-delete-10k",
    group: Group::FileAndMemory,
    operation: "remove a file of 10 KiB before the kernel has written it to the disk",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_fs (10k, deleted)"),
    prepare: |place| files(place, TEN_KIB, TimedOperation::Removal),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum TimedOperation {
    Creation,
    Removal,
}

struct Files {
    folder: File,
    names: Vec<CString>,
    contents: Vec<u8>,
    timed: TimedOperation,
}

fn files(place: &Place, bytes: usize, timed: TimedOperation) -> Result<Box<dyn Work>, Unavailable> {
    let path = place.scratch.join("many");
    let open = || -> io::Result<File> {
        std::fs::create_dir_all(&path)?;
        File::open(&path)
    };
    let folder = open().map_err(Unavailable::system("make a folder for files"))?;
    let names = (0..FILES)
        .map(|number| CString::new(number.to_string()))
        .collect::<Result<Vec<_>, _>>();
    let names = names.map_err(|error| Unavailable::system("name files")(error.into()))?;
    Ok(Box::new(Files {
        folder,
        names,
        contents: vec![0x5a; bytes],
        timed,
    }))
}

impl Work for Files {
    fn run(&mut self, operations: u64) -> io::Result<Nanos> {
        let folder = self.folder.as_fd();
        let (mut took, mut left) = (0, operations);
        while left > 0 {
            let names = &self.names[..left.min(FILES as u64) as usize];
            let begin = clock::monotonic();
            for name in names {
                file::create(folder, name, &self.contents)?;
            }
            let middle = clock::monotonic();
            // The files are removed in reverse order of their creation.
            for name in names.iter().rev() {
                file::remove(folder, name)?;
            }
            let end = clock::monotonic();
            took += if self.timed == TimedOperation::Creation {
                middle - begin
            } else {
                end - middle
            };
            left -= names.len() as u64;
        }
        Ok(Nanos(took))
    }
}
