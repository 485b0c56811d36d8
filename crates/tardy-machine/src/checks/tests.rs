use std::collections::BTreeMap;

use super::super::fake_root::FakeRoot;
use super::*;

const CPU: &str = "sys/devices/system/cpu";

fn two_processors() -> FakeRoot {
    FakeRoot::new()
        .with(&format!("{CPU}/online"), "0-1\n")
        .with("proc/self/cgroup", "0::/\n")
        .with("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        .with("sys/fs/cgroup/cgroup.controllers", "cpu cpuset\n")
        .with("proc/sys/kernel/sched_rt_period_us", "1000000\n")
        .with("proc/1/comm", "init\n")
        .with("proc/irq/9/smp_affinity_list", "0-1\n")
        .with("proc/irq/9/disk/keep", "")
}

/// A machine set up for real time on processor 1.
fn good_machine() -> FakeRoot {
    two_processors()
        .with("proc/sys/kernel/osrelease", "6.1.0-rt\n")
        .with("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian\n")
        .with("proc/cmdline", "isolcpus=managed_irq,domain,1 rcu_nocbs=1\n")
        .with("proc/timer_list", "  .hres_active    : 1\n")
        .with("proc/cpuinfo", "flags : fpu\n")
        .with("proc/meminfo", "MemTotal: 1024 kB\nSwapTotal: 0 kB\n")
        .with("proc/sys/kernel/sched_rt_runtime_us", "-1\n")
        .with("proc/irq/9/effective_affinity_list", "0\n")
        .with("boot/config-6.1.0-rt", "CONFIG_PREEMPT_RT=y\n# CONFIG_PROVE_LOCKING is not set\n")
        .with("sys/devices/virtual/workqueue/cpumask", "1\n")
        .with(&format!("{CPU}/cpu1/thermal_throttle/core_throttle_count"), "0\n")
        .with("proc/sys/kernel/timer_migration", "0\n")
        .with("proc/sys/kernel/watchdog", "0\n")
        .with("proc/sys/kernel/numa_balancing", "0\n")
        .with("proc/sys/vm/stat_interval", "10\n")
        .with("sys/kernel/mm/ksm/run", "0\n")
        .with("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
        .with("sys/kernel/tracing/current_tracer", "nop\n")
        .with("sys/kernel/tracing/events/enable", "0\n")
        .with("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        .with(&format!("{CPU}/isolated"), "1\n")
        .with(&format!("{CPU}/smt/active"), "0\n")
        .with(&format!("{CPU}/cpu1/cpufreq/scaling_governor"), "performance\n")
        .with(&format!("{CPU}/cpu1/cpuidle/state0/name"), "C1\n")
        .with(&format!("{CPU}/cpu1/cpuidle/state0/latency"), "2\n")
        .with(&format!("{CPU}/cpu1/cpuidle/state0/disable"), "0\n")
}

/// A machine as distributions install it, in a virtual machine with a quota, with everything on.
fn bad_machine() -> FakeRoot {
    two_processors()
        .with("proc/sys/kernel/osrelease", "6.1.0\n")
        .with("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian\n")
        .with("sys/kernel/debug/sched/preempt", "none (voluntary) full\n")
        .with("proc/cmdline", "quiet\n")
        .with("proc/timer_list", "  .hres_active    : 0\n")
        .with("proc/cpuinfo", "flags : fpu hypervisor\n")
        .with("proc/meminfo", "MemTotal: 1024 kB\nSwapTotal: 2048 kB\n")
        .with("proc/sys/kernel/sched_rt_runtime_us", "950000\n")
        .with("proc/irq/9/effective_affinity_list", "1\n")
        .with("boot/config-6.1.0", "CONFIG_PROVE_LOCKING=y\n")
        .with("sys/devices/virtual/workqueue/cpumask", "3\n")
        .with(&format!("{CPU}/cpu1/thermal_throttle/core_throttle_count"), "4\n")
        .with("proc/7/comm", "irqbalance\n")
        .with("proc/sys/kernel/timer_migration", "1\n")
        .with("proc/sys/kernel/watchdog", "1\n")
        .with("proc/sys/kernel/watchdog_cpumask", "0-1\n")
        .with("proc/sys/kernel/numa_balancing", "1\n")
        .with("proc/sys/vm/stat_interval", "1\n")
        .with("sys/kernel/mm/ksm/run", "1\n")
        .with("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
        .with("sys/kernel/tracing/current_tracer", "function\n")
        .with("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
        .with("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n")
        .with("sys/fs/cgroup/cpu.max", "50000 100000\n")
        .with(&format!("{CPU}/isolated"), "\n")
        .with(&format!("{CPU}/smt/active"), "1\n")
        .with(&format!("{CPU}/cpu1/cpufreq/scaling_governor"), "powersave\n")
        .with(&format!("{CPU}/cpu1/cpuidle/state0/name"), "C6\n")
        .with(&format!("{CPU}/cpu1/cpuidle/state0/latency"), "133\n")
        .with(&format!("{CPU}/cpu1/cpuidle/state0/disable"), "0\n")
}

fn found(fake: &FakeRoot, has_root: bool) -> BTreeMap<&'static str, State> {
    let root = fake.root();
    let facts = MachineFacts::read(&root);
    let cpus: CpuList = "1".parse().unwrap();
    let findings = look(&Examined { facts: &facts, root: has_root.then_some(&root), cpus: &cpus });
    assert!(findings.is_sorted_by_key(|finding| finding.importance));
    findings.into_iter().map(|finding| (finding.check, finding.state)).collect()
}

#[test]
fn names_are_unique_and_each_check_says_why_and_who_says_so() {
    let mut names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    assert!(CHECKS.iter().all(|check| !check.why.is_empty() && !check.source.is_empty()));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn a_machine_set_up_for_real_time_has_nothing_to_improve() {
    for (check, state) in found(&good_machine(), true) {
        let is_good = matches!(state, State::Good { .. });
        let does_not_apply = check == "fair-server" && state == State::NotApplicable;
        assert!(is_good || does_not_apply, "{check}: {state:?}");
    }
}

#[test]
fn a_machine_as_installed_has_everything_to_improve_with_a_remedy_each() {
    for (check, state) in found(&bad_machine(), true) {
        match state {
            State::Improvable { remedy, current, expected, .. } => {
                assert!(!remedy.is_empty() && !current.is_empty() && !expected.is_empty(), "{check}");
            }
            State::NotApplicable if check == "fair-server" => {}
            other => panic!("{check}: {other:?}"),
        }
    }
}

#[test]
fn what_cannot_be_read_is_unknown_and_never_good() {
    for (check, state) in found(&FakeRoot::new(), true) {
        assert!(matches!(state, State::Unknown { .. }), "{check}: {state:?}");
    }
}

#[test]
fn facts_of_another_machine_are_not_mixed_with_files_of_this_one() {
    let states = found(&bad_machine(), false);
    let unknown: Vec<&str> = states.iter().filter(|(_, state)| **state == State::unknown(NOT_HERE)).map(|(check, _)| *check).collect();
    let expected = [
        "heat",
        "interrupt-affinity",
        "irqbalance",
        "kernel-debug",
        "numa-balancing",
        "page-merging",
        "statistics-interval",
        "timer-migration",
        "tracing",
        "watchdog",
        "workqueues",
    ];
    assert_eq!(unknown, expected);
    assert!(matches!(states["governor"], State::Improvable { .. }));
}

#[test]
fn kernels_with_a_fair_server_are_checked_for_that_and_not_for_the_old_limit() {
    let fake = bad_machine().with("proc/sys/kernel/osrelease", "6.12.5\n");
    let states = found(&fake, true);
    assert_eq!(states["real-time-throttling"], State::NotApplicable);
    assert!(matches!(&states["fair-server"], State::Improvable { current, .. } if current == "50.000 ms"), "{:?}", states["fair-server"]);
}

#[test]
fn a_daemon_that_leaves_the_processors_alone_is_no_fault() {
    let fake = bad_machine().with("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=\"1\"\n");
    assert!(matches!(found(&fake, true)["irqbalance"], State::Good { .. }));
    let other = bad_machine().with("etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=0\n");
    assert!(matches!(found(&other, true)["irqbalance"], State::Improvable { .. }));
}
