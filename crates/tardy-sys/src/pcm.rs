//! Plays sound through the kernel's interface (`/dev/snd/pcmCxDyp`, include/uapi/sound/asound.h,
//! protocol 2.0.15). The module chooses the parameters of the hardware, writes frames, and reads
//! the hardware pointer with its time stamp. Calls do not wait.
//!
//! alsa-lib is not used, because it loads plug-ins at run time, and the binary is static.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The kernel's snd_pcm_uframes_t: a number of frames. A frame is a sample of each channel.
type Frames = libc::c_ulong;

/// Direction bits of ioctl(2) requests from asm-generic/ioctl.h, which most architectures use.
const NONE: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;

/// Returns the code of a request of type SNDRV_PCM_IOCTL.
const fn code(direction: u32, number: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'A' as u32) << 8 | number
}

const INFO: u32 = code(READ, 0x01, size_of::<RawInfo>());
const USER_PROTOCOL: u32 = code(WRITE, 0x04, size_of::<libc::c_int>());
const HW_REFINE: u32 = code(READ | WRITE, 0x10, size_of::<Space>());
const HW_PARAMS: u32 = code(READ | WRITE, 0x11, size_of::<Space>());
const SW_PARAMS: u32 = code(READ | WRITE, 0x13, size_of::<RawSoftware>());
const STATUS: u32 = code(READ, 0x20, size_of::<RawStatus>());
const PREPARE: u32 = code(NONE, 0x40, 0);
const START: u32 = code(NONE, 0x42, 0);
const DROP: u32 = code(NONE, 0x43, 0);
const WRITE_FRAMES: u32 = code(WRITE, 0x50, size_of::<RawTransfer>());

/// SNDRV_PCM_VERSION of the interface used here. Since 2.0.12, the software parameters contain the
/// type of time stamps.
const PROTOCOL: libc::c_int = 2 << 16 | 15;
const TSTAMP_ENABLE: libc::c_int = 1;
const TSTAMP_TYPE_MONOTONIC: libc::c_int = 1;
/// SNDRV_PCM_STATE_RUNNING and SNDRV_PCM_STATE_XRUN.
const STATE_RUNNING: libc::c_int = 3;
const STATE_XRUN: libc::c_int = 4;

/// SNDRV_PCM_ACCESS_RW_INTERLEAVED: frames are written one after another, each with a sample of all
/// channels.
const ACCESS_INTERLEAVED: u32 = 3;

/// The storage format of a sample. In all of these formats, silence is all zero bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Format {
    /// 16 bits.
    S16Le = 2,
    /// 24 bits in 4 bytes.
    S24Le = 6,
    /// 32 bits.
    S32Le = 10,
    /// 24 bits in 3 bytes.
    S24ThreeLe = 32,
}

/// A parameter that has a range of values in a [`Space`]: one of SNDRV_PCM_HW_PARAM_*, from 8 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Quantity {
    /// Number of bits in a frame.
    FrameBits = 9,
    Channels = 10,
    /// Frames per second.
    Rate = 11,
    /// Frames from one interrupt of the device to the next.
    PeriodFrames = 13,
    /// Frames that the device's buffer holds.
    BufferFrames = 17,
}

/// The kernel's number of the first quantity (SNDRV_PCM_HW_PARAM_FIRST_INTERVAL).
const FIRST_QUANTITY: usize = 8;
/// Indices of the masks for the access mode and for the sample format.
const MASK_ACCESS: usize = 0;
const MASK_FORMAT: usize = 1;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct RawInterval {
    min: u32,
    max: u32,
    /// Flag bits: the lower end is open, the upper end is open, whole numbers only, empty.
    flags: u32,
}

/// The values that are still possible for each parameter of a device (snd_pcm_hw_params). Each
/// request narrows this space, until one value of each parameter is left.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Space {
    flags: u32,
    masks: [[u32; 8]; 3],
    masks_reserved: [[u32; 8]; 5],
    intervals: [RawInterval; 12],
    intervals_reserved: [RawInterval; 9],
    requested: u32,
    changed: u32,
    info: u32,
    significant_bits: u32,
    rate_numerator: u32,
    rate_denominator: u32,
    fifo_frames: Frames,
    reserved: [u8; 64],
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

impl Space {
    /// Creates a space that contains all values of all parameters, except that interleaved writing
    /// is the only access mode.
    #[must_use]
    pub fn new() -> Self {
        let everything = RawInterval {
            min: 0,
            max: u32::MAX,
            flags: 0,
        };
        let mut space = Self {
            flags: 0,
            masks: [[u32::MAX; 8]; 3],
            masks_reserved: [[0; 8]; 5],
            intervals: [everything; 12],
            intervals_reserved: [RawInterval {
                min: 0,
                max: 0,
                flags: 0,
            }; 9],
            requested: u32::MAX,
            changed: 0,
            info: u32::MAX,
            significant_bits: 0,
            rate_numerator: 0,
            rate_denominator: 0,
            fifo_frames: 0,
            reserved: [0; 64],
        };
        space.choose(MASK_ACCESS, ACCESS_INTERLEAVED);
        space
    }

    /// Restricts the space to one sample format.
    #[must_use]
    pub fn with_format(mut self, format: Format) -> Self {
        self.choose(MASK_FORMAT, format as u32);
        self
    }

    /// Restricts a quantity to values from `min` to `max`.
    #[must_use]
    pub fn with(mut self, quantity: Quantity, min: u32, max: u32) -> Self {
        self.intervals[quantity as usize - FIRST_QUANTITY] = RawInterval { min, max, flags: 0 };
        self.requested = u32::MAX;
        self
    }

    /// Returns the smallest and the largest value that are still possible for a quantity.
    #[must_use]
    pub fn range(&self, quantity: Quantity) -> (u32, u32) {
        let RawInterval { min, max, flags } = self.intervals[quantity as usize - FIRST_QUANTITY];
        (
            min.saturating_add(flags & 1),
            max.saturating_sub(flags >> 1 & 1),
        )
    }

    /// Returns the frames per second of a configured device, as a fraction.
    #[must_use]
    pub fn rate(&self) -> (u32, u32) {
        (self.rate_numerator, self.rate_denominator)
    }

    fn choose(&mut self, mask: usize, bit: u32) {
        self.masks[mask] = [0; 8];
        self.masks[mask][bit as usize / 32] = 1 << (bit % 32);
        self.requested = u32::MAX;
    }
}

#[repr(C)]
struct RawInfo {
    device: u32,
    subdevice: u32,
    stream: libc::c_int,
    card: libc::c_int,
    id: [u8; 64],
    name: [u8; 80],
    subdevice_name: [u8; 32],
    class: libc::c_int,
    subclass: libc::c_int,
    subdevices: u32,
    subdevices_free: u32,
    sync: [u8; 16],
    reserved: [u8; 64],
}

#[repr(C)]
struct RawSoftware {
    tstamp_mode: libc::c_int,
    period_step: u32,
    sleep_min: u32,
    avail_min: Frames,
    xfer_align: Frames,
    start_threshold: Frames,
    stop_threshold: Frames,
    silence_threshold: Frames,
    silence_size: Frames,
    boundary: Frames,
    protocol: u32,
    tstamp_type: u32,
    reserved: [u8; 56],
}

/// snd_pcm_status of 64-bit machines. On other machines, the time stamps have the C library's type.
#[repr(C)]
struct RawStatus {
    state: libc::c_int,
    padding: [u8; align_of::<libc::timespec>() - size_of::<libc::c_int>()],
    trigger_tstamp: libc::timespec,
    tstamp: libc::timespec,
    written: Frames,
    pointer: Frames,
    delay: libc::c_long,
    avail: Frames,
    avail_max: Frames,
    overrange: Frames,
    suspended_state: libc::c_int,
    audio_tstamp_data: u32,
    audio_tstamp: libc::timespec,
    driver_tstamp: libc::timespec,
    audio_tstamp_accuracy: u32,
    reserved: [u8; 52 - 2 * size_of::<libc::timespec>()],
}

#[repr(C)]
struct RawTransfer {
    result: libc::c_long,
    buffer: *const u8,
    frames: Frames,
}

/// The description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Number of the device's sound card.
    pub card: u32,
    /// Number of the device on its card.
    pub device: u32,
    /// The device's name, from the driver.
    pub name: String,
}

/// The state of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The device plays.
    Running,
    /// The device stopped because there was nothing left to play.
    Underrun,
    /// Any other state (SNDRV_PCM_STATE_*).
    Other(i32),
}

/// The position of the hardware pointer, with related values of the same moment.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    /// The state of the device.
    pub state: State,
    /// Time of the pointer's last movement according to the kernel, in ns on CLOCK_MONOTONIC. If
    /// this time is before `started`, it belongs to an earlier playback, because the kernel sets no
    /// new time until the pointer moves (sound/core/pcm_lib.c, update_audio_tstamp).
    pub at: i64,
    /// Time at which the device was started or stopped, in ns on CLOCK_MONOTONIC.
    pub started: i64,
    /// Number of frames written since the device was prepared.
    pub written: u64,
    /// Number of written frames that cannot be heard yet: those in the buffer after the pointer,
    /// and those in later stages (a codec). It is 0 if the device does not play.
    pub delay: i64,
    /// Number of free frames in the buffer.
    pub room: u64,
}

/// The playback of a device, which this process has opened exclusively.
#[derive(Debug)]
pub struct Playback {
    file: File,
    frame_bytes: usize,
}

impl Playback {
    /// Opens the device exclusively.
    ///
    /// # Errors
    /// Returns ENOENT if the device does not exist; EACCES; EBUSY or EAGAIN if another program has
    /// opened it.
    pub fn open(device: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(device)?;
        Ok(Self {
            file,
            frame_bytes: 0,
        })
    }

    /// Returns the device's description.
    ///
    /// # Errors
    /// Returns ENOTTY if it is no sound device.
    pub fn info(&self) -> io::Result<Info> {
        let mut raw = RawInfo {
            device: 0,
            subdevice: 0,
            stream: 0,
            card: 0,
            id: [0; 64],
            name: [0; 80],
            subdevice_name: [0; 32],
            class: 0,
            subclass: 0,
            subdevices: 0,
            subdevices_free: 0,
            sync: [0; 16],
            reserved: [0; 64],
        };
        self.exchange(INFO, &mut raw)?;
        let name = raw.name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(Info {
            card: raw.card.unsigned_abs(),
            device: raw.device,
            name: String::from_utf8_lossy(name).into_owned(),
        })
    }

    /// Reduces `space` to the values that the device supports. Does not change the device.
    ///
    /// # Errors
    /// Returns EINVAL if nothing is left; ENOTTY if it is no sound device.
    pub fn refine(&self, space: &mut Space) -> io::Result<()> {
        space.requested = u32::MAX;
        self.exchange(HW_REFINE, space)
    }

    /// Chooses one set of values from `space`, configures the device with it, and reduces `space`
    /// to it. Playback stops when everything was played, time stamps use CLOCK_MONOTONIC, and only
    /// [`Playback::start`] starts the device.
    ///
    /// # Errors
    /// Fails as [`Playback::refine`] does, or if the driver refuses the configuration.
    pub fn configure(&mut self, space: &mut Space) -> io::Result<()> {
        let mut protocol = PROTOCOL;
        // Kernels before 5.1 lack this request, so its error is ignored. These kernels have
        // everything else that is used here.
        let _ = self.exchange(USER_PROTOCOL, &mut protocol);
        space.requested = u32::MAX;
        self.exchange(HW_PARAMS, space)?;
        self.frame_bytes = space.range(Quantity::FrameBits).0 as usize / 8;
        let buffer = Frames::from(space.range(Quantity::BufferFrames).0);
        let mut software = RawSoftware {
            tstamp_mode: TSTAMP_ENABLE,
            period_step: 1,
            sleep_min: 0,
            avail_min: 1,
            xfer_align: 1,
            start_threshold: buffer + 1,
            stop_threshold: buffer,
            silence_threshold: 0,
            silence_size: 0,
            boundary: 0,
            protocol: PROTOCOL as u32,
            tstamp_type: TSTAMP_TYPE_MONOTONIC as u32,
            reserved: [0; 56],
        };
        self.exchange(SW_PARAMS, &mut software)
    }

    /// Prepares the device for writing and starting, with an empty buffer. This is needed after the
    /// device was configured, and after it stopped.
    ///
    /// # Errors
    /// Returns the errors of the driver.
    pub fn prepare(&self) -> io::Result<()> {
        self.order(PREPARE)
    }

    /// Starts to play the written frames.
    ///
    /// # Errors
    /// Returns EPIPE if nothing was written, or the errors of the driver.
    pub fn start(&self) -> io::Result<()> {
        self.order(START)
    }

    /// Stops playback at once.
    ///
    /// # Errors
    /// Returns the errors of the driver.
    pub fn stop(&self) -> io::Result<()> {
        self.order(DROP)
    }

    /// Writes as many whole frames of `sound` as fit into the buffer, and returns their number.
    ///
    /// # Errors
    /// Returns EPIPE if the device stopped because there was nothing left to play; EBADFD if it was
    /// not prepared; ENODEV if it was unplugged.
    #[inline]
    #[allow(
        clippy::unnecessary_cast,
        reason = "frames have 32 bits on some targets"
    )]
    pub fn write(&self, sound: &[u8]) -> io::Result<u64> {
        let frames = sound.len() / self.frame_bytes.max(1);
        let mut transfer = RawTransfer {
            result: 0,
            buffer: sound.as_ptr(),
            frames: frames as Frames,
        };
        // SAFETY: the kernel reads and writes one RawTransfer, and reads `frames` frames at its
        // pointer. When the device was configured, the kernel reported the size of a frame in
        // bytes, so these frames are within the bounds of `sound`. If the device is not configured
        // yet, the kernel refuses the call.
        let result = crate::check(unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                WRITE_FRAMES as _,
                std::ptr::from_mut(&mut transfer),
            )
        });
        match result {
            Ok(_) => Ok(transfer.result.unsigned_abs() as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Reads the position of the hardware pointer.
    ///
    /// # Errors
    /// Returns the errors of the driver.
    #[inline]
    #[allow(
        clippy::unnecessary_cast,
        reason = "time_t has 32 bits on some targets"
    )]
    pub fn status(&self) -> io::Result<Status> {
        let never = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut raw = RawStatus {
            state: 0,
            padding: [0; _],
            trigger_tstamp: never,
            tstamp: never,
            written: 0,
            pointer: 0,
            delay: 0,
            avail: 0,
            avail_max: 0,
            overrange: 0,
            suspended_state: 0,
            audio_tstamp_data: 0,
            audio_tstamp: never,
            driver_tstamp: never,
            audio_tstamp_accuracy: 0,
            reserved: [0; _],
        };
        self.exchange(STATUS, &mut raw)?;
        let state = match raw.state {
            STATE_RUNNING => State::Running,
            STATE_XRUN => State::Underrun,
            other => State::Other(other),
        };
        let nanos = |time: libc::timespec| time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64;
        let (at, started) = (nanos(raw.tstamp), nanos(raw.trigger_tstamp));
        Ok(Status {
            state,
            at,
            started,
            written: raw.written as u64,
            delay: raw.delay as i64,
            room: raw.avail as u64,
        })
    }

    fn order(&self, request: u32) -> io::Result<()> {
        // SAFETY: these requests take no argument.
        crate::check(unsafe { libc::ioctl(self.file.as_raw_fd(), request as _) }).map(drop)
    }

    /// Makes a request with a value that the kernel reads and writes. The code of each such request
    /// contains the size of its value.
    fn exchange<T>(&self, request: u32, value: &mut T) -> io::Result<()> {
        debug_assert_eq!((request >> 16 & 0x3fff) as usize, size_of::<T>());
        // SAFETY: the kernel reads and writes as many bytes as the request's code states, which is
        // the size of `value`. The types of this file contain only numbers, so any bytes are valid.
        crate::check(unsafe {
            libc::ioctl(
                self.file.as_raw_fd(),
                request as _,
                std::ptr::from_mut(value),
            )
        })
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::mem::offset_of;
    use std::process::{Command, Stdio};

    /// Returns the values of these C expressions, which a compiled C program computes with the
    /// kernel's header.
    fn printed_by_c(expressions: &[&str]) -> Vec<usize> {
        let program = std::env::temp_dir().join(format!("tardy-asound-{}", std::process::id()));
        let mut compiler = Command::new("cc")
            .args(["-x", "c", "-", "-o"])
            .arg(&program)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a C compiler (cargo xtask test)");
        let mut text = "#include <stdio.h>\n#include <stddef.h>\n#include <time.h>\n#include \
                        <sys/ioctl.h>\n#include <sound/asound.h>\nint main(void) {\n"
            .to_owned();
        expressions.iter().for_each(|expression| {
            text += &format!("printf(\"%zu\\n\", (size_t)({expression}));\n")
        });
        compiler
            .stdin
            .take()
            .unwrap()
            .write_all((text + "return 0; }\n").as_bytes())
            .unwrap();
        assert!(compiler.wait().unwrap().success());
        let printed = Command::new(&program).output().unwrap().stdout;
        std::fs::remove_file(&program).unwrap();
        String::from_utf8(printed)
            .unwrap()
            .lines()
            .map(|line| line.parse().unwrap())
            .collect()
    }

    #[test]
    fn requests_numbers_and_places_are_those_of_the_kernels_header() {
        let ours_and_theirs = [
            (INFO as usize, "(unsigned)SNDRV_PCM_IOCTL_INFO"),
            (
                USER_PROTOCOL as usize,
                "(unsigned)SNDRV_PCM_IOCTL_USER_PVERSION",
            ),
            (HW_REFINE as usize, "(unsigned)SNDRV_PCM_IOCTL_HW_REFINE"),
            (HW_PARAMS as usize, "(unsigned)SNDRV_PCM_IOCTL_HW_PARAMS"),
            (SW_PARAMS as usize, "(unsigned)SNDRV_PCM_IOCTL_SW_PARAMS"),
            (STATUS as usize, "(unsigned)SNDRV_PCM_IOCTL_STATUS"),
            (PREPARE as usize, "(unsigned)SNDRV_PCM_IOCTL_PREPARE"),
            (START as usize, "(unsigned)SNDRV_PCM_IOCTL_START"),
            (DROP as usize, "(unsigned)SNDRV_PCM_IOCTL_DROP"),
            (
                WRITE_FRAMES as usize,
                "(unsigned)SNDRV_PCM_IOCTL_WRITEI_FRAMES",
            ),
            (size_of::<RawInfo>(), "sizeof(struct snd_pcm_info)"),
            (size_of::<Space>(), "sizeof(struct snd_pcm_hw_params)"),
            (size_of::<RawSoftware>(), "sizeof(struct snd_pcm_sw_params)"),
            (size_of::<RawStatus>(), "sizeof(struct snd_pcm_status)"),
            (size_of::<RawTransfer>(), "sizeof(struct snd_xferi)"),
            (
                offset_of!(RawInfo, card),
                "offsetof(struct snd_pcm_info, card)",
            ),
            (
                offset_of!(RawInfo, name),
                "offsetof(struct snd_pcm_info, name)",
            ),
            (
                offset_of!(Space, masks),
                "offsetof(struct snd_pcm_hw_params, masks)",
            ),
            (
                offset_of!(Space, intervals),
                "offsetof(struct snd_pcm_hw_params, intervals)",
            ),
            (
                offset_of!(Space, requested),
                "offsetof(struct snd_pcm_hw_params, rmask)",
            ),
            (
                offset_of!(Space, info),
                "offsetof(struct snd_pcm_hw_params, info)",
            ),
            (
                offset_of!(RawSoftware, start_threshold),
                "offsetof(struct snd_pcm_sw_params, start_threshold)",
            ),
            (
                offset_of!(RawSoftware, stop_threshold),
                "offsetof(struct snd_pcm_sw_params, stop_threshold)",
            ),
            (
                offset_of!(RawSoftware, protocol),
                "offsetof(struct snd_pcm_sw_params, proto)",
            ),
            (
                offset_of!(RawSoftware, tstamp_type),
                "offsetof(struct snd_pcm_sw_params, tstamp_type)",
            ),
            (
                offset_of!(RawStatus, trigger_tstamp),
                "offsetof(struct snd_pcm_status, trigger_tstamp)",
            ),
            (
                offset_of!(RawStatus, tstamp),
                "offsetof(struct snd_pcm_status, tstamp)",
            ),
            (
                offset_of!(RawStatus, written),
                "offsetof(struct snd_pcm_status, appl_ptr)",
            ),
            (
                offset_of!(RawStatus, delay),
                "offsetof(struct snd_pcm_status, delay)",
            ),
            (
                offset_of!(RawStatus, avail),
                "offsetof(struct snd_pcm_status, avail)",
            ),
            (
                offset_of!(RawTransfer, buffer),
                "offsetof(struct snd_xferi, buf)",
            ),
            (
                offset_of!(RawTransfer, frames),
                "offsetof(struct snd_xferi, frames)",
            ),
            (TSTAMP_ENABLE as usize, "SNDRV_PCM_TSTAMP_ENABLE"),
            (
                TSTAMP_TYPE_MONOTONIC as usize,
                "SNDRV_PCM_TSTAMP_TYPE_MONOTONIC",
            ),
            (STATE_RUNNING as usize, "SNDRV_PCM_STATE_RUNNING"),
            (STATE_XRUN as usize, "SNDRV_PCM_STATE_XRUN"),
            (
                ACCESS_INTERLEAVED as usize,
                "SNDRV_PCM_ACCESS_RW_INTERLEAVED",
            ),
            (MASK_ACCESS, "SNDRV_PCM_HW_PARAM_ACCESS"),
            (MASK_FORMAT, "SNDRV_PCM_HW_PARAM_FORMAT"),
            (FIRST_QUANTITY, "SNDRV_PCM_HW_PARAM_FIRST_INTERVAL"),
            (
                Quantity::FrameBits as usize,
                "SNDRV_PCM_HW_PARAM_FRAME_BITS",
            ),
            (Quantity::Channels as usize, "SNDRV_PCM_HW_PARAM_CHANNELS"),
            (Quantity::Rate as usize, "SNDRV_PCM_HW_PARAM_RATE"),
            (
                Quantity::PeriodFrames as usize,
                "SNDRV_PCM_HW_PARAM_PERIOD_SIZE",
            ),
            (
                Quantity::BufferFrames as usize,
                "SNDRV_PCM_HW_PARAM_BUFFER_SIZE",
            ),
            (Format::S16Le as usize, "SNDRV_PCM_FORMAT_S16_LE"),
            (Format::S24Le as usize, "SNDRV_PCM_FORMAT_S24_LE"),
            (Format::S32Le as usize, "SNDRV_PCM_FORMAT_S32_LE"),
            (Format::S24ThreeLe as usize, "SNDRV_PCM_FORMAT_S24_3LE"),
        ];
        let expressions: Vec<&str> = ours_and_theirs.iter().map(|(_, theirs)| *theirs).collect();
        for ((ours, name), theirs) in ours_and_theirs.iter().zip(printed_by_c(&expressions)) {
            assert_eq!(*ours, theirs, "{name}");
        }
    }

    #[test]
    fn a_space_holds_what_was_asked_for_and_open_ends_are_left_out() {
        let mut space =
            Space::new()
                .with_format(Format::S24ThreeLe)
                .with(Quantity::Rate, 44_100, 48_000);
        assert_eq!(
            (space.masks[MASK_FORMAT], space.masks[MASK_ACCESS][0]),
            ([0, 1, 0, 0, 0, 0, 0, 0], 8)
        );
        assert_eq!(
            (space.range(Quantity::Rate), space.range(Quantity::Channels)),
            ((44_100, 48_000), (0, u32::MAX))
        );
        space.intervals[Quantity::Rate as usize - FIRST_QUANTITY].flags = 3;
        assert_eq!(space.range(Quantity::Rate), (44_101, 47_999));
    }

    // Playing needs a sound device, so the lab's tests do it in a guest.
    #[test]
    fn what_is_no_sound_device_is_an_error() {
        assert_eq!(
            Playback::open(Path::new("/dev/no-such-card"))
                .unwrap_err()
                .raw_os_error(),
            Some(libc::ENOENT)
        );
        let mut null = Playback::open(Path::new("/dev/null")).unwrap();
        let errors = [
            null.info().map(drop),
            null.refine(&mut Space::new()),
            null.configure(&mut Space::new()),
            null.prepare(),
            null.start(),
            null.stop(),
            null.write(&[0; 4]).map(drop),
            null.status().map(drop),
        ];
        for result in errors {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        }
    }
}
