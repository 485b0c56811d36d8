//! A temporary folder that replaces `/` in tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::root::Root;

pub(crate) struct FakeRoot {
    folder: TempDir,
}

impl FakeRoot {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn with(self, relative: &str, content: impl AsRef<[u8]>) -> Self {
        self.write(relative, content);
        self
    }

    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.folder.path().join(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn root(&self) -> Root {
        Root::at(self.folder.path())
    }
}
