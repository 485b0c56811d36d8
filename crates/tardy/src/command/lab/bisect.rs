//! `tardy lab bisect`: finds the first available kernel with a delay, by testing versions instead
//! of commits.

use serde::Serialize;
use tardy_lab::bisect::{Answer, BisectResult, bisect};
use tardy_lab::kernel::{Kernel, KernelError, KernelSource, versions_between};
use tardy_lab::variant::Variant;
use tardy_report::report::table::Table;
use tardy_results::document::Format;
use tardy_results::exit::Exit;

use super::setting::{LabError, Setting};
use super::{check, request};
use crate::cli::lab::bisect::BisectArguments;
use crate::cli::lab::kernels;
use crate::command::output;

/// A kernel that was tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct TestedKernel {
    kernel: String,
    package: Option<String>,
    answer: &'static str,
    /// States what the guests of this kernel showed, such as `2 of 3 runs above 100us`.
    words: String,
    #[serde(skip)]
    place: usize,
}

/// The result of the search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Report {
    /// The first bad kernel, after the last good one; absent if GOOD is not good, or BAD is not
    /// bad.
    first_bad: Option<String>,
    last_good: Option<String>,
    /// Inconclusive kernels between the last good and the first bad one.
    passed_over: Vec<String>,
    conclusion: String,
    /// The tested kernels, in the order of versions.
    tested: Vec<TestedKernel>,
}

pub(super) fn run(arguments: &BisectArguments) -> Result<Exit, LabError> {
    request::check(&arguments.measure)?;
    let setting = Setting::new(&arguments.machine)?;
    let kernels = kernels(arguments, &setting)?;
    say!(
        "{} kernels, oldest first: {}",
        kernels.len(),
        kernels
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    );
    let mut tested = Vec::new();
    let found = bisect(kernels.len(), |place| {
        let (answer, of_kernel) = test(arguments, &setting, &kernels[place], place)?;
        say!(
            "{}: {}: {}",
            of_kernel.kernel,
            of_kernel.answer,
            of_kernel.words
        );
        tested.push(of_kernel);
        Ok::<_, LabError>(answer)
    })?;
    let report = report(&found, &kernels, tested);
    let text = if arguments.json {
        Format::LAB_BISECT.document(&report)
    } else {
        output::fitted(&text(&report))
    };
    output::print(&text).map_err(|error| LabError::Unable(error.to_string()))?;
    Ok(match found {
        BisectResult::Between { .. } => Exit::Done,
        BisectResult::FirstNotGood(Answer::CannotTell)
        | BisectResult::LastNotBad(Answer::CannotTell) => Exit::Machine,
        BisectResult::FirstNotGood(_) | BisectResult::LastNotBad(_) => Exit::Failed,
    })
}

/// Returns all kernels from GOOD to BAD, oldest first.
fn kernels(arguments: &BisectArguments, setting: &Setting) -> Result<Vec<KernelSource>, LabError> {
    let (good, bad) = (&arguments.good, &arguments.bad);
    let between = match (good, bad) {
        _ if !arguments.among.is_empty() => arguments.among.clone(),
        (KernelSource::Packaged(from), KernelSource::Packaged(to))
            if from.flavour == to.flavour =>
        {
            let [from_kernel, to_kernel] = [
                resolve(good, arguments, setting)?,
                resolve(bad, arguments, setting)?,
            ];
            let (from_version, to_version) = (version(&from_kernel), version(&to_kernel));
            versions_between(
                from.flavour,
                from_version,
                to_version,
                setting.machine.architecture,
                &setting.cache,
            )?
        }
        _ => {
            let message = "tardy knows the kernels between GOOD and BAD only if both are packages \
                           of the same flavour: name the kernels between them with --among";
            return Err(LabError::Usage(message.to_owned()));
        }
    };
    Ok(std::iter::once(good.clone())
        .chain(between)
        .chain([bad.clone()])
        .collect())
}

fn resolve(
    source: &KernelSource,
    arguments: &BisectArguments,
    setting: &Setting,
) -> Result<Kernel, KernelError> {
    kernels::resolve(
        source,
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )
}

/// Returns the version of the kernel's package.
fn version(kernel: &Kernel) -> &str {
    kernel
        .package
        .as_deref()
        .and_then(|package| package.split_once(' '))
        .map_or("", |(_, version)| version)
}

/// Tests a kernel. A kernel that cannot be fetched is inconclusive, and the search continues with
/// others.
fn test(
    arguments: &BisectArguments,
    setting: &Setting,
    source: &KernelSource,
    place: usize,
) -> Result<(Answer, TestedKernel), LabError> {
    let (answer, words, package) = match resolve(source, arguments, setting) {
        Err(error) => (Answer::CannotTell, error.to_string(), None),
        Ok(kernel) => {
            let package = kernel.package.clone();
            let variant = Variant::new(kernel, arguments.preempt.clone(), Vec::new());
            let (answer, words) = check::test(
                setting,
                &variant,
                &arguments.measure,
                arguments.replicas,
                arguments.limit,
            )?;
            (answer, words, package)
        }
    };
    let word = match answer {
        Answer::Good => "good",
        Answer::Bad => "bad",
        Answer::CannotTell => "cannot tell",
    };
    Ok((
        answer,
        TestedKernel {
            kernel: source.to_string(),
            package,
            answer: word,
            words,
            place,
        },
    ))
}

fn report(found: &BisectResult, kernels: &[KernelSource], mut tested: Vec<TestedKernel>) -> Report {
    tested.sort_by_key(|kernel| kernel.place);
    let name = |place: usize| kernels[place].to_string();
    let not = |end: &str, word: &str, place: usize| {
        format!(
            "{} is not {word}: give another kernel as {end}",
            name(place)
        )
    };
    match *found {
        BisectResult::FirstNotGood(_) => Report {
            conclusion: not("GOOD", "good", 0),
            ..Report::of(tested)
        },
        BisectResult::LastNotBad(_) => Report {
            conclusion: not("BAD", "bad", kernels.len() - 1),
            ..Report::of(tested)
        },
        BisectResult::Between { good, bad } => {
            let passed_over: Vec<String> = (good + 1..bad).map(name).collect();
            let besides = match passed_over.is_empty() {
                true => String::new(),
                false => format!("; inconclusive between them: {}", passed_over.join(", ")),
            };
            let conclusion = format!(
                "the first bad kernel is {}, the last good kernel is {}{besides}",
                name(bad),
                name(good)
            );
            Report {
                first_bad: Some(name(bad)),
                last_good: Some(name(good)),
                passed_over,
                conclusion,
                tested,
            }
        }
    }
}

impl Report {
    fn of(tested: Vec<TestedKernel>) -> Self {
        Self {
            first_bad: None,
            last_good: None,
            passed_over: Vec::new(),
            conclusion: String::new(),
            tested,
        }
    }
}

fn text(report: &Report) -> String {
    let mut table = Table::new(["kernel", "package", "", "seen"]);
    for kernel in &report.tested {
        table.row([
            &kernel.kernel,
            kernel.package.as_deref().unwrap_or("-"),
            kernel.answer,
            &kernel.words,
        ]);
    }
    format!("{}{}\n", table.text(), report.conclusion)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conclusion_names_both_sides_and_what_lies_between_them() {
        let kernels: Vec<KernelSource> = ["a", "b", "c"]
            .iter()
            .map(|name| name.parse().unwrap())
            .collect();
        let said = report(
            &BisectResult::Between { good: 0, bad: 2 },
            &kernels,
            Vec::new(),
        );
        assert_eq!(
            said.conclusion,
            "the first bad kernel is c, the last good kernel is a; inconclusive between them: b"
        );
        assert_eq!(said.passed_over, ["b"]);
        let said = report(
            &BisectResult::LastNotBad(Answer::Good),
            &kernels,
            Vec::new(),
        );
        assert_eq!(
            (said.conclusion.as_str(), said.first_bad),
            ("c is not bad: give another kernel as BAD", None)
        );
    }
}
