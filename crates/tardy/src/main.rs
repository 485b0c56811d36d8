//! The `tardy` binary.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

/// Tells whether a Linux system is on time.
#[derive(Debug, Parser)]
#[command(version)]
enum CommandLine {
    /// Run loads alone, without measuring
    Load(tardy::command::load::LoadArguments),
    /// List what there is
    List {
        /// What to list
        what: What,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum What {
    Loads,
}

fn main() -> ExitCode {
    if let Some(code) = tardy::guardian::dispatch(std::env::args_os()) {
        return code;
    }
    match CommandLine::parse() {
        CommandLine::Load(arguments) => tardy::command::load::run(&arguments),
        CommandLine::List { what: What::Loads } => {
            print!("{}", tardy::command::load::list());
            ExitCode::SUCCESS
        }
    }
}
