//! Arguments of the subcommands of `tardy lab`.

pub mod app;
pub mod atlas;
pub mod bisect;
pub mod hunt;
pub mod kernels;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use tardy_core::units::Nanos;
use tardy_lab::architecture::Architecture;
use tardy_lab::experiment::Shard;
use tardy_lab::initramfs::AddedFile;
use tardy_lab::injection::Injection;
use tardy_lab::kernel::KernelSource;
use tardy_lab::machine::{Accelerator, Machine};
use tardy_results::chosen_sample::SamplePlace;
use tardy_results::compare::margin::Margin;

use app::AppArguments;
use atlas::AtlasArguments;
use bisect::BisectArguments;
use hunt::HuntArguments;
use kernels::KernelArguments;

use super::on::OnArgs;

/// `tardy lab`: boot kernels in QEMU, where time is counted in instructions, and measure in each.
#[derive(Debug, Clone, Args)]
pub struct Lab {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
pub enum LabCommand {
    /// Run the same measurement on several kernels and compare them
    Run(RunArguments),
    /// Test a kernel against a limit or a good kernel, in several replicas; the exit codes suit
    /// `git bisect run`
    Check(CheckArguments),
    /// Measure each kernel under each load in many replicas, and show all results in one table
    Atlas(Box<AtlasArguments>),
    /// Find the first kernel that has a delay, among the kernels between a good and a bad kernel
    Bisect(Box<BisectArguments>),
    /// Record every kernel section with IRQs or preemption off, under loads, and show the longest
    Sections(SectionsArguments),
    /// Show which functions make the second kernel slower than the first
    Why(WhyArguments),
    /// Search for the program with the longest section, and reduce it to a reproducer
    Hunt(Box<HuntArguments>),
    /// Run your program unchanged on several kernels, and show which kernel meets its deadline
    App(Box<AppArguments>),
    /// Boot the guest of a finished run again, stop it at the due time of its worst sample, and open
    /// gdb there
    Debug(DebugArguments),
    /// Boot one kernel as `run` does, with a shell on its console; `exit` ends the guest
    Shell(ShellArguments),
    /// Fetch kernels now, so that later runs need no network
    Fetch(FetchArguments),
    /// List the kernels that --kernel can name: packages of the distribution, and kernels fetched
    /// before
    Kernels(KernelsArguments),
}

/// The guest's machine.
#[derive(Debug, Clone, Args)]
pub struct MachineArguments {
    /// Architecture of the guest: amd64, arm64 or riscv64 [default: this machine's]
    #[arg(long)]
    pub arch: Option<Architecture>,
    /// Virtual time per instruction, a power of two: 1ns is about the speed of a PC, 4ns that of a small board
    #[arg(long, alias = "insn", value_name = "TIME", default_value = "4ns")]
    pub instruction_time: Nanos,
    /// Memory of the guest in MiB
    #[arg(long, value_name = "MIB", default_value_t = Machine::MEMORY_MIB_DEFAULT, value_parser = clap::value_parser!(u32).range(64..=65536))]
    pub memory: u32,
    /// Size in MiB of the memory that the guest shares with the host for its results: a power of
    /// two
    #[arg(long, value_name = "MIB", default_value_t = Machine::SHARED_MIB_DEFAULT, value_parser = power_of_two)]
    pub shared: u32,
    /// How guests are executed: with tcg, runs repeat exactly; kvm is faster and uses the host's
    /// clock
    #[arg(long, value_enum, default_value_t = AcceleratorArgument::Tcg)]
    pub accel: AcceleratorArgument,
    /// Static tardy binary for the guest [default: this one]
    #[arg(long, value_name = "FILE")]
    pub guest_binary: Option<PathBuf>,
    /// Query the package sources again, even for kernels that were fetched before
    #[arg(long)]
    pub refresh: bool,
}

/// `--accel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AcceleratorArgument {
    /// QEMU translates the guest's code, and time is counted in instructions
    Tcg,
    /// The host's CPU executes the guest's code, and time is that of the host's clock
    Kvm,
}

impl From<AcceleratorArgument> for Accelerator {
    fn from(argument: AcceleratorArgument) -> Self {
        match argument {
            AcceleratorArgument::Tcg => Self::Tcg,
            AcceleratorArgument::Kvm => Self::Kvm,
        }
    }
}

/// The measurement in each guest, and the number of its repetitions.
#[derive(Debug, Clone, Args)]
pub struct MeasureArguments {
    /// Scenario to follow, as for `tardy run`: a built-in one or a file [default: lab, unless
    /// --for, --cycles, --load, --program or arguments after -- are given]
    #[arg(long, value_name = "NAME|FILE")]
    pub scenario: Option<String>,
    /// How long each guest measures, in the guest's time
    #[arg(long = "for", value_name = "TIME", conflicts_with = "cycles")]
    pub length: Option<Nanos>,
    /// Number of cycles in each phase, instead of a length of time
    #[arg(long, value_name = "N")]
    pub cycles: Option<u64>,
    /// A load, as for `tardy run`; repeat it to run several at the same time. With --program, loads
    /// run beside the program
    #[arg(long, value_name = "NAME")]
    pub load: Vec<String>,
    /// Seed of the first replica's probes; the seed of each further replica is one higher
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Start every run from a snapshot of the booted guest, which saves the time to boot it
    ///
    /// Runs from the same snapshot repeat exactly. Runs from a snapshot differ from runs that
    /// booted, just as replicas differ from each other.
    #[arg(long)]
    pub snapshots: bool,
    /// Use the QEMU plugin to record every section with IRQs or preemption off, every softirq and
    /// every interrupt; the guest and its samples stay unchanged
    ///
    /// `tardy show --sections` and `tardy compare --sections` print the sections.
    #[arg(long)]
    pub watch: bool,
    /// Number of worst samples per phase that --watch keeps for `tardy explain`, with the code
    /// executed before each [default: 10]
    ///
    /// `lab sections` and `lab check --sections` keep none by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub watch_worst: Option<u32>,
    /// QEMU plugin for --watch [default: tardy's own]
    #[arg(long, value_name = "FILE")]
    pub plugin: Option<PathBuf>,
    /// Number of guests that run at the same time [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Time on the host's clock after which a guest is stopped
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub wall_limit: Nanos,
    /// Time on the guest's clock after which the program in the guest is stopped
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub time_limit: Nanos,
    /// Inject delays of known length while the guest measures: CONTEXT:TIME or CONTEXT:TIME:COUNT,
    /// as in preemption-off:1ms:30 (see inject/README.md)
    #[arg(long, value_name = "DELAYS", requires = "inject_modules")]
    pub inject: Option<Injection>,
    /// Folder with the module that injects the delays of --inject: RELEASE/tardy_inject.ko for each
    /// kernel
    #[arg(long, value_name = "FOLDER")]
    pub inject_modules: Option<PathBuf>,
    /// Load a module before the measurement: NAME from the kernel's package, with its dependencies,
    /// or a file built for that kernel, such as ./driver.ko. With parameters: snd-dummy:hrtimer=0.
    /// Repeat the option for several modules
    #[arg(long, value_name = "MODULE")]
    pub module: Vec<ModuleArgument>,
    /// Copy a file of this machine into the guest
    #[arg(long, value_name = "FILE:PATH")]
    pub add: Vec<AddArgument>,
    /// Run this program inside the guest, with ARGUMENTS, instead of a measurement; `--program
    /// /init` runs tardy itself
    #[arg(long, value_name = "PATH", conflicts_with_all = ["scenario", "length", "cycles"])]
    pub program: Option<String>,
    /// Further arguments for `tardy run` in the guest; with --program, all arguments of that
    /// program
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,
}

/// Parses the size of a PCI resource, a power of two.
fn power_of_two(text: &str) -> Result<u32, String> {
    let size = text
        .parse()
        .ok()
        .filter(|size: &u32| size.is_power_of_two() && *size <= 4096);
    size.ok_or_else(|| format!("`{text}` is not a power of two up to 4096: write one, such as 128"))
}

/// The value of `--add`: `FILE:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddArgument(pub AddedFile);

impl FromStr for AddArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').filter(|(source, path)| {
            !source.is_empty() && !path.trim_start_matches('/').is_empty()
        });
        let (source, path) = parts.ok_or_else(|| {
            format!("`{text}` does not name two files: write FILE:PATH, as in ./tool:/bin/tool")
        })?;
        let path = path.trim_start_matches('/').to_owned();
        if path
            .split('/')
            .any(|part| part.is_empty() || part == ".." || part == ".")
        {
            return Err(format!(
                "`{path}` is not a plain path in the guest: write it without `..`"
            ));
        }
        use std::os::unix::fs::PermissionsExt;
        let executable = std::fs::metadata(source)
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
        Ok(Self(AddedFile {
            source: PathBuf::from(source),
            path,
            executable,
        }))
    }
}

/// The value of `--module`: `NAME|FILE.ko[:PARAMETER=VALUE...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleArgument {
    /// Name of the module, as for modprobe(8).
    pub name: String,
    /// The module's file; absent for a module of the kernel's package.
    pub file: Option<PathBuf>,
    /// Parameters, separated by spaces.
    pub parameters: String,
}

impl FromStr for ModuleArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        if let Some(stem) = name
            .strip_suffix(".ko")
            .filter(|_| !parameters.contains([' ', '\0']))
        {
            let name_of_file = stem.rsplit('/').next().unwrap_or(stem).to_owned();
            return Ok(Self {
                name: name_of_file,
                file: Some(PathBuf::from(name)),
                parameters: parameters.replace(':', " "),
            });
        }
        let is_plain = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if !is_plain || parameters.contains([' ', '\0']) {
            return Err(format!(
                "`{text}` does not name a module: write NAME, NAME:PARAMETER=VALUE or FILE.ko, as \
                 in snd-dummy:hrtimer=0"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            file: None,
            parameters: parameters.replace(':', " "),
        })
    }
}

/// `tardy lab run`.
#[derive(Debug, Clone, Args)]
pub struct RunArguments {
    /// The kernels.
    #[command(flatten)]
    pub kernels: KernelArguments,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// The measurement.
    #[command(flatten)]
    pub measure: MeasureArguments,
    /// Instead of latencies, measure the cost of kernel services in instructions: metrics or groups
    /// of `tardy list costs` [default: all]
    ///
    /// ARGUMENTS then go to `tardy cost` in the guest.
    #[arg(long, value_name = "METRIC,...", num_args = 0..=1, value_delimiter = ',',
        conflicts_with_all = ["scenario", "length", "cycles", "load", "program", "inject"])]
    pub cost: Option<Vec<String>>,
    /// Also measure the cost of kernel services in instructions, in further guests (folder
    /// FOLDER-cost): for example to choose between `--preempt lazy,full`
    #[arg(long, conflicts_with_all = ["cost", "shard", "json", "program"])]
    pub with_cost: bool,
    /// Number of guests of each variant. Each guest boots a little differently and has its own
    /// seed; a repeated guest gives the same samples
    #[arg(long, alias = "pads", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: u32,
    /// Run each guest twice, and fail if the samples differ
    #[arg(long, alias = "twice")]
    pub verify_repeatable: bool,
    /// Run only this part of the guests, as in 2/8 (the second of eight parts); other machines run
    /// the rest, and write into the same folder or into folders that you merge
    #[arg(long, value_name = "NUMBER/OF", conflicts_with = "json")]
    pub shard: Option<Shard>,
    /// Folder for the runs: one run folder for each guest
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
    /// Other machines: each runs a shard, and all of it is brought together here
    #[command(flatten)]
    pub on: OnArgs,
}

/// `tardy lab sections`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Does the same as `tardy lab run --watch`, but shows the sections instead of \
                  latencies. `tardy show FOLDER` shows the sections again; `tardy compare FOLDER \
                  OTHER` compares the sections of two folders."
)]
pub struct SectionsArguments {
    /// The kernels.
    #[command(flatten)]
    pub kernels: KernelArguments,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// The measurement. `--load all` runs the loads of the scenario `lab` one after another
    #[command(flatten)]
    pub measure: MeasureArguments,
    /// Guests of each variant
    #[arg(long, alias = "pads", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: u32,
    /// Folder for the runs: one run folder for each guest
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Print the sections as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tardy lab why`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Does the same as `tardy lab run --watch`, then compares the code executed before \
                  one sample of each kernel. The differences of all functions add up to the \
                  difference of the latencies. `tardy compare FOLDER/A FOLDER/B --why` shows the \
                  result again; with --phase or --quantiles, it compares other samples."
)]
pub struct WhyArguments {
    /// The kernels.
    #[command(flatten)]
    pub kernels: KernelArguments,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// The measurement.
    #[command(flatten)]
    pub measure: MeasureArguments,
    /// Compare this quantile of the latencies, as in 0.5, instead of the largest latency
    #[arg(long, value_name = "SHARE", value_parser = super::compare::quantile)]
    pub quantile: Option<f64>,
    /// Folder for the runs: one run folder for each guest
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tardy lab check`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes, for `git bisect run`: 0 no latency above the limit in any run, and \
                  the 99.9 % latency within the margin of the baseline; 1 a latency is above the \
                  limit or the margin, or the kernel booted and then panicked or hung; 125 \
                  inconclusive for this kernel (it does not boot, or lacks the preemption model \
                  asked for); 128 inconclusive on this machine, which stops the bisection; 2 wrong \
                  use.
`tardy lab check` finds regressions; it does not show whether a real machine meets a deadline."
)]
pub struct CheckArguments {
    /// The kernel.
    #[command(flatten)]
    pub kernels: KernelArguments,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// The measurement.
    #[command(flatten)]
    pub measure: MeasureArguments,
    /// Largest latency allowed in the phases under load, or in all phases if none is under load
    #[arg(long, value_name = "TIME", required_unless_present = "baseline")]
    pub limit: Option<Nanos>,
    /// Apply the limit to the longest section in which no other task can run, instead of the
    /// largest latency
    ///
    /// Every guest runs with --watch, so a section counts even if no wake-up of the probe falls into it.
    #[arg(long, requires = "limit")]
    pub sections: bool,
    /// Known good kernel; the check fails if, under any load, the 99.9 % latency of --kernel
    /// exceeds that of the good kernel by more than --margin (medians of the replicas)
    #[arg(long, value_name = "KERNEL")]
    pub baseline: Option<KernelSource>,
    /// Accepted excess over the baseline's 99.9 % latency: a share or a time
    #[arg(
        long,
        value_name = "SHARE|TIME",
        default_value = "20%",
        requires = "baseline"
    )]
    pub margin: Margin,
    /// Boot all guests, even after one has failed
    #[arg(long)]
    pub all: bool,
    /// Guests of each variant
    #[arg(long, alias = "pads", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub replicas: u32,
    /// Keep the runs in this folder
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print verdict and comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// `tardy lab shell`.
#[derive(Debug, Clone, Args)]
pub struct ShellArguments {
    /// The kernel.
    #[command(flatten)]
    pub kernels: KernelArguments,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArguments,
    /// Copy a file of this machine into the guest
    #[arg(long, value_name = "FILE:PATH")]
    pub add: Vec<AddArgument>,
    /// Static busybox for the shell, built for the guest's architecture (package busybox-static)
    #[arg(long, value_name = "FILE", default_value = "/bin/busybox")]
    pub busybox: PathBuf,
}

/// `tardy lab debug`.
#[derive(Debug, Clone, Args)]
pub struct DebugArguments {
    /// Run folder of a guest
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Stop at the due time of the sample with the N-th largest latency
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub worst: usize,
    /// Stop at the due time of this sample instead: the name of its series, and its number from 0,
    /// as in cyclic.cpu0:17
    #[arg(long, value_name = "SERIES:NUMBER", conflicts_with = "worst")]
    pub sample: Option<SamplePlace>,
    /// Stop when the sample's thread reads the clock instead of at the due time
    #[arg(long)]
    pub end: bool,
    /// Stop this much earlier
    #[arg(long, value_name = "TIME", default_value = "0ns")]
    pub before: Nanos,
    /// The kernel's file with debug information [default: that of the installed -dbg package, else
    /// the symbols of the guest's /proc/kallsyms]
    #[arg(long, value_name = "FILE")]
    pub symbols: Option<PathBuf>,
    /// Execute this command of gdb instead of opening a prompt; repeat the option for several
    /// commands. Without a terminal, the default is to show registers and code
    #[arg(long, value_name = "COMMAND")]
    pub batch: Vec<String>,
    /// Static tardy binary that the guest ran [default: this one]
    #[arg(long, value_name = "FILE")]
    pub guest_binary: Option<PathBuf>,
    /// QEMU plugin that stops the guest [default: tardy's own]
    #[arg(long, value_name = "FILE")]
    pub plugin: Option<PathBuf>,
}

/// `tardy lab fetch`.
#[derive(Debug, Clone, Args)]
pub struct FetchArguments {
    /// Kernels to fetch, as for --kernel of `tardy lab run`
    #[arg(value_name = "KERNEL", required = true)]
    pub kernels: Vec<KernelSource>,
    /// Architecture: amd64, arm64 or riscv64 [default: this machine's]
    #[arg(long)]
    pub arch: Option<Architecture>,
    /// Query the package sources again, even for kernels that were fetched before
    #[arg(long)]
    pub refresh: bool,
}

/// `tardy lab kernels`.
#[derive(Debug, Clone, Args)]
pub struct KernelsArguments {
    /// Architecture: amd64, arm64 or riscv64 [default: this machine's]
    #[arg(long)]
    pub arch: Option<Architecture>,
    /// Fetch the distribution's lists of packages first
    #[arg(long)]
    pub refresh: bool,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}
