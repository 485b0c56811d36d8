//! The slowest chains of wake-ups that end with a followed thread.

use serde::{Deserialize, Serialize};
use tardy_core::units::Nanos;
use tardy_trace::chains::Chain;

use super::cut::{told_occupant, told_waker};

/// Maximum number of stored chains.
pub(super) const KEPT_MAX: usize = 100;

/// A thread in a chain of wake-ups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// ID of the thread.
    pub thread: i32,
    /// Name of the thread.
    pub name: String,
    /// Time that the thread waited for a CPU after the wake-up.
    pub waited_ns: Nanos,
    /// The interrupt or softirq that had the CPU for at least half of this wait, otherwise the
    /// thread that had it longest (`idle` for an idle CPU); absent if this thread is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// Time from the end of this wait until the thread woke the next thread of the chain.
    pub took_ns: Nanos,
}

/// A chain of wake-ups, in which each thread woke the next thread, and the last one is a followed
/// thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeUpChain {
    /// Time of the first wake-up, on the monotonic clock.
    pub begin_ns: Nanos,
    /// Time from the first wake-up until the last thread ran. This is the sum of the times in
    /// `links`.
    pub latency_ns: Nanos,
    /// What woke the first thread; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The threads in order of their wake-ups.
    pub links: Vec<ChainLink>,
    /// Whether there were earlier threads that are not stored.
    pub is_longer: bool,
}

/// Collects the slowest chains.
#[derive(Debug, Default)]
pub struct SlowestChains {
    kept: Vec<Chain>,
}

impl SlowestChains {
    /// Adds a chain of at least two threads; ignores shorter ones.
    pub fn add(&mut self, chain: &Chain) {
        if chain.links.len() < 2 {
            return;
        }
        if self.kept.len() >= KEPT_MAX {
            let fastest = self
                .kept
                .iter()
                .enumerate()
                .min_by_key(|(_, kept)| kept.latency());
            match fastest {
                Some((at, fastest)) if fastest.latency() < chain.latency() => {
                    self.kept.swap_remove(at);
                }
                _ => return,
            }
        }
        self.kept.push(chain.clone());
    }

    /// Returns the stored chains, the slowest first.
    #[must_use]
    pub fn result(&mut self, name: &impl Fn(i32) -> String) -> Vec<WakeUpChain> {
        self.kept
            .sort_by_key(|chain| std::cmp::Reverse(chain.latency()));
        self.kept.iter().map(|chain| told(chain, name)).collect()
    }
}

fn told(chain: &Chain, name: &impl Fn(i32) -> String) -> WakeUpChain {
    let links = chain.parts().map(|(link, waited, took)| ChainLink {
        thread: link.thread,
        name: name(link.thread),
        waited_ns: Nanos(waited),
        behind: match link.held {
            Some(held) => told_waker(held.by, name),
            None => link.occupant.map(told_occupant),
        },
        took_ns: Nanos(took),
    });
    WakeUpChain {
        begin_ns: Nanos(chain.links.first().map_or(0, |link| link.woken)),
        latency_ns: Nanos(chain.latency()),
        origin: told_waker(chain.origin, name),
        links: links.collect(),
        is_longer: chain.is_longer,
    }
}
