//! Development tasks: `cargo xtask test`, `cargo xtask fuzz`, `cargo xtask bench`, `cargo xtask build`.
#![forbid(unsafe_code)]

mod bench;
mod failure;
mod fuzz;
mod inject;
mod program;
mod static_build;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Development tasks of tardy.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
struct Cli {
    /// What to do.
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install what the tests need, after asking, and run every check
    Test(test::TestArguments),
    /// Measure the project's promises side by side with cyclictest and jitterdebugger
    Bench(bench::BenchArguments),
    /// Draw new cases for the property tests, and run the fuzz targets
    Fuzz(fuzz::FuzzArguments),
    /// Build the static binary for other machines
    Build(static_build::BuildArguments),
    /// Make the run folder of a long run without waiting for it, for work on summaries and reports
    MakeRun(bench::made_run::MakeRunArguments),
    /// Build the module for known delays (inject/) against the headers packages of these kernels, into target/inject/RELEASE/
    Inject {
        /// Kernels, as for `tardy lab run --kernel`
        #[arg(default_values = ["debian:6.1", "debian:6.1-rt"])]
        kernels: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test(arguments) => test::run(&arguments),
        Task::Build(arguments) => static_build::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::MakeRun(arguments) => bench::made_run::run(&arguments),
        Task::Inject { kernels } => inject::build(&kernels).map_err(|error| failure::Failure::new(error.to_string())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
