//! The kernel: version, preemption, clock, command line.

use std::io::{BufRead, BufReader, Read};

use serde::{Deserialize, Serialize};

use super::super::kernel_configuration::KernelConfiguration;
use super::super::root::Root;

/// The running kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFacts {
    /// The output of `uname -r`.
    pub release: Option<String>,
    /// The output of `uname -v`: build number, preemption, date.
    pub version: Option<String>,
    /// The output of `uname -m`. If the kernel does not report it (before 6.1), the architecture of
    /// this program.
    pub architecture: Option<String>,
    /// The preemption model; absent if unknown.
    pub preemption: Option<Preemption>,
    /// The command line from the boot loader.
    pub command_line: Option<String>,
    /// The taint bits of Documentation/admin-guide/tainted-kernels.rst; 0 if the kernel is not
    /// tainted.
    pub taint: Option<u64>,
    /// Whether timers have a resolution of ns instead of a tick (`.hres_active` in
    /// /proc/timer_list, which only root can read).
    pub high_resolution_timers: Option<bool>,
    /// The clock source in use.
    pub clocksource: Option<String>,
    /// The available clock sources.
    pub clocksources_available: Vec<String>,
}

/// The preemption model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Preemption {
    /// The preemption model with which the kernel was built.
    pub compiled: CompiledPreemption,
    /// The mode of a kernel with selectable preemption: `none`, `voluntary`, `full` or `lazy`.
    pub mode: Option<String>,
    /// Where `mode` was read.
    pub mode_from: Option<PreemptionSource>,
}

impl Preemption {
    /// Returns whether the kernel preempts its own code, if known.
    #[must_use]
    pub fn is_full(&self) -> Option<bool> {
        match (self.compiled, self.mode.as_deref()) {
            (
                CompiledPreemption::RealTime | CompiledPreemption::Full | CompiledPreemption::Lazy,
                _,
            )
            | (_, Some("full" | "lazy")) => Some(true),
            (CompiledPreemption::VoluntaryOrNone, _) | (_, Some("none" | "voluntary")) => {
                Some(false)
            }
            _ => None,
        }
    }
}

/// The preemption model with which a kernel was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompiledPreemption {
    /// PREEMPT_RT.
    RealTime,
    /// PREEMPT_DYNAMIC: selected at boot, or in debugfs.
    Dynamic,
    /// PREEMPT.
    Full,
    /// PREEMPT_LAZY.
    Lazy,
    /// The kernel's version names no model, so the model is voluntary or none.
    VoluntaryOrNone,
    /// A model that this version of tardy does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Where the mode of a dynamic kernel was read; the best source comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptionSource {
    /// `sched/preempt` in debugfs: the current mode.
    Debugfs,
    /// `preempt=` on the command line: the mode at boot.
    CommandLine,
    /// The kernel's build configuration: the mode at boot without `preempt=`.
    BuildConfiguration,
    /// A source that this version of tardy does not know.
    #[serde(other)]
    Unknown,
}

impl KernelFacts {
    pub(super) fn read(root: &Root) -> Self {
        const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";
        let release = root.text("proc/sys/kernel/osrelease");
        let version = root.text("proc/sys/kernel/version");
        let command_line = root.text("proc/cmdline");
        let available = root
            .text(format!("{CLOCKSOURCE}/available_clocksource"))
            .unwrap_or_default();
        Self {
            preemption: Preemption::read(
                root,
                release.as_deref(),
                version.as_deref(),
                command_line.as_deref(),
            ),
            architecture: root
                .text("proc/sys/kernel/arch")
                .or_else(|| Some(std::env::consts::ARCH.to_owned())),
            taint: root.number("proc/sys/kernel/tainted"),
            high_resolution_timers: high_resolution_timers(root),
            clocksource: root.text(format!("{CLOCKSOURCE}/current_clocksource")),
            clocksources_available: available.split_whitespace().map(str::to_owned).collect(),
            release,
            version,
            command_line,
        }
    }
}

impl Preemption {
    fn read(
        root: &Root,
        release: Option<&str>,
        version: Option<&str>,
        command_line: Option<&str>,
    ) -> Option<Self> {
        let compiled = match (root.number::<u32>("sys/kernel/realtime"), version) {
            (Some(1), _) => CompiledPreemption::RealTime,
            (_, Some(version)) => compiled(version),
            (_, None) => return None,
        };
        // The mode of a kernel with PREEMPT_RT may also be selectable, between full and lazy.
        let chooses = matches!(
            compiled,
            CompiledPreemption::Dynamic | CompiledPreemption::RealTime
        );
        let now = root
            .text("sys/kernel/debug/sched/preempt")
            .and_then(|modes| mode_in_parentheses(&modes));
        let from_debugfs = now.map(|mode| (mode, PreemptionSource::Debugfs));
        let from_start = || {
            let parameter = command_line?
                .split_whitespace()
                .filter_map(|word| word.strip_prefix("preempt="))
                .next_back()?;
            Some((parameter.to_owned(), PreemptionSource::CommandLine))
        };
        let from_build = || {
            Some((
                mode_of_build(root, release?)?,
                PreemptionSource::BuildConfiguration,
            ))
        };
        let found = from_debugfs.or_else(|| {
            if chooses {
                from_start().or_else(from_build)
            } else {
                None
            }
        });
        let (mode, mode_from) = found.unzip();
        Some(Self {
            compiled,
            mode,
            mode_from,
        })
    }
}

/// Returns the preemption model that is part of the version. init/Makefile writes it; older kernels
/// with the PREEMPT_RT patch, such as 4.19, wrote `PREEMPT RT`.
fn compiled(version: &str) -> CompiledPreemption {
    let mut words = version
        .split_whitespace()
        .skip_while(|word| !word.starts_with("PREEMPT"));
    match (words.next(), words.next()) {
        (Some("PREEMPT_RT"), _) | (Some("PREEMPT"), Some("RT")) => CompiledPreemption::RealTime,
        (Some("PREEMPT_DYNAMIC"), _) => CompiledPreemption::Dynamic,
        (Some("PREEMPT_LAZY"), _) => CompiledPreemption::Lazy,
        (Some("PREEMPT"), _) => CompiledPreemption::Full,
        (Some(_), _) => CompiledPreemption::Unknown,
        (None, _) => CompiledPreemption::VoluntaryOrNone,
    }
}

/// Returns the mode that is in parentheses: `full` for `none voluntary (full)`.
fn mode_in_parentheses(modes: &str) -> Option<String> {
    Some(modes.split_once('(')?.1.split_once(')')?.0.to_owned())
}

/// Returns the default mode from the build configuration (kernel/Kconfig.preempt).
fn mode_of_build(root: &Root, release: &str) -> Option<String> {
    let configuration = KernelConfiguration::read(root, Some(release))?;
    let modes = [
        ("PREEMPT_LAZY", "lazy"),
        ("PREEMPT", "full"),
        ("PREEMPT_VOLUNTARY", "voluntary"),
        ("PREEMPT_NONE", "none"),
    ];
    modes
        .iter()
        .find(|(option, _)| configuration.is_built_in(option))
        .map(|(_, mode)| (*mode).to_owned())
}

/// Returns whether timers have a high resolution, according to /proc/timer_list. The file lists
/// every timer, but only its beginning is read: the line of the first CPU is there.
fn high_resolution_timers(root: &Root) -> Option<bool> {
    const BYTES_MAX: u64 = 4 << 20;
    let file = BufReader::new(root.open("proc/timer_list").ok()?.take(BYTES_MAX));
    let line = file
        .lines()
        .map_while(Result::ok)
        .find(|line| line.trim_start().starts_with(".hres_active"))?;
    match line.split_once(':')?.1.trim() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fake_root::FakeRoot;
    use super::*;

    fn preemption(fake: FakeRoot) -> Option<Preemption> {
        KernelFacts::read(&fake.root()).preemption
    }

    fn version(text: &str) -> FakeRoot {
        FakeRoot::new()
            .with("proc/sys/kernel/version", text)
            .with("proc/sys/kernel/osrelease", "6.1.0-amd64\n")
    }

    #[test]
    fn the_version_tells_how_the_kernel_was_built() {
        for (text, expected) in [
            (
                "#1 SMP PREEMPT_RT Debian 6.1.76-1\n",
                CompiledPreemption::RealTime,
            ),
            ("#1 SMP PREEMPT RT Mon\n", CompiledPreemption::RealTime),
            (
                "#1 SMP PREEMPT_DYNAMIC Debian\n",
                CompiledPreemption::Dynamic,
            ),
            ("#1 SMP PREEMPT Mon\n", CompiledPreemption::Full),
            ("#1 SMP PREEMPT_LAZY Mon\n", CompiledPreemption::Lazy),
            ("#1 SMP Debian\n", CompiledPreemption::VoluntaryOrNone),
            ("#1 SMP PREEMPT_ODD\n", CompiledPreemption::Unknown),
        ] {
            assert_eq!(
                preemption(version(text)).unwrap().compiled,
                expected,
                "{text}"
            );
        }
        assert_eq!(preemption(FakeRoot::new()), None);
        assert_eq!(
            preemption(version("#1 SMP").with("sys/kernel/realtime", "1\n"))
                .unwrap()
                .compiled,
            CompiledPreemption::RealTime
        );
    }

    #[test]
    fn the_mode_of_a_dynamic_kernel_comes_from_the_best_source_there_is() {
        let mode = |fake| preemption(fake).and_then(|found| Some((found.mode?, found.mode_from?)));
        let dynamic = || version("#1 SMP PREEMPT_DYNAMIC Debian\n");
        let configured = || {
            dynamic().with(
                "boot/config-6.1.0-amd64",
                "# CONFIG_PREEMPT is not \
                 set\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y\n",
            )
        };
        let started = || configured().with("proc/cmdline", "quiet preempt=none preempt=full\n");
        assert_eq!(mode(dynamic()), None);
        assert_eq!(
            mode(configured()),
            Some(("voluntary".into(), PreemptionSource::BuildConfiguration))
        );
        assert_eq!(
            mode(started()),
            Some(("full".into(), PreemptionSource::CommandLine))
        );
        let now = started().with(
            "sys/kernel/debug/sched/preempt",
            "none voluntary full (lazy)\n",
        );
        assert_eq!(mode(now), Some(("lazy".into(), PreemptionSource::Debugfs)));
        let cannot_choose = version("#1 SMP\n").with("proc/cmdline", "preempt=full\n");
        assert_eq!(mode(cannot_choose), None);
    }

    #[test]
    fn timers_work_to_the_nanosecond_only_where_the_list_says_so() {
        let timers = |list: &str| {
            KernelFacts::read(&FakeRoot::new().with("proc/timer_list", list).root())
                .high_resolution_timers
        };
        assert_eq!(
            timers("cpu: 0\n  .resolution: 1 nsecs\n  .hres_active    : 1\n"),
            Some(true)
        );
        assert_eq!(timers("cpu: 0\n  .hres_active    : 0\n"), Some(false));
        assert_eq!(timers("cpu: 0\n"), None);
        assert_eq!(timers(""), None);
    }
}
