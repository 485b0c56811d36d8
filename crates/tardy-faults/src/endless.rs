//! A monitoring run over a long time. The run has a disk budget but no end, explains its late
//! samples, and is scraped.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tardy_sys::signal;
use xtask::failure::Result;

use crate::fault::{Fault, Form, Ground, Tally};
use crate::folders::{self, Folder};
use crate::place::{PATIENCE, Place, last_line};
use crate::soak::{ToolUse, growth};

pub(crate) const ENDLESS: Fault = Fault {
    name: "endless",
    done: "a run at 1 kHz with --until-stopped, --disk 16MiB, --explain and --metrics for an hour \
           (a minute in the short form; --soak-for sets another length); its metrics are read each \
           second, and SIGTERM ends the run",
    demanded: "each reading of the metrics is whole, and no count in it is less than before; the \
               folder stays within 16 MiB; the least descriptors, threads and files of the tool in \
               the last quarter are not more than those in the second quarter, and its least \
               memory is at most 1 MiB more; the finished run has every sample that the \
               metrics had, and each explanation adds up, or was replaced by newer explanations \
               and is counted",
    attempt: endless,
};

const DISK: u64 = 16 << 20;
const SCRAPE: Duration = Duration::from_secs(1);
const ANSWER_WAIT: Duration = Duration::from_secs(10);

fn endless(ground: &Ground) -> Result<Tally> {
    let mut tally = Tally::default();
    let place = ground.place()?;
    let length = ground.soak_for.unwrap_or(match ground.form {
        Form::Brief => Duration::from_secs(5),
        Form::Short => Duration::from_secs(60),
        Form::Full => Duration::from_secs(3600),
    });
    let line = "run --until-stopped --disk 16MiB --explain --metrics 0 --period 1ms --deadline 1s \
                --quiet --out run";
    let mut running = place.start(place.tardy_command(line))?;
    let mut port = None;
    place.wait_until(|| {
        port = port_of(&place);
        port.is_some() || running.has_ended()
    });
    let (begun, pid) = (Instant::now(), running.pid());
    let mut wrong = Vec::new();
    // The tool's usage rises for a moment when a burst of events needs memory, or when a change to
    // a new segment needs a descriptor. A single reading may come at such a moment. The minima of
    // the quarters of the run therefore show whether the usage grows permanently. The first quarter
    // is not compared, because buffers still fill in it.
    let mut least: [Option<ToolUse>; 4] = [None; 4];
    let (mut counts, mut scrapes, mut most) = (BTreeMap::new(), 0, 0);
    while begun.elapsed() < length && !running.has_ended() && wrong.len() < 10 {
        std::thread::sleep(SCRAPE);
        let quarter = (4 * begun.elapsed().as_millis() / length.as_millis().max(1)).min(3) as usize;
        let now = ToolUse::of(pid, &place);
        least[quarter] = Some(least[quarter].map_or(now, |least| least.of_both(now, u64::min)));
        let bytes = folder_bytes(&place.path("run"));
        most = most.max(bytes);
        match port.map(metrics) {
            Some(Ok(now)) => {
                wrong.extend(less(&counts, &now));
                counts = now;
                scrapes += 1;
            }
            Some(Err(why)) => wrong.push(why),
            None => wrong.push("the run did not print the port of its metrics".to_owned()),
        }
    }
    let [_, second, _, last] = least.map(Option::unwrap_or_default);
    if !running.has_ended() {
        running.signal(signal::TERMINATE)?;
    }
    let outcome = running.end(&place, PATIENCE)?;
    let (of_run, folder) = folders::after(&place, outcome.disgrace(), "run")?;
    wrong.extend(of_run);
    if most > DISK {
        wrong.push(format!("the folder took {most} bytes"));
    }
    if ground.form != Form::Brief {
        wrong.extend(growth([second, last]));
    }
    wrong.extend(not_whole(&folder, &counts));
    let (explained, odd) = explanations(&place)?;
    wrong.extend(odd);
    let ending = if wrong.is_empty() {
        outcome.ending()
    } else {
        outcome.ending_and_reason()
    };
    tally.count(
        "endless",
        format!(
            "{} s, {ending}: metrics read {scrapes} times, folder at most {} KiB, least memory \
             {} then {} KiB, {explained}",
            length.as_secs(),
            most >> 10,
            second.memory_kb,
            last.memory_kb,
        ),
        wrong,
    );
    Ok(tally)
}

/// Returns the port that the run printed.
fn port_of(place: &Place) -> Option<u16> {
    let said = std::fs::read_to_string(place.path("tmp/.stderr")).ok()?;
    let (_, rest) = said.split_once("http://127.0.0.1:")?;
    rest.split_once('/')?.0.parse().ok()
}

/// Returns the names and values of the metrics that may only grow.
fn metrics(port: u16) -> std::result::Result<BTreeMap<String, f64>, String> {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text: String = ask().map_err(|error: std::io::Error| format!("metrics: {error}"))?;
    if !text.trim_end().ends_with("# EOF") {
        return Err(format!("metrics: not whole: {}", last_line(&text)));
    }
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        let grows = ["_total", "_count", "_bucket", "_max_seconds"];
        let base = name.split('{').next()?;
        grows
            .iter()
            .any(|end| base.ends_with(end))
            .then_some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Returns the first metric that decreased or disappeared.
fn less(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) -> Option<String> {
    let (name, value) = before
        .iter()
        .find(|(name, value)| now.get(*name).is_none_or(|now| now < value))?;
    Some(format!("{name} was {value}, and then {:?}", now.get(name)))
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(facts) if facts.is_dir() => folder_bytes(&entry.path()),
            Ok(facts) => facts.len(),
            // The file was removed after the folder had been listed.
            Err(_) => 0,
        })
        .sum()
}

/// Checks that the run is finished and has every sample that its metrics counted. Returns the
/// violation.
fn not_whole(folder: &Folder, counts: &BTreeMap<String, f64>) -> Option<String> {
    let Folder::Opens { state, .. } = folder else {
        return Some(format!("the run does not open: {folder:?}"));
    };
    let scraped: f64 = counts
        .iter()
        .filter(|(name, _)| name.starts_with("tardy_latency_seconds_count"))
        .map(|(_, count)| count)
        .sum();
    let recorded = folder.recorded();
    let is_whole = state == "finished" && scraped > 0.0 && recorded as f64 >= scraped;
    (!is_whole).then(|| format!("{state}: {recorded} samples, {scraped} in the metrics"))
}

/// Returns a text with the number of explanations. Also returns a description of the violation if
/// there are no explanations, their counts disagree, or they are damaged.
fn explanations(place: &Place) -> Result<(String, Option<String>)> {
    let shown = place.tardy("explain run --json --worst 1")?;
    let found: Value = serde_json::from_str(&shown.printed).unwrap_or_default();
    let count = |name: &str| found["samples"][name].as_u64().unwrap_or(0);
    let series = found["tracing"]["series"].as_array().into_iter().flatten();
    let written: u64 = series
        .filter_map(|series| series["explained"].as_u64())
        .sum();
    let seen = format!(
        "{written} samples explained, {} of them gave way",
        count("given_way")
    );
    let is_right = written > 0
        && written == count("explained") + count("given_way")
        && count("not_adding_up") == 0
        && count("damaged_bytes") == 0;
    let wrong = format!("{}: {written}: {}", shown.ending(), found["samples"]);
    Ok((seen, (!is_right).then_some(wrong)))
}
