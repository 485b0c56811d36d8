//! A machine of 64 CPUs, emulated: whether all of them are measured, and every due time is
//! accounted for.

use std::time::Instant;

use serde_json::Value;
use tardy_core::units::Nanos;
use tardy_lab::architecture::Architecture;
use tardy_lab::cache::Cache;
use tardy_lab::guest_job::Ending;
use tardy_lab::kernel;
use tardy_lab::several_cpus::{self, Equipment, Guest};

use super::holds;
use crate::failure::{Failure, Result, While};
use crate::figure::{Bench, Figure, FigureResult, row};
use crate::program;

pub(crate) const FIGURE: Figure = Figure {
    name: "lab-64-cpus",
    promise: "Every probe measures each of 64 emulated CPUs, and every due time is accounted for",
    measure,
};

const KERNEL: &str = "debian:6.1";
const CPUS: u32 = 64;
const QUICK_CPUS: u32 = 8;
/// Name of the probe, and how many series it has a CPU.
const PROBES: [(&str, usize); 4] = [("cyclic", 1), ("timerfd", 1), ("futex", 2), ("work", 2)];
const COUNTS: [&str; 4] = ["expected", "recorded", "skipped", "lost"];

fn measure(bench: &Bench) -> Result<FigureResult> {
    let cpus = if bench.is_quick { QUICK_CPUS } else { CPUS };
    let cache = Cache::of_user().while_doing(|| "looking for the lab's cache".to_owned())?;
    let source = KERNEL.parse().while_doing(|| format!("reading {KERNEL}"))?;
    let kernel = kernel::resolve(&source, Architecture::Amd64, &cache, false)
        .while_doing(|| format!("fetching {KERNEL}"))?;
    let probes = PROBES.iter().flat_map(|(name, _)| ["--probe", name]);
    let arguments: Vec<&str> = ["run", "--for", "20s", "--load", "none", "--period", "500ms"]
        .into_iter()
        .chain(probes)
        .chain(["--quiet", "--out", "/run/out"])
        .collect();
    let guest = Guest {
        cpus,
        memory_mib: 4096,
        kernel: &kernel.image,
        words: "",
        tardy: &bench.tardy,
        time_limit: Nanos::from_secs(900),
        equipment: Equipment::default(),
    };
    let started = Instant::now();
    let left = several_cpus::run(guest, &arguments)
        .while_doing(|| format!("running a guest of {cpus} CPUs"))?;
    let seconds = started.elapsed().as_secs_f64();
    if !matches!(left.report.ending, Ending::Exited(0 | 4)) {
        return Err(Failure::new(format!(
            "the tool in the guest: {:?}: {}",
            left.report.ending,
            left.text("stderr.log")
        )));
    }
    let record: Value = serde_json::from_str(&left.text("out/run.json"))
        .while_doing(|| "reading run.json".to_owned())?;
    let series = record["series"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut table = vec![row([
        "probe",
        "series",
        "expected",
        "recorded",
        "skipped",
        "lost",
        "accounted for",
    ])];
    let mut is_held = true;
    for (probe, series_a_cpu) in PROBES {
        let of_probe: Vec<&Value> = series
            .iter()
            .filter(|one| {
                one["probe"]
                    .as_str()
                    .is_some_and(|name| name.split('.').next() == Some(probe))
            })
            .collect();
        let count =
            |one: &Value, name: &str| one["counts"][name].as_u64().unwrap_or(u64::MAX / 1_000_000);
        let is_whole = |one: &&Value| {
            count(one, "expected")
                == count(one, "recorded") + count(one, "skipped") + count(one, "lost")
        };
        let is_accounted =
            of_probe.iter().all(is_whole) && of_probe.len() == series_a_cpu * cpus as usize;
        is_held &= is_accounted;
        let sum = |name: &str| {
            of_probe
                .iter()
                .map(|one| count(one, name))
                .sum::<u64>()
                .to_string()
        };
        let [expected, recorded, skipped, lost] = COUNTS.map(sum);
        let accounted = if is_accounted { "yes" } else { "NO" };
        table.push(vec![
            probe.to_owned(),
            of_probe.len().to_string(),
            expected,
            recorded,
            skipped,
            lost,
            accounted.to_owned(),
        ]);
    }
    let qemu = program::capture(std::process::Command::new("qemu-system-x86_64").arg("--version"))
        .unwrap_or_default();
    Ok(FigureResult {
        reached: format!(
            "{} series on {cpus} CPUs: {}; {seconds:.0} s with the boot",
            series.len(),
            holds(is_held)
        ),
        commands: vec![format!("tardy {}", arguments.join(" "))],
        tables: vec![table],
        notes: vec![
            "The guest's CPUs take turns on those of the host, by the host's clock: its latencies \
             mean nothing, and skipped periods come from the emulation."
                .to_owned(),
            format!(
                "Kernel: {}. {}.",
                kernel.package.as_deref().unwrap_or(KERNEL),
                qemu.lines().next().unwrap_or("QEMU of unknown version")
            ),
        ],
    })
}
