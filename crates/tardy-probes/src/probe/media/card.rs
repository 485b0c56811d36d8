//! Chooses the sound card that the player uses, and configures it.

use std::io;
use std::path::{Path, PathBuf};

use tardy_core::units::Nanos;
use tardy_run::plan::ProbePlan;
use tardy_sys::pcm::{Format, Playback, Quantity, Space};

use tardy_machine::host::Host;
use tardy_machine::unsupported::Unsupported;

/// A playback device that is open and configured.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) path: PathBuf,
    /// Name of the device in other programs, such as `hw:0,0`.
    pub(super) name: String,
    /// Name of the device according to its driver.
    pub(super) model: String,
    pub(super) playback: Playback,
    pub(super) shape: Shape,
}

/// The configuration of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) format: Format,
    pub(super) channels: u32,
    /// Frames per second, as a fraction.
    pub(super) rate: (u32, u32),
    pub(super) period_frames: u32,
    pub(super) buffer_frames: u32,
    pub(super) frame_bytes: usize,
}

/// Why no card can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CardError {
    #[error("a sound card ({0} has no playback device)")]
    None(PathBuf),
    /// The device cannot be used. If several devices were tried, this is the first error.
    #[error("playback on {path} ({error})")]
    Device { path: PathBuf, error: io::Error },
}

/// Number of periods in a buffer. The device interrupts once per period.
const PERIODS: u32 = 4;
/// Sample formats in which silence is all zero bytes. The first one that the device supports is
/// used.
const FORMATS: [Format; 4] = [
    Format::S16Le,
    Format::S32Le,
    Format::S24Le,
    Format::S24ThreeLe,
];
/// Driver names of devices without hardware (sound/drivers/dummy.c, sound/drivers/aloop.c).
const WITHOUT_HARDWARE: [&str; 2] = ["Dummy PCM", "Loopback PCM"];

impl Card {
    /// Opens the requested device; without a request, the first device that can be opened.
    pub(super) fn open(probe: &ProbePlan, host: &Host) -> Result<Self, CardError> {
        let paths = match probe.parameters.path("device") {
            Some(path) => vec![path_of(path, &host.dev)],
            None => devices(&host.dev),
        };
        let (rate, buffer) = (
            probe.parameters.number("audio-rate"),
            probe.parameters.duration("buffer"),
        );
        let mut first = None;
        for path in paths {
            match Self::open_path(&path, rate, buffer) {
                Ok(card) => return Ok(card),
                Err(error) => first = first.or(Some(CardError::Device { path, error })),
            }
        }
        Err(first.unwrap_or_else(|| CardError::None(host.dev.join("snd"))))
    }

    fn open_path(path: &Path, rate: u64, buffer: Nanos) -> io::Result<Self> {
        let mut playback = Playback::open(path)?;
        let info = playback.info()?;
        let shape = settle(&mut playback, rate, buffer)?;
        Ok(Self {
            path: path.to_owned(),
            name: format!("hw:{},{}", info.card, info.device),
            model: info.name,
            playback,
            shape,
        })
    }

    /// Returns a note that describes the card and its configuration.
    pub(super) fn note(&self) -> String {
        let Shape {
            format,
            channels,
            rate,
            period_frames,
            buffer_frames,
            ..
        } = self.shape;
        let hertz = f64::from(rate.0) / f64::from(rate.1);
        let kind = if WITHOUT_HARDWARE.contains(&&*self.model) {
            "a driver without hardware: its clock is the kernel's"
        } else {
            "a sound card"
        };
        format!(
            "media: built-in player with the audio clock of {} ({}, {kind}): its hardware pointer \
             with the kernel's timestamp, extrapolated to the moment of the frame at the nominal \
             rate; {hertz} frames a second, {channels} channels, {format:?}, buffer of \
             {buffer_frames} frames ({:.1} ms), period of {period_frames}; it plays silence",
            self.name,
            self.model,
            f64::from(buffer_frames) / hertz * 1e3,
        )
    }
}

impl CardError {
    /// Converts the error to a missing requirement with its remedy.
    pub(super) fn into_absent(self) -> Unsupported {
        let remedy = match &self {
            Self::None(_) => {
                "load its driver (modprobe snd-dummy adds a card without hardware), or use \
                 player=simulated"
            }
            Self::Device { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => {
                    "give a device from /proc/asound/pcm, or use player=simulated"
                }
                io::ErrorKind::PermissionDenied => {
                    "run as root or in the group audio, or use player=simulated"
                }
                io::ErrorKind::ResourceBusy => {
                    "stop the program that uses the card (fuser -v /dev/snd/*), or use \
                     player=simulated"
                }
                _ => "give another device or audio-rate, or use player=simulated",
            },
        };
        Unsupported::new(self.to_string(), remedy)
    }
}

/// Returns the path of the device's file. A path is returned unchanged; `CARD,DEVICE` is looked up
/// in `dev`.
fn path_of(device: &Path, dev: &Path) -> PathBuf {
    let numbers = device.to_str().and_then(|text| text.split_once(','));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match numbers {
        Some((card, device)) if is_number(card) && is_number(device) => {
            dev.join(format!("snd/pcmC{card}D{device}p"))
        }
        _ => device.to_owned(),
    }
}

/// Returns every device for playback, in the order of cards and devices.
fn devices(dev: &Path) -> Vec<PathBuf> {
    let number = |name: &str| -> Option<(u32, u32)> {
        let (card, device) = name
            .strip_prefix("pcmC")?
            .strip_suffix('p')?
            .split_once('D')?;
        Some((card.parse().ok()?, device.parse().ok()?))
    };
    let entries = std::fs::read_dir(dev.join("snd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Chooses a configuration that the device supports, sets it, and prepares the device.
fn settle(playback: &mut Playback, rate: u64, buffer: Nanos) -> io::Result<Shape> {
    let of_format = |format: Format| {
        let mut space = Space::new().with_format(format);
        playback.refine(&mut space).map(|()| (format, space))
    };
    let mut found = of_format(FORMATS[0]);
    for format in &FORMATS[1..] {
        found = found.or_else(|error| of_format(*format).map_err(|_| error));
    }
    let (format, mut space) = found?;
    let wanted = u32::try_from(rate).unwrap_or(u32::MAX);
    let (least, most) = space.range(Quantity::Rate);
    space = space.with(Quantity::Rate, wanted, wanted);
    if let Err(error) = playback.refine(&mut space) {
        return Err(io::Error::new(
            error.kind(),
            format!("the card plays {least} to {most} frames a second, not {wanted}: {error}"),
        ));
    }
    space = nearest(playback, space, Quantity::Channels, 2)?;
    let buffer_frames = i128::from(buffer.get()) * i128::from(rate) / 1_000_000_000;
    space = nearest(
        playback,
        space,
        Quantity::BufferFrames,
        u32::try_from(buffer_frames).unwrap_or(u32::MAX),
    )?;
    let period = space.range(Quantity::BufferFrames).0 / PERIODS;
    space = nearest(playback, space, Quantity::PeriodFrames, period)?;
    playback.configure(&mut space)?;
    playback.prepare()?;
    let one = |quantity| space.range(quantity).0;
    Ok(Shape {
        format,
        channels: one(Quantity::Channels),
        rate: space.rate(),
        period_frames: one(Quantity::PeriodFrames),
        buffer_frames: one(Quantity::BufferFrames),
        frame_bytes: one(Quantity::FrameBits) as usize / 8,
    })
}

/// Returns `space`, the set of possible configurations, with `quantity` limited to one value:
/// `wanted` if the device supports it, otherwise the next higher value, or the next lower one if
/// the device supports no higher one.
fn nearest(
    playback: &Playback,
    space: Space,
    quantity: Quantity,
    wanted: u32,
) -> io::Result<Space> {
    let (least, most) = space.range(quantity);
    let wanted = wanted.clamp(least, most);
    let refined = |min, max| {
        let mut part = space.with(quantity, min, max);
        playback.refine(&mut part).map(|()| part)
    };
    let single = refined(wanted, most)
        .map(|above| above.range(quantity).0)
        .or_else(|_| refined(least, wanted).map(|below| below.range(quantity).1))?;
    refined(single, single)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_in_the_order_of_their_numbers_and_only_those_that_play() {
        let dev = tempfile::tempdir().unwrap();
        std::fs::create_dir(dev.path().join("snd")).unwrap();
        for name in [
            "pcmC10D0p",
            "pcmC1D3p",
            "pcmC1D0p",
            "pcmC0D0c",
            "controlC0",
            "timer",
            "pcmCxD0p",
        ] {
            std::fs::write(dev.path().join("snd").join(name), "").unwrap();
        }
        let names: Vec<_> = devices(dev.path())
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["pcmC1D0p", "pcmC1D3p", "pcmC10D0p"]);
        assert_eq!(devices(&dev.path().join("none")), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_device_is_named_by_its_numbers_or_its_path() {
        let of = |text: &str| {
            path_of(Path::new(text), Path::new("/dev"))
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(of("1,0"), "/dev/snd/pcmC1D0p");
        for path in ["/dev/snd/pcmC0D0p", "x,0", ",", "1,"] {
            assert_eq!(of(path), path);
        }
    }
}
