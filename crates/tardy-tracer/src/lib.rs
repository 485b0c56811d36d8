//! Records the kernel's trace while a run lasts, and explains the run's samples: an instance of
//! tracefs of its own, one thread that reads and decodes its pages, and a file of delays beside
//! each series.
//!
//! Texts of tracefs → [`instance::Instance`] → pages → `tardy_trace::live` →
//! `tardy_trace::explain::Samples` → `tardy_samples::delays`. A recorder hands over samples by a
//! [`Tap`]; whatever goes wrong here costs explanations and never a sample.
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
