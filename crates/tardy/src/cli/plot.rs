//! Arguments of `tardy plot` and `tardy report`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use tardy_chart::model::Kind;
use tardy_core::units::Nanos;

use super::{DeadlineArgs, choice, positive_duration};

/// `tardy plot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tardy plot board7 --kind ccdf -o tail.svg
  tardy plot board7 board7-rt --kind timeline -o timeline.png     (a panel per run, same axes)
  tardy plot board7 board7-rt --kind bars -o bars.svg             (a bar per run and load)
  tardy plot board7 --kind hist -o hist.csv                       (the numbers of the chart, in ns \
                        and s)
  tardy plot cost cost-rt --kind bars --probe CPU -o cost.svg   (a bar per run and service)")]
pub struct PlotArgs {
    /// Folders made by `tardy run`, `tardy import` or `tardy cost`, or folders of such folders
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// What to draw
    #[arg(long, value_name = "KIND", value_parser = choice::parser::<Kind>())]
    pub kind: Kind,
    /// File to write; its name ends in .svg, .png, or .csv for the chart's numbers. `-` writes an
    /// SVG to standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Probe to draw, if a run has several (without this option, `bars` draws all of them
    /// together); for cost runs, group of services to draw (`tardy list costs`)
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// Name of a line to draw instead of the default lines, as in the chart's legend or numbers;
    /// repeat the option for several lines
    #[arg(long = "line", value_name = "NAME")]
    pub lines: Vec<String>,
    /// Draw each run in its own panel, even if one chart could hold all runs (cdf, ccdf, hist,
    /// percentiles, running-max)
    #[arg(long)]
    pub panels: bool,
    /// Width and height of each panel in px
    #[arg(long, value_name = "WxH", default_value = "760x440")]
    pub size: Size,
    /// Scale of a .png: image pixels for each px of --size
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0, value_parser = scale)]
    pub scale: f64,
    /// cdf, ccdf: predict the maximum latency of a run of this length, from a model fitted to the
    /// largest samples (the tail)
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive_duration)]
    pub horizon: Nanos,
    #[command(flatten)]
    pub deadline: DeadlineArgs,
}

/// The size of a chart in px.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let px = |text: &str| {
            text.parse::<u32>()
                .ok()
                .filter(|px| (200..=10_000).contains(px))
                .map(f64::from)
        };
        let size = text.split_once('x').and_then(|(width, height)| {
            Some(Self {
                width: px(width)?,
                height: px(height)?,
            })
        });
        size.ok_or_else(|| {
            format!(
                "`{text}` is not a size: write width and height in px from 200 to 10000, as in \
                 760x440"
            )
        })
    }
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text
        .parse::<f64>()
        .ok()
        .filter(|scale| (0.25..=10.0).contains(scale));
    scale.ok_or_else(|| {
        format!("`{text}` is not a factor from 0.25 to 10: write a number such as 2")
    })
}

/// `tardy report`.
#[derive(Debug, Args)]
#[command(
    after_help = "The file is self-contained: it needs neither a network nor other files.
Several runs are compared with the first. The numbers of all runs appear in one table, and the \
                          charts of all runs have the same axes."
)]
pub struct ReportArgs {
    /// Folders made by `tardy run`, `tardy import` or `tardy cost`, or folders of such folders
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// File to write; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub html: PathBuf,
    /// Count the samples below and above these latencies, as in 50us,200us [default: round
    /// latencies from the median to the maximum]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = positive_duration)]
    pub limits: Vec<Nanos>,
    /// Predict the maximum latency of a run of this length, from a model fitted to the largest
    /// samples (the tail)
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = positive_duration)]
    pub horizon: Nanos,
    /// Clock rate of the CPUs in MHz, for OSADL's rule of thumb that the worst latency is about
    /// 10^5 clock cycles [default: as the machine reports]
    #[arg(long, value_name = "MHZ", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub mhz: Option<u32>,
    #[command(flatten)]
    pub deadline: DeadlineArgs,
}
