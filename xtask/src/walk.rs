//! `cargo xtask walk`: runs every command of README and docs in a bare Debian, and compares every
//! shown output with the tool's output.
//!
//! If a page shows no output for a command, the durations in the command are shortened, and its
//! CPUs are replaced by existing ones. Everything else runs as it is on the page. The walk fails if
//! the tool does not accept a command, or if a command needs something that the page does not
//! mention and a bare Debian lacks.

mod page;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::debian::Debian;
use crate::failure::{Failure, Result, While};
use crate::{failure, static_build, workspace};
use page::{Example, examples};

/// Folder in which commands run.
const PLACE: &str = "walk";
/// Folder with the originals of files that pages assume to exist.
const STORE: &str = "store";
/// Time limit of a command, in s.
const SECONDS_MAX: u32 = 150;

/// `cargo xtask walk`.
#[derive(Debug, Args)]
pub(crate) struct WalkArguments {
    /// Pages to walk through, as in docs/faq.md [default: README.md and all of docs]
    #[arg(value_name = "PAGE")]
    pages: Vec<PathBuf>,
    /// Walk with this static binary instead of a new release build
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Files and folders that pages assume to exist: for each, its name, and the original of which it
/// is a copy. An original with a slash in its path is a file of the repository; other originals are
/// in the folder [`STORE`]: `run` is an explained run, `plain` a run without explanations, `runs` a
/// folder of four runs, `cost` a cost run, `k` a watched run of a guest, `census` the sections of
/// two kernels, and the others are programs.
const THINGS: &[(&str, &str)] = &[
    ("board7", "run"),
    ("board7-new", "plain"),
    ("run", "run"),
    ("mine", "plain"),
    ("mine-new", "plain"),
    ("rt", "plain"),
    ("fast", "plain"),
    ("before", "runs"),
    ("after", "runs"),
    ("good", "runs"),
    ("new", "runs"),
    ("A", "plain"),
    ("B", "plain"),
    ("k", "k"),
    ("census", "census"),
    ("nightly", "runs"),
    ("nightly/2026-11-24", "runs"),
    ("nightly/today", "runs"),
    ("rt-cost", "cost"),
    ("fast-cost", "cost"),
    ("trace.dat", "crates/tardy-trace/tests/data/application.dat"),
    (
        "cyclictest.txt",
        "crates/tardy/tests/data/import/cyclictest-h.txt",
    ),
    ("my_loop", "my_loop"),
    ("note.sh", "note.sh"),
];

/// Commands that need something that a bare Debian in a virtual machine lacks. Exit code 3 is
/// correct for these commands.
const ABSENT: &[(&str, &str)] = &[
    ("--cpus isolated", "there are no isolated CPUs"),
    ("media:player=mpv", "no player"),
    ("response:udp:board7", "the second machine is missing"),
    ("--explain", "tracefs may be out of reach"),
    ("tardy attach", "process numbers differ in the walk"),
    ("--on-threshold trace", "tracefs may be out of reach"),
    ("--scenario wake-ups", "message queues may be out of reach"),
    ("--allow caps-lock,console,kcore", "there is no console"),
    ("--scenario williams2002", "no real-time clock"),
    ("cost build", "there is no compiler, nor a kernel's sources"),
];

/// Examples that are not run, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("rack", "there are no other machines"),
    ("sbatch", "there is no Slurm"),
    (" --on ", "there are no other machines"),
    ("tardy top", "it needs a terminal"),
    ("tardy tune", "it changes the machine"),
    (
        "tardy show b --paper",
        "there is no kernel's source to build",
    ),
    ("--tune", "it changes the machine"),
    ("search/best.toml", "there was no search"),
    ("words/best.toml", "there was no search"),
    ("tardy lab shell", "it needs a terminal"),
    ("tardy doctor --pid 4711", "there is no such process"),
    ("--plot own.png", "it takes two kernels"),
    ("signal=1234", "there is no such process"),
    (
        "tardy doctor --root board7",
        "there are no copies of another machine's files",
    ),
];

/// Runs the task.
pub(crate) fn run(arguments: &WalkArguments) -> Result<()> {
    let binary = static_build::given_or_built(arguments.binary.as_ref())?;
    let debian = Debian::fresh("walk")?;
    debian.put(&binary, "usr/bin/tardy")?;
    prepare(&debian)?;
    let pages = if arguments.pages.is_empty() {
        pages()?
    } else {
        arguments.pages.clone()
    };
    let mut walk = Walk {
        debian,
        binary,
        failed: Vec::new(),
        run: 0,
        left_out: 0,
    };
    for page in &pages {
        walk.page(page)?;
    }
    println!(
        "{} commands of {} pages run, {} left out, {} failed",
        walk.run,
        pages.len(),
        walk.left_out,
        walk.failed.len()
    );
    failure::unless_empty("", &walk.failed)
}

fn pages() -> Result<Vec<PathBuf>> {
    let folder = workspace::root().join("docs");
    let entries = std::fs::read_dir(&folder).while_doing(|| "listing docs".to_owned())?;
    let mut pages: Vec<PathBuf> = entries
        .filter_map(|entry| Some(Path::new("docs").join(entry.ok()?.file_name())))
        .collect();
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.sort();
    pages.insert(0, "README.md".into());
    Ok(pages)
}

/// Creates everything that pages assume to exist, except guests.
fn prepare(debian: &Debian) -> Result<()> {
    workspace::make_folder(&debian.path(STORE))?;
    let any = "|| [ $? -eq 4 ] || [ $? -eq 1 ]";
    let run = |name: &str, flags: &str| {
        format!(
            "cd /{STORE} && {{ tardy run {flags} --for 1s --load none --quiet --out {name} \
             >/dev/null {any}; }}"
        )
    };
    if debian
        .shell(&run("run", "--explain=stacks --deadline 1us"))
        .is_err()
    {
        println!("tracing is not possible here: the run is made without --explain");
        debian.shell(&run("run", "--deadline 1us"))?;
    }
    for number in 0..4 {
        debian.shell(&run(&format!("runs/{number}"), ""))?;
    }
    debian.shell(&format!("cp -r /{STORE}/runs/0 /{STORE}/plain"))?;
    debian.shell(&format!(
        "cd /{STORE} && tardy cost --metric null-call --metric stat --rounds 1 --quiet --out cost \
         >/dev/null"
    ))?;
    let source = workspace::root();
    let loop_c = source.join("include/examples/loop.c");
    let mut compiler = std::process::Command::new("cc");
    compiler
        .args(["-static", "-O2", "-I"])
        .arg(source.join("include"))
        .arg(loop_c)
        .arg("-o")
        .arg(debian.path(STORE).join("my_loop"));
    crate::program::capture(&mut compiler)?;
    debian.shell(&format!(
        "cd /{STORE} && printf '#!/bin/sh\\n' > note.sh && chmod +x note.sh"
    ))
}

/// Makes the runs in guests that some pages of the documentation need. This happens outside the
/// bare Debian, which has no QEMU.
fn guests(debian: &Debian, binary: &Path) -> Result<()> {
    let lab = |words: &str, name: &str| {
        let mut tardy = std::process::Command::new(binary);
        tardy.arg("lab").args(words.split(' ')).arg("--out");
        crate::program::capture(tardy.arg(debian.path(STORE).join(name))).map(drop)
    };
    lab(
        "run --kernel debian:6.1 --preempt none --for 1s --load memory --watch",
        "k",
    )?;
    lab(
        "sections --for 1s --load memory --kernel debian:6.1 --preempt full --kernel debian:6.1-rt",
        "census",
    )
}

struct Walk {
    debian: Debian,
    /// The tool: the same binary as in the bare Debian.
    binary: PathBuf,
    failed: Vec<String>,
    run: usize,
    left_out: usize,
}

impl Walk {
    fn page(&mut self, page: &Path) -> Result<()> {
        let text = workspace::read(&workspace::root().join(page))?;
        println!("{}", page.display());
        self.debian
            .shell(&format!("rm -rf /{PLACE} && mkdir /{PLACE}"))?;
        for example in examples(&text) {
            let command = &example.command;
            if let Some((_, why)) = LEFT_OUT.iter().find(|(what, _)| command.contains(what)) {
                println!("  left out, because {why}: {command}");
                self.left_out += 1;
                continue;
            }
            if let Err(why) = self.example(&example) {
                let line = format!("{}: {command}: {why}", page.display());
                println!("  FAILED {line}");
                self.failed.push(line);
            }
        }
        Ok(())
    }

    /// Runs an example. The error describes what is wrong with the example.
    fn example(&mut self, example: &Example) -> std::result::Result<(), String> {
        self.provide(&example.command)?;
        let mut line = example.as_run();
        if line.starts_with("tardy attach") {
            // Replaces the IDs of the page's program and its first thread by those of a running
            // program.
            line = line
                .replace("$(pidof my_loop)", "$LOOP")
                .replace("--thread 1240", "--thread $LOOP")
                .replace("1234", "$LOOP");
            line =
                format!("./my_loop & LOOP=$!; sleep 0.2; {line}; code=$?; kill $LOOP; exit $code");
        }
        if line.starts_with("tardy respond") || line.contains("--until-stopped") {
            // The command runs until it gets a signal.
            line = format!("timeout --preserve-status --signal=INT 2 {line}");
        }
        let output = self.debian.output(&format!(
            "cd /{PLACE} && timeout {SECONDS_MAX} sh -c '{}'",
            line.replace('\'', r"'\''")
        ));
        let output = output.map_err(|error| error.to_string())?;
        self.run += 1;
        let (out, said) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let code = output.status.code().unwrap_or(-1);
        println!("  {code:>3}  {line}");
        let last = said.lines().last().unwrap_or_default();
        let lacks = ABSENT
            .iter()
            .any(|(what, _)| example.command.contains(what));
        let is_right = match code {
            0 | 1 | 4 => true,
            130 => line.contains("--signal=INT"),
            3 => lacks || example.needs_qemu(),
            // The guest's files are missing. The walk only tests that the tool accepts the words.
            2 => example.needs_qemu() && !said.starts_with("error:"),
            124 | 125 | 128 => example.needs_qemu(),
            _ => false,
        };
        if !is_right {
            return Err(format!("exit code {code}: {last}"));
        }
        if code == 3 {
            // The page shows the output of a machine with devices that this machine lacks.
            return Ok(());
        }
        example
            .compare(&out)
            .map_err(|why| format!("{why}\nPrinted:\n{out}"))
    }

    /// Creates what the command needs, and removes what the command will create.
    fn provide(&self, command: &str) -> std::result::Result<(), String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let out = words
            .iter()
            .position(|word| ["--out", "--tardy-out"].contains(word))
            .and_then(|place| words.get(place + 1));
        if let Some(out) = out
            && !words.contains(&"--resume")
        {
            self.shell(&format!("rm -rf '{out}'"))?;
        }
        let attached = command.starts_with("tardy attach").then_some("my_loop");
        for word in words.iter().copied().chain(attached) {
            let word = word.rsplit(['=', ':']).next().unwrap_or(word);
            let path = word
                .trim_end_matches([';', '/'])
                .trim_start_matches("./")
                .trim_matches('\'');
            let first = path.split('/').next().unwrap_or_default();
            let known = |wanted: &str| THINGS.iter().find(|(known, _)| *known == wanted);
            let Some(&(name, from)) = known(path).or_else(|| known(first)) else {
                continue;
            };
            if Some(name) == out.copied() || self.debian.path(PLACE).join(name).exists() {
                continue;
            }
            let said = |failure: Failure| failure.to_string();
            if from.contains('/') {
                let file = workspace::root().join(from);
                let put = self.debian.put(&file, &format!("{PLACE}/{name}"));
                put.map_err(said)?;
                continue;
            }
            let is_stored = self.debian.path(STORE).join(from).exists();
            if ["k", "census"].contains(&from) && !is_stored {
                guests(&self.debian, &self.binary).map_err(said)?;
            }
            // The word `run` is a subcommand, except in `tardy export run`, where it is a folder.
            if word != "run" || command.starts_with("tardy export run") {
                self.shell(&format!(
                    "mkdir -p \"$(dirname '{name}')\" && cp -r /{STORE}/{from} '{name}'"
                ))?;
            }
        }
        Ok(())
    }

    fn shell(&self, line: &str) -> std::result::Result<(), String> {
        let output = self
            .debian
            .output(&format!("cd /{PLACE} && {line}"))
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!(
                "`{line}`: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ))
        }
    }
}
