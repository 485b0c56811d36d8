//! The folder that contains `proc`, `sys`, `dev` and `etc`: `/`, or a folder with simulated files
//! in tests.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_sys::regular_file;

/// Maximum size of a file that is read. The kernel's files are much smaller: on a machine with 1024
/// CPUs, /proc/interrupts has about 10 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The root of the machine's files. The methods of this type take paths relative to it, such as
/// `proc/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// Returns the root for the running machine, `/`.
    #[must_use]
    pub fn system() -> Self {
        Self::at("/")
    }

    /// Makes the root of the machine whose files are below `folder`.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Returns the full path of a file.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        let relative = relative.as_ref();
        // The leading slash is removed, because `join` with an absolute path would drop the root,
        // and a test would read the real machine.
        self.0.join(relative.strip_prefix("/").unwrap_or(relative))
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Returns the errors of open(2) and stat(2). Returns `InvalidInput` for a FIFO and, below a
    /// root other than `/`, for every file that is not regular.
    pub fn open(&self, relative: impl AsRef<Path>) -> io::Result<File> {
        let path = self.path(relative);
        if self.0 != Path::new("/") {
            return regular_file::open(&path);
        }
        // Opening a FIFO would wait for a writer, possibly without end. A FIFO could have the name
        // of a device, which this function may open.
        if fs::metadata(&path)?.file_type().is_fifo() {
            let what = format!("{} is a FIFO", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        File::open(path)
    }

    /// Returns the content, up to 64 MiB. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Returns the errors of open(2) and read(2). Many files of /proc and /sys can be opened, but
    /// refuse reads with EPERM, EINVAL or ENODEV.
    pub fn read(&self, relative: impl AsRef<Path>) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.open(relative)?
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Returns the content without surrounding white space and without the NUL that the device tree
    /// appends; `None` if the file is unreadable or empty.
    pub fn text(&self, relative: impl AsRef<Path>) -> Option<String> {
        let content = self.read(relative).ok()?;
        let text = content.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns the content as a number.
    pub fn number<T: FromStr>(&self, relative: impl AsRef<Path>) -> Option<T> {
        self.text(relative)?.parse().ok()
    }

    /// Returns the content as a list of CPUs. An empty file is an empty list; so is `(null)`, which
    /// kernels print for an unset mask.
    pub fn cpu_list(&self, relative: impl AsRef<Path>) -> Option<CpuList> {
        let content = self.read(relative).ok()?;
        match content.trim() {
            "(null)" => Some(CpuList::default()),
            text => text.parse().ok(),
        }
    }

    /// Returns the names in a folder, sorted; empty if the folder does not exist.
    pub fn names(&self, relative: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(relative)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// Returns whether a folder is absent or has no entries.
    pub fn is_empty(&self, relative: impl AsRef<Path>) -> bool {
        fs::read_dir(self.path(relative)).map_or(true, |mut entries| entries.next().is_none())
    }

    /// Returns the files that match a pattern, sorted. In a name, `*` matches any text, as in
    /// `sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`.
    pub fn matching(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in pattern.split('/') {
            let mut next = Vec::new();
            for folder in &found {
                let below = |name: &str| {
                    if folder.is_empty() {
                        name.to_owned()
                    } else {
                        format!("{folder}/{name}")
                    }
                };
                match part.split_once('*') {
                    None => next.push(below(part)),
                    Some((start, end)) => {
                        let fits = |name: &String| {
                            name.len() >= part.len() - 1
                                && name.starts_with(start)
                                && name.ends_with(end)
                        };
                        next.extend(
                            self.names(folder)
                                .iter()
                                .filter(|name| fits(name))
                                .map(|name| below(name)),
                        );
                    }
                }
            }
            found = next;
        }
        found.retain(|path| self.path(path).symlink_metadata().is_ok());
        found
    }

    /// Returns the online CPUs, from `sys/devices/system/cpu/online`, otherwise from the `cpuN`
    /// lines of `proc/stat`, which lists only online CPUs.
    pub fn online_cpus(&self) -> Option<CpuList> {
        let listed = self
            .cpu_list("sys/devices/system/cpu/online")
            .filter(|cpus| !cpus.is_empty());
        listed.or_else(|| {
            let stat = self.read("proc/stat").ok()?;
            let cpus: CpuList = stat
                .lines()
                .filter_map(|line| cpu_of_name(line.split_whitespace().next()?))
                .collect();
            (!cpus.is_empty()).then_some(cpus)
        })
    }
}

/// Parses `cpu12` to 12. Returns `None` for `cpu`, the name of the sum over all CPUs.
pub(crate) fn cpu_of_name(name: &str) -> Option<CpuId> {
    name.strip_prefix("cpu")?.parse().ok().map(CpuId)
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn an_absolute_path_stays_below_the_root() {
        assert_eq!(
            Root::at("/fake").path("/proc/stat"),
            Path::new("/fake/proc/stat")
        );
        assert_eq!(
            Root::at("/fake").path("proc/stat"),
            Path::new("/fake/proc/stat")
        );
    }

    #[test]
    fn an_empty_list_differs_from_a_missing_one() {
        let fake = FakeRoot::new()
            .with("a", "\n")
            .with("b", "  (null)\n")
            .with("c", "0-1\n")
            .with("d", "nonsense");
        let root = fake.root();
        assert_eq!(root.cpu_list("a"), Some(CpuList::default()));
        assert_eq!(root.cpu_list("b"), Some(CpuList::default()));
        assert_eq!(root.cpu_list("c").unwrap().to_string(), "0-1");
        assert_eq!(root.cpu_list("d"), None);
        assert_eq!(root.cpu_list("missing"), None);
    }

    #[test]
    fn a_pattern_stands_for_the_files_that_are_there() {
        let fake = FakeRoot::new()
            .with("cpu0/a", "")
            .with("cpu1/a", "")
            .with("cpu1/b", "")
            .with("cpufreq/b", "")
            .with("x", "");
        let matching = |pattern: &str| fake.root().matching(pattern);
        assert_eq!(matching("cpu*/a"), ["cpu0/a", "cpu1/a"]);
        assert_eq!(matching("cpu1/*"), ["cpu1/a", "cpu1/b"]);
        assert_eq!(
            (matching("x"), matching("y"), matching("x/*")),
            (vec!["x".to_owned()], vec![], vec![])
        );
    }

    #[test]
    fn text_loses_the_nul_of_the_device_tree_and_what_is_empty_is_absent() {
        let fake = FakeRoot::new()
            .with("model", "Board 5\0")
            .with("empty", "\n")
            .with("bytes", [b'a', 0xff, b'\n']);
        assert_eq!(fake.root().text("model").as_deref(), Some("Board 5"));
        assert_eq!(fake.root().text("empty"), None);
        assert_eq!(fake.root().text("bytes").as_deref(), Some("a\u{fffd}"));
        assert_eq!(fake.root().number::<u64>("model"), None);
    }

    #[test]
    fn online_cpus_come_from_proc_stat_where_sysfs_is_not_mounted() {
        let fake = FakeRoot::new().with("proc/stat", "cpu  1 2\ncpu0 1\ncpu2 1\nintr 5\n");
        assert_eq!(fake.root().online_cpus().unwrap().to_string(), "0,2");
        assert_eq!(FakeRoot::new().root().online_cpus(), None);
    }
}
