//! The responder's end of `udp`, which answers the peer of its session. Each answered datagram gets
//! one answer of the same length.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use tardy_core::units::Nanos;
use tardy_sys::{clock, stamped_socket};

use super::answer_log::AnswerLog;
use super::budget::Budget;
use super::packet::{self, Kind, Packet};
use super::peer::Session;
use super::respond::{LOOK, Responder, ResponderResult, note};
use super::secret::Secret;
use super::stamp::on_the_runs_clock;

/// The responder's socket, and the state that decides which peer is answered.
#[derive(Debug)]
pub(super) struct UdpResponder {
    socket: UdpSocket,
    session: Session,
    secret: Option<KnownSecret>,
}

/// The shared secret, and the key from which nonces are made.
#[derive(Debug)]
struct KnownSecret {
    secret: Secret,
    own: Secret,
}

/// What the responder does with a datagram.
enum Fate {
    /// The session's peer gets an answer.
    Answered { answer: Packet, is_stimulus: bool },
    /// A possible peer gets a challenge to prove that it knows the secret.
    Challenged(Packet),
    /// A peer has proved that it knows the secret. This reply proves that the responder knows the
    /// secret, too.
    Opened(Packet),
    /// The datagram comes from another sender and gets no answer.
    Stranger,
    /// The datagram is not a request.
    Other,
}

impl Fate {
    fn answered(question: Packet) -> Self {
        Self::Answered {
            answer: Packet {
                kind: Kind::Answer,
                ..question
            },
            is_stimulus: question.kind == Kind::Stimulus,
        }
    }

    /// Returns whether the datagram comes from a peer that the responder answers. A challenged
    /// hello does not count, because any host can send one.
    fn is_of_the_peer(&self) -> bool {
        matches!(self, Self::Answered { .. } | Self::Opened(_))
    }
}

impl UdpResponder {
    /// Listens at the address `at` only.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be made or /dev/urandom cannot be read.
    pub(super) fn bind(at: SocketAddr, secret: Option<&Secret>) -> io::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        stamped_socket::stamp_received(&socket)?;
        socket.set_read_timeout(Some(LOOK))?;
        let secret = secret
            .map(|secret| {
                Secret::drawn().map(|own| KnownSecret {
                    secret: secret.clone(),
                    own,
                })
            })
            .transpose()?;
        Ok(Self {
            socket,
            session: Session::default(),
            secret,
        })
    }

    /// Decides what to do with a datagram from `from`.
    #[inline]
    fn fate(&mut self, bytes: &[u8], from: IpAddr, now: Nanos) -> Fate {
        match (Packet::decode(bytes), &self.secret) {
            (
                Some(
                    question @ Packet {
                        kind: Kind::Hello | Kind::Stimulus,
                        ..
                    },
                ),
                None,
            ) => {
                if self.session.admits(from, question.conversation, now) {
                    Fate::answered(question)
                } else {
                    Fate::Stranger
                }
            }
            (
                Some(
                    stimulus @ Packet {
                        kind: Kind::Stimulus,
                        conversation,
                        ..
                    },
                ),
                Some(_),
            ) => {
                if self.session.continues(from, conversation, now) {
                    Fate::answered(stimulus)
                } else {
                    Fate::Stranger
                }
            }
            (
                Some(Packet {
                    kind: Kind::Hello,
                    conversation,
                    ..
                }),
                Some(known),
            ) => {
                let is_of_another = self.session.is_of_another(from, now);
                if is_of_another {
                    Fate::Stranger
                } else {
                    Fate::Challenged(known.challenge(from, conversation, self.session.opened))
                }
            }
            (None, Some(known)) if bytes.len() == packet::TAGGED_BYTES => {
                let opening = Packet::decode_tagged(bytes, &known.secret).filter(|opening| {
                    let expected = known.challenge(from, opening.conversation, self.session.opened);
                    let nonce = (opening.number, opening.in_responder);
                    opening.kind == Kind::Opening
                        && nonce == (expected.number, expected.in_responder)
                });
                match opening {
                    Some(opening) if !self.session.is_of_another(from, now) => {
                        self.session.open(from, opening.conversation, now);
                        Fate::Opened(Packet {
                            kind: Kind::Opened,
                            ..opening
                        })
                    }
                    _ => Fate::Stranger,
                }
            }
            _ => Fate::Other,
        }
    }
}

impl KnownSecret {
    /// Returns the challenge for a conversation. The nonce of a challenge is valid until the next
    /// session is opened, so each opening is accepted only once.
    fn challenge(&self, from: IpAddr, conversation: u64, opened: u64) -> Packet {
        let nonce = self
            .own
            .tag(format!("{from} {conversation} {opened}").as_bytes());
        let word = |at: usize| {
            nonce[at..]
                .first_chunk()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        Packet {
            kind: Kind::Challenge,
            conversation,
            number: word(0),
            in_responder: Nanos(word(8) as i64),
            machine: 0,
        }
    }
}

impl Responder for UdpResponder {
    fn answer(
        &mut self,
        is_over: &AtomicBool,
        log: &mut Option<AnswerLog>,
        answered: &mut ResponderResult,
    ) -> io::Result<()> {
        let machine = packet::this_machine();
        let mut buffer = [0; packet::TAGGED_BYTES + 1];
        let mut budget = Budget::default();
        while !is_over.load(Ordering::Relaxed) {
            let (received, from) = match stamped_socket::receive_from(&self.socket, &mut buffer) {
                Ok(Some(received)) => received,
                // The time limit passed without a datagram, or the initiator's port is closed.
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            let woken = Nanos(clock::monotonic());
            let fate = self.fate(&buffer[..received.bytes], from.ip(), woken);
            let rest = budget.take(woken, fate.is_of_the_peer());
            match fate {
                Fate::Answered {
                    answer,
                    is_stimulus,
                } => {
                    let stamp = received.stamp.map(on_the_runs_clock);
                    let in_responder =
                        stamp.map_or(Nanos(-1), |stamp| Nanos(clock::monotonic()) - stamp);
                    if self
                        .socket
                        .send_to(
                            &Packet {
                                in_responder,
                                machine,
                                ..answer
                            }
                            .encode(),
                            from,
                        )
                        .is_err()
                    {
                        answered.failures += 1;
                    } else if is_stimulus {
                        answered.answers += 1;
                        note(log, stamp, woken);
                        if let Some(stamp) = stamp {
                            answered.wake_up.record((woken - stamp).get());
                            answered.in_responder.record(in_responder.get());
                        }
                    }
                }
                Fate::Challenged(challenge) => {
                    answered.failures +=
                        u64::from(self.socket.send_to(&challenge.encode(), from).is_err())
                }
                Fate::Opened(opened) => {
                    let bytes = self
                        .secret
                        .as_ref()
                        .map(|known| Packet { machine, ..opened }.tagged(&known.secret));
                    answered.failures += u64::from(
                        bytes.is_none_or(|bytes| self.socket.send_to(&bytes, from).is_err()),
                    );
                }
                Fate::Stranger => answered.strangers += 1,
                Fate::Other => answered.others += 1,
            }
            answered.sessions = self.session.opened;
            if let Some(until) = rest {
                answered.rests += 1;
                // If this sleep fails, the next datagram leads to another attempt.
                let _ = clock::sleep_until(&clock::Instant::from_nanos(until.get()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn responder(secret: Option<&Secret>) -> UdpResponder {
        UdpResponder::bind(SocketAddr::from(([127, 0, 0, 1], 0)), secret).unwrap()
    }

    fn packet(kind: Kind, conversation: u64) -> Packet {
        Packet {
            kind,
            conversation,
            number: 3,
            in_responder: Nanos::ZERO,
            machine: 0,
        }
    }

    fn challenge(responder: &mut UdpResponder, from: IpAddr, conversation: u64) -> Packet {
        match responder.fate(&packet(Kind::Hello, conversation).encode(), from, Nanos(0)) {
            Fate::Challenged(challenge) => challenge,
            _ => panic!("a hello is answered with a challenge"),
        }
    }

    #[test]
    fn an_opening_is_good_once_for_its_address_and_its_conversation() {
        let secret = Secret::drawn().unwrap();
        let mut responder = responder(Some(&secret));
        let challenge = challenge(&mut responder, PEER, 7);
        let opening = Packet {
            kind: Kind::Opening,
            ..challenge
        };
        let mut opens = |opening: Packet, from| {
            matches!(
                responder.fate(&opening.tagged(&secret), from, Nanos(0)),
                Fate::Opened(_)
            )
        };
        assert!(!opens(opening, OTHER), "the nonce is another's");
        assert!(
            !opens(
                Packet {
                    conversation: 8,
                    ..opening
                },
                PEER
            ),
            "or another conversation's"
        );
        assert!(
            !opens(
                Packet {
                    number: opening.number ^ 1,
                    ..opening
                },
                PEER
            ),
            "or of the sender's own making"
        );
        assert!(
            !opens(challenge, PEER),
            "a challenge that comes back opens nothing"
        );
        assert!(opens(opening, PEER));
        assert!(!opens(opening, PEER), "once more, recorded on the way");
        let bytes = opening.tagged(&Secret::drawn().unwrap());
        assert!(
            matches!(responder.fate(&bytes, PEER, Nanos(0)), Fate::Stranger),
            "another secret"
        );
    }

    #[test]
    fn with_a_secret_a_stimulus_is_answered_after_an_opening_only() {
        let secret = Secret::drawn().unwrap();
        let mut responder = responder(Some(&secret));
        let stimulus = packet(Kind::Stimulus, 7).encode();
        assert!(matches!(
            responder.fate(&stimulus, PEER, Nanos(0)),
            Fate::Stranger
        ));
        let opening = Packet {
            kind: Kind::Opening,
            ..challenge(&mut responder, PEER, 7)
        };
        assert!(matches!(
            responder.fate(&opening.tagged(&secret), PEER, Nanos(0)),
            Fate::Opened(_)
        ));
        assert!(matches!(
            responder.fate(&stimulus, PEER, Nanos(0)),
            Fate::Answered {
                is_stimulus: true,
                ..
            }
        ));
        assert!(matches!(
            responder.fate(&packet(Kind::Stimulus, 8).encode(), PEER, Nanos(0)),
            Fate::Stranger
        ));
        assert!(matches!(
            responder.fate(&stimulus, OTHER, Nanos(0)),
            Fate::Stranger
        ));
        assert!(
            matches!(
                responder.fate(&packet(Kind::Hello, 9).encode(), OTHER, Nanos(0)),
                Fate::Stranger
            ),
            "while the session lasts"
        );
    }

    #[test]
    fn a_hello_that_is_challenged_is_of_nobody_that_is_known() {
        let secret = Secret::drawn().unwrap();
        let mut with_secret = responder(Some(&secret));
        let hello = packet(Kind::Hello, 7).encode();
        let fate = with_secret.fate(&hello, PEER, Nanos(0));
        assert!(matches!(fate, Fate::Challenged(_)) && !fate.is_of_the_peer());
        let opening = Packet {
            kind: Kind::Opening,
            ..challenge(&mut with_secret, PEER, 7)
        };
        assert!(
            with_secret
                .fate(&opening.tagged(&secret), PEER, Nanos(0))
                .is_of_the_peer()
        );
        assert!(
            with_secret
                .fate(&packet(Kind::Stimulus, 7).encode(), PEER, Nanos(0))
                .is_of_the_peer()
        );
        assert!(
            responder(None)
                .fate(&hello, PEER, Nanos(0))
                .is_of_the_peer(),
            "without a secret it is answered"
        );
    }

    #[test]
    fn answers_and_what_is_no_packet_are_others() {
        let mut responder = responder(None);
        let opening = packet(Kind::Opening, 7).tagged(&Secret::drawn().unwrap());
        for bytes in [
            &packet(Kind::Answer, 7).encode()[..],
            &packet(Kind::Challenge, 7).encode(),
            &opening,
            b"",
            b"tdy1",
        ] {
            assert!(matches!(responder.fate(bytes, PEER, Nanos(0)), Fate::Other));
        }
        assert!(matches!(
            responder.fate(&packet(Kind::Hello, 7).encode(), PEER, Nanos(0)),
            Fate::Answered {
                is_stimulus: false,
                ..
            }
        ));
    }
}
