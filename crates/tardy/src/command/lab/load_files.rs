//! The modules and programs that guests get for their loads.

use tardy_lab::initramfs::AddedFile;
use tardy_lab::kernel;
use tardy_lab::packing;
use tardy_lab::variant::Variant;
use tardy_loads::load::{GUEST_NEEDS, GuestNeeds, LoadRequest};

use super::setting::{LabError, Setting};

/// The files for all loads of a run's guests.
#[derive(Debug, Default)]
pub(super) struct LoadFiles {
    /// Names of kernel modules.
    pub(super) modules: Vec<&'static str>,
    /// Programs, with their libraries.
    pub(super) programs: Vec<AddedFile>,
}

impl LoadFiles {
    /// Collects the files. If the host or a kernel lacks a file, the load gets none, and a message
    /// states the reason: the guest then leaves the load out, or refuses it.
    pub(super) fn of(setting: &Setting, variants: &[Variant], loads: &[LoadRequest]) -> Self {
        let mut all = Self::default();
        let is_asked = |needs: &&GuestNeeds| loads.iter().any(|load| load.info.name == needs.load);
        for needs in GUEST_NEEDS.iter().filter(is_asked) {
            match files(setting, variants, needs) {
                Ok(programs) => {
                    all.modules.extend(needs.modules);
                    all.programs.extend(programs);
                }
                Err(error) => say!(
                    "tardy: the guests get no files for the load {}: {error}",
                    needs.load
                ),
            }
        }
        all
    }
}

fn files(
    setting: &Setting,
    variants: &[Variant],
    needs: &GuestNeeds,
) -> Result<Vec<AddedFile>, LabError> {
    for variant in variants {
        kernel::modules(&variant.kernel, needs.modules, &setting.cache)?;
    }
    let architecture = setting.machine.architecture;
    Ok(packing::pack_for_bin(needs.programs, architecture)?)
}
