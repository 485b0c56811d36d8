//! Development tasks: `cargo xtask test`, `cargo xtask prove`, `cargo xtask bench` and others.
#![forbid(unsafe_code)]

mod debian;
mod extend;
mod fleet;
mod fuzz;
mod golden;
mod kernels;
mod outcomes;
mod package;
#[cfg(test)]
mod pages;
mod perfetto;
mod product;
#[cfg(test)]
mod profiles;
mod prove;
mod sanitize;
mod sbom;
mod static_build;
mod test;
mod walk;
#[cfg(test)]
mod walls;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{failure, inject, program, table_page, workspace};

/// Development tasks of tardy.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Cli {
    /// The task to run.
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check format, lints and documentation: takes a few minutes and needs no packages
    Check,
    /// Install the packages that the tests need, after asking, and run every check
    Test(test::TestArguments),
    /// Measure the project's promises, some of them beside other tools
    #[command(disable_help_flag = true)]
    Bench(product::Words),
    /// Draw new cases for the property tests, and run the fuzz targets
    Fuzz(fuzz::FuzzArguments),
    /// Run the tests of the crates with unsafe code under Miri and AddressSanitizer (needs a
    /// nightly compiler with miri and rust-src)
    Sanitize,
    /// Build the static binary for other machines, with its CycloneDX bill of materials
    Build(static_build::BuildArguments),
    /// Make a tarball and a Debian package, with manual pages and completions
    Package(package::PackageArguments),
    /// Make the folder of a long run without measuring, for work on summaries and reports
    #[command(disable_help_flag = true)]
    MakeRun(product::Words),
    /// Regenerate docs/pictures: reports, the live view, a summary and a comparison, from made runs
    /// (needs chromium)
    #[command(disable_help_flag = true)]
    Pictures(product::Words),
    /// Try tardy in guests of each architecture and kernel series, and write docs/kernels.md (needs
    /// QEMU, busybox-static and cross compilers)
    Kernels(kernels::KernelsArguments),
    /// Record traces in a guest of each kernel series, and compare their event formats with those of
    /// the golden traces (needs QEMU and busybox-static)
    Golden(golden::GoldenArguments),
    /// Check reports with axe-core for barriers to screen-reader and keyboard users (needs chromium
    /// and npm)
    #[command(disable_help_flag = true)]
    Accessibility(product::Words),
    /// Run the long proofs, lane by lane, and record them in docs/proof.md
    Prove(prove::ProveArguments),
    /// Check licences, sources and advisories of dependencies against deny.toml, before a release
    Deny {
        /// Rules: licenses, sources, bans, advisories (fetched first) [default: all]
        #[arg(value_name = "RULES")]
        rules: Vec<String>,
    },
    /// Add one extension of each kind to a copy of the tree (docs/extending.md), build it, and
    /// check that the tool lists them
    Extend,
    /// Check the trace of `tardy explain --perfetto` against Perfetto's published schema (needs
    /// python3 and PyPI)
    Perfetto,
    /// Try the faults that the tool must survive, as root: kills, full disks, failing calls
    /// (`--list` names them)
    #[command(disable_help_flag = true)]
    Faults(product::Words),
    /// Test deploy/ with Slurm, labgrid, Ansible and LAVA's schemas, all on this machine (as root)
    Fleet(fleet::FleetArguments),
    /// Run every command of README and docs in a bare Debian, and compare the outputs shown with
    /// those printed (as root; needs debootstrap)
    Walk(walk::WalkArguments),
    /// Build the module for known delays (inject/) against the headers packages of these kernels,
    /// into target/inject/RELEASE/
    Inject {
        /// Kernels, as for `tardy lab run --kernel`: debian:6.1 and debian:6.1-rt by default
        kernels: Vec<String>,
    },
}

fn main() -> ExitCode {
    failure::exit_code(match Cli::parse().task {
        Task::Check => test::check(),
        Task::Test(arguments) => test::run(&arguments),
        Task::Build(arguments) => static_build::run(&arguments),
        Task::Package(arguments) => package::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Sanitize => sanitize::run(),
        Task::Bench(words) => product::benchmarks("bench", &words),
        Task::Pictures(words) => product::benchmarks("pictures", &words),
        Task::Accessibility(words) => product::benchmarks("accessibility", &words),
        Task::Kernels(arguments) => kernels::run(&arguments),
        Task::Golden(arguments) => golden::run(&arguments),
        Task::MakeRun(words) => product::benchmarks("make-run", &words),
        Task::Prove(arguments) => prove::run(&arguments),
        Task::Deny { rules } => test::Tools::install()
            .and_then(|tools| tools.deny(&rules.iter().map(String::as_str).collect::<Vec<_>>())),
        Task::Extend => extend::run(),
        Task::Perfetto => perfetto::run(),
        Task::Faults(words) => product::faults(&words),
        Task::Fleet(arguments) => fleet::run(&arguments),
        Task::Walk(arguments) => walk::run(&arguments),
        Task::Inject { kernels } => inject::build(&kernels),
    })
}
