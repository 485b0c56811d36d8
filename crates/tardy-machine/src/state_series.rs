//! The state of the system during a run. A thread on unmeasured CPUs reads it about once per
//! second.
//!
//! The files stay open, and all of them are read into one buffer. By default, the thread reads no
//! file whose reading is known to interrupt a measured CPU: see [`StateOptions`].

mod kept_file;
mod sample;
mod sensors;

use tardy_core::cpu::{CpuId, CpuList};
use tardy_core::units::Nanos;

pub use self::sample::{CpuState, Pressure, Stall, StateSample};

use self::kept_file::KeptFile;
use super::cgroup::CgroupThrottling;
use super::cpu_time::{StatEntry, entries, tick_length};
use super::per_cpu_table::{columns, rows};
use super::root::Root;

/// Which values the samples include.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateOptions {
    /// The CPUs whose state is in the samples.
    pub cpus: CpuList,
    /// The CPUs whose frequency is read. On x86 before Linux 5.19, reading it may interrupt the CPU
    /// (`aperfmperf_snapshot_cpu` in arch/x86/kernel/cpu/aperfmperf.c), so measured CPUs should be
    /// left out.
    pub frequency_of: CpuList,
    /// Whether to read sensors for which the kernel interrupts a CPU at each reading, such as those
    /// of Intel's CPUs.
    pub disturbing_sensors: bool,
}

/// Reads samples.
#[derive(Debug)]
pub struct StateReader {
    cpus: Vec<CpuId>,
    tick: Nanos,
    pressure: [KeptFile; 4],
    stat: KeptFile,
    interrupts: KeptFile,
    softirqs: KeptFile,
    cgroup_stats: Vec<KeptFile>,
    sensor_names: Vec<String>,
    sensors: Vec<KeptFile>,
    frequencies: Vec<Option<KeptFile>>,
    thermal: Vec<Option<KeptFile>>,
    buffer: Vec<u8>,
}

impl StateReader {
    /// Opens the files. If a file is missing, its value is absent from the samples until somebody
    /// creates the file. Frequencies, thermal counts and control groups are an exception: if their
    /// files do not exist during this call, they are never read.
    #[must_use]
    pub fn open(root: &Root, options: &StateOptions) -> Self {
        let file = |path: String| KeptFile::new(root.path(path));
        let cpus: Vec<CpuId> = options.cpus.iter().collect();
        let sensors = sensors::find(root, !options.disturbing_sensors);
        let frequency = |cpu: &CpuId| {
            let wanted = options.frequency_of.contains(*cpu);
            wanted.then(|| {
                file(format!(
                    "sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"
                ))
            })
        };
        // If the file of a count is missing at the start, it will not appear later, so it is not
        // tried again.
        let thermal = |cpu: &CpuId| {
            Some(file(format!(
                "sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"
            )))
            .filter(KeptFile::is_open)
        };
        Self {
            tick: tick_length(root),
            pressure: ["cpu", "io", "memory", "irq"]
                .map(|resource| file(format!("proc/pressure/{resource}"))),
            stat: file("proc/stat".to_owned()),
            interrupts: file("proc/interrupts".to_owned()),
            softirqs: file("proc/softirqs".to_owned()),
            cgroup_stats: CgroupThrottling::paths(root)
                .into_iter()
                .map(|path| KeptFile::new(root.path(path)))
                .filter(KeptFile::is_open)
                .collect(),
            sensor_names: sensors.iter().map(|sensor| sensor.name.clone()).collect(),
            sensors: sensors
                .into_iter()
                .map(|sensor| KeptFile::new(sensor.path))
                .collect(),
            frequencies: cpus
                .iter()
                .map(frequency)
                .map(|file| file.filter(KeptFile::is_open))
                .collect(),
            thermal: cpus.iter().map(thermal).collect(),
            cpus,
            buffer: vec![0; 64 << 10],
        }
    }

    /// Returns the names of the temperature sensors, in the order of the samples' values.
    #[must_use]
    pub fn sensors(&self) -> &[String] {
        &self.sensor_names
    }

    /// Reads all values into `sample`, whose memory is reused. `now` is the sample's time.
    pub fn read_into(&mut self, now: Nanos, sample: &mut StateSample) {
        sample.at = now;
        sample.cpus.clear();
        sample
            .cpus
            .extend(self.cpus.iter().map(|&cpu| CpuState::unknown(cpu)));
        let [cpu, io, memory, irq] = self
            .pressure
            .each_mut()
            .map(|file| file.read(&mut self.buffer).map(Stall::parse));
        sample.pressure = Pressure {
            cpu,
            io,
            memory,
            irq,
        };
        self.read_stat(sample);
        if let Some(table) = self.interrupts.read(&mut self.buffer) {
            add_columns(table, &mut sample.cpus, |state| &mut state.interrupts);
        }
        if let Some(table) = self.softirqs.read(&mut self.buffer) {
            add_columns(table, &mut sample.cpus, |state| &mut state.softirqs);
        }
        sample.cgroup_throttling = None;
        for file in &mut self.cgroup_stats {
            let Some(one) = file
                .read(&mut self.buffer)
                .and_then(CgroupThrottling::parse)
            else {
                continue;
            };
            let sum = sample.cgroup_throttling.get_or_insert_default();
            sum.throttled += one.throttled;
            sum.throttled_time += one.throttled_time;
        }
        sample.temperatures_millidegrees.clear();
        sample.temperatures_millidegrees.extend(
            self.sensors
                .iter_mut()
                .map(|sensor| sensor.number(&mut self.buffer)),
        );
        for ((state, frequency), thermal) in sample
            .cpus
            .iter_mut()
            .zip(&mut self.frequencies)
            .zip(&mut self.thermal)
        {
            state.frequency_khz = frequency
                .as_mut()
                .and_then(|file| file.number(&mut self.buffer));
            state.thermal_throttles = thermal
                .as_mut()
                .and_then(|file| file.number(&mut self.buffer));
        }
    }

    fn read_stat(&mut self, sample: &mut StateSample) {
        (sample.context_switches, sample.forks) = (None, None);
        let Some(text) = self.stat.read(&mut self.buffer) else {
            return;
        };
        for entry in entries(text, self.tick) {
            match entry {
                StatEntry::ContextSwitches(count) => sample.context_switches = Some(count),
                StatEntry::Forks(count) => sample.forks = Some(count),
                StatEntry::Cpu(cpu, time) => {
                    if let Some(state) = state_of(&mut sample.cpus, cpu) {
                        (state.busy, state.steal) = (Some(time.busy()), time.steal);
                    }
                }
            }
        }
    }
}

fn state_of(states: &mut [CpuState], cpu: CpuId) -> Option<&mut CpuState> {
    states
        .binary_search_by_key(&cpu, |state| state.cpu)
        .ok()
        .map(|at| &mut states[at])
}

/// Adds up the counts in each column of the table, and stores each sum in the state of that
/// column's CPU.
fn add_columns(
    table: &str,
    states: &mut [CpuState],
    field: impl Fn(&mut CpuState) -> &mut Option<u64>,
) {
    for mut row in rows(table).filter(|row| !row.is_machine_wide()) {
        for cpu in columns(table) {
            let Some(count) = row.next_count() else { break };
            if let Some(state) = state_of(states, cpu) {
                *field(state).get_or_insert(0) += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    fn options(cpus: &str) -> StateOptions {
        let cpus: CpuList = cpus.parse().unwrap();
        StateOptions {
            frequency_of: cpus.clone(),
            cpus,
            disturbing_sensors: false,
        }
    }

    fn machine() -> FakeRoot {
        FakeRoot::new()
            .with(
                "proc/stat",
                "cpu 9 9\ncpu0 1 0 1 9 9 0 0 4 0 0\ncpu2 5 0 0 0 0 0 0 0 0 0\nctxt 70\nprocesses \
                 8\n",
            )
            .with(
                "proc/interrupts",
                "  CPU0 CPU2\n 1: 5 7 chip 3 name\nLOC: 10 20 timer\nERR: 99\n",
            )
            .with(
                "proc/softirqs",
                "  CPU0 CPU1 CPU2\n TIMER: 1 2 3\n RCU: 4 5 6\n",
            )
            .with(
                "proc/pressure/cpu",
                "some avg10=0.03 avg60=0.31 avg300=0.54 total=6570788\nfull avg10=0.00 avg60=0.00 \
                 avg300=0.00 total=0\n",
            )
            .with(
                "proc/pressure/irq",
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
            )
            .with(
                "sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq",
                "1200000\n",
            )
            .with("sys/class/thermal/thermal_zone0/type", "soc\n")
            .with("sys/class/thermal/thermal_zone0/temp", "-5000\n")
            .with("proc/self/cgroup", "0::/a\n")
            .with(
                "proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            )
            .with(
                "sys/fs/cgroup/a/cpu.stat",
                "nr_throttled 4\nthrottled_usec 70\n",
            )
    }

    #[test]
    fn a_sample_has_what_the_files_say_and_nothing_for_an_offline_cpu() {
        let fake = machine();
        let mut reader = StateReader::open(&fake.root(), &options("0-2"));
        let mut sample = StateSample::default();
        reader.read_into(Nanos(5), &mut sample);
        assert_eq!(
            (sample.at, sample.context_switches, sample.forks),
            (Nanos(5), Some(70), Some(8))
        );
        let [first, offline, last] = sample.cpus[..] else {
            panic!("{:?}", sample.cpus)
        };
        assert_eq!(
            (first.interrupts, first.softirqs, first.busy, first.steal),
            (
                Some(15),
                Some(5),
                Some(Nanos::from_millis(60)),
                Some(Nanos::from_millis(40))
            )
        );
        assert_eq!(
            (last.interrupts, last.softirqs, last.frequency_khz),
            (Some(27), Some(9), Some(1_200_000))
        );
        assert_eq!(
            offline,
            CpuState {
                softirqs: Some(7),
                ..CpuState::unknown(CpuId(1))
            }
        );
        assert_eq!(
            sample.pressure.cpu,
            Some(Stall {
                some: Some(Nanos(6_570_788_000)),
                full: Some(Nanos::ZERO)
            })
        );
        assert_eq!(
            sample.pressure.irq,
            Some(Stall {
                some: None,
                full: Some(Nanos::from_micros(12))
            })
        );
        assert_eq!(sample.pressure.io, None);
        assert_eq!(
            (reader.sensors(), &sample.temperatures_millidegrees[..]),
            (&["soc 0".to_owned()][..], &[Some(-5000)][..])
        );
        assert_eq!(
            sample.cgroup_throttling,
            Some(CgroupThrottling {
                throttled: 4,
                throttled_time: Nanos::from_micros(70)
            })
        );
        assert_eq!(
            serde_json::from_str::<StateSample>(&serde_json::to_string(&sample).unwrap()).unwrap(),
            sample
        );
    }

    #[test]
    fn the_next_sample_has_the_new_values_and_nothing_left_of_the_old_ones() {
        let fake = machine();
        let mut reader = StateReader::open(&fake.root(), &options("0"));
        let mut sample = StateSample::default();
        reader.read_into(Nanos(1), &mut sample);
        fake.write("proc/stat", "cpu0 1 0");
        fake.write("proc/interrupts", "");
        fake.write("proc/softirqs", "  CPU0\n TIMER: 100\n");
        fake.write("sys/class/thermal/thermal_zone0/temp", "odd\n");
        fake.write("sys/fs/cgroup/a/cpu.stat", "");
        reader.read_into(Nanos(2), &mut sample);
        assert_eq!(
            sample.cpus,
            [CpuState {
                softirqs: Some(100),
                ..CpuState::unknown(CpuId(0))
            }]
        );
        assert_eq!(
            (
                sample.context_switches,
                sample.cgroup_throttling,
                &sample.temperatures_millidegrees[..]
            ),
            (None, None, &[None][..])
        );
    }

    #[test]
    fn a_table_longer_than_the_buffer_is_read_whole() {
        let mut table = "  CPU0\n".to_owned();
        for irq in 0..20_000 {
            table.push_str(&format!(
                "{irq:>9}:          1  some chip {irq} edge a handler\n"
            ));
        }
        let fake = FakeRoot::new().with("proc/interrupts", &table);
        let mut sample = StateSample::default();
        StateReader::open(&fake.root(), &options("0")).read_into(Nanos::ZERO, &mut sample);
        assert_eq!(sample.cpus[0].interrupts, Some(20_000));
    }

    #[test]
    fn an_empty_machine_gives_absent_values_and_a_file_that_comes_later_is_found() {
        let fake = FakeRoot::new();
        let mut reader = StateReader::open(&fake.root(), &options("0-1"));
        let mut sample = StateSample::default();
        reader.read_into(Nanos(3), &mut sample);
        assert_eq!(
            sample,
            StateSample {
                at: Nanos(3),
                cpus: vec![CpuState::unknown(CpuId(0)), CpuState::unknown(CpuId(1))],
                ..StateSample::default()
            }
        );
        fake.write("proc/stat", "ctxt 5\n");
        reader.read_into(Nanos(4), &mut sample);
        assert_eq!(sample.context_switches, Some(5));
    }

    #[test]
    fn counts_of_the_running_machine_do_not_fall() {
        let root = Root::system();
        let cpus = root.online_cpus().unwrap();
        let mut reader = StateReader::open(
            &root,
            &StateOptions {
                cpus,
                ..StateOptions::default()
            },
        );
        let (mut before, mut after) = (StateSample::default(), StateSample::default());
        reader.read_into(Nanos(1), &mut before);
        reader.read_into(Nanos(2), &mut after);
        assert!(after.context_switches.unwrap() >= before.context_switches.unwrap());
        for (before, after) in before.cpus.iter().zip(&after.cpus) {
            assert!(
                after.interrupts.unwrap() >= before.interrupts.unwrap(),
                "{before:?} {after:?}"
            );
            assert!(after.busy.is_some() && after.softirqs.is_some());
        }
    }
}
