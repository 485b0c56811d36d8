//! The temperature sensors of the machine (Documentation/driver-api/thermal/sysfs-api.rst,
//! Documentation/hwmon/sysfs-interface.rst).

use std::path::PathBuf;

use super::super::root::Root;

/// Drivers whose sensors interrupt a CPU when they are read, because they read a register of that
/// CPU (`rdmsr_on_cpu` in drivers/hwmon/coretemp.c and via-cputemp.c; `x86_pkg_temp` through
/// `intel_tcc_get_temp`, drivers/thermal/intel).
const DISTURBING: [&str; 3] = ["coretemp", "via_cputemp", "x86_pkg_temp"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sensor {
    /// The sensor's name: the driver or zone, and the label or number of the input.
    pub(super) name: String,
    /// The file with the temperature in thousandths of a degree Celsius.
    pub(super) path: PathBuf,
}

/// Returns all sensors. If `quiet` is true, sensors that interrupt a CPU are left out.
pub(super) fn find(root: &Root, quiet: bool) -> Vec<Sensor> {
    let mut sensors = thermal_zones(root);
    sensors.extend(hardware_monitors(root));
    sensors.retain(|sensor| {
        !quiet || !DISTURBING.contains(&sensor.name.split(' ').next().unwrap_or_default())
    });
    sensors
}

fn thermal_zones(root: &Root) -> Vec<Sensor> {
    const FOLDER: &str = "sys/class/thermal";
    let zones = root.names(FOLDER).into_iter().filter_map(|zone| {
        let number = zone.strip_prefix("thermal_zone")?.to_owned();
        let kind = root.text(format!("{FOLDER}/{zone}/type"))?;
        Some(Sensor {
            name: format!("{kind} {number}"),
            path: root.path(format!("{FOLDER}/{zone}/temp")),
        })
    });
    zones.collect()
}

fn hardware_monitors(root: &Root) -> Vec<Sensor> {
    const FOLDER: &str = "sys/class/hwmon";
    let mut sensors = Vec::new();
    for chip in root.names(FOLDER) {
        let folder = format!("{FOLDER}/{chip}");
        let Some(driver) = root.text(format!("{folder}/name")) else {
            continue;
        };
        for file in root.names(&folder) {
            let Some(input) = file
                .strip_suffix("_input")
                .filter(|input| input.starts_with("temp"))
            else {
                continue;
            };
            let label = root
                .text(format!("{folder}/{input}_label"))
                .unwrap_or_else(|| input.to_owned());
            sensors.push(Sensor {
                name: format!("{driver} {label}"),
                path: root.path(format!("{folder}/{file}")),
            });
        }
    }
    sensors
}

#[cfg(test)]
mod tests {
    use super::super::super::fake_root::FakeRoot;
    use super::*;

    #[test]
    fn sensors_that_interrupt_a_cpu_are_left_out_of_a_quiet_series() {
        let fake = FakeRoot::new()
            .with("sys/class/thermal/thermal_zone0/type", "acpitz\n")
            .with("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n")
            .with("sys/class/thermal/cooling_device0/type", "Fan\n")
            .with("sys/class/hwmon/hwmon0/name", "coretemp\n")
            .with("sys/class/hwmon/hwmon0/temp1_input", "1\n")
            .with("sys/class/hwmon/hwmon1/name", "nvme\n")
            .with("sys/class/hwmon/hwmon1/temp1_input", "1\n")
            .with("sys/class/hwmon/hwmon1/temp1_label", "Composite\n")
            .with("sys/class/hwmon/hwmon1/fan1_input", "1\n");
        let names = |quiet| {
            find(&fake.root(), quiet)
                .into_iter()
                .map(|sensor| sensor.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["acpitz 0", "nvme Composite"]);
        assert_eq!(
            names(false),
            [
                "acpitz 0",
                "x86_pkg_temp 1",
                "coretemp temp1",
                "nvme Composite"
            ]
        );
    }
}
