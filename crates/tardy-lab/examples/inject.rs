//! `cargo xtask inject`: builds the module that injects known delays. The build uses a kernel's
//! headers package.
//!
//! The example fetches the package through the lab's private apt and unpacks it in the cache. The
//! example installs nothing.
//!
//! The machine must have make, gcc and dpkg-deb (all in `build-essential`), and libelf1 for the
//! kernel's own build tools. For kernels of another release, whose build tools need another C
//! library, the example also unpacks that release's compiler, and runs make in the unpacked folder
//! with chroot.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use tardy_lab::architecture::Architecture;
use tardy_lab::cache::Cache;
use tardy_lab::kernel::{self, Kernel};

const KERNELS: [&str; 2] = ["debian:6.1", "debian:6.1-rt"];
const MODULE: &str = "tardy_inject.ko";
/// Packages with the programs that a build of the module runs.
const BUILD_TOOLS: &[&str] = &[
    "gcc",
    "make",
    "libelf1",
    "dash",
    "coreutils",
    "sed",
    "grep",
    "mawk",
    "findutils",
    "base-files",
];
/// Arguments of make. BTF type information would need pahole and the kernel's vmlinux.
const TARGETS: [&str; 2] = ["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"];

fn main() -> ExitCode {
    let kernels: Vec<String> = std::env::args().skip(1).collect();
    match build(if kernels.is_empty() {
        KERNELS.map(str::to_owned).to_vec()
    } else {
        kernels
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("inject: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the module for each of the kernels and prints its path.
fn build(kernels: Vec<String>) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let cache = Cache::of_user()?;
    for source in kernels {
        let kernel = kernel::resolve(
            &source.parse()?,
            Architecture::Amd64,
            &cache,
            false,
            &|_| (),
        )?;
        let release = kernel
            .release()
            .ok_or_else(|| format!("{source}: the image does not state its release"))?;
        let headers = headers(&kernel, release, &cache)?;
        let module = root.join("target/inject").join(release).join(MODULE);
        compile(&root.join("inject"), &headers, release, &module)?;
        println!("{}", module.display());
    }
    Ok(())
}

/// Returns the folder with the unpacked headers of the kernel. Fetches and unpacks the headers if
/// the cache lacks them.
fn headers(kernel: &Kernel, release: &str, cache: &Cache) -> Result<PathBuf, Box<dyn Error>> {
    let _turn = cache.lock(&format!("headers-{}", kernel.digest.as_str()))?;
    let headers = cache.folder("headers")?.join(kernel.digest.as_str());
    if headers.exists() {
        return Ok(headers);
    }
    // The headers are unpacked into a scratch folder, which gets its final name afterwards, so a
    // folder with the final name is always complete.
    let unpacked = cache.scratch("headers")?;
    let names = [format!("linux-headers-{release}")];
    let packages = cache.scratch("packages")?;
    let tools = kernel::fetch_foreign_tools(kernel, &names, BUILD_TOOLS, cache, packages.path())?;
    let own = kernel::fetch_companions(kernel, &names, cache, packages.path())?;
    for package in tools.iter().chain(&own) {
        run(Command::new("dpkg-deb")
            .arg("-x")
            .arg(package)
            .arg(unpacked.path()))?;
    }
    if !tools.is_empty() {
        // The packages' scripts, which do not run here, would make these links.
        for (name, program) in [("sh", "dash"), ("awk", "mawk")] {
            let link = unpacked.path().join("bin").join(name);
            if !link.exists() {
                std::os::unix::fs::symlink(program, link)?;
            }
        }
    }
    fs::rename(unpacked.path(), &headers)?;
    Ok(headers)
}

/// Compiles the module. The makefiles in the headers packages refer to files by absolute paths
/// below /usr/src. This function replaces these paths by paths into the unpacked folder.
fn compile(
    source: &Path,
    headers: &Path,
    release: &str,
    module: &Path,
) -> Result<(), Box<dyn Error>> {
    let folder = module.parent().ok_or("the module's path has no folder")?;
    fs::create_dir_all(folder)?;
    for name in ["Kbuild", "tardy_inject.c"] {
        fs::copy(source.join(name), folder.join(name))?;
    }
    let tree = headers.join(format!("usr/src/linux-headers-{release}"));
    if headers.join("usr/bin/make").exists() {
        return compile_in(headers, folder, release);
    }
    let makefile = tree.join("Makefile");
    let text = fs::read_to_string(&makefile)
        .map_err(|error| format!("{}: {error}", makefile.display()))?;
    let moved = headers.join("usr/src/linux-headers-").display().to_string();
    if !text.contains(&moved) {
        fs::write(&makefile, text.replace("/usr/src/linux-headers-", &moved))?;
    }
    let mut make = Command::new("make");
    make.arg("--silent")
        .arg("-C")
        .arg(&tree)
        .arg(format!("M={}", folder.display()));
    run(make.args(TARGETS))?;
    // Debugging information is removed, because otherwise every guest would have to read it
    // together with the module.
    run(Command::new("strip").arg("--strip-debug").arg(module))
}

/// Compiles the module in `folder` with the compiler that was unpacked together with the headers.
fn compile_in(root: &Path, folder: &Path, release: &str) -> Result<(), Box<dyn Error>> {
    let script = "mount --rbind /dev dev; mount --rbind /proc proc; mount --bind \"$0\" tmp; exec \
                  chroot . sh -ec '\"$@\"; strip --strip-debug /tmp/tardy_inject.ko' sh \"$@\"";
    let tree = format!("/usr/src/linux-headers-{release}");
    let mut command = Command::new("unshare");
    command
        .current_dir(root)
        .args(["--map-root-user", "--mount", "sh", "-ec", script])
        .arg(folder)
        .args(["make", "--silent", "-C", &tree, "M=/tmp"])
        .args(TARGETS);
    run(&mut command)
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{name}: {error}: install build-essential"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{name} failed with {status}: see what it said above").into())
    }
}
