//! Repeats the kernel build of mckenney2009 as an experiment. Each trial builds the whole kernel
//! into a new folder of objects.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use tardy_core::bytes::format_bytes;
use tardy_machine::host::Host;
use tardy_machine::host::disk_floor;
use tardy_machine::journal::Scratch;
use tardy_machine::kernel_tree::{
    self, ARCHIVE_PROGRAMS, MORE_PACKAGES, OBJECTS_BYTES, PROGRAMS, TREE_BYTES,
};
use tardy_machine::unsupported::Unsupported;
use tardy_run::cost::CostSet;
use tardy_sys::disk;

use super::folder::CostError;
use super::program::{Experiment, ProgramEnd, Runner, failed};

/// The build to time.
#[derive(Debug)]
pub struct BuildRequest {
    /// A clean kernel tree or an archive of one; by default the distribution's package.
    pub source: Option<PathBuf>,
    /// A target of the kernel's makefile that makes a configuration, such as `defconfig`.
    pub config: String,
    /// Number of parallel jobs of make (-j).
    pub jobs: u32,
}

#[derive(Debug)]
pub struct KernelBuild {
    source: PathBuf,
    config: String,
    jobs: String,
    scratch: Scratch,
    is_unpacked: bool,
}

impl KernelBuild {
    /// Finds everything that the build needs. Writes nothing except an empty folder for the build.
    ///
    /// # Errors
    /// Returns an error that names the missing requirement: a source, a program, or space on the
    /// disk.
    pub fn resolve(request: &BuildRequest) -> Result<Self, Unsupported> {
        let host = Host::of_this_machine();
        let source = request.source.as_ref().map(std::path::absolute).transpose();
        let source = source.map_err(|error| {
            Unsupported::new(
                format!("the current folder ({error})"),
                "give the whole path with --source",
            )
        })?;
        let source = kernel_tree::find(source.as_deref(), "--source TREE")?;
        let is_archive = source.is_file();
        for (program, package) in PROGRAMS
            .iter()
            .chain(ARCHIVE_PROGRAMS.iter().filter(|_| is_archive))
        {
            let absent = || {
                Unsupported::new(
                    format!("program `{program}`"),
                    format!("install the package `{package}`"),
                )
            };
            host.program(program).ok_or_else(absent)?;
        }
        let needed = OBJECTS_BYTES + if is_archive { TREE_BYTES } else { 0 };
        let no_room =
            |what: String| Unsupported::new(what, "set TMPDIR to a folder on a larger file system");
        let room = disk::room(&host.scratch)
            .map_err(|error| no_room(format!("free space for build objects ({error})")))?;
        if room.free < needed.saturating_add(disk_floor(room.total)) {
            return Err(no_room(format!(
                "{} of disk space for objects in {}",
                format_bytes(needed),
                host.scratch.display()
            )));
        }
        let scratch = Scratch::make(&host.scratch, "cost")
            .map_err(|error| no_room(format!("a folder for build objects ({error})")))?;
        Ok(Self {
            source,
            config: request.config.clone(),
            jobs: format!("-j{}", request.jobs),
            scratch,
            is_unpacked: false,
        })
    }

    /// Returns the kernel tree. If the source is an archive, unpacks it at the first call. Returns
    /// `None` if a signal asked the tool to stop.
    fn tree(&mut self, runner: &Runner) -> Result<Option<PathBuf>, CostError> {
        if self.source.is_dir() {
            return Ok(Some(self.source.clone()));
        }
        let tree = self.scratch.path().join("tree");
        if !self.is_unpacked {
            std::fs::create_dir_all(&tree).map_err(system("make a folder for the tree"))?;
            if !to_its_end(
                runner,
                &mut kernel_tree::unpack(Command::new("tar"), &self.source, &tree),
            )? {
                return Ok(None);
            }
            self.is_unpacked = true;
        }
        Ok(Some(tree))
    }
}

impl Experiment for KernelBuild {
    fn set(&self) -> CostSet {
        CostSet::Build
    }

    fn words(&self) -> Vec<String> {
        let source = self
            .source
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        vec![format!("make {} of {source} ({})", self.jobs, self.config)]
    }

    fn prepare(&mut self, runner: &Runner) -> Result<Option<Command>, CostError> {
        let Some(tree) = self.tree(runner)? else {
            return Ok(None);
        };
        let objects = self.scratch.path().join("objects");
        if objects.exists() {
            std::fs::remove_dir_all(&objects)
                .map_err(system("remove the objects of the previous trial"))?;
        }
        std::fs::create_dir_all(&objects).map_err(system("make a folder for objects"))?;
        if !to_its_end(
            runner,
            &mut kernel_tree::make(Command::new("make"), &tree, &objects, &[&self.config]),
        )? {
            return Ok(None);
        }
        Ok(Some(kernel_tree::make(
            Command::new("make"),
            &tree,
            &objects,
            &[&self.jobs],
        )))
    }
}

/// Runs the command to its end. Returns false if a signal asked the tool to stop.
fn to_its_end(runner: &Runner, command: &mut Command) -> Result<bool, CostError> {
    let words = format!("{command:?}");
    match runner.run(command)? {
        ProgramEnd::Interrupted => Ok(false),
        ProgramEnd::Itself(status) if status.success() => Ok(true),
        ProgramEnd::Itself(status) => Err(match failed(&words, status) {
            CostError::Command(text) => CostError::Command(format!("{text}; {MORE_PACKAGES}")),
            other => other,
        }),
    }
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> CostError {
    move |error| CostError::System { doing, error }
}
