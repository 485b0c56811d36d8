//! `tardy lab atlas`: makes a table of kernels (rows) and loads (columns). Each cell is measured
//! once and kept.

use std::collections::BTreeMap;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_lab::atlas::index::Grid;
use tardy_lab::atlas::{self, CellResult, Cells, GroupEnd, Index, Maker, Shard};
use tardy_lab::guest_job::{self, GuestJob, Task};
use tardy_lab::initramfs::AddedFile;
use tardy_lab::models;
use tardy_lab::provenance::meaning;
use tardy_lab::snapshot::Snapshots;
use tardy_lab::variant::{Variant, make_names_unique};
use tardy_report::report::{atlas_html, atlas_text};
use tardy_results::atlas::{Atlas, AtlasInput, CellFailure, CellInput, KernelInput};
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::request::Request;

use super::ensemble::{SETTLE, SnapshotUse, check_snapshots};
use super::request;
use super::setting::{LabError, Setting};
use crate::cli::lab::atlas::AtlasArguments;
use crate::cli::lab::kernels::KernelArguments;
use crate::command::output;

/// Default columns: loads that take different paths through the kernel, and run in any guest.
const LOADS: [&str; 12] = [
    "none",
    "memory",
    "memory:free=munmap",
    "memory:free=munmap:pages=system",
    "procfs",
    "io",
    "fork",
    "mmap-lock",
    "hackbench",
    "thp",
    "reclaim",
    "timers",
];

/// Names of files in the atlas's folder: the numbers of the tables as JSON, and the report.
const NUMBERS_NAME: &str = "atlas.json";
const REPORT_NAME: &str = "atlas.html";

pub(super) fn run(arguments: &AtlasArguments) -> Result<Exit, LabError> {
    if arguments.kernels.0.0.is_empty() {
        let index =
            Index::read(&arguments.out).map_err(|error| unreadable(&arguments.out, &error))?;
        let none = || {
            LabError::Usage(format!(
                "{} holds no atlas: name the kernels of a new one with --kernel",
                arguments.out.display()
            ))
        };
        return show(&index.ok_or_else(none)?, arguments);
    }
    check_loads(arguments)?;
    let setting = Setting::new(&arguments.machine)?;
    let (variants, absent) = rows(&setting, &arguments.kernels.0, arguments.machine.refresh);
    let index = make(&setting, variants, absent, arguments, |replica| replica)?;
    if let Some(shard) = arguments.shard {
        let there = input(&index, &arguments.out).cells.len();
        say!(
            "shard {shard} is done: {there} of {} cells are in {}",
            index.cells(),
            arguments.out.display()
        );
        return Ok(Exit::Done);
    }
    show(&index, arguments)
}

fn loads(arguments: &AtlasArguments) -> Vec<String> {
    if arguments.load.is_empty() {
        LOADS.map(str::to_owned).to_vec()
    } else {
        arguments.load.clone()
    }
}

/// Checks the loads before the first boot, because an invalid load would otherwise be noticed only
/// after a boot.
pub(in crate::command) fn check_loads(arguments: &AtlasArguments) -> Result<(), LabError> {
    loads(arguments)
        .iter()
        .try_for_each(|load| request_of(arguments, load).map(drop))
}

/// Measures the missing cells of these rows.
pub(in crate::command) fn make(
    setting: &Setting,
    variants: Vec<Variant>,
    absent: Vec<(String, String)>,
    arguments: &AtlasArguments,
    pad_of_replica: fn(u32) -> u32,
) -> Result<Index, LabError> {
    let loads = loads(arguments);
    let requests: BTreeMap<&str, Request> = loads
        .iter()
        .map(|load| Ok((load.as_str(), request_of(arguments, load)?)))
        .collect::<Result<_, LabError>>()?;
    let job_of_cell = |load: &str, replica: u32| GuestJob {
        version: guest_job::VERSION,
        task: Task::Measure(Box::new(Request {
            seed: Some(arguments.seed.wrapping_add(u64::from(replica))),
            ..requests[load].clone()
        })),
        settle: SETTLE,
        time_limit: arguments.time_limit,
        modules: Vec::new(),
        late_modules: Vec::new(),
        loads: Vec::new(),
        injection: None,
        hand_out_symbols: false,
        scenario: None,
    };
    let grid = Grid {
        variants,
        absent,
        loads: loads.clone(),
        replicas: arguments.replicas,
        length: arguments.length,
        arguments: arguments.arguments.clone(),
    };
    let order = Order {
        job_of_cell: &job_of_cell,
        added: &[],
        pad_of_replica,
        wall_limit: arguments.wall_limit,
        jobs: arguments.jobs,
        shard: arguments.shard,
        out: &arguments.out,
    };
    order.make(setting, grid)
}

/// How the guests of a grid are run, and where their cells are stored.
pub(super) struct Order<'a> {
    /// Returns the guest's job for a load and a replica.
    pub(super) job_of_cell: &'a (dyn Fn(&str, u32) -> GuestJob + Sync),
    /// Further files for all guests.
    pub(super) added: &'a [AddedFile],
    pub(super) pad_of_replica: fn(u32) -> u32,
    pub(super) wall_limit: Nanos,
    pub(super) jobs: Option<usize>,
    pub(super) shard: Option<Shard>,
    pub(super) out: &'a Path,
}

impl Order<'_> {
    /// Runs the guests of all missing cells, each from the snapshot of its kernel.
    pub(super) fn make(&self, setting: &Setting, grid: Grid) -> Result<Index, LabError> {
        check_snapshots(&setting.machine, SnapshotUse::Always)?;
        std::fs::create_dir_all(self.out).map_err(|error| unreadable(self.out, &error))?;
        let snapshots = Snapshots::at(setting.cache.folder("snapshots")?);
        let cells = Cells {
            machine: &setting.machine,
            job_of_cell: self.job_of_cell,
            binary: &setting.binary,
            added: self.added,
            wall_limit: self.wall_limit.to_std(),
            snapshots: &snapshots,
            pad_of_replica: self.pad_of_replica,
        };
        let index = Index::new(grid, &setting.qemu, &cells)
            .map_err(|error| LabError::Unable(error.to_string()))?;
        index.write(self.out)?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let maker = Maker {
            index: &index,
            cells: &cells,
            folder: self.out,
            jobs: self.jobs.unwrap_or(cpus),
            cache: &setting.cache,
            shard: self.shard.unwrap_or(Shard::WHOLE),
        };
        maker
            .run(&setting.qemu, &|end| tell(&index, end))
            .map_err(|error| LabError::Unable(error.to_string()))?;
        Ok(index)
    }
}

/// Returns the request for the guests in a load's column.
fn request_of(arguments: &AtlasArguments, load: &str) -> Result<Request, LabError> {
    let loads = load.split('+').filter(|load| !load.is_empty());
    let asked = Request {
        length: Some(arguments.length),
        loads: loads.map(str::to_owned).collect(),
        seed: Some(arguments.seed),
        ..Request::default()
    };
    request::read(asked, &arguments.arguments)
}

/// Returns a variant for each kernel and preemption model. Also returns the kernels that are left
/// out because they cannot be fetched or booted, each with the reason.
pub(super) fn rows(
    setting: &Setting,
    kernels: &KernelArguments,
    refresh: bool,
) -> (Vec<Variant>, Vec<(String, String)>) {
    let (mut rows, mut absent) = (Vec::new(), Vec::new());
    for argument in &kernels.0 {
        let row = |kernel, model| Variant::new(kernel, model, argument.words.clone());
        let found = argument
            .kernel(setting.machine.architecture, &setting.cache, refresh)
            .map_err(|error| error.to_string());
        let with_models = found.and_then(|kernel| {
            let models = match argument.preemption.is_empty() {
                false => argument.preemption.clone(),
                true => models::models(
                    &kernel,
                    &setting.machine,
                    &setting.qemu,
                    &setting.binary,
                    &setting.cache,
                )
                .map_err(|failure| failure.cause.to_string())?,
            };
            Ok((kernel, models))
        });
        match with_models {
            Ok((kernel, models)) if models.is_empty() => rows.push(row(kernel, None)),
            Ok((kernel, models)) => rows.extend(
                models
                    .into_iter()
                    .map(|model| row(kernel.clone(), Some(model))),
            ),
            Err(why) => {
                say!("tardy: {} is left out: {why}", argument.source);
                absent.push((argument.source.to_string(), why));
            }
        }
    }
    make_names_unique(&mut rows);
    (rows, absent)
}

/// Prints a line for the measured cells of a group, and a line for each failed cell.
fn tell(index: &Index, end: &GroupEnd) {
    let name = format!(
        "{} replica {}",
        index.grid.variants[end.variant].name, end.replica
    );
    if end.made > 0 {
        say!(
            "{name}: {} cells in {:.1} s",
            end.made,
            end.wall.as_secs_f64()
        );
    }
    for (load, failure) in &end.failures {
        say!("{name} under {load}: {}", failure.cause);
    }
}

/// Prints the tables and writes the report. A missing cell makes the atlas incomplete.
fn show(index: &Index, arguments: &AtlasArguments) -> Result<Exit, LabError> {
    let folder = &arguments.out;
    let atlas = Atlas::new(input(index, folder));
    let json = Format::LAB_ATLAS.document(&atlas);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        output::replace(&path, |mut file| {
            std::io::Write::write_all(&mut file, text.as_bytes())
        })
        .map_err(|error| unreadable(&path, &error))
    };
    write(NUMBERS_NAME, &json)?;
    write(REPORT_NAME, &atlas_html::page(&atlas))?;
    let text = match (arguments.json, arguments.markdown) {
        (true, _) => json,
        (_, true) => atlas_text::markdown(&atlas),
        _ => output::fitted(&atlas_text::text(&atlas, output::screen_or_page().columns)),
    };
    output::print(&text)
        .map_err(|error| LabError::Unable(format!("cannot write the tables: {error}")))?;
    say!("report: {}", folder.join(REPORT_NAME).display());
    let (there, all) = atlas.complete();
    Ok(if there < all || !atlas.absent.is_empty() {
        Exit::Machine
    } else {
        Exit::Done
    })
}

/// Reads the existing cells.
pub(in crate::command) fn input(index: &Index, folder: &Path) -> AtlasInput {
    let grid = &index.grid;
    let mut cells = Vec::new();
    for kernel in 0..grid.variants.len() {
        for replica in 0..grid.replicas {
            for (load, (_, key)) in index.cells_of(kernel, replica).enumerate() {
                match atlas::cell(folder, key) {
                    CellResult::Absent => {}
                    CellResult::Run(path) => cells.push(CellInput {
                        kernel,
                        load,
                        result: Ok(path),
                    }),
                    CellResult::Failed(failure) => {
                        let failure = CellFailure {
                            words: failure.cause.to_string(),
                            is_of_kernel: failure.says_of_the_kernel(),
                        };
                        cells.push(CellInput {
                            kernel,
                            load,
                            result: Err(failure),
                        });
                    }
                }
            }
        }
    }
    let kernel = |variant: &Variant| KernelInput {
        name: variant.name.clone(),
        package: variant.kernel.package.clone(),
        words: variant.words.clone(),
    };
    AtlasInput {
        meaning: meaning(&index.machine).to_owned(),
        kernels: grid.variants.iter().map(kernel).collect(),
        absent: grid.absent.clone(),
        loads: grid.loads.clone(),
        replicas: grid.replicas,
        cells,
    }
}

pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> LabError {
    LabError::Unable(format!(
        "{}: {error}: give another folder with --out",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::cli::Command;
    use crate::cli::lab::LabCommand;

    #[test]
    fn guests_can_be_told_of_every_usual_load() {
        let cli = Cli::try_parse_from([
            "tardy", "lab", "atlas", "--out", "x", "--kernel", "y", "--", "--period", "500us",
        ])
        .unwrap();
        let Command::Lab(lab) = cli.command else {
            panic!("another command")
        };
        let LabCommand::Atlas(arguments) = &lab.command else {
            panic!("another command")
        };
        for load in LOADS.into_iter().chain(["io+fork"]) {
            request_of(arguments, load).unwrap();
        }
        assert!(request_of(arguments, "nosuch").is_err());
        let request = request_of(arguments, "io+fork").unwrap();
        assert_eq!(request.loads, ["io", "fork"]);
        assert_eq!(request.period.map(Nanos::get), Some(500_000));
    }
}
