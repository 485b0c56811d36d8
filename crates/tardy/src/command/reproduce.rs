//! `tardy reproduce`: runs each experiment of a paper with this binary's own commands, as a user
//! would, then tests the paper's claims on the run folders.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tardy_papers::claim::{Paper, papers};
use tardy_papers::experiment::Experiment;
use tardy_report::report::reproduce_figures::drawn;
use tardy_report::report::{reproduce_html, reproduce_text};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::reproduce::measured::why_file;
use tardy_results::reproduce::reproduce;
use tardy_sys::child;

use super::{folder_name, output};
use crate::cli::reproduce::ReproduceArgs;

/// How an experiment ended.
enum ExperimentEnd {
    /// The experiment has runs, from now or from before.
    Done,
    /// The experiment could not run on this machine.
    Refused,
    /// The user stopped the experiment.
    Interrupted,
}

/// Runs the command.
#[must_use]
pub fn run(args: &ReproduceArgs) -> Exit {
    let papers: Vec<Paper> = papers()
        .into_iter()
        .filter(|paper| args.paper.means(paper.name))
        .collect();
    if args.dry_run {
        return output::print(&commands(&papers, args)).map_or(Exit::Machine, |()| Exit::Done);
    }
    let out = args.out.clone().unwrap_or_else(folder_name::by_time);
    match all(&papers, args, &out) {
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

fn commands(papers: &[Paper], args: &ReproduceArgs) -> String {
    let experiments = papers.iter().flat_map(|paper| &paper.experiments);
    let line = |experiment: &Experiment| {
        let words = experiment.command(args.place(), args.extent(), args.replicas())?;
        Some(format!(
            "{}: {}\n",
            experiment.name,
            tardy_results::reproduce::typed(&words)
        ))
    };
    experiments.filter_map(line).collect()
}

fn all(papers: &[Paper], args: &ReproduceArgs, out: &Path) -> io::Result<Exit> {
    if !args.report_only {
        fs::create_dir_all(out)?;
    }
    let mut exit = Exit::Done;
    for experiment in papers
        .iter()
        .flat_map(|paper| &paper.experiments)
        .filter(|_| !args.report_only)
    {
        match one(experiment, args, out)? {
            ExperimentEnd::Done => {}
            ExperimentEnd::Refused => exit = Exit::Machine,
            ExperimentEnd::Interrupted => {
                exit = Exit::Interrupted;
                break;
            }
        }
    }
    let found = reproduce(papers, out, args.place(), args.extent(), args.replicas());
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

/// Runs one experiment. Its folder gets its final name when it is complete.
fn one(experiment: &Experiment, args: &ReproduceArgs, out: &Path) -> io::Result<ExperimentEnd> {
    let folder = out.join(&experiment.name);
    let Some(words) = experiment.command(args.place(), args.extent(), args.replicas()) else {
        return Ok(ExperimentEnd::Done);
    };
    if folder.exists() {
        return Ok(ExperimentEnd::Done);
    }
    let part = out.join(format!("{}.part", experiment.name));
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    if !args.quiet {
        say!(
            "{}: {}",
            experiment.name,
            tardy_results::reproduce::typed(&words)
        );
    }
    let (code, said) = start(&words, &part, args.quiet)?;
    let why = why_file(out, &experiment.name);
    match code {
        Some(130) | None => Ok(ExperimentEnd::Interrupted),
        // If some guests failed, the runs of the others are kept.
        Some(0 | 1 | 4) => fs::rename(&part, &folder).map(|()| ExperimentEnd::Done),
        Some(3) if part.exists() && has_run(&part) => {
            fs::rename(&part, &folder).map(|()| ExperimentEnd::Refused)
        }
        Some(code) => {
            let said = said.unwrap_or_else(|| format!("the command ended with exit code {code}"));
            output::replace(&why, |mut file| file.write_all(said.as_bytes()))?;
            Ok(ExperimentEnd::Refused)
        }
    }
}

fn has_run(folder: &Path) -> bool {
    tardy_run::folder::folders(folder)
        .iter()
        .any(|run| run.join("run.json").exists())
}

/// Starts this binary with `words`. Passes its messages on, and returns its exit code and its last
/// error message.
fn start(words: &[String], out: &Path, quiet: bool) -> io::Result<(Option<i32>, Option<String>)> {
    let program: PathBuf = std::env::current_exe()?;
    // Arguments for the program in the guest follow `--`.
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

    /// Without this test, a mistake in the table of experiments would show only after minutes.
    /// Tests in [`crate::command::lab`] check the commands for guests.
    #[test]
    fn every_experiment_is_a_command_that_this_tool_takes() {
        let mut taken = 0;
        for experiment in papers().iter().flat_map(|paper| &paper.experiments) {
            let cases = [Place::Local, Place::Lab]
                .into_iter()
                .flat_map(|place| [(place, Extent::Quick), (place, Extent::Full)]);
            for words in cases.filter_map(|(place, extent)| experiment.command(place, extent, 3)) {
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
