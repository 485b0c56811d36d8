//! `caps-lock`: switches the keyboard's light on and off (abeni2002, sections 3.2 and 4.2.1).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tardy_core::units::Nanos;
use tardy_machine::undo::Undo;
use tardy_run::parameter::Parameter;
use tardy_sys::capability;
use tardy_sys::console;

use super::Unsupported;
use super::console::open_console;
use super::info::{ErrorContext, Job, LoadInfo, Placement, Rights, Run, WorkError};
use super::resolution::Resolution;
use super::worker::{PASSES, Worker};

pub const INFO: LoadInfo = LoadInfo {
    name: "caps-lock",
    does: "switches the keyboard's caps-lock light on and off, through the LED device of the light \
           or the console",
    effect: "some keyboard drivers wait for the controller's answer with interrupts off; `all` \
             leaves this load out, because it confuses people who type",
    source: "abeni2002",
    parameters: &[
        Parameter::duration(
            "pause",
            "pause between two changes",
            "1ms",
            Nanos::ZERO,
            Nanos::from_secs(10),
        ),
        PASSES,
    ],
    can_do_harm: true,
    placement: Placement::Once,
    uses_disk: false,
    rights: Rights::Nobody {
        keeps: &[capability::SYS_TTY_CONFIG],
        opens: "the caps-lock light, or the console",
    },
    resolve,
    run: Run::Prepared(prepare),
};

/// The interface that switches the light.
enum Light {
    /// The brightness file of an LED device.
    Device(File),
    /// The console's ioctl.
    Console(File),
}

fn resolve(resolution: &mut Resolution<'_>) -> Result<(), Unsupported> {
    resolution.plan.budget.processes = 1;
    if let Some(device) = led_device(&resolution.host.sys) {
        resolution.needs_superuser(&format!("write to {}", device.display()))?;
        let undo = undo_of_device(&device);
        resolution.plan.undo.extend(undo);
        return Ok(());
    }
    let remedy = "plug in a keyboard with a caps-lock light, and use a kernel with CONFIG_VT and \
                  CONFIG_INPUT_KEYBOARD";
    // The console accepts the ioctl without a keyboard, but then does nothing.
    if !has_keyboard_with_light(&resolution.host.sys) {
        return Err(Unsupported::new(
            "a keyboard with a caps-lock light",
            remedy,
        ));
    }
    let path = resolution.host.dev.join("tty0");
    let file = open_console(&path)?;
    console::lights(&file).map_err(|error| {
        Unsupported::new(
            format!("access to the lights of {} ({error})", path.display()),
            remedy,
        )
    })?;
    resolution
        .plan
        .undo
        .push(Undo::FollowKeyboardState { console: path });
    Ok(())
}

/// Returns the folder of the first LED whose name has the ending that the input layer gives to
/// caps-lock LEDs.
fn led_device(sys: &Path) -> Option<PathBuf> {
    let leds = std::fs::read_dir(sys.join("class/leds"))
        .ok()?
        .filter_map(Result::ok);
    leds.map(|led| led.path())
        .filter(|path| path.to_string_lossy().ends_with("::capslock"))
        .min()
}

/// LED_CAPSL of include/uapi/linux/input-event-codes.h, as a bit of the hexadecimal text in an
/// input device's `capabilities/led`.
const LED_CAPSL_BIT: u64 = 1 << 1;

fn has_keyboard_with_light(sys: &Path) -> bool {
    let Ok(inputs) = std::fs::read_dir(sys.join("class/input")) else {
        return false;
    };
    let lights = inputs.filter_map(|input| {
        std::fs::read_to_string(input.ok()?.path().join("capabilities/led")).ok()
    });
    lights
        .filter_map(|text| u64::from_str_radix(text.split_whitespace().last()?, 16).ok())
        .any(|lights| lights & LED_CAPSL_BIT != 0)
}

/// Returns the changes that restore an LED. Writing 0 to an LED also removes its trigger
/// (Documentation/ABI/testing/sysfs-class-led), so both are restored. The last entry is undone
/// first.
fn undo_of_device(device: &Path) -> Vec<Undo> {
    let (trigger, brightness) = (device.join("trigger"), device.join("brightness"));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let active = read(&trigger).split_whitespace().find_map(|word| {
        word.strip_prefix('[')?
            .strip_suffix(']')
            .map(ToOwned::to_owned)
    });
    let value = read(&brightness).trim().to_owned();
    let trigger = active.map(|value| Undo::Write {
        path: trigger,
        value,
        written: None,
    });
    trigger
        .into_iter()
        .chain((!value.is_empty()).then_some(Undo::Write {
            path: brightness,
            value,
            written: None,
        }))
        .collect()
}

fn prepare(worker: &mut Worker) -> Result<Job, WorkError> {
    let light = light(&worker.plan.load.undo)?;
    Ok(Box::new(move |worker| run(worker, &light)))
}

fn run(worker: &mut Worker, light: &Light) -> Result<(), WorkError> {
    let pause = worker.plan.load.parameters.duration("pause");
    let mut on = true;
    while worker.begin_pass() && worker.rest(pause) {
        match light.switch(on) {
            Ok(()) => worker.did(1, 0),
            Err(_) => worker.failed(),
        }
        on = !on;
    }
    // The guardian restores the light.
    light.switch(false).doing("switch the light off")
}

/// Opens the LED or the console that controls the light. The plan names it in the entry that
/// restores the light.
fn light(undo: &[Undo]) -> Result<Light, WorkError> {
    match undo.last() {
        Some(Undo::Write { path, .. }) => {
            let brightness = File::options().write(true).open(path);
            Ok(Light::Device(brightness.doing("open the light")?))
        }
        Some(Undo::FollowKeyboardState { console }) => Ok(Light::Console(
            open_console(console).map_err(WorkError::Absent)?,
        )),
        _ => Err(WorkError::Bound(
            "the load's plan names no light".to_owned(),
        )),
    }
}

impl Light {
    fn switch(&self, on: bool) -> std::io::Result<()> {
        match self {
            Self::Device(brightness) => brightness.write_all_at(if on { b"1" } else { b"0" }, 0),
            Self::Console(console) => {
                console::set_lights(console, if on { console::LED_CAPS } else { 0 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_keyboard_with_the_light_counts() {
        let sys = tempfile::tempdir().unwrap();
        assert!(!has_keyboard_with_light(sys.path()));
        for (name, lights, found) in [
            ("input0", "0\n", false),
            ("input1", "5\n", false),
            ("input2", "0 7\n", true),
        ] {
            let folder = sys
                .path()
                .join("class/input")
                .join(name)
                .join("capabilities");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("led"), lights).unwrap();
            assert_eq!(has_keyboard_with_light(sys.path()), found, "{name}");
        }
    }

    #[test]
    fn trigger_and_brightness_of_the_light_are_put_back_in_this_order() {
        let sys = tempfile::tempdir().unwrap();
        assert_eq!(led_device(sys.path()), None);
        let led = sys.path().join("class/leds/input3::capslock");
        std::fs::create_dir_all(&led).unwrap();
        std::fs::create_dir_all(sys.path().join("class/leds/input3::numlock")).unwrap();
        std::fs::write(led.join("trigger"), "none [kbd-capslock] timer\n").unwrap();
        std::fs::write(led.join("brightness"), "0\n").unwrap();
        assert_eq!(led_device(sys.path()), Some(led.clone()));
        let undo = undo_of_device(&led);
        assert_eq!(
            undo,
            [
                Undo::Write {
                    path: led.join("trigger"),
                    value: "kbd-capslock".into(),
                    written: None
                },
                Undo::Write {
                    path: led.join("brightness"),
                    value: "0".into(),
                    written: None
                }
            ]
        );
        let light = light(&undo).map_err(|error| error.to_string()).unwrap();
        light.switch(true).unwrap();
        assert_eq!(
            std::fs::read_to_string(led.join("brightness")).unwrap(),
            "1\n"
        );
    }
}
