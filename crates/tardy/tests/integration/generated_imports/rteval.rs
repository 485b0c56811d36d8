//! Generates summary.xml of rteval, as written by `MakeReport` of the modules cyclictest.py and
//! timerlat.py in rteval 3.

use std::fmt::Write as _;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use roxmltree::{Document, Node};

use super::drawn::{File, Thread, cpus, one_in, threads};
use super::reading::{Reading, Row};

/// Appends the elements of one measurement, as `RunData.MakeReport` does. The maximum may lie in no
/// bucket.
fn statistics(text: &mut String, thread: &Thread, buckets: u64, keeps_empty: bool) {
    let rows = thread.values.range(..buckets);
    let samples = thread.within(0, buckets);
    let _ = write!(
        text,
        "        <statistics>\n          <samples>{samples}</samples>\n"
    );
    if samples > 0 {
        let maximum = thread.maximum().unwrap_or(0);
        let minimum = thread.minimum().unwrap_or(0);
        // The tool calculates no mean for a single sample.
        let mean = if samples > 1 {
            let sum: u64 = rows.clone().map(|(value, count)| value * count).sum();
            sum as f64 / samples as f64
        } else {
            0.0
        };
        for (name, value) in [
            ("minimum", minimum.to_string()),
            ("maximum", maximum.to_string()),
            ("median", minimum.to_string()),
            ("mode", minimum.to_string()),
            ("range", (maximum - minimum).to_string()),
            ("mean", format!("{mean:?}")),
            ("mean_absolute_deviation", "2.1".to_owned()),
            ("standard_deviation", "3.3".to_owned()),
        ] {
            let _ = writeln!(text, "          <{name} unit=\"us\">{value}</{name}>");
        }
    }
    text.push_str("        </statistics>\n");
    if samples > 0 || keeps_empty {
        let _ = writeln!(text, "        <histogram nbuckets=\"{buckets}\">");
        for (value, count) in rows {
            let _ = writeln!(
                text,
                "          <bucket index=\"{value}\" value=\"{count}\"/>"
            );
        }
        text.push_str("        </histogram>\n");
    }
}

const HEAD: &str = r#"  <SystemInfo>
    <uname>
      <node>board7</node>
      <kernel is_RT="1">6.12.0-rt</kernel>
      <arch>x86_64</arch>
    </uname>
    <CPUtopology num_cpu_cores="8" num_cpu_cores_online="8" num_cpu_cores_isolated="0" num_cpu_sockets="1"/>
  </SystemInfo>
  <loads load_average="5.50" loads="1" loadcpus="0-1">
    <command_line name="hackbench" run="1">hackbench -P -g 2 -l 1000 -s 1000</command_line>
  </loads>
"#;

pub(super) fn draw(random: &mut Pcg64Mcg) -> File {
    let mut threads = threads(random, false);
    let cpus = cpus(random, threads.len());
    let is_timerlat = one_in(random, 4);
    let buckets = threads
        .iter()
        .filter_map(Thread::maximum)
        .max()
        .unwrap_or(0)
        + 1;
    if one_in(random, 8) {
        threads[0] = Thread::idle();
        if one_in(random, 2) {
            threads[0].values.insert(7, 1);
        }
    }
    // The largest value that the tool reports may lie just beyond its last bucket.
    if !is_timerlat && one_in(random, 4) {
        threads[0].values.insert(buckets, random.random_range(1..3));
    }
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rteval version=\"{}\">\n  <run_info days=\"0\" hours=\"0\" minutes=\"1\" seconds=\"10\">\n    <date>2026-11-20</date>\n    <time>10:00:00</time>\n  </run_info>\n{HEAD}",
        ["3.1", "3.7", "3.11"][random.random_range(0..3)],
    );
    let module = if is_timerlat {
        "timerlat"
    } else {
        "cyclictest"
    };
    let command = if is_timerlat {
        format!(
            "rtla timerlat hist -p100 -P f:95 -u -c0-7 -E{buckets} --no-summary --no-aa --dma-latency=0"
        )
    } else {
        format!("cyclictest -i100 -qmu -h {buckets} -p95 -t8 -a0-7")
    };
    let _ = write!(
        text,
        "  <Measurements measurecpus=\"0-7\">\n    <{module} command_line=\"{command}\">\n"
    );
    if is_timerlat {
        text += "      <stoptrace_invoked invoked=\"\"/>\n";
    } else if one_in(random, 6) {
        // The measured latency is the largest maximum of all threads. If it were larger, the import
        // would have to count it as an additional sample.
        let latency = threads
            .iter()
            .filter_map(Thread::maximum)
            .max()
            .unwrap_or(0);
        let _ = write!(
            text,
            "      <abort_report reason=\"breaktrace\">\n        <breaktrace latency_threshold=\"{}\" measured_latency=\"{latency}\"/>\n      </abort_report>\n",
            latency.saturating_sub(1)
        );
    }
    let mut system = Thread::idle();
    for (&value, &count) in threads.iter().flat_map(|thread| &thread.values) {
        *system.values.entry(value).or_default() += count;
    }
    text += "      <system description=\"(8 cores) A CPU &amp; more\">\n";
    statistics(&mut text, &system, buckets, is_timerlat);
    text += "      </system>\n";
    for (thread, cpu) in threads.iter().zip(&cpus) {
        let _ = writeln!(text, "      <core id=\"{cpu}\" priority=\"95\">");
        statistics(&mut text, thread, buckets, is_timerlat);
        text += "      </core>\n";
    }
    let _ = write!(text, "    </{module}>\n  </Measurements>\n</rteval>\n");
    File {
        text,
        is_nanoseconds: false,
    }
}

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    node.children().find(|child| child.has_tag_name(name))
}

pub(super) fn read(file: &File) -> Vec<Reading> {
    let document = Document::parse(&file.text).unwrap();
    let mut found = Vec::new();
    for core in document
        .descendants()
        .filter(|node| node.has_tag_name("core"))
    {
        let statistics = child(core, "statistics").unwrap();
        let stated = |name: &str| child(statistics, name)?.text()?.parse::<f64>().ok();
        let samples = stated("samples").unwrap() as u64;
        let (Some(minimum), Some(maximum)) = (stated("minimum"), stated("maximum")) else {
            continue;
        };
        let exact = |value: f64| (value as i64 * 1_000, value as i64 * 1_000);
        let rows = child(core, "histogram").unwrap();
        let rows = rows
            .children()
            .filter(|row| row.has_tag_name("bucket"))
            .map(|row| {
                let number = |name: &str| row.attribute(name).unwrap().parse::<i64>().unwrap();
                let low = number("index") * 1_000;
                Row {
                    low,
                    high: low + 999,
                    count: number("value") as u64,
                }
            });
        let mut rows: Vec<Row> = rows.collect();
        // One of the samples is the maximum, even if it lies beyond the buckets.
        if let Some(top) = rows.last_mut()
            && top.high < exact(maximum).0
        {
            top.count -= 1;
            let (low, high) = (top.low, exact(maximum).0 + 999);
            rows.push(Row {
                low,
                high,
                count: 1,
            });
        }
        found.push(Reading {
            probe: match core.parent().unwrap().tag_name().name() {
                "timerlat" => "timerlat",
                _ => "cyclictest",
            },
            cpu: core.attribute("id").unwrap().parse().ok(),
            samples,
            minimum: exact(minimum),
            maximum: exact(maximum),
            // For a single sample, the tool calculates no mean.
            mean: stated("mean")
                .filter(|_| samples > 1)
                .map(|mean| (mean * 1e3, mean * 1e3)),
            rows,
            has_histogram: true,
            period: None,
        });
    }
    found
}
