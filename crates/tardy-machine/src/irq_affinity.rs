//! Moves device interrupts away from CPUs, and restores their old affinity later.
//!
//! Planning has no side effects; [`IrqMove::apply`] and [`IrqMove::restore`] write one file each.
//! The caller journals a move before it applies it. Format:
//! Documentation/core-api/irq/irq-affinity.rst. Interrupts of the CPU itself (timer, inter-CPU)
//! have no affinity file.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tardy_core::cpu::CpuList;

use super::root::Root;

/// An interrupt in /proc/irq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrqState {
    pub irq: u32,
    /// The names of the interrupt's handlers; empty if no driver has requested the interrupt.
    pub handlers: Vec<String>,
    /// The CPUs to which the interrupt may be delivered (`smp_affinity_list`).
    pub allowed: CpuList,
    /// The CPUs to which the interrupt is delivered, if the kernel reports them.
    pub effective: Option<CpuList>,
    /// Whether `smp_affinity_list` has a write bit in its file mode. Recent kernels omit this bit
    /// if only the kernel may set the interrupt's affinity.
    pub writable: bool,
    /// The full path of `smp_affinity_list`.
    pub path: PathBuf,
}

/// A move of one interrupt, stored in the plan and the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IrqMove {
    /// The interrupt's number.
    pub irq: u32,
    /// The file that is written, `/proc/irq/N/smp_affinity_list`.
    pub path: PathBuf,
    /// The content before the move.
    pub old: CpuList,
    /// The content that the move writes.
    pub new: CpuList,
}

/// The interrupts to move, and those that stay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IrqPlan {
    pub moves: Vec<IrqMove>,
    /// Interrupts that may reach the CPUs to be freed, but cannot be moved.
    pub staying: Vec<StayingIrq>,
}

/// An interrupt that is not moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StayingIrq {
    /// The interrupt's number.
    pub irq: u32,
    /// The names of the interrupt's handlers.
    pub handlers: Vec<String>,
    /// Why the interrupt is not moved.
    pub reason: Refusal,
}

/// Why an interrupt is not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// EIO, EPERM, or no write bit: the interrupt belongs to one CPU, or to a queue of a device.
    /// The kernel itself spreads the interrupts of such queues over the CPUs.
    #[error(
        "the kernel manages this interrupt's affinity: boot with isolcpus=managed_irq,... or give \
         the device fewer queues"
    )]
    Managed,
    /// EINVAL: all CPUs of the list are offline.
    #[error("all CPUs in the list are offline: leave at least one online CPU unmeasured")]
    NoOnlineCpu,
    /// ENOSPC: the other CPUs have no free interrupt vectors.
    #[error(
        "the other CPUs have no free interrupt vector: leave the interrupt where it is, or give \
         the devices fewer queues"
    )]
    NoVector,
    /// The file cannot be opened for writing.
    #[error("permission denied: run as root")]
    NoRight,
    /// The file does not exist: the driver freed the interrupt.
    #[error("the interrupt no longer exists: you can ignore this")]
    Gone,
    /// The plan would free all CPUs.
    #[error("every CPU is measured: measure fewer CPUs")]
    NoOtherCpu,
    /// Another error, or a reason that this version of tardy does not know.
    #[error("the kernel refused: see its log")]
    #[serde(other)]
    Other,
}

/// What happened when a move was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// The old value is in place: either it was still there, or it replaced the value that the move
    /// had written.
    Done,
    /// The old value is in place again. It replaced this value, which another process had written
    /// after the move.
    Over(CpuList),
    /// The interrupt no longer exists.
    Gone,
}

/// Reads all interrupts in /proc/irq. An interrupt whose list cannot be read is left out.
#[must_use]
pub fn read(root: &Root) -> Vec<IrqState> {
    let mut states: Vec<IrqState> = root
        .names("proc/irq")
        .iter()
        .filter_map(|name| read_one(root, name.parse().ok()?))
        .collect();
    states.sort_by_key(|state| state.irq);
    states
}

fn read_one(root: &Root, irq: u32) -> Option<IrqState> {
    let folder = format!("proc/irq/{irq}");
    let path = root.path(format!("{folder}/smp_affinity_list"));
    let is_handler = |name: &String| root.path(&folder).join(name).is_dir();
    Some(IrqState {
        irq,
        handlers: root.names(&folder).into_iter().filter(is_handler).collect(),
        allowed: root.cpu_list(format!("{folder}/smp_affinity_list"))?,
        effective: root
            .cpu_list(format!("{folder}/effective_affinity_list"))
            .filter(|cpus| !cpus.is_empty()),
        writable: fs::metadata(&path).ok()?.permissions().mode() & 0o200 != 0,
        path,
    })
}

impl IrqPlan {
    /// Creates a plan for the interrupts that may reach the CPUs in `freed`. The plan moves each of
    /// them to the rest of its allowed CPUs. If none of these is online, the interrupt moves to all
    /// CPUs of `online` outside `freed`.
    ///
    /// Interrupts that no driver has requested never occur, so they are left alone.
    #[must_use]
    pub fn new(states: &[IrqState], freed: &CpuList, online: &CpuList) -> Self {
        let mut plan = Self::default();
        let others = online.minus(freed);
        for state in states.iter().filter(|state| {
            !state.handlers.is_empty() && state.allowed.iter().any(|cpu| freed.contains(cpu))
        }) {
            let beside: CpuList = state
                .allowed
                .iter()
                .filter(|&cpu| others.contains(cpu))
                .collect();
            let new = if beside.is_empty() {
                others.clone()
            } else {
                beside
            };
            let refusal = if !state.writable {
                // An interrupt that cannot be moved disturbs the freed CPUs only if the kernel
                // delivers it to one of them. Otherwise the plan does not list it.
                let elsewhere = |cpus: &CpuList| !cpus.iter().any(|cpu| freed.contains(cpu));
                if state.effective.as_ref().is_some_and(elsewhere) {
                    continue;
                }
                Some(Refusal::Managed)
            } else {
                new.is_empty().then_some(Refusal::NoOtherCpu)
            };
            match refusal {
                Some(reason) => plan.staying.push(StayingIrq {
                    irq: state.irq,
                    handlers: state.handlers.clone(),
                    reason,
                }),
                None => plan.moves.push(IrqMove {
                    irq: state.irq,
                    path: state.path.clone(),
                    old: state.allowed.clone(),
                    new,
                }),
            }
        }
        plan
    }
}

impl IrqMove {
    /// Writes the new value and returns the resulting content of the file.
    ///
    /// The delivery (`effective_affinity_list`) may change only with the next interrupt: see
    /// [`Self::effective`].
    ///
    /// # Errors
    /// Returns the refusal. If the write fails, the interrupt is unchanged. An error can also mean
    /// that the file could not be read back after the write.
    pub fn apply(&self) -> Result<CpuList, Refusal> {
        write(&self.path, &self.new)?;
        current(&self.path)
    }

    /// Returns the CPUs to which the interrupt is delivered now, if the kernel reports them.
    #[must_use]
    pub fn effective(&self) -> Option<CpuList> {
        current(&self.path.with_file_name("effective_affinity_list"))
            .ok()
            .filter(|cpus| !cpus.is_empty())
    }

    /// Writes the old value back, no matter what the current value is.
    ///
    /// # Errors
    /// Returns the refusal. An interrupt that no longer exists is not an error.
    pub fn restore(&self) -> Result<RestoreOutcome, Refusal> {
        let found = match current(&self.path) {
            Err(Refusal::Gone) => return Ok(RestoreOutcome::Gone),
            other => other?,
        };
        if found == self.old {
            return Ok(RestoreOutcome::Done);
        }
        match write(&self.path, &self.old) {
            Err(Refusal::Gone) => Ok(RestoreOutcome::Gone),
            Err(refusal) => Err(refusal),
            Ok(()) if found == self.new => Ok(RestoreOutcome::Done),
            Ok(()) => Ok(RestoreOutcome::Over(found)),
        }
    }
}

fn current(path: &Path) -> Result<CpuList, Refusal> {
    let text = fs::read_to_string(path).map_err(|error| refusal_to_open(&error))?;
    text.parse().map_err(|_| Refusal::Other)
}

fn write(path: &Path, cpus: &CpuList) -> Result<(), Refusal> {
    // A missing file must cause an error. If it were created, a test with a fake /proc would take
    // the write for a success.
    let mut file = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .map_err(|error| refusal_to_open(&error))?;
    file.write_all(format!("{cpus}\n").as_bytes())
        .map_err(|error| refusal_to_write(&error))
}

fn refusal_to_open(error: &io::Error) -> Refusal {
    match error.kind() {
        ErrorKind::PermissionDenied => Refusal::NoRight,
        ErrorKind::NotFound => Refusal::Gone,
        _ => Refusal::Other,
    }
}

/// Converts the error of a failed write. `write_irq_affinity` in kernel/irq/proc.c returns EIO, in
/// later versions EPERM, for interrupts that only the kernel may set.
fn refusal_to_write(error: &io::Error) -> Refusal {
    /// asm-generic/errno-base.h
    const EIO: i32 = 5;
    match error.kind() {
        ErrorKind::PermissionDenied => Refusal::Managed,
        ErrorKind::InvalidInput => Refusal::NoOnlineCpu,
        ErrorKind::StorageFull => Refusal::NoVector,
        _ if error.raw_os_error() == Some(EIO) => Refusal::Managed,
        _ => Refusal::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    fn cpus(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    fn irq(fake: FakeRoot, number: u32, allowed: &str, handler: &str) -> FakeRoot {
        fake.with(
            &format!("proc/irq/{number}/smp_affinity_list"),
            format!("{allowed}\n"),
        )
        .with(&format!("proc/irq/{number}/{handler}/.keep"), "")
    }

    fn plan(fake: &FakeRoot, freed: &str, online: &str) -> IrqPlan {
        IrqPlan::new(&read(&fake.root()), &cpus(freed), &cpus(online))
    }

    #[test]
    fn what_may_reach_the_freed_cpus_goes_to_the_others_it_may_reach() {
        let mut fake = irq(FakeRoot::new(), 24, "0-3", "disk");
        fake = irq(fake, 25, "2-3", "net");
        fake = irq(fake, 26, "0-1", "far");
        fake = fake
            .with("proc/irq/27/smp_affinity_list", "0-3\n")
            .with("proc/irq/default_smp_affinity", "f\n");
        let moves: Vec<_> = plan(&fake, "2-3", "0-3")
            .moves
            .iter()
            .map(|m| (m.irq, m.old.to_string(), m.new.to_string()))
            .collect();
        assert_eq!(
            moves,
            [
                (24, "0-3".into(), "0-1".into()),
                (25, "2-3".into(), "0-1".into())
            ]
        );
    }

    #[test]
    fn offline_cpus_are_no_place_to_go() {
        let fake = irq(FakeRoot::new(), 24, "0-7", "disk");
        assert_eq!(plan(&fake, "1", "0-1").moves[0].new, cpus("0"));
        let all = plan(&fake, "0-1", "0-1");
        assert!(all.moves.is_empty());
        assert_eq!(all.staying[0].reason, Refusal::NoOtherCpu);
    }

    #[test]
    fn an_interrupt_without_write_bit_stays_and_is_named_unless_it_is_delivered_elsewhere() {
        let fake = irq(
            irq(FakeRoot::new(), 36, "0-1", "queue"),
            37,
            "0-1",
            "queue2",
        )
        .with("proc/irq/37/effective_affinity_list", "0\n");
        for number in [36, 37] {
            let path = fake
                .path()
                .join(format!("proc/irq/{number}/smp_affinity_list"));
            fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
        }
        let plan = plan(&fake, "1", "0-1");
        assert!(plan.moves.is_empty());
        assert_eq!(
            plan.staying,
            [StayingIrq {
                irq: 36,
                handlers: vec!["queue".into()],
                reason: Refusal::Managed
            }]
        );
        assert_eq!(
            serde_json::from_str::<IrqPlan>(&serde_json::to_string(&plan).unwrap()).unwrap(),
            plan
        );
    }

    #[test]
    fn a_move_is_applied_read_back_and_undone() {
        let fake = irq(FakeRoot::new(), 24, "0-1", "disk")
            .with("proc/irq/24/effective_affinity_list", "1\n");
        let change = plan(&fake, "1", "0-1").moves.remove(0);
        let journalled: IrqMove =
            serde_json::from_str(&serde_json::to_string(&change).unwrap()).unwrap();
        assert_eq!(change.apply(), Ok(cpus("0")));
        assert_eq!(change.effective(), Some(cpus("1")));
        assert_eq!(journalled.restore(), Ok(RestoreOutcome::Done));
        assert_eq!(fs::read_to_string(&change.path).unwrap(), "0-1\n");
        assert_eq!(journalled.restore(), Ok(RestoreOutcome::Done));
    }

    #[test]
    fn a_third_value_is_reported_and_a_vanished_interrupt_is_no_error_and_is_not_created() {
        let fake = irq(FakeRoot::new(), 24, "0-3", "disk");
        let change = plan(&fake, "1", "0-3").moves.remove(0);
        fake.write("proc/irq/24/smp_affinity_list", "3\n");
        assert_eq!(change.restore(), Ok(RestoreOutcome::Over(cpus("3"))));
        fs::remove_file(&change.path).unwrap();
        assert_eq!(change.restore(), Ok(RestoreOutcome::Gone));
        assert_eq!(change.apply(), Err(Refusal::Gone));
        assert!(!change.path.exists());
    }

    #[test]
    fn errors_of_the_kernel_are_told_apart() {
        let refusal = |errno| refusal_to_write(&io::Error::from_raw_os_error(errno));
        assert_eq!(
            [5, 1, 22, 28, 16].map(refusal),
            [
                Refusal::Managed,
                Refusal::Managed,
                Refusal::NoOnlineCpu,
                Refusal::NoVector,
                Refusal::Other
            ]
        );
        assert_eq!(
            refusal_to_open(&io::Error::from_raw_os_error(13)),
            Refusal::NoRight
        );
    }
}
