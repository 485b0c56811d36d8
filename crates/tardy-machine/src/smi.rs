//! Counts system management interrupts (SMIs). During an SMI, the firmware stops a CPU without the
//! kernel's knowledge, so only a counter shows that it happened.
//!
//! On Intel CPUs since Nehalem, MSR_SMI_COUNT (0x34) counts SMIs in its low 32 bits (Intel SDM
//! volume 4; turbostat of the kernel's tools reads the same register). AMD CPUs have only a
//! performance event (`ls_smi_rx`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use tardy_core::cpu::{CpuId, CpuList};

use super::root::Root;

const MSR_SMI_COUNT: u64 = 0x34;
/// asm-generic/errno-base.h. The msr device returns this error for a register that the CPU or the
/// hypervisor lacks.
const EIO: i32 = 5;

/// The count of each CPU: since the start of the system or, if [`since`] returned it, between two
/// readings.
pub type SmiCounts = BTreeMap<CpuId, u32>;

/// Why SMIs cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum SmiUnavailable {
    /// Only Intel CPUs have the register.
    #[error(
        "the CPU ({vendor}) has no register that counts system management interrupts (Intel CPUs \
         have one)"
    )]
    NotIntel {
        /// `vendor_id` of /proc/cpuinfo, or `unknown`.
        vendor: String,
    },
    /// The device of the msr driver does not exist.
    #[error("{path} is missing: load the driver with `modprobe msr`")]
    NoDevice {
        /// The device file.
        path: String,
    },
    /// Access was denied: missing rights, or kernel lockdown.
    #[error(
        "{path} may not be read: run as root (CAP_SYS_RAWIO), and not with kernel lockdown in \
         confidentiality mode"
    )]
    NotAllowed {
        /// The device file.
        path: String,
    },
    /// The register does not exist; this is usual in virtual machines.
    #[error(
        "register 0x34 cannot be read: the CPU or the hypervisor does not have it; run on bare \
         metal"
    )]
    NoRegister,
    /// Any other error.
    #[error("{path}: {message}: check the msr driver")]
    Failed {
        /// The device file.
        path: String,
        /// The text of the error.
        message: String,
    },
}

/// The open msr devices of some CPUs.
#[derive(Debug)]
pub struct SmiReader {
    devices: Vec<(CpuId, File)>,
}

impl SmiReader {
    /// Opens the devices of `cpus`, and reads each once as a check.
    ///
    /// # Errors
    /// Returns the reason if a count cannot be read.
    pub fn open(root: &Root, cpus: &CpuList) -> Result<Self, SmiUnavailable> {
        let vendor = vendor(root).unwrap_or_else(|| "unknown".to_owned());
        if vendor != "GenuineIntel" {
            return Err(SmiUnavailable::NotIntel { vendor });
        }
        let devices = cpus.iter().map(|cpu| {
            let path = device_path(cpu);
            root.open(&path)
                .map(|file| (cpu, file))
                .map_err(|error| unavailable(&path, &error))
        });
        let reader = Self {
            devices: devices.collect::<Result<_, _>>()?,
        };
        reader.read()?;
        Ok(reader)
    }

    /// Reads the counts of all opened CPUs. The kernel interrupts each CPU to read its register
    /// (`rdmsr_safe_on_cpu` in arch/x86/kernel/msr.c), so call this only before and after a
    /// measurement.
    ///
    /// # Errors
    /// Returns the reason if a count cannot be read.
    pub fn read(&self) -> Result<SmiCounts, SmiUnavailable> {
        let counts = self.devices.iter().map(|(cpu, device)| {
            let mut register = [0; 8];
            device
                .read_exact_at(&mut register, MSR_SMI_COUNT)
                .map_err(|error| unavailable(&device_path(*cpu), &error))?;
            let [low @ .., _, _, _, _] = register;
            Ok((*cpu, u32::from_le_bytes(low)))
        });
        counts.collect()
    }
}

/// Returns by how much the counts increased between two readings, for the CPUs in both.
#[must_use]
pub fn since(after: &SmiCounts, before: &SmiCounts) -> SmiCounts {
    after
        .iter()
        .filter_map(|(cpu, count)| Some((*cpu, count.wrapping_sub(*before.get(cpu)?))))
        .collect()
}

fn device_path(cpu: CpuId) -> String {
    format!("/dev/cpu/{cpu}/msr")
}

fn vendor(root: &Root) -> Option<String> {
    let text = root.read("proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("vendor_id"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn unavailable(path: &str, error: &io::Error) -> SmiUnavailable {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound => SmiUnavailable::NoDevice { path },
        ErrorKind::PermissionDenied => SmiUnavailable::NotAllowed { path },
        _ if error.raw_os_error() == Some(EIO) => SmiUnavailable::NoRegister,
        _ => SmiUnavailable::Failed {
            path,
            message: error.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;

    fn registers(smi_count: u32) -> Vec<u8> {
        let mut bytes = vec![0xee; 0x34];
        bytes.extend_from_slice(&u64::from(smi_count).to_le_bytes());
        bytes.extend_from_slice(&[0xdd; 8]);
        // The high half of the register is reserved.
        bytes[0x34 + 7] = 0xff;
        bytes
    }

    fn intel() -> FakeRoot {
        FakeRoot::new().with(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\n",
        )
    }

    #[test]
    fn the_low_half_of_register_0x34_is_the_count_and_wraps() {
        let fake = intel().with("dev/cpu/1/msr", registers(u32::MAX));
        let reader = SmiReader::open(&fake.root(), &"1".parse().unwrap()).unwrap();
        let before = reader.read().unwrap();
        assert_eq!(before, BTreeMap::from([(CpuId(1), u32::MAX)]));
        fake.write("dev/cpu/1/msr", registers(2));
        let after = reader.read().unwrap();
        assert_eq!(since(&after, &before), BTreeMap::from([(CpuId(1), 3)]));
    }

    #[test]
    fn each_reason_of_absence_has_its_name_and_remedy() {
        let cpus: CpuList = "0".parse().unwrap();
        let reason = |fake: FakeRoot| SmiReader::open(&fake.root(), &cpus).unwrap_err();
        assert_eq!(
            reason(FakeRoot::new()),
            SmiUnavailable::NotIntel {
                vendor: "unknown".into()
            }
        );
        let amd = FakeRoot::new().with("proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
        assert!(reason(amd).to_string().contains("AuthenticAMD"));
        assert!(reason(intel()).to_string().contains("modprobe msr"));
        assert!(matches!(
            reason(intel().with("dev/cpu/0/msr", "short")),
            SmiUnavailable::Failed { .. }
        ));
        assert_eq!(
            unavailable("p", &io::Error::from_raw_os_error(EIO)),
            SmiUnavailable::NoRegister
        );
        assert_eq!(
            unavailable("p", &io::Error::from_raw_os_error(1)),
            SmiUnavailable::NotAllowed { path: "p".into() }
        );
    }

    #[test]
    fn a_reason_survives_json() {
        for reason in [
            SmiUnavailable::NoRegister,
            SmiUnavailable::NotIntel { vendor: "x".into() },
        ] {
            assert_eq!(
                serde_json::from_str::<SmiUnavailable>(&serde_json::to_string(&reason).unwrap())
                    .unwrap(),
                reason
            );
        }
    }
}
