//! Simulated machines as text: each line is a file (`path: content`), with `\n` for line breaks in
//! the content. `@task PROCESS THREAD NAME FLAGS POLICY PRIORITY CPUS` makes the files of a task:
//! its stat, its status, and the name of its process. `@managed PATH` makes a read-only file, like
//! those of managed interrupts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::fake_root::FakeRoot;

/// Makes the machine that these texts describe. Later lines replace earlier ones.
pub(super) fn machine(texts: &[&str]) -> FakeRoot {
    let fake = FakeRoot::new();
    for line in texts
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.trim().is_empty())
    {
        if let Some(task) = line.strip_prefix("@task ") {
            write_task(&fake, task);
        } else if let Some(path) = line.strip_prefix("@managed ") {
            fs::set_permissions(fake.path().join(path), fs::Permissions::from_mode(0o444)).unwrap();
        } else {
            let (path, content) = line
                .split_once(": ")
                .unwrap_or((line.trim_end_matches(':'), ""));
            fake.write(
                path,
                content.replace(r"\n", "\n").replace(r"\t", "\t") + "\n",
            );
        }
    }
    // If no process has requested a maximum latency, a read of four bytes from this file returns
    // this number.
    fake.with("dev/cpu_dma_latency", 2_000_000_000_i32.to_ne_bytes())
}

fn write_task(fake: &FakeRoot, task: &str) {
    let words: Vec<&str> = task.split_whitespace().collect();
    let [process, thread, name, flags, policy, priority, cpus] = words[..] else {
        panic!("{task}")
    };
    let zeros = "0 ".repeat(26);
    let folder = format!("proc/{process}/task/{thread}");
    fake.write(
        &format!("{folder}/stat"),
        format!("{thread} ({name}) S 1 0 0 0 -1 {flags} 5 0 0 {zeros}1 {priority} {policy} 0 0\n"),
    );
    fake.write(
        &format!("{folder}/status"),
        format!("Name:\t{name}\nCpus_allowed_list:\t{cpus}\n"),
    );
    fake.write(&format!("proc/{process}/comm"), format!("{name}\n"));
}

/// Lines common to all machines: four CPUs in one package, work on CPUs 2 and 3, control groups of
/// version 2.
const COMMON: &str = r#"
sys/devices/system/cpu/online: 0-3
sys/devices/system/cpu/offline:
proc/self/cgroup: 0::/
proc/self/mountinfo: 30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
sys/fs/cgroup/cgroup.controllers: cpu cpuset
proc/sys/kernel/sched_rt_period_us: 1000000
proc/irq/9/smp_affinity_list: 0-1
proc/irq/9/disk/keep:
proc/interrupts:       CPU0 CPU1 CPU2 CPU3\n 9: 5 5 5 5 chip disk
proc/stat: cpu  0 0 0 0 0 0 0 0 0 0
sys/devices/system/cpu/cpu0/topology/physical_package_id: 0
sys/devices/system/cpu/cpu2/topology/physical_package_id: 0
sys/devices/system/cpu/cpu3/topology/physical_package_id: 0
"#;

/// A fully tuned machine with Intel's CPUs, with real-time work in process 700.
pub(super) const TUNED: &str = r#"
proc/sys/kernel/osrelease: 6.1.0-rt
proc/sys/kernel/version: #1 SMP PREEMPT_RT Debian
proc/cmdline: isolcpus=managed_irq,domain,2-3 rcu_nocbs=2-3 skew_tick=1 quiet efi=noruntime nohz=off
proc/timer_list: .hres_active    : 1\nTick Device: mode:     1\nBroadcast device\nClock Event Device: hpet\ntick_broadcast_mask: 0\nPer CPU device: 0\nClock Event Device: lapic-deadline
proc/cpuinfo: vendor_id : GenuineIntel\nflags : fpu constant_tsc nonstop_tsc cat_l3\nmicrocode : 0x2a
proc/meminfo: MemTotal: 1024 kB\nSwapTotal: 0 kB
proc/uptime: 1000.5 3000.1
proc/mounts: /dev/sda1 / ext4 rw,noatime 0 0\nproc /proc proc rw 0 0
proc/self/limits: Max locked memory  unlimited unlimited bytes\nMax realtime priority 98 98
proc/self/status: Uid:\t70001\t70001\t70001\t70001\nGid:\t70001\t70001\t70001\t70001\nGroups:\t\nCapEff:\t0000000000200002\nCpus_allowed_list:\t0-1
proc/sys/kernel/sched_rt_runtime_us: -1
proc/irq/9/effective_affinity_list: 0
proc/irq/default_smp_affinity: 3
boot/config-6.1.0-rt: CONFIG_PREEMPT_RT=y\n# CONFIG_PROVE_LOCKING is not set\nCONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y\nCONFIG_CPU_IDLE=y\nCONFIG_TRACING=y\nCONFIG_X86=y\nCONFIG_PARAVIRT_TIME_ACCOUNTING=y\n# CONFIG_DRM is not set
sys/class/drm/version: drm
sys/devices/virtual/workqueue/cpumask: 3
sys/devices/virtual/workqueue/writeback/cpumask: 3
sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count: 0
proc/sys/kernel/timer_migration: 0
proc/sys/kernel/watchdog: 0
proc/sys/kernel/nmi_watchdog: 0
proc/sys/kernel/hung_task_timeout_secs: 600
proc/sys/kernel/numa_balancing: 0
proc/sys/kernel/tainted: 0
proc/sys/kernel/printk: 4 4 1 7
proc/sys/kernel/sched_util_clamp_min_rt_default: 1024
proc/sys/kernel/bpf_stats_enabled: 0
sys/class/tty/console/active: tty0 ttyS0
proc/sys/vm/stat_interval: 10
proc/sys/vm/compaction_proactiveness: 0
proc/sys/vm/compact_unevictable_allowed: 0
proc/sys/vm/dirty_ratio: 10
proc/sys/vm/dirty_bytes: 0
proc/sys/vm/dirty_background_ratio: 3
proc/sys/net/core/busy_poll: 0
proc/sys/net/core/busy_read: 0
proc/sys/net/ipv4/tcp_timestamps: 0
sys/kernel/mm/ksm/run: 0
sys/kernel/mm/transparent_hugepage/enabled: always madvise [never]
sys/kernel/mm/transparent_hugepage/defrag: always defer [never]
sys/kernel/slab/dentry/cpu_partial: 0
sys/kernel/tracing/current_tracer: nop
sys/kernel/tracing/events/enable: 0
sys/kernel/tracing/available_tracers: hwlat function nop
sys/kernel/tracing/rv/enabled_monitors:
sys/kernel/tracing/instances/mine/current_tracer: nop
sys/kernel/tracing/instances/mine/events/enable: 0
sys/kernel/debug/kprobes/list:
sys/kernel/debug/sched/preempt: (full) lazy
sys/kernel/rcu_normal: 1
sys/kernel/rcu_expedited: 0
sys/kernel/security/lockdown: [none] integrity confidentiality
sys/kernel/sched_ext/state: disabled
sys/devices/system/clocksource/clocksource0/current_clocksource: tsc
sys/devices/system/cpu/isolated: 2-3
sys/devices/system/cpu/nohz_full: (null)
sys/devices/system/cpu/smt/active: 0
sys/devices/system/cpu/cpu2/topology/thread_siblings_list: 2
sys/devices/system/cpu/cpu3/topology/thread_siblings_list: 3
sys/devices/system/cpu/cpu2/cpufreq/scaling_governor: performance
sys/devices/system/cpu/cpu2/cpufreq/scaling_min_freq: 2000000
sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq: 2000000
sys/devices/system/cpu/cpu2/cpufreq/energy_performance_preference: performance
sys/devices/system/cpu/intel_pstate/no_turbo: 1
sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/min_freq_khz: 2400000
sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/max_freq_khz: 2400000
sys/devices/system/cpu/cpu2/cpuidle/state0/name: C1
sys/devices/system/cpu/cpu2/cpuidle/state0/latency: 2
sys/devices/system/cpu/cpu2/cpuidle/state0/disable: 0
sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us: 0
sys/devices/system/cpu/vulnerabilities/meltdown: Not affected
sys/devices/system/machinecheck/machinecheck0/check_interval: 0
sys/devices/system/machinecheck/machinecheck0/ignore_ce: 0
sys/devices/system/edac/mc/mc0/mc_name: skx
sys/module/edac_core/parameters/edac_mc_poll_msec: 3600000
sys/module/pcie_aspm/parameters/policy: default [performance] powersave
sys/bus/usb/devices/1-1/power/control: on
sys/bus/pci/devices/0000:00:14.0/class: 0x0c0330
sys/bus/pci/devices/0000:00:14.0/driver: xhci_hcd
sys/class/power_supply/AC/type: Mains
sys/class/power_supply/AC/online: 1
sys/firmware/acpi/platform_profile: performance
sys/firmware/acpi/tables/RTCT:
sys/firmware/acpi/interrupts/gpe_all: 12
sys/firmware/efi/efivars/keep:
sys/devices/virtual/workqueue/efi_runtime/cpumask: 3
sys/class/dmi/id/sys_vendor: Dell Inc.
sys/class/dmi/id/bios_version: 1.2
sys/class/dmi/id/bios_date: 01/02/2024
sys/class/net/eth0/device/uevent: DRIVER=igb
sys/class/net/eth0/queues/rx-0/rps_cpus: 3
sys/class/net/eth0/queues/tx-0/xps_cpus: f
sys/fs/resctrl/schemata: L3:0=ff
sys/fs/resctrl/cpus:
sys/fs/resctrl/work/schemata: L3:0=f0
etc/systemd/system/timers.target.wants/fstrim.timer:
etc/systemd/system.conf: CPUAffinity=0 1
etc/security/limits.conf: # nothing
etc/security/limits.d/realtime.conf: @realtime - rtprio 98
dev/cpu/2/msr: register
@task 800 800 tardy 0 0 0 0-3
@task 800 801 tardy-watchdog 0 1 99 0-3
@task 2 2 kthreadd 2097152 0 0 0-1
@task 14 14 ksoftirqd/2 69206016 0 0 2
@task 15 15 rcuc/2 69206016 1 4 2
@task 61 61 irq/9-disk 69206016 1 50 0
@task 90 90 chronyd 0 0 0 0-1
@task 91 91 rtentsk 0 0 0 0-1
@task 700 700 loop 0 0 0 0-1
@task 700 701 worker 0 1 80 2
proc/700/status: VmLck:\t4096 kB\nVmRSS:\t4096 kB
proc/700/limits: Max realtime timeout  unlimited unlimited us
proc/700/timerslack_ns: 1
proc/701/timerslack_ns: 0
"#;

/// An untuned machine. The real-time program, process 700, has made none of the usual preparations,
/// such as locking its memory.
pub(super) const UNTUNED: &str = r#"
proc/sys/kernel/osrelease: 6.1.0
proc/sys/kernel/version: #1 SMP PREEMPT_DYNAMIC Debian
sys/kernel/debug/sched/preempt: none (voluntary) full
proc/cmdline: isolcpus=domain,3 console=ttyS0
proc/timer_list: .hres_active    : 0\nTick Device: mode:     1\nBroadcast device\nClock Event Device: hpet\ntick_broadcast_mask: f\nPer CPU device: 0\nClock Event Device: lapic
proc/cpuinfo: vendor_id : GenuineIntel\nflags : fpu constant_tsc cat_l3\nmicrocode : 0x2a
proc/meminfo: MemTotal: 1024 kB\nSwapTotal: 2048 kB
proc/uptime: 1000.5 3000.1
proc/mounts: /dev/sda1 / ext4 rw,strictatime 0 0
proc/pressure/cpu: some avg10=0.00
proc/self/limits: Max locked memory  8388608 8388608 bytes\nMax realtime priority 0 0
proc/self/status: Uid:\t70001\t70001\t70001\t70001\nGid:\t70001\t70001\t70001\t70001\nGroups:\t\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-2
sys/fs/cgroup/cpuset.cpus.effective: 0-1
proc/sys/kernel/sched_rt_runtime_us: 950000
proc/irq/9/effective_affinity_list: 2
proc/irq/default_smp_affinity: f
boot/config-6.1.0: CONFIG_PROVE_LOCKING=y\nCONFIG_LOCKUP_DETECTOR=y\nCONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_SCHEDUTIL=y\nCONFIG_CPU_FREQ_GOV_ONDEMAND=m\nCONFIG_NO_HZ_FULL=y\nCONFIG_DRM=m\nCONFIG_RT_GROUP_SCHED=y\nCONFIG_X86=y
sys/class/drm/card0/status: connected
sys/devices/virtual/workqueue/cpumask: f
sys/devices/virtual/workqueue/writeback/cpumask: f
sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count: 4
proc/sys/kernel/timer_migration: 1
proc/sys/kernel/watchdog: 1
proc/sys/kernel/watchdog_cpumask: 0-3
proc/sys/kernel/nmi_watchdog: 1
proc/sys/kernel/hung_task_timeout_secs: 120
proc/sys/kernel/numa_balancing: 1
proc/sys/kernel/tainted: 4097
proc/sys/kernel/printk: 7 4 1 7
proc/sys/kernel/sched_util_clamp_min_rt_default: 0
proc/sys/kernel/bpf_stats_enabled: 1
sys/class/tty/console/active: ttyS0
proc/sys/vm/stat_interval: 1
proc/sys/vm/compaction_proactiveness: 20
proc/sys/vm/compact_unevictable_allowed: 1
proc/sys/vm/dirty_ratio: 20
proc/sys/vm/dirty_bytes: 0
proc/sys/vm/dirty_background_ratio: 10
proc/sys/net/core/busy_poll: 50
proc/sys/net/core/busy_read: 0
proc/sys/net/ipv4/tcp_timestamps: 1
sys/kernel/mm/ksm/run: 1
sys/kernel/mm/transparent_hugepage/enabled: [always] madvise never
sys/kernel/mm/transparent_hugepage/defrag: [always] defer never
sys/kernel/slab/dentry/cpu_partial: 30
sys/kernel/tracing/current_tracer: function
sys/kernel/tracing/events/enable: X
sys/kernel/tracing/available_tracers: function nop
sys/kernel/tracing/rv/enabled_monitors: wwnr
sys/kernel/tracing/instances/mine/current_tracer: nop
sys/kernel/tracing/instances/mine/events/enable: X
sys/kernel/debug/kprobes/list: ffff k do_sys_open+0x0
sys/kernel/rcu_normal: 0
sys/kernel/rcu_expedited: 0
sys/kernel/security/lockdown: none [integrity] confidentiality
sys/kernel/sched_ext/state: enabled
sys/kernel/sched_ext/root/ops: lavd
sys/devices/system/clocksource/clocksource0/current_clocksource: tsc
sys/fs/cgroup/cpu.max: 50000 100000
sys/devices/system/cpu/isolated: 3
sys/devices/system/cpu/nohz_full: 2-3
sys/devices/system/cpu/offline: 4-7
sys/devices/system/cpu/smt/active: 1
sys/devices/system/cpu/cpu2/topology/thread_siblings_list: 0,2
sys/devices/system/cpu/cpu3/topology/thread_siblings_list: 1,3
sys/devices/system/cpu/cpu2/topology/physical_package_id: 1
sys/devices/system/cpu/cpu3/topology/physical_package_id: 1
sys/devices/system/cpu/cpu2/cpufreq/scaling_governor: powersave
sys/devices/system/cpu/cpu2/cpufreq/scaling_min_freq: 800000
sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq: 4000000
sys/devices/system/cpu/cpu2/cpufreq/energy_performance_preference: balance_performance
sys/devices/system/cpu/intel_pstate/no_turbo: 0
sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/min_freq_khz: 800000
sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/max_freq_khz: 2400000
sys/devices/system/cpu/cpu2/cpuidle/state0/name: C6
sys/devices/system/cpu/cpu2/cpuidle/state0/latency: 133
sys/devices/system/cpu/cpu2/cpuidle/state0/disable: 0
sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us: 0
sys/devices/system/cpu/vulnerabilities/meltdown: Mitigation: PTI
sys/devices/system/machinecheck/machinecheck0/check_interval: 300
sys/devices/system/machinecheck/machinecheck0/ignore_ce: 0
sys/devices/system/edac/mc/mc0/mc_name: skx
sys/module/edac_core/parameters/edac_mc_poll_msec: 1000
sys/module/pcie_aspm/parameters/policy: [default] performance powersave
sys/bus/usb/devices/1-1/power/control: auto
sys/bus/pci/devices/0000:00:14.0/class: 0x0c0330
sys/class/power_supply/BAT0/type: Battery
sys/class/power_supply/AC/type: Mains
sys/class/power_supply/AC/online: 0
sys/firmware/acpi/platform_profile: quiet
sys/firmware/acpi/tables/DSDT:
sys/firmware/acpi/interrupts/gpe_all: 900000
sys/firmware/efi/efivars/keep:
sys/devices/virtual/workqueue/efi_runtime/cpumask: f
sys/class/dmi/id/sys_vendor: Dell Inc.
sys/class/dmi/id/bios_version: 1.2
sys/class/net/eth0/device/uevent: DRIVER=igb
sys/class/net/eth0/queues/rx-0/rps_cpus: f
sys/class/net/eth0/queues/rx-1/rps_cpus: f
sys/class/net/eth0/queues/rx-2/rps_cpus: f
sys/class/net/eth0/queues/tx-0/xps_cpus: f
etc/systemd/system/timers.target.wants/fstrim.timer:
etc/systemd/system.conf: #CPUAffinity=
etc/security/limits.conf: # * - rtprio 98
dev/cpu/2/msr: register
proc/irq/11/smp_affinity_list: 2
proc/irq/11/effective_affinity_list: 2
proc/irq/11/nvme0q3/keep:
@managed proc/irq/11/smp_affinity_list
@task 2 2 kthreadd 2097152 0 0 0-3
@task 14 14 ksoftirqd/2 69206016 1 90 2
@task 61 61 irq/9-disk 69206016 1 99 0-3
@task 90 90 chronyd 0 0 0 0-3
@task 91 91 ntpd 0 0 0 0-3
@task 92 92 irqbalance 0 0 0 0-3
@task 93 93 stalld 0 1 10 0-3
@task 94 94 multipathd 0 2 99 0-3
@task 95 95 perf 0 0 0 0-3
@task 700 700 loop 0 0 0 0-3
@task 700 701 worker 0 1 99 0-3
proc/700/status: VmLck:\t0 kB\nVmRSS:\t4096 kB
proc/700/limits: Max realtime timeout  200000 200000 us
proc/700/timerslack_ns: 50000
proc/701/timerslack_ns: 0
"#;

/// Replaces lines of `UNTUNED`: the clock source is bad, and no thread of the program has real-time
/// priority.
pub(super) const BAD_CLOCK: &str = r#"
sys/devices/system/clocksource/clocksource0/current_clocksource: hpet
sys/devices/system/clocksource/clocksource0/available_clocksource: tsc hpet acpi_pm
boot/config-6.1.0: CONFIG_X86=y
proc/irq/10/smp_affinity_list: 0-1
proc/irq/10/effective_affinity_list: 3
proc/irq/10/disk/keep:
@task 700 701 worker 0 0 0 0-3
"#;

/// Replaces lines of `UNTUNED`: a virtual machine whose host does not poll.
pub(super) const GUEST: &str = r#"
proc/cpuinfo: vendor_id : GenuineIntel\nflags : fpu hypervisor
sys/class/dmi/id/sys_vendor: QEMU
sys/devices/system/clocksource/clocksource0/current_clocksource: kvm-clock
sys/devices/system/cpu/cpuidle/current_driver: haltpoll
sys/module/haltpoll/parameters/guest_halt_poll_ns: 0
"#;

/// Replaces lines of `TUNED`: a virtual machine that is fully tuned inside.
pub(super) const TUNED_GUEST: &str = r#"
proc/cpuinfo: vendor_id : GenuineIntel\nflags : fpu hypervisor
sys/class/dmi/id/sys_vendor: QEMU
sys/devices/system/clocksource/clocksource0/current_clocksource: kvm-clock
sys/devices/system/cpu/cpuidle/current_driver: haltpoll
sys/module/haltpoll/parameters/guest_halt_poll_ns: 200000
"#;

/// Replaces lines of `TUNED`: CPUs without a tick, for work that never sleeps, such as DPDK or a
/// virtual machine.
pub(super) const BUSY: &str = r#"
sys/devices/system/cpu/nohz_full: 2-3
boot/config-6.1.0-rt: CONFIG_PREEMPT_RT=y\nCONFIG_NO_HZ_FULL=y\nCONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y\nCONFIG_CPU_IDLE=y\nCONFIG_TRACING=y
sys/module/kvm/parameters/kvmclock_periodic_sync: N
sys/module/kvm/parameters/halt_poll_ns: 0
sys/module/kvm_intel/parameters/ple_gap: 0
"#;

/// Replaces lines of `UNTUNED`: an untuned host of virtual machines.
pub(super) const HOST: &str = r#"
sys/module/kvm/parameters/kvmclock_periodic_sync: Y
sys/module/kvm/parameters/halt_poll_ns: 200000
sys/module/kvm_intel/parameters/ple_gap: 128
sys/devices/system/cpu/nohz_full: (null)
boot/config-6.1.0: CONFIG_NO_HZ_IDLE=y
"#;

/// Replaces lines of `UNTUNED`: Linux 6.12, in which the fair server replaced throttling.
pub(super) const FAIR_SERVER: &str = r#"
proc/sys/kernel/osrelease: 6.12.5
sys/kernel/debug/sched/fair_server/cpu2/runtime: 50000000
sys/kernel/debug/sched/fair_server/cpu2/period: 1000000000
"#;

/// Replaces lines of `UNTUNED`: Linux 7.3 with three BPF schedulers, one below the other.
pub(super) const CURRENT_KERNEL: &str = r#"
proc/sys/kernel/osrelease: 7.3.0
sys/kernel/sched_ext/state: enabled
sys/kernel/sched_ext/root/ops: lavd
sys/kernel/sched_ext/root/sub/sub-77/ops: layered
sys/kernel/sched_ext/root/sub/sub-77/sub/sub-99/ops: flash
sys/kernel/debug/sched/ext_server/cpu2/runtime: 30000000
sys/kernel/debug/sched/ext_server/cpu2/period: 1000000000
sys/kernel/debug/rseq/slice_ext_nsec: 5000
"#;

/// Replaces lines of `CURRENT_KERNEL`: six CPUs, and a program of six threads.
pub(super) const MANY_THREADS: &str = r#"
boot/config-7.3.0: CONFIG_FUTEX_PRIVATE_HASH=y
sys/devices/system/cpu/online: 0-5
@task 700 702 worker 0 0 0 0-5
@task 700 703 worker 0 0 0 0-5
@task 700 704 worker 0 0 0 0-5
@task 700 705 worker 0 0 0 0-5
"#;

/// Replaces lines of `TUNED`: Linux 7.3 with PREEMPT_RT.
pub(super) const CURRENT_REAL_TIME: &str = r#"
proc/sys/kernel/osrelease: 7.3.0-rt
boot/config-7.3.0-rt: CONFIG_PREEMPT_RT=y\nCONFIG_FUTEX_PRIVATE_HASH=y
sys/kernel/debug/rseq/slice_ext_nsec: 5000
"#;

/// Replaces lines of `CURRENT_REAL_TIME`: a kernel with the lock that lets only one softirq run at
/// a time on a CPU.
pub(super) const SOFTIRQ_LOCK: &str = r#"
boot/config-7.3.0-rt: CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y
"#;

/// Replaces lines of `TUNED`: Linux 6.12 with the fair server switched off.
pub(super) const NO_FAIR_SERVER: &str = r#"
proc/sys/kernel/osrelease: 6.12.5-rt
boot/config-6.12.5-rt: CONFIG_PREEMPT_RT=y
sys/kernel/debug/sched/fair_server/cpu2/runtime: 0
sys/kernel/debug/sched/fair_server/cpu2/period: 1000000000
"#;

/// A board with Arm CPUs and a device tree: no ACPI, no EFI, no time-stamp counter, and no
/// registers that count interrupts of the firmware.
pub(super) const BOARD: &str = r#"
proc/sys/kernel/osrelease: 6.6.20-rt
proc/sys/kernel/version: #1 SMP PREEMPT_RT Mon
proc/cmdline: isolcpus=2-3 console=ttyAMA0
proc/cpuinfo: processor : 0\nFeatures : fp asimd\nCPU implementer : 0x41
proc/timer_list: .hres_active    : 1\nPer CPU device: 0\nClock Event Device: arch_sys_timer
proc/device-tree/model: Board 5
proc/device-tree/firmware/optee/compatible: linaro,optee-tz
dev/tee0:
sys/devices/system/cpu/isolated: 2-3
sys/devices/system/clocksource/clocksource0/current_clocksource: arch_sys_counter
sys/devices/system/cpu/cpu2/cpufreq/scaling_governor: performance
proc/sys/kernel/sched_rt_runtime_us: 950000
@task 2 2 kthreadd 2097152 0 0 0-1
"#;

/// A heavily patched kernel of 2016 that lacks most of the files that the checks read.
pub(super) const OLD_KERNEL: &str = r#"
proc/sys/kernel/osrelease: 4.9.0-rt
proc/sys/kernel/version: #1 SMP PREEMPT RT Mon
proc/cmdline: quiet
proc/cpuinfo: vendor_id : AuthenticAMD\nflags : fpu constant_tsc nonstop_tsc
sys/devices/system/clocksource/clocksource0/current_clocksource: tsc
proc/sys/kernel/sched_rt_runtime_us: 950000
proc/sys/kernel/printk: 4 4 1 7
@task 2 2 kthreadd 2097152 0 0 0-3
"#;

/// A distribution's real-time kernel on which nothing else was tuned.
pub(super) const REAL_TIME_KERNEL: &str = r#"
proc/sys/kernel/osrelease: 6.1.0-rt
proc/sys/kernel/version: #1 SMP PREEMPT_RT Debian
sys/kernel/debug/sched/preempt: (full) lazy
boot/config-6.1.0-rt: CONFIG_PREEMPT_RT=y\nCONFIG_LOCKUP_DETECTOR=y\nCONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_SCHEDUTIL=y
"#;

/// Makes a machine from the common lines and from `texts`, whose lines replace common ones.
pub(super) fn with_common(texts: &[&str]) -> FakeRoot {
    let all: Vec<&str> = std::iter::once(COMMON)
        .chain(texts.iter().copied())
        .collect();
    machine(&all)
}
