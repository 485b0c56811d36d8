//! `loopback`: a pseudo-terminal with a responder in this process, for first experiments.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::byte_stream::{self, ByteInitiator};
use super::initiation::Initiation;
use super::respond::Responder;
use super::{LinkInfo, Place};

pub(super) const INFO: LinkInfo = LinkInfo {
    name: "loopback",
    form: "",
    example: "",
    carries: "bytes over a pseudo-terminal, for a first try",
    answered_by: "the run itself",
    parse: |_| Ok(Arc::new(ThisProcess)),
};

/// The only destination of this link: this process.
#[derive(Debug)]
struct ThisProcess;

impl fmt::Display for ThisProcess {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl Place for ThisProcess {
    fn initiate(&self) -> io::Result<Initiation> {
        let (initiator, responder) = byte_stream::loopback()?;
        let opened = Initiation::new(initiator, ByteInitiator::floor()?);
        Ok(Initiation {
            is_external: false,
            own_responder: Some(Box::new(responder)),
            ..opened
        })
    }

    fn respond(&self) -> io::Result<Box<dyn Responder>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a run over loopback has its own responder",
        ))
    }

    fn remedy(&self, _: &io::Error) -> &'static str {
        "make sure that /dev/pts is mounted"
    }
}
