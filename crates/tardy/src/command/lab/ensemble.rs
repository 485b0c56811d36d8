//! Runs all guests of a measurement, and collects their outcomes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tardy_core::units::Nanos;
use tardy_core::verdict::requirement::Requirement;
use tardy_lab::architecture::Architecture;
use tardy_lab::comparison::{Comparison, RunResult};
use tardy_lab::experiment::{Experiment, Outcome, Shard};
use tardy_lab::guest_job::{self, GuestJob, Task};
use tardy_lab::initramfs::AddedFile;
use tardy_lab::injection::{MODULE_NAME, MODULE_PATH};
use tardy_lab::kernel;
use tardy_lab::machine::{Accelerator, Machine};
use tardy_lab::provenance::meaning;
use tardy_lab::snapshot::Snapshots;
use tardy_lab::variant::Variant;
use tardy_lab::watch::WatchSetup;
use tardy_results::exit::Exit;
use tardy_results::summary::summarize::summarize;
use tardy_run::request::Request;
use tardy_sys::regular_file;

use super::load_files::LoadFiles;
use super::progress::Progress;
use super::request;
use super::setting::{LabError, Setting};
use crate::cli::lab::{MeasureArguments, RunArguments};
use crate::command::output;

/// Default of --watch-worst: for this many of the worst samples of each phase, a watched guest
/// stores the executed code.
const WATCH_WORST: u32 = 10;

/// Pause of a guest after its boot, in which the kernel's background work ends.
pub(super) const SETTLE: Nanos = Nanos::from_secs(1);

/// Refuses a folder that has content, because old and new runs in one folder would look like one
/// experiment.
pub(super) fn refuse_used_folder(folder: &Path) -> Result<(), LabError> {
    match std::fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(LabError::Usage(format!(
            "{} is not empty: give another folder with --out",
            folder.display()
        ))),
        _ => Ok(()),
    }
}

/// The number of guests, and the condition under which no more are needed.
#[derive(Clone, Copy)]
pub(super) struct Ensemble<'a> {
    /// Number of guests per variant.
    pub(super) replicas: u32,
    /// The part of the guests that this machine runs.
    pub(super) shard: Shard,
    /// Whether each guest runs twice.
    pub(super) verify_repeatable: bool,
    /// Returns whether an outcome settles the result, so that no further guest is needed.
    pub(super) is_decided: &'a (dyn Fn(&Outcome) -> bool + Sync),
}

impl Ensemble<'_> {
    /// Makes an ensemble of the requested replicas. All guests of the requested shard run, whatever
    /// their outcomes.
    pub(super) fn of(arguments: &RunArguments) -> Self {
        let shard = arguments.shard.unwrap_or(Shard::WHOLE);
        Self {
            shard,
            ..Self::all(arguments.replicas, arguments.verify_repeatable)
        }
    }

    /// Makes an ensemble of this many replicas. All guests run, whatever their outcomes.
    pub(super) fn all(replicas: u32, verify_repeatable: bool) -> Self {
        Self {
            replicas,
            shard: Shard::WHOLE,
            verify_repeatable,
            is_decided: &|_| false,
        }
    }
}

/// Reports that a shard of an experiment is complete. The variants are compared only after all
/// shards are complete.
pub(super) fn print_shard(shard: Shard, guests: usize, out: &Path) -> Result<(), LabError> {
    let out = out.display();
    let text = format!(
        "shard {shard}: {guests} guests in {out}; when all shards are done: tardy show {out}\n"
    );
    output::print(&text).map_err(|error| LabError::Unable(format!("cannot write: {error}")))
}

/// Runs the measurement that the arguments request, in every replica of every variant.
pub(super) fn run_all(
    setting: &Setting,
    variants: &[Variant],
    measure: &MeasureArguments,
    ensemble: Ensemble<'_>,
    out: &Path,
) -> Result<Vec<Outcome>, LabError> {
    let task = request::task(measure)?;
    run_task(setting, variants, measure, &task, ensemble, out)
}

/// Runs `task` in every replica of every variant.
pub(super) fn run_task(
    setting: &Setting,
    variants: &[Variant],
    measure: &MeasureArguments,
    task: &Task,
    ensemble: Ensemble<'_>,
    out: &Path,
) -> Result<Vec<Outcome>, LabError> {
    check_modules(variants, measure)?;
    let has_loads = matches!(task, Task::Measure(_)) || measure.program.is_some();
    let needs = if has_loads {
        LoadFiles::of(setting, variants, &request::loads(measure)?)
    } else {
        LoadFiles::default()
    };
    let modules = modules_of_variants(setting, variants, measure, &needs.modules)?;
    let asked = modules_of_variants(setting, variants, measure, &[])?;
    let (lines, asked) = (lines_of_modules(&modules)?, lines_of_modules(&asked)?);
    let (asked, of_loads): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| asked.contains(line));
    let scenario = request::scenario_file(measure)
        .map(std::fs::read_to_string)
        .transpose()
        .map_err(|error| LabError::Usage(format!("the scenario cannot be read: {error}")))?;
    let job_of_replica = |replica: u32| GuestJob {
        version: guest_job::VERSION,
        task: of_replica(task, replica),
        settle: SETTLE,
        time_limit: measure.time_limit,
        late_modules: of_loads.clone(),
        modules: asked
            .iter()
            .cloned()
            .chain(measure.inject.iter().map(|_| MODULE_PATH.to_owned()))
            .collect(),
        loads: if measure.program.is_some() {
            measure.load.clone()
        } else {
            Vec::new()
        },
        injection: measure.inject,
        hand_out_symbols: false,
        scenario: scenario.clone(),
    };
    let added = |variant: &Variant| {
        let module = module_of(variant, measure).map(|source| AddedFile {
            source,
            path: MODULE_PATH.trim_start_matches('/').to_owned(),
            executable: false,
        });
        let modules = modules[&variant.name]
            .iter()
            .map(|module| module.file.clone());
        measure
            .add
            .iter()
            .map(|add| add.0.clone())
            .chain(needs.programs.iter().cloned())
            .chain(modules)
            .chain(module)
            .collect()
    };
    if measure.snapshots {
        check_snapshots(&setting.machine, SnapshotUse::Asked)?;
    }
    let snapshots = if measure.snapshots {
        Some(Snapshots::at(setting.cache.folder("snapshots")?))
    } else {
        None
    };
    let watching = match measure.watch {
        true => {
            let watching = WatchSetup::new(
                &setting.machine,
                &setting.qemu,
                measure.plugin.as_deref(),
                &setting.cache,
            )?;
            Some(watching.with_worst(measure.watch_worst.unwrap_or(WATCH_WORST)))
        }
        false => None,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let experiment = Experiment {
        variants,
        machine: &setting.machine,
        replicas: ensemble.replicas,
        shard: ensemble.shard,
        twice: ensemble.verify_repeatable,
        job_of_replica: &job_of_replica,
        binary: &setting.binary,
        added: &added,
        wall_limit: measure.wall_limit.to_std(),
        jobs: measure.jobs.unwrap_or(cores),
        cache: &setting.cache,
        snapshots: snapshots.as_ref(),
        watching: watching.as_ref(),
        out,
        is_decided: ensemble.is_decided,
    };
    let guests = experiment.guests();
    // The folder may contain guests of other shards.
    if let Some(there) = guests
        .iter()
        .map(|guest| experiment.folder(*guest))
        .find(|folder| folder.exists())
    {
        return Err(LabError::Usage(format!(
            "{} exists already: give another folder with --out",
            there.display()
        )));
    }
    let progress = Progress::new(guests.len());
    Ok(experiment.run(
        &setting.qemu,
        &|variant, replica, folder| progress.began(variant, replica, folder),
        &|outcome| progress.ended(&variants[outcome.variant], outcome),
    ))
}

/// A kernel module to load: one given with `--module`, or one that such a module needs.
struct LoadedModule {
    file: AddedFile,
    parameters: String,
}

impl LoadedModule {
    /// Returns the module's line in the guest's job.
    fn line(&self) -> String {
        let line = format!("/{} {}", self.file.path, self.parameters);
        line.trim_end().to_owned()
    }
}

/// Returns, by the name of each variant, the modules that --module and loads ask for, with the
/// modules that these need, in the order in which the guest loads them.
fn modules_of_variants(
    setting: &Setting,
    variants: &[Variant],
    measure: &MeasureArguments,
    of_loads: &[&str],
) -> Result<BTreeMap<String, Vec<LoadedModule>>, LabError> {
    let names: Vec<&str> = measure
        .module
        .iter()
        .filter(|module| module.file.is_none())
        .map(|module| module.name.as_str())
        .chain(of_loads.iter().copied())
        .collect();
    let plain = |name: &str| name.replace('-', "_");
    let of = |variant: &Variant| -> Result<_, LabError> {
        let files = if names.is_empty() {
            Vec::new()
        } else {
            kernel::modules(&variant.kernel, &names, &setting.cache)?
        };
        let loaded = |source: PathBuf| {
            let name = source
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let asked = measure
                .module
                .iter()
                .find(|module| plain(&module.name) == plain(&name));
            let file = AddedFile {
                source,
                path: format!("lib/{name}.ko"),
                executable: false,
            };
            LoadedModule {
                file,
                parameters: asked
                    .map(|module| module.parameters.clone())
                    .unwrap_or_default(),
            }
        };
        let own = measure
            .module
            .iter()
            .filter_map(|module| module.file.clone());
        for file in own.clone() {
            check_module_file(&file, variant)?;
        }
        // A driver from the user is loaded after the modules of the package, because it may need
        // them.
        Ok((
            variant.name.clone(),
            files.into_iter().chain(own).map(loaded).collect(),
        ))
    };
    variants.iter().map(of).collect()
}

/// Checks that the file is a module for the variant's kernel. Without this check, a module for
/// another kernel would be noticed only after a boot.
fn check_module_file(file: &Path, variant: &Variant) -> Result<(), LabError> {
    let refused = |why: String| LabError::Usage(format!("--module {}: {why}", file.display()));
    let content = regular_file::read(file, kernel::MODULE_BYTES_MAX)
        .map_err(|error| refused(error.to_string()))?;
    match (
        kernel::release_of_module(&content),
        variant.kernel.release(),
    ) {
        (None, _) => Err(refused(
            "this is not a kernel module: give an uncompressed .ko file".to_owned(),
        )),
        (Some(of_module), Some(release)) if of_module != release => Err(refused(format!(
            "the module is for the kernel {of_module}, but {} is {release}: build the module for \
             that release",
            variant.name
        ))),
        _ => Ok(()),
    }
}

/// Returns the lines for modules in the guests' jobs. Refuses modules whose lines differ between
/// variants.
fn lines_of_modules(
    modules: &BTreeMap<String, Vec<LoadedModule>>,
) -> Result<Vec<String>, LabError> {
    let mut variants = modules.iter().map(|(name, modules)| {
        (
            name,
            modules.iter().map(LoadedModule::line).collect::<Vec<_>>(),
        )
    });
    let Some((first, lines)) = variants.next() else {
        return Ok(Vec::new());
    };
    match variants.find(|(_, others)| *others != lines) {
        None => Ok(lines),
        Some((other, _)) => {
            let message = format!(
                "the modules given with --module have different dependencies on {other} and on \
                 {first}: run the kernels one by one"
            );
            Err(LabError::Usage(message))
        }
    }
}

/// Compares the variants, from their run folders.
pub(super) fn compare(setting: &Setting, variants: &[Variant], outcomes: &[Outcome]) -> Comparison {
    let summary = |outcome: &Outcome| {
        // A user's program makes no run folder that could be compared.
        if !outcome.folder.join("run.json").exists() {
            return Ok(None);
        }
        summarize(&outcome.folder, &Requirement::default())
            .map(Some)
            .map_err(|error| error.to_string())
    };
    Comparison::new(meaning(&setting.machine), variants, outcomes, &summary)
}

/// Returns the task with the seed of this replica.
fn of_replica(task: &Task, replica: u32) -> Task {
    match task {
        Task::Measure(request) => Task::Measure(Box::new(Request {
            seed: request.seed.map(|seed| seed.wrapping_add(replica.into())),
            ..(**request).clone()
        })),
        other => other.clone(),
    }
}

fn module_of(variant: &Variant, measure: &MeasureArguments) -> Option<PathBuf> {
    measure.inject?;
    Some(
        measure
            .inject_modules
            .as_ref()?
            .join(variant.kernel.release()?)
            .join(MODULE_NAME),
    )
}

/// Why a command uses snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SnapshotUse {
    /// The user gave --snapshots.
    Asked,
    /// The command always uses snapshots, and has no such option.
    Always,
}

/// Refuses snapshots of machines that do not resume from their saved state.
pub(super) fn check_snapshots(machine: &Machine, of: SnapshotUse) -> Result<(), LabError> {
    if machine.accelerator == Accelerator::Kvm {
        let text = match of {
            SnapshotUse::Asked => {
                "--snapshots repeats runs exactly, which KVM cannot do: leave out --snapshots or \
                 --accel kvm"
            }
            SnapshotUse::Always => {
                "this command starts guests from snapshots, which KVM cannot repeat exactly: \
                 leave out --accel kvm"
            }
        };
        return Err(LabError::Usage(text.to_owned()));
    }
    // Seen with QEMU 7.2 and Linux 6.12: the guest resumes, but its timers never fire again.
    if machine.architecture == Architecture::Riscv64 {
        let advice = match of {
            SnapshotUse::Asked => "leave out --snapshots",
            SnapshotUse::Always => "this command needs the saved state, so give a different --arch",
        };
        return Err(LabError::Unable(format!(
            "QEMU does not save the timer of a riscv64 machine with the machine's state: {advice}"
        )));
    }
    Ok(())
}

/// Checks before the first boot that the module of --inject exists for each kernel.
fn check_modules(variants: &[Variant], measure: &MeasureArguments) -> Result<(), LabError> {
    if measure.inject.is_none() {
        return Ok(());
    }
    for variant in variants {
        let name = &variant.name;
        match module_of(variant, measure) {
            Some(module) if module.is_file() => {}
            Some(module) => {
                let message = format!(
                    "{}: there is no module for {name}: build it with `cargo xtask inject`",
                    module.display()
                );
                return Err(LabError::Usage(message));
            }
            None => {
                return Err(LabError::Usage(format!(
                    "{name} does not state its release, so no module can be chosen for it"
                )));
            }
        }
    }
    Ok(())
}

/// Returns the exit code. If a guest has no result, the exit code is that of an incomplete
/// comparison, even if a repetition of another guest differed.
pub(super) fn code<'a>(mut runs: impl Iterator<Item = &'a RunResult> + Clone) -> Exit {
    if runs.clone().any(|run| run.failure.is_some()) {
        Exit::Machine
    } else if runs.any(|run| run.repeated == Some(false)) {
        Exit::Failed
    } else {
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_lab::machine::InstructionShift;
    use tardy_results::exit::Exit;

    #[test]
    fn modules_that_need_others_on_another_kernel_are_refused_with_both_names() {
        let module = |name: &str, parameters: &str| {
            let file = AddedFile {
                source: "x".into(),
                path: format!("lib/{name}.ko"),
                executable: false,
            };
            LoadedModule {
                file,
                parameters: parameters.to_owned(),
            }
        };
        let of = |second: Vec<LoadedModule>| {
            let first = vec![
                module("snd", ""),
                module("snd_dummy", "hrtimer=0 fake_buffer=1"),
            ];
            lines_of_modules(&[("6.1".to_owned(), first), ("6.12".to_owned(), second)].into())
        };
        let same = of(vec![
            module("snd", ""),
            module("snd_dummy", "hrtimer=0 fake_buffer=1"),
        ])
        .unwrap();
        assert_eq!(
            same,
            ["/lib/snd.ko", "/lib/snd_dummy.ko hrtimer=0 fake_buffer=1"]
        );
        let refused = of(vec![module("snd_dummy", "hrtimer=0 fake_buffer=1")]).unwrap_err();
        assert!(
            matches!(&refused, LabError::Usage(text) if text.contains("on 6.12 and on 6.1")),
            "{refused}"
        );
        assert_eq!(lines_of_modules(&BTreeMap::new()).unwrap(), [""; 0]);
    }

    #[test]
    fn snapshots_are_refused_where_a_machine_does_not_go_on_from_its_state() {
        let machine = |architecture, accelerator| Machine {
            architecture,
            accelerator,
            instruction_shift: InstructionShift::DEFAULT,
            memory_mib: Machine::MEMORY_MIB_DEFAULT,
            shared_mib: Machine::SHARED_MIB_DEFAULT,
        };
        let code = |architecture, accelerator| {
            check_snapshots(&machine(architecture, accelerator), SnapshotUse::Asked)
                .map_err(|error| error.exit_code())
        };
        for (architecture, accelerator, advice) in [
            (
                Architecture::Riscv64,
                Accelerator::Tcg,
                "give a different --arch",
            ),
            (
                Architecture::Amd64,
                Accelerator::Kvm,
                "leave out --accel kvm",
            ),
        ] {
            let machine = machine(architecture, accelerator);
            let text = check_snapshots(&machine, SnapshotUse::Always)
                .unwrap_err()
                .to_string();
            assert!(
                text.ends_with(advice) && !text.contains("--snapshots"),
                "{text}"
            );
        }
        assert_eq!(code(Architecture::Amd64, Accelerator::Tcg), Ok(()));
        assert_eq!(code(Architecture::Arm64, Accelerator::Tcg), Ok(()));
        assert_eq!(
            code(Architecture::Riscv64, Accelerator::Tcg),
            Err(Exit::Machine)
        );
        assert_eq!(
            code(Architecture::Amd64, Accelerator::Kvm),
            Err(Exit::Usage)
        );
    }
}
