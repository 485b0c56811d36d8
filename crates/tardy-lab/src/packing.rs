//! Packs a program of the host with the files that it needs in a guest: its libraries, the
//! interpreter of a script, and the files that the user names. Every file has the same path in the
//! guest as on the host.
//!
//! The program's own dynamic loader lists the libraries (`LOADER --list PROGRAM`), so the guest
//! gets those libraries that the loader would use on the host. The loader does not know what the
//! program opens later, such as plugins, so the user must name such files.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use memchr::memmem;
use tardy_sys::regular_file;

use super::architecture::Architecture;
use super::binary::machine_and_loader;
use super::initramfs::AddedFile;

/// Folders in which the guest looks for a program without a path.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Maximum size of a program or library in bytes.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Maximum length of a chain of interpreters, because the interpreter of a script can itself be a
/// script (exec_binprm in fs/exec.c of Linux).
const INTERPRETERS_MAX: usize = 5;
/// Files of the host that many programs open. These files contain the names of users and groups,
/// the places where names are looked up, and the description of the guest's terminal.
const USUAL_FILES: [&str; 4] = [
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/lib/terminfo/l/linux",
];
/// The cache file of the dynamic loader. It contains the paths of libraries, including those
/// outside of the folders in which the loader always searches.
const LIBRARY_CACHE: &str = "/etc/ld.so.cache";
/// The environment variable that tells include/tardy.h and tardy-app where their shared memory is.
const CALLS: &[u8] = b"TARDY_APP";

/// Programs that start another program, which no list of libraries names: both names.
const STARTS_ANOTHER: [(&str, &str); 1] = [("gcc", "cc1")];

/// Why a program cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("there is no program `{0}` in PATH: give the path of the program")]
    NotInPath(String),
    #[error("{path}: {error}")]
    Read { path: PathBuf, error: io::Error },
    #[error(
        "{0} cannot run in a guest: it is neither a 64-bit ELF program nor a script that starts \
         with #!"
    )]
    NoProgram(PathBuf),
    #[error(
        "{path} is for another architecture than the guest's, {wanted}: build it for {wanted}, or choose another guest with --arch"
    )]
    Architecture { path: PathBuf, wanted: &'static str },
    #[error(
        "the dynamic loader does not find the libraries of {path}: {message}: install the library, \
         or link the program with a RUNPATH (LD_LIBRARY_PATH is not used)"
    )]
    Libraries { path: PathBuf, message: String },
    #[error("`{program}` does not print where its other programs are: {message}")]
    Another { program: String, message: String },
    #[error("{0} has more than {INTERPRETERS_MAX} interpreters")]
    TooManyInterpreters(PathBuf),
    #[error("{0} is not a regular file, a folder, or a link to one")]
    OtherFile(PathBuf),
    #[error("{0}: the path is not valid UTF-8")]
    Name(PathBuf),
}

/// A program, together with the files that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Path of the program in the guest.
    pub program: String,
    pub files: Vec<AddedFile>,
    /// Whether the program or a library can make the calls of include/tardy.h or tardy-app.
    pub has_calls: bool,
    /// Size of all files in bytes.
    pub bytes: u64,
}

/// Packs `program` (a path, or a name in PATH), and the `further` files and folders.
///
/// # Errors
/// Returns [`PackError`].
pub fn pack(
    program: &str,
    further: &[PathBuf],
    architecture: Architecture,
) -> Result<Packed, PackError> {
    let found = find(program)?;
    // The kernel follows links before the loader computes $ORIGIN.
    let path = found.canonicalize().map_err(at(&found))?;
    let mut packing = Packing {
        architecture,
        files: BTreeMap::new(),
        has_calls: false,
    };
    packing.add_program(&path, 0)?;
    for file in further {
        packing.add_tree(&absolute(file)?, &mut Vec::new())?;
    }
    for file in USUAL_FILES.map(Path::new) {
        if file.is_file() {
            packing.add(file)?;
        }
    }
    let length = |file: &AddedFile| {
        let metadata = std::fs::metadata(&file.source).map_err(at(&file.source))?;
        Ok(metadata.len())
    };
    let files: Vec<AddedFile> = packing.files.into_values().collect();
    Ok(Packed {
        program: text(&path)?,
        bytes: files.iter().map(length).sum::<Result<u64, PackError>>()?,
        files,
        has_calls: packing.has_calls,
    })
}

/// Packs programs of PATH, so that a guest finds each in /bin.
///
/// # Errors
/// Returns [`PackError`].
pub fn pack_for_bin(
    names: &[&str],
    architecture: Architecture,
) -> Result<Vec<AddedFile>, PackError> {
    let mut packing = Packing {
        architecture,
        files: BTreeMap::new(),
        has_calls: false,
    };
    for &name in names {
        let found = find(name)?;
        packing.add_to_bin(name, &found.canonicalize().map_err(at(&found))?)?;
        // A compiler in /bin does not find the other program in its usual folder, but in PATH.
        for (_, other) in STARTS_ANOTHER.iter().filter(|(first, _)| *first == name) {
            let path = printed_path(name, &format!("-print-prog-name={other}"))?;
            packing.add_to_bin(other, &path)?;
        }
    }
    Ok(packing.files.into_values().collect())
}

/// Returns the path that `program` prints when it is started with `argument`.
fn printed_path(program: &str, argument: &str) -> Result<PathBuf, PackError> {
    let failed = |message: String| PackError::Another {
        program: format!("{program} {argument}"),
        message,
    };
    let output = Command::new(program)
        .arg(argument)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let path = PathBuf::from(printed.trim());
    if output.status.success() && path.is_absolute() {
        return path.canonicalize().map_err(at(&path));
    }
    Err(failed(format!("it printed `{}`", printed.trim())))
}

struct Packing {
    architecture: Architecture,
    /// The files, by their paths in the guest.
    files: BTreeMap<String, AddedFile>,
    has_calls: bool,
}

impl Packing {
    /// Adds a program with its libraries, and names it `name` in /bin.
    fn add_to_bin(&mut self, name: &str, program: &Path) -> Result<(), PackError> {
        self.add_program(program, 0)?;
        if let Some(file) = self.files.remove(&text(program)?) {
            let path = format!("bin/{name}");
            let key = format!("/{path}");
            self.files.insert(key, AddedFile { path, ..file });
        }
        Ok(())
    }

    /// Adds one file. The path that the file gets in the guest has no links and no `..`.
    fn add(&mut self, source: &Path) -> Result<(), PackError> {
        let metadata = regular_file::open(source)
            .and_then(|file| file.metadata())
            .map_err(at(source))?;
        let path = text(&plain(source))?;
        let file = AddedFile {
            source: source.to_owned(),
            path: path.trim_start_matches('/').to_owned(),
            executable: metadata.permissions().mode() & 0o111 != 0,
        };
        self.files.insert(path, file);
        Ok(())
    }

    /// Adds a file, or a folder with everything in it. Links are replaced by copies of their
    /// targets. `above` are the folders that contain `path`. A link to one of these folders is
    /// skipped, because following it would lead in a circle.
    fn add_tree(&mut self, path: &Path, above: &mut Vec<PathBuf>) -> Result<(), PackError> {
        let metadata = std::fs::metadata(path).map_err(at(path))?;
        if metadata.is_file() {
            return self.add(path);
        }
        if !metadata.is_dir() {
            return Err(PackError::OtherFile(path.to_owned()));
        }
        let real = path.canonicalize().map_err(at(path))?;
        if above.contains(&real) {
            return Ok(());
        }
        above.push(real);
        for entry in std::fs::read_dir(path).map_err(at(path))? {
            let inner = entry.map_err(at(path))?.path();
            // Sockets and links without a target are skipped in a folder, because the user did not
            // name them.
            if inner.is_file() || inner.is_dir() {
                self.add_tree(&inner, above)?;
            }
        }
        above.pop();
        Ok(())
    }

    /// Adds a program and its libraries, or a script and its interpreter.
    fn add_program(&mut self, path: &Path, depth: usize) -> Result<(), PackError> {
        if depth > INTERPRETERS_MAX {
            return Err(PackError::TooManyInterpreters(path.to_owned()));
        }
        let bytes = self.add_code(path)?;
        if let Some(line) = bytes.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line).into_owned();
            return self.add_interpreters(path, &line, depth);
        }
        let (machine, loader) =
            machine_and_loader(&bytes).ok_or_else(|| PackError::NoProgram(path.to_owned()))?;
        if machine != self.architecture.elf_machine() {
            return Err(PackError::Architecture {
                path: path.to_owned(),
                wanted: self.architecture.name(),
            });
        }
        let Some(loader) = loader else { return Ok(()) };
        self.add(Path::new(&loader))?;
        let libraries = libraries(path, &loader, &[])?;
        for library in &libraries {
            self.add_code(library)?;
        }
        // If the loader would find different libraries without its cache, the guest needs the
        // cache.
        if Path::new(LIBRARY_CACHE).is_file()
            && libraries_without_cache(path, &loader).is_none_or(|others| others != libraries)
        {
            self.add(Path::new(LIBRARY_CACHE))?;
        }
        Ok(())
    }

    /// Adds a file that contains code, and returns its content.
    fn add_code(&mut self, path: &Path) -> Result<Vec<u8>, PackError> {
        self.add(path)?;
        let bytes = regular_file::read(path, FILE_BYTES_MAX).map_err(at(path))?;
        self.has_calls |= memmem::find(&bytes, CALLS).is_some();
        Ok(bytes)
    }

    /// Adds the interpreter that the first line of a script names. If this is env(1), also adds the
    /// program that env(1) starts.
    fn add_interpreters(
        &mut self,
        script: &Path,
        line: &str,
        depth: usize,
    ) -> Result<(), PackError> {
        let mut words = line.split_whitespace();
        let interpreter = words
            .next()
            .ok_or_else(|| PackError::NoProgram(script.to_owned()))?;
        self.add_program(Path::new(interpreter), depth + 1)?;
        let is_env = Path::new(interpreter)
            .file_name()
            .is_some_and(|name| name == "env");
        let asked = words.find(|word| !word.starts_with('-') && !word.contains('='));
        match asked.filter(|_| is_env) {
            Some(name) => self.add_program(&find(name)?, depth + 1),
            None => Ok(()),
        }
    }
}

/// Finds a program by its name or path, as a shell does.
fn find(program: &str) -> Result<PathBuf, PackError> {
    if program.contains('/') {
        return absolute(Path::new(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| {
            std::fs::metadata(path)
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        })
        .map_or_else(
            || Err(PackError::NotInPath(program.to_owned())),
            |path| absolute(&path),
        )
}

/// Returns the libraries of a program, as its dynamic loader finds them.
fn libraries(path: &Path, loader: &str, options: &[&str]) -> Result<Vec<PathBuf>, PackError> {
    let failed = |message: String| PackError::Libraries {
        path: path.to_owned(),
        message,
    };
    // The loader gets no environment variables, because the program in the guest does not get the
    // variables of this process either.
    let output = Command::new(loader)
        .args(options)
        .arg("--list")
        .arg(path)
        .env_clear()
        .output()
        .map_err(|error| failed(format!("{loader}: {error}")))?;
    if output.status.success() {
        return Ok(paths(&String::from_utf8_lossy(&output.stdout)));
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(failed(message.trim().to_owned()))
}

/// Returns the libraries that the loader finds without its cache; `None` if a library is then
/// missing, or if the loader does not know the option.
fn libraries_without_cache(path: &Path, loader: &str) -> Option<Vec<PathBuf>> {
    libraries(path, loader, &["--inhibit-cache"]).ok()
}

/// Parses lines such as `libc.so.6 => /lib/libc.so.6 (0x7f..)`. A line without a path stands for
/// the library that the kernel itself provides (vDSO).
fn paths(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let place = line.split_once(" => ").map_or(line, |(_, place)| place);
        let place = place.rsplit_once(" (").map_or(place, |(path, _)| path);
        place.starts_with('/').then(|| PathBuf::from(place))
    };
    listed.lines().map(str::trim).filter_map(path).collect()
}

fn absolute(path: &Path) -> Result<PathBuf, PackError> {
    std::path::absolute(path).map_err(at(path))
}

/// Returns the path without `.` and `..`. The archive for the guest contains no links to folders,
/// so `..` always means the parent folder.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn text(path: &Path) -> Result<String, PackError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| PackError::Name(path.to_owned()))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PackError + use<> {
    let path = path.to_owned();
    move |error| PackError::Read { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_the_lists_of_glibc_and_musl() {
        let glibc = "\tlinux-vdso.so.1 (0x00007fff)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\
                     \tlibown.so => /opt/my app (2)/libown.so (0x1)\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found = [
            "/lib/x/libc.so.6",
            "/opt/my app (2)/libown.so",
            "/lib64/ld-linux-x86-64.so.2",
        ];
        assert_eq!(paths(glibc), found.map(PathBuf::from));
        assert_eq!(paths("\tstatically linked\n"), [] as [PathBuf; 0]);
        assert_eq!(
            plain(Path::new("/usr/bin/.././lib/x")),
            Path::new("/usr/lib/x")
        );
    }

    #[test]
    fn a_compiler_in_bin_comes_with_the_program_that_compiles() {
        let host = Architecture::of_this_binary().unwrap();
        let files = pack_for_bin(&["gcc", "sh"], host).unwrap();
        let has_library = files.iter().any(|file| file.path.ends_with("libc.so.6"));
        assert!(has_library, "{files:?}");
        for name in ["bin/gcc", "bin/cc1", "bin/sh"] {
            let file = files.iter().find(|file| file.path == name).unwrap();
            assert!(file.executable, "{file:?}");
        }
        let refused = pack_for_bin(&["no-such-program-here"], host).unwrap_err();
        assert!(matches!(refused, PackError::NotInPath(_)), "{refused}");
    }

    #[test]
    fn a_script_takes_its_interpreter_and_a_folder_ends_at_a_link_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/usr/bin/env -S sh\nexit\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&data, data.join("again")).unwrap();
        std::os::unix::fs::symlink("/nowhere", data.join("dangling")).unwrap();
        let host = Architecture::of_this_binary().unwrap();
        let packed = pack(
            &script.display().to_string(),
            std::slice::from_ref(&data),
            host,
        )
        .unwrap();
        let has = |end: &str| packed.files.iter().any(|file| file.path.ends_with(end));
        assert!(has("/script") && has("usr/bin/env") && has("bin/sh") && has("data/file"));
        assert!(!has("data/again/file") && !has("dangling"));
        assert!(
            packed
                .files
                .iter()
                .any(|file| file.path.contains("libc.so"))
        );
        assert!(packed.files.iter().all(|file| !file.path.starts_with('/')));
        assert!(!packed.has_calls && packed.bytes > 100_000);

        std::fs::write(&script, "exit\n").unwrap();
        let refused = pack(&script.display().to_string(), &[], host).unwrap_err();
        assert!(matches!(refused, PackError::NoProgram(_)), "{refused}");
        let refused = pack("no-such-program-here", &[], host).unwrap_err();
        assert!(matches!(refused, PackError::NotInPath(_)), "{refused}");
    }
}
