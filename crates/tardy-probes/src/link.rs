//! A link is a way to send a stimulus from this machine to a device or machine that answers it, and
//! to receive the answer. The probe `response` is the initiator's end. The other end is
//! `tardy respond` on another machine, or that machine's kernel (`icmp`).
//!
//! A link is one file in this folder and one line in [`LINKS`]. The file defines the link's
//! [`LinkInfo`] and its [`Place`], which opens both ends.
//!
//! If a stimulus is not answered, the time-out is recorded as its latency, so it misses any shorter
//! deadline. The run ends if the responder has answered nothing for a second, and at least ten
//! stimuli since its last answer are unanswered. The stimuli since the responder's last answer then
//! do not become samples, because the responder was gone, not late.
//!
//! A round trip is recorded even if something interrupted the initiator. A second series contains,
//! for each round trip, the longest time between two polls, so that interruptions can be seen. The
//! name of the series depends on whether the other machine's kernel or a process answers.

pub mod answer_log;
mod budget;
mod byte_stream;
pub mod exchange;
mod gpio;
mod icmp;
pub mod initiation;
mod loopback;
mod modem_lines;
mod packet;
mod parport;
pub mod peer;
pub mod respond;
mod route;
pub mod secret;
mod stamp;
mod udp;
mod udp_responder;

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use initiation::Initiation;
use respond::Responder;
use secret::{Secret, SecretError};

/// All kinds of links, in the order of listing.
pub const LINKS: &[&LinkInfo] = &[
    &icmp::INFO,
    &udp::INFO,
    &modem_lines::INFO,
    &byte_stream::INFO,
    &gpio::INFO,
    &parport::INFO,
    &loopback::INFO,
];

/// A kind of link.
#[derive(Debug)]
pub struct LinkInfo {
    /// Name of the kind, which precedes the destination, as in `udp:board7`.
    pub name: &'static str,
    /// Syntax of the destination, as shown in help: `HOST[:PORT]`. Empty if all links of this kind
    /// have the same destination.
    pub form: &'static str,
    /// An example of a destination, for error messages.
    pub example: &'static str,
    /// What carries stimuli and answers, in one line.
    pub carries: &'static str,
    /// Who answers the stimuli, in one line.
    pub answered_by: &'static str,
    /// Parses a destination, which is empty only if `form` is empty.
    pub parse: fn(&str) -> Result<Arc<dyn Place>, ParseLinkError>,
}

impl LinkInfo {
    /// Returns the syntax of a link of this kind, such as `udp:HOST[:PORT]`.
    #[must_use]
    pub fn written(&self) -> String {
        if self.form.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}:{}", self.name, self.form)
        }
    }
}

/// The destination of a link. The text of a destination is the part after the link's name.
pub trait Place: fmt::Debug + fmt::Display + Send + Sync {
    /// Opens the initiator's end, and checks that the other end answers.
    ///
    /// # Errors
    /// Returns an error if the other end does not answer, if the device fails, or if the name
    /// cannot be resolved.
    fn initiate(&self) -> io::Result<Initiation>;

    /// Opens the responder's end.
    ///
    /// # Errors
    /// Returns `Unsupported` for links that need no responder, or an error if the device or the
    /// address cannot be used.
    fn respond(&self) -> io::Result<Box<dyn Responder>>;

    /// Returns the remedy if [`initiate`](Self::initiate) fails with `error`.
    fn remedy(&self, error: &io::Error) -> &'static str;

    /// Returns the remedy if [`respond`](Self::respond) fails; `None` if the error contains the
    /// remedy.
    fn responders_remedy(&self) -> Option<&'static str> {
        None
    }

    /// Returns the same destination with authentication by a shared secret; `None` if links of this
    /// kind use no secret.
    fn with_secret(&self, _: Secret) -> Option<Arc<dyn Place>> {
        None
    }

    /// Returns a note that states whose stimuli this machine's responder answers.
    fn responders_note(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether the kernel of the responder's machine timestamps received stimuli.
    fn has_stamps(&self) -> bool {
        false
    }

    /// Returns a text that names what every round trip includes besides the latencies of the two
    /// machines; `None` if that is negligible.
    fn includes(&self) -> Option<&'static str> {
        None
    }
}

/// What to do about an unknown name or device.
const NAME_REMEDY: &str = "is the name right?";

/// A link to one destination. Two links are equal if their texts are equal.
#[derive(Debug, Clone)]
pub struct Link {
    info: &'static LinkInfo,
    place: Arc<dyn Place>,
}

impl Link {
    /// Returns the link's destination.
    #[must_use]
    pub fn place(&self) -> &dyn Place {
        &*self.place
    }

    /// Returns the same link with authentication by the secret in this file.
    ///
    /// # Errors
    /// Returns a [`SecretError`] that states why the secret cannot be used.
    pub fn with_secret(&self, file: &Path) -> Result<Self, SecretError> {
        let place = self
            .place
            .with_secret(Secret::read(file)?)
            .ok_or_else(|| SecretError::NotTaken(self.to_string()))?;
        Ok(Self {
            info: self.info,
            place,
        })
    }
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// Why a text does not describe a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseLinkError {
    /// The kind is unknown.
    #[error("`{0}` is not a link: write {forms}", forms = forms())]
    Unknown(String),
    /// The destination after the kind is missing.
    #[error("`{0}` has no destination: write {0}:{1}")]
    NoPlace(&'static str, &'static str),
    /// The destination is invalid. The text contains an example of a valid destination.
    #[error("{0}")]
    BadPlace(String),
}

/// Returns the syntax of all kinds, such as `icmp:HOST, udp:HOST[:PORT] or loopback`.
fn forms() -> String {
    let forms: Vec<String> = LINKS.iter().map(|info| info.written()).collect();
    forms
        .split_last()
        .map_or_else(String::new, |(last, others)| {
            format!("{} or {last}", others.join(", "))
        })
}

impl FromStr for Link {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let (name, place) = text.split_once(':').unwrap_or((text, ""));
        let info = LINKS
            .iter()
            .copied()
            .find(|info| info.name == name && (place.is_empty() || !info.form.is_empty()));
        let info = info.ok_or_else(|| ParseLinkError::Unknown(text.to_owned()))?;
        if place.is_empty() && !info.form.is_empty() {
            return Err(ParseLinkError::NoPlace(info.name, info.example));
        }
        Ok(Self {
            info,
            place: (info.parse)(place)?,
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, place) = (self.info.name, &self.place);
        if self.info.form.is_empty() {
            formatter.write_str(name)
        } else {
            write!(formatter, "{name}:{place}")
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
        assert_eq!(
            "udp:board7".parse::<Link>().unwrap().to_string(),
            "udp:board7:5455"
        );
        assert_eq!(
            "serial-bytes:/dev/pts/3"
                .parse::<Link>()
                .unwrap()
                .to_string(),
            "serial-bytes:/dev/pts/3"
        );
    }

    #[test]
    fn every_link_is_read_by_its_own_example() {
        for (index, info) in LINKS.iter().enumerate() {
            assert!(
                LINKS[..index].iter().all(|other| other.name != info.name),
                "{} twice",
                info.name
            );
            let text = if info.form.is_empty() {
                info.name.to_owned()
            } else {
                format!("{}:{}", info.name, info.example)
            };
            assert_eq!(
                text.parse::<Link>().map(|link| link.info.name),
                Ok(info.name),
                "{text}"
            );
            assert!(
                !info.carries.is_empty() && !info.answered_by.is_empty(),
                "{}",
                info.name
            );
        }
    }

    #[test]
    fn what_is_no_link_is_told_how_to_write_one() {
        let error = |text: &str| text.parse::<Link>().unwrap_err().to_string();
        assert!(
            error("tcp:board7").contains("icmp:HOST, udp:HOST[:PORT], serial:DEVICE"),
            "{}",
            error("tcp:board7")
        );
        assert!(
            error("tcp:board7").ends_with("parport:DEVICE or loopback"),
            "{}",
            error("tcp:board7")
        );
        assert!(error("icmp").contains("write icmp:board7"));
        assert!(error("udp:board7:99999").contains("`99999` is not a port"));
        assert!(error("serial-bytes:/dev/ttyS0:fast").contains("`fast` is not a speed"));
        assert!(error("gpio:/dev/gpiochip0:17").contains("as in gpio:/dev/gpiochip0:17,27"));
        assert!(error("gpio:/dev/gpiochip0:5,5").contains("does not name two lines"));
        assert!(error("parport").contains("write parport:/dev/parport0"));
        assert!(error("loopback:1").contains("not a link"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(udp:|icmp:|serial:|gpio:)?[\\[\\]:,a-z0-9]{0,20}") {
            let _ = text.parse::<Link>();
        }
    }
}
