//! Links: the ways from this machine out to something that answers, and back. The initiator's end is the probe `response`; the other end is
//! the kernel of another machine (`icmp`), or `tardy respond` there.

pub mod answer_log;
pub mod byte_stream;
pub mod exchange;
pub mod gpio;
pub mod icmp;
pub mod modem_lines;
pub mod packet;
pub mod parport;
pub mod respond;
pub mod route;
pub mod udp;

use std::path::PathBuf;
use std::str::FromStr;

/// Port of `udp:HOST` where none is given.
pub const PORT: u16 = 5_455;
/// Speed of byte echo where none is given, in bits per second.
pub const BITS_PER_SECOND: u32 = 115_200;

/// What to do where a parallel port cannot be had.
pub const PORT_REMEDY: &str = "load the drivers (modprobe parport_pc ppdev), which need a kernel with CONFIG_PPDEV and a port, and end who else has it (the module lp)";

/// A link by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Echo requests, answered by the other machine's kernel in softirq.
    Icmp {
        /// Its name or address.
        host: String,
    },
    /// Datagrams.
    Udp {
        /// The other machine's name or address; of the responder: the address to listen at.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A serial device: the modem lines RTS and CTS, without a byte on the wire.
    ModemLines {
        /// The device.
        device: PathBuf,
    },
    /// A serial device or a pseudo-terminal: bytes, echoed.
    Bytes {
        /// The device.
        device: PathBuf,
        /// Its speed; none where it has none.
        bits_per_second: Option<u32>,
    },
    /// Two lines of a GPIO chip.
    Gpio {
        /// The chip.
        chip: PathBuf,
        /// The line that is told of.
        input: u32,
        /// The line that is driven.
        output: u32,
    },
    /// A parallel port: a data line out, the ACK interrupt in.
    Parport {
        /// The device of the driver ppdev.
        device: PathBuf,
    },
    /// A pseudo-terminal with a responder in this process, for a first try.
    Loopback,
}

/// Why a text is no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseLinkError {
    /// Not one of the kinds.
    #[error(
        "`{0}` is no link: write icmp:HOST, udp:HOST:PORT, serial:DEVICE, serial-bytes:DEVICE, gpio:CHIP:IN,OUT, parport:DEVICE or loopback"
    )]
    Unknown(String),
    /// Nothing behind the kind.
    #[error("`{0}` does not say where to: write {0}:{1}")]
    NoPlace(&'static str, &'static str),
    /// No port.
    #[error("`{0}` is no port: write a number from 1 to 65535")]
    BadPort(String),
    /// No lines.
    #[error("`{0}` does not name two lines of a chip: write the numbers of the input and of the output, as in gpio:/dev/gpiochip0:17,27")]
    BadLines(String),
    /// No speed.
    #[error("`{0}` is no speed: write bits per second, as in serial-bytes:/dev/ttyS0:115200")]
    BadSpeed(String),
}

/// Who answers; the two kinds never stand in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answerer {
    /// The other machine's kernel, in softirq.
    Kernel,
    /// A process there.
    Process,
}

impl Link {
    /// Who answers at its other end.
    #[must_use]
    pub fn answerer(&self) -> Answerer {
        if matches!(self, Self::Icmp { .. }) { Answerer::Kernel } else { Answerer::Process }
    }

    /// Whether the kernel of the responder's machine stamps what comes.
    #[must_use]
    pub fn has_stamps(&self) -> bool {
        matches!(self, Self::Udp { .. } | Self::Gpio { .. })
    }
}

impl FromStr for Link {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let (kind, place) = text.split_once(':').unwrap_or((text, ""));
        let needed = |kind, example| if place.is_empty() { Err(ParseLinkError::NoPlace(kind, example)) } else { Ok(place) };
        match kind {
            "icmp" => Ok(Self::Icmp { host: needed("icmp", "HOST")?.to_owned() }),
            "udp" => udp_place(needed("udp", "HOST:PORT")?),
            "serial" => Ok(Self::ModemLines { device: needed("serial", "/dev/ttyS0")?.into() }),
            "serial-bytes" => byte_place(needed("serial-bytes", "/dev/ttyS0")?),
            "gpio" => gpio_place(needed("gpio", "/dev/gpiochip0:17,27")?),
            "parport" => Ok(Self::Parport { device: needed("parport", "/dev/parport0")?.into() }),
            "loopback" if place.is_empty() => Ok(Self::Loopback),
            _ => Err(ParseLinkError::Unknown(text.to_owned())),
        }
    }
}

/// `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT`.
fn udp_place(place: &str) -> Result<Link, ParseLinkError> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let number = |port: &str| port.parse().ok().filter(|&port| port > 0).ok_or_else(|| ParseLinkError::BadPort(port.to_owned()));
    Ok(Link::Udp { host: host.to_owned(), port: port.map_or(Ok(PORT), number)? })
}

fn byte_place(place: &str) -> Result<Link, ParseLinkError> {
    let (device, speed) = place.split_once(':').map_or((place, None), |(device, speed)| (device, Some(speed)));
    let number = |speed: &str| speed.parse().map_err(|_| ParseLinkError::BadSpeed(speed.to_owned()));
    let speed = speed.map_or(Ok(BITS_PER_SECOND), number)?;
    // Pseudo-terminals take any speed and have none.
    let bits_per_second = (!device.starts_with("/dev/pts/")).then_some(speed);
    Ok(Link::Bytes { device: device.into(), bits_per_second })
}

fn gpio_place(place: &str) -> Result<Link, ParseLinkError> {
    let lines = |lines: &str| {
        let (input, output) = lines.split_once(',')?;
        Some((input.parse().ok()?, output.parse().ok()?)).filter(|(input, output)| input != output)
    };
    let (chip, (input, output)) = place
        .rsplit_once(':')
        .and_then(|(chip, text)| Some((chip, lines(text)?)))
        .ok_or_else(|| ParseLinkError::BadLines(place.to_owned()))?;
    Ok(Link::Gpio { chip: chip.into(), input, output })
}

impl std::fmt::Display for Link {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Icmp { host } => write!(formatter, "icmp:{host}"),
            Self::Udp { host, port } if host.contains(':') => write!(formatter, "udp:[{host}]:{port}"),
            Self::Udp { host, port } => write!(formatter, "udp:{host}:{port}"),
            Self::ModemLines { device } => write!(formatter, "serial:{}", device.display()),
            Self::Bytes { device, bits_per_second: Some(speed) } => write!(formatter, "serial-bytes:{}:{speed}", device.display()),
            Self::Bytes { device, bits_per_second: None } => write!(formatter, "serial-bytes:{}", device.display()),
            Self::Gpio { chip, input, output } => write!(formatter, "gpio:{}:{input},{output}", chip.display()),
            Self::Parport { device } => write!(formatter, "parport:{}", device.display()),
            Self::Loopback => formatter.write_str("loopback"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_are_read_and_printed() {
        for text in [
            "icmp:board7",
            "udp:board7:4000",
            "udp:[fe80::1]:4000",
            "serial:/dev/ttyS0",
            "gpio:/dev/gpiochip0:17,27",
            "serial-bytes:/dev/ttyS0:9600",
            "parport:/dev/parport0",
            "loopback",
        ] {
            assert_eq!(text.parse::<Link>().unwrap().to_string(), text);
        }
        assert_eq!("udp:board7".parse::<Link>().unwrap().to_string(), "udp:board7:5455");
        assert_eq!("serial-bytes:/dev/pts/3".parse::<Link>().unwrap().to_string(), "serial-bytes:/dev/pts/3");
    }

    #[test]
    fn what_is_no_link_is_told_how_to_write_one() {
        let error = |text: &str| text.parse::<Link>().unwrap_err().to_string();
        assert!(error("tcp:board7").contains("icmp:HOST, udp:HOST:PORT"));
        assert!(error("icmp").contains("write icmp:HOST"));
        assert!(error("udp:board7:99999").contains("`99999` is no port"));
        assert!(error("serial-bytes:/dev/ttyS0:fast").contains("`fast` is no speed"));
        assert!(error("gpio:/dev/gpiochip0:17").contains("as in gpio:/dev/gpiochip0:17,27"));
        assert!(error("gpio:/dev/gpiochip0:5,5").contains("does not name two lines"));
        assert!(error("parport").contains("write parport:/dev/parport0"));
        assert!(error("loopback:1").contains("no link"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(udp:|icmp:|serial:|gpio:)?[\\[\\]:,a-z0-9]{0,20}") {
            let _ = text.parse::<Link>();
        }
    }
}
