//! `cargo xtask bench`: measures whether tardy keeps the project's promises. For some promises, it
//! also measures other tools.
//!
//! The command succeeds whatever it measures: it prints each result beside the promise, and the
//! reader judges. `tardy-bench` is a separate crate because it needs the product's crates.
//! `cargo xtask` must not depend on the product's crates.
#![forbid(unsafe_code)]

mod accessibility;
mod atlas;
mod attach_cost;
mod contender;
mod document;
mod example_runs;
mod figure;
mod large_inputs;
mod made_run;
mod pairs;
mod pictures;
mod statistics;
mod threads;

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Args, Parser};

use figure::{Bench, Figure};
use xtask::failure::Result;
use xtask::{failure, program, workspace};

/// The subcommands of `cargo xtask` that this program runs, with the same arguments.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 110)]
enum Task {
    /// Measure the project's promises, some of them beside other tools
    Bench(BenchArguments),
    /// Check reports for barriers to screen-reader and keyboard users (needs npm)
    Accessibility(accessibility::AccessibilityArguments),
    /// Make the pictures of the documentation
    Pictures(pictures::PicturesArguments),
    /// Make the folder of a long run without measuring, for work on summaries and reports
    MakeRun(made_run::MakeRunArguments),
}

/// All figures, in the order of the document.
const FIGURES: &[Figure] = &[
    pairs::FIGURE,
    large_inputs::SUMMARY,
    large_inputs::REPORT,
    large_inputs::COMPARISON,
    large_inputs::MANY_CPUS,
    large_inputs::MANY_RUNS,
    large_inputs::IMPORT_RATE,
    atlas::FIGURE,
    attach_cost::FIGURE,
];

/// `cargo xtask bench`.
#[derive(Debug, Args)]
struct BenchArguments {
    /// Figures to measure [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List the figures and their promises, without measuring
    #[arg(long)]
    list: bool,
    /// Use short runs, for a first result and for CI
    #[arg(long)]
    quick: bool,
    /// Measure this binary instead of a new release build
    #[arg(long, value_name = "FILE")]
    tardy: Option<std::path::PathBuf>,
    /// Replace the rows of these figures in docs/promises.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

fn main() -> ExitCode {
    failure::exit_code(match Task::parse() {
        Task::Bench(arguments) => run(&arguments),
        Task::Accessibility(arguments) => accessibility::run(&arguments),
        Task::Pictures(arguments) => pictures::run(&arguments),
        Task::MakeRun(arguments) => made_run::run(&arguments),
    })
}

/// Measures the requested figures.
fn run(arguments: &BenchArguments) -> Result<()> {
    if arguments.list {
        FIGURES
            .iter()
            .for_each(|figure| println!("{:<16} {}", figure.name, figure.promise));
        return Ok(());
    }
    let chosen = failure::chosen("figure", FIGURES, |figure| figure.name, &arguments.names)?;
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let bench = Bench {
        tardy,
        is_quick: arguments.quick,
        commands: RefCell::default(),
    };
    for figure in chosen {
        eprintln!("measuring {}: {}", figure.name, figure.promise);
        bench.commands.take();
        match (figure.measure)(&bench) {
            Ok(measured) => {
                let commands = bench.commands.take();
                println!("{}", document::section(figure, &measured, &commands));
                if arguments.write {
                    document::replace(figure, &measured)?;
                }
            }
            Err(failure) => eprintln!("xtask: {} not measured: {failure}", figure.name),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_names_of_their_own() {
        let mut names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FIGURES.len());
    }
}
