//! Decides which sender a responder answers: only the peer of the open session, until this peer has
//! been silent for a while.
//!
//! The responder has a real-time priority, so other tasks wait while it serves a sender. It
//! therefore answers only one conversation at a time, sends no more bytes than it received, and
//! takes a limited number of datagrams in 100 ms. The next run from the same address waits for at
//! most a fifth of a second until it may open a session, and it repeats its question for longer
//! than that.

use std::net::IpAddr;

use tardy_core::units::Nanos;

/// How long a peer must be silent before another address may open a session.
pub const SILENCE: Nanos = Nanos::from_secs(5);
/// How long a peer must be silent before another conversation from its address may open a session.
const SILENCE_AT_ADDRESS: Nanos = Nanos(200_000_000);

/// The current session, if any, and the number of sessions so far.
#[derive(Debug, Default)]
pub(super) struct Session {
    peer: Option<Peer>,
    /// Number of sessions opened so far.
    pub opened: u64,
}

#[derive(Debug)]
struct Peer {
    address: IpAddr,
    conversation: u64,
    heard: Nanos,
}

impl Session {
    /// Returns whether a session is open with a peer at an address other than `from`.
    #[inline]
    pub(super) fn is_of_another(&self, from: IpAddr, now: Nanos) -> bool {
        self.peer
            .as_ref()
            .is_some_and(|peer| peer.address != from && now - peer.heard < SILENCE)
    }

    /// Returns whether a responder without a secret answers a question: it does if the question
    /// continues the session or can open a new one.
    #[inline]
    pub(super) fn admits(&mut self, from: IpAddr, conversation: u64, now: Nanos) -> bool {
        if self.continues(from, conversation, now) {
            return true;
        }
        let silence = |peer: &Peer| {
            if peer.address == from {
                SILENCE_AT_ADDRESS
            } else {
                SILENCE
            }
        };
        let is_free = self
            .peer
            .as_ref()
            .is_none_or(|peer| now - peer.heard >= silence(peer));
        if is_free {
            self.open(from, conversation, now);
        }
        is_free
    }

    /// Returns whether a question belongs to the session's conversation.
    #[inline]
    pub(super) fn continues(&mut self, from: IpAddr, conversation: u64, now: Nanos) -> bool {
        let peer = self
            .peer
            .as_mut()
            .filter(|peer| peer.address == from && peer.conversation == conversation);
        peer.map(|peer| peer.heard = now).is_some()
    }

    /// Opens a session with a new peer.
    pub(super) fn open(&mut self, from: IpAddr, conversation: u64, now: Nanos) {
        self.peer = Some(Peer {
            address: from,
            conversation,
            heard: now,
        });
        self.opened += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn the_first_conversation_is_answered_and_another_only_after_its_silence() {
        let mut session = Session::default();
        assert!(session.admits(ONE, 7, Nanos(0)));
        assert!(!session.admits(OTHER, 8, Nanos(1)));
        assert!(
            session.admits(ONE, 7, SILENCE),
            "later, without another peer in between: the session continues"
        );
        assert!(!session.admits(OTHER, 8, SILENCE + SILENCE - Nanos(1)));
        assert!(session.admits(OTHER, 8, SILENCE + SILENCE));
        assert!(
            !session.admits(ONE, 7, SILENCE + SILENCE),
            "now that one is the stranger"
        );
        assert_eq!(session.opened, 2);
    }

    #[test]
    fn the_next_run_from_the_same_address_waits_a_moment_and_another_socket_gets_no_answer() {
        let mut session = Session::default();
        assert!(session.admits(ONE, 7, Nanos(0)));
        assert!(!session.admits(ONE, 8, SILENCE_AT_ADDRESS - Nanos(1)));
        assert!(session.admits(ONE, 8, SILENCE_AT_ADDRESS));
        assert!(!session.admits(ONE, 7, SILENCE_AT_ADDRESS));
    }

    #[test]
    fn with_a_secret_only_the_conversation_that_knew_it_is_answered() {
        let mut session = Session::default();
        assert!(!session.continues(ONE, 7, Nanos(0)), "there is no session");
        session.open(ONE, 7, Nanos(0));
        assert!(session.continues(ONE, 7, Nanos(1)));
        assert!(!session.continues(ONE, 8, Nanos(1)) && !session.continues(OTHER, 7, Nanos(1)));
        assert!(
            session.is_of_another(OTHER, Nanos(1))
                && !session.is_of_another(OTHER, SILENCE + Nanos(1))
        );
    }
}
