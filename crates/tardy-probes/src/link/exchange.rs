//! The initiator's loop: sends a stimulus, busy-polls for its answer, and records both.
//!
//! A round trip is recorded even if the initiator was interrupted. A separate series contains, for
//! each round trip, the longest time between two polls. If a stimulus is not answered, the time-out
//! is recorded as its latency, which is a lower bound.

use std::io;
use std::os::unix::net::UnixDatagram;

use tardy_core::sample::Sample;
use tardy_core::units::Nanos;
use tardy_sys::clock;

use crate::recording::ring::Producer;

/// The initiator's end of a link.
pub trait Initiator {
    /// Sends the stimulus with this number.
    ///
    /// # Errors
    /// Returns an error if the link fails; the stimulus is then recorded as unanswered.
    fn send(&mut self, number: u64) -> io::Result<()>;

    /// Polls for an answer.
    ///
    /// # Errors
    /// Returns an error if the link fails.
    fn look(&mut self) -> io::Result<Option<Answer>>;

    /// Called after a stimulus without an answer, before the next stimulus. This is needed for
    /// links whose answers have no numbers.
    fn recover(&mut self) {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Number of the stimulus that was answered.
    pub number: u64,
    /// When the kernel received the answer, on the run's clock; absent if only the time of the poll
    /// is known.
    pub received: Option<Nanos>,
    /// Time in the responder, if the responder reports it.
    pub in_responder: Option<Nanos>,
}

/// The timing of stimuli.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Time between two stimuli.
    pub period: Nanos,
    /// Maximum time to wait for an answer.
    pub time_out: Nanos,
    /// If the time between two polls exceeds this, the round trip is counted as interrupted.
    pub interrupted_above: Nanos,
    /// Number of stimuli to send; if absent, the initiator sends stimuli until the run ends.
    pub cycles: Option<u64>,
}

/// The responder is assumed to be gone if no answer has arrived for this time, and at least
/// [`GONE_STIMULI`] stimuli since the last answer are unanswered.
const GONE_AFTER: Nanos = Nanos::from_secs(1);
const GONE_STIMULI: usize = 10;
/// Maximum number of unanswered stimuli that are held back until it is known whether the responder
/// is gone.
const HELD_MAX: usize = 4_096;
/// Number of unanswered stimuli whose numbers are remembered, to distinguish a late answer from a
/// duplicate.
const REMEMBERED: usize = 256;

/// The rings to which the initiator writes its samples.
#[derive(Debug)]
pub struct Rings {
    pub round_trip: Producer,
    /// Ring for the longest time between two polls, for each round trip.
    pub look: Producer,
    /// Ring for the time that the responder took; only for links that report it.
    pub in_responder: Option<Producer>,
}

/// What an exchange counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Number of stimuli sent.
    pub sent: u64,
    /// Number of stimuli that were answered in time.
    pub answered: u64,
    /// Number of stimuli that were not answered in time.
    pub lost: u64,
    /// Number of stimuli that were answered after the time-out.
    pub late: u64,
    /// Number of answers to stimuli that were already answered.
    pub duplicate: u64,
    /// Number of round trips in which the initiator was interrupted.
    pub interrupted: u64,
    /// Number of stimuli sent at the end, after the responder was gone. These stimuli do not become
    /// samples.
    pub to_nobody: u64,
}

struct Exchange<'a, L> {
    link: &'a mut L,
    pace: Pace,
    rings: Rings,
    tally: Tally,
    held: Vec<PendingStimulus>,
    unanswered: [Option<u64>; REMEMBERED],
}

#[derive(Debug, Clone, Copy)]
struct PendingStimulus {
    sent: Nanos,
    look: Nanos,
}

/// What happened to one stimulus.
enum Outcome {
    Answered {
        round_trip: Nanos,
        in_responder: Option<Nanos>,
    },
    Unanswered,
}

/// Sends stimuli from `start` on, until `is_over` returns true for the next due time, or the
/// responder is gone. Closes the rings.
pub fn exchange<L: Initiator>(
    link: &mut L,
    pace: Pace,
    rings: Rings,
    start: Nanos,
    is_over: impl Fn(Nanos) -> bool,
) -> Tally {
    let mut exchange = Exchange {
        link,
        pace,
        rings,
        tally: Tally::default(),
        held: Vec::with_capacity(HELD_MAX),
        unanswered: [None; REMEMBERED],
    };
    let end = exchange.run(start, is_over);
    let Exchange { rings, tally, .. } = exchange;
    rings.round_trip.close(end);
    rings.look.close(end);
    if let Some(producer) = rings.in_responder {
        producer.close(end);
    }
    tally
}

impl<L: Initiator> Exchange<'_, L> {
    fn run(&mut self, start: Nanos, is_over: impl Fn(Nanos) -> bool) -> Nanos {
        let mut next = start;
        let mut answered_at = next;
        for number in 0..self.pace.cycles.unwrap_or(u64::MAX) {
            if is_over(next) {
                break;
            }
            if clock::sleep_until(&clock::Instant::from_nanos(next.get())).is_err() {
                break;
            }
            self.take_stragglers();
            let sent = Nanos(clock::monotonic());
            let (outcome, look) = self.once(number, sent);
            let now = Nanos(clock::monotonic());
            self.tally.sent += 1;
            self.tally.interrupted += u64::from(look > self.pace.interrupted_above);
            let mut rest = Nanos::ZERO;
            match outcome {
                Outcome::Answered {
                    round_trip,
                    in_responder,
                } => {
                    answered_at = now;
                    self.flush_held();
                    self.tally.answered += 1;
                    self.push(sent, round_trip, look);
                    if let (Some(ring), Some(latency)) =
                        (&mut self.rings.in_responder, in_responder)
                    {
                        ring.begin_cycle();
                        ring.push(Sample {
                            due: sent,
                            latency,
                            skipped: 0,
                        });
                    }
                }
                Outcome::Unanswered => {
                    self.held.push(PendingStimulus { sent, look });
                    self.unanswered[number as usize % REMEMBERED] = Some(number);
                    self.link.recover();
                    if self.held.len() >= GONE_STIMULI && now - answered_at >= GONE_AFTER {
                        self.tally.to_nobody = self.held.len() as u64;
                        self.held.clear();
                        return now;
                    }
                    if self.held.len() == HELD_MAX {
                        self.flush_held();
                    }
                    // The time between this stimulus and the next one is at least two time-outs.
                    // During this time, the thread sleeps for at least one time-out, because
                    // continuous polling would take the CPU away from all other tasks.
                    rest = self.pace.time_out.saturating_add(self.pace.time_out)
                        - (now - sent).min(self.pace.time_out);
                }
            }
            next = (next + self.pace.period).max(now + rest);
        }
        self.flush_held();
        next
    }

    /// Sends one stimulus and waits for its answer. Also returns the longest time between two
    /// polls.
    fn once(&mut self, number: u64, sent: Nanos) -> (Outcome, Nanos) {
        if self.link.send(number).is_err() {
            return (Outcome::Unanswered, Nanos::ZERO);
        }
        let (mut before, mut longest) = (sent, Nanos::ZERO);
        loop {
            let looked = self.link.look();
            let now = Nanos(clock::monotonic());
            longest = longest.max(now - before);
            before = now;
            match looked {
                Ok(Some(answer)) if answer.number == number => {
                    // If the time stamp is before the stimulus or after the poll, the cause is an
                    // error in the conversion between the two clocks.
                    let round_trip = answer
                        .received
                        .filter(|&received| received > sent && received <= now)
                        .unwrap_or(now)
                        - sent;
                    return (
                        Outcome::Answered {
                            round_trip,
                            in_responder: answer.in_responder,
                        },
                        longest,
                    );
                }
                Ok(Some(answer)) => self.note_straggler(answer.number),
                Ok(None) => {}
                // The other end is closed, so no answer will arrive.
                Err(_) => return (Outcome::Unanswered, longest),
            }
            if now - sent > self.pace.time_out {
                return (Outcome::Unanswered, longest);
            }
        }
    }

    /// Processes answers that arrived when the loop did not wait for them any more.
    fn take_stragglers(&mut self) {
        while let Ok(Some(answer)) = self.link.look() {
            self.note_straggler(answer.number);
        }
    }

    /// Counts an answer to an earlier stimulus.
    fn note_straggler(&mut self, number: u64) {
        let remembered = &mut self.unanswered[number as usize % REMEMBERED];
        if *remembered == Some(number) {
            *remembered = None;
            self.tally.late += 1;
        } else {
            self.tally.duplicate += 1;
        }
    }

    /// Records the held stimuli as lost, because the responder is still present but did not answer
    /// them.
    fn flush_held(&mut self) {
        for index in 0..self.held.len() {
            let PendingStimulus { sent, look, .. } = self.held[index];
            self.tally.lost += 1;
            self.push(sent, self.pace.time_out, look);
        }
        self.held.clear();
    }

    fn push(&mut self, due: Nanos, round_trip: Nanos, look: Nanos) {
        for (ring, latency) in [
            (&mut self.rings.round_trip, round_trip),
            (&mut self.rings.look, look),
        ] {
            ring.begin_cycle();
            ring.push(Sample {
                due,
                latency,
                skipped: 0,
            });
        }
    }
}

/// Measures the lower bound of a round trip over a link: the median time that the initiator needs
/// for its own system calls, which send a stimulus and receive an answer. The path to the other end
/// is not included. `once` makes these calls.
///
/// # Errors
/// Returns the errors of `once`.
pub fn floor(mut once: impl FnMut() -> io::Result<()>) -> io::Result<Nanos> {
    const TIMES: usize = 201;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let before = clock::monotonic();
        once()?;
        times.push(clock::monotonic() - before);
    }
    times.sort_unstable();
    Ok(Nanos(times[TIMES / 2]))
}

/// The lower bound of a round trip over a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkFloor {
    /// The median time.
    pub time: Nanos,
    /// Whether the time was measured with a pair of local sockets, because the loopback interface
    /// passed nothing.
    pub is_without_loopback: bool,
}

/// Maximum time for which the loop polls for a datagram that this machine has sent to itself.
const LOOPBACK_MAX: Nanos = Nanos::from_secs(1);

/// Polls until something arrives, to measure a lower bound.
///
/// # Errors
/// Returns the error of `look` if it fails, or `TimedOut` if nothing arrived.
pub fn look_until(mut look: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let begin = Nanos(clock::monotonic());
    while !look()? {
        if Nanos(clock::monotonic()) - begin > LOOPBACK_MAX {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the loopback interface returned nothing",
            ));
        }
    }
    Ok(())
}

/// Calls `loopback`, which measures a time over the loopback interface, and returns this time. If
/// this interface is down, as in a new network namespace, measures how long a datagram takes
/// through a pair of local sockets instead. This time is shorter, because it does not include the
/// network.
///
/// # Errors
/// Returns the error of `loopback` if its cause is not that the interface is down, or an error of
/// the local sockets.
pub fn network_floor(loopback: impl FnOnce() -> io::Result<Nanos>) -> io::Result<NetworkFloor> {
    use io::ErrorKind::{
        AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut,
    };
    match loopback() {
        Ok(time) => Ok(NetworkFloor {
            time,
            is_without_loopback: false,
        }),
        Err(error)
            if matches!(
                error.kind(),
                AddrNotAvailable | HostUnreachable | NetworkDown | NetworkUnreachable | TimedOut
            ) =>
        {
            let (one, other) = UnixDatagram::pair()?;
            other.set_nonblocking(true)?;
            let mut buffer = [0; super::packet::BYTES];
            let time = floor(|| {
                one.send(&[0; super::packet::BYTES])?;
                look_until(|| match other.recv(&mut buffer) {
                    Ok(_) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                    Err(error) => Err(error),
                })
            })?;
            Ok(NetworkFloor {
                time,
                is_without_loopback: true,
            })
        }
        Err(error) => Err(error),
    }
}

impl std::fmt::Display for NetworkFloor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let without = " (measured with a pair of local sockets, because the loopback interface is \
                       down)";
        write!(
            formatter,
            "{}{}",
            self.time,
            if self.is_without_loopback {
                without
            } else {
                ""
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::ring::{Consumer, ring};
    use std::collections::VecDeque;
    use tardy_core::sample::Record;

    /// A responder that answers as a script prescribes. For each stimulus, the script states how
    /// many answers to send immediately, and how many to send with the next stimulus.
    struct ScriptedResponder {
        script: Vec<(u32, u32)>,
        waiting: VecDeque<u64>,
        postponed: Vec<u64>,
        dies_at: Option<u64>,
    }

    impl Initiator for ScriptedResponder {
        fn send(&mut self, number: u64) -> io::Result<()> {
            if self.dies_at.is_some_and(|at| number >= at) {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            let (now, later) = self.script[number as usize % self.script.len()];
            self.waiting.extend(self.postponed.drain(..));
            self.waiting.extend((0..now).map(|_| number));
            self.postponed.extend((0..later).map(|_| number));
            Ok(())
        }

        fn look(&mut self) -> io::Result<Option<Answer>> {
            Ok(self.waiting.pop_front().map(|number| Answer {
                number,
                received: None,
                in_responder: Some(Nanos(7)),
            }))
        }
    }

    fn run(script: Vec<(u32, u32)>, cycles: u64, dies_at: Option<u64>) -> (Tally, [Consumer; 3]) {
        let ((round_trip, first), (look, second), (in_responder, third)) =
            (ring(4096), ring(4096), ring(4096));
        let mut link = ScriptedResponder {
            script,
            waiting: VecDeque::new(),
            postponed: Vec::new(),
            dies_at,
        };
        let rings = Rings {
            round_trip,
            look,
            in_responder: Some(in_responder),
        };
        let pace = Pace {
            period: Nanos::from_micros(10),
            time_out: Nanos::from_millis(1),
            interrupted_above: Nanos::from_secs(1),
            cycles: Some(cycles),
        };
        (
            exchange(&mut link, pace, rings, Nanos(clock::monotonic()), |_| false),
            [first, second, third],
        )
    }

    fn samples(consumer: &mut Consumer) -> Vec<Sample> {
        let mut samples = Vec::new();
        consumer.drain_up_to(u64::MAX, |record| match record {
            Record::Sample(sample) => samples.push(sample),
            Record::Gap(gap) => panic!("{gap:?}"),
        });
        samples
    }

    #[test]
    fn what_is_lost_late_or_twice_is_counted_and_stands_as_a_time_out() {
        // One of five stimuli is never answered, one is answered late, and one twice.
        let (tally, [mut round_trips, mut looks, mut in_responder]) =
            run(vec![(1, 0), (0, 0), (2, 0), (0, 1), (1, 0)], 20, None);
        assert_eq!(
            tally,
            Tally {
                sent: 20,
                answered: 12,
                lost: 8,
                late: 4,
                duplicate: 4,
                interrupted: 0,
                to_nobody: 0
            }
        );
        let found = samples(&mut round_trips);
        assert_eq!(found.len(), 20);
        let time_outs: Vec<usize> = (0..20)
            .filter(|&index| found[index].latency == Nanos::from_millis(1))
            .collect();
        assert_eq!(time_outs, [1, 3, 6, 8, 11, 13, 16, 18]);
        assert!(
            found.windows(2).all(|pair| pair[0].due < pair[1].due),
            "in the order of sending"
        );
        assert_eq!(
            (
                samples(&mut looks).len(),
                round_trips.cycles(),
                looks.cycles()
            ),
            (20, 20, 20)
        );
        assert_eq!(
            (samples(&mut in_responder).len(), in_responder.cycles()),
            (12, 12)
        );
    }

    #[test]
    fn a_responder_that_dies_is_noticed_and_what_it_could_not_answer_is_no_sample() {
        let (tally, [mut round_trips, ..]) = run(vec![(1, 0)], u64::MAX, Some(50));
        assert_eq!((tally.answered, tally.lost), (50, 0));
        assert!(tally.to_nobody >= GONE_STIMULI as u64, "{tally:?}");
        assert_eq!(
            (samples(&mut round_trips).len(), round_trips.cycles()),
            (50, 50)
        );
        assert!(round_trips.closing_statement().is_some());
    }

    #[test]
    fn without_a_loopback_interface_the_floor_comes_from_local_sockets_and_says_so() {
        let down = network_floor(|| Err(io::Error::from(io::ErrorKind::AddrNotAvailable))).unwrap();
        assert!(
            down.is_without_loopback
                && down.time > Nanos::ZERO
                && down.to_string().contains("loopback interface is down")
        );
        let up = network_floor(|| Ok(Nanos(5_000))).unwrap();
        assert_eq!(
            (up.is_without_loopback, up.to_string()),
            (false, Nanos(5_000).to_string())
        );
        assert!(network_floor(|| Err(io::Error::from(io::ErrorKind::PermissionDenied))).is_err());
    }
}
