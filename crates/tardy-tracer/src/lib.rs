//! Records the kernel's trace during a run, and explains the run's samples. For this, it creates a
//! tracefs instance, a thread that reads and decodes the instance's pages, and, beside the file of
//! each series, a file with the delays of its samples.
//!
//! Data flow: texts of tracefs → [`instance::Instance`] → pages → `tardy_trace::live` →
//! `tardy_trace::explain::Samples` → `tardy_samples::delays`. A recorder passes samples through a
//! [`Tap`]; a failure in this crate costs explanations, never a sample.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_macros)]

pub mod attach;
mod calibration;
mod delays;
pub mod events;
mod evidence;
mod explaining;
mod follower;
pub mod instance;
mod kept;
mod pages;
mod second_opinion;
mod tap;
mod tracer;

pub use self::explaining::FollowedLoop;
pub use self::tap::Tap;
pub use self::tracer::{FollowedSeries, Marker, NotTraced, Options, Tracer};
