//! A load's plan while it is being resolved, with the load's limits and the facts of the machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tardy_core::bytes::format_bytes;
use tardy_machine::host::Host;
use tardy_machine::undo::{FOLDER_PREFIX, Undo};
use tardy_machine::unsupported::Unsupported;
use tardy_run::parameter::{Kind, Value};
use tardy_run::plan::LoadPlan;

use super::bounds::Bounds;

/// An unfinished plan, which a load's `resolve` completes.
#[derive(Debug)]
pub struct Resolution<'a> {
    pub host: &'a Host,
    /// The resource limits of this load, over all workers.
    pub share: Bounds,
    /// The plan so far: parameter values and CPUs.
    pub plan: LoadPlan,
    given: &'a BTreeMap<&'static str, Value>,
}

impl<'a> Resolution<'a> {
    /// Starts resolving `plan`. `given` holds the parameters that the user set.
    pub(super) fn new(
        host: &'a Host,
        share: Bounds,
        plan: LoadPlan,
        given: &'a BTreeMap<&'static str, Value>,
    ) -> Self {
        Self {
            host,
            share,
            plan,
            given,
        }
    }
}

impl Resolution<'_> {
    /// Returns the number of workers, at least 1.
    #[must_use]
    pub fn workers(&self) -> u64 {
        self.plan.worker_count().max(1) as u64
    }

    /// Returns whether the user gave parameter `name` a value.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Returns the value of parameter `name`, if the load's share of `resource` allows it. A worker
    /// needs `times` times as much of the resource as the value states. Sizes are rounded down to
    /// whole pages. If a default is too large, the limit replaces it. If a value that the user gave
    /// is too large, it is an error.
    ///
    /// # Errors
    /// Returns the limit as the error if a given value or the parameter's minimum exceeds it.
    pub fn fit(
        &mut self,
        name: &'static str,
        times: u64,
        resource: Resource,
    ) -> Result<u64, Unsupported> {
        let share = match resource {
            Resource::Memory => self.share.memory,
            Resource::Disk => self.share.disk,
            Resource::Processes => self.share.processes,
        };
        let limit = share / self.workers() / times.max(1);
        self.fit_within(name, limit, resource.name())
    }

    /// Works like [`Resolution::fit`], with a given limit on the value. `what` names the limited
    /// resource in the error.
    ///
    /// # Errors
    /// Returns the limit as the error if a given value or the parameter's minimum exceeds it.
    pub fn fit_within(
        &mut self,
        name: &'static str,
        limit: u64,
        what: &str,
    ) -> Result<u64, Unsupported> {
        let value = self.plan.parameters.number(name);
        let parameter = super::find(&self.plan.name).and_then(|info| {
            info.parameters
                .iter()
                .find(|parameter| parameter.name == name)
        });
        let least = parameter.map_or(0, |parameter| match parameter.kind {
            Kind::Bytes { min, .. } | Kind::Count { min, .. } => min,
            _ => 0,
        });
        let is_size = matches!(self.plan.parameters.get(name), Some(Value::Bytes(_)));
        let fitting = if self.given.contains_key(name) {
            value
        } else {
            value.min(limit)
        };
        if fitting > limit || fitting < least {
            let print = |number: u64| {
                if is_size {
                    format_bytes(number)
                } else {
                    number.to_string()
                }
            };
            return Err(Unsupported::new(
                format!(
                    "enough {what} for `{name}` of {} (this load's share of the machine allows {})",
                    print(value),
                    print(limit)
                ),
                format!(
                    "give {}:{name}=... a smaller value, run fewer loads at a time, or give fewer \
                     --load-cpus",
                    self.plan.name
                ),
            ));
        }
        let value = match is_size {
            // The value is rounded to whole pages, because mapping, writing and reading work on
            // pages.
            true if fitting > 4096 => Value::Bytes(fitting / 4096 * 4096),
            true => Value::Bytes(fitting),
            false => Value::Count(fitting),
        };
        self.plan.parameters.insert(name.to_owned(), value);
        Ok(self.plan.parameters.number(name))
    }

    /// Gives the load a separate folder for named files. The load makes the folder, and the
    /// guardian removes it.
    pub fn take_scratch_folder(&mut self) {
        let scratch = self.host.scratch.clone();
        self.take_scratch_folder_in(&scratch);
    }

    /// Works like [`Resolution::take_scratch_folder`], but in `parent` instead of the machine's
    /// scratch folder.
    pub fn take_scratch_folder_in(&mut self, parent: &std::path::Path) {
        let name = format!(
            "{FOLDER_PREFIX}{}-{}-{}",
            self.plan.name,
            std::process::id(),
            tardy_sys::clock::monotonic()
        );
        let path = parent.join(name);
        self.plan.undo.push(Undo::RemoveFolder(path.clone()));
        self.plan.scratch = Some(path);
    }

    /// Returns the path of the program `name`. `package` is the Debian package that contains it.
    ///
    /// # Errors
    /// Returns the program and its package as the error if the program is missing.
    pub fn needs_program(&self, name: &str, package: &str) -> Result<PathBuf, Unsupported> {
        let absent = || {
            Unsupported::new(
                format!("program `{name}`"),
                format!("install the package `{package}`"),
            )
        };
        self.host.program(name).ok_or_else(absent)
    }

    /// Checks that the tool runs as the superuser, which the load needs for `what`.
    ///
    /// # Errors
    /// Returns the missing right as the error.
    pub fn needs_superuser(&self, what: &str) -> Result<(), Unsupported> {
        if self.host.superuser {
            return Ok(());
        }
        Err(Unsupported::new(
            format!("the right to {what}"),
            "run as root",
        ))
    }
}

/// A resource that [`Resolution::fit`] divides among the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of memory.
    Memory,
    /// Bytes of scratch files.
    Disk,
    /// Processes and threads.
    Processes,
}

impl Resource {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Processes => "processes",
        }
    }
}
