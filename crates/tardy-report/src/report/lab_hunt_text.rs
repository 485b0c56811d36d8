//! The result of a hunt, as text: the longest section compared with the census and with the random
//! control, and the findings with their reproducers.

use std::path::Path;

use tardy_core::units::Nanos;
use tardy_results::lab_hunt::{Finding, LabHunt, Search};
use tardy_run::operations::Program;

use super::screen::push_wrapped;
use super::table::Table;

/// Returns the tables and their notes, in lines of at most `columns`. `out` is the hunt's folder.
#[must_use]
pub fn text(found: &LabHunt, out: &Path, columns: usize) -> String {
    let mut text = String::new();
    push_wrapped(&mut text, &headline(found), columns, (0, 2));
    let head = [
        "search",
        "programs",
        "a minute",
        "longest section",
        "of census",
        "largest latency",
        "call paths",
    ];
    let mut table = Table::new(head);
    for search in &found.searches {
        table.row([
            name(search).to_owned(),
            search.programs.to_string(),
            format!("{:.0}", search.programs_a_minute),
            longest(search).to_string(),
            ratio(longest(search), found.census_ns),
            search
                .largest_latency_ns
                .map_or_else(|| "-".to_owned(), |latency| latency.to_string()),
            search.call_paths.to_string(),
        ]);
    }
    text.push_str(&table.in_blocks(columns));
    for finding in &found.findings {
        text.push('\n');
        for line in lines(finding, out) {
            push_wrapped(&mut text, &line, columns, (0, 2));
        }
    }
    for search in found
        .searches
        .iter()
        .filter(|search| search.failed_guests > 0)
    {
        let line = format!(
            "! {} of {} guests of the {} search have no result: the files of the guests name the \
             reasons",
            search.failed_guests,
            search.guests,
            name(search)
        );
        push_wrapped(&mut text, &line, columns, (0, 2));
    }
    push_wrapped(&mut text, &found.question.meaning, columns, (0, 2));
    text
}

fn name(search: &Search) -> &'static str {
    if search.is_guided { "guided" } else { "random" }
}

fn longest(search: &Search) -> Nanos {
    let longest = search.longest.as_ref();
    longest.map_or(Nanos::ZERO, |result| result.longest_ns())
}

fn ratio(length: Nanos, base: Option<Nanos>) -> String {
    match base {
        Some(base) if base > Nanos::ZERO => {
            format!("{:.2} x", length.as_secs_f64() / base.as_secs_f64())
        }
        _ => "-".to_owned(),
    }
}

fn headline(found: &LabHunt) -> String {
    let best = found.searches.iter().max_by_key(|search| longest(search));
    let kernel = &found.question.kernel;
    let Some((best, result)) = best.and_then(|best| Some((best, best.longest.as_ref()?))) else {
        return format!("{kernel}: no program has a result");
    };
    let census = found.census_ns.map_or_else(String::new, |census| {
        format!("; the longest of the census is {census}")
    });
    format!(
        "{kernel}: the longest section is {} ({} search), while this program ran: {}{census}; \
         {} without a program",
        result.longest_ns(),
        name(best),
        result.program,
        found.idle_ns
    )
}

fn lines(finding: &Finding, out: &Path) -> Vec<String> {
    let result = &finding.result;
    let section = result.longest();
    let latency = result
        .largest_latency_ns
        .map_or_else(String::new, |latency| {
            format!(", largest latency {latency}")
        });
    let folder = out.join(&finding.folder);
    let folder = folder.display();
    let mut lines = vec![
        format!(
            "{}: section {}{latency}; {} of {} runs equal; {} when it was found",
            finding.folder,
            result.longest_ns(),
            finding.equal,
            finding.repeats,
            finding.found_ns
        ),
        reduction(finding),
    ];
    let programs = finding.reduced.iter();
    lines.extend(programs.map(|program| format!("  program  {program}")));
    lines.extend(section.map(|section| {
        format!(
            "  section  {} (begins in the task {})",
            finding.call_path, section.task
        )
    }));
    lines.push(format!(
        "  next     tardy explain {folder}/run | tardy run --scenario {folder}/scenario.toml \
         --allow operations"
    ));
    lines
}

/// Returns a line about the progress of the reduction.
fn reduction(finding: &Finding) -> String {
    let operations = |programs: &[Program]| {
        let steps = programs.iter().map(|program| program.0.len());
        steps.sum::<usize>()
    };
    let end = if finding.is_complete {
        ""
    } else {
        " (the maximum: shorter programs may exist)"
    };
    format!(
        "  reduced  from {} programs ({} operations) to {} ({}), in {} guests{end}",
        finding.found.len(),
        operations(&finding.found),
        finding.reduced.len(),
        operations(&finding.reduced),
        finding.reductions
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_outside::kind::Kind;
    use tardy_results::lab_hunt::{HuntQuestion, LongSection, ProgramResult};

    fn result(program: &str, us: i64) -> ProgramResult {
        ProgramResult {
            program: program.parse().unwrap(),
            largest_latency_ns: Some(Nanos(us * 900)),
            sections: vec![LongSection {
                kind: Kind::Blocked,
                length_ns: Nanos(us * 1000),
                begin: "begin".to_owned(),
                end: "end".to_owned(),
                task: "tardy-load-oper".to_owned(),
                path: Vec::new(),
            }],
        }
    }

    fn search(is_guided: bool, us: i64, failed_guests: u32) -> Search {
        Search {
            is_guided,
            rounds: 1,
            guests: 10,
            failed_guests,
            programs: 160,
            wall_s: 120.0,
            programs_a_minute: 80.0,
            longest: Some(result("timers=300,kill", us)),
            largest_latency_ns: Some(Nanos(us * 900)),
            call_paths: 7,
        }
    }

    #[test]
    fn the_first_line_has_the_longest_section_and_each_finding_its_reproducer() {
        let found = LabHunt {
            question: HuntQuestion {
                kernel: "6.1".to_owned(),
                package: None,
                guest: String::new(),
                seed: 1,
                guests_a_round: 10,
                programs_a_guest: 16,
                meaning: "virtual time".to_owned(),
            },
            idle_ns: Nanos(1_000_000),
            census_ns: Some(Nanos(10_000_000)),
            searches: vec![search(true, 30_000, 0), search(false, 15_000, 2)],
            findings: vec![Finding {
                call_path: "begin -> end".to_owned(),
                found: ["sleep=5,fork=9", "kill", "timers=300,kill"]
                    .map(|text| text.parse().unwrap())
                    .to_vec(),
                found_ns: Nanos(30_000_000),
                reduced: ["fork=4", "timers=150"]
                    .map(|text| text.parse().unwrap())
                    .to_vec(),
                result: result("timers=150", 29_000),
                reductions: 9,
                reductions_max: 9,
                is_complete: false,
                repeats: 3,
                equal: 3,
                folder: "findings/001".to_owned(),
            }],
        };
        let expected = "\
6.1: the longest section is 30.0 ms (guided search), while this program ran: timers=300,kill; the longest of the census is 10.0 ms; 1.00 ms without a program
search  programs  a minute  longest section  of census  largest latency  call paths
guided       160        80          30.0 ms     3.00 x          27.0 ms           7
random       160        80          15.0 ms     1.50 x          13.5 ms           7

findings/001: section 29.0 ms, largest latency 26.1 ms; 3 of 3 runs equal; 30.0 ms when it was found
reduced  from 3 programs (5 operations) to 2 (2), in 9 guests (the maximum: shorter programs may exist)
program  fork=4
program  timers=150
section  begin -> end (begins in the task tardy-load-oper)
next     tardy explain hunt/findings/001/run | tardy run --scenario hunt/findings/001/scenario.toml --allow operations
! 2 of 10 guests of the random search have no result: the files of the guests name the reasons
virtual time
";
        assert_eq!(text(&found, Path::new("hunt"), 1000), expected);
    }
}
