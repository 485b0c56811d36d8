//! `cargo xtask prove`: runs the long checks, lane by lane. docs/proof.md records when each lane
//! last passed, on which commit. A lane is stale if code that it checks has changed since that
//! commit.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::test::{self, Tools};
use crate::{failure, program, workspace};

/// `cargo xtask prove`.
#[derive(Debug, Args)]
pub(crate) struct ProveArguments {
    /// Lanes to run [default: all]
    #[arg(value_name = "LANE")]
    lanes: Vec<String>,
    /// List the lanes and their checks, without running them
    #[arg(long, conflicts_with = "stale")]
    list: bool,
    /// List the lanes whose last proof is older than their code
    #[arg(long, conflicts_with = "lanes")]
    stale: bool,
}

/// A long check, with its row in docs/proof.md.
struct Lane {
    name: &'static str,
    about: &'static str,
    /// Files and folders whose changes make the row stale, separated by blanks.
    paths: &'static str,
    /// Files and folders in `paths` whose changes do not make it stale.
    except: &'static str,
    run: fn() -> Result<()>,
}

/// The files from which the tool is compiled.
const PRODUCT: &str = "crates Cargo.lock Cargo.toml .cargo";
/// Folders in `crates` that are not compiled into the tool.
const NO_PRODUCT: &str =
    "crates/tardy-bench crates/tardy-faults crates/tardy-fuzz crates/tardy/tests";

const LANES: &[Lane] = &[
    Lane {
        name: "documentation",
        about: "rustdoc documents every item without a warning",
        paths: "crates xtask",
        except: "crates/tardy/tests",
        run: test::documentation,
    },
    Lane {
        name: "builds",
        about: "static binaries build for x86_64, aarch64, armv7 and riscv64",
        paths: PRODUCT,
        except: NO_PRODUCT,
        run: || xtask(&["build", "x86_64", "aarch64", "armv7", "riscv64"]),
    },
    Lane {
        name: "package",
        about: "a bare Debian can install, use and remove the Debian package, and systemd can run its units",
        paths: "crates/tardy-sys packaging xtask/src/package xtask/src/package.rs docs README.md",
        except: "docs/proof.md",
        run: || xtask(&["package", "x86_64", "--check"]),
    },
    Lane {
        name: "walk",
        about: "every command of README and docs works in a bare Debian",
        paths: "docs README.md crates/tardy/src crates/tardy-report/src xtask/src/walk \
                xtask/src/walk.rs",
        except: "docs/proof.md",
        run: || xtask(&["walk"]),
    },
    Lane {
        name: "guests",
        about: "every test that boots guests passes",
        paths: "crates/tardy-lab crates/tardy-outside crates/tardy-trace \
                crates/tardy-tracer crates/tardy-probes crates/tardy-loads \
                crates/tardy-measure crates/tardy/tests/lab inject outside",
        except: "",
        run: guests,
    },
    Lane {
        name: "mutants",
        about: "`compare --why` names 20 of 20 lengthened kernel functions first, with their length",
        paths: "crates/tardy-outside crates/tardy-results/src/why.rs crates/tardy/tests/lab/why.rs \
                inject outside",
        except: "",
        run: mutants,
    },
    Lane {
        name: "golden",
        about: "the event formats of the newest kernels equal those of the golden traces",
        paths: "crates/tardy-trace/tests/golden crates/tardy-trace/tests/data/kernels \
                crates/tardy-tracer/src/events.rs xtask/src/golden.rs xtask/src/golden",
        except: "",
        run: || xtask(&["golden"]),
    },
    Lane {
        name: "faults",
        about: "tardy survives kills, full disks and failing calls (a few tries each)",
        paths: "crates/tardy-faults crates/tardy-loads crates/tardy-machine \
                crates/tardy-measure crates/tardy-remote crates/tardy-run crates/tardy/src",
        except: "",
        run: || xtask(&["faults", "--short"]),
    },
    Lane {
        name: "fleet",
        about: "deploy/ works on Slurm, labgrid and Ansible, and matches LAVA's schemas",
        paths: "deploy crates/tardy-remote crates/tardy-formats",
        except: "",
        run: || xtask(&["fleet"]),
    },
    Lane {
        name: "accessibility",
        about: "axe-core finds no fault in reports",
        paths: "crates/tardy-report crates/tardy-chart crates/tardy-browser",
        except: "",
        run: || xtask(&["accessibility"]),
    },
    Lane {
        name: "pictures",
        about: "the pictures of the documentation show today's output",
        paths: "crates/tardy-report crates/tardy-live crates/tardy-bench/src/pictures.rs \
                docs/pictures",
        except: "",
        run: || xtask(&["pictures", "--check"]),
    },
    Lane {
        name: "perfetto",
        about: "the trace for Perfetto can be read with Perfetto's published schema",
        paths: "crates/tardy-trace crates/tardy/tests/support/perfetto_schema.py \
                xtask/src/perfetto.rs",
        except: "",
        run: || xtask(&["perfetto"]),
    },
    Lane {
        name: "sanitizers",
        about: "Miri and AddressSanitizer find no fault in the crates with unsafe code",
        paths: "crates/tardy-sys crates/tardy-app",
        except: "",
        run: || xtask(&["sanitize"]),
    },
    Lane {
        name: "extend",
        about: "a copy of the tree accepts one new extension of each kind",
        paths: "xtask/extensions xtask/src/extend.rs crates/tardy-costs \
                crates/tardy-formats crates/tardy-loads crates/tardy-machine \
                crates/tardy-probes",
        except: "",
        run: || xtask(&["extend"]),
    },
    Lane {
        name: "answers",
        about: "headlines agree with their tables (15,000 results) and with the truth (200 pairs); 3,000 imports agree with another reader",
        paths: "crates/tardy-core crates/tardy-formats crates/tardy-report \
                crates/tardy-results crates/tardy/tests/answers \
                crates/tardy/tests/integration/generated_imports \
                crates/tardy/tests/integration/headline_rules \
                crates/tardy/tests/integration/headlines.rs \
                crates/tardy/tests/integration/known_pairs.rs",
        except: "",
        run: answers,
    },
    Lane {
        name: "drop-in",
        about: "`tardy cyclictest` is compared with four versions of cyclictest, option by option",
        paths: "crates/tardy/src/cli/cyclictest.rs crates/tardy/src/command/cyclictest.rs \
                crates/tardy-bench/src/drop_in crates/tardy-bench/src/drop_in.rs \
                crates/tardy-formats/src/export \
                crates/tardy-measure/src/cyclictest_words.rs",
        except: "",
        run: || xtask(&["drop-in"]),
    },
    Lane {
        name: "fuzz",
        about: "property tests pass with new cases, and each fuzz target runs for a minute",
        paths: "crates fuzz",
        except: "crates/tardy-bench crates/tardy-faults crates/tardy/tests",
        run: || xtask(&["fuzz", "--targets-for", "1m"]),
    },
];

/// Runs the task.
pub(crate) fn run(arguments: &ProveArguments) -> Result<()> {
    if arguments.list {
        for lane in LANES {
            println!("{:<14} {}", lane.name, lane.about);
        }
        return Ok(());
    }
    if arguments.stale {
        return print_stale();
    }
    let lanes = failure::chosen("lane", LANES, |lane| lane.name, &arguments.lanes)?;
    let commit = commit()?;
    let mut failed = Vec::new();
    for lane in lanes {
        eprintln!("== {}", lane.name);
        let begin = Instant::now();
        let result = (lane.run)();
        if let Err(failure) = &result {
            eprintln!("xtask: {failure}");
            failed.push(lane.name);
        }
        record(Row {
            lane: lane.name.to_owned(),
            result: if result.is_ok() { "passed" } else { "failed" }.to_owned(),
            date: program::capture(Command::new("date").args(["--utc", "+%F"]))?
                .trim()
                .to_owned(),
            commit: commit.clone(),
            minutes: begin.elapsed().as_secs().div_ceil(60).to_string(),
        })?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("failed: {}", failed.join(", "))))
}

/// Runs another task of xtask in a new process.
fn xtask(arguments: &[&str]) -> Result<()> {
    let program = std::env::current_exe().while_doing(|| "finding xtask".to_owned())?;
    program::run(
        Command::new(program)
            .args(arguments)
            .current_dir(workspace::root()),
    )
}

fn guests() -> Result<()> {
    lab_tests("binary(lab)", &[])
}

fn mutants() -> Result<()> {
    let filter = "binary(lab) & test(/^why::a_longer_function_/)";
    // 10 of each kernel.
    lab_tests(filter, &[("TARDY_TEST_MUTANTS", "10")])
}

fn lab_tests(filter: &str, variables: &[(&str, &str)]) -> Result<()> {
    crate::inject::build(&[])?;
    let tools = Tools::install()?;
    let tests = ["--ignore-default-filter", "--filterset", filter];
    tools.run(
        tools
            .nextest("run", &tests)
            .env("TARDY_TEST_REQUIRE_LAB", "1")
            .envs(variables.iter().copied()),
    )
}

fn answers() -> Result<()> {
    let tools = Tools::install()?;
    let tests = [
        "--filterset",
        "test(/^(generated_imports|headlines|known_pairs)::/)",
    ];
    tools.run(
        tools
            .nextest("run", &tests)
            .env("TARDY_TEST_HEADLINES", "10000")
            .env("TARDY_TEST_IMPORTS", "500")
            .env("TARDY_TEST_PAIRS", "200"),
    )
}

/// Returns the commit to which the result will apply. Fails if there are uncommitted changes.
fn commit() -> Result<String> {
    let changes = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ":!docs/proof.md",
    ])?;
    if !changes.is_empty() {
        return Err(Failure::new(
            "docs/proof.md must name a commit, but there are uncommitted changes: commit first",
        ));
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = program::capture(
        Command::new("git")
            .current_dir(workspace::root())
            .args(arguments),
    )?;
    Ok(output.trim().to_owned())
}

/// The last result of a lane: a row of docs/proof.md.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    lane: String,
    result: String,
    date: String,
    commit: String,
    minutes: String,
}

/// The text above the page's table.
const HEAD: &str = "\
# Proof

`cargo xtask prove` runs the checks that take too long for every change, one lane after the other.
This page records when each lane last ran. `cargo xtask prove --stale` lists the lanes whose code
has changed since their last run.

| lane | what it proves | result | date | commit | minutes |
|---|---|---|---|---|---:|
";

fn page() -> PathBuf {
    workspace::root().join("docs/proof.md")
}

fn rows() -> Result<Vec<Row>> {
    let text =
        std::fs::read_to_string(page()).while_doing(|| "reading docs/proof.md".to_owned())?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Row> {
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, lane, _, result, date, commit, minutes, _] = cells[..] else {
                return None;
            };
            LANES.iter().find(|known| known.name == lane)?;
            Some(Row {
                lane: lane.to_owned(),
                result: result.to_owned(),
                date: date.to_owned(),
                commit: commit.to_owned(),
                minutes: minutes.to_owned(),
            })
        })
        .collect()
}

/// Replaces the row of a lane.
fn record(row: Row) -> Result<()> {
    let mut rows = rows()?;
    rows.retain(|old| old.lane != row.lane);
    rows.push(row);
    std::fs::write(page(), write(&rows)).while_doing(|| "writing docs/proof.md".to_owned())
}

fn write(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for lane in LANES {
        let Some(row) = rows.iter().find(|row| row.lane == lane.name) else {
            continue;
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            lane.name, lane.about, row.result, row.date, row.commit, row.minutes
        );
    }
    text
}

fn print_stale() -> Result<()> {
    let rows = rows()?;
    let mut stale = 0;
    for lane in LANES {
        let row = rows.iter().find(|row| row.lane == lane.name);
        if let Some(reason) = staleness(lane, row)? {
            println!("stale: {:<14} {reason}", lane.name);
            stale += 1;
        }
    }
    println!("{stale} of {} lanes are stale", LANES.len());
    Ok(())
}

/// Returns why the row of a lane says nothing about the current code; `None` if it is up to date.
fn staleness(lane: &Lane, row: Option<&Row>) -> Result<Option<String>> {
    let Some(row) = row else {
        return Ok(Some("never ran".to_owned()));
    };
    if row.result != "passed" {
        return Ok(Some(format!("{} on {}", row.result, row.commit)));
    }
    let range = format!("{}..HEAD", row.commit);
    let except = lane.except.split_whitespace();
    let except: Vec<String> = except.map(|path| format!(":(exclude){path}")).collect();
    let mut arguments = vec!["rev-list", "--count", &range, "--"];
    arguments.extend(lane.paths.split(' '));
    arguments.extend(except.iter().map(String::as_str));
    let changes = git(&arguments)?;
    Ok((changes != "0").then(|| format!("{changes} changes since {}", row.commit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_proves_files_that_exist() {
        for lane in LANES {
            for path in lane.paths.split(' ').chain(lane.except.split_whitespace()) {
                assert!(
                    workspace::root().join(path).exists(),
                    "{}: {path}",
                    lane.name
                );
            }
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_replaces_the_older_one() {
        let row = |lane: &str, result: &str| Row {
            lane: lane.to_owned(),
            result: result.to_owned(),
            date: "2026-01-02".to_owned(),
            commit: "0123456789".to_owned(),
            minutes: "7".to_owned(),
        };
        let rows = vec![row("builds", "passed"), row("fuzz", "failed")];
        assert_eq!(parse(&write(&rows)), rows);
    }

    #[test]
    fn the_page_is_what_this_task_writes() {
        let text = std::fs::read_to_string(page()).unwrap();
        assert_eq!(text, write(&parse(&text)));
    }

    #[test]
    fn a_lane_is_stale_until_it_passed_on_the_last_change_of_its_code() {
        let Some(lane) = LANES.first() else {
            panic!("there are lanes")
        };
        let row = |result: &str, commit: &str| Row {
            lane: lane.name.to_owned(),
            result: result.to_owned(),
            date: String::new(),
            commit: commit.to_owned(),
            minutes: String::new(),
        };
        let stale = |row: Option<&Row>| staleness(lane, row).unwrap().is_some();
        assert!(stale(None));
        assert!(stale(Some(&row("failed", "HEAD"))));
        assert!(!stale(Some(&row("passed", "HEAD"))));
        // The first commit of all precedes any code.
        let first = git(&["rev-list", "--max-parents=0", "HEAD"]).unwrap();
        assert!(stale(Some(&row("passed", &first))));
    }
}
