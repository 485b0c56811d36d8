//! Watches a guest with the QEMU plugin: makes the plugin's input for the guest's kernel, and
//! stores the plugin's output in the run folder.
//!
//! A watched guest has the same initial file system, command line and job as an unwatched one, and
//! therefore the same samples. The plugin needs the kernel's symbols. If the watched guest itself
//! exported its symbols, its job and thus its boot would differ from the unwatched guest's. So the
//! lab boots each kernel with its modules once more only to get the symbols, and stores these in
//! the cache.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tardy_core::units::Nanos;
use tardy_outside::kernel_symbols::{KernelSymbols, PluginOptions, SymbolsError};
use tardy_outside::plugin;
use tardy_outside::store::{self, StoreError};
use tardy_sys::child;

use super::architecture::Architecture;
use super::cache::{Cache, CacheError, write_whole};
use super::digest::{Digest, Digester};
use super::guest_job::{GuestJob, Program, SYMBOLS_NAME, Task};
use super::initramfs::AddedFile;
use super::machine::{Accelerator, Machine};
use super::qemu::{KNOWN_NAME, LIBRARY_NAME, Qemu, SEEN_NAME};
use super::variant::Variant;

/// The first major version of QEMU with an incompatible plugin interface.
const QEMU_TOO_NEW: u32 = 9;

/// Why a guest cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(
        "only guests with instruction-counted time can be watched: leave out --accel kvm or \
         --watch"
    )]
    Accelerator,
    #[error(
        "{0} guests cannot be watched: the plugin supports only amd64, because the QEMU versions \
         that it supports cannot read the registers of other architectures"
    )]
    Architecture(Architecture),
    #[error(
        "{0} has a plugin interface newer than the plugin supports: watch guests with QEMU 4.2 to \
         8.2"
    )]
    Qemu(String),
    #[error("{0} MiB of guest memory are not contiguous: use at most --memory 2048 with --watch")]
    Memory(u32),
    #[error(
        "this tardy contains no QEMU plugin for this machine, and `cc` could not build one ({0}): \
         install gcc, or give a plugin with --plugin"
    )]
    NoLibrary(String),
    #[error("the kernel's symbols could not be read: {0}")]
    Boot(String),
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> WatchError + use<> {
    let path = path.to_owned();
    move |error| WatchError::File { path, error }
}

/// Returns an error if no plugin can watch such a guest.
///
/// # Errors
/// Returns [`WatchError`].
pub fn check(machine: &Machine) -> Result<(), WatchError> {
    /// Maximum memory of a watched guest in MiB. Up to this size, the memory is contiguous, because
    /// it lies below the device addresses under 4 GiB.
    const MEMORY_MIB_MAX: u32 = 2048;
    if machine.accelerator != Accelerator::Tcg {
        return Err(WatchError::Accelerator);
    }
    if machine.architecture != Architecture::Amd64 {
        return Err(WatchError::Architecture(machine.architecture));
    }
    if machine.memory_mib > MEMORY_MIB_MAX {
        return Err(WatchError::Memory(machine.memory_mib));
    }
    Ok(())
}

/// The plugin and its settings.
#[derive(Debug, Clone)]
pub struct WatchSetup {
    library: PathBuf,
    cache: Cache,
    /// For this many of the worst samples of each phase, the plugin stores the code that was
    /// executed before the sample.
    worst: u32,
}

impl WatchSetup {
    /// Prepares to watch guests with the plugin at `library`. If `library` is absent, puts the
    /// plugin that is built into this program into the cache.
    ///
    /// # Errors
    /// Returns [`WatchError`] if this machine cannot watch guests.
    pub fn new(
        machine: &Machine,
        qemu: &Qemu,
        library: Option<&Path>,
        cache: &Cache,
    ) -> Result<Self, WatchError> {
        check(machine)?;
        if major_version(&qemu.version).is_some_and(|major| major >= QEMU_TOO_NEW) {
            return Err(WatchError::Qemu(qemu.version.clone()));
        }
        let library = match library {
            Some(path) => path.canonicalize().map_err(file_error(path))?,
            None => own_library(cache)?,
        };
        Ok(Self {
            library,
            cache: cache.clone(),
            worst: 0,
        })
    }

    /// Sets the number of samples for which the plugin stores the code that was executed before the
    /// sample. The plugin does so for the worst samples of each phase.
    #[must_use]
    pub fn with_worst(self, worst: u32) -> Self {
        Self { worst, ..self }
    }

    /// Puts the plugin into the guest's folder.
    ///
    /// # Errors
    /// Returns [`WatchError`].
    pub(super) fn link(&self, folder: &Path) -> Result<(), WatchError> {
        let library = folder.join(LIBRARY_NAME);
        symlink(&self.library, &library).map_err(file_error(&library))
    }

    /// Puts the plugin and its input into the guest's folder.
    ///
    /// # Errors
    /// Returns [`WatchError`].
    pub(super) fn prepare(
        &self,
        symbols: &KernelSymbols,
        machine: &Machine,
        folder: &Path,
    ) -> Result<(), WatchError> {
        let known = folder.join(KNOWN_NAME);
        fs::write(
            &known,
            symbols.known(
                machine.memory_mib,
                PluginOptions {
                    instruction_ns: instruction_ns(machine),
                    worst: self.worst,
                    paths: true,
                },
            )?,
        )
        .map_err(file_error(&known))?;
        self.link(folder)
    }

    /// Returns the symbols of a guest's kernel and its modules. They usually come from the cache.
    /// If the cache does not have them, `boot` runs a guest that writes them into its folder.
    ///
    /// # Errors
    /// Returns [`WatchError`].
    pub(super) fn symbols(
        &self,
        (variant, job, added): (&Variant, &GuestJob, &[AddedFile]),
        boot: impl FnOnce(&GuestJob, &Path) -> Result<(), String>,
    ) -> Result<KernelSymbols, WatchError> {
        let key = key(variant, job, added).map_err(file_error(&variant.kernel.image))?;
        // Several guests with the same kernel start at the same time, but only one of them needs to
        // boot the kernel for its symbols.
        let _lock = self.cache.lock(&format!("symbols-{}", key.as_str()))?;
        let kept = self.cache.folder("symbols")?.join(key.as_str());
        if let Ok(text) = fs::read_to_string(&kept) {
            return Ok(KernelSymbols::parse(&text));
        }
        let folder = self.cache.scratch("probe")?;
        let job = GuestJob {
            task: Task::Run(Program {
                path: None,
                arguments: vec!["--version".to_owned()],
            }),
            settle: Nanos::ZERO,
            loads: Vec::new(),
            injection: None,
            hand_out_symbols: true,
            scenario: None,
            ..job.clone()
        };
        boot(&job, folder.path()).map_err(WatchError::Boot)?;
        let path = folder.path().join(SYMBOLS_NAME);
        let text = fs::read_to_string(&path).map_err(file_error(&path))?;
        write_whole(&kept, text.as_bytes())?;
        Ok(KernelSymbols::parse(&text))
    }
}

/// Compresses the plugin's output into the run folder, and removes the plugin's own file.
///
/// # Errors
/// Returns [`WatchError`].
pub(super) fn keep(
    folder: &Path,
    symbols: &KernelSymbols,
    machine: &Machine,
) -> Result<(), WatchError> {
    store::keep(
        &folder.join(SEEN_NAME),
        folder,
        symbols,
        instruction_ns(machine),
    )?;
    Ok(())
}

/// Returns the virtual time of one instruction in ns.
fn instruction_ns(machine: &Machine) -> u64 {
    u64::try_from(machine.instruction_shift.per_instruction().get()).unwrap_or(1)
}

/// Returns a digest of everything that determines at which addresses the symbols of a guest are.
fn key(variant: &Variant, job: &GuestJob, added: &[AddedFile]) -> io::Result<Digest> {
    let mut digester = Digester::default();
    digester.update_block(variant.kernel.digest.as_str().as_bytes());
    for file in added.iter().filter(|file| file.path.ends_with(".ko")) {
        digester.update_block(Digest::of_file(&file.source)?.as_str().as_bytes());
    }
    job.modules
        .iter()
        .for_each(|module| digester.update_block(module.as_bytes()));
    Ok(digester.finish())
}

/// Returns a file that contains the built-in plugin. A program without a built-in plugin compiles
/// it from source with the machine's compiler.
fn own_library(cache: &Cache) -> Result<PathBuf, WatchError> {
    let digest = Digest::of_bytes(if plugin::LIBRARY.is_empty() {
        plugin::SOURCE.as_bytes()
    } else {
        plugin::LIBRARY
    });
    let folder = cache.folder("plugins")?;
    let library = folder.join(format!("{}.so", digest.as_str()));
    if library.exists() {
        return Ok(library);
    }
    if plugin::LIBRARY.is_empty() {
        return compile(cache, &library);
    }
    write_whole(&library, plugin::LIBRARY)?;
    Ok(library)
}

fn compile(cache: &Cache, library: &Path) -> Result<PathBuf, WatchError> {
    let scratch = cache.scratch("probe")?;
    let source = scratch.path().join("tardy_outside.c");
    fs::write(&source, plugin::SOURCE).map_err(file_error(&source))?;
    let built = scratch.path().join(LIBRARY_NAME);
    let mut compiler = Command::new("cc");
    compiler
        .args(plugin::COMPILER_OPTIONS)
        .arg("-o")
        .args([&built, &source]);
    let output = child::output(&mut compiler);
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return Err(WatchError::NoLibrary(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        Err(error) => return Err(WatchError::NoLibrary(error.to_string())),
    }
    let bytes = fs::read(&built).map_err(file_error(&built))?;
    write_whole(library, &bytes)?;
    Ok(library.to_owned())
}

/// Parses text such as `QEMU emulator version 7.2.22 (Debian ...)`.
fn major_version(text: &str) -> Option<u32> {
    text.split_whitespace()
        .skip_while(|word| *word != "version")
        .nth(1)?
        .split('.')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::InstructionShift;

    #[test]
    fn the_version_is_read_from_what_qemu_calls_itself() {
        assert_eq!(
            major_version("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"),
            Some(7)
        );
        assert_eq!(major_version("QEMU emulator version 10.0.2"), Some(10));
        assert_eq!(major_version("something"), None);
    }

    #[test]
    fn what_cannot_be_watched_is_refused_with_the_reason_and_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let usual = Machine {
            architecture: Architecture::Amd64,
            accelerator: Accelerator::Tcg,
            instruction_shift: InstructionShift::DEFAULT,
            memory_mib: 768,
            shared_mib: 64,
        };
        let refused = |machine: &Machine, version: &str| {
            let qemu = Qemu {
                program: "qemu",
                version: version.to_owned(),
            };
            WatchSetup::new(machine, &qemu, None, &cache)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let old = "QEMU emulator version 7.2.22";
        assert_eq!(refused(&usual, old), Ok(()));
        let cases = [
            (
                Machine {
                    architecture: Architecture::Arm64,
                    ..usual.clone()
                },
                old,
                "arm64 guests cannot be watched",
            ),
            (
                Machine {
                    accelerator: Accelerator::Kvm,
                    ..usual.clone()
                },
                old,
                "leave out --accel kvm or --watch",
            ),
            (
                Machine {
                    memory_mib: 4096,
                    ..usual.clone()
                },
                old,
                "--memory 2048",
            ),
            (usual, "QEMU emulator version 10.0.2", "QEMU 4.2 to 8.2"),
        ];
        for (machine, version, words) in cases {
            let error = refused(&machine, version).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_program_without_a_library_has_one_built() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let library = folder.path().join("x.so");
        assert_eq!(compile(&cache, &library).unwrap(), library);
        let bytes = fs::read(&library).unwrap();
        assert!(bytes.starts_with(b"\x7fELF"));
        assert!(own_library(&cache).unwrap().exists());
    }
}
