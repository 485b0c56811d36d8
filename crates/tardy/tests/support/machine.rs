//! Finds facts about this machine that tests depend on. If the machine does not allow something,
//! the test is reported as left out, because it must not count as passed.

use std::process::Command;

use tardy_core::cpu::{CpuId, CpuList};

pub(crate) fn is_root() -> bool {
    tardy_sys::user::is_root()
}

/// The CPUs that this process may use.
pub(crate) fn cpus() -> CpuList {
    tardy_sys::affinity::get(0)
        .unwrap()
        .into_iter()
        .map(CpuId)
        .collect()
}

/// The last CPU that this process may use, because the first one has most of the interrupts.
pub(crate) fn last_cpu() -> u32 {
    cpus().iter().last().expect("this test runs on a CPU").0
}

/// The number of a CPU that does not exist.
pub(crate) fn absent_cpu() -> u32 {
    4095
}

/// Returns whether tests that starve the machine, fill a disk or take CPUs away may run.
pub(crate) fn may_be_dangerous(test: &str) -> bool {
    let may = std::env::var_os("TARDY_TEST_DANGEROUS").is_some_and(|value| value == "1");
    if !may {
        left_out(test, "TARDY_TEST_DANGEROUS=1 is not set");
    }
    may
}

/// Reports a test as left out: on stderr, and in the file with which `cargo xtask test` counts such
/// tests.
pub(crate) fn left_out(test: &str, why: &str) {
    use std::io::Write;
    // The message bypasses the test harness, which hides the output of passing tests.
    let _ = writeln!(std::io::stderr(), "LEFT OUT: {test}: {why}");
    if let Some(path) = std::env::var_os("TARDY_TEST_LEFT_OUT") {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("the list of tests left out can be written");
        let line = format!("{test}: {}\n", why.lines().collect::<Vec<_>>().join(" "));
        file.write_all(line.as_bytes())
            .expect("the list of tests left out can be written");
    }
}

/// Finds a program; panics if it is not installed.
#[track_caller]
pub(crate) fn program(name: &str, package: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.is_file());
    Command::new(found.unwrap_or_else(|| {
        panic!("{name} is missing: install the package {package} (cargo xtask test does)")
    }))
}
