//! `tardy tune --search --lab`: compares words of the kernel's command line, and other kernels,
//! with the unmodified first kernel, in virtual time. The runs are cells of an atlas, so an
//! interrupted search can be resumed.

use std::collections::BTreeMap;
use std::io::Write;

use tardy_core::units::Nanos;
use tardy_lab::variant::{Variant, make_names_unique};
use tardy_report::report::date::compact;
use tardy_report::report::tune_lab_text;
use tardy_results::atlas::{Atlas, AtlasCell};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::output_file;
use tardy_statistics::confidence::Confidence;
use tardy_tune::boot::TRIED;
use tardy_tune::effects::{Effect, effects, replicas_min};
use tardy_tune::lab_answer::{Answer, MissingKernels, OfLoad, Row};
use tardy_tune::question::BEST;
use tardy_tune::setting::{Setting, Settings};

use super::error::TuneError;
use crate::cli::lab::atlas::{AtlasArguments, OptionalKernels};
use crate::cli::tune::{Goal, TuneArgs};
use crate::command::{lab, output};

/// The loads of abeni2002, one at a time. Two of them are only for machines without a user at the
/// console.
const LOADS: [&str; 6] = ["memory", "caps-lock", "console", "io", "procfs", "fork"];
const ALLOWED: [&str; 2] = ["caps-lock", "console"];
const LENGTH: Nanos = Nanos::from_secs(3);
const WALL_LIMIT: Nanos = Nanos::from_secs(900);
const TIME_LIMIT: Nanos = Nanos::from_secs(600);
const ALL: &str = "all that lower the metric";
const ANSWER: &str = "result.json";

pub(super) fn search(args: &TuneArgs) -> Result<Exit, TuneError> {
    let goal = match args.goal {
        None | Some(Goal::Max) => Goal::Max,
        Some(goal @ Goal::Quantile(0.999)) => goal,
        Some(goal) => {
            return Err(TuneError::Usage(format!(
                "--goal {goal}: in the lab, the goal must be max or 99.9"
            )));
        }
    };
    let mut arguments = arguments(args);
    lab::atlas::check_loads(&arguments)?;
    let setting = lab::Setting::new(&arguments.machine)?;
    let (variants, absent) = variants(args, &setting)?;
    let tests = (variants.len() - 1) * arguments.load.len();
    let needed = replicas_min(tests, Confidence::NINETY_FIVE);
    arguments.replicas = args.lab_search.replicas.unwrap_or(needed + 1);
    if arguments.replicas < needed {
        let message = format!(
            "--replicas {}: too few to decide on {tests} effects together: give at least {needed}",
            arguments.replicas
        );
        return Err(TuneError::Usage(message));
    }
    say!(
        "tardy: {} settings under {} loads, in {} replicas: {} guests (the unchanged kernel \
         included), kept in {}",
        variants.len() - 1,
        arguments.load.len(),
        arguments.replicas,
        variants.len() * arguments.load.len() * arguments.replicas as usize,
        arguments.out.display()
    );
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let atlas = cells(&setting, variants.clone(), absent, &arguments)?;
    let mut answer = answer(&atlas, &variants, goal, &arguments);
    if let Some(together) = all_that_lower(&answer, &variants) {
        say!(
            "tardy: next, a run with all parameters that lower the metric: {}",
            together.words.join(" ")
        );
        let variants = [variants[0].clone(), together];
        let atlas = cells(&setting, variants.to_vec(), Vec::new(), &arguments)?;
        answer.together = rows(&atlas, &variants, goal).pop().map(|row| Row {
            name: ALL.to_owned(),
            ..row
        });
    }
    finish(&answer, args.json, &arguments)
}

/// Returns the arguments of the guests' measurement. The caller sets the number of replicas later.
fn arguments(args: &TuneArgs) -> AtlasArguments {
    let lab = &args.lab_search;
    let mut arguments = args.command.clone();
    let mut load = args.load.clone();
    if load.is_empty() {
        load = LOADS.map(str::to_owned).to_vec();
        arguments.extend(["--allow".to_owned(), ALLOWED.join(",")]);
    }
    AtlasArguments {
        kernels: OptionalKernels::default(),
        machine: lab.machine.clone(),
        load,
        replicas: 0,
        length: args.length.unwrap_or(LENGTH),
        seed: args.seed,
        shard: None,
        jobs: lab.jobs,
        wall_limit: WALL_LIMIT,
        time_limit: TIME_LIMIT,
        out: args.out.clone().unwrap_or_else(|| {
            format!("search-{}", compact(Nanos(tardy_sys::clock::realtime()))).into()
        }),
        json: args.json,
        markdown: false,
        arguments,
    }
}

/// Returns the variants: the unmodified first kernel, then this kernel with each word, then the
/// other kernels. Also returns the kernels that cannot be fetched.
fn variants(
    args: &TuneArgs,
    setting: &lab::Setting,
) -> Result<(Vec<Variant>, MissingKernels), TuneError> {
    let lab = &args.lab_search;
    let found = lab.kernels.0.variants_there(
        setting.machine.architecture,
        &setting.cache,
        lab.machine.refresh,
    );
    let (kernels, absent) = found.map_err(lab::LabError::from)?;
    let words: Vec<String> = if lab.word.is_empty() {
        TRIED.map(str::to_owned).to_vec()
    } else {
        lab.word.clone()
    };
    let mut variants = vec![kernels[0].clone()];
    variants.extend(
        words
            .iter()
            .map(|word| with_words(&kernels[0], word.split_whitespace())),
    );
    variants.extend(kernels.into_iter().skip(1));
    make_names_unique(&mut variants);
    Ok((
        variants,
        absent
            .into_iter()
            .map(|(kernel, error)| (kernel, error.to_string()))
            .collect(),
    ))
}

/// Returns `base` with these words added. A preemption model is stored separately from other words,
/// because the kernel must confirm it.
fn with_words<'a>(base: &Variant, words: impl Iterator<Item = &'a str>) -> Variant {
    let (mut model, mut all) = (base.preemption.clone(), base.words.clone());
    for word in words {
        match word.strip_prefix("preempt=") {
            Some(asked) => model = Some(asked.to_owned()),
            None => all.push(word.to_owned()),
        }
    }
    Variant::new(base.kernel.clone(), model, all)
}

/// Returns the padding of a replica. Replicas with similar paddings have nearly the same layout of
/// the kernel's data, and so nearly the same largest latencies. The paddings are therefore far
/// apart.
fn pad(replica: u32) -> u32 {
    (replica + 1) * 37
}

fn cells(
    setting: &lab::Setting,
    variants: Vec<Variant>,
    absent: MissingKernels,
    arguments: &AtlasArguments,
) -> Result<Atlas, TuneError> {
    let index = lab::atlas::make(setting, variants, absent, arguments, pad)?;
    Ok(Atlas::new(lab::atlas::input(&index, &arguments.out)))
}

fn answer(atlas: &Atlas, variants: &[Variant], goal: Goal, arguments: &AtlasArguments) -> Answer {
    let as_it_is = atlas.cells[0]
        .iter()
        .map(|cell| of_runs(cell, goal).to_vec())
        .collect();
    Answer {
        meaning: atlas.meaning.clone(),
        base: variants[0].name.clone(),
        release: atlas.kernels[0].release.clone(),
        goal: goal.to_string(),
        length_ns: arguments.length,
        replicas: arguments.replicas,
        confidence: 1.0 - Confidence::NINETY_FIVE.miss(),
        loads: atlas.loads.clone(),
        as_it_is_ns: as_it_is,
        settings: rows(atlas, variants, goal),
        together: None,
        absent: atlas.absent.clone(),
    }
}

fn of_runs(cell: &AtlasCell, goal: Goal) -> &[Nanos] {
    match (&cell.numbers, goal) {
        (None, _) => &[],
        (Some(numbers), Goal::Max) => &numbers.max_of_runs_ns,
        (Some(numbers), Goal::Quantile(_)) => &numbers.p999_of_runs_ns,
    }
}

/// Compares each row except the first with the first row.
fn rows(atlas: &Atlas, variants: &[Variant], goal: Goal) -> Vec<Row> {
    let logarithms = |cell: &AtlasCell| {
        of_runs(cell, goal)
            .iter()
            .map(|value| (value.get().max(1) as f64).ln())
            .collect::<Vec<f64>>()
    };
    let of_row = |row: &Vec<AtlasCell>| row.iter().map(logarithms).collect::<Vec<_>>();
    let with: Vec<Vec<Vec<f64>>> = atlas.cells[1..].iter().map(of_row).collect();
    let found = effects(&of_row(&atlas.cells[0]), &with, Confidence::NINETY_FIVE);
    let base = &variants[0];
    let row = |(place, effects): (usize, &Vec<Option<Effect>>)| {
        let variant = &variants[place + 1];
        let mut words = variant.command_line_words();
        words.retain(|word| !base.command_line_words().contains(word));
        let is_same_kernel = variant.kernel.digest == base.kernel.digest;
        let cells = &atlas.cells[place + 1];
        let loads = atlas
            .loads
            .iter()
            .zip(cells)
            .zip(effects)
            .map(|((load, cell), effect)| of_load(load, cell, effect.as_ref(), goal));
        Row {
            name: if is_same_kernel {
                words.join(" ")
            } else {
                variant.name.clone()
            },
            words,
            loads: loads.collect(),
        }
    };
    found.iter().enumerate().map(row).collect()
}

fn of_load(load: &str, cell: &AtlasCell, effect: Option<&Effect>, goal: Goal) -> OfLoad {
    let interval = effect
        .map(|effect| effect.difference.interval)
        .filter(|interval| interval.is_finite());
    OfLoad {
        load: load.to_owned(),
        goal_ns: of_runs(cell, goal).to_vec(),
        outcome: effect.map(|effect| effect.outcome),
        factor: effect.map(|effect| effect.difference.value.exp()),
        factor_interval: interval.map(|interval| [interval.lower.exp(), interval.upper.exp()]),
        failures: cell
            .failures
            .iter()
            .map(|failure| failure.words.clone())
            .collect(),
    }
}

/// Returns a variant of the first kernel, with all words that lower the metric under some load and
/// raise it under none. Of several words for the same parameter, the best is used. `None` for fewer
/// than two words.
fn all_that_lower(answer: &Answer, variants: &[Variant]) -> Option<Variant> {
    let mut best: BTreeMap<&str, (usize, &Row)> = BTreeMap::new();
    for (place, row) in answer.settings.iter().enumerate() {
        if row.words.is_empty()
            || !row.lowers()
            || row.raises()
            || variants[place + 1].kernel.digest != variants[0].kernel.digest
        {
            continue;
        }
        let key = row.words[0].split('=').next().unwrap_or_default();
        if best
            .get(key)
            .is_none_or(|(_, other)| row.gain() < other.gain())
        {
            best.insert(key, (place, row));
        }
    }
    let mut rows: Vec<(usize, &Row)> = best.into_values().collect();
    rows.sort_by_key(|(place, _)| *place);
    let words = rows
        .iter()
        .flat_map(|(_, row)| &row.words)
        .map(String::as_str);
    (rows.len() > 1).then(|| with_words(&variants[0], words))
}

/// Stores and prints the answer. A failed cell or a missing kernel makes the answer incomplete.
fn finish(answer: &Answer, is_json: bool, arguments: &AtlasArguments) -> Result<Exit, TuneError> {
    let json = Format::TUNE_LAB.document(answer);
    let put = |name: &str, bytes: &[u8]| {
        let path = arguments.out.join(name);
        output_file::replace(&path, |mut file| file.write_all(bytes))
            .map_err(|error| TuneError::Machine(format!("{}: {error}", path.display())))
    };
    put(ANSWER, json.as_bytes())?;
    let setting = |row: &Row| Setting {
        name: row.name.clone(),
        why: String::new(),
        files: BTreeMap::new(),
        while_on: Vec::new(),
        words: row.words.clone(),
        only_named: false,
    };
    let is_useful = |row: &&Row| row.lowers() && !row.raises() && !row.words.is_empty();
    let useful = Settings {
        settings: answer
            .settings
            .iter()
            .filter(is_useful)
            .map(setting)
            .collect(),
    };
    put(
        BEST,
        useful
            .to_toml()
            .map_err(|error| TuneError::Machine(error.to_string()))?
            .as_bytes(),
    )?;
    let text = if is_json {
        json
    } else {
        output::fitted(&tune_lab_text::text(
            answer,
            &arguments.out.join(BEST),
            output::screen_or_page().columns,
        ))
    };
    output::print(&text).map_err(|error| TuneError::Machine(error.to_string()))?;
    let is_incomplete = answer
        .settings
        .iter()
        .flat_map(|row| &row.loads)
        .any(|load| !load.failures.is_empty());
    Ok(if is_incomplete || !answer.absent.is_empty() {
        Exit::Machine
    } else {
        Exit::Done
    })
}
