//! Finds the preemption models that can be selected when a kernel boots. Only the kernel itself
//! knows which models it offers. So the lab boots the kernel once, and stores the answer in the
//! cache under the image's digest.

use std::path::Path;
use std::time::Duration;

use tardy_core::units::Nanos;

use super::boot::Guest;
use super::cache::{Cache, write_whole};
use super::diagnosis::{Cause, Failure};
use super::guest_job::{self, GuestJob, Program, Task};
use super::kernel::Kernel;
use super::machine::Machine;
use super::provenance::Provenance;
use super::qemu::Qemu;
use super::variant::Variant;

/// Time limit for the guest in wall-clock time of the host. The guest does nothing, so it boots and
/// switches off within this time even on a busy host.
const WALL_LIMIT: Duration = Duration::from_secs(120);

/// Returns the models that `kernel` offers, in the kernel's order. Returns no model if there is no
/// choice.
///
/// # Errors
/// Returns [`Failure`] if the guest gives no result, for example because the kernel does not boot,
/// or if the cache cannot be used.
pub fn models(
    kernel: &Kernel,
    machine: &Machine,
    qemu: &Qemu,
    binary: &Path,
    cache: &Cache,
) -> Result<Vec<String>, Failure> {
    let host = |error: String| Failure {
        cause: Cause::Host(error),
        console_tail: Vec::new(),
        has_booted: false,
    };
    let kept = cache
        .folder("models")
        .map_err(|error| host(error.to_string()))?
        .join(kernel.digest.as_str());
    if let Some(models) = std::fs::read(&kept)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
    {
        return Ok(models);
    }
    let folder = cache
        .scratch("probe")
        .map_err(|error| host(error.to_string()))?;
    let variant = Variant::new(kernel.clone(), None, Vec::new());
    let provenance = boot_once(&variant, machine, qemu, binary, WALL_LIMIT, folder.path())?;
    let models = choice(provenance.guest.preemption.as_deref().unwrap_or_default());
    write_whole(
        &kept,
        &serde_json::to_vec(&models).expect("words are plain data"),
    )
    .map_err(|error| host(error.to_string()))?;
    Ok(models)
}

/// Boots a kernel with a program that ends immediately.
///
/// # Errors
/// Returns [`Failure`] if the kernel does not boot.
pub fn boot_once(
    variant: &Variant,
    machine: &Machine,
    qemu: &Qemu,
    binary: &Path,
    wall_limit: Duration,
    folder: &Path,
) -> Result<Provenance, Failure> {
    let job = GuestJob {
        version: guest_job::VERSION,
        task: Task::Run(Program {
            path: None,
            arguments: vec!["--version".to_owned()],
        }),
        settle: Nanos::ZERO,
        time_limit: Nanos::from_secs(10),
        modules: Vec::new(),
        late_modules: Vec::new(),
        loads: Vec::new(),
        injection: None,
        hand_out_symbols: false,
        scenario: None,
    };
    let guest = Guest {
        variant,
        machine,
        pad: 0,
        job: &job,
        binary,
        added: &[],
        wall_limit,
        snapshots: None,
        watching: None,
    };
    guest.run(qemu, folder)
}

/// Parses text such as `none voluntary (full)`, the content of sched/preempt of debugfs. Returns no
/// model if the kernel has only one.
fn choice(text: &str) -> Vec<String> {
    let models: Vec<String> = text
        .split_whitespace()
        .map(|word| word.trim_matches(['(', ')']).to_owned())
        .collect();
    if models.len() > 1 { models } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_and_a_single_model_is_none() {
        assert_eq!(
            choice("none voluntary (full)\n"),
            ["none", "voluntary", "full"]
        );
        assert_eq!(choice("(full) lazy"), ["full", "lazy"]);
        for text in ["", "(full)\n"] {
            assert_eq!(choice(text), [""; 0], "{text}");
        }
    }
}
