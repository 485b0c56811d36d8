//! A simulated board for the fault `fleet`: an sshd in network, mount and process namespaces. The
//! board's disk survives reboots, and its network can delay or lose packets.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tardy_sys::{child, process};
use xtask::failure::{Failure, Result, While};
use xtask::{program, workspace};

use crate::fleet::Trouble;
use crate::place::{CommandProcess, Place, names};

/// Programs that a board needs, and the Debian packages that contain them.
const PROGRAMS: [&str; 5] = ["sshd", "ssh", "ip", "nsenter", "python3"];
const PACKAGES: &str = "openssh-server openssh-client iproute2 util-linux python3";
/// The script that runs as the first process of a board. The script sets up the memory file systems
/// and the network, and restarts the sshd whenever it ends, like an init system.
const INIT: &str = r"mount --rbind $1 /mnt
for memory in /tmp /root /run /dev/shm; do mount -t tmpfs tmpfs $memory; done
mount --rbind /mnt/disk /var/tmp
mkdir /run/sshd
until ip address add $3 dev board$2; do sleep 0.05; done
ip link set lo up
ip link set board$2 up
touch /run/is-up
while :; do [ -e /mnt/no-sshd ] || /usr/sbin/sshd -D -f /mnt/sshd_config; sleep 0.2; done";
/// The script that runs each ssh command on the board. At the first ssh command that contains the
/// text of the file `step`, the script renames that file to `reached`, and runs the command only
/// after `reached` has been removed.
const GATE: &str = r#"#!/bin/sh
case $SSH_ORIGINAL_COMMAND in
*"$(cat /mnt/step)"*)
    if mv /mnt/step /mnt/reached; then
        while [ -e /mnt/reached ]; do sleep 0.05; done
        [ ! -e /mnt/endless ] || exec yes
    fi
esac 2> /dev/null
exec sh -c "$SSH_ORIGINAL_COMMAND"
"#;
/// The program that carries packets between two TUN devices, and delays or loses them. The kernel's
/// netem could do the same, but not every kernel has it.
const LINK: &str = r#"
import collections, fcntl, os, random, select, struct, sys, time
near, far, delay, loss = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
def tun(name):
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
    return file
ends = [tun(near), tun(far)]
under_way = collections.deque()
while True:
    wait = max(0, under_way[0][0] - time.monotonic()) if under_way else None
    for end in select.select(ends, [], [], wait)[0]:
        packet = os.read(end, 65536)
        if random.random() >= loss:
            under_way.append((time.monotonic() + delay, ends[end == ends[0]], packet))
    while under_way and under_way[0][0] <= time.monotonic():
        _, end, packet = under_way.popleft()
        try:
            os.write(end, packet)
        except OSError:
            pass
"#;
/// Size of the disk for the fault in which a disk becomes full; the disk has space for the program
/// and a run.
const DISK: &str = "size=200m";

/// The network of all boards, and the ssh keys.
#[derive(Debug)]
pub(crate) struct Rack {
    holder: Child,
}

/// One board.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) name: String,
    pub(crate) trouble: Trouble,
    number: usize,
    rack: u32,
    /// The board's folder on the host, which the board sees as /mnt.
    folder: PathBuf,
    machine: Child,
    link: Option<Child>,
    mounts: String,
    /// When the board will be switched on again; `None` if the board is on.
    off_until: Option<Instant>,
}

impl Rack {
    pub(crate) fn new(place: &Place) -> Result<Self> {
        if let Some(missing) = PROGRAMS.iter().find(|name| program::find(name).is_none()) {
            return Err(Failure::new(format!(
                "{missing} is missing: apt-get install --no-install-recommends {PACKAGES}"
            )));
        }
        for key in ["host-key", "user-key"] {
            program::capture(
                Command::new("ssh-keygen")
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(place.path(key)),
            )?;
        }
        let settings = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile \
             /dev/null\nUser root\n",
            place.path("user-key").display()
        );
        workspace::write(&place.path("ssh_config"), settings)?;
        let holder = spawn(Command::new("unshare").args(["--net", "sleep", "infinity"]))?;
        let rack = Self { holder };
        let own = std::fs::read_link("/proc/self/ns/net").ok();
        place.wait_until(|| {
            std::fs::read_link(format!("/proc/{}/ns/net", rack.holder.id())).ok() != own
        });
        Ok(rack)
    }

    /// Starts `tardy` in the network of the boards.
    pub(crate) fn start(&self, place: &Place, line: &str) -> Result<CommandProcess> {
        let network = format!("--net=/proc/{}/ns/net", self.holder.id());
        place.start(place.tardy_behind("nsenter", &[&network], line))
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        end(&mut self.holder);
    }
}

impl Board {
    /// Switches a board on. The board's fault will start when the command reaches `step` on the
    /// board.
    pub(crate) fn new(
        place: &Place,
        rack: &Rack,
        number: usize,
        trouble: Trouble,
        step: Option<&str>,
    ) -> Result<Self> {
        let name = format!("{trouble:?}").to_lowercase();
        let folder = place.path(&name);
        let at = |name: &str| folder.join(name);
        for name in ["disk", "state"] {
            workspace::make_folder(&at(name))?;
        }
        if trouble == Trouble::Full {
            program::capture(
                Command::new("mount")
                    .args(["-t", "tmpfs", "-o", DISK, "tmpfs"])
                    .arg(at("disk")),
            )?;
        }
        let sshd = "HostKey /mnt/host-key\nAuthorizedKeysFile /mnt/user-key.pub\nPidFile \
                    none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin \
                    prohibit-password\nForceCommand /mnt/gate\nSetEnv TARDY_STATE_DIR=/mnt/state \
                    TARDY_CONFIG= LC_ALL=C\n";
        let write = |name: &str, text: &str| workspace::write(&at(name), text);
        write("sshd_config", sshd)?;
        write("gate", GATE)?;
        std::fs::set_permissions(at("gate"), std::fs::Permissions::from_mode(0o755))
            .while_doing(|| "marking the gate".to_owned())?;
        if let Some(step) = step {
            write("step", step)?;
        }
        for key in ["host-key", "user-key.pub"] {
            std::fs::copy(place.path(key), at(key)).while_doing(|| format!("copying {key}"))?;
        }
        let host = format!("Host {name}\n  HostName {}\n", address(number, 2));
        let mut settings = workspace::read(&place.path("ssh_config"))?;
        settings.push_str(&host);
        workspace::write(&place.path("ssh_config"), settings)?;
        let rack = rack.holder.id();
        let machine = machine(number, trouble, &folder)?;
        let mut board = Self {
            name,
            trouble,
            number,
            rack,
            folder,
            machine,
            link: None,
            mounts: String::new(),
            off_until: None,
        };
        board.connect()?;
        Ok(board)
    }

    /// Returns the process ID that the board's first process has on the host.
    fn init(&self) -> Option<i32> {
        self.processes().into_iter().min()
    }

    /// Returns all processes of the board.
    fn processes(&self) -> Vec<i32> {
        let space = |path: String| std::fs::read_link(path).ok();
        let own = space("/proc/self/ns/pid".to_owned());
        let of_board = space(format!("/proc/{}/ns/pid_for_children", self.machine.id()));
        let pids = names(Path::new("/proc"))
            .into_iter()
            .filter_map(|name| name.parse().ok());
        pids.filter(|pid| {
            of_board.is_some()
                && of_board != own
                && space(format!("/proc/{pid}/ns/pid")) == of_board
        })
        .collect()
    }

    /// Connects the board to the network, and waits until its sshd listens.
    fn connect(&mut self) -> Result<()> {
        let init = wait_for("a board's first process", || self.init())?.to_string();
        let (near, far) = (
            format!("rack{}", self.number),
            format!("board{}", self.number),
        );
        let conditions = match self.trouble {
            Trouble::Delay => Some(["0.1", "0"]),
            Trouble::Loss => Some(["0", "0.03"]),
            _ => None,
        };
        if let Some(conditions) = conditions {
            self.link = Some(spawn(
                self.in_rack(&["python3", "-c", LINK, &near, &far])
                    .args(conditions),
            )?);
            wait_for("a link", || {
                program::capture(&mut self.in_rack(&["ip", "link", "set", &far, "netns", &init]))
                    .ok()
            })?;
        } else {
            // After a board was switched off, its old link disappears with some delay.
            let pair = [
                "ip", "link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &init,
            ];
            wait_for("a link", || program::capture(&mut self.in_rack(&pair)).ok())?;
        }
        let own = format!("{}/30", address(self.number, 1));
        program::capture(&mut self.in_rack(&["ip", "address", "add", &own, "dev", &near]))?;
        program::capture(&mut self.in_rack(&["ip", "link", "set", &near, "up"]))?;
        let is_up = Path::new("/proc").join(&init).join("root/run/is-up");
        wait_for("a board", || is_up.exists().then_some(()))?;
        self.mounts = self.read_mounts();
        Ok(())
    }

    /// Returns `words` as a command that runs in the network of the boards.
    fn in_rack(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.rack))
            .args(words);
        command
    }

    fn read_mounts(&self) -> String {
        let init = self.init().unwrap_or(0);
        std::fs::read_to_string(format!("/proc/{init}/mounts")).unwrap_or_default()
    }

    /// Starts the board's fault once the board has reached the step and, if `is_measuring`, has
    /// samples. If the fault switches the board off, switches it on again after `off`. Returns
    /// whether this call started the fault.
    pub(crate) fn suffer(&mut self, is_measuring: bool, off: Duration) -> Result<bool> {
        if self.off_until.is_some_and(|until| Instant::now() > until) {
            self.switch_on()?;
        }
        let reached = self.folder.join("reached");
        if !reached.exists() || is_measuring && !self.has_samples() {
            return Ok(false);
        }
        let touch = |name: &str| workspace::write(&self.folder.join(name), "");
        match self.trouble {
            Trouble::Delay | Trouble::Loss | Trouble::Clock => {}
            Trouble::Hang => self.signal(&self.processes(), process::STOP),
            Trouble::Endless => touch("endless")?,
            // Fills the disk.
            Trouble::Full => drop(std::fs::write(
                self.folder.join("disk/fill"),
                vec![0; 256 << 20],
            )),
            // Removes the network first, so that processes cannot close their connections, as in a
            // power failure.
            Trouble::Reboot => {
                let near = format!("rack{}", self.number);
                program::capture(&mut self.in_rack(&["ip", "link", "delete", &near]))?;
                end(&mut self.machine);
                self.off_until = Some(Instant::now() + off);
            }
            Trouble::Daemon => {
                touch("no-sshd")?;
                let is_sshd = |pid: &i32| {
                    std::fs::read_to_string(format!("/proc/{pid}/comm"))
                        .is_ok_and(|comm| comm.starts_with("sshd"))
                };
                let daemons: Vec<i32> = self.processes().into_iter().filter(is_sshd).collect();
                self.signal(&daemons, process::KILL);
                self.off_until = Some(Instant::now() + off);
            }
        }
        std::fs::remove_file(&reached).while_doing(|| "letting a board run".to_owned())?;
        Ok(true)
    }

    fn has_samples(&self) -> bool {
        let disk = self.folder.join("disk");
        names(&disk)
            .iter()
            .any(|name| !names(&disk.join(name).join("out/samples")).is_empty())
    }

    fn signal(&self, processes: &[i32], signal: i32) {
        for &pid in processes {
            let _ = process::kill(pid, signal);
        }
    }

    fn switch_on(&mut self) -> Result<()> {
        self.off_until = None;
        let _ = std::fs::remove_file(self.folder.join("no-sshd"));
        if self.trouble == Trouble::Reboot {
            self.machine = machine(self.number, self.trouble, &self.folder)?;
            self.connect()?;
        }
        Ok(())
    }

    /// Ends the trouble.
    pub(crate) fn mend(&mut self) -> Result<()> {
        if self.off_until.is_some() {
            self.switch_on()?;
        }
        for name in ["step", "reached", "endless", "disk/fill"] {
            let _ = std::fs::remove_file(self.folder.join(name));
        }
        self.signal(&self.processes(), process::CONTINUE);
        Ok(())
    }

    /// Removes the folder of a command on the board.
    pub(crate) fn remove(&self, folder: &Path) {
        let is_ours = folder.parent() == Some(Path::new("/var/tmp"));
        if let (true, Some(name)) = (is_ours, folder.file_name()) {
            let _ = std::fs::remove_dir_all(self.folder.join("disk").join(name));
        }
    }

    /// Returns a sentence for each file, process and mount that the commands left.
    pub(crate) fn left(&self) -> Vec<String> {
        let Some(init) = self.init() else {
            return vec!["the board is off".to_owned()];
        };
        let root = PathBuf::from(format!("/proc/{init}/root"));
        let mut left = Vec::new();
        for folder in ["tmp", "var/tmp", "dev/shm", "root", "mnt/state"] {
            let names = names(&root.join(folder)).into_iter();
            left.extend(names.map(|name| format!("/{folder}/{name} is left")));
        }
        for pid in self.processes() {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if !["sh", "sshd", "sleep"].contains(&comm.trim()) {
                left.push(format!("the process {} is left", comm.trim()));
            }
        }
        let mounts = self.read_mounts();
        let new = mounts.lines().filter(|mount| !self.mounts.contains(mount));
        left.extend(new.map(|mount| format!("the mount {mount} is left")));
        left
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        end(&mut self.machine);
        if let Some(link) = &mut self.link {
            end(link);
        }
        if self.trouble == Trouble::Full {
            let _ = program::capture(Command::new("umount").arg(self.folder.join("disk")));
        }
    }
}

/// Starts the process that makes a board's namespaces, which exist until the process ends.
fn machine(number: usize, trouble: Trouble, folder: &Path) -> Result<Child> {
    let mut command = Command::new("unshare");
    command.args("--net --mount --pid --fork --kill-child --mount-proc".split(' '));
    if trouble == Trouble::Clock {
        let ahead = (12 * 365 * 86_400).to_string();
        command.args(["--time", "--monotonic", &ahead, "--boottime", &ahead]);
    }
    let own = format!("{}/30", address(number, 2));
    command
        .args(["sh", "-c", INIT, "board"])
        .arg(folder)
        .args([&number.to_string(), &own]);
    spawn(&mut command)
}

/// Returns an address from a network that RFC 5737 reserves for examples.
fn address(number: usize, end: usize) -> String {
    format!("192.0.2.{}", 4 * number + end)
}

/// Starts a program whose output is discarded. The started program ends when this program ends.
fn spawn(command: &mut Command) -> Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    child::kill_with_parent(command);
    command
        .spawn()
        .while_doing(|| format!("starting {}", command.get_program().display()))
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits until `get` returns a value.
fn wait_for<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < crate::place::PATIENCE {
        if let Some(got) = get() {
            return Ok(got);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Failure::new(format!("{what} does not appear")))
}
