//! Which program of LMbench stands beside which metric, and how what it prints is read.

/// What a program printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PrintedFigure {
    /// Time of one operation in us.
    Micros(f64),
    /// 10^6 bytes a second.
    Megabytes(f64),
}

impl PrintedFigure {
    /// Time of one operation of `bytes` in ns.
    pub(super) fn nanos(self, bytes: Option<f64>) -> Option<f64> {
        match self {
            Self::Micros(micros) => Some(micros * 1e3),
            Self::Megabytes(megabytes) => bytes.map(|bytes| bytes * 1e3 / megabytes),
        }
    }
}

/// One metric with its peer.
pub(super) struct Peer {
    /// Of `tardy cost`.
    pub(super) metric: &'static str,
    /// Program and arguments; FILE stands for one made here.
    pub(super) program: &'static [&'static str],
    /// A second one, of whose result and the first one's the mean counts; empty for none.
    pub(super) and: &'static [&'static str],
    /// From its output to its result.
    pub(super) read: fn(&str) -> Option<PrintedFigure>,
    /// Whether bytes a second are compared.
    pub(super) is_bandwidth: bool,
    /// Why the two may differ, from what each does.
    pub(super) differs: &'static str,
}

/// Programs that must serve others.
pub(super) const SERVERS: &[&str] = &["lat_udp", "lat_tcp", "lat_connect", "bw_tcp"];

const fn time(
    metric: &'static str,
    program: &'static [&'static str],
    differs: &'static str,
) -> Peer {
    Peer {
        metric,
        program,
        and: &[],
        read: after_colon,
        is_bandwidth: false,
        differs,
    }
}

const fn bandwidth(
    metric: &'static str,
    program: &'static [&'static str],
    differs: &'static str,
) -> Peer {
    Peer {
        metric,
        program,
        and: &[],
        read: megabytes,
        is_bandwidth: true,
        differs,
    }
}

const fn other(
    metric: &'static str,
    program: &'static [&'static str],
    read: fn(&str) -> Option<PrintedFigure>,
    differs: &'static str,
) -> Peer {
    Peer {
        metric,
        program,
        and: &[],
        read,
        is_bandwidth: false,
        differs,
    }
}

const FORKED: &str = "LMbench's child is linked to libraries and ends by exit(3), tardy's is \
                      static and ends by _exit(2): such children had 24 and 6 page faults each, \
                      of some us";
const WRITTEN: &str = "LMbench writes each 512 bytes from their end, in one chain of assignments; \
                       so written, the length of the instructions alone makes the same loop run \
                       at 3 or 13 GB/s on this CPU; tardy writes upwards";

/// All pairs, in the order of tables.
pub(super) const PROGRAMS: &[Peer] = &[
    time("null-call", &["lat_syscall", "null"], ""),
    Peer {
        and: &["lat_syscall", "write"],
        ..time("null-io", &["lat_syscall", "read"], "")
    },
    time("stat", &["lat_syscall", "stat", "FILE"], ""),
    time("open-close", &["lat_syscall", "open", "FILE"], ""),
    time("select-files", &["lat_select", "-n", "100", "file"], ""),
    time("select-tcp", &["lat_select", "-n", "100", "tcp"], ""),
    time("signal-install", &["lat_sig", "install"], ""),
    time("signal-handle", &["lat_sig", "catch"], ""),
    time("protection-fault", &["lat_sig", "prot", "FILE"], ""),
    time("fork", &["lat_proc", "fork"], FORKED),
    time("fork-exec", &["lat_proc", "exec"], FORKED),
    time("fork-sh", &["lat_proc", "shell"], FORKED),
    other("switch-2p-0k", &["lat_ctx", "-s", "0", "2"], switch, ""),
    other("switch-2p-16k", &["lat_ctx", "-s", "16", "2"], switch, ""),
    other("switch-2p-64k", &["lat_ctx", "-s", "64", "2"], switch, ""),
    other("switch-8p-0k", &["lat_ctx", "-s", "0", "8"], switch, ""),
    other("switch-8p-16k", &["lat_ctx", "-s", "16", "8"], switch, ""),
    other("switch-8p-64k", &["lat_ctx", "-s", "64", "8"], switch, ""),
    other("switch-16p-0k", &["lat_ctx", "-s", "0", "16"], switch, ""),
    other("switch-16p-16k", &["lat_ctx", "-s", "16", "16"], switch, ""),
    other("switch-16p-64k", &["lat_ctx", "-s", "64", "16"], switch, ""),
    time("pipe-latency", &["lat_pipe", "-N", "3"], ""),
    time("unix-latency", &["lat_unix"], ""),
    time("udp-latency", &["lat_udp", "-N", "3", "localhost"], ""),
    time(
        "tcp-latency",
        &["lat_tcp", "-m", "1", "-N", "3", "localhost"],
        "",
    ),
    time("tcp-connect", &["lat_connect", "localhost"], ""),
    other("mmap", &["lat_mmap", "64m", "FILE"], second_of_line, ""),
    time("page-fault", &["lat_pagefault", "FILE"], ""),
    bandwidth("pipe-bandwidth", &["bw_pipe", "-N", "3"], ""),
    bandwidth("unix-bandwidth", &["bw_unix", "-N", "3"], ""),
    bandwidth(
        "tcp-bandwidth",
        &["bw_tcp", "-W", "100000", "localhost"],
        "",
    ),
    bandwidth("file-reread", &["bw_file_rd", "64m", "io_only", "FILE"], ""),
    bandwidth(
        "mmap-reread",
        &["bw_mmap_rd", "64m", "mmap_only", "FILE"],
        "",
    ),
    bandwidth("bcopy-libc", &["bw_mem", "64m", "bcopy"], ""),
    bandwidth("bcopy-own", &["bw_mem", "64m", "fcp"], ""),
    bandwidth("memory-read", &["bw_mem", "64m", "frd"], ""),
    bandwidth("memory-write", &["bw_mem", "64m", "fwr"], WRITTEN),
];

fn numbers(text: &str) -> impl Iterator<Item = f64> {
    text.split_whitespace().filter_map(|word| word.parse().ok())
}

/// As in `Simple syscall: 0.1 microseconds`.
fn after_colon(text: &str) -> Option<PrintedFigure> {
    let line = text.lines().find(|line| line.contains(" microseconds"))?;
    numbers(line.rsplit_once(':')?.1)
        .next()
        .map(PrintedFigure::Micros)
}

/// The first line is the size, the next ones are processes and us.
fn switch(text: &str) -> Option<PrintedFigure> {
    let line = text
        .lines()
        .rfind(|line| line.split_whitespace().count() == 2 && numbers(line).count() == 2)?;
    numbers(line).nth(1).map(PrintedFigure::Micros)
}

/// As in `67.108864 220`: megabytes, and us.
fn second_of_line(text: &str) -> Option<PrintedFigure> {
    numbers(text.lines().last()?)
        .nth(1)
        .map(PrintedFigure::Micros)
}

/// As in `67.11 9123.45`, or `Pipe bandwidth: 4123.45 MB/sec`.
fn megabytes(text: &str) -> Option<PrintedFigure> {
    numbers(text.lines().last()?)
        .last()
        .map(PrintedFigure::Megabytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        assert_eq!(
            after_colon("Simple syscall: 0.0961 microseconds\n"),
            Some(PrintedFigure::Micros(0.0961))
        );
        assert_eq!(
            after_colon("Pagefaults on /tmp/x1: 0.2 microseconds\n"),
            Some(PrintedFigure::Micros(0.2))
        );
        assert_eq!(
            switch("\n\"size=64k ovr=4.71\n16 8.61\n"),
            Some(PrintedFigure::Micros(8.61))
        );
        assert_eq!(
            second_of_line("67.108864 220\n"),
            Some(PrintedFigure::Micros(220.0))
        );
        assert_eq!(
            megabytes("0.065536 1398.59 MB/sec\n"),
            Some(PrintedFigure::Megabytes(1398.59))
        );
        assert_eq!(after_colon("usage: lat_syscall\n"), None);
        assert_eq!(
            PrintedFigure::Megabytes(1000.0).nanos(Some(65536.0)),
            Some(65536.0)
        );
    }
}
