//! Prepares what every subcommand that boots guests needs: machine, QEMU, binary, cache.

use std::path::PathBuf;
use std::time::Duration;

use tardy_lab::architecture::Architecture;
use tardy_lab::binary::{self, BinaryError};
use tardy_lab::cache::{Cache, CacheError};
use tardy_lab::kernel::KernelError;
use tardy_lab::machine::{Accelerator, InstructionShift, InstructionTimeError, Machine};
use tardy_lab::models;
use tardy_lab::packing::PackError;
use tardy_lab::qemu::{Qemu, QemuError};
use tardy_lab::variant::Variant;
use tardy_lab::watch::WatchError;
use tardy_results::exit::Exit;

use crate::cli::lab::MachineArguments;

/// The reason why a subcommand of the lab could not start its work.
#[derive(Debug, thiserror::Error)]
pub(in crate::command) enum LabError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Qemu(#[from] QemuError),
    #[error(transparent)]
    Binary(#[from] BinaryError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error("--instruction-time: {0}")]
    InstructionTime(#[from] InstructionTimeError),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Unable(String),
}

impl LabError {
    pub(in crate::command) fn exit_code(&self) -> Exit {
        match self {
            Self::InstructionTime(_) | Self::Pack(_) | Self::Usage(_) => Exit::Usage,
            Self::Kernel(
                KernelError::Read { .. }
                | KernelError::Image { .. }
                | KernelError::Architecture { .. }
                | KernelError::NoImage(_)
                | KernelError::SeveralImages { .. }
                | KernelError::Deb(_)
                | KernelError::NoModule { .. },
            ) => Exit::Usage,
            Self::Watch(WatchError::Accelerator | WatchError::Memory(_)) => Exit::Usage,
            Self::Watch(_)
            | Self::Kernel(_)
            | Self::Qemu(_)
            | Self::Binary(_)
            | Self::Cache(_)
            | Self::Unable(_) => Exit::Machine,
        }
    }
}

/// A machine, and the files to boot it.
pub(in crate::command) struct Setting {
    pub(in crate::command) machine: Machine,
    pub(in crate::command) qemu: Qemu,
    pub(in crate::command) binary: PathBuf,
    pub(in crate::command) cache: Cache,
}

impl Setting {
    pub(in crate::command) fn new(arguments: &MachineArguments) -> Result<Self, LabError> {
        let architecture = architecture(arguments.arch)?;
        let machine = Machine {
            architecture,
            accelerator: arguments.accel.into(),
            instruction_shift: InstructionShift::try_from(arguments.instruction_time)?,
            memory_mib: arguments.memory,
            shared_mib: arguments.shared,
        };
        let qemu = Qemu::find(architecture)?;
        let binary = match &arguments.guest_binary {
            Some(path) => path.clone(),
            None => binary::running()?,
        };
        binary::check(&binary, architecture)?;
        Ok(Self {
            machine,
            qemu,
            binary,
            cache: Cache::of_user()?,
        })
    }

    /// Replaces KVM by emulated CPUs if no guest boots with KVM. KVM's device may be missing,
    /// forbidden, or broken (nested machines).
    pub(super) fn with_working_accelerator(mut self, variant: &Variant) -> Self {
        if self.machine.accelerator == Accelerator::Kvm
            && let Err(why) = self.try_boot(variant)
        {
            say!(
                "tardy: KVM does not work here ({why}): continuing with emulated CPUs, whose clock \
                 counts instructions"
            );
            self.machine.accelerator = Accelerator::Tcg;
        }
        self
    }

    /// Boots the kernel with a program that ends at once.
    fn try_boot(&self, variant: &Variant) -> Result<(), String> {
        /// Time limit of the boot; a working KVM needs only seconds.
        const WALL_LIMIT: Duration = Duration::from_secs(30);
        let folder = self
            .cache
            .scratch("probe")
            .map_err(|error| error.to_string())?;
        let result = models::boot_once(
            variant,
            &self.machine,
            &self.qemu,
            &self.binary,
            WALL_LIMIT,
            folder.path(),
        );
        result
            .map(|_| ())
            .map_err(|failure| failure.cause.to_string())
    }
}

pub(super) fn architecture(asked: Option<Architecture>) -> Result<Architecture, LabError> {
    let message = || {
        LabError::Usage(
            "the lab does not support this machine's architecture: choose one with --arch".into(),
        )
    };
    asked
        .or_else(Architecture::of_this_binary)
        .ok_or_else(message)
}
