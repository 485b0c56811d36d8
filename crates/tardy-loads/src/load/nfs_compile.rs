//! `nfs-compile`: compiles over an NFS mount on loopback (williams2002: NFS-COMPILE).
//!
//! The server is a program, not the kernel's own server. A program always ends when the load's PID
//! namespace ends. Threads of the kernel's server would keep a network namespace alive that no
//! process can reach. Guests of the lab end with their measurement, so the worker uses
//! `kernel_server` there. The mounts are in the worker's own mount namespace. The program and its
//! client are also in the worker's own network namespace.

mod kernel_server;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tardy_core::units::Nanos;
use tardy_run::parameter::{Kind, Parameter, Value};
use tardy_sys::namespace::{self, Namespace};
use tardy_sys::{clock, mount, private_folder, process, signal, socket};

use self::kernel_server::KernelServer;
use super::Unsupported;
use super::allowance::{self, COMPILER_WRITES_A_CPU};
use super::info::{ErrorContext, GuestNeeds, LoadInfo, Placement, Rights, Run, WorkError};
use super::program::{self, Outcome};
use super::resolution::Resolution;
use super::worker::Worker;
use crate::children::tied_command;

pub const INFO: LoadInfo = LoadInfo {
    name: "nfs-compile",
    does: "repeatedly compiles its own C files on an NFS mount, whose server is on the loopback \
           interface",
    effect: "uses file systems, network and page cache at once, in kernel threads; \
             `stress-kernel` is the only list with this load, because it mounts file systems and \
             needs root",
    source: "williams2002",
    parameters: &[
        Parameter::count("files", "number of C files in one round", "64", 1, 10_000),
        Parameter {
            name: "jobs",
            means: "number of parallel jobs (make -j); if unset, twice the number of load CPUs",
            kind: Kind::Count {
                min: 1,
                max: 10_000,
            },
            default: None,
            needed: false,
        },
    ],
    can_do_harm: true,
    placement: Placement::Once,
    uses_disk: true,
    rights: Rights::All,
    resolve,
    run: Run::Plain(run),
};

/// The kernel modules and the host's programs that this load needs in a guest of the lab.
pub const GUEST_NEEDS: GuestNeeds = GuestNeeds {
    load: INFO.name,
    modules: &["nfsd", "nfsv4"],
    programs: &["make", "sh", "rm", "gcc", "as"],
};

/// Memory that one compiler process takes for the load's small files, and memory of the server, in
/// bytes. Measurements showed 40 MiB and 120 MiB; the constants are rounded up.
const JOB_BYTES: u64 = 64 << 20;
const SERVER_BYTES: u64 = 256 << 20;
/// Memory of the kernel's server, in bytes. Each thread has pages for a request and a reply of up
/// to 1 MiB (RPCSVC_MAXPAYLOAD in include/linux/sunrpc/svc.h of Linux).
const KERNEL_SERVER_BYTES: u64 = (2 * kernel_server::THREADS) << 20;
/// Space for a C file with its object, and for the server's data, in bytes.
const FILE_BYTES: u64 = 64 << 10;
const STATE_BYTES: u64 = 16 << 20;
const PORT: u16 = 2049;
/// Maximum time until the server listens.
const SERVER_LIMIT: Nanos = Nanos::from_secs(30);
/// Time for the load to stop. Unmounting waits for data that are on their way to the server.
const FINISH_LIMIT: Nanos = Nanos::from_secs(30);

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    resolution.needs_superuser("mount in the load's own namespace")?;
    needs_client(resolution)?;
    let server_bytes = if kernel_server::is_for(&resolution.host.proc) {
        kernel_server::check(&resolution.host.proc)?;
        KERNEL_SERVER_BYTES
    } else {
        resolution.needs_program("ganesha.nfsd", "nfs-ganesha-vfs")?;
        SERVER_BYTES
    };
    for (program, package) in [("make", "make"), ("gcc", "gcc")] {
        resolution.needs_program(program, package)?;
    }
    let cpus = resolution.plan.cpus.len() as u64;
    resolution
        .plan
        .parameters
        .entry("jobs".to_owned())
        .or_insert(Value::Count(2 * cpus));
    let share = resolution.share;
    let jobs = resolution.fit_within(
        "jobs",
        share.memory.saturating_sub(server_bytes) / JOB_BYTES,
        "memory",
    )?;
    let files = resolution.fit_within(
        "files",
        share.disk.saturating_sub(STATE_BYTES) / FILE_BYTES,
        "disk",
    )?;
    resolution.plan.budget.memory = server_bytes + jobs * JOB_BYTES;
    resolution.plan.budget.disk = STATE_BYTES + files * FILE_BYTES;
    // The server has a few dozen threads.
    resolution.plan.budget.processes = (4 * jobs + 100).min(share.processes);
    resolution.plan.finish_limit = FINISH_LIMIT;
    allowance::estimate(resolution, COMPILER_WRITES_A_CPU);
    resolution.take_scratch_folder();
    Ok(())
}

/// Checks that the kernel has an NFS client, built in or as a module that a mount loads.
fn needs_client(resolution: &Resolution<'_>) -> Result<(), Unsupported> {
    let proc = &resolution.host.proc;
    if has_file_system(proc, "nfs4") {
        return Ok(());
    }
    let release = std::fs::read_to_string(proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let modules = Path::new("/lib/modules")
        .join(release.trim())
        .join("kernel/fs/nfs");
    let is_module = |name: std::ffi::OsString| name.to_string_lossy().starts_with("nfsv4.ko");
    if std::fs::read_dir(modules)
        .is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_module(file.file_name()))))
    {
        return Ok(());
    }
    Err(Unsupported::new(
        "the kernel's NFS client",
        "use a kernel with CONFIG_NFS_V4, such as the distribution's; if it is built as a module, \
         install the kernel's modules",
    ))
}

/// Returns whether the running kernel has this type of file system.
fn has_file_system(proc: &Path, kind: &str) -> bool {
    std::fs::read_to_string(proc.join("filesystems"))
        .unwrap_or_default()
        .lines()
        .any(|line| line.split_whitespace().next_back() == Some(kind))
}

fn run(worker: &mut Worker) -> Result<(), WorkError> {
    namespace::unshare(Namespace::Mounts).doing("make a mount namespace")?;
    mount::make_all_private().doing("keep the mounts private to the namespace")?;
    let has_kernel_server = kernel_server::is_for(Path::new("/proc"));
    if !has_kernel_server {
        namespace::unshare(Namespace::Network).doing("make a network namespace")?;
    }
    socket::switch_loopback_on().doing("switch the loopback interface on")?;
    let scratch = super::scratch::own_folder(worker)?;
    let export = scratch.join("export");
    std::fs::create_dir_all(&export).doing("make the server's folder")?;
    let result = if has_kernel_server {
        with_kernel_server(worker, &scratch, &export)
    } else {
        with_program(worker, &scratch)
    };
    let removed = std::fs::remove_dir_all(&scratch).doing("remove the scratch folder");
    result.and(removed)
}

fn with_kernel_server(worker: &mut Worker, scratch: &Path, export: &Path) -> Result<(), WorkError> {
    let server = KernelServer::start(scratch, export)?;
    let result = over_mount(worker, scratch, "127.0.0.1:/");
    result.and(server.stop())
}

fn with_program(worker: &mut Worker, scratch: &Path) -> Result<(), WorkError> {
    // If the server saw the machine's /run, it would find the socket of the message bus there and
    // register at the bus.
    mount::mount("none", Path::new("/run"), "tmpfs", "size=1m")
        .doing("hide /run from the server")?;
    let server = start_server(scratch)?;
    let result = match wait_for_server(worker, scratch, server) {
        Ok(true) => over_mount(worker, scratch, "127.0.0.1:/export"),
        other => other.map(drop),
    };
    // TERM instead of KILL, because the server must close its files before they are removed.
    let _ = process::kill(server, signal::TERMINATE);
    end_server(server);
    result
}

/// Mounts `source` and compiles there.
fn over_mount(worker: &mut Worker, scratch: &Path, source: &str) -> Result<(), WorkError> {
    let target = scratch.join("mount");
    std::fs::create_dir_all(&target).doing("make the folder for the mount")?;
    // `soft` makes operations fail instead of waiting forever for a killed server; nfs(5).
    let options = format!(
        "vers=4.1,addr=127.0.0.1,clientaddr=127.0.0.1,port={PORT},proto=tcp,sec=sys,soft,\
         timeo=20,retrans=2"
    );
    mount::mount(source, &target, "nfs4", &options)
        .doing("mount the export (is the module nfsv4 available?)")?;
    let result = compile(worker, &target);
    mount::unmount(&target, false)
        .or_else(|_| mount::unmount(&target, true))
        .doing("unmount the export")?;
    result
}

fn configuration(scratch: &Path) -> String {
    let export = scratch.join("export");
    let recovery = scratch.join("recovery");
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {PORT}; Enable_NLM = false; Enable_RQUOTA = \
         false; Enable_UDP = false; }}\nNFSv4 {{ Graceless = true; RecoveryBackend = fs; \
         RecoveryRoot = {recovery}; }}\nEXPORT {{ Export_Id = 1; Path = {export}; Pseudo = \
         /export; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = \
         4;\nTransports = TCP; FSAL {{ Name = VFS; }} }}\n",
        recovery = recovery.display(),
        export = export.display(),
    )
}

fn start_server(scratch: &Path) -> Result<i32, WorkError> {
    std::fs::create_dir_all(scratch.join("recovery")).doing("make the server's folder")?;
    let file = scratch.join("server.conf");
    let written = private_folder::create_file(&file)
        .and_then(|mut file| file.write_all(configuration(scratch).as_bytes()));
    written.doing("write the server's configuration")?;
    let child = tied_command("ganesha.nfsd".as_ref())
        .arg("-F")
        .args([
            Path::new("-f"),
            &file,
            Path::new("-L"),
            &scratch.join("server.log"),
            Path::new("-p"),
            &scratch.join("server.pid"),
        ])
        .args(["-N", "EVENT"])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .doing("start the NFS server")?;
    Ok(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Waits until the server listens. Returns false when the load was asked to stop meanwhile.
fn wait_for_server(worker: &mut Worker, scratch: &Path, server: i32) -> Result<bool, WorkError> {
    let deadline = clock::monotonic() + SERVER_LIMIT.get();
    while TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT)).is_err() {
        if !worker.rest(Nanos::from_millis(100)) {
            return Ok(false);
        }
        let ended = process::reap(server, false).doing("supervise the NFS server")?
            != process::WaitResult::NoneYet;
        if ended || clock::monotonic() > deadline {
            let log = std::fs::read_to_string(scratch.join("server.log")).unwrap_or_default();
            let critical: Vec<&str> = log
                .lines()
                .filter_map(|line| line.split_once(":CRIT :"))
                .map(|(_, text)| text)
                .collect();
            let text = if ended { "ended" } else { "does not listen" };
            return Err(WorkError::Bound(format!(
                "the NFS server {text}: {}",
                critical.join("; ")
            )));
        }
    }
    Ok(true)
}

fn end_server(server: i32) {
    let deadline = clock::monotonic() + Nanos::from_secs(5).get();
    while let Ok(process::WaitResult::NoneYet) = process::reap(server, false) {
        if clock::monotonic() > deadline {
            let _ = process::kill(server, process::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn compile(worker: &mut Worker, folder: &Path) -> Result<(), WorkError> {
    write_sources(folder, worker.number("files")).doing("write the sources over NFS")?;
    let jobs = format!("-j{}", worker.number("jobs"));
    loop {
        for arguments in [vec!["clean"], vec![jobs.as_str(), "all"]] {
            let mut command = tied_command("make".as_ref());
            command
                .arg("-C")
                .arg(folder)
                .args(arguments)
                .env_remove("MAKEFLAGS")
                .env_remove("MAKELEVEL")
                .env("LC_ALL", "C");
            match program::run(worker, &mut command, |worker, line| {
                worker.did(u64::from(line.starts_with("CC ")), 0)
            })? {
                Outcome::Stopped => return Ok(()),
                Outcome::Ended(status, _) if status.success() => {}
                Outcome::Ended(status, error) => {
                    return Err(WorkError::Bound(format!(
                        "compiling over NFS failed ({status}): {error}"
                    )));
                }
            }
        }
    }
}

/// Writes a Makefile and C files that each take a compiler some tens of milliseconds.
fn write_sources(folder: &Path, files: u64) -> std::io::Result<()> {
    let names: Vec<PathBuf> = (0..files)
        .map(|index| PathBuf::from(format!("file{index}")))
        .collect();
    for name in &names {
        let functions: String = (0..8)
            .map(|index| {
                format!(
                    "int step{index}(int *data, int count) {{ int sum = {index}; for (int at = 0; \
                     at < count; at++) {{ sum += data[at] * {index}; data[at] ^= sum >> {shift}; \
                     if (sum % 7 == {rest}) sum -= at; }} return sum; }}\n",
                    shift = index % 13,
                    rest = index % 7
                )
            })
            .collect();
        std::fs::write(folder.join(name.with_extension("c")), functions)?;
    }
    let objects: Vec<String> = names
        .iter()
        .map(|name| name.with_extension("o").display().to_string())
        .collect();
    // `-nostdinc`, because guests have no headers.
    let rules = format!(
        "all: {objects}\n%.o: %.c\n\t@gcc -nostdinc -O2 -c -o $@ $< && echo CC $@\nclean:\n\t@rm -f \
         *.o\n",
        objects = objects.join(" ")
    );
    std::fs::write(folder.join("Makefile"), rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_compile_as_they_do_over_nfs() {
        let folder = tempfile::tempdir().unwrap();
        write_sources(folder.path(), 2).unwrap();
        let output = std::process::Command::new("make")
            .arg("-C")
            .arg(folder.path())
            .env_remove("MAKEFLAGS")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .filter(|line| line.starts_with("CC "))
                .count(),
            2
        );
        assert!(folder.path().join("file1.o").exists());
    }

    #[test]
    fn the_server_exports_the_scratch_folder_and_nothing_else() {
        let text = configuration(Path::new("/scratch/0"));
        assert_eq!(text.matches("EXPORT").count(), 1);
        assert!(text.contains("Path = /scratch/0/export;"), "{text}");
    }
}
