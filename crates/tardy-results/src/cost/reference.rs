//! Published costs, which reports show beside measured ones.
//!
//! They come from other machines, so their values cannot be compared with ours. Only two things can
//! be compared: whether a real-time kernel costs more or less, and by what ratio.

use serde::Serialize;
use tardy_papers::published::{self, Table};

/// Pairs of a metric of this tool and the row in the appendix of koolwal2009 that corresponds to
/// it.
const KOOLWAL_METRICS: &[(&str, &str)] = &[
    ("null-call", "null call"),
    ("null-io", "null I/O"),
    ("stat", "stat"),
    ("open-close", "open close"),
    ("select-tcp", "select TCP"),
    ("signal-install", "signal install"),
    ("signal-handle", "signal handle"),
    ("pipe-latency", "pipe latency"),
    ("unix-latency", "AF_UNIX latency"),
    ("udp-latency", "UDP latency"),
    ("tcp-latency", "TCP latency"),
    ("tcp-connect", "TCP connection"),
    ("pipe-bandwidth", "pipe bandwidth"),
    ("unix-bandwidth", "AF_UNIX bandwidth"),
    ("tcp-bandwidth", "TCP bandwidth"),
    ("file-reread", "file reread"),
    ("mmap-reread", "mmap reread"),
    ("bcopy-libc", "bcopy libc"),
    ("bcopy-own", "bcopy hand"),
    ("memory-read", "memory read"),
    ("memory-write", "memory write"),
    ("select-files", "100fd select"),
    ("fork", "fork"),
    ("fork-exec", "exec"),
    ("fork-sh", "sh"),
    ("mmap", "mmap"),
    ("page-fault", "page fault"),
];

/// A publication that contains costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// Results of LMbench on a 500 MHz AMD Geode LX, for three kernels of 2009.
    Koolwal2009,
    /// Times of kernel builds on two kernels, in 2008 and 2009.
    Mckenney2009,
}

impl Reference {
    pub const ALL: [Self; 2] = [Self::Koolwal2009, Self::Mckenney2009];

    /// Returns the publication's name, as used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Koolwal2009 => "koolwal2009",
            Self::Mckenney2009 => "mckenney2009",
        }
    }
}

/// Published numbers for metrics that this tool also measures, as a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedTable {
    /// The publication, with caveats that readers of the numbers must know.
    pub source: String,
    pub columns: Vec<String>,
    pub rows: Vec<PublishedRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedRow {
    /// The corresponding metric of this tool.
    pub metric: String,
    /// Unit of the numbers: `us`, `MB/s`, or `s`.
    pub unit: String,
    /// One number for each column.
    pub values: Vec<f64>,
}

/// Returns the rows of a publication.
#[must_use]
pub fn published(reference: Reference) -> PublishedTable {
    match reference {
        Reference::Koolwal2009 => koolwal2009(),
        Reference::Mckenney2009 => mckenney2009_published(),
    }
}

fn koolwal2009() -> PublishedTable {
    let (table, cut) = (
        table("koolwal2009_lmbench"),
        table("koolwal2009_lmbench_cut"),
    );
    let row = |cells: &Vec<&str>| {
        let metric = KOOLWAL_METRICS
            .iter()
            .find(|(_, published)| cells.first() == Some(published))?
            .0;
        let values = cells
            .get(2..)?
            .iter()
            .map(|cell| cell.parse().ok())
            .collect::<Option<Vec<f64>>>()?;
        Some(PublishedRow {
            metric: metric.to_owned(),
            unit: (*cells.get(1)?).to_owned(),
            values,
        })
    };
    PublishedTable {
        source: format!(
            "{}; in the scan, digits of the rows fork, exec, sh, mmap and select (of files) are \
             missing",
            table.source()
        ),
        columns: table
            .head()
            .iter()
            .skip(2)
            .map(|column| (*column).to_owned())
            .collect(),
        rows: table
            .rows()
            .iter()
            .chain(&cut.rows())
            .filter_map(row)
            .collect(),
    }
}

/// A row of mckenney2009's tables 5 and 6: times of kernel builds in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Build {
    /// Year of the experiment.
    pub year: u32,
    /// `real-fast` or `real-time`.
    pub kernel: String,
    /// `real`, `user` or `sys`.
    pub time: String,
    pub trials: Vec<f64>,
    /// Average as printed in the paper.
    pub average: f64,
    /// Standard deviation as printed in the paper.
    pub standard_deviation: f64,
}

/// Returns all rows of both tables.
#[must_use]
pub fn mckenney2009_builds() -> Vec<Build> {
    let row = |cells: &Vec<&str>| {
        let number = |index: usize| cells.get(index)?.parse::<f64>().ok();
        Some(Build {
            year: cells.first()?.parse().ok()?,
            kernel: (*cells.get(1)?).to_owned(),
            time: (*cells.get(2)?).to_owned(),
            trials: vec![number(3)?, number(4)?, number(5)?],
            average: number(6)?,
            standard_deviation: number(7)?,
        })
    };
    table("mckenney2009_build")
        .rows()
        .iter()
        .filter_map(row)
        .collect()
}

fn mckenney2009_published() -> PublishedTable {
    let builds = mckenney2009_builds();
    let columns = [
        (2008, "real-fast"),
        (2008, "real-time"),
        (2009, "real-fast"),
        (2009, "real-time"),
    ];
    let value = |time: &str, (year, kernel): (u32, &str)| {
        let found = builds
            .iter()
            .find(|build| build.time == time && build.year == year && build.kernel == kernel);
        found.map_or(f64::NAN, |build| build.average)
    };
    let row = |time: &&str| PublishedRow {
        metric: (*time).to_owned(),
        unit: "s".to_owned(),
        values: columns.iter().map(|column| value(time, *column)).collect(),
    };
    PublishedTable {
        source: table("mckenney2009_build").source().to_owned(),
        columns: columns
            .iter()
            .map(|(year, kernel)| format!("{kernel} {year}"))
            .collect(),
        rows: ["real", "user", "sys"].iter().map(row).collect(),
    }
}

/// Returns the percentage by which `slow` takes longer than `fast`. The paper calls it "throughput
/// advantage of real fast".
#[must_use]
pub fn advantage_percent(fast: f64, slow: f64) -> f64 {
    (slow / fast - 1.0) * 100.0
}

fn table(name: &str) -> &'static Table {
    published::find(name).expect("the tables named here are part of the binary")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_row_belongs_to_a_metric() {
        let published = koolwal2009();
        let rows =
            ["koolwal2009_lmbench", "koolwal2009_lmbench_cut"].map(|name| table(name).rows().len());
        assert_eq!(published.rows.len(), rows[0] + rows[1]);
        assert_eq!(
            published.columns,
            ["2.6.26-default", "2.6.26-preempt", "2.6.26-rt1"]
        );
        for row in &published.rows {
            assert_eq!(row.values.len(), 3);
        }
    }

    #[test]
    fn published_advantages_follow_from_the_published_averages() {
        let builds = mckenney2009_builds();
        assert_eq!(builds.len(), 12);
        let average = |year: u32, kernel: &str, time: &str| {
            builds
                .iter()
                .find(|build| (build.year, &*build.kernel, &*build.time) == (year, kernel, time))
                .unwrap()
                .average
        };
        let advantage = table("mckenney2009_advantage");
        let rows = advantage.rows();
        assert_eq!(advantage.head(), ["time", "2008", "2009"]);
        for cells in rows {
            for (year, printed) in [(2008, cells[1]), (2009, cells[2])] {
                let advantage = advantage_percent(
                    average(year, "real-fast", cells[0]),
                    average(year, "real-time", cells[0]),
                );
                assert_eq!(format!("{advantage:.1}"), printed, "{} of {year}", cells[0]);
            }
        }
    }

    /// Some cells differ in their last digit, because the paper computed them from unrounded
    /// trials.
    #[test]
    fn published_averages_and_deviations_follow_from_the_published_trials() {
        let mut rounded = Vec::new();
        for build in mckenney2009_builds() {
            let average = build.trials.iter().sum::<f64>() / 3.0;
            let deviation = (build
                .trials
                .iter()
                .map(|trial| (trial - average).powi(2))
                .sum::<f64>()
                / 3.0)
                .sqrt();
            for (what, computed, printed) in [
                ("average", average, build.average),
                ("deviation", deviation, build.standard_deviation),
            ] {
                assert!(
                    (computed - printed).abs() < 0.1 + 1e-9,
                    "{what} of {build:?}: {computed}"
                );
                if format!("{computed:.1}") != format!("{printed:.1}") {
                    rounded.push(format!(
                        "{} {} {} {what}: {computed:.2} printed {printed}",
                        build.year, build.kernel, build.time
                    ));
                }
            }
        }
        let known = [
            "2008 real-fast real average: 1332.53 printed 1332.6",
            "2008 real-fast real deviation: 14.66 printed 14.6",
            "2008 real-fast user average: 3012.13 printed 3012.2",
            "2008 real-time user average: 2964.77 printed 2964.7",
        ];
        assert_eq!(rounded, known);
    }
}
