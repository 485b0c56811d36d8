//! Development tasks: `cargo xtask inject`.

mod inject;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask TASK

  inject [KERNEL...]   build the module for known delays (inject/) against the headers packages of these kernels
                       [default: debian:6.1 debian:6.1-rt] into target/inject/RELEASE/
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((task, kernels)) if task == "inject" => inject::build(kernels),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
