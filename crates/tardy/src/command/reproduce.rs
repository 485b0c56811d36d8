//! `tardy reproduce`: runs each experiment of a paper with this binary's own commands, as a user
//! would, then tests the paper's claims on the run folders.

mod steps;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tardy_papers::claim::{Paper, papers};
use tardy_papers::experiment::Place;
use tardy_report::report::reproduce_figures::drawn;
use tardy_report::report::{reproduce_html, reproduce_text};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::reproduce::measured::why_file;
use tardy_results::reproduce::traced::experiments_to_trace;
use tardy_results::reproduce::{ExperimentCommand, reproduce};
use tardy_sys::child;

use self::steps::Step;
use super::{folder_name, output};
use crate::cli::reproduce::ReproduceArgs;

/// How a step ended.
enum StepEnd {
    /// The command left usable runs.
    Done,
    /// The command failed, or some of its guests did; the runs of other guests are kept.
    Refused,
    /// The user stopped the experiment.
    Interrupted,
}

/// Runs the command.
#[must_use]
pub fn run(args: &ReproduceArgs) -> Exit {
    let papers = papers_of(args);
    let out = args.out.clone().unwrap_or_else(folder_name::by_time);
    if args.trace && args.place() == Place::Local {
        say!("tardy: --trace needs --on lab: only guests repeat a run exactly");
        return Exit::Usage;
    }
    if args.arch.is_some() && args.place() == Place::Local {
        say!("tardy: --arch needs --on lab: this machine has one architecture");
        return Exit::Usage;
    }
    let mut steps = steps::steps(&papers, args);
    steps.retain(|step| !out.join(&step.command.folder).exists());
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let estimate = steps::left_out(&papers, args) + &steps::estimate(&steps, args.place(), cpus);
    if args.dry_run {
        let text = planned(&papers, &steps, args, &out) + &estimate + "\n";
        return output::print(&text).map_or(Exit::Machine, |()| Exit::Done);
    }
    if args.report_only {
        steps.clear();
    } else if !args.quiet {
        say!("{estimate}");
    }
    match all(&papers, &steps, args, &out) {
        Ok(exit) => exit,
        Err(error) => {
            say!(
                "tardy: {}: {error}: give another folder with --out",
                out.display()
            );
            Exit::Machine
        }
    }
}

/// Returns the papers whose claims are tested. Their experiments run on guests of the architecture
/// that the arguments name.
fn papers_of(args: &ReproduceArgs) -> Vec<Paper> {
    let mut papers = papers();
    papers.retain(|paper| args.paper.means(paper.name));
    if let Some(architecture) = args.arch {
        let mut words = vec!["--arch".to_owned(), architecture.to_string()];
        if let Some(binary) = &args.guest_binary {
            words.extend(["--guest-binary".to_owned(), binary.display().to_string()]);
        }
        for experiment in papers.iter_mut().flat_map(|paper| &mut paper.experiments) {
            experiment.lab.extend(words.clone());
        }
    }
    papers
}

/// Returns the commands to run, one per line.
fn planned(papers: &[Paper], steps: &[Step], args: &ReproduceArgs, out: &Path) -> String {
    let again = if args.trace {
        let found = reproduce(papers, out, args.place(), args.extent(), args.replicas());
        experiments_to_trace(papers, &found)
    } else {
        Vec::new()
    };
    let commands = steps.iter().map(|step| &step.command).chain(&again);
    commands.map(|command| command.line() + "\n").collect()
}

fn all(papers: &[Paper], steps: &[Step], args: &ReproduceArgs, out: &Path) -> io::Result<Exit> {
    if !args.report_only {
        fs::create_dir_all(out)?;
    }
    let tested = || reproduce(papers, out, args.place(), args.extent(), args.replicas());
    let mut exit = run_all(steps.iter().map(|step| &step.command), args, out)?;
    let mut found = tested();
    if args.trace && exit != Exit::Interrupted {
        let again = experiments_to_trace(papers, &found);
        if !again.is_empty() {
            let traced = run_all(again.iter(), args, out)?;
            exit = if traced == Exit::Done { exit } else { traced };
            found = tested();
        }
    }
    let json = Format::REPRODUCE.document(&found);
    let write = |name: &str, text: &str| {
        let path = out.join(name);
        output::replace(&path, |mut file| file.write_all(text.as_bytes()))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    write("reproduce.json", &json)?;
    write(
        "reproduce.html",
        &reproduce_html::page(&found, &drawn(papers, out)),
    )?;
    let shown = if args.json {
        json
    } else {
        output::fitted(&reproduce_text::text(&found))
    };
    output::print(&shown)?;
    if !args.quiet {
        say!("report: {}", out.join("reproduce.html").display());
    }
    Ok(exit)
}

/// Runs the commands one after another, until the user stops one.
fn run_all<'a>(
    commands: impl Iterator<Item = &'a ExperimentCommand>,
    args: &ReproduceArgs,
    out: &Path,
) -> io::Result<Exit> {
    let mut exit = Exit::Done;
    for command in commands {
        match one(command, args, out)? {
            StepEnd::Done => {}
            StepEnd::Refused => exit = Exit::Machine,
            StepEnd::Interrupted => return Ok(Exit::Interrupted),
        }
    }
    Ok(exit)
}

/// Runs a command with a temporary output folder, which is renamed when the command has left usable
/// runs. Does nothing if the final folder exists.
fn one(command: &ExperimentCommand, args: &ReproduceArgs, out: &Path) -> io::Result<StepEnd> {
    let (name, words) = (&command.folder, &command.words);
    let folder = out.join(name);
    if folder.exists() {
        return Ok(StepEnd::Done);
    }
    // The temporary folder is not in the experiment's folder, because all runs there are read.
    let part = out.join(format!("{}.part", name.replace('/', "-")));
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    if !args.quiet {
        say!("{}", command.line());
    }
    let (code, said) = start(words, &part, args.quiet)?;
    ended(name, &part, out, code, said)
}

/// Keeps the output `part` of the step `name`, or states why the step has none.
fn ended(
    name: &str,
    part: &Path,
    out: &Path,
    code: Option<i32>,
    said: Option<String>,
) -> io::Result<StepEnd> {
    let (folder, why) = (out.join(name), why_file(out, name));
    let keep = || {
        fs::create_dir_all(folder.parent().unwrap_or(out))?;
        fs::rename(part, &folder)
    };
    match code {
        Some(130) | None => Ok(StepEnd::Interrupted),
        Some(0 | 1 | 4) => {
            // A failure of an earlier attempt at this step may have left this file.
            if why.exists() {
                fs::remove_file(&why)?;
            }
            keep().map(|()| StepEnd::Done)
        }
        // Some guests failed. The runs of the other guests are kept.
        Some(3) if part.exists() && has_run(part) => keep().map(|()| StepEnd::Refused),
        Some(code) => {
            let said = said.unwrap_or_else(|| format!("the command ended with exit code {code}"));
            output::replace(&why, |mut file| file.write_all(said.as_bytes()))?;
            Ok(StepEnd::Refused)
        }
    }
}

fn has_run(folder: &Path) -> bool {
    tardy_run::folder::folders(folder)
        .iter()
        .any(|run| run.join("run.json").exists())
}

/// Runs this binary with `words`. Passes its messages on, unless `quiet`, and returns its exit code
/// and its last error message.
fn start(words: &[String], out: &Path, quiet: bool) -> io::Result<(Option<i32>, Option<String>)> {
    let program: PathBuf = std::env::current_exe()?;
    // The arguments after `--` are for the guest, so `--out` is inserted before them.
    let place = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let (before, behind) = words.split_at(place);
    let mut command = Command::new(program);
    command
        .args(before)
        .arg("--out")
        .arg(out)
        .args(behind)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = child::end_with_parent(&mut command).spawn()?;
    let mut said = None;
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines() {
            let line = line?;
            if let Some(complaint) = line.strip_prefix("tardy: ") {
                said = Some(complaint.to_owned());
            }
            if !quiet {
                say!("  {line}");
            }
        }
    }
    Ok((child.wait()?.code(), said))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tardy_papers::experiment::{Extent, Place};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_reason_of_a_part_remains_when_another_part_succeeds() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path();
        let step = |name: &str, code| {
            let part = out.join("step.part");
            fs::create_dir_all(&part).unwrap();
            ended(
                name,
                &part,
                out,
                Some(code),
                Some("the kernel is missing".into()),
            )
            .unwrap()
        };
        let papers: Vec<Paper> = papers()
            .into_iter()
            .filter(|paper| paper.name == "koolwal2009")
            .collect();
        let is_told = || {
            let found = reproduce(&papers, out, Place::Lab, Extent::Full, 2);
            Format::REPRODUCE
                .document(&found)
                .contains("the kernel is missing")
        };
        step("koolwal-cyclictest/1-of-2", 3);
        assert!(is_told());
        step("koolwal-cyclictest/2-of-2", 0);
        assert!(is_told());
        step("koolwal-cyclictest/1-of-2", 0);
        assert!(!is_told());
    }

    #[test]
    fn each_command_for_guests_of_another_architecture_names_it() {
        let line = "tardy reproduce all --on lab --arch arm64 --guest-binary arm/tardy";
        let crate::cli::Command::Reproduce(args) = Cli::parse_from(line.split(' ')).command else {
            panic!("{line}")
        };
        let steps = steps::steps(&papers_of(&args), &args);
        assert!(steps.len() >= 30, "{}", steps.len());
        for step in steps {
            let line = step.command.line();
            let (before, _) = line.split_once(" -- ").unwrap();
            assert!(
                before.contains("--arch arm64 --guest-binary arm/tardy"),
                "{line}"
            );
            let words = ["tardy".to_owned()].into_iter().chain(step.command.words);
            let out = ["--out".to_owned(), "x".to_owned()];
            let at = words.clone().position(|word| word == "--").unwrap();
            let before = words.clone().take(at).chain(out);
            assert!(
                Cli::try_parse_from(before.chain(words.skip(at))).is_ok(),
                "{line}"
            );
        }
    }

    /// Without this test, a mistake in the table of experiments would show only after minutes.
    /// Tests in [`crate::command::lab`] check the commands for guests.
    #[test]
    fn every_experiment_is_a_command_that_this_tool_takes() {
        let mut taken = 0;
        for experiment in papers().iter().flat_map(|paper| &paper.experiments) {
            let cases = [Place::Local, Place::Lab]
                .into_iter()
                .flat_map(|place| [(place, Extent::Quick), (place, Extent::Full)]);
            let traced = experiment.traced(Extent::Full, &experiment.kernel_names());
            let measured = cases.filter_map(|(place, extent)| experiment.command(place, extent, 3));
            for words in measured.chain(traced) {
                let at = words
                    .iter()
                    .position(|word| word == "--")
                    .unwrap_or(words.len());
                let (before, behind) = words.split_at(at);
                let line = ["tardy"]
                    .into_iter()
                    .chain(before.iter().map(String::as_str))
                    .chain(["--out", "x"]);
                let parsed = Cli::try_parse_from(line.chain(behind.iter().map(String::as_str)));
                assert!(
                    parsed.is_ok(),
                    "{}: {}",
                    experiment.name,
                    parsed.unwrap_err()
                );
                taken += 1;
            }
        }
        assert!(taken >= 60, "{taken}");
    }
}
