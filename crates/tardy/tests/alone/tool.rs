//! Runs the real binary and inspects all of its descendants.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use tardy_loads::guardian::{LoadEnd, LoadEvent};
use tardy_sys::process;

/// Time-out for every wait for the kernel; no test measures a time with it.
const PATIENCE: Duration = Duration::from_secs(60);
const MARK: &str = "TARDY_TEST_MARK";

/// `tardy load`. An environment variable marks the process and all of its descendants.
pub(crate) struct Tool {
    child: Child,
    events: BufReader<ChildStdout>,
    mark: String,
    mounts_before: String,
    before: System,
    scratch: tempfile::TempDir,
    journals: tempfile::TempDir,
    guardian: i32,
    killed: bool,
    /// The lock that lets only one tool run at a time, because some loads take CPUs or the console
    /// away from others.
    _turn: MutexGuard<'static, ()>,
}

/// System state that loads might leave changed.
#[derive(Debug, PartialEq, Eq)]
struct System {
    cpus_online: String,
    terminal_shown: Option<String>,
    kernel_messages: Option<String>,
    network_devices: usize,
}

impl System {
    fn look() -> Self {
        Self {
            cpus_online: std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap(),
            terminal_shown: std::fs::read_to_string("/sys/class/tty/tty0/active").ok(),
            kernel_messages: std::fs::read_to_string("/proc/sys/kernel/printk_devkmsg").ok(),
            network_devices: std::fs::read_dir("/sys/class/net").unwrap().count(),
        }
    }
}

/// Finds, by their names, the control groups of the loads of process `tool`, in hierarchies of both
/// versions. The groups can be below the test's own group.
fn control_groups(tool: u32) -> Vec<PathBuf> {
    let mounts = mounts();
    let points = mounts
        .lines()
        .filter(|line| line.contains(" - cgroup"))
        .filter_map(|line| line.split(' ').nth(4));
    let mut groups = Vec::new();
    let mut left: Vec<PathBuf> = points.map(PathBuf::from).collect();
    while let Some(folder) = left.pop() {
        if folder.to_string_lossy().contains(&format!("-{tool}-")) {
            groups.push(folder);
            continue;
        }
        // A group of another process may have been removed meanwhile.
        let entries = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        left.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    groups
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap()
}

/// Returns the test's request for a load: its name, with values for required parameters and small
/// values where the defaults are large. Returns `None` for a dangerous load unless dangerous tests
/// are allowed.
pub(crate) fn request_for_test(info: &tardy_loads::load::LoadInfo) -> Option<String> {
    if info.can_do_harm && std::env::var_os("TARDY_TEST_DANGEROUS").is_none() {
        println!("{} runs only with TARDY_TEST_DANGEROUS=1", info.name);
        return None;
    }
    Some(match info.name {
        // A command that ends quickly and each time leaves a process behind.
        "exec" => "exec:(sleep 1000 &) ; sleep 0.2".to_owned(),
        "kernel-build" => format!("kernel-build:tree={}", kernel_tree().display()),
        name => name.to_owned(),
    })
}

/// Creates a folder that stands in for a kernel tree. It has the make targets that the load needs;
/// building them takes so long that a test can kill the load meanwhile.
fn kernel_tree() -> PathBuf {
    let tree = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernel-tree");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::write(tree.join("Kconfig"), "").unwrap();
    let rules = "all:\n\t@for i in 1 2 3 4 5 6 7 8 9; do echo \"  CC $$i.o\"; echo $$i > \
                 $(O)/$$i.o; sleep 0.1; done\ndefconfig:\n\t@echo '# configuration' > \
                 $(O)/.config; echo written\nclean:\n\t@rm -f $(O)/*.o\n";
    std::fs::write(tree.join("Makefile"), rules).unwrap();
    tree
}

impl Tool {
    /// Starts the load and waits until it works. If the machine does not support the load, prints
    /// that and returns `None`.
    pub(crate) fn start(request: &str) -> Option<Self> {
        let turn = crate::turn();
        let (scratch, journals) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mark = format!("{}-{}", std::process::id(), scratch.path().display());
        let (mounts_before, before) = (mounts(), System::look());
        let mut child = Command::new(env!("CARGO_BIN_EXE_tardy"))
            .args(["load", request, "--for", "120s", "--json"])
            .env(MARK, &mark)
            .env("TMPDIR", scratch.path())
            .env("TARDY_STATE_DIR", journals.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        let mut tool = Self {
            child,
            events,
            mark,
            mounts_before,
            before,
            scratch,
            journals,
            guardian: 0,
            killed: false,
            _turn: turn,
        };
        if !tool.wait_until_working(request) {
            return None;
        }
        tool.guardian = tool.find_guardian();
        Some(tool)
    }

    fn wait_until_working(&mut self, request: &str) -> bool {
        loop {
            match self.next_event() {
                Some(LoadEvent::Work {
                    operations: 1.., ..
                }) => return true,
                Some(LoadEvent::Problem { text, .. }) => panic!("{request}: {text}"),
                Some(LoadEvent::Ended {
                    how: LoadEnd::Absent,
                    ..
                })
                | None => break,
                Some(_) => {}
            }
        }
        let mut why = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut why).unwrap();
        assert_eq!(
            self.child.wait().unwrap().code(),
            Some(3),
            "{request}: not at work, and not absent: {why}"
        );
        assert!(
            why.contains("cannot run here, because it needs "),
            "{request}: absent without a reason: {why}"
        );
        println!("{request} is absent here: {why}");
        false
    }

    fn next_event(&mut self) -> Option<LoadEvent> {
        let mut line = String::new();
        self.events.read_line(&mut line).unwrap();
        if line.is_empty() {
            None
        } else {
            Some(serde_json::from_value(crate::support::document::read_as(&line, "load")).unwrap())
        }
    }

    fn find_guardian(&self) -> i32 {
        let is_guardian = |&pid: &i32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|comm| comm.trim() == "tardy-guardian")
        };
        self.processes()
            .into_iter()
            .find(is_guardian)
            .expect("the tool has a guardian")
    }

    /// Processes, except zombies, that have the mark in their environment.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let needle = format!("{MARK}={}", self.mark);
        let pids = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| {
                bytes
                    .split(|&b| b == 0)
                    .any(|entry| entry == needle.as_bytes())
            })
        })
        .collect()
    }

    pub(crate) fn kill_tool(&mut self) {
        self.killed = true;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn kill_guardian(&self) {
        process::kill(self.guardian, process::KILL).unwrap();
    }

    pub(crate) fn interrupt(&self) {
        process::kill(
            i32::try_from(self.child.id()).unwrap(),
            tardy_sys::signal::INTERRUPT,
        )
        .unwrap();
    }

    /// Waits for the tool to end and returns how each load ended.
    pub(crate) fn ends(&mut self) -> Vec<LoadEnd> {
        let mut ends = Vec::new();
        while let Some(event) = self.next_event() {
            if let LoadEvent::Ended { how, .. } = event {
                ends.push(how);
            }
        }
        self.child.wait().unwrap();
        ends
    }

    /// Runs `tardy restore` after the tool and its supervisor were killed.
    pub(crate) fn restore(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tardy"));
        let output = command
            .arg("restore")
            .env("TARDY_STATE_DIR", self.journals.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            std::fs::read_dir(self.journals.path()).unwrap().count(),
            0,
            "the journal is left"
        );
    }

    pub(crate) fn assert_no_process_and_mount_is_left(&self, request: &str) {
        let start = Instant::now();
        while !self.processes().is_empty() {
            assert!(
                start.elapsed() < PATIENCE,
                "{request}: left: {:?}",
                self.processes()
                    .into_iter()
                    .map(describe)
                    .collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(mounts(), self.mounts_before, "{request}: mounts are left");
    }

    pub(crate) fn assert_nothing_is_left(&self, request: &str) {
        self.assert_no_process_and_mount_is_left(request);
        assert_eq!(
            System::look(),
            self.before,
            "{request}: settings are left changed"
        );
        let groups = control_groups(self.child.id());
        assert!(
            groups.is_empty(),
            "{request}: control groups are left: {groups:?}"
        );
        let journals = std::fs::read_dir(self.journals.path()).unwrap().count();
        // A killed tool cannot remove its journal. The supervisor has undone the changes in the
        // journal, and `tardy restore` removes the file.
        assert!(
            journals == 0 || self.killed,
            "{request}: the journal is left"
        );
        let left: Vec<PathBuf> = std::fs::read_dir(self.scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(left.is_empty(), "{request}: files are left: {left:?}");
    }
}

fn describe(pid: i32) -> String {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(name))
            .unwrap_or_default()
    };
    format!("{pid} {}", read("cmdline").replace('\0', " "))
}

/// If a test fails, its loads must not run on for two minutes.
impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
