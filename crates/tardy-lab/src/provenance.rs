//! `lab.json` in each run folder of a guest: the inputs of the run, and digests of inputs and
//! outputs.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tardy_run::guest_start::PROVENANCE_BYTES_MAX;
use tardy_sys::regular_file;

use super::cpio::Entry;
use super::digest::{Digest, Digester};
use super::guest_job::{GuestJob, GuestReport};
use super::initramfs::AddedFile;
use super::machine::{Accelerator, Machine};
use super::variant::Variant;

/// The file's name in a run folder.
pub const PROVENANCE_NAME: &str = tardy_run::guest_start::PROVENANCE_NAME;
/// Version of [`Provenance`].
pub const VERSION: u32 = 1;

/// The meaning of virtual time, printed in every `lab.json`, summary and report.
const VIRTUAL_TIME: &str = "virtual time: every instruction takes the same time, so a latency is \
                          the length of the kernel's code path; caches, buses, firmware, SMIs and \
                            parallel CPUs are not modelled, and no figure is the worst case of a \
                            real machine";
/// What the figures mean if the guest runs under KVM; printed in the same places.
const HOST_TIME: &str = "a virtual machine on the host's clock: every figure includes the host's \
                         own delays, and no run repeats exactly";

/// Returns a sentence that explains the meaning of figures that were measured on this machine.
#[must_use]
pub fn meaning(machine: &Machine) -> &'static str {
    match machine.accelerator {
        Accelerator::Tcg => VIRTUAL_TIME,
        Accelerator::Kvm => HOST_TIME,
    }
}

/// Everything that determines the result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The measured variant.
    pub variant: Variant,
    /// The machine of the guest.
    pub machine: Machine,
    /// The kernel's whole command line.
    pub command_line: String,
    /// The value by which replicas differ. The value determines the length of a word on the
    /// kernel's command line.
    pub pad: u32,
    /// Digest of the initial file system, which contains binary, job and seed.
    pub initramfs: Digest,
    /// QEMU's version text.
    pub qemu: String,
    /// QEMU's options.
    pub options: Vec<String>,
    /// Digest of the snapshot from which the run started; absent if the guest booted.
    #[serde(default)]
    pub snapshot: Option<Digest>,
    /// Digest of the job of a run from a snapshot; otherwise the job is in the initial file system.
    /// `lab.json` calls the job the plan.
    #[serde(default, rename = "plan")]
    pub job: Option<Digest>,
}

impl Inputs {
    /// Returns one digest of all inputs. Names and paths on the host are left out, because they do
    /// not change the result.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digester = Digester::default();
        digester.update_block(self.variant.kernel.digest.as_str().as_bytes());
        digester.update_block(self.command_line.as_bytes());
        digester.update_block(self.initramfs.as_str().as_bytes());
        digester.update_block(self.qemu.as_bytes());
        digester.update_block(&self.machine.shared_mib.to_le_bytes());
        self.options
            .iter()
            .for_each(|option| digester.update_block(option.as_bytes()));
        digester.update_block(
            self.snapshot
                .as_ref()
                .map(Digest::as_str)
                .unwrap_or_default()
                .as_bytes(),
        );
        self.job
            .iter()
            .for_each(|job| digester.update_block(job.as_str().as_bytes()));
        digester.finish()
    }
}

/// What the initial file system contains besides the binary. With this information, the same guest
/// can be booted again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestInput {
    pub job: GuestJob,
    /// Further files, by their absolute paths on the host.
    pub added: Vec<AddedFile>,
}

/// The inputs of a run, and digests of its inputs and outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the document: [`VERSION`].
    pub version: u32,
    /// The inputs.
    pub inputs: Inputs,
    /// Digest of the inputs.
    pub input_digest: Digest,
    /// Digest of the files below samples/; absent if there are no such files.
    pub sample_digest: Option<Digest>,
    /// Digest of everything that the guest exported, including its report.
    pub output_digest: Digest,
    /// What the initial file system contains besides the binary; absent in files of older versions.
    #[serde(default)]
    pub guest_input: Option<GuestInput>,
    /// The guest's report.
    pub guest: GuestReport,
    /// A sentence that explains to the reader what the figures mean.
    pub meaning: String,
    /// Host time from the start of QEMU until the guest resumed from its snapshot, in ms; absent if
    /// the guest booted.
    #[serde(default)]
    pub restore_ms: Option<u64>,
}

/// Returns a digest of the samples among the files of a run folder; `None` if there are no samples.
#[must_use]
pub fn sample_digest(entries: &[Entry<'_>]) -> Option<Digest> {
    let mut files: Vec<_> = entries
        .iter()
        .filter_map(|entry| Some((&entry.path, entry.content?)))
        .filter(|(path, _)| path.starts_with("samples"))
        .collect();
    files.sort();
    if files.is_empty() {
        return None;
    }
    let mut digester = Digester::default();
    for (path, content) in files {
        digester.update_block(path.as_os_str().as_encoded_bytes());
        digester.update_block(content);
    }
    Some(digester.finish())
}

impl Provenance {
    /// Reads the provenance of the run in a folder; `None` if the run does not come from the lab.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or its JSON cannot be parsed.
    pub fn read(run: &Path) -> std::io::Result<Option<Self>> {
        match regular_file::read(&run.join(PROVENANCE_NAME), PROVENANCE_BYTES_MAX) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether two runs from the same inputs gave the same samples, or, if they have no
    /// samples, the same output. A run from a snapshot is never equal to a run that booted, or that
    /// started from another snapshot.
    #[must_use]
    pub fn same_result(&self, other: &Self) -> bool {
        if self.inputs.snapshot != other.inputs.snapshot {
            return false;
        }
        match (&self.sample_digest, &other.sample_digest) {
            (None, None) => self.output_digest == other.output_digest,
            (mine, theirs) => mine == theirs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_digest_depends_on_names_and_content_and_not_on_other_files() {
        let of = |files: &[(&str, &'static [u8])]| {
            let entries: Vec<_> = files
                .iter()
                .map(|(path, content)| Entry {
                    path: path.into(),
                    content: Some(*content),
                })
                .collect();
            sample_digest(&entries)
        };
        let base = of(&[("samples/a", b"1"), ("run.json", b"x")]);
        assert!(base.is_some());
        assert_eq!(base, of(&[("run.json", b"y"), ("samples/a", b"1")]));
        assert_ne!(base, of(&[("samples/b", b"1")]));
        assert_ne!(base, of(&[("samples/a", b"2")]));
        assert_eq!(of(&[("run.json", b"x")]), None);
    }

    /// Run folders that older versions of tardy wrote also use this name.
    #[test]
    fn a_job_is_called_a_plan_in_the_file() {
        let digest = "ab".repeat(32);
        let kernel = serde_json::json!({ "source": "6.1", "name": "6.1", "image": "/image", "digest": digest, "architecture": "amd64" });
        let machine = serde_json::json!({
            "architecture": "amd64", "accelerator": "tcg", "instruction_shift": 2, "memory_mib": 512, "shared_mib": 64,
        });
        let text = serde_json::json!({
            "variant": { "name": "6.1", "kernel": kernel, "words": [] },
            "machine": machine, "command_line": "quiet", "pad": 0, "initramfs": digest, "qemu": "QEMU", "options": [],
            "plan": digest,
        });
        let inputs: Inputs = serde_json::from_value(text).unwrap();
        assert!(inputs.job.is_some());
        assert_eq!(
            serde_json::to_value(&inputs).unwrap()["plan"],
            digest.as_str()
        );
    }
}
