//! The LMbench program for each metric, and the parser for its output.

/// A value that a program prints.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PrintedFigure {
    /// Time of one operation in us.
    Micros(f64),
    /// 10^6 bytes per second.
    Megabytes(f64),
}

impl PrintedFigure {
    /// Returns the time of an operation of `bytes` bytes, in ns.
    pub(super) fn nanos(self, bytes: Option<f64>) -> Option<f64> {
        match self {
            Self::Micros(micros) => Some(micros * 1e3),
            Self::Megabytes(megabytes) => bytes.map(|bytes| bytes * 1e3 / megabytes),
        }
    }
}

/// A metric with the corresponding programs of LMbench.
pub(super) struct Peer {
    /// The metric of `tardy cost`.
    pub(super) metric: &'static str,
    /// Programs with arguments, separated by `and`; the mean of their results counts. FILE is
    /// replaced by a file that the benchmark makes.
    pub(super) programs: &'static str,
    /// Parses the programs' output.
    pub(super) read: fn(&str) -> Option<PrintedFigure>,
    /// Whether bytes per second are compared.
    pub(super) is_bandwidth: bool,
    /// Reasons for a difference between the two sides.
    pub(super) differs: &'static str,
}

/// Programs that need a running server.
pub(super) const SERVERS: &[&str] = &["lat_udp", "lat_tcp", "lat_connect", "bw_tcp"];

const FORKED: &str = "LMbench's child is linked to libraries and ends by exit(3), tardy's is \
                      static and ends by _exit(2): such children had 24 and 6 page faults each, \
                      of some us";
const WRITTEN: &str = "LMbench writes each 512 bytes from their end, in one chain of assignments; \
                       so written, the length of the instructions alone makes the same loop run \
                       at 3 or 13 GB/s on this CPU; tardy writes upwards";

/// All pairs, in the order of the tables: a metric, the parser of the output, and the program.
/// Further programs follow `and`.
const PROGRAMS: &str = "\
null-call: time lat_syscall null
null-io: time lat_syscall read and lat_syscall write
stat: time lat_syscall stat FILE
open-close: time lat_syscall open FILE
select-files: time lat_select -n 100 file
select-tcp: time lat_select -n 100 tcp
signal-install: time lat_sig install
signal-handle: time lat_sig catch
protection-fault: time lat_sig prot FILE
fork: time lat_proc fork
fork-exec: time lat_proc exec
fork-sh: time lat_proc shell
switch-2p-0k: switch lat_ctx -s 0 2
switch-2p-16k: switch lat_ctx -s 16 2
switch-2p-64k: switch lat_ctx -s 64 2
switch-8p-0k: switch lat_ctx -s 0 8
switch-8p-16k: switch lat_ctx -s 16 8
switch-8p-64k: switch lat_ctx -s 64 8
switch-16p-0k: switch lat_ctx -s 0 16
switch-16p-16k: switch lat_ctx -s 16 16
switch-16p-64k: switch lat_ctx -s 64 16
pipe-latency: time lat_pipe -N 3
unix-latency: time lat_unix
udp-latency: time lat_udp -N 3 localhost
tcp-latency: time lat_tcp -m 1 -N 3 localhost
tcp-connect: time lat_connect localhost
mmap: second lat_mmap 64m FILE
page-fault: time lat_pagefault FILE
pipe-bandwidth: bandwidth bw_pipe -N 3
unix-bandwidth: bandwidth bw_unix -N 3
tcp-bandwidth: bandwidth bw_tcp -W 100000 localhost
file-reread: bandwidth bw_file_rd 64m io_only FILE
mmap-reread: bandwidth bw_mmap_rd 64m mmap_only FILE
bcopy-libc: bandwidth bw_mem 64m bcopy
bcopy-own: bandwidth bw_mem 64m fcp
memory-read: bandwidth bw_mem 64m frd
memory-write: bandwidth bw_mem 64m fwr
";

/// Returns the pairs of [`PROGRAMS`].
pub(super) fn all() -> impl Iterator<Item = Peer> {
    PROGRAMS.lines().map(|line| {
        let (metric, rest) = line.split_once(": ").unwrap_or((line, ""));
        let (kind, programs) = rest.split_once(' ').unwrap_or((rest, ""));
        Peer {
            metric,
            programs,
            read: match kind {
                "time" => after_colon,
                "switch" => switch,
                "second" => second_of_line,
                "bandwidth" => megabytes,
                _ => unreachable!("`{kind}` is no way to read an output"),
            },
            is_bandwidth: kind == "bandwidth",
            differs: match metric {
                "fork" | "fork-exec" | "fork-sh" => FORKED,
                "memory-write" => WRITTEN,
                _ => "",
            },
        }
    })
}

impl Peer {
    /// Returns the words of each program.
    pub(super) fn programs(&self) -> impl Iterator<Item = Vec<&'static str>> {
        let programs = self.programs.split(" and ");
        programs.map(|words| words.split(' ').collect())
    }
}

fn numbers(text: &str) -> impl Iterator<Item = f64> {
    text.split_whitespace().filter_map(|word| word.parse().ok())
}

/// Parses a line such as `Simple syscall: 0.1 microseconds`.
fn after_colon(text: &str) -> Option<PrintedFigure> {
    let line = text.lines().find(|line| line.contains(" microseconds"))?;
    numbers(line.rsplit_once(':')?.1)
        .next()
        .map(PrintedFigure::Micros)
}

/// Parses the output of lat_ctx: the first line has the size, each further line the number of
/// processes and the time in us.
fn switch(text: &str) -> Option<PrintedFigure> {
    let line = text
        .lines()
        .rfind(|line| line.split_whitespace().count() == 2 && numbers(line).count() == 2)?;
    numbers(line).nth(1).map(PrintedFigure::Micros)
}

/// Parses a line such as `67.108864 220`: megabytes, and time in us.
fn second_of_line(text: &str) -> Option<PrintedFigure> {
    numbers(text.lines().last()?)
        .nth(1)
        .map(PrintedFigure::Micros)
}

/// Parses a line such as `67.11 9123.45`, or `Pipe bandwidth: 4123.45 MB/sec`.
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
