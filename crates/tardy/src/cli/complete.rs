//! Shell completion of values: names of loads, probes, scenarios and kernels, and folders of runs.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use tardy_lab::cache::Cache;
use tardy_lab::kernel;
use tardy_loads::load::LOADS;
use tardy_loads::load::composite::COMPOSITES;
use tardy_measure::scenario::built_in;
use tardy_probes::probe::PROBES;

/// Kernels from Debian's package sources that are offered in addition to those fetched before.
const KERNELS: [&str; 4] = ["6.1", "6.1-rt", "6.12", "6.12-rt"];

/// Adds the completion of values to the command's arguments.
#[must_use]
pub fn with_values(command: Command) -> Command {
    command
        .mut_args(|arg| match completer(&arg) {
            Some(completer) => arg.add(completer),
            None => arg,
        })
        .mut_subcommands(with_values)
}

fn completer(arg: &Arg) -> Option<ArgValueCompleter> {
    let value = arg.get_value_names().and_then(<[_]>::first);
    let value = value.map_or("", |value| value.as_str());
    match arg.get_id().as_str() {
        "load" | "loads" | "allow" => return Some(names_after_commas(loads)),
        "probe" => {
            return Some(ArgValueCompleter::new(|typed: &OsStr| {
                named(typed, probes())
            }));
        }
        "scenario" => {
            return Some(ArgValueCompleter::new(|typed: &OsStr| {
                let names = built_in::names().map(|name| (name.to_owned(), String::new()));
                or_files(typed, names.collect())
            }));
        }
        _ => {}
    }
    match value {
        "KERNEL" => Some(ArgValueCompleter::new(|typed: &OsStr| {
            or_files(typed, kernels())
        })),
        _ if arg.is_positional() && value.split('|').any(|part| part == "RUN") => {
            Some(ArgValueCompleter::new(PathCompleter::any().filter(is_run)))
        }
        _ => None,
    }
}

/// A name, and a line that describes it.
type ValueName = (String, String);

fn loads() -> Vec<ValueName> {
    let simple = LOADS.iter().map(|load| (load.name, load.does));
    let composite = COMPOSITES.iter().map(|load| (load.name, load.does));
    let all = simple.chain(composite);
    all.map(|(name, about)| (name.to_owned(), about.to_owned()))
        .collect()
}

fn probes() -> Vec<ValueName> {
    let named =
        |probe: &&tardy_probes::probe::ProbeInfo| (probe.name.to_owned(), probe.about.to_owned());
    PROBES.iter().map(named).collect()
}

fn kernels() -> Vec<ValueName> {
    let fetched = Cache::of_user().and_then(|cache| kernel::pinned(&cache));
    let fetched = fetched.unwrap_or_default();
    // Bash splits words at colons, and `6.1` is short for `debian:6.1`.
    let short = |name: &str| name.trim_start_matches("debian:").to_owned();
    let mut names: Vec<String> = fetched.iter().map(|kernel| short(&kernel.source)).collect();
    names.extend(KERNELS.map(str::to_owned));
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| (name, String::new()))
        .collect()
}

/// Returns the names that start with the typed text.
fn named(typed: &OsStr, names: Vec<ValueName>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let candidate = |(name, about): ValueName| {
        let about = (!about.is_empty()).then(|| about.into());
        CompletionCandidate::new(name).help(about)
    };
    let names = names.into_iter();
    names
        .filter(|(name, _)| name.starts_with(&*typed))
        .map(candidate)
        .collect()
}

fn or_files(typed: &OsStr, names: Vec<ValueName>) -> Vec<CompletionCandidate> {
    let mut found = named(typed, names);
    found.extend(PathCompleter::any().complete(typed));
    found
}

/// Completes the last name of a comma-separated list.
fn names_after_commas(names: fn() -> Vec<ValueName>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let (before, last) = match typed.rfind(',') {
            Some(comma) => typed.split_at(comma + 1),
            None => ("", &*typed),
        };
        let found = named(last.as_ref(), names());
        found
            .into_iter()
            .map(|candidate| candidate.add_prefix(before))
            .collect::<Vec<_>>()
    })
}

fn is_run(path: &Path) -> bool {
    path.join("run.json").is_file()
}
