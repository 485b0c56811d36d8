//! `cargo xtask fuzz`: runs the property tests with new random cases, and the fuzz targets for the
//! given time.
//!
//! All other test runs use the same cases (`PROPTEST_RNG_SEED` in .cargo/config.toml), so a check
//! that passed keeps passing. If a case fails here, it is added as an ordinary test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use clap::Args;

use crate::failure::{Result, While};
use crate::test::Tools;
use crate::{failure, program, workspace};

/// `cargo xtask fuzz`.
#[derive(Debug, Args)]
pub(crate) struct FuzzArguments {
    /// Cases per property test
    #[arg(long, value_name = "N", default_value_t = 2000)]
    cases: u32,
    /// Seed of an earlier run, to repeat its cases
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Also run each target of fuzz/ for this long (needs a nightly compiler and cargo-fuzz)
    #[arg(long, value_name = "SECONDS")]
    targets_for: Option<u64>,
    /// Run only these targets, without property tests
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "targets_for"
    )]
    targets: Vec<String>,
    /// Keep inputs that reach new code in fuzz/kept (needs tar and xz)
    #[arg(long, requires = "targets_for")]
    keep: bool,
}

/// Selects the property tests, in nextest's filter language.
const PROPERTY_TESTS: &str = "kind(lib) | (binary(integration) & test(/^import_damage::/))";
/// Memory limit of a target's process in MiB; no input needs that much.
const MEMORY_MAX_MIB: u32 = 2048;
/// If an input takes longer than this, in s, it counts as a finding.
const INPUT_SECONDS_MAX: u32 = 10;
/// Maximum length of generated inputs, in bytes. Longer inputs take more time, and find little.
const INPUT_BYTES_MAX: u32 = 16 << 10;
/// The target `trace` also starts from larger traces, which the tests of the trace reader use as
/// well. The constant names the target, the folder of these traces, and the maximum length of the
/// target's inputs in bytes.
const LARGE_SEEDS: (&str, &str, u32) = ("trace", "crates/tardy-trace/tests/data", 100 << 10);

/// Runs the task.
pub(crate) fn run(arguments: &FuzzArguments) -> Result<()> {
    let known = targets()?;
    let chosen = failure::chosen("target", &known, String::as_str, &arguments.targets)?;
    let mut failed = Vec::new();
    if arguments.targets.is_empty() {
        failed.extend(
            property_tests(arguments)
                .err()
                .map(|failure| failure.to_string()),
        );
    }
    if let Some(seconds) = arguments.targets_for {
        for target in chosen {
            let result = corpus(target)
                .and_then(|corpus| program::run(&mut fuzz_command(target, &corpus, seconds)));
            let result = result.and_then(|()| if arguments.keep { keep(target) } else { Ok(()) });
            failed.extend(result.err().map(|failure| failure.to_string()));
        }
    }
    failure::unless_empty("make an ordinary test of each case that failed: ", &failed)
}

/// Runs each property test in a separate process, like all other test runs.
fn property_tests(arguments: &FuzzArguments) -> Result<()> {
    let seed = arguments.seed.unwrap_or_else(drawn_seed);
    println!(
        "to draw the same cases again: cargo xtask fuzz --seed {seed} --cases {}",
        arguments.cases
    );
    let tools = Tools::install()?;
    tools.run(
        tools
            .nextest("run", &["--filterset", PROPERTY_TESTS])
            .env("PROPTEST_RNG_SEED", seed.to_string())
            .env("PROPTEST_CASES", arguments.cases.to_string()),
    )
}

fn drawn_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the names of the fuzz targets, in alphabetical order.
fn targets() -> Result<Vec<String>> {
    let folder = workspace::root().join("fuzz/fuzz_targets");
    let entries =
        std::fs::read_dir(&folder).while_doing(|| format!("reading {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.path().file_stem()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// Returns the folder with a target's inputs: those that earlier runs added, and those of its
/// archive in the repository. git ignores the folder.
fn corpus(target: &str) -> Result<PathBuf> {
    let folder = PathBuf::from("fuzz/corpus").join(target);
    workspace::make_folder(&workspace::root().join(&folder))?;
    let kept = archive(target);
    if workspace::root().join(&kept).exists() {
        program::run(
            tar()
                .arg("--skip-old-files")
                .arg("-xJf")
                .arg(kept)
                .arg("-C")
                .arg(&folder),
        )?;
    }
    Ok(folder)
}

/// Returns the archive in the repository that contains a target's corpus.
fn archive(target: &str) -> PathBuf {
    PathBuf::from(format!("fuzz/kept/{target}.tar.xz"))
}

/// Reduces the corpus to those inputs that reach code that no smaller input reaches, and archives
/// it. How often an input reaches the code is ignored: the fuzzer uses these counts, but they would
/// make the corpus a hundred times larger.
fn keep(target: &str) -> Result<()> {
    let merged = workspace::target_folder()?.join("fuzz-kept").join(target);
    workspace::remove(&merged)?;
    workspace::make_folder(&merged)?;
    let mut merge = cargo_fuzz(target);
    merge
        .arg(&merged)
        .arg(Path::new("fuzz/seeds").join(target))
        .arg(Path::new("fuzz/corpus").join(target));
    program::run(
        merge
            .arg("--")
            .args(["-merge=1", "-use_counters=0"])
            .arg(format!("-max_len={}", longest(target))),
    )?;
    // With these options, the archive depends on nothing but the inputs.
    let plain = "--sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX";
    program::run(
        tar()
            .args(plain.split(' '))
            .arg("-cJf")
            .arg(archive(target))
            .arg("-C")
            .arg(&merged)
            .arg("."),
    )
}

fn tar() -> Command {
    let mut command = Command::new("tar");
    command.current_dir(workspace::root());
    command
}

fn cargo_fuzz(target: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root());
    command
        .args("+nightly fuzz run -s none --target x86_64-unknown-linux-gnu".split(' '))
        .arg(target);
    command
}

/// Returns how long inputs for a target may be, in bytes.
fn longest(target: &str) -> u32 {
    let (with_large, _, large_bytes) = LARGE_SEEDS;
    if target == with_large {
        large_bytes
    } else {
        INPUT_BYTES_MAX
    }
}

fn fuzz_command(target: &str, corpus: &Path, seconds: u64) -> Command {
    let mut command = cargo_fuzz(target);
    command
        .arg(corpus)
        .arg(Path::new("fuzz/seeds").join(target));
    let (with_large, large, _) = LARGE_SEEDS;
    if target == with_large {
        command.arg(large);
    }
    command.arg("--").args([
        format!("-max_total_time={seconds}"),
        format!("-rss_limit_mb={MEMORY_MAX_MIB}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-max_len={}", longest(target)),
    ]);
    command
}
