//! The datagrams of `udp` links, version 1: 40 bytes, little-endian.
//!
//! ```text
//! "tdy1"  u32 kind (0 hello, 1 stimulus, 2 answer, 3 challenge, 4 opening, 5 opened)  u64 conversation  u64 number  i64 ns in the responder  u64 machine
//! ```
//! The initiator chooses the number of its conversation at random, so that it does not mistake
//! answers to an earlier run for answers to this run. The field `machine` is a digest of the boot
//! ID of the responder's machine. This digest shows the initiator whether the responder runs on the
//! same machine.
//!
//! Kinds 3 to 5 belong to sessions with a secret. The responder answers a hello with a challenge,
//! which contains a nonce instead of the number and the time. The opening and its answer (opened)
//! repeat the nonce. Each of these two packets is 32 bytes longer, because a tag of its first 40
//! bytes follows them. A responder never sends more bytes than it received.

use tardy_core::units::Nanos;

use super::secret::{Secret, TAG_BYTES};

const MAGIC: [u8; 4] = *b"tdy1";
/// Length of a packet in bytes.
pub(super) const BYTES: usize = 40;
/// Length in bytes of a packet with its tag.
pub(super) const TAGGED_BYTES: usize = BYTES + TAG_BYTES;

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Asks whether a responder is present.
    Hello,
    /// Asks for an answer, as a stimulus of the measurement.
    Stimulus,
    /// Answers a hello or a stimulus.
    Answer,
    /// Answers a hello if there is a secret: asks the initiator to prove that it knows the secret.
    Challenge,
    /// Proves that the initiator knows the secret.
    Opening,
    /// Answers an opening, and proves that the responder knows the secret.
    Opened,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet {
    pub kind: Kind,
    /// The conversation that the packet belongs to.
    pub conversation: u64,
    /// In a stimulus and in its answer: number of the stimulus.
    pub number: u64,
    /// In an answer: time on the responder's clock, from the kernel's receive time stamp until just
    /// before the answer was sent; below zero if the kernel gave no time stamp.
    pub in_responder: Nanos,
    /// In an answer: digest of the boot ID of the responder's machine.
    pub machine: u64,
}

impl Packet {
    #[inline]
    #[must_use]
    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        let kind: u32 = match self.kind {
            Kind::Hello => 0,
            Kind::Stimulus => 1,
            Kind::Answer => 2,
            Kind::Challenge => 3,
            Kind::Opening => 4,
            Kind::Opened => 5,
        };
        bytes[4..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.conversation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.in_responder.get().to_le_bytes());
        bytes[32..40].copy_from_slice(&self.machine.to_le_bytes());
        bytes
    }

    /// Returns the packet's bytes with their tag.
    #[must_use]
    pub(super) fn tagged(&self, secret: &Secret) -> [u8; TAGGED_BYTES] {
        let (packet, mut bytes) = (self.encode(), [0; TAGGED_BYTES]);
        bytes[..BYTES].copy_from_slice(&packet);
        bytes[BYTES..].copy_from_slice(&secret.tag(&packet));
        bytes
    }

    /// Decodes a packet with a tag. Returns `None` unless the tag was made by someone who knows the
    /// secret.
    #[must_use]
    pub(super) fn decode_tagged(bytes: &[u8], secret: &Secret) -> Option<Self> {
        let bytes: &[u8; TAGGED_BYTES] = bytes.try_into().ok()?;
        let (packet, tag) = bytes.split_at(BYTES);
        Self::decode(packet).filter(|_| secret.is_tag(packet, tag))
    }

    /// Decodes a packet. Returns `None` if `bytes` are not a packet of this version.
    #[inline]
    #[must_use]
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            bytes[at..]
                .first_chunk::<8>()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        let kind = match (
            bytes[..4] == MAGIC,
            bytes[4..8]
                .first_chunk::<4>()
                .map(|kind| u32::from_le_bytes(*kind)),
        ) {
            (true, Some(0)) => Kind::Hello,
            (true, Some(1)) => Kind::Stimulus,
            (true, Some(2)) => Kind::Answer,
            (true, Some(3)) => Kind::Challenge,
            (true, Some(4)) => Kind::Opening,
            (true, Some(5)) => Kind::Opened,
            _ => return None,
        };
        Some(Self {
            kind,
            conversation: word(8),
            number: word(16),
            in_responder: Nanos(word(24) as i64),
            machine: word(32),
        })
    }
}

/// Returns a digest of this machine's boot ID. The digest is the same in all processes and network
/// namespaces of a running machine, and differs between machines.
#[must_use]
pub(super) fn this_machine() -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // The digest is FNV-1a with 64 bits.
    boot.iter().fold(0xcbf2_9ce4_8422_2325, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(kind in 0..6, conversation in any::<u64>(), number in any::<u64>(), nanos in any::<i64>(), machine in any::<u64>()) {
            let kind = [Kind::Hello, Kind::Stimulus, Kind::Answer, Kind::Challenge, Kind::Opening, Kind::Opened][kind as usize];
            let packet = Packet { kind, conversation, number, in_responder: Nanos(nanos), machine };
            prop_assert_eq!(Packet::decode(&packet.encode()), Some(packet));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
            let _ = Packet::decode(&bytes);
            prop_assert_eq!(Packet::decode_tagged(&bytes, &Secret::drawn().unwrap()), None);
        }
    }

    #[test]
    fn a_tagged_packet_is_read_with_its_secret_alone_and_not_when_a_bit_of_it_changed() {
        let secret = Secret::drawn().unwrap();
        let packet = Packet {
            kind: Kind::Opening,
            conversation: 1,
            number: 2,
            in_responder: Nanos(3),
            machine: 4,
        };
        let bytes = packet.tagged(&secret);
        assert_eq!(Packet::decode_tagged(&bytes, &secret), Some(packet));
        assert_eq!(
            Packet::decode_tagged(&bytes, &Secret::drawn().unwrap()),
            None
        );
        for bit in 0..TAGGED_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Packet::decode_tagged(&changed, &secret), None, "bit {bit}");
        }
    }

    #[test]
    fn a_machine_knows_itself() {
        assert_eq!(this_machine(), this_machine());
    }
}
