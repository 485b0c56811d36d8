//! `tardy lab hunt`: searches for the longest section of a kernel.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tardy_core::units::Nanos;
use tardy_lab::boot::Guest;
use tardy_lab::experiment::Shard;
use tardy_lab::guest_job::{self, GuestJob, Task};
use tardy_lab::hunt::corpus::{Idle, longest_of_paths};
use tardy_lab::hunt::folder::{GuestPlace, GuestResult, HuntFolder, HuntFolderError, KeptGuest};
use tardy_lab::hunt::guests::{GuestBench, scenario};
use tardy_lab::hunt::reduction::{Reduced, reduce};
use tardy_lab::hunt::{Bench, Choice, Hunt, NoResult};
use tardy_lab::provenance::meaning;
use tardy_lab::snapshot::Snapshots;
use tardy_lab::variant::Variant;
use tardy_lab::watch::WatchSetup;
use tardy_outside::census;
use tardy_outside::kind::Kind;
use tardy_report::report::lab_hunt_text;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::lab_hunt::{Finding, HuntQuestion, LabHunt, Search};
use tardy_run::operations::Program;
use tardy_run::request::Request;

use super::atlas::unreadable;
use super::ensemble::{SETTLE, SnapshotUse, check_snapshots};
use super::request;
use super::setting::{LabError, Setting};
use crate::cli::lab::hunt::HuntArguments;
use crate::command::output;

/// Time limit of a guest's program on the guest's clock, as for `tardy lab run`.
const TIME_LIMIT: Nanos = Nanos::from_secs(600);
/// Seed of the probes of every guest, as for `tardy lab run`: the reproducers give the same samples
/// there.
const PROBE_SEED: u64 = 1;
/// Maximum number of rounds.
const ROUNDS_MAX: u32 = 10_000;
/// Programs that only sleep.
const IDLE: [&str; 4] = ["sleep=1000", "sleep=2000", "sleep=3000", "sleep=20000"];
/// Names of files in the folder of a hunt and of a finding.
const RESULT_NAME: &str = "result.json";
const SCENARIO_NAME: &str = "scenario.toml";
const RUN_NAME: &str = "run";
/// Number of worst samples of a finding's run whose code is stored for `tardy explain`.
const WATCH_WORST: u32 = 10;

impl From<HuntFolderError> for LabError {
    fn from(error: HuntFolderError) -> Self {
        match error {
            HuntFolderError::Other { .. } => Self::Usage(error.to_string()),
            _ => Self::Unable(error.to_string()),
        }
    }
}

fn no_guest(error: &NoResult) -> LabError {
    LabError::Unable(format!("the guest has no result: {error}"))
}

pub(super) fn run(arguments: &HuntArguments) -> Result<Exit, LabError> {
    let setting = Setting::new(&arguments.machine)?;
    check_snapshots(&setting.machine, SnapshotUse::Always)?;
    let variants = arguments.kernels.variants(
        setting.machine.architecture,
        &setting.cache,
        arguments.machine.refresh,
    )?;
    let [variant] = &variants[..] else {
        return Err(LabError::Usage(format!(
            "`lab hunt` searches one kernel, not {}: give --kernel once, and --preempt with one \
             model",
            variants.len()
        )));
    };
    let watching = WatchSetup::new(
        &setting.machine,
        &setting.qemu,
        arguments.plugin.as_deref(),
        &setting.cache,
    )?;
    let snapshots = Snapshots::at(setting.cache.folder("snapshots")?);
    let asked = Request {
        seed: Some(PROBE_SEED),
        ..Request::default()
    };
    let request = request::of_scenario(request::read(asked, &[])?);
    let job_of_scenario = |scenario: String| GuestJob {
        version: guest_job::VERSION,
        task: Task::Measure(Box::new(request.clone())),
        settle: SETTLE,
        time_limit: TIME_LIMIT,
        modules: Vec::new(),
        late_modules: Vec::new(),
        loads: Vec::new(),
        injection: None,
        hand_out_symbols: false,
        scenario: Some(scenario),
    };
    let any_job = job_of_scenario(String::new());
    let guest = Guest {
        variant,
        machine: &setting.machine,
        pad: 0,
        job: &any_job,
        binary: &setting.binary,
        added: &[],
        wall_limit: arguments.wall_limit.to_std(),
        snapshots: Some(&snapshots),
        watching: Some(&watching),
    };
    let bench = GuestBench {
        guest,
        job_of_scenario: &job_of_scenario,
        qemu: &setting.qemu,
        cache: &setting.cache,
    };
    let question = question(arguments, variant, &setting, &bench)?;
    let folder = HuntFolder::open(&arguments.out, &question)?;
    let idle = idle(&folder, &bench)?;
    search(arguments, &question, &idle, &folder, &bench)?;
    if let Some(shard) = arguments.shard {
        say!(
            "shard {shard} is done: the results are in {}",
            arguments.out.display()
        );
        return Ok(Exit::Done);
    }
    let with_code = watching.clone().with_worst(WATCH_WORST);
    let with_code = GuestBench {
        guest: Guest {
            watching: Some(&with_code),
            ..bench.guest.clone()
        },
        ..bench
    };
    reduce_new(arguments, &idle, &folder, &with_code)?;
    show(arguments, question, &idle, &folder)
}

fn question(
    arguments: &HuntArguments,
    variant: &Variant,
    setting: &Setting,
    bench: &GuestBench<'_>,
) -> Result<HuntQuestion, LabError> {
    let guest = bench
        .guest
        .digest(&setting.qemu)
        .map_err(|error| LabError::Unable(format!("{}: {error}", setting.binary.display())))?;
    Ok(HuntQuestion {
        kernel: variant.name.clone(),
        package: variant.kernel.package.clone(),
        guest: guest.as_str().to_owned(),
        seed: arguments.seed,
        guests_a_round: arguments.guests,
        programs_a_guest: arguments.programs,
        meaning: meaning(&setting.machine).to_owned(),
    })
}

/// Returns the sections of a guest that runs no program.
fn idle(folder: &HuntFolder, bench: &GuestBench<'_>) -> Result<Idle, LabError> {
    if let Some(results) = folder.idle()? {
        return Ok(Idle::new(&results));
    }
    let programs: [Program; 4] = IDLE.map(|text| text.parse().expect("these are programs"));
    let results = bench.run(&programs).map_err(|error| no_guest(&error))?;
    folder.write_idle(&results)?;
    Ok(Idle::new(&results))
}

fn search(
    arguments: &HuntArguments,
    question: &HuntQuestion,
    idle: &Idle,
    folder: &HuntFolder,
    bench: &GuestBench<'_>,
) -> Result<(), LabError> {
    let choice = if arguments.random {
        Choice::Random
    } else {
        Choice::Guided
    };
    let end = Instant::now() + arguments.length.to_std();
    // The random control gets as many guests as the guided search in the same folder, if there is
    // one.
    let guided = folder.guests(Choice::Guided)?.len();
    let left = if arguments.random && guided > 0 {
        guided.saturating_sub(folder.guests(Choice::Random)?.len())
    } else {
        usize::MAX
    };
    let made = AtomicUsize::new(0);
    let shard = arguments.shard.unwrap_or(Shard::WHOLE);
    let rounds = 0..arguments.rounds.unwrap_or(ROUNDS_MAX);
    let hunt = Hunt {
        question,
        choice,
        idle,
        folder,
        bench,
        go_on: &|| Instant::now() < end && made.load(Ordering::Relaxed) < left,
        done: &|place, result| {
            made.fetch_add(1, Ordering::Relaxed);
            tell(place, result);
        },
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    hunt.run(
        rounds.filter(|round| shard.has(*round as usize)),
        arguments.jobs.unwrap_or(cpus),
    )?;
    Ok(())
}

/// Prints a line about a guest.
fn tell(place: GuestPlace, result: &GuestResult) {
    let GuestPlace { round, guest } = place;
    match &result.results {
        Err(error) => say!("round {round}, guest {guest}: {error}"),
        Ok(results) => {
            let longest = results.iter().max_by_key(|result| result.longest_ns());
            if let Some(longest) = longest {
                say!(
                    "round {round}, guest {guest}: {} in {}",
                    longest.longest_ns(),
                    longest.program
                );
            }
        }
    }
}

/// Reduces the longest section of each call path for which there is no finding yet.
fn reduce_new(
    arguments: &HuntArguments,
    idle: &Idle,
    folder: &HuntFolder,
    bench: &GuestBench<'_>,
) -> Result<(), LabError> {
    let guests = folder.guests(Choice::Guided)?;
    let results = guests.iter().map(|guest| &guest.result);
    let mut findings = folder.findings()?;
    let known: BTreeSet<String> = findings
        .iter()
        .map(|finding| finding.call_path.clone())
        .collect();
    let mut left = arguments.findings;
    for found in longest_of_paths(results, idle) {
        if left == 0 {
            break;
        }
        let call_path = found.section.call_path();
        if known.contains(&call_path) {
            continue;
        }
        left -= 1;
        say!("reducing: {} in {call_path}", found.section.length_ns);
        let reduced = reduce(&found, arguments.reductions, bench);
        let name = folder.next_finding(findings.len());
        let path = folder.path().join(&name);
        let equal = repeat(&reduced, bench, &path, arguments.repeats)?;
        let finding = Finding {
            call_path,
            found: found.programs.to_vec(),
            found_ns: found.section.length_ns,
            reduced: reduced.programs,
            result: reduced.result,
            reductions: reduced.guests,
            reductions_max: arguments.reductions,
            is_complete: reduced.is_complete,
            repeats: arguments.repeats,
            equal,
            folder: name,
        };
        folder.write_finding(&finding)?;
        say!(
            "{}: {}, {} of {} runs are equal",
            finding.folder,
            finding.result.longest_ns(),
            finding.equal,
            finding.repeats
        );
        findings.push(finding);
    }
    Ok(())
}

/// Runs a reproducer `repeats` times, and keeps its scenario and its first run in `folder`. Returns
/// the number of runs that agree with the first run in all results and samples, and contain the
/// result of the reduction.
fn repeat(
    reduced: &Reduced,
    bench: &GuestBench<'_>,
    folder: &Path,
    repeats: u32,
) -> Result<u32, LabError> {
    let run = folder.join(RUN_NAME);
    // A killed hunt may have left a run.
    if run.exists() {
        std::fs::remove_dir_all(&run).map_err(|error| unreadable(&run, &error))?;
    }
    std::fs::create_dir_all(folder).map_err(|error| unreadable(folder, &error))?;
    let path = folder.join(SCENARIO_NAME);
    std::fs::write(&path, scenario(&reduced.programs))
        .map_err(|error| unreadable(&path, &error))?;
    let first = bench
        .run_in(&reduced.programs, &run)
        .map_err(|error| no_guest(&error))?;
    let mut equal = u32::from(first.0.contains(&reduced.result));
    for _ in 1..repeats {
        let again = bench.cache.scratch("hunt")?;
        let result = bench.run_in(&reduced.programs, again.path());
        equal += u32::from(result.as_ref() == Ok(&first) && first.0.contains(&reduced.result));
    }
    Ok(equal)
}

/// Prints the result and stores it in the folder.
fn show(
    arguments: &HuntArguments,
    question: HuntQuestion,
    idle: &Idle,
    folder: &HuntFolder,
) -> Result<Exit, LabError> {
    let mut searches = Vec::new();
    for choice in [Choice::Guided, Choice::Random] {
        let guests = folder.guests(choice)?;
        if !guests.is_empty() {
            searches.push(summary(choice, &guests, idle));
        }
    }
    let result = LabHunt {
        census_ns: arguments
            .census
            .as_deref()
            .map(|census| longest_of_census(census, &question.kernel))
            .transpose()?,
        question,
        idle_ns: idle.longest_ns(),
        searches,
        findings: folder.findings()?,
    };
    let document = Format::LAB_HUNT.document(&result);
    let path = folder.path().join(RESULT_NAME);
    output::replace(&path, |mut file| {
        std::io::Write::write_all(&mut file, document.as_bytes())
    })
    .map_err(|error| unreadable(&path, &error))?;
    let text = if arguments.json {
        document
    } else {
        let columns = output::screen_or_page().columns;
        output::fitted(&lab_hunt_text::text(&result, &arguments.out, columns))
    };
    output::print(&text)
        .map_err(|error| LabError::Unable(format!("cannot write the result: {error}")))?;
    let failed = result.searches.iter().all(|search| search.programs == 0);
    Ok(if failed { Exit::Machine } else { Exit::Done })
}

fn summary(choice: Choice, guests: &[KeptGuest], idle: &Idle) -> Search {
    let results = || {
        guests
            .iter()
            .flat_map(|guest| guest.result.results.iter().flatten())
    };
    let rounds: BTreeSet<u32> = guests.iter().map(|guest| guest.place.round).collect();
    let wall_s = guests
        .iter()
        .map(|guest| guest.wall)
        .sum::<Duration>()
        .as_secs_f64();
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let programs = count(results().count());
    Search {
        is_guided: choice == Choice::Guided,
        rounds: count(rounds.len()),
        guests: count(guests.len()),
        failed_guests: count(
            guests
                .iter()
                .filter(|guest| guest.result.results.is_err())
                .count(),
        ),
        programs,
        wall_s,
        programs_a_minute: if wall_s > 0.0 {
            f64::from(programs) * 60.0 / wall_s
        } else {
            0.0
        },
        longest: results().max_by_key(|result| result.longest_ns()).cloned(),
        largest_latency_ns: results()
            .filter_map(|result| result.largest_latency_ns)
            .max(),
        call_paths: count(longest_of_paths(guests.iter().map(|guest| &guest.result), idle).len()),
    }
}

/// Returns the longest section of a kernel in a census.
fn longest_of_census(folder: &Path, kernel: &str) -> Result<Nanos, LabError> {
    let census =
        census::census(folder).map_err(|error| LabError::Usage(format!("--census: {error}")))?;
    let groups = census.groups.iter().filter(|group| group.variant == kernel);
    let longest = groups.map(|group| group.kinds[Kind::Blocked.index()].longest_ns);
    longest.max().ok_or_else(|| {
        LabError::Usage(format!(
            "--census: {} has no sections of {kernel}: make a census of the same kernel and model",
            folder.display()
        ))
    })
}
