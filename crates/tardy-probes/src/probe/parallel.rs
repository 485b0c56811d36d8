//! `parallel`: several threads, 12 by default, share the measured CPUs. Each thread sleeps for
//! relative times, as in figure 4 of mckenney2009.

use std::io;

use tardy_run::parameter::Parameter;

use super::info::{Placement, ProbeInfo};
use super::member::one_thread;
use super::series_info::SeriesInfo;
use super::{OpenContext, ProbeInstance, nanosleep};

pub(super) const INFO: ProbeInfo = ProbeInfo {
    name: "parallel",
    about: "sleeps of several threads that share the measured CPUs",
    times: "clock_nanosleep(CLOCK_MONOTONIC, relative) in several threads that share the measured \
            CPUs: time slept minus the requested time",
    context: "stock kernel: hard interrupt; PREEMPT_RT: hard interrupt for real-time threads, \
              softirq thread for others",
    source: "mckenney2009, figure 4",
    parameters: &[Parameter::count(
        "copies",
        "number of threads that sleep",
        "12",
        1,
        512,
    )],
    series: &[SeriesInfo::EVENT_LATENCY],
    placement: Placement::Copies,
    open,
    ..ProbeInfo::USUAL
};

fn open(opening: OpenContext<'_>) -> io::Result<ProbeInstance> {
    let cpus = opening.measured_cpus.clone();
    let mut opened = one_thread(opening, nanosleep::measure)?;
    opened
        .members
        .iter_mut()
        .for_each(|member| member.cpus = cpus.clone());
    Ok(opened)
}
