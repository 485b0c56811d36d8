//! Describes the machine as a text of one or two lines.

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

use super::{CompiledPreemption, MachineFacts, Preemption};

impl MachineFacts {
    /// Returns the host, the kernel and the distribution; then the CPUs, their idle states, the
    /// clock and the memory. Unknown facts are left out.
    #[must_use]
    pub fn two_lines(&self) -> [String; 2] {
        let first = [
            Some(self.one_line()),
            self.distribution.clone(),
            self.machine(),
        ];
        let processors = &self.processors;
        let governors: Vec<&str> = processors.governors.keys().map(String::as_str).collect();
        let second = [
            self.processor_count(),
            set_apart("isolated", processors.isolated.as_ref()),
            set_apart("nohz_full", processors.nohz_full.as_ref()),
            (processors.smt_active == Some(true)).then(|| "SMT on".to_owned()),
            (!governors.is_empty()).then(|| format!("governor {}", governors.join("/"))),
            self.deepest_idle_state(),
            self.kernel
                .clocksource
                .as_ref()
                .map(|clock| format!("clock {clock}")),
            (self.kernel.high_resolution_timers == Some(false))
                .then(|| "no high-resolution timers".to_owned()),
            self.real_time_limit(),
            self.memory
                .total_bytes
                .map(|bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))),
        ];
        [join(first), join(second)]
    }

    /// Returns the host, the kernel's release, the architecture and the preemption.
    #[must_use]
    pub fn one_line(&self) -> String {
        // The kernel reports "(none)" for a machine without a name.
        let named = self.host_name.as_ref().filter(|name| *name != "(none)");
        let host = named.map_or_else(String::new, |name| format!("{name}: "));
        let release = self
            .kernel
            .release
            .as_deref()
            .unwrap_or("of unknown release");
        let architecture = self
            .kernel
            .architecture
            .as_ref()
            .map_or_else(String::new, |name| format!(" {name}"));
        let preemption = self
            .kernel
            .preemption
            .as_ref()
            .map_or_else(String::new, |preemption| format!(" {preemption}"));
        format!("{host}Linux {release}{architecture}{preemption}")
    }

    fn machine(&self) -> Option<String> {
        let is_virtual =
            (self.virtualization.is_virtual() == Some(true)).then_some("virtual machine");
        match (is_virtual, &self.model) {
            (Some(text), Some(model)) => Some(format!("{text} ({model})")),
            (text, model) => text.map(str::to_owned).or_else(|| model.clone()),
        }
    }

    fn processor_count(&self) -> Option<String> {
        let model = self
            .processors
            .model
            .as_ref()
            .map_or_else(String::new, |model| format!(" {model}"));
        self.processors.online.as_ref().map(|online| {
            format!(
                "{} CPU{}{model}",
                online.len(),
                if online.len() == 1 { "" } else { "s" }
            )
        })
    }

    /// Returns the deepest idle state that is enabled on at least one CPU.
    fn deepest_idle_state(&self) -> Option<String> {
        let usable = self
            .processors
            .idle
            .states
            .iter()
            .rfind(|state| !state.cpus.minus(&state.disabled).is_empty())?;
        Some(format!(
            "idle down to {} ({})",
            usable.name, usable.exit_latency
        ))
    }

    fn real_time_limit(&self) -> Option<String> {
        let limit = self.throttling.real_time?;
        if limit.runtime < Nanos::ZERO {
            return Some("real-time unlimited".to_owned());
        }
        Some(format!(
            "real-time {} of {} ms",
            limit.runtime.get() / 1_000_000,
            limit.period.get() / 1_000_000
        ))
    }
}

impl std::fmt::Display for Preemption {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let compiled = match self.compiled {
            CompiledPreemption::RealTime => "PREEMPT_RT",
            CompiledPreemption::Dynamic => "PREEMPT_DYNAMIC",
            CompiledPreemption::Full => "PREEMPT",
            CompiledPreemption::Lazy => "PREEMPT_LAZY",
            CompiledPreemption::VoluntaryOrNone => "no PREEMPT",
            CompiledPreemption::Unknown => "unknown preemption",
        };
        match &self.mode {
            Some(mode) => write!(formatter, "{compiled} ({mode})"),
            None => formatter.write_str(compiled),
        }
    }
}

fn set_apart(name: &str, cpus: Option<&CpuList>) -> Option<String> {
    cpus.filter(|cpus| !cpus.is_empty())
        .map(|cpus| format!("{name} {cpus}"))
}

fn join<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn the_machine_fits_two_lines() {
        let cpu = "sys/devices/system/cpu";
        let mut fake = FakeRoot::new()
            .with("proc/sys/kernel/hostname", "board7\n")
            .with("proc/sys/kernel/osrelease", "6.1.0-rt\n")
            .with("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian\n")
            .with("proc/sys/kernel/arch", "x86_64\n")
            .with("etc/os-release", "PRETTY_NAME=\"Debian 12\"\n")
            .with(
                "proc/cpuinfo",
                "model name : Some CPU\nflags : hypervisor\n",
            )
            .with("sys/class/dmi/id/product_name", "Standard PC\n")
            .with("proc/meminfo", "MemTotal: 4194304 kB\n")
            .with("proc/sys/kernel/sched_rt_period_us", "1000000\n")
            .with("proc/sys/kernel/sched_rt_runtime_us", "950000\n")
            .with(
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc\n",
            )
            .with(&format!("{cpu}/online"), "0-3\n")
            .with(&format!("{cpu}/isolated"), "2-3\n")
            .with(&format!("{cpu}/nohz_full"), "(null)\n")
            .with(
                &format!("{cpu}/cpu0/cpufreq/scaling_governor"),
                "performance\n",
            );
        for (state, name, latency, disabled) in [
            ("state0", "POLL", "0", "0"),
            ("state1", "C1", "2", "0"),
            ("state2", "C6", "133", "1"),
        ] {
            fake = fake
                .with(&format!("{cpu}/cpu0/cpuidle/{state}/name"), name)
                .with(&format!("{cpu}/cpu0/cpuidle/{state}/latency"), latency)
                .with(&format!("{cpu}/cpu0/cpuidle/{state}/disable"), disabled);
        }
        let facts = MachineFacts::read(&fake.root());
        assert_eq!(
            facts.two_lines(),
            [
                "board7: Linux 6.1.0-rt x86_64 PREEMPT_RT, Debian 12, virtual machine (Standard \
                 PC)",
                "4 CPUs Some CPU, isolated 2-3, governor performance, idle down to C1 (2.00 us), \
                 clock tsc, real-time 950 of 1000 ms, 4.0 GiB",
            ]
        );
        assert_eq!(
            MachineFacts::default().two_lines(),
            ["Linux of unknown release", ""]
        );
    }
}
