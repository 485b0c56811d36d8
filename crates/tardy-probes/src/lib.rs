//! The probes and their building blocks.
//!
//! - [`probe`]: the measuring loops, one file each, and their shared code
//! - [`work`]: a calibrated unit of work, for the probe `work`
//! - [`app`]: loops of users' programs: the shared memory, the program, and the relay from its ring
//!   to the recorder
//! - [`link`]: links to a device or machine that answers a stimulus, one file each with both ends,
//!   and the list of them ([`link::LINKS`])
//! - [`recording`]: the ring, the recorder of a series, and the stop signal for measuring threads
//!   ([`recording::control`])
#![forbid(unsafe_code)]

pub mod app;
pub mod link;
pub mod probe;
pub mod recording;
pub mod work;
