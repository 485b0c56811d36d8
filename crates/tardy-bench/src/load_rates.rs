//! Work per second of the loads `hackbench` and `ttcp`, compared with the programs that they
//! imitate.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, row};
use super::statistics::{ESTIMATE, Pairs, median};
use crate::failure::{Failure, Result, While};
use crate::program;

/// The load `hackbench` compared with hackbench.
pub(crate) const HACKBENCH: Figure = Figure {
    name: "hackbench",
    promise: "The load hackbench sends as many messages as the packaged hackbench, within 10 %",
    measure: measure_hackbench,
};

/// The load `ttcp` compared with iperf3.
pub(crate) const TTCP: Figure = Figure {
    name: "ttcp",
    promise: "The load ttcp sends at least 0.9 times as many bytes as iperf3",
    measure: measure_ttcp,
};

const GROUPS: u64 = 10;
const DESCRIPTORS: u64 = 20;
const MESSAGE_BYTES: u64 = 100;
/// Size of a write and a read: the default of iperf3 for TCP.
const BLOCK: &str = "128KiB";
const RATIO_MIN: f64 = 0.9;
/// Maximum wait until iperf3's server listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(10);

/// Adds a row for the pairs, and returns their ratio.
fn add(table: &mut Vec<Vec<String>>, what: &str, pairs: &Pairs, decimals: usize) -> f64 {
    let (ratio, lower, upper) = pairs.ratio();
    table.push(vec![
        what.to_owned(),
        format!("{:.decimals$}", median(&pairs.own)),
        format!("{:.decimals$}", median(&pairs.peer)),
        format!("{ratio:.3}"),
        format!("{lower:.3} to {upper:.3}"),
        pairs.own.len().to_string(),
    ]);
    ratio
}

fn verdict(is_held: bool) -> &'static str {
    if is_held { "holds" } else { "not shown" }
}

fn measure_hackbench(bench: &Bench) -> Result<FigureResult> {
    let (count, loops) = if bench.is_quick { (2, 100) } else { (12, 500) };
    let hackbench = program::required("hackbench", "rt-tests")?;
    let mut table = vec![row([
        "messages through",
        "tardy, thousands/s",
        "hackbench, thousands/s",
        "ratio",
        "its 95 % interval",
        "pairs",
    ])];
    let (mut reached, mut is_held) = (Vec::new(), true);
    for (shape, option) in [("socket", None), ("pipe", Some("--pipe"))] {
        let own = || {
            let mut command = Command::new(&bench.tardy);
            // The load stops at once, but completes its first round.
            command.args(
                format!(
                    "load hackbench:groups={GROUPS}:fds={DESCRIPTORS}:loops={loops}:\
                     datasize={MESSAGE_BYTES}B:with={shape}:whole=1 --for 10ms --json"
                )
                .split(' '),
            );
            rate(bench, &mut command, "operations").map(|rate| rate / 1e3)
        };
        let peer = || {
            let mut command = Command::new(&hackbench);
            let words = format!("-g {GROUPS} -f {DESCRIPTORS} -l {loops} -s {MESSAGE_BYTES}");
            command.args(words.split(' ')).args(option);
            let begin = Instant::now();
            bench.capture(&mut command)?;
            let messages = GROUPS * DESCRIPTORS * DESCRIPTORS * loops;
            Ok(messages as f64 / begin.elapsed().as_secs_f64() / 1e3)
        };
        let ratio = add(&mut table, shape, &Pairs::measure(count, own, peer)?, 0);
        is_held &= (RATIO_MIN..=1.1).contains(&ratio);
        reached.push(format!("{ratio:.3} x ({shape})"));
    }
    Ok(FigureResult {
        reached: format!("{}: {}", reached.join(", "), verdict(is_held)),
        tables: vec![table],
        notes: vec![
            "Whole rounds: processes made, messages passed, processes reaped. tardy's time is \
             from its load's start to its last process's end, hackbench's that of its whole \
             process."
                .to_owned(),
            format!("The ratio is the {ESTIMATE}."),
        ],
    })
}

fn measure_ttcp(bench: &Bench) -> Result<FigureResult> {
    let (count, seconds) = if bench.is_quick { (2, 1) } else { (12, 3) };
    let cpu = bench.measured_cpu()?;
    let mut table = vec![row([
        "connection",
        "tardy, GB/s",
        "iperf3, GB/s",
        "ratio",
        "its 95 % interval",
        "pairs",
    ])];
    let own = || {
        let mut command = Command::new(&bench.tardy);
        let words = format!("load ttcp:block={BLOCK} --cpus {cpu} --for {seconds}s --json");
        rate(bench, command.args(words.split(' ')), "bytes").map(|rate| rate / 1e9)
    };
    let pairs = Pairs::measure(count, own, || iperf3_rate(bench, cpu, seconds))?;
    let ratio = add(&mut table, "both ends on one CPU", &pairs, 2);
    Ok(FigureResult {
        reached: format!("{ratio:.3} x: {}", verdict(ratio >= RATIO_MIN)),
        tables: vec![table],
        notes: vec![
            format!(
                "Sender and receiver on CPU {cpu}, as a worker of the load has them; blocks of \
                 {BLOCK}, iperf3's default."
            ),
            format!("The ratio is the {ESTIMATE}."),
        ],
    })
}

/// Returns the work per second of a load, from the JSON events of `tardy load`.
fn rate(bench: &Bench, command: &mut Command, field: &str) -> Result<f64> {
    let output = bench.capture(command)?;
    rate_of_events(&output, field).ok_or_else(|| {
        Failure::new(format!(
            "`{}` reported no work: {}",
            program::line(command),
            output.trim()
        ))
    })
}

fn rate_of_events(output: &str, field: &str) -> Option<f64> {
    let events: Vec<Value> = output
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |kind: &'static str| events.iter().filter(move |event| event["event"] == kind);
    let at = |event: &Value| event["at"].as_f64();
    let seconds =
        (of("ended").filter_map(at).fold(0.0, f64::max) - of("started").find_map(at)?) / 1e9;
    let work = of("work").next_back()?[field].as_f64()?;
    (seconds > 0.0 && work > 0.0).then(|| work / seconds)
}

/// Returns the rate that iperf3's receiver measures, in units of 10^9 bytes per second.
fn iperf3_rate(bench: &Bench, cpu: u32, seconds: u64) -> Result<f64> {
    let iperf3 = program::required("iperf3", "iperf3")?;
    let port = free_port()?;
    // The command is recorded without the port, which differs from pair to pair.
    bench.note_line(&format!(
        "taskset -c {cpu} iperf3 -c 127.0.0.1 -t {seconds} -J"
    ));
    let bound = |words: String| {
        let mut command = Command::new("taskset");
        command.arg("-c").arg(cpu.to_string()).arg(&iperf3);
        command.args(words.split(' '));
        command
    };
    // The server serves one client and ends. Without a client, the server would wait forever, so it
    // is killed when this value goes out of scope.
    let _server = Server(
        bound(format!("-s -1 -B 127.0.0.1 -p {port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .while_doing(|| "starting iperf3's server".to_owned())?,
    );
    let mut client = bound(format!("-c 127.0.0.1 -p {port} -t {seconds} -J"));
    // The server accepts one connection only, so a test connection would use it up. Instead, the
    // client is started until it succeeds. With -J, its exit code is 0 even if it fails.
    let deadline = Instant::now() + LISTEN_LIMIT;
    let result = loop {
        let output = program::output(&mut client)?;
        let result: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Failure::new(format!("iperf3 printed no JSON: {error}")))?;
        if result["error"].is_null() || Instant::now() >= deadline {
            break result;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let bits = result["end"]["sum_received"]["bits_per_second"].as_f64();
    let bits = bits.ok_or_else(|| Failure::new(format!("iperf3: {}", result["error"])))?;
    Ok(bits / 8e9)
}

/// A server that is killed on drop, so that a failure leaves none running.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16> {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .while_doing(|| "looking for a free port".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_last_work_over_the_time_from_start_to_end() {
        let output = concat!(
            r#"{"event":"started","load":"x","phase":0,"at":1000000000}"#,
            "\n",
            r#"{"event":"work","load":"x","operations":5,"bytes":0,"at":1500000000}"#,
            "\n",
            r#"{"event":"work","load":"x","operations":30,"bytes":0,"at":2900000000}"#,
            "\n",
            r#"{"event":"ended","load":"x","phase":0,"at":3000000000,"how":"finished"}"#
        );
        assert_eq!(rate_of_events(output, "operations"), Some(15.0));
        assert_eq!(rate_of_events(output, "bytes"), None, "a rate needs work");
        assert_eq!(rate_of_events("", "operations"), None);
    }
}
