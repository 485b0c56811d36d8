//! Round trips of datagrams between two network namespaces, beside sockperf's: the same link, the
//! same pace, the same priorities and CPUs.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tardy_sys::{affinity, process, user};

use super::figure::{Bench, Figure, FigureResult, row, scratch};
use super::statistics::{median, middle_and_interval};
use crate::failure::{Failure, Result, While};
use crate::program;

pub(crate) const FIGURE: Figure = Figure {
    name: "response",
    promise: "UDP round trips are compared with those of sockperf; no difference is promised",
    measure,
};

const PORT: &str = "45999";
const ADDRESS: &str = "10.98.7.2";
/// As the datagrams of the probe (crates/tardy-probes/src/link/packet.rs).
const BYTES: &str = "40";
const PRIORITY: &str = "95";

/// Two namespaces with a pair of interfaces between them; gone with the value.
struct Namespaces {
    here: String,
    there: String,
}

/// One run: median, 99.9 % and maximum in us.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RoundTrips {
    median: f64,
    high: f64,
    max: f64,
}

/// A program in the other namespace; ended when dropped.
struct Responder(Child);

fn measure(bench: &Bench) -> Result<FigureResult> {
    if !user::is_root() {
        return Err(Failure::new(
            "network namespaces are made by root: run it as root",
        ));
    }
    let (rounds, seconds) = if bench.is_quick { (4, 2) } else { (20, 5) };
    let asking = bench.measured_cpu()?;
    let allowed = affinity::get(0).while_doing(|| "asking for the CPUs".to_owned())?;
    let answering = allowed
        .into_iter()
        .find(|&cpu| cpu != asking)
        .ok_or_else(|| Failure::new("this figure needs a second CPU"))?;
    let place = scratch()?;
    let namespaces = Namespaces::make()?;
    let mut commands = Vec::new();
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // The order turns, so that what drifts on the machine falls on both alike.
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                own.push(tardy(
                    bench,
                    &namespaces,
                    (asking, answering),
                    seconds,
                    &place.path().join(round.to_string()),
                    &mut commands,
                )?);
            } else {
                peer.push(sockperf(
                    &namespaces,
                    (asking, answering),
                    seconds,
                    &mut commands,
                )?);
            }
        }
        eprint!("\rround {} of {rounds}", round + 1);
    }
    eprintln!();
    Ok(told(&own, &peer, (asking, answering), seconds, commands))
}

fn told(
    own: &[RoundTrips],
    peer: &[RoundTrips],
    (asking, answering): (u32, u32),
    seconds: u32,
    commands: Vec<String>,
) -> FigureResult {
    let middle = |runs: &[RoundTrips], of: fn(&RoundTrips) -> f64| {
        median(&runs.iter().map(of).collect::<Vec<_>>())
    };
    let differences: Vec<f64> = own
        .iter()
        .zip(peer)
        .map(|(own, peer)| own.median - peer.median)
        .collect();
    let (difference, lower, upper) = middle_and_interval(&differences, 0.95);
    let line = |name: &str, runs: &[RoundTrips]| {
        let figures = [
            middle(runs, |run| run.median),
            middle(runs, |run| run.high),
            middle(runs, |run| run.max),
        ];
        std::iter::once(name.to_owned())
            .chain(figures.iter().map(|figure| format!("{figure:.1}")))
            .collect::<Vec<_>>()
    };
    let head = row([
        "tool",
        "median of medians, us",
        "median of 99.9 %, us",
        "median of maxima, us",
    ]);
    FigureResult {
        reached: format!(
            "medians {difference:+.1} us apart (tardy minus sockperf), 95 % interval {lower:+.1} \
             to {upper:+.1}, {} pairs",
            own.len()
        ),
        commands,
        tables: vec![vec![head, line("tardy", own), line("sockperf", peer)]],
        notes: vec![
            format!(
                "{} rounds of {seconds} s, in rotating order, a datagram of {BYTES} bytes \
                 every ms; the asking thread busy-polls on CPU {asking}, the answering one sleeps \
                 on CPU {answering}, all at SCHED_FIFO {PRIORITY}.",
                own.len()
            ),
            "The two do not end a round trip at the same moment: tardy at the kernel's receive \
             stamp of the answer, sockperf when its call has returned."
                .to_owned(),
            "The difference is the Hodges-Lehmann estimate over the pairs, its interval is from Wilcoxon's signed-rank test. All of this stays within the machine."
                .to_owned(),
        ],
    }
}

impl Namespaces {
    fn make() -> Result<Self> {
        let [here, there] =
            ["here", "there"].map(|end| format!("tardy-bench-{}-{end}", std::process::id()));
        let namespaces = Self { here, there };
        let (here, there) = (&namespaces.here, &namespaces.there);
        for line in [
            format!("netns add {here}"),
            format!("netns add {there}"),
            format!("-n {here} link add v type veth peer name v netns {there}"),
            format!("-n {here} address add 10.98.7.1/24 dev v"),
            format!("-n {there} address add {ADDRESS}/24 dev v"),
            format!("-n {here} link set v up"),
            format!("-n {there} link set v up"),
        ] {
            program::capture(Command::new("ip").args(line.split(' ')))?;
        }
        Ok(namespaces)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.here, &self.there] {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        const TERMINATE: i32 = 15;
        let _ = process::kill(self.0.id() as i32, TERMINATE);
        let _ = self.0.wait();
    }
}

/// A command in a namespace; what it runs is noted without that.
fn inside(namespace: &str, words: &[&str], commands: &mut Vec<String>) -> Command {
    let mut shown = Command::new(words[0]);
    shown.args(&words[1..]);
    let line = program::line(&shown);
    if !commands.contains(&line) {
        commands.push(line);
    }
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).args(words);
    command
}

fn responder(mut command: Command) -> Result<Responder> {
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .while_doing(|| format!("starting `{}`", program::line(&command)))?;
    // It has no way to say that it listens; both ask again until it does, or end with an error.
    std::thread::sleep(Duration::from_millis(500));
    Ok(Responder(child))
}

fn tardy(
    bench: &Bench,
    namespaces: &Namespaces,
    (asking, answering): (u32, u32),
    seconds: u32,
    folder: &std::path::Path,
    commands: &mut Vec<String>,
) -> Result<RoundTrips> {
    let binary = bench.tardy.to_string_lossy();
    let link = format!("udp:{ADDRESS}:{PORT}");
    std::fs::create_dir(folder).while_doing(|| format!("making {}", folder.display()))?;
    let (asking, answering, length) = (
        asking.to_string(),
        answering.to_string(),
        format!("{seconds}s"),
    );
    let mut respond = inside(
        &namespaces.there,
        &[
            &binary,
            "respond",
            &link,
            "--cpu",
            &answering,
            "--out",
            "responder",
        ],
        commands,
    );
    let _responder = responder({
        respond.current_dir(folder);
        respond
    })?;
    let probe = format!("response:{link}");
    let words = [
        &*binary, "run", "--load", "none", "--for", &length, "--cpus", &asking, "--probe", &probe,
    ];
    let mut run = inside(
        &namespaces.here,
        &[&words[..], &["--quiet", "--json", "--out", "run"]].concat(),
        commands,
    );
    let summary = program::capture(run.current_dir(folder))?;
    of_tardy(&summary).ok_or_else(|| {
        Failure::new(format!(
            "`{}` printed no series `response` with all its samples",
            program::line(&run)
        ))
    })
}

fn of_tardy(summary: &str) -> Option<RoundTrips> {
    let summary: serde_json::Value = serde_json::from_str(summary).ok()?;
    let series = summary["series"]
        .as_array()?
        .iter()
        .find(|series| series["probe"] == "response")?;
    let is_whole = series["counts"]["expected"] == series["counts"]["recorded"];
    let numbers = &series["numbers"];
    let percentile = |wanted: f64| {
        let percentiles = numbers["percentiles"].as_array()?;
        let found = percentiles.iter().find(|one| {
            one["probability"]
                .as_f64()
                .is_some_and(|share| (share - wanted).abs() < 1e-9)
        })?;
        found["value_ns"].as_f64()
    };
    let us = |ns: f64| ns / 1000.0;
    Some(RoundTrips {
        median: us(percentile(0.5)?),
        high: us(percentile(0.999)?),
        max: us(numbers["max_ns"].as_f64()?),
    })
    .filter(|_| is_whole)
}

fn sockperf(
    namespaces: &Namespaces,
    (asking, answering): (u32, u32),
    seconds: u32,
    commands: &mut Vec<String>,
) -> Result<RoundTrips> {
    if program::find("sockperf").is_none() {
        return Err(Failure::new(
            "there is no sockperf on this machine: install the package sockperf",
        ));
    }
    let (asking, answering, seconds) = (
        asking.to_string(),
        answering.to_string(),
        seconds.to_string(),
    );
    let bound = |cpu| ["taskset", "-c", cpu, "chrt", "-f", PRIORITY, "sockperf"];
    let server = [
        &bound(&answering)[..],
        &["server", "-i", ADDRESS, "-p", PORT],
    ]
    .concat();
    let _responder = responder(inside(&namespaces.there, &server, commands))?;
    let options = [
        "ping-pong",
        "-i",
        ADDRESS,
        "-p",
        PORT,
        "-m",
        BYTES,
        "-t",
        &seconds,
        "--mps",
        "1000",
        "--full-rtt",
        "--nonblocked",
    ];
    let mut client = inside(
        &namespaces.here,
        &[&bound(&asking)[..], &options].concat(),
        commands,
    );
    let printed = program::capture(&mut client)?;
    of_sockperf(&printed).ok_or_else(|| {
        Failure::new(format!(
            "sockperf printed no percentiles, or lost messages: {printed}"
        ))
    })
}

/// Its lines `---> percentile 50.000 = 45.797` and `---> <MAX> observation = 22367.188`.
fn of_sockperf(printed: &str) -> Option<RoundTrips> {
    let value = |name: &str| {
        printed
            .lines()
            .find(|line| line.contains(name))?
            .split_once(" = ")?
            .1
            .trim()
            .parse()
            .ok()
    };
    let is_whole = printed.contains("# dropped messages = 0; # duplicated messages = 0");
    Some(RoundTrips {
        median: value("percentile 50.000")?,
        high: value("percentile 99.900")?,
        max: value("<MAX> observation")?,
    })
    .filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_taken_from_runs_that_lost_nothing() {
        let printed = "sockperf: # dropped messages = 0; # duplicated messages = 0; # \
                       out-of-order messages = 0\nsockperf: ---> <MAX> observation = \
                       22367.188\nsockperf: ---> percentile 99.900 = 2193.717\nsockperf: ---> \
                       percentile 50.000 =   45.797\n";
        assert_eq!(
            of_sockperf(printed),
            Some(RoundTrips {
                median: 45.797,
                high: 2193.717,
                max: 22367.188
            })
        );
        let summary = r#"{"series": [{"probe": "response.look"}, {"probe": "response", "counts": {"expected": 9, "recorded": 9}, "numbers":
            {"max_ns": 9000, "percentiles": [{"probability": 0.5, "value_ns": 2500}, {"probability": 0.999, "value_ns": 8000}]}}]}"#;
        assert_eq!(
            of_tardy(summary),
            Some(RoundTrips {
                median: 2.5,
                high: 8.0,
                max: 9.0
            })
        );
        assert_eq!(
            of_tardy(&summary.replace("\"recorded\": 9", "\"recorded\": 8")),
            None
        );
        assert_eq!(
            of_sockperf(&printed.replace("messages = 0; # dup", "messages = 3; # dup")),
            None
        );
    }
}
