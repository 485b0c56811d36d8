//! Reads and writes the files of samples, and contains every loop that runs once per stored sample.
//! This crate is compiled with optimisation for speed. The crates that call it receive whole chunks
//! or results, so they need no optimisation.
//!
//! Samples are stored in chunks ([`tardy_core::chunk`]), which [`series_writer`] writes and
//! [`read_series`] reads. If only some samples are stored, a histogram ([`histogram_file`])
//! contains all of them. In runs with `--disk`, a series has several files ([`rotation`]). The
//! oldest files are folded into hourly histograms ([`hours`]). [`delays`] stores the causes of each
//! late sample, and [`delay_totals`] sums the delays by cause. For a followed program, [`cycles`]
//! divides the time that a thread spends between two sleeps, [`wake_up_kind`] names the kinds of
//! wake-ups, [`wake_up_tally`] counts wake-ups by thread and kind, and [`loop_rules`] counts the
//! actions that a real-time loop must avoid.
//!
//! One pass over a series can give its time intervals for comparisons ([`blocks`]), its extremes
//! for charts ([`sweep`]), its largest samples for a tail model ([`tail`]), the grid behind its
//! events ([`fitted_lateness`]), or the time by which it falls behind a schedule that skips no
//! period ([`backlog`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod backlog;
pub mod blocks;
pub mod cycles;
pub mod delay_totals;
pub mod delays;
pub mod far_time;
mod file_name_mark;
pub mod fitted_lateness;
pub mod harmless;
pub mod histogram_file;
pub mod hours;
pub mod loop_rules;
pub mod read_series;
pub mod reserved_file;
pub mod rotation;
pub mod segments;
pub mod series_writer;
pub mod sweep;
pub mod tail;
pub mod wake_up_kind;
pub mod wake_up_tally;
