//! Tests `--on` as a user calls it: with a real sshd on loopback, behind a relay that breaks
//! connections on demand.

use crate::support;

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use support::machine::{self, program};
use support::workplace::{RunningCommand, Workplace, names};
use tardy_sys::{process, signal};

/// Forwards data between the tool and the boards.
struct Relay {
    port: u16,
    is_open: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn to(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let relay = Self {
            port: listener.local_addr().unwrap().port(),
            is_open: Arc::new(AtomicBool::new(true)),
            streams: Arc::new(Mutex::new(Vec::new())),
        };
        let (is_open, streams) = (Arc::clone(&relay.is_open), Arc::clone(&relay.streams));
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if !is_open.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
                streams
                    .lock()
                    .unwrap()
                    .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                for (mut from, mut to) in [
                    (client.try_clone().unwrap(), server.try_clone().unwrap()),
                    (server, client),
                ] {
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
        relay
    }

    fn cut(&self) {
        self.is_open.store(false, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }
}

/// Boards, each of which is this machine.
struct Rack {
    place: Workplace,
    relay: Relay,
    sshd: Child,
}

impl Rack {
    fn new() -> Self {
        Self::with_path("/usr/bin:/bin")
    }

    /// Starts boards whose variable PATH is `path`. Each `.` in `path` stands for the folder of the
    /// test.
    fn with_path(path: &str) -> Self {
        Self::with(path, "")
    }

    /// Boards whose shell runs `line` instead of the request `on-board start`, by which the tool
    /// starts its command on a board. In `line`, `$SSH_ORIGINAL_COMMAND` is this request.
    fn with_start(line: &str) -> Self {
        let shell = format!(
            "case \"$SSH_ORIGINAL_COMMAND\" in *\"on-board start\"*) {line} ;; *) eval \
             \"$SSH_ORIGINAL_COMMAND\" ;; esac"
        );
        let rack = Self::with(
            "/usr/bin:/bin",
            "ForceCommand sh \"$TARDY_TEST_MARK/shell\"\n",
        );
        std::fs::write(rack.place.path("shell"), shell).unwrap();
        rack
    }

    fn with(path: &str, more: &str) -> Self {
        let place = Workplace::new();
        let path = path.replace('.', &place.folder().display().to_string());
        let key = |name: &str| {
            let mut command = program("ssh-keygen", "openssh-client");
            assert!(
                command
                    .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                    .arg(place.path(name))
                    .status()
                    .unwrap()
                    .success()
            );
            place.path(name).display().to_string()
        };
        let (host, user) = (key("host-key"), key("user-key"));
        let folder = place.folder().display();
        std::fs::create_dir(place.path("board")).unwrap();
        // As root, sshd needs this folder, which normally the package's service creates.
        let _ = std::fs::create_dir_all("/run/sshd");
        let port = TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {host}\nAuthorizedKeysFile \
             {user}.pub\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication \
             no\nPermitRootLogin prohibit-password\nMaxStartups 100\nSetEnv PATH={path} \
             TMPDIR={folder}/board TARDY_STATE_DIR={folder}/state TARDY_CONFIG= \
             TARDY_TEST_MARK={folder} LC_ALL=C\n{more}"
        );
        std::fs::write(place.path("sshd_config"), settings).unwrap();
        let mut command = program("sshd", "openssh-server");
        command
            .args(["-D", "-e", "-f"])
            .arg(place.path("sshd_config"))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let sshd = command.spawn().unwrap();
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "sshd does not listen"
            );
            thread::sleep(Duration::from_millis(20));
        }
        let relay = Relay::to(port);
        let settings = format!(
            "Host arm* x86*\n  HostName 127.0.0.1\n  Port {}\nHost *\n  IdentityFile {user}\n  \
             IdentitiesOnly yes\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  \
             LogLevel ERROR\n",
            relay.port
        );
        std::fs::write(place.path("ssh_config"), settings).unwrap();
        Self { place, relay, sshd }
    }

    /// Folders of commands that remain on the boards.
    fn left(&self) -> Vec<String> {
        names(&self.place.path("board"))
    }

    /// Returns the folder of the only running command; `None` until the command measures.
    fn folder(&self) -> Option<PathBuf> {
        let folder = self.place.path("board").join(self.left().first()?);
        (folder.join("out/run.json").exists()
            && std::fs::read_dir(folder.join("out/samples")).is_ok_and(|files| files.count() > 0))
        .then_some(folder)
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

#[test]
fn several_boards_give_one_table_and_a_folder_each_and_keep_nothing() {
    let rack = Rack::new();
    let place = &rack.place;
    std::fs::write(
        place.path("mine.toml"),
        "name = \"mine\"\n[[probe]]\nname = \"nanosleep\"\n[[phase]]\nname = \"quiet\"\nlength = \
         \"1s\"\n",
    )
    .unwrap();
    std::fs::write(
        place.path("boards"),
        "# the rack\narm1 ssh://arm1\nthe-x86 ssh://x86\nssh://127.0.0.1:1   # nobody\n",
    )
    .unwrap();
    let all = place
        .tardy(
            "run --scenario mine.toml --deadline 1s --label note=it's;$(reboot) --on boards \
             --ssh-config ssh_config --out rack",
        )
        .ends_with(3);
    let head: Vec<&str> = all
        .stdout
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        head[..4],
        ["run", "kernel", "probe", "samples"],
        "{}",
        all.stdout
    );
    let rows: Vec<&str> = all.stdout.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "{}", all.stdout);
    for board in ["arm1", "the-x86"] {
        let row = rows.iter().find(|row| row.starts_with(board)).unwrap();
        assert!(
            row.contains(" nanosleep ") && row.ends_with("PASSED"),
            "{row}"
        );
        let summary = place.summary(&format!("rack/{board}"));
        assert_eq!(
            (
                summary["labels"]["board"].as_str(),
                summary["labels"]["note"].as_str()
            ),
            (Some(board), Some("it's;$(reboot)"))
        );
        assert_eq!(summary["phases"][0]["name"], "quiet");
        assert!(
            all.stderr.contains(&format!("{board}: started")),
            "{}",
            all.stderr
        );
    }
    assert!(
        all.stderr
            .contains("tardy: 127.0.0.1: the machine could not be reached: "),
        "{}",
        all.stderr
    );
    assert_eq!(
        (names(&place.path("rack")), rack.left()),
        (vec!["arm1".to_owned(), "the-x86".to_owned()], Vec::new())
    );
    // `show` later prints the same table from the folder.
    let again = place.tardy("show rack").ends_with(0);
    assert_eq!(again.stdout, all.stdout);
    // The report contains all boards.
    place.tardy("report rack --html rack.html").ends_with(0);
    let page = std::fs::read_to_string(place.path("rack.html")).unwrap();
    assert!(page.contains("arm1") && page.contains("the-x86"));
}

#[test]
fn a_board_explains_its_own_runs_and_plans_its_own_settings() {
    let rack = Rack::new();
    let place = &rack.place;
    // The test can look into the board's folder, because the board is this machine.
    let run = place.path("run").display().to_string();
    place.tardy(&format!(
        "run --for 1s --load none --explain --quiet --out {run}"
    ));
    for question in [
        format!("explain {run} --json"),
        "explain nowhere".to_owned(),
        "tune --plan --json".to_owned(),
    ] {
        let (here, there) = (
            place.tardy(&question),
            place.tardy(&format!(
                "{question} --on ssh://arm --ssh-config ssh_config"
            )),
        );
        assert_eq!(
            (here.code(), &here.stdout),
            (there.code(), &there.stdout),
            "{question}: {there:?}"
        );
        assert_eq!(here.code() == 0, !question.contains("nowhere"), "{here:?}");
    }
    let both = place
        .tardy("tune --plan --on ssh://x86 --on ssh://arm --ssh-config ssh_config")
        .ends_with(0);
    assert!(
        both.stdout.starts_with("x86:\n") && both.stdout.contains("\narm:\n"),
        "{}",
        both.stdout
    );
    assert_eq!(rack.left(), Vec::<String>::new());
}

#[test]
fn a_board_says_what_it_says_and_what_it_refuses_is_refused() {
    let rack = Rack::new();
    let place = &rack.place;
    let doctor = place
        .tardy("doctor --watch 0s --json --on ssh://x86 --ssh-config ssh_config")
        .ends_with(0);
    assert_eq!(
        doctor.json()["findings"].as_array().map(Vec::is_empty),
        Some(false)
    );
    let both = place
        .tardy("doctor --watch 0s --on ssh://x86 --on ssh://arm --ssh-config ssh_config")
        .ends_with(0);
    assert!(
        both.stdout.starts_with("x86:\n") && both.stdout.contains("\narm:\n"),
        "{}",
        both.stdout
    );
    // The board refuses the run. The message comes from the board, and nothing is left on the
    // board.
    let refused = place
        .tardy("run --for 1s --cpus 4000 --on ssh://x86 --ssh-config ssh_config --out r")
        .ends_with(2);
    assert!(refused.stderr.contains("4000"), "{}", refused.stderr);
    let cost = place.tardy(
        "cost --metric null-call --rounds 1 --trials 1 --on ssh://x86 --ssh-config ssh_config \
         --out c",
    );
    assert!([0, 4].contains(&cost.code()), "{cost:?}");
    assert!(cost.stdout.contains("null-call"), "{}", cost.stdout);
    assert_eq!(place.record("c")["kind"], "cost");
    for (words, said) in [
        ("--on board7", "board7: "),
        (
            "--on ssh://-oProxyCommand=x",
            "is not the address of a machine",
        ),
        ("--on ssh://a --on ssh://a", "two machines are called a"),
        (
            "--on ssh://a --on ssh://b --json",
            "--json is for one machine",
        ),
        ("--on ssh://a --out c", "exists already"),
        ("--ssh-config x", "--on"),
    ] {
        let refused = place.tardy(&format!("run --for 1s {words}")).ends_with(2);
        assert!(refused.stderr.contains(said), "{words}: {}", refused.stderr);
    }
    assert_eq!(rack.left(), Vec::<String>::new());
}

#[test]
fn a_run_goes_on_when_its_connection_breaks() {
    let rack = Rack::new();
    let place = &rack.place;
    let mut run =
        place.start("run --for 3s --load none --on ssh://arm --ssh-config ssh_config --out r");
    run.until("it measures", || rack.folder());
    rack.relay.cut();
    thread::sleep(Duration::from_millis(200));
    rack.relay.mend();
    let ended = run.wait();
    assert!([0, 4].contains(&ended.code()), "{ended:?}");
    assert!(
        ended.stderr.contains("the connection broke"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        (place.record("r")["state"].as_str(), rack.left()),
        (Some("finished"), Vec::new())
    );
}

/// The board either starts the run, or loses the command before that. In both cases, its answer
/// never reaches the tool.
#[test]
fn a_run_whose_connection_breaks_while_it_starts_is_started_once_and_brought_back() {
    let withheld = "mkdir \"$TARDY_TEST_MARK/asked\" 2>/dev/null && while [ ! -e \
                    \"$TARDY_TEST_MARK/cut\" ]; do sleep 0.05; done";
    let started = format!("eval \"$SSH_ORIGINAL_COMMAND\"; ended=$?; {withheld}; exit $ended");
    let never = format!("{withheld} || eval \"$SSH_ORIGINAL_COMMAND\"");
    for line in [started, never] {
        let rack = Rack::with_start(&line);
        let place = &rack.place;
        let mut run =
            place.start("run --for 2s --load none --on ssh://arm --ssh-config ssh_config --out r");
        run.until("the board was asked", || {
            place.path("asked").exists().then_some(())
        });
        rack.relay.cut();
        std::fs::write(place.path("cut"), "").unwrap();
        thread::sleep(Duration::from_millis(200));
        rack.relay.mend();
        let ended = run.wait();
        assert!([0, 4].contains(&ended.code()), "{ended:?}");
        assert!(
            ended.stderr.contains("the connection broke") && ended.stderr.contains("arm: started"),
            "{}",
            ended.stderr
        );
        assert_eq!(
            (place.record("r")["state"].as_str(), rack.left()),
            (Some("finished"), Vec::new())
        );
        place.assert_no_process_is_left();
    }
}

/// If the board stays unreachable, nothing of the run is removed, and the last line shows how to
/// fetch it.
#[test]
fn a_run_that_perhaps_started_is_left_and_fetched() {
    let rack = Rack::with_start(
        "eval \"$SSH_ORIGINAL_COMMAND\"; mkdir \"$TARDY_TEST_MARK/asked\"; while [ -d \
         \"$TARDY_TEST_MARK\" ]; do sleep 0.1; done",
    );
    let place = &rack.place;
    let mut run =
        place.start("run --for 2s --load none --on ssh://arm --ssh-config ssh_config --out r");
    run.until("the board was asked", || {
        place.path("asked").exists().then_some(())
    });
    rack.relay.cut();
    let ended = run.wait().ends_with(3);
    rack.relay.mend();
    let last = ended.stderr.lines().last().unwrap();
    assert!(
        last.contains("the connection broke while the command was started")
            && last.contains("the command may be running there"),
        "{last}"
    );
    let words = last.split_once("tardy fetch ").unwrap().1;
    let fetched = place.tardy(&format!("fetch {words} --ssh-config ssh_config --out r"));
    assert!([0, 4].contains(&fetched.code()), "{fetched:?}");
    assert_eq!(
        (place.record("r")["state"].as_str(), rack.left()),
        (Some("finished"), Vec::new())
    );
}

#[test]
fn a_run_goes_on_without_its_client_and_is_fetched() {
    let rack = Rack::new();
    let place = &rack.place;
    let mut run =
        place.start("run --for 3s --load none --on ssh://arm --ssh-config ssh_config --out r");
    let folder = run.until("it measures", || rack.folder());
    run.signal(9);
    drop(run);
    let address = format!("ssh://arm{}", folder.display());
    let fetched = place.tardy(&format!("fetch {address} --ssh-config ssh_config --out r"));
    assert!([0, 4].contains(&fetched.code()), "{fetched:?}");
    assert!(
        fetched.stdout.starts_with("r: cyclic every 1ms"),
        "{}",
        fetched.stdout
    );
    assert_eq!(
        (place.record("r")["state"].as_str(), rack.left()),
        (Some("finished"), Vec::new())
    );
    let gone = place
        .tardy(&format!("fetch {address} --ssh-config ssh_config --out r2"))
        .ends_with(3);
    assert!(gone.stderr.contains("arm: waiting: "), "{}", gone.stderr);
    let no_folder = place
        .tardy("fetch ssh://arm/etc --ssh-config ssh_config --out r2")
        .ends_with(2);
    assert!(
        no_folder
            .stderr
            .contains("is not the folder of a command started with --on"),
        "{}",
        no_folder.stderr
    );
}

#[test]
fn restore_cleans_up_after_a_command_that_was_killed_on_its_machine() {
    let rack = Rack::new();
    let place = &rack.place;
    let mut run =
        place.start("cost --metric file-reread --on ssh://arm --ssh-config ssh_config --out costs");
    let pid = run.until("it has files", || {
        // The command changes nothing before its journal exists.
        let journals = place.journals();
        journals.iter().find(|name| name.ends_with(".json"))?;
        let left = rack.left();
        let folder = left.iter().find(|name| name.starts_with("tardy-on."))?;
        std::fs::read_to_string(place.path("board").join(folder).join("job/pid")).ok()
    });
    process::kill(pid.trim().parse().unwrap(), process::KILL).unwrap();
    run.wait().ends_with(3);
    // `restore` does not undo the changes of a running process.
    place.assert_no_process_is_left();
    assert!(!place.journals().is_empty());
    let restored = place
        .tardy("restore --on ssh://arm --ssh-config ssh_config")
        .ends_with(0);
    assert!(
        restored.stdout.contains("remove the folder") && restored.stdout.contains(": done"),
        "{}",
        restored.stdout
    );
    assert_eq!((place.journals(), rack.left()), (Vec::new(), Vec::new()));
}

#[test]
fn an_interruption_ends_the_run_there_and_brings_back_what_it_measured() {
    let rack = Rack::new();
    let place = &rack.place;
    let mut run =
        place.start("run --for 1h --load none --on ssh://arm --ssh-config ssh_config --out r");
    run.until("it measures", || rack.folder());
    run.signal(2);
    let ended = run.wait().ends_with(130);
    assert!(
        ended.stderr.contains("stopping the commands early"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        (place.record("r")["state"].as_str(), rack.left()),
        (Some("interrupted"), Vec::new())
    );
    place.assert_no_process_is_left();
}

#[test]
fn a_closed_terminal_ends_the_run_there_and_brings_back_what_it_measured() {
    let rack = Rack::new();
    let place = &rack.place;
    let mut run =
        place.start("run --for 1h --load none --on ssh://arm --ssh-config ssh_config --out r");
    run.until("it measures", || rack.folder());
    // The kernel sends the signal to all processes of the terminal, and the shell sends it again.
    let client = run.pid();
    let is_of_client = |process: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split(' ').nth(2));
        *process == client || parent == Some(&client.to_string())
    };
    let of_terminal: Vec<i32> = run.family().into_iter().filter(is_of_client).collect();
    assert!(of_terminal.len() > 1, "no ssh is running");
    for _ in 0..2 {
        for &process in &of_terminal {
            let _ = tardy_sys::process::kill(process, tardy_sys::signal::HANG_UP);
        }
    }
    run.wait().ends_with(130);
    assert_eq!(
        (place.record("r")["state"].as_str(), rack.left()),
        (Some("interrupted"), Vec::new())
    );
    place.assert_no_process_is_left();
}

#[test]
fn a_copy_that_is_not_the_same_does_not_run() {
    // A board whose `cat` changes bytes, like a bad disk.
    let rack = Rack::with_path("./bin:/usr/bin:/bin");
    let place = &rack.place;
    std::fs::create_dir(place.path("bin")).unwrap();
    std::fs::write(place.path("bin/cat"), "#!/bin/sh\n/bin/cat; printf x\n").unwrap();
    std::fs::set_permissions(
        place.path("bin/cat"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let ended = place
        .tardy("doctor --watch 0s --on ssh://arm --ssh-config ssh_config")
        .ends_with(3);
    assert!(
        ended.stderr.contains("the copy of tardy differs"),
        "{}",
        ended.stderr
    );
    assert_eq!(rack.left(), Vec::<String>::new());
}

/// A test folder with a stand-in for `ssh`. The stand-in runs `before` with the command line in
/// `$line` and the machine in `$host`, and then does the minimum that a board does.
fn without_sshd(before: &str) -> Workplace {
    let place = Workplace::new();
    let script = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nhost=$2 line=$3\n{before}\nulimit -Sv \
         unlimited\nexec sh -c \"$line\"\n"
    );
    std::fs::create_dir(place.path("bin")).unwrap();
    std::fs::create_dir(place.path("board")).unwrap();
    std::fs::write(place.path("bin/ssh"), script).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path("bin/ssh"), executable).unwrap();
    place
}

/// Starts the tool with the stand-in for `ssh`, with at most `kibibytes` KiB of memory.
fn start_in(place: &Workplace, kibibytes: u64, line: &str) -> RunningCommand {
    let mut command = std::process::Command::new("sh");
    let path = format!(
        "{}:{}",
        place.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    command.env("PATH", path).env("TMPDIR", place.path("board"));
    let tool = env!("CARGO_BIN_EXE_tardy");
    let line = format!("ulimit -Sv {kibibytes}; exec {tool} {line}");
    place.start_command(command, ["-c", &line])
}

#[test]
fn a_board_that_prints_without_end_takes_no_memory_and_no_other_boards_result() {
    for (flood, step) in [
        (
            "exec yes",
            "looking for a folder: the command on that machine printed more than 1 MiB",
        ),
        (
            "case \"$line\" in *digest*) exec yes;; esac",
            "copying tardy: the command on that machine printed more than 1 MiB",
        ),
    ] {
        let place = without_sshd(&format!("[ $host = good ] || {{ {flood}; }}"));
        let run = start_in(
            &place,
            1_500_000,
            "run --for 200ms --load none --deadline 10s --on ssh://good --on ssh://flood --out r",
        );
        let ended = run.wait().ends_with(3);
        assert!(
            ended.stderr.contains(&format!("flood: {step}")),
            "{}",
            ended.stderr
        );
        let row = ended.stdout.lines().find(|row| row.starts_with("good"));
        // On a busy machine, the run may have too few samples to pass.
        let is_judged = |row: &str| row.ends_with("PASSED") || row.ends_with("INCONCLUSIVE");
        assert!(row.is_some_and(is_judged), "{ended:?}");
        assert_eq!(
            (
                place.record("r/good")["state"].as_str(),
                names(&place.path("board"))
            ),
            (Some("finished"), Vec::new())
        );
    }
}

#[test]
fn a_board_that_sends_a_file_without_end_does_not_fill_the_disk() {
    if !machine::is_root() {
        return machine::left_out(
            "a_board_that_sends_a_file_without_end_does_not_fill_the_disk",
            "only root can mount a small disk",
        );
    }
    let place = without_sshd(
        "case \"$line\" in *' send '*) mkdir -p f/out; truncate -s 8G f/out/endless; exec tar -C f \
         -c out;; esac",
    );
    let mut command = std::process::Command::new("unshare");
    let path = format!(
        "{}:{}",
        place.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    command.env("PATH", path).env("TMPDIR", place.path("board"));
    std::fs::create_dir(place.path("disk")).unwrap();
    let line = format!(
        "mount -t tmpfs -o size=64m disk disk && {} run --for 200ms --load none \
         --on ssh://endless --out disk/r; code=$?; ls -A disk; exit $code",
        env!("CARGO_BIN_EXE_tardy")
    );
    let ended = place
        .start_command(command, ["--mount", "sh", "-c", &line])
        .wait()
        .ends_with(3);
    assert!(
        ended.stderr.contains("disk would be full") && ended.stdout.is_empty(),
        "{ended:?}"
    );
}

#[test]
fn a_folder_whose_name_did_not_arrive_is_removed_too() {
    let made = "case \"$line\" in *tardy-machine*) sh -c \"$line\" > made; exit 7;; esac";
    let place = without_sshd(made);
    let line = "doctor --watch 0s --on ssh://arm";
    let ended = start_in(&place, 4_000_000, line).wait().ends_with(3);
    let reason = "arm: looking for a folder: the command ended with 7\n";
    assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    let made = std::fs::read_to_string(place.path("made")).unwrap();
    assert!(made.contains("/board/tardy-on."), "{made}");
    assert_eq!(names(&place.path("board")), Vec::<String>::new());
}

#[test]
fn a_hanging_board_does_not_delay_the_end_of_an_interrupted_command() {
    let place = without_sshd("touch reached; sleep 600");
    let line = "run --for 60s --load none --on ssh://arm --out r";
    let mut run = start_in(&place, 4_000_000, line);
    run.until("a folder is looked for", || {
        place.path("reached").exists().then_some(())
    });
    let begin = Instant::now();
    run.signal(signal::TERMINATE);
    let ended = run.wait().ends_with(130);
    let named = "could not be removed and may still be there: delete it by hand";
    assert!(ended.stderr.contains(named), "{}", ended.stderr);
    // ssh alone would give up a dead connection only after a minute.
    assert!(
        begin.elapsed() < Duration::from_secs(45),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_run_that_is_ended_while_tardy_is_copied_is_not_started() {
    let place = without_sshd("case \"$line\" in *digest*) touch copying; sleep 60;; esac");
    let mut run = start_in(
        &place,
        4_000_000,
        "run --for 60s --load none --on ssh://arm --out r",
    );
    run.until("it is copied", || {
        place.path("copying").exists().then_some(())
    });
    run.signal(signal::TERMINATE);
    let ended = run.wait().ends_with(130);
    assert!(
        ended
            .stderr
            .contains("arm: tardy was stopped before the command was started"),
        "{}",
        ended.stderr
    );
    assert_eq!(names(&place.path("board")), Vec::<String>::new());
}
