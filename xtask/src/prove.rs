//! `cargo xtask prove`: runs the long checks, lane by lane. docs/proof.md records when each lane
//! last passed, on which commit. A lane is stale if code that it checks has changed since that
//! commit.

use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::failure::{Failure, Result, While};
use crate::test::{self, Tools};
use crate::{failure, outcomes, program, table_page::TablePage, workspace};

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
    /// Files and folders, separated by blanks. If one of them changes, the row is stale.
    paths: &'static str,
    /// Files and folders within `paths` whose changes do not make the row stale.
    except: &'static str,
    run: fn() -> Result<()>,
}

const PAGE: &str = "docs/proof.md";
/// The text by which the page shows that a lane passed.
const PASSED: &str = "passed";
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
        name: "outcomes",
        about: "builds with the profiles release and dist give every claim of the papers the same outcome",
        paths: "crates/tardy-papers crates/tardy-results/src/reproduce.rs \
                crates/tardy-results/src/reproduce crates/tardy-lab crates/tardy-probes \
                crates/tardy-loads",
        except: "",
        run: outcomes::run,
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
        name: "fuzz",
        about: "property tests pass with new cases, and each fuzz target runs for a minute",
        paths: "crates fuzz",
        except: "crates/tardy-bench crates/tardy-faults crates/tardy/tests",
        run: || xtask(&["fuzz", "--targets-for", "60"]),
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
        let order: Vec<&str> = LANES.iter().map(|lane| lane.name).collect();
        TablePage::read(PAGE)?.set(
            &[
                lane.name.to_owned(),
                lane.about.to_owned(),
                if result.is_ok() { PASSED } else { "failed" }.to_owned(),
                program::date()?,
                commit.clone(),
                begin.elapsed().as_secs().div_ceil(60).to_string(),
            ],
            &order,
        )?;
    }
    failure::unless_empty("failed: ", &failed)
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
    // For each kernel, 10 mutants are tested.
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

/// Returns the commit for which the result will be recorded. Fails if there are uncommitted
/// changes.
fn commit() -> Result<String> {
    let status = "status --porcelain --untracked-files=no -- :!docs/proof.md";
    let changes = git(&status.split(' ').collect::<Vec<_>>())?;
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

fn print_stale() -> Result<()> {
    let page = TablePage::read(PAGE)?;
    let rows = page.rows();
    let mut stale = 0;
    for lane in LANES {
        let row = rows.iter().find(|row| row[0] == lane.name);
        if let Some(reason) = staleness(lane, row.map_or(&[][..], Vec::as_slice))? {
            println!("stale: {:<14} {reason}", lane.name);
            stale += 1;
        }
    }
    println!("{stale} of {} lanes are stale", LANES.len());
    Ok(())
}

/// Returns why a lane's row does not hold for the current code; `None` if the row is up to date.
fn staleness(lane: &Lane, row: &[&str]) -> Result<Option<String>> {
    let &[_, _, result, _, commit, _] = row else {
        return Ok(Some("never ran".to_owned()));
    };
    if result != PASSED {
        return Ok(Some(format!("{result} on {commit}")));
    }
    let range = format!("{commit}..HEAD");
    let except = lane.except.split_whitespace();
    let except: Vec<String> = except.map(|path| format!(":(exclude){path}")).collect();
    let mut arguments = vec!["rev-list", "--count", &range, "--"];
    arguments.extend(lane.paths.split(' '));
    arguments.extend(except.iter().map(String::as_str));
    let changes = git(&arguments)?;
    Ok((changes != "0").then(|| format!("{changes} changes since {commit}")))
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
    fn rows_of_the_page_describe_lanes_in_their_order() {
        let page = TablePage::read(PAGE).unwrap();
        let mut lanes = LANES.iter();
        for row in page.rows() {
            let lane = lanes.find(|lane| lane.name == row[0]);
            assert_eq!(lane.map(|lane| lane.about), Some(row[1]), "{}", row[0]);
            assert_eq!(row.len(), 6, "{row:?}");
        }
    }

    #[test]
    fn a_lane_is_stale_until_it_passed_on_the_last_change_of_its_code() {
        let lane = &LANES[0];
        let stale = |result: &str, commit: &str| {
            let row = [lane.name, lane.about, result, "2026-01-02", commit, "7"];
            staleness(lane, &row).unwrap().is_some()
        };
        assert!(staleness(lane, &[]).unwrap().is_some());
        assert!(stale("failed", "HEAD"));
        assert!(!stale("passed", "HEAD"));
        // The repository's first commit contains no code, so any code is newer than it.
        let first = git(&["rev-list", "--max-parents=0", "HEAD"]).unwrap();
        assert!(stale("passed", &first));
    }
}
