//! `tardy lab app`: runs a user's program on kernels x preemption models x loads, and shows the
//! results in a table.
//!
//! The guests are the cells of an atlas: they start from the snapshot of their kernel, and are
//! kept.

use std::os::unix::fs::symlink;
use std::path::Path;

use tardy_core::units::Nanos;
use tardy_lab::atlas::index::Grid;
use tardy_lab::atlas::{self, CellResult, Index};
use tardy_lab::guest::launcher;
use tardy_lab::guest_job::{self, APP_NAME, App, AppCommand, GuestJob, OUTPUT_FOLDER, Task};
use tardy_lab::packing::{Packed, pack};
use tardy_lab::provenance::meaning;
use tardy_report::report::lab_app_text;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_results::lab_app::{AppInput, AppQuestion, GuestInput, JudgedBy, LabApp};
use tardy_run::request::Request;
use tardy_run::tracing::ExplainLevel;

use super::atlas::{Order, rows, unreadable};
use super::ensemble::SETTLE;
use super::request::{self, NO_LOAD, first_work};
use super::setting::{LabError, Setting};
use crate::cli::lab::app::AppArguments;
use crate::command::output;

/// Memory that a guest needs in addition to its files, in MiB: for the kernel, for tardy, and for
/// the buffers of the kernel's trace.
const MEMORY_MIB: u64 = 160;

pub(super) fn run(arguments: &AppArguments) -> Result<Exit, LabError> {
    if arguments.kernels.0.0.is_empty() {
        return Err(LabError::Usage(
            "name the kernels with --kernel, as in --kernel debian:6.1 --kernel debian:6.1-rt"
                .to_owned(),
        ));
    }
    let loads = match arguments.load.as_slice() {
        [] => vec![NO_LOAD.to_owned()],
        loads => loads.to_vec(),
    };
    for load in &loads {
        request_of(arguments, load, Vec::new())?;
    }
    let setting = Setting::new(&arguments.machine)?;
    let packed = pack(
        &arguments.program,
        &arguments.file,
        setting.machine.architecture,
    )?;
    check_memory(&packed, setting.machine.memory_mib)?;
    let judged_by = if packed.has_calls && !arguments.attach {
        JudgedBy::Calls
    } else {
        JudgedBy::Attach
    };
    let command = command(arguments, &packed)?;
    let (variants, absent) = rows(&setting, &arguments.kernels.0, arguments.machine.refresh);
    if variants.is_empty() {
        return Err(LabError::Unable("no kernel can be run".to_owned()));
    }
    let job_of_cell = |load: &str, _| GuestJob {
        version: guest_job::VERSION,
        task: match judged_by {
            JudgedBy::Attach => Task::App(attached(arguments, load, &command)),
            JudgedBy::Calls => {
                let request = request_of(arguments, load, launcher(&command));
                Task::Measure(Box::new(request.expect("the loads were checked above")))
            }
        },
        settle: SETTLE,
        time_limit: arguments.time_limit,
        modules: Vec::new(),
        late_modules: Vec::new(),
        loads: match judged_by {
            JudgedBy::Attach => loads_of(load),
            JudgedBy::Calls => Vec::new(),
        },
        injection: None,
        hand_out_symbols: false,
        scenario: None,
    };
    let grid = Grid {
        variants,
        absent,
        loads,
        replicas: arguments.replicas,
        length: arguments.length,
        arguments: arguments.arguments.clone(),
    };
    let order = Order {
        job_of_cell: &job_of_cell,
        added: &packed.files,
        pad_of_replica: |replica| replica,
        wall_limit: arguments.wall_limit,
        jobs: arguments.jobs,
        shard: arguments.shard,
        out: &arguments.out,
    };
    let index = order.make(&setting, grid)?;
    let question = AppQuestion {
        program: arguments.program.clone(),
        arguments: arguments.arguments.clone(),
        judged_by,
        deadline_ns: arguments.deadline,
        misses_allowed: arguments.misses,
        files: packed.files.len(),
        file_bytes: packed.bytes,
        replicas: arguments.replicas,
        meaning: meaning(&setting.machine).to_owned(),
    };
    let input = input(&index, question, &arguments.out)?;
    if let Some(shard) = arguments.shard {
        say!(
            "shard {shard} is done: the results of {} of {} guests are in {}",
            input.guests.len(),
            index.cells(),
            arguments.out.display()
        );
        return Ok(Exit::Done);
    }
    let table = LabApp::new(&input);
    let text = if arguments.json {
        Format::LAB_APP.document(&table)
    } else {
        let columns = output::screen_or_page().columns;
        output::fitted(&lab_app_text::text(&table, &arguments.out, columns))
    };
    output::print(&text)
        .map_err(|error| LabError::Unable(format!("cannot write the table: {error}")))?;
    Ok(table.exit())
}

/// Refuses files that leave the guest too little memory, because a booting guest has both the
/// archive and the unpacked files in memory.
fn check_memory(packed: &Packed, memory_mib: u32) -> Result<(), LabError> {
    let needed = MEMORY_MIB + 2 * (packed.bytes >> 20);
    if needed <= u64::from(memory_mib) {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "the {} files of the program have {} MiB, which is too much for a guest with {memory_mib} \
         MiB of memory: give the guest more, as in --memory {}",
        packed.files.len(),
        packed.bytes >> 20,
        needed.next_multiple_of(128)
    )))
}

fn command(arguments: &AppArguments, packed: &Packed) -> Result<AppCommand, LabError> {
    let folder = std::env::current_dir()
        .map_err(|error| LabError::Unable(format!("the current folder cannot be read: {error}")))?;
    Ok(AppCommand {
        path: packed.program.clone(),
        name: arguments.program.clone(),
        arguments: arguments.arguments.clone(),
        folder: folder.display().to_string(),
    })
}

/// Returns the loads of a column that run at the same time.
fn loads_of(column: &str) -> Vec<String> {
    let loads = column.split('+');
    loads
        .filter(|load| !load.is_empty() && *load != NO_LOAD)
        .map(str::to_owned)
        .collect()
}

/// Returns the guest's task: the program runs, and `tardy attach` measures it.
fn attached(arguments: &AppArguments, load: &str, command: &AppCommand) -> App {
    let loads = loads_of(load);
    let started = first_work(&loads).map_or(Nanos::ZERO, |(_, needed)| needed);
    let words = [
        ("--for", arguments.length.to_string()),
        ("--deadline", arguments.deadline.to_string()),
        ("--out", OUTPUT_FOLDER.to_owned()),
    ];
    let misses = arguments
        .misses
        .map(|misses| ("--misses", misses.to_string()));
    App {
        command: command.clone(),
        warm_up: arguments.warm_up.max(started),
        attach: words
            .into_iter()
            .chain(misses)
            .flat_map(|(option, value)| [option.to_owned(), value])
            .collect(),
    }
}

/// Returns the request for `tardy run`, which starts the program and measures the cycles that the
/// program reports by its calls.
fn request_of(
    arguments: &AppArguments,
    load: &str,
    program: Vec<String>,
) -> Result<Request, LabError> {
    let loads = loads_of(load);
    // A third of the run is idle.
    let started = first_work(&loads).map_or(0, |(_, needed)| needed.get() / 2 * 3);
    let asked = Request {
        length: Some(arguments.length.max(Nanos(started))),
        loads: if loads.is_empty() {
            vec![NO_LOAD.to_owned()]
        } else {
            loads
        },
        misses: arguments.misses,
        explain: ExplainLevel::Events,
        program,
        ..Request::default()
    };
    let deadline = ["--deadline".to_owned(), arguments.deadline.to_string()];
    request::read(asked, &deadline)
}

/// Reads the existing cells, and gives each a name that people can read.
fn input(index: &Index, question: AppQuestion, out: &Path) -> Result<AppInput, LabError> {
    let grid = &index.grid;
    let mut guests = Vec::new();
    for (kernel, variant) in grid.variants.iter().enumerate() {
        for replica in 0..grid.replicas {
            for (load, (name, key)) in index.cells_of(kernel, replica).enumerate() {
                let result = match atlas::cell(out, key) {
                    CellResult::Absent => continue,
                    CellResult::Run(path) => Ok(path),
                    CellResult::Failed(failure) => Err(failure.cause.to_string()),
                };
                let mut folder = format!("{}/{}", variant.name, name.replace('/', "_"));
                if grid.replicas > 1 {
                    folder.push_str(&format!("/replica-{replica:03}"));
                }
                link(&out.join(&folder), &atlas::cell_folder(out, key))?;
                guests.push(GuestInput {
                    kernel,
                    load,
                    replica,
                    folder,
                    result,
                });
            }
        }
    }
    let kernels = grid.variants.iter();
    Ok(AppInput {
        question,
        kernels: kernels
            .map(|variant| (variant.name.clone(), variant.kernel.package.clone()))
            .collect(),
        absent: grid.absent.clone(),
        loads: grid.loads.clone(),
        guests,
        output: APP_NAME,
    })
}

/// Makes `path` a link to a cell, relative to the link, so that the whole folder can be moved.
fn link(path: &Path, cell: &Path) -> Result<(), LabError> {
    let failed = |error| unreadable(path, &error);
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(failed)?;
    let out = cell.parent().and_then(Path::parent).unwrap_or(cell);
    let above = parent.strip_prefix(out).unwrap_or(parent).components();
    let mut target = std::path::PathBuf::new();
    above.for_each(|_| target.push(".."));
    target.push(cell.strip_prefix(out).unwrap_or(cell));
    if std::fs::read_link(path).is_ok_and(|there| there == target) {
        return Ok(());
    }
    // An earlier command with this folder may have made a link to another cell.
    std::fs::remove_file(path).ok();
    symlink(&target, path).map_err(failed)
}
