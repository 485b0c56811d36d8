//! Chooses the default name of a run folder.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tardy_core::units::Nanos;
use tardy_report::report::date::compact;

/// Sockets that reserve names. A name stays reserved until the process ends.
static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Returns a folder named after the time (UTC), such as `tardy-20261121-031200`. The result is the
/// first name that does not exist, and that no other process has reserved in the same second.
pub(super) fn by_time() -> PathBuf {
    let name = format!("tardy-{}", compact(Nanos(tardy_sys::clock::realtime())));
    let numbered = (2..).map(|number| PathBuf::from(format!("{name}-{number}")));
    std::iter::once(PathBuf::from(&name))
        .chain(numbered)
        .find(|path| !path.exists() && reserve(path))
        .unwrap_or_else(|| PathBuf::from(&name))
}

/// Reserves `path`, and returns whether it was free. On a machine without abstract sockets nothing
/// is reserved, and every name is free.
fn reserve(path: &Path) -> bool {
    let here = std::fs::metadata(".").map_or(0, |folder| folder.ino());
    let address = SocketAddr::from_abstract_name(format!("{}@{here}", path.display()));
    match address.and_then(|address| UnixListener::bind_addr(&address)) {
        Ok(socket) => {
            if let Ok(mut reserved) = RESERVED.lock() {
                reserved.push(socket);
            }
            true
        }
        Err(error) => error.kind() != ErrorKind::AddrInUse,
    }
}
