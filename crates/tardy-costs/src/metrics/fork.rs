//! Starts new processes: one that exits at once, one that executes another program, and one that a
//! shell starts.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tardy_run::cost::{CacheState, Group};
use tardy_sys::spawn::{self, Program};

use super::tiny_program;
use crate::metric::{Metric, Place, Unavailable, Work, repeated};

pub(super) const FORK: Metric = Metric {
    name: "fork",
    group: Group::Processor,
    operation: "fork, let the child exit, and wait for it",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_proc fork"),
    prepare: |_| Ok(repeated(spawn::fork_and_wait)),
};

pub(super) const EXECUTE: Metric = Metric {
    name: "fork-exec",
    group: Group::Processor,
    operation: "fork, exec a three-instruction program, and wait for its exit",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_proc exec"),
    prepare: |place| {
        let path = program(place)?;
        executing(Program::new(path.clone(), vec![path]))
    },
};

/// A process that a shell starts.
pub(super) const SHELL: Metric = Metric {
    name: "fork-sh",
    group: Group::Processor,
    operation: "fork, run a three-instruction program through /bin/sh -c, and wait for the shell's exit",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_proc shell"),
    prepare: |place| {
        if !Path::new("/bin/sh").exists() {
            return Err(Unavailable::Missing {
                what: "there is no /bin/sh".to_owned(),
                remedy: "install a shell",
            });
        }
        let words = vec![c"sh".to_owned(), c"-c".to_owned(), program(place)?];
        executing(Program::new(c"/bin/sh".to_owned(), words))
    },
};

fn executing(program: Program) -> Result<Box<dyn Work>, Unavailable> {
    Ok(repeated(move || spawn::fork_execute_and_wait(&program)))
}

/// Writes a program that only exits. With an ordinary program, most of the measured time would be
/// the start-up of the C library.
fn program(place: &Place) -> Result<CString, Unavailable> {
    let image = tiny_program::image().ok_or_else(|| Unavailable::Missing {
        what: format!(
            "tardy has no three-instruction program for {}",
            std::env::consts::ARCH
        ),
        remedy: "measure on x86_64, aarch64 or riscv64",
    })?;
    let path = place.scratch.join("ends-at-once");
    let write = || -> std::io::Result<CString> {
        std::fs::write(&path, image)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
        Ok(CString::new(path.as_os_str().as_bytes())?)
    };
    write().map_err(Unavailable::system("write a program"))
}
