//! `tardy respond`: answers stimuli until it is stopped, and reports its own latency.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::cpu::CpuId;
use tardy_core::histogram::Histogram;
use tardy_core::units::Nanos;
use tardy_core::warning::Warning;
use tardy_machine::root::Root;
use tardy_measure::measure::answering::{self, ResponderThread};
use tardy_measure::measure::responding::{RespondRun, ResponderRequest};
use tardy_measure::measure::session::SessionError;
use tardy_probes::link::respond::ResponderResult;
use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::record::State;
use tardy_sys::signal::{self, SignalFd, wait_readable};
use tardy_sys::{clock, memlock};

use super::output;
use crate::cli::respond::RespondArgs;

/// Interval between two checks whether the responder must stop.
const LOOK_MILLIS: i32 = 200;
/// Maximum wait for an answering thread to end. A thread that waits for a modem line sleeps until
/// the line changes.
const END_MAX: Nanos = Nanos::from_secs(1);

/// Runs the command.
#[must_use]
pub fn run(args: &RespondArgs) -> Exit {
    let signals = match SignalFd::block(&[
        signal::INTERRUPT,
        signal::TERMINATE,
        signal::HANG_UP,
        signal::PIPE,
    ]) {
        Ok(signals) => signals,
        Err(error) => return failed("cannot wait for signals", &error),
    };
    let link = match args
        .secret
        .as_ref()
        .map_or_else(|| Ok(args.link.clone()), |file| args.link.with_secret(file))
    {
        Ok(link) => link,
        Err(error) => {
            output::complain(&error);
            return Exit::Usage;
        }
    };
    let responder = match link.place().respond() {
        Ok(responder) => responder,
        Err(error) => {
            let remedy = link
                .place()
                .responders_remedy()
                .map_or_else(String::new, |remedy| format!(": {remedy}"));
            return failed(
                &args.link.to_string(),
                &std::io::Error::new(error.kind(), format!("{error}{remedy}")),
            );
        }
    };
    let out = args.out.clone().unwrap_or_else(super::folder_name::by_time);
    let asked = ResponderRequest {
        link: &link,
        secret: args.secret.as_deref(),
        cpu: args.cpu.map(CpuId),
        priority: (!args.ordinary).then_some(args.priority),
        keep: args.keep,
    };
    let (run, log) = match RespondRun::start(&out, &asked, &Root::system()) {
        Ok(started) => started,
        Err(error) => return unwritten(&error),
    };
    let mut warnings: Vec<Warning> = link
        .place()
        .responders_note()
        .into_iter()
        .map(|note| Warning::Note {
            text: format!("{link}: {note}"),
        })
        .collect();
    if let Err(error) = memlock::lock_all() {
        warnings.push(Warning::MemoryNotLocked {
            error: error.to_string(),
        });
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let answering = match answering::start(&asked, responder, log, &is_over) {
        Ok((answering, prepared)) => {
            warnings.extend(prepared);
            answering
        }
        Err(error) => return failed("cannot start the answering thread", &error),
    };
    say!("answering at {}, into {}", args.link, out.display());
    for warning in &warnings {
        say!("{}", warning.line());
    }
    let is_interrupted = wait(args, &signals, &answering);
    is_over.store(true, Ordering::Relaxed);
    let begin = Nanos(clock::monotonic());
    while !answering.is_finished() && Nanos(clock::monotonic()) - begin < END_MAX {
        let _ = wait_readable(&[], 10);
    }
    if !answering.is_finished() {
        say!(
            "tardy: the thread that waits for a modem line did not end; the number of its answers \
             is unknown"
        );
        return Exit::Done;
    }
    let answered = match answering.join() {
        Ok(answered) => answered,
        Err(_) => Err(std::io::Error::other(
            "the answering thread ended unexpectedly",
        )),
    };
    // If no length was given, a signal is the planned end.
    let is_cut_off = answered.is_err() || is_interrupted && args.length.is_some();
    let text = match &answered {
        Ok(answered) => format!("respond: over {}: {}", args.link, counts(answered)),
        Err(error) => format!("respond: the link ended: {error}"),
    };
    if let Some(rests) = answered
        .as_ref()
        .ok()
        .map(|answered| answered.rests)
        .filter(|&rests| rests > 0)
    {
        warnings.push(Warning::Problem {
            text: format!(
                "respond: {rests} times, more packets arrived in 100 ms than the responder \
                 accepts, so it slept for the rest of the 100 ms. The machine did not cause this \
                 latency. Find the sender of the packets: `others` and `strangers` of --json count \
                 the unanswered ones"
            ),
        });
    }
    let told = warnings
        .iter()
        .cloned()
        .chain([Warning::Note { text }])
        .collect();
    if let Err(error) = run.finish(
        if is_cut_off {
            State::Interrupted
        } else {
            State::Finished
        },
        told,
    ) {
        return unwritten(&error);
    }
    match answered {
        Ok(answered) => {
            let text = if args.json {
                json(&answered, &warnings, &out)
            } else {
                text_of(&answered, &out)
            };
            output::print(&text).map_or(Exit::Machine, |()| Exit::Done)
        }
        Err(error) => failed(&args.link.to_string(), &error),
    }
}

fn unwritten(error: &SessionError) -> Exit {
    output::complain(&error);
    if matches!(error, SessionError::Folder(_)) {
        Exit::Usage
    } else {
        Exit::Machine
    }
}

fn failed(what: &str, error: &std::io::Error) -> Exit {
    say!("tardy: {what}: {error}");
    Exit::Machine
}

/// Waits until the time is over, the answering thread has ended, or a signal arrives. Returns
/// whether a signal arrived.
fn wait(args: &RespondArgs, signals: &SignalFd, answering: &ResponderThread) -> bool {
    use std::os::fd::AsFd;
    let end = args.length.map_or(Nanos::MAX, |length| {
        Nanos(clock::monotonic()).saturating_add(length)
    });
    while Nanos(clock::monotonic()) < end && !answering.is_finished() {
        let _ = wait_readable(&[signals.as_fd()], LOOK_MILLIS);
        if matches!(signals.take(), Ok(Some(signal)) if signal != signal::PIPE) {
            return true;
        }
    }
    false
}

/// Returns the median, the 99.9th percentile and the maximum of a histogram, in ns; `None` if it is
/// empty.
fn three(histogram: &Histogram) -> Option<[i64; 3]> {
    let count = histogram.count();
    let values = histogram.values_at(&[count.div_ceil(2), count - count / 1000]);
    Some([values[0]?, values[1]?, histogram.max()?])
}

fn counts(answered: &ResponderResult) -> String {
    let ResponderResult {
        answers,
        failures,
        others,
        strangers,
        ..
    } = answered;
    let strangers = match strangers {
        0 => String::new(),
        _ => format!("; packets from other peers, not answered: {strangers}"),
    };
    format!("{answers} answers, {failures} failed, {others} other packets{strangers}")
}

fn text_of(answered: &ResponderResult, out: &Path) -> String {
    let mut text = counts(answered) + "\n";
    if answered.rests > 0 {
        text += &format!(
            "slept {} times, because more packets came in 100 ms than the responder accepts\n",
            answered.rests
        );
    }
    for (what, histogram) in [
        ("woken up after", &answered.wake_up),
        ("answered after", &answered.in_responder),
    ] {
        text += &match three(histogram) {
            Some([median, high, max]) => {
                format!(
                    "{what}: median {}, 99.9 % {}, max {}\n",
                    Nanos(median),
                    Nanos(high),
                    Nanos(max)
                )
            }
            None => {
                format!("{what}: unknown (nothing came, or the link lacks kernel timestamps)\n")
            }
        };
    }
    text + &format!("next: tardy show {}\n", out.display())
}

fn json(answered: &ResponderResult, warnings: &[Warning], out: &Path) -> String {
    let numbers = |histogram: &Histogram| {
        three(histogram).map(
            |[median, high, max]| serde_json::json!({ "count": histogram.count(), "median_ns": median, "p99_9_ns": high, "max_ns": max }),
        )
    };
    let all = serde_json::json!({
        "answers": answered.answers, "failures": answered.failures, "others": answered.others,
        "strangers": answered.strangers, "sessions": answered.sessions, "rests": answered.rests,
        "wake_up": numbers(&answered.wake_up), "in_responder": numbers(&answered.in_responder), "warnings": warnings, "run": out,
    });
    Format::RESPOND.document(&all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::histogram::Budget;

    #[test]
    fn what_is_printed_are_values_that_were_counted() {
        let mut histogram = Histogram::new(Budget::RECORDER);
        assert_eq!(three(&histogram), None);
        (1..=2000).for_each(|value| histogram.record(value));
        assert_eq!(three(&histogram), Some([1000, 1998, 2000]));
    }
}
