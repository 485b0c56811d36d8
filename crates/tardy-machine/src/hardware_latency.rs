//! Finds how long hardware and firmware stop the CPUs. The kernel's hwlat detector measures this:
//! it runs a loop with interrupts off on one CPU after the other, and looks for gaps
//! (Documentation/trace/hwlat_detector.rst). The detector runs in a separate trace instance.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

use super::root::Root;
use super::tracefs::{Tracefs, instance_name};

/// The reason why the detector did not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetectorError {
    #[error("tracefs: {0}")]
    Tracefs(String),
    #[error("the kernel was built without its hardware latency detector (CONFIG_HWLAT_TRACER)")]
    NoTracer,
    #[error("the kernel's hardware latency detector cannot be started: {0}")]
    Start(String),
}

/// What the detector found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardwareLatency {
    /// Duration of the test. The kernel runs the loop for a part of each second, half of it by
    /// default.
    pub span: Nanos,
    /// Number of gaps above the kernel's threshold, 10 us by default.
    pub gaps: u64,
    /// Length of the longest gap; zero if there was none.
    pub longest: Nanos,
}

/// Runs the detector on the CPUs of `cpus`, one after the other, for `span` in total. Interrupts
/// are off on a CPU during its test.
///
/// # Errors
/// Returns a [`DetectorError`] if the detector did not run.
pub fn detect(root: &Root, cpus: &CpuList, span: Nanos) -> Result<HardwareLatency, DetectorError> {
    let tracefs = Tracefs::open(root).map_err(|error| DetectorError::Tracefs(error.to_string()))?;
    let tracers = fs::read_to_string(tracefs.path().join("available_tracers"))
        .map_err(|error| DetectorError::Tracefs(error.to_string()))?;
    if !tracers.split_whitespace().any(|tracer| tracer == "hwlat") {
        return Err(DetectorError::NoTracer);
    }
    let instance = Instance {
        name: instance_name(root),
        tracefs,
    };
    instance
        .run(cpus, span)
        .map_err(|error| DetectorError::Start(error.to_string()))
}

/// The detector's trace instance. The instance is removed on drop. If the process was killed, the
/// next start of tardy removes it.
struct Instance {
    tracefs: Tracefs,
    name: String,
}

impl Instance {
    fn run(&self, cpus: &CpuList, span: Nanos) -> io::Result<HardwareLatency> {
        let path = self.tracefs.instance(&self.name);
        fs::create_dir(&path)?;
        fs::write(path.join("tracing_cpumask"), cpus.to_mask())?;
        fs::write(path.join("current_tracer"), "hwlat")?;
        thread::sleep(span.to_std());
        stop(&path);
        Ok(found(&fs::read_to_string(path.join("trace"))?, span))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        stop(&self.tracefs.instance(&self.name));
        let _ = self.tracefs.remove_instance(&self.name);
    }
}

/// Stops the detector. The tracer stays selected, because selecting another one would empty the
/// buffer with the samples.
fn stop(instance: &Path) {
    let _ = fs::write(instance.join("tracing_on"), "0");
}

/// Parses lines of the detector's trace, such as
/// `#1 inner/outer(us): 12/14 ts:1581527483.343962708 count:3`.
fn found(trace: &str, span: Nanos) -> HardwareLatency {
    let micros = |line: &str| {
        let (inner, outer) = line
            .split_once("inner/outer(us):")?
            .1
            .split_whitespace()
            .next()?
            .split_once('/')?;
        Some(inner.parse::<i64>().ok()?.max(outer.parse().ok()?))
    };
    let gaps = trace
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(micros);
    let (count, longest) = gaps.fold((0, 0), |(count, longest), gap| {
        (count + 1, longest.max(gap))
    });
    HardwareLatency {
        span,
        gaps: count,
        longest: Nanos::from_micros(longest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_and_the_longest_side_of_each_is_taken() {
        let text = "# tracer: hwlat\n#\n#                                _-----=> irqs-off\n<...>-1729  \
             [001] d...  678.473449: #1     inner/outer(us):   11/12    ts:1581527483.343962693 \
             count:6\n<...>-1729  [004] d...  689.556542: #2     inner/outer(us):   16/9     \
             ts:1581527494.889008092 count:1\n";
        let found = found(text, Nanos::from_secs(60));
        assert_eq!((found.gaps, found.longest), (2, Nanos::from_micros(16)));
        assert_eq!(
            super::found("# tracer: hwlat\n", Nanos::from_secs(1)).gaps,
            0
        );
    }

    #[test]
    fn a_kernel_without_it_is_told_by_name() {
        let fake = crate::fake_root::FakeRoot::new();
        std::fs::create_dir_all(fake.root().path("sys/kernel/tracing/instances")).unwrap();
        std::fs::write(
            fake.root().path("sys/kernel/tracing/available_tracers"),
            "function nop\n",
        )
        .unwrap();
        let error = detect(&fake.root(), &"0".parse().unwrap(), Nanos::ZERO).unwrap_err();
        assert_eq!(error, DetectorError::NoTracer);
    }
}
