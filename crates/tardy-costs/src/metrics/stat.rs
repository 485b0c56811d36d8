//! Reads the attributes of a file by its path: stat(2).

use std::ffi::CString;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;

use tardy_run::cost::{CacheState, Group};

use crate::metric::{Metric, Place, Unavailable, repeated};

pub(super) const METRIC: Metric = Metric {
    name: "stat",
    group: Group::Processor,
    operation: "stat a file two directories deep",
    bytes: None,
    state: CacheState::Warm,
    lmbench: Some("lat_syscall stat FILE"),
    prepare: |place| {
        let path = file(place)?;
        Ok(repeated(move || {
            black_box(tardy_sys::file::stat(&path)?);
            Ok(())
        }))
    },
};

/// Makes a separate file. Returns its path as a C string.
pub(super) fn file(place: &Place) -> Result<CString, Unavailable> {
    let path = place.scratch.join("file");
    std::fs::write(&path, b"x").map_err(Unavailable::system("make a file"))?;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|error| Unavailable::system("name a file")(error.into()))
}
