//! `cargo xtask fleet`: tests what `deploy/` contains with the real engines, as far as they run on
//! one Debian machine (deploy/tests).
//!
//! This task is not part of `cargo xtask test`, because it installs Python packages and takes 16
//! minutes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::{failure, program, static_build, workspace};

#[derive(Debug, Args)]
pub(crate) struct FleetArguments {
    /// Systems to test: ssh, slurm, labgrid, ansible, bisect (`git bisect run`), lava, ci (GitHub,
    /// GitLab, KCIDB), files (Kubernetes' schema), tables (DuckDB, polars, pandas) [default: all of
    /// these]; kubernetes, which builds its servers first, runs only if named
    #[arg(value_name = "SYSTEM")]
    engines: Vec<String>,
    /// Binary to test instead of a new build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// A system that runs jobs on test machines, such as Slurm.
struct Engine {
    /// The name of the engine's script in deploy/tests.
    name: &'static str,
    /// Programs that the script needs, separated by blanks, and the Debian packages with them.
    programs: &'static str,
    packages: &'static str,
}

/// The script that first builds Kubernetes' servers, which takes long. The script runs only if the
/// user names it.
const KUBERNETES: &str = "kubernetes";

const fn engine(name: &'static str, programs: &'static str, packages: &'static str) -> Engine {
    Engine {
        name,
        programs,
        packages,
    }
}

const ENGINES: &[Engine] = &[
    engine(
        "ssh",
        "sshd ssh qemu-system-x86_64",
        "openssh-server openssh-client qemu-system-x86",
    ),
    engine(
        "slurm",
        "slurmctld slurmd sbatch munged qemu-system-x86_64",
        "slurmctld slurmd slurm-client munge qemu-system-x86",
    ),
    engine(
        "labgrid",
        "sshd ssh python3 qemu-system-x86_64",
        "openssh-server openssh-client python3-venv qemu-system-x86",
    ),
    engine(
        "ansible",
        "sshd ssh python3",
        "openssh-server openssh-client python3-venv",
    ),
    engine(
        "bisect",
        "sshd ssh git make ip unshare",
        "openssh-server openssh-client git make iproute2 util-linux",
    ),
    engine("lava", "python3", "lava-common"),
    engine("ci", "python3", "python3-venv"),
    engine(
        KUBERNETES,
        "go etcd openssl unshare python3",
        "etcd-server openssl util-linux python3-venv, and Go 1.26 or newer",
    ),
    engine("files", "python3", "python3-venv"),
    engine("tables", "python3", "python3-venv"),
];
/// Python packages that are installed into an environment in the target folder.
const PYTHON: &[&str] = &[
    "labgrid==26.0.1",
    "ansible-core==2.19.14",
    "kubernetes-validate==1.37.0",
    "check-jsonschema==0.39.0",
    "kcidb-io==141",
    "duckdb==2.0.1",
    "polars==2.1.0",
    "pandas==3.1.1",
    "matplotlib==3.11.2",
];

/// Runs the scripts one after another.
pub(crate) fn run(arguments: &FleetArguments) -> Result<()> {
    let mut engines = failure::chosen("system", ENGINES, |engine| engine.name, &arguments.engines)?;
    engines.retain(|engine| engine.name != KUBERNETES || !arguments.engines.is_empty());
    for engine in &engines {
        if let Some(missing) = engine
            .programs
            .split(' ')
            .find(|name| program::find(name).is_none())
        {
            return Err(Failure::new(format!(
                "{} needs {missing}: apt-get install --no-install-recommends {}",
                engine.name, engine.packages
            )));
        }
    }
    let binary = static_build::given_or_built(arguments.binary.as_ref())?;
    let folder = workspace::target_folder()?.join("fleet");
    let python = folder.join("python");
    program::python(&python, PYTHON)?;
    // The results of an experiment that ran on one machine. Several engines compare their own
    // results with these. The first engine that needs them makes them (lab.sh).
    let reference = folder.join("lab");
    workspace::remove(&reference)?;
    let mut lines = Vec::new();
    for engine in engines {
        let place = folder.join(engine.name);
        workspace::remove(&place)?;
        println!("== {}", engine.name);
        let begin = Instant::now();
        let script = workspace::root()
            .join("deploy/tests")
            .join(engine.name)
            .with_extension("sh");
        program::run(
            Command::new("timeout")
                .arg(if engine.name == KUBERNETES {
                    "5400"
                } else {
                    "1200"
                })
                .arg(script)
                .arg(&binary)
                .arg(&place)
                .env("VENV", &python),
        )?;
        lines.push(format!(
            "{}: passed in {} s",
            engine.name,
            begin.elapsed().as_secs()
        ));
    }
    println!("{}", lines.join("\n"));
    Ok(())
}
