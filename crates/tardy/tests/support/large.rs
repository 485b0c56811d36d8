//! Writes the files of a machine with many CPUs: there is a gap in the CPU numbers, two CPUs are
//! offline, a quarter of the CPUs are slower, each core has two CPUs, and there are four nodes.

use std::fs;
use std::path::{Path, PathBuf};

use tardy_core::cpu::{CpuId, CpuList};

/// Device interrupts of a machine of any size.
const INTERRUPTS: u32 = 64;
/// Kernel threads of each CPU.
const THREADS: [&str; 4] = ["ksoftirqd", "migration", "cpuhp", "rcuc"];

/// A machine whose files are below a folder.
pub(crate) struct LargeMachine {
    folder: PathBuf,
    /// All CPUs; for 256 CPUs, `0-127,256-383`.
    pub(crate) present: Vec<u32>,
    pub(crate) online: Vec<u32>,
}

impl LargeMachine {
    /// Writes the files of a machine with `cpus` CPUs, a multiple of 8.
    pub(crate) fn write(folder: &Path, cpus: u32) -> Self {
        let half = cpus / 2;
        let present: Vec<u32> = (0..half).chain(cpus..cpus + half).collect();
        let is_offline = |cpu: u32| cpu == half - 1 || cpu == cpus + half - 1;
        let online = present
            .iter()
            .copied()
            .filter(|&cpu| !is_offline(cpu))
            .collect();
        let machine = Self {
            folder: folder.to_owned(),
            present,
            online,
        };
        machine.kernel();
        machine.tables();
        machine.cpus();
        machine.interrupts();
        machine.threads();
        machine
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    fn kernel(&self) {
        for (name, value) in [
            ("hostname", "big"),
            ("osrelease", "7.3.0"),
            ("arch", "x86_64"),
            ("version", "#1 SMP PREEMPT_DYNAMIC Debian"),
            ("sched_rt_period_us", "1000000"),
            ("sched_rt_runtime_us", "950000"),
        ] {
            self.file(&format!("proc/sys/kernel/{name}"), value);
        }
        self.file("proc/cmdline", "quiet");
        self.file("proc/meminfo", "MemTotal: 1024 kB\nSwapTotal: 2048 kB");
    }

    /// Writes the files that have a line or a column for each online CPU.
    fn tables(&self) {
        let lines = |line: &dyn Fn(u32) -> String| -> String {
            self.online.iter().map(|&cpu| line(cpu)).collect()
        };
        let cpuinfo = |cpu| format!("processor : {cpu}\nvendor_id : GenuineIntel\n\n");
        self.file("proc/cpuinfo", &lines(&cpuinfo));
        let times = lines(&|cpu| format!("cpu{cpu} 1 1 1 1 1 1 1 1 0 0\n"));
        self.file(
            "proc/stat",
            &format!("cpu  1 1 1 1 1 1 1 1 0 0\n{times}intr 5\nctxt 1"),
        );
        let heads = lines(&|cpu| format!(" CPU{cpu}"));
        let counts = lines(&|_| " 1".to_owned());
        let rows: String = (0..INTERRUPTS)
            .map(|number| format!("{number}:{counts}  IR-PCI-MSI {number}-edge nvme0q{number}\n"))
            .collect();
        self.file(
            "proc/interrupts",
            &format!("{heads}\n{rows}LOC:{counts}  Local timer interrupts"),
        );
        self.file(
            "proc/softirqs",
            &format!("{heads}\nTIMER:{counts}\nRCU:{counts}"),
        );
    }

    fn cpus(&self) {
        let folder = "sys/devices/system/cpu";
        let offline: Vec<u32> = self
            .present
            .iter()
            .copied()
            .filter(|cpu| !self.online.contains(cpu))
            .collect();
        for (name, cpus) in [
            ("possible", &self.present),
            ("present", &self.present),
            ("online", &self.online),
            ("offline", &offline),
            ("isolated", &Vec::new()),
            ("nohz_full", &Vec::new()),
        ] {
            self.file(&format!("{folder}/{name}"), &list(cpus));
        }
        self.file(&format!("{folder}/smt/active"), "1");
        for (place, &cpu) in self.present.iter().enumerate() {
            if !self.online.contains(&cpu) {
                continue;
            }
            let below = |path: &str, content: &str| {
                self.file(&format!("{folder}/cpu{cpu}/{path}"), content)
            };
            let core = &self.present[place / 2 * 2..][..2];
            let is_slow = place >= self.present.len() / 4 * 3;
            below("topology/thread_siblings_list", &list(core));
            below(
                "cpufreq/cpuinfo_max_freq",
                if is_slow { "2400000" } else { "4800000" },
            );
            below("cpufreq/scaling_governor", "powersave");
            for (state, (name, latency)) in [("POLL", "0"), ("C1", "2"), ("C6", "133")]
                .iter()
                .enumerate()
            {
                below(&format!("cpuidle/state{state}/name"), name);
                below(&format!("cpuidle/state{state}/latency"), latency);
                below(&format!("cpuidle/state{state}/disable"), "0");
            }
        }
        let quarter = self.present.len() / 4;
        for (node, cpus) in self.present.chunks(quarter).enumerate() {
            self.file(
                &format!("sys/devices/system/node/node{node}/cpulist"),
                &list(cpus),
            );
        }
        self.file(
            "sys/devices/cpu_core/cpus",
            &list(&self.present[..3 * quarter]),
        );
        self.file(
            "sys/devices/cpu_atom/cpus",
            &list(&self.present[3 * quarter..]),
        );
    }

    fn interrupts(&self) {
        for number in 0..INTERRUPTS {
            let folder = format!("proc/irq/{number}");
            let cpu = self.online[number as usize % self.online.len()];
            self.file(&format!("{folder}/smp_affinity_list"), &list(&self.online));
            self.file(
                &format!("{folder}/effective_affinity_list"),
                &cpu.to_string(),
            );
            fs::create_dir_all(self.folder.join(format!("{folder}/nvme0q{number}"))).unwrap();
        }
    }

    fn threads(&self) {
        let zeros = "0 ".repeat(26);
        let all = self
            .online
            .iter()
            .flat_map(|&cpu| THREADS.map(|name| (cpu, name)));
        for (id, (cpu, name)) in (2..).zip(all) {
            let stat =
                format!("{id} ({name}/{cpu}) S 2 0 0 0 -1 69206016 0 0 0 0 {zeros}{cpu} 0 0 0 0 0");
            let status = format!("Name:\t{name}/{cpu}\nCpus_allowed_list:\t{cpu}");
            for folder in [format!("proc/{id}"), format!("proc/{id}/task/{id}")] {
                self.file(&format!("{folder}/comm"), &format!("{name}/{cpu}"));
                self.file(&format!("{folder}/stat"), &stat);
                self.file(&format!("{folder}/status"), &status);
            }
        }
    }

    /// The online CPUs as bytes, as sched_getaffinity(2) writes them.
    pub(crate) fn mask(&self) -> Vec<u8> {
        let bytes = self.present.iter().max().unwrap() / 8 + 1;
        let mut mask = vec![0; bytes.next_multiple_of(8) as usize];
        for &cpu in &self.online {
            mask[cpu as usize / 8] |= 1 << (cpu % 8);
        }
        mask
    }
}

fn list(cpus: &[u32]) -> String {
    cpus.iter()
        .copied()
        .map(CpuId)
        .collect::<CpuList>()
        .to_string()
}
