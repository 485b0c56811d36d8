//! Probes: ways to cause a wake-up and time it ([`probe`]), with what they stand on: the ring and the recorder of a series ([`record`]), loops in
//! users' programs ([`app`]), links to what answers a stimulus ([`link`]), and a calibrated unit of work ([`work`]).
#![forbid(unsafe_code)]

pub mod app;
pub mod link;
pub mod probe;
pub mod record;
pub mod work;
