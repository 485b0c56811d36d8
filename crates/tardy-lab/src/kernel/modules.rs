//! Finds modules of a packaged kernel, and puts them and their dependencies into the order of
//! loading. The modules are stored in the cache.

use std::io::Read;
use std::path::{Path, PathBuf};

use tardy_machine::journal::Scratch;
use tardy_sys::regular_file;

use super::{Kernel, KernelError, fetch_companions};
use crate::cache::{Cache, write_whole};
use crate::deb;

/// Returns the uncompressed files of the modules `names` and of their dependencies. Each module
/// comes after its dependencies.
///
/// # Errors
/// Returns [`KernelError::NoModule`] if the kernel's package has no module of that name, or the
/// kernel comes from no package. Also returns an error if the package cannot be fetched or read.
pub fn modules(
    kernel: &Kernel,
    names: &[&str],
    cache: &Cache,
) -> Result<Vec<PathBuf>, KernelError> {
    let folder = cache.folder(&format!("modules/{}", kernel.digest.as_str()))?;
    // After a wait for this lock, the modules may be in the cache, because the process that held
    // the lock has fetched them.
    let _turn = cache.lock(&format!("modules-{}", kernel.digest.as_str()))?;
    let mut found = ModuleFinder {
        kernel,
        cache,
        folder,
        package: None,
        order: Vec::new(),
    };
    names
        .iter()
        .try_for_each(|name| found.add(&file_name(name)))?;
    Ok(found.order)
}

/// Size limit of a module; one with full debugging information has 100 MB.
pub const MODULE_BYTES_MAX: u64 = 512 << 20;

struct ModuleFinder<'a> {
    kernel: &'a Kernel,
    cache: &'a Cache,
    /// The folder of the cache that contains this kernel's modules.
    folder: PathBuf,
    /// The kernel's package; absent until the cache lacks a required module.
    package: Option<Package>,
    order: Vec<PathBuf>,
}

/// Where a module is read from.
enum Package {
    Own(PathBuf),
    Fetched {
        files: Vec<PathBuf>,
        _folder: Scratch,
    },
}

impl ModuleFinder<'_> {
    /// Adds a module after the modules on which it depends, unless it was added before.
    fn add(&mut self, name: &str) -> Result<(), KernelError> {
        let path = self.folder.join(name);
        if self.order.contains(&path) {
            return Ok(());
        }
        if !path.exists() {
            write_whole(&path, &self.unpack(name)?)?;
        }
        let content =
            regular_file::read(&path, MODULE_BYTES_MAX).map_err(|error| KernelError::Read {
                path: path.clone(),
                error,
            })?;
        for name in dependencies(&content) {
            self.add(&file_name(name))?;
        }
        self.order.push(path);
        Ok(())
    }

    fn unpack(&mut self, name: &str) -> Result<Vec<u8>, KernelError> {
        if self.package.is_none() {
            self.package = Some(self.open(name)?);
        }
        let files = match &self.package {
            Some(Package::Own(file)) => std::slice::from_ref(file),
            Some(Package::Fetched { files, .. }) => files,
            None => &[],
        };
        for file in files {
            let found = deb::extract(file, &|path| is_module(path, name), &|found| {
                !found.is_empty()
            })?;
            if let Some(module) = found.into_iter().next() {
                return plain(&module.path, module.content).map_err(|error| KernelError::Read {
                    path: module.path,
                    error,
                });
            }
        }
        Err(self.missing(name))
    }

    fn open(&self, module: &str) -> Result<Package, KernelError> {
        if self.kernel.source.ends_with(".deb") {
            return Ok(Package::Own(PathBuf::from(&self.kernel.source)));
        }
        let name = self
            .kernel
            .package
            .as_deref()
            .and_then(|package| package.split_once(' '))
            .map(|(name, _)| name.to_owned());
        let name = name.ok_or_else(|| self.missing(module))?;
        let folder = self.cache.scratch("downloads")?;
        let files = fetch_companions(self.kernel, &[name], self.cache, folder.path())?;
        Ok(Package::Fetched {
            files,
            _folder: folder,
        })
    }

    fn missing(&self, name: &str) -> KernelError {
        KernelError::NoModule {
            name: name.trim_end_matches(".ko").to_owned(),
            kernel: self.kernel.source.clone(),
        }
    }
}

/// Returns the release of the kernel that a module was built for: the first word after `vermagic=`
/// (include/linux/vermagic.h). Returns `None` if the file is not a module.
#[must_use]
pub fn release_of_module(content: &[u8]) -> Option<&str> {
    const MAGIC: &[u8] = b"\0vermagic=";
    if !content.starts_with(b"\x7fELF") {
        return None;
    }
    let begin = content
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)?
        + MAGIC.len();
    let end = content[begin..]
        .iter()
        .position(|byte| [0, b' '].contains(byte))?;
    std::str::from_utf8(&content[begin..begin + end]).ok()
}

/// Returns the module's file name: `snd-dummy` and `snd_dummy` are the same module.
fn file_name(module: &str) -> String {
    format!("{}.ko", module.replace('-', "_"))
}

fn is_module(path: &Path, name: &str) -> bool {
    let file = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .replace('-', "_");
    (path.starts_with("lib/modules") || path.starts_with("usr/lib/modules"))
        && file
            .strip_prefix(name)
            .is_some_and(|rest| ["", ".xz"].contains(&rest))
}

fn plain(path: &Path, content: Vec<u8>) -> std::io::Result<Vec<u8>> {
    if path.extension().is_none_or(|extension| extension != "xz") {
        return Ok(content);
    }
    let mut plain = Vec::new();
    lzma_rust2::XzReader::new(&content[..], true)
        .take(MODULE_BYTES_MAX + 1)
        .read_to_end(&mut plain)?;
    if plain.len() as u64 > MODULE_BYTES_MAX {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "the file unpacks to more bytes than any kernel module has",
        ));
    }
    Ok(plain)
}

/// Returns the modules on which a module depends, from its `depends=` field (written by
/// scripts/mod/modpost.c of the kernel).
fn dependencies(module: &[u8]) -> Vec<&str> {
    const KEY: &[u8] = b"\0depends=";
    let Some(begin) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[begin + KEY.len()..]
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default();
    std::str::from_utf8(value)
        .unwrap_or_default()
        .split(',')
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;
    use crate::deb::tests::package;
    use crate::digest::Digest;

    #[test]
    fn modules_come_behind_what_they_need_and_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let module =
            |depends: &str| format!("ELF\0license=GPL\0depends={depends}\0name=x\0").into_bytes();
        let files = [
            ("top-one", "middle,base-two"),
            ("middle", "base_two"),
            ("base-two", ""),
            ("beside", ""),
        ];
        let files = files.map(|(name, depends)| {
            (
                format!("./lib/modules/6.1/kernel/{name}.ko"),
                module(depends),
            )
        });
        let files: Vec<(&str, &[u8])> = files
            .iter()
            .map(|(path, content)| (path.as_str(), content.as_slice()))
            .collect();
        let deb = folder.path().join("kernel.deb");
        std::fs::write(&deb, package(&files)).unwrap();
        let kernel = Kernel {
            source: deb.to_str().unwrap().to_owned(),
            name: "6.1".into(),
            image: "image".into(),
            digest: Digest::of_bytes(b"kernel"),
            architecture: Architecture::Amd64,
            version: None,
            package: None,
        };
        let cache = Cache::at(folder.path().join("cache"));
        let of = |names: &[&str]| -> Result<Vec<String>, String> {
            let paths = modules(&kernel, names, &cache).map_err(|error| error.to_string())?;
            Ok(paths
                .iter()
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect())
        };
        let order = ["base_two.ko", "middle.ko", "top_one.ko"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(of(&["top_one"]).as_ref(), Ok(&order));
        let missing = of(&["none"]).unwrap_err();
        assert!(missing.contains("there is no module none"), "{missing}");
        std::fs::remove_file(&deb).unwrap();
        assert_eq!(of(&["top-one", "base-two"]), Ok(order), "from the cache");
        let nowhere = Kernel {
            source: "bzImage".into(),
            ..kernel.clone()
        };
        assert!(
            modules(&nowhere, &["beside"], &cache)
                .unwrap_err()
                .to_string()
                .contains("debian:VERSION")
        );
    }

    #[test]
    fn a_module_tells_the_release_that_it_is_for() {
        assert_eq!(
            release_of_module(b"\x7fELF..\0vermagic=6.1.0-56-amd64 SMP preempt mod_unload\0"),
            Some("6.1.0-56-amd64")
        );
        assert_eq!(release_of_module(b"\0vermagic=6.1 SMP\0"), None);
        assert_eq!(release_of_module(b"\x7fELF.."), None);
    }

    #[test]
    fn what_depends_on_nothing_says_so_or_nothing() {
        assert_eq!(dependencies(b"x\0depends=\0name=x\0"), [""; 0]);
        assert_eq!(dependencies(b"x"), [""; 0]);
        assert_eq!(dependencies(b"\0depends=snd,snd-pcm"), ["snd", "snd-pcm"]);
        assert!(is_module(
            Path::new("usr/lib/modules/6.12/kernel/sound/snd-pcm.ko.xz"),
            "snd_pcm.ko"
        ));
        assert!(!is_module(
            Path::new("usr/lib/modules/6.12/kernel/sound/snd-pcm-dmaengine.ko"),
            "snd_pcm.ko"
        ));
    }
}
