//! Work of the loads `hackbench` and `ttcp` a second, beside the programs that they stand for.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, row};
use super::statistics::{median, middle_and_interval};
use crate::failure::{Failure, Result, While};
use crate::program;

/// hackbench against hackbench.
pub(crate) const HACKBENCH: Figure = Figure {
    name: "hackbench",
    promise: "The load hackbench sends as many messages as the packaged hackbench, within 10 %",
    measure: measure_hackbench,
};

/// ttcp against iperf3.
pub(crate) const TTCP: Figure = Figure {
    name: "ttcp",
    promise: "The load ttcp sends at least 0.9 times as many bytes as iperf3",
    measure: measure_ttcp,
};

const GROUPS: u64 = 10;
const DESCRIPTORS: u64 = 20;
const MESSAGE_BYTES: u64 = 100;
/// Of one write and one read, as iperf3 does by default for TCP.
const BLOCK: &str = "128KiB";
const RATIO_MIN: f64 = 0.9;
/// How long iperf3's server may take to listen.
const LISTEN_LIMIT: Duration = Duration::from_secs(10);

/// What both sides of one comparison reached, pair by pair.
struct Pairs {
    own: Vec<f64>,
    peer: Vec<f64>,
}

impl Pairs {
    /// Runs both sides in turn, each first in every second pair.
    fn measure(
        count: usize,
        own: impl Fn() -> Result<f64>,
        peer: impl Fn() -> Result<f64>,
    ) -> Result<Self> {
        let mut pairs = Self {
            own: Vec::new(),
            peer: Vec::new(),
        };
        for pair in 0..count {
            if pair % 2 == 0 {
                pairs.own.push(own()?);
                pairs.peer.push(peer()?);
            } else {
                pairs.peer.push(peer()?);
                pairs.own.push(own()?);
            }
        }
        Ok(pairs)
    }

    /// The ratio and its interval at 95 %.
    fn ratio(&self) -> (f64, f64, f64) {
        let logarithms: Vec<f64> = self
            .own
            .iter()
            .zip(&self.peer)
            .map(|(own, peer)| (own / peer).ln())
            .collect();
        let (middle, lower, upper) = middle_and_interval(&logarithms, 0.95);
        (middle.exp(), lower.exp(), upper.exp())
    }

    fn row(&self, what: &str, decimals: usize) -> Vec<String> {
        let (ratio, lower, upper) = self.ratio();
        row([
            what,
            &format!("{:.decimals$}", median(&self.own)),
            &format!("{:.decimals$}", median(&self.peer)),
            &format!("{ratio:.3}"),
            &format!("{lower:.3} to {upper:.3}"),
            &self.own.len().to_string(),
        ])
    }
}

fn measure_hackbench(bench: &Bench) -> Result<FigureResult> {
    let (count, loops) = if bench.is_quick { (2, 100) } else { (12, 500) };
    let hackbench = found("hackbench", "rt-tests")?;
    let mut table = vec![row([
        "messages through",
        "tardy, thousands/s",
        "hackbench, thousands/s",
        "ratio",
        "its 95 % interval",
        "pairs",
    ])];
    let (mut commands, mut ratios) = (Vec::new(), Vec::new());
    for (shape, option) in [("socket", None), ("pipe", Some("--pipe"))] {
        let own = || {
            let load = format!(
                "hackbench:groups={GROUPS}:fds={DESCRIPTORS}:loops={loops}:\
                 datasize={MESSAGE_BYTES}B:with={shape}:whole=1"
            );
            let mut command = Command::new(&bench.tardy);
            // The first round is not cut short by the load's end, which comes at once.
            command.args(["load", &load, "--for", "10ms", "--json"]);
            rate(&mut command, "operations").map(|(rate, line)| (rate / 1e3, line))
        };
        let peer = || {
            let mut command = Command::new(&hackbench);
            let [groups, descriptors, loops, bytes] =
                [GROUPS, DESCRIPTORS, loops, MESSAGE_BYTES].map(|number| number.to_string());
            command
                .args([
                    "-g",
                    &groups,
                    "-f",
                    &descriptors,
                    "-l",
                    &loops,
                    "-s",
                    &bytes,
                ])
                .args(option);
            let begin = Instant::now();
            program::capture(&mut command)?;
            let messages =
                GROUPS * DESCRIPTORS * DESCRIPTORS * loops.parse::<u64>().unwrap_or_default();
            Ok((
                messages as f64 / begin.elapsed().as_secs_f64() / 1e3,
                program::line(&command),
            ))
        };
        let pairs = Pairs::measure(
            count,
            || own().map(|(rate, _)| rate),
            || peer().map(|(rate, _): (f64, String)| rate),
        )?;
        commands.extend([own()?.1, peer()?.1]);
        table.push(pairs.row(shape, 0));
        ratios.push((shape, pairs.ratio().0));
    }
    let holds = ratios
        .iter()
        .all(|(_, ratio)| (RATIO_MIN..=1.1).contains(ratio));
    let reached = ratios
        .iter()
        .map(|(shape, ratio)| format!("{ratio:.3} x ({shape})"))
        .collect::<Vec<_>>()
        .join(", ");
    Ok(FigureResult {
        reached: format!("{reached}: {}", if holds { "holds" } else { "not shown" }),
        commands,
        tables: vec![table],
        notes: vec![
            "Whole rounds: processes made, messages passed, processes reaped. tardy's time is \
             from its load's start to its last process's end, hackbench's that of its whole \
             process."
                .to_owned(),
            "The ratio is the Hodges-Lehmann estimate over the pairs; its interval comes from \
             Wilcoxon's signed-rank test."
                .to_owned(),
        ],
    })
}

fn measure_ttcp(bench: &Bench) -> Result<FigureResult> {
    let (count, seconds) = if bench.is_quick { (2, 1) } else { (12, 3) };
    let iperf3 = found("iperf3", "iperf3")?;
    let cpu = bench.measured_cpu()?.to_string();
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
        command.args([
            "load",
            &format!("ttcp:block={BLOCK}"),
            "--cpus",
            &cpu,
            "--for",
            &format!("{seconds}s"),
            "--json",
        ]);
        rate(&mut command, "bytes").map(|(rate, line)| (rate / 1e9, line))
    };
    let peer = || iperf3_rate(&iperf3, &cpu, seconds);
    let pairs = Pairs::measure(
        count,
        || own().map(|(rate, _)| rate),
        || peer().map(|(rate, _)| rate),
    )?;
    table.push(pairs.row("both ends on one CPU", 2));
    let (ratio, ..) = pairs.ratio();
    Ok(FigureResult {
        reached: format!(
            "{ratio:.3} x: {}",
            if ratio >= RATIO_MIN {
                "holds"
            } else {
                "not shown"
            }
        ),
        commands: vec![own()?.1, peer()?.1],
        tables: vec![table],
        notes: vec![
            format!(
                "Sender and receiver on CPU {cpu}, as a worker of the load has them; blocks of \
                 {BLOCK}, iperf3's default."
            ),
            "The ratio is the Hodges-Lehmann estimate over the pairs; its interval comes from \
             Wilcoxon's signed-rank test."
                .to_owned(),
        ],
    })
}

/// Work a second of a load, from the JSON events of `tardy load`, and the command.
fn rate(command: &mut Command, field: &str) -> Result<(f64, String)> {
    let output = program::capture(command)?;
    let rate = rate_of_events(&output, field).ok_or_else(|| {
        Failure::new(format!(
            "`{}` told no work: {}",
            program::line(command),
            output.trim()
        ))
    })?;
    Ok((rate, program::line(command)))
}

fn rate_of_events(output: &str, field: &str) -> Option<f64> {
    let events: Vec<Value> = output
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |kind: &str| {
        events
            .iter()
            .filter(|event| event["event"] == kind)
            .collect::<Vec<_>>()
    };
    let at = |event: &&Value| event["at"].as_f64();
    let seconds = (of("ended").iter().filter_map(at).fold(0.0, f64::max)
        - of("started").iter().find_map(at)?)
        / 1e9;
    let work = of("work").last()?[field].as_f64()?;
    (seconds > 0.0 && work > 0.0).then(|| work / seconds)
}

/// Bytes a second in units of 10^9, as iperf3's receiver saw them, and the client's command.
fn iperf3_rate(iperf3: &std::path::Path, cpu: &str, seconds: u64) -> Result<(f64, String)> {
    let port = free_port()?;
    let mut server = Command::new("taskset");
    server
        .args(["-c", cpu])
        .arg(iperf3)
        .args(["-s", "-1", "-B", "127.0.0.1", "-p", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // It serves one client and ends; where that came to nothing it would wait for ever, and is
    // ended with this scope.
    let _server = Server(
        server
            .spawn()
            .while_doing(|| "starting iperf3's server".to_owned())?,
    );
    let mut client = Command::new("taskset");
    client.args(["-c", cpu]).arg(iperf3).args([
        "-c",
        "127.0.0.1",
        "-p",
        &port,
        "-t",
        &seconds.to_string(),
        "-J",
    ]);
    // Asking whether it listens by connecting would be its one connection: the client is tried
    // until it succeeds. With -J its exit code is 0 even then.
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
    let bits = result
        .pointer("/end/sum_received/bits_per_second")
        .and_then(Value::as_f64);
    let bits = bits.ok_or_else(|| Failure::new(format!("iperf3: {}", result["error"])))?;
    Ok((bits / 8e9, program::line(&client)))
}

/// Ended with its scope, so that a failure leaves no server behind.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")
        .while_doing(|| "looking for a free port".to_owned())?;
    listener
        .local_addr()
        .map(|address| address.port().to_string())
        .while_doing(|| "asking for the port".to_owned())
}

fn found(name: &str, package: &str) -> Result<std::path::PathBuf> {
    program::find(name).ok_or_else(|| {
        Failure::new(format!(
            "there is no {name} on this machine: install the package {package}"
        ))
    })
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

    #[test]
    fn sides_take_turns_in_being_first() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name: char| {
            order.borrow_mut().push(name);
            Ok(if name == 'o' { 2.0 } else { 1.0 })
        };
        let pairs = Pairs::measure(12, || side('o'), || side('p')).unwrap();
        assert!(order.borrow().starts_with("oppoop"), "{}", order.borrow());
        assert_eq!(pairs.ratio().0, 2.0);
    }
}
