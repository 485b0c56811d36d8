//! Tests round trips that leave the tool's process but not the machine: over pseudo-terminals,
//! sockets, and a link between two network namespaces.

use crate::support;

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::machine;
use support::series;
use support::summary::{assert_exact, count, series_of};
use support::workplace::{RunningCommand, Workplace, finish};

/// Checks that every round trip has a sample of `response.look`, that none has a negative time, and
/// that the verdict on the run is not `passed`, because nothing outside the machine was measured.
#[track_caller]
fn assert_has_no_outside(place: &Workplace, summary: &Value, name: &str) {
    assert_exact(series_of(summary, name));
    assert_exact(series_of(summary, "response.look"));
    let stored = series::all(&place.path("run"));
    let of = |name: &str| {
        stored
            .iter()
            .find(|series| series.descriptor.probe == name)
            .unwrap()
    };
    let (round_trips, looks) = (of(name), of("response.look"));
    assert_eq!(round_trips.samples.len(), looks.samples.len());
    for (round_trip, look) in round_trips.samples.iter().zip(&looks.samples) {
        assert_eq!(round_trip.due, look.due);
        assert!(
            round_trip.latency.get() > 0 && look.latency.get() >= 0,
            "{round_trip:?} {look:?}"
        );
    }
    assert_eq!(
        (
            round_trips.descriptor.external,
            round_trips.descriptor.is_outside_verdict
        ),
        (Some(false), true)
    );
    assert!(
        summary["warnings"]
            .to_string()
            .contains("does not leave this machine"),
        "{}",
        summary["warnings"]
    );
    assert!(
        summary["warnings"].to_string().contains("round trips over"),
        "the floor is stated: {}",
        summary["warnings"]
    );
    assert_ne!(
        summary["verdict"]["outcome"], "passed",
        "{}",
        summary["verdict"]
    );
}

/// Returns two CPUs, one for each end. On the same CPU, an initiator that polls at a real-time
/// priority would leave no time to the responder.
fn two_cpus() -> Option<(u32, u32)> {
    let cpus: Vec<u32> = machine::cpus().iter().map(|cpu| cpu.0).collect();
    (cpus.len() > 1).then(|| (cpus[0], cpus[1]))
}

#[test]
fn over_a_pseudo_terminal_with_its_own_responder() {
    let Some((cpu, other)) = two_cpus() else {
        return machine::left_out("over_a_pseudo_terminal", "two CPUs are needed");
    };
    let place = Workplace::new();
    let line = format!(
        "run --load none --for 500ms --cpus {cpu},{other} --deadline 1s --json --out run --probe \
         response:loopback"
    );
    let summary = place.tardy(&line).json();
    assert_has_no_outside(&place, &summary, "response");
}

#[test]
fn the_own_kernel_answers_echo_requests_in_a_table_of_its_own() {
    let place = Workplace::new();
    let outcome = place.tardy(
        "run --load none --for 500ms --deadline 1s --json --out run --probe \
         response:icmp:127.0.0.1",
    );
    if outcome.code() == 3 && outcome.stderr.contains("ping_group_range") {
        return machine::left_out("the_own_kernel_answers", &outcome.stderr);
    }
    assert_has_no_outside(&place, &outcome.json(), "response.in-kernel");
}

/// Starts `tardy respond` without waiting until it is ready.
fn responder(place: &Workplace, prefix: &[&str], link: &str, cpu: u32) -> RunningCommand {
    let mut words: Vec<String> = prefix.iter().map(|word| (*word).to_owned()).collect();
    words.push(env!("CARGO_BIN_EXE_tardy").to_owned());
    words.extend([
        "respond".to_owned(),
        link.to_owned(),
        "--cpu".to_owned(),
        cpu.to_string(),
        "--json".to_owned(),
    ]);
    words.extend(["--out".to_owned(), "responder".to_owned()]);
    place.start_command(Command::new(&words[0]), &words[1..])
}

#[test]
fn datagrams_are_answered_by_a_responder_that_keeps_count_of_its_own_wake_ups() {
    let Some((cpu, other)) = two_cpus() else {
        return machine::left_out("datagrams_are_answered", "two CPUs are needed");
    };
    let place = Workplace::new();
    let responder = responder(&place, &[], "udp:127.0.0.1:45455", other);
    let line = format!(
        "run --load none --for 1s --cpus {cpu} --deadline 1s --json --out run --probe \
         response:udp:127.0.0.1:45455"
    );
    let summary = place.tardy(&line).json();
    assert_has_no_outside(&place, &summary, "response");
    let told = series_of(&summary, "response.responder");
    assert_exact(told);
    responder.signal(15);
    let answered = responder.wait().ends_with(0).json();
    let sent = count(series_of(&summary, "response"), "recorded");
    assert_eq!(
        answered["answers"].as_u64().unwrap(),
        sent,
        "each stimulus was answered once: {answered}"
    );
    assert_eq!(
        answered["wake_up"]["count"].as_u64(),
        Some(sent),
        "the kernel stamps each"
    );
    let shown = place.tardy("show --json responder").ends_with(0).json();
    for name in ["respond", "respond.answer"] {
        assert_exact(series_of(&shown, name));
        assert_eq!(count(series_of(&shown, name), "recorded"), sent, "{name}");
    }
    let stored = series::all(&place.path("responder"));
    assert!(
        stored
            .iter()
            .flat_map(|series| &series.samples)
            .all(|sample| sample.latency.get() >= 0)
    );
    let (wake_ups, answers) = (&stored[1], &stored[0]);
    assert!(
        wake_ups
            .samples
            .iter()
            .zip(&answers.samples)
            .all(|(wake_up, answer)| wake_up.due == answer.due && wake_up.latency <= answer.latency)
    );
    assert!(
        place.tardy("report responder --html report.html").code() == 0
            && place.tardy("show responder").stdout.contains("respond")
    );
}

#[test]
fn a_responder_that_dies_is_noticed_and_one_that_is_not_there_is_named() {
    let Some((cpu, other)) = two_cpus() else {
        return machine::left_out("a_responder_that_dies", "two CPUs are needed");
    };
    let place = Workplace::new();
    let error = place
        .tardy("run --load none --for 1s --out none --probe response:udp:127.0.0.1:45456")
        .ends_with(3)
        .stderr;
    assert!(
        error.contains("run `tardy respond udp:ADDRESS:PORT` there"),
        "{error}"
    );
    assert_eq!(place.names(), [""; 0], "a failed start leaves files");
    let mut responder = responder(&place, &[], "udp:127.0.0.1:45456", other);
    let line = format!(
        "run --load none --for 60s --cpus {cpu} --json --out run --probe \
         response:time-out=10ms:udp:127.0.0.1:45456"
    );
    let run = place.start(&line);
    responder.until("samples were written", || {
        let bytes = std::fs::metadata(
            place
                .path("run/samples")
                .join(format!("response.cpu{cpu}.series")),
        )
        .ok()?
        .len();
        (bytes > 1000).then_some(())
    });
    responder.signal(9);
    let summary = run.wait().ends_with(4).json();
    assert_exact(series_of(&summary, "response"));
    assert!(
        summary["warnings"].to_string().contains("responder-gone"),
        "{}",
        summary["warnings"]
    );
}

/// Two network namespaces that a pair of interfaces connects; removed on drop.
struct Namespaces {
    names: [String; 2],
}

impl Namespaces {
    fn new() -> Option<Self> {
        // Two tests may have namespaces at the same time.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|end| format!("tardy-{}-{number}{end}", std::process::id()));
        let namespaces = Self {
            names: names.clone(),
        };
        let [a, b] = &names;
        let commands = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add v type veth peer name v netns {b}"),
            format!("-n {a} address add 10.99.7.1/24 dev v"),
            format!("-n {b} address add 10.99.7.2/24 dev v"),
            format!("-n {a} link set v up"),
            format!("-n {b} link set v up"),
        ];
        commands.iter().all(|line| ip(line)).then_some(namespaces)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(line: &str) -> bool {
    let mut command = machine::program("ip", "iproute2");
    command
        .args(line.split_whitespace())
        .output()
        .is_ok_and(|output| output.status.success())
}

#[test]
fn between_two_network_namespaces_nothing_is_lost_and_nothing_is_outside() {
    let test = "between_two_network_namespaces";
    let Some((cpu, other)) = two_cpus() else {
        return machine::left_out(test, "two CPUs are needed");
    };
    if !machine::is_root() {
        return machine::left_out(test, "network namespaces are made by root");
    }
    let Some(namespaces) = Namespaces::new() else {
        return machine::left_out(test, "this kernel has no network namespaces or no veth");
    };
    let [here, there] = &namespaces.names;
    for (link, name) in [
        ("udp:10.99.7.2:45457", "response"),
        ("icmp:10.99.7.2", "response.in-kernel"),
    ] {
        let place = Workplace::new();
        let responding = link
            .starts_with("udp")
            .then(|| responder(&place, &["ip", "netns", "exec", there], link, other));
        let line = format!(
            "netns exec {here} {} run --load none --for 500ms --cpus {cpu} --deadline 1s --json \
             --out run",
            env!("CARGO_BIN_EXE_tardy")
        );
        let mut command =
            place.prepared(machine::program("ip", "iproute2"), line.split_whitespace());
        command.args(["--probe", &format!("response:{link}")]);
        let summary = finish(command).json();
        assert_has_no_outside(&place, &summary, name);
        let text = summary["warnings"].to_string();
        // Duplicate answers, which occur on a busy machine, do not count as lost or late.
        assert!(text.contains(" 0 lost, 0 late, "), "{text}");
        // In a new namespace, the loopback interface is down.
        assert!(text.contains("loopback interface is down"), "{text}");
        drop(responding);
    }
}

/// A request of protocol version 1: kind 0 is a hello, kind 1 a stimulus.
fn question(kind: u32, number: u64) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..4].copy_from_slice(b"tdy1");
    bytes[4..8].copy_from_slice(&kind.to_le_bytes());
    bytes[8..16].copy_from_slice(&7_u64.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// A socket with this loopback address, connected to a port on which a responder will listen.
fn connected(from: &str, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    socket
}

/// Repeats a request until it is answered, and returns the answer.
fn ask(responder: &mut RunningCommand, socket: &UdpSocket, kind: u32, number: u64) -> Vec<u8> {
    responder.until("a question was answered", || {
        let mut answer = [0; 100];
        // The responder may not listen yet, or the answer may be to an earlier request.
        socket.send(&question(kind, number)).ok()?;
        let bytes = socket.recv(&mut answer).ok()?;
        (answer[16..24] == number.to_le_bytes()).then(|| answer[..bytes].to_vec())
    })
}

#[test]
fn a_responder_answers_the_peer_of_its_session_with_as_many_bytes_as_came_and_nobody_else() {
    let place = Workplace::new();
    let mut responder = responder(&place, &[], "udp:127.0.0.1:45458", machine::last_cpu());
    let (peer, stranger) = (connected("127.0.0.2", 45458), connected("127.0.0.3", 45458));
    assert_eq!(ask(&mut responder, &peer, 0, 1).len(), 40);
    for number in 0..10 {
        stranger
            .send(&question(u32::from(number % 2 == 0), number))
            .unwrap();
    }
    for bytes in [0, 1, 39, 41, 72, 1400] {
        peer.send(&vec![b'x'; bytes]).unwrap();
    }
    // The loopback interface keeps the order of datagrams, so an answer to this one shows that the
    // responder has read those before it.
    peer.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    peer.send(&question(1, 99)).unwrap();
    let mut answer = [0; 100];
    while answer[16] != 99 {
        assert_eq!(peer.recv(&mut answer).unwrap(), 40, "the peer is answered");
    }
    stranger.set_nonblocking(true).unwrap();
    assert_eq!(
        stranger.recv(&mut answer).unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "a stranger is not"
    );
    responder.signal(15);
    let told = responder.wait().ends_with(0).json();
    let counts = [
        "answers",
        "strangers",
        "others",
        "sessions",
        "rests",
        "failures",
    ]
    .map(|name| told[name].as_u64().unwrap());
    assert_eq!(counts, [1, 10, 6, 1, 0, 0], "{told}");
    let shown = place.tardy("show --full responder").stdout;
    assert!(
        shown.contains("packets from other peers, not answered: 10"),
        "{shown}"
    );
}

#[test]
fn with_a_secret_only_who_knows_it_is_answered_and_told_what_is_wrong() {
    let test = "with_a_secret_only_who_knows_it_is_answered";
    let Some((cpu, other)) = two_cpus() else {
        return machine::left_out(test, "two CPUs are needed");
    };
    let place = Workplace::new();
    for (name, text, mode) in [
        ("secret", "an example of a secret\n", 0o600),
        ("guess", "another one, which is wrong", 0o600),
        ("open", "open to all of this machine", 0o644),
    ] {
        std::fs::write(place.path(name), text).unwrap();
        std::fs::set_permissions(
            place.path(name),
            std::os::unix::fs::PermissionsExt::from_mode(mode),
        )
        .unwrap();
    }
    let refused = place
        .tardy("respond udp:127.0.0.1:45459 --secret open")
        .ends_with(2)
        .stderr;
    assert!(refused.contains("run `chmod 600` on it"), "{refused}");
    let line =
        format!("respond udp:127.0.0.1:45459 --secret secret --cpu {other} --json --out responder");
    let mut responder = place.start(&line);
    let stranger = connected("127.0.0.1", 45459);
    let challenge = ask_any(&mut responder, &stranger);
    assert_eq!(
        (challenge.len(), challenge[4]),
        (40, 3),
        "a challenge that is no longer than the hello"
    );
    let run = |probe: &str, out: &str| {
        let line = format!(
            "run --load none --for 300ms --cpus {cpu} --json --out {out} --probe \
             response:{probe}udp:127.0.0.1:45459"
        );
        place.tardy(&line)
    };
    let error = run("", "none").ends_with(3).stderr;
    assert!(
        error.contains("the responder there requires a secret: give both ends the same file"),
        "{error}"
    );
    let error = run("secret=guess:", "wrong").ends_with(3).stderr;
    assert!(
        error.contains("the responder there has a different secret"),
        "{error}"
    );
    let error = run("secret=open:", "open-run").ends_with(2).stderr;
    assert!(error.contains("run `chmod 600` on it"), "{error}");
    let summary = run("secret=secret:", "run").json();
    let sent = count(series_of(&summary, "response"), "recorded");
    assert!(sent > 0);
    stranger.send(&question(1, 5)).unwrap();
    responder.signal(15);
    let told = responder.wait().ends_with(0).json();
    assert_eq!(told["answers"].as_u64(), Some(sent), "{told}");
    assert!(
        told["strangers"].as_u64() >= Some(1) && told["sessions"].as_u64() >= Some(1),
        "{told}"
    );
    let repeated = place.tardy("report responder --html report.html");
    assert!(
        repeated.code() == 0
            && std::fs::read_to_string(place.path("report.html"))
                .unwrap()
                .contains("--secret secret")
    );
    assert!(
        !std::fs::read_to_string(place.path("responder/run.json"))
            .unwrap()
            .contains("an example of a secret")
    );
    let mut responder = place.start(&format!(
        "respond udp:127.0.0.1:45460 --cpu {other} --out without"
    ));
    responder.until("it measures", || {
        place.path("without/run.json").exists().then_some(())
    });
    let error = place
        .tardy(&format!(
            "run --load none --for 300ms --cpus {cpu} --out no --probe \
             response:secret=secret:udp:127.0.0.1:45460"
        ))
        .ends_with(3)
        .stderr;
    assert!(
        error.contains("the responder there has no secret"),
        "{error}"
    );
    drop(responder);
}

/// Repeats a hello until it is answered, and returns the answer.
fn ask_any(responder: &mut RunningCommand, socket: &UdpSocket) -> Vec<u8> {
    responder.until("a hello was answered", || {
        let mut answer = [0; 100];
        socket.send(&question(0, 1)).ok()?;
        socket
            .recv(&mut answer)
            .ok()
            .map(|bytes| answer[..bytes].to_vec())
    })
}

#[test]
fn a_flood_gets_no_more_than_so_many_datagrams_of_a_responder_in_a_time() {
    const FLOOD: u64 = 200_000;
    let test = "a_flood_gets_no_more_than_so_many_datagrams";
    if !machine::is_root() {
        return machine::left_out(test, "network namespaces are made by root");
    }
    let Some(namespaces) = Namespaces::new() else {
        return machine::left_out(test, "this kernel has no network namespaces or no veth");
    };
    let name = &namespaces.names[0];
    assert!(ip(&format!("-n {name} link set lo up")));
    let place = Workplace::new();
    let begin = Instant::now();
    let mut responder = responder(
        &place,
        &["ip", "netns", "exec", name],
        "udp:127.0.0.1:45461",
        machine::last_cpu(),
    );
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            // Only this thread enters the namespace.
            let namespace = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
            tardy_sys::namespace::enter_network(std::os::fd::AsFd::as_fd(&namespace)).unwrap();
            let (peer, stranger) = (connected("127.0.0.2", 45461), connected("127.0.0.3", 45461));
            ask(&mut responder, &peer, 0, 1);
            for _ in 0..FLOOD {
                // The bytes are not a valid request, because a valid request could open a session.
                // A full queue is not an error of the sender.
                let _ = stranger.send(&[b'x'; 40]);
            }
            ask(&mut responder, &peer, 1, u64::MAX);
        });
        flood.join().unwrap();
    });
    responder.signal(15);
    let told = responder.wait().ends_with(0).json();
    let windows = begin.elapsed().as_millis() as u64 / 100 + 2;
    let (taken, rests) = (
        told["others"].as_u64().unwrap(),
        told["rests"].as_u64().unwrap(),
    );
    assert!(rests > 0 && taken >= 1_000, "{told}");
    assert!(
        taken <= 1_000 * windows && taken < FLOOD,
        "{taken} of {FLOOD} taken in {windows} windows"
    );
    assert!(
        told["answers"].as_u64() > Some(0),
        "the peer is answered after it: {told}"
    );
    assert!(
        told["warnings"]
            .to_string()
            .contains("more packets arrived in 100 ms than the responder accepts"),
        "{told}"
    );
}

#[test]
fn gpio_lines_need_a_chip() {
    let place = Workplace::new();
    if !std::path::Path::new("/sys/module/gpio_sim").exists() {
        machine::left_out(
            "between_gpio_lines",
            "this kernel has no gpio-sim (CONFIG_GPIO_SIM), whose lines could be wired to each \
             other",
        );
    }
    let error = place
        .tardy("run --load none --for 1s --out run --probe response:gpio:/dev/no-such-chip:1,2")
        .ends_with(3)
        .stderr;
    assert!(error.contains("gpio:/dev/no-such-chip:1,2"), "{error}");
    assert!(
        place
            .tardy("respond gpio:/dev/null:1,2")
            .ends_with(3)
            .stderr
            .contains("gpio:/dev/null:1,2")
    );
}

#[test]
fn a_parallel_port_needs_its_driver() {
    let place = Workplace::new();
    if !std::path::Path::new("/dev/parport0").exists() {
        machine::left_out(
            "between_two_parallel_ports",
            "there is no /dev/parport0 (modprobe parport_pc ppdev), and none to wire it to",
        );
    }
    for line in [
        "run --load none --for 1s --out run --probe response:parport:/dev/no-such-port",
        "respond parport:/dev/no-such-port",
    ] {
        let error = place.tardy(line).ends_with(3).stderr;
        assert!(
            error.contains("parport:/dev/no-such-port")
                && error.contains("modprobe parport_pc ppdev"),
            "{line}: {error}"
        );
    }
    assert!(
        place
            .tardy("respond parport:/dev/null")
            .ends_with(3)
            .stderr
            .contains("parport:/dev/null")
    );
}

#[test]
fn links_are_listed_as_they_are_written() {
    let place = Workplace::new();
    let list = place.tardy("list links --json").ends_with(0).json();
    let forms: Vec<&str> = list["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| link["form"].as_str().unwrap())
        .collect();
    assert!(
        ["icmp:HOST", "udp:HOST[:PORT]", "loopback"]
            .iter()
            .all(|form| forms.contains(form)),
        "{forms:?}"
    );
    let text = place.tardy("list links --full").ends_with(0).stdout;
    let refused = place.tardy("respond tcp:board7").ends_with(2).stderr;
    for form in forms {
        assert!(
            text.lines().any(|line| line == form) && refused.contains(form),
            "{form}: {text}{refused}"
        );
    }
}

#[test]
fn what_is_no_link_is_bad_input() {
    let place = Workplace::new();
    assert!(
        place
            .tardy("run --probe response:tcp:board7 --out run")
            .ends_with(2)
            .stderr
            .contains("icmp:HOST, udp:HOST[:PORT]")
    );
    assert!(
        place
            .tardy("respond tcp:board7")
            .ends_with(2)
            .stderr
            .contains("icmp:HOST, udp:HOST[:PORT]")
    );
    assert!(
        place
            .tardy("respond icmp:board7")
            .ends_with(3)
            .stderr
            .contains("answers by itself")
    );
    assert_eq!(place.names(), [""; 0]);
}
