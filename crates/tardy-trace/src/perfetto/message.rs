//! Encodes protobuf messages. Only varints and fields of bytes are needed
//! (protobuf.dev/programming-guides/encoding).

/// A message to which fields are added one by one.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

/// Type of a field that is a number.
const VARINT: u64 = 0;
/// Type of a field that is a length followed by bytes.
const BYTES: u64 = 2;

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a field of type bool, enum, uint32 or uint64.
    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3 | VARINT);
        self.varint(value);
        self
    }

    /// Adds a field of type int32 or int64. For both types, a negative number is written with all
    /// 64 bits.
    pub(super) fn signed(self, field: u64, value: i64) -> Self {
        self.number(field, value.cast_unsigned())
    }

    pub(super) fn text(mut self, field: u64, text: &str) -> Self {
        self.put(field, text.as_bytes());
        self
    }

    pub(super) fn message(mut self, field: u64, message: &Self) -> Self {
        self.put(field, &message.bytes);
        self
    }

    /// Adds a field of bytes, which may be text or a message.
    pub(super) fn put(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds all fields of another message.
    pub(super) fn append(&mut self, fields: &Self) {
        self.bytes.extend_from_slice(&fields.bytes);
    }

    #[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_specification_writes_its_examples() {
        assert_eq!(
            Message::default().number(1, 150).bytes(),
            [0x08, 0x96, 0x01]
        );
        assert_eq!(
            Message::default().text(2, "testing").bytes(),
            b"\x12\x07testing"
        );
        assert_eq!(
            Message::default()
                .message(3, &Message::default().number(1, 150))
                .bytes(),
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        let minus_two = Message::default().signed(1, -2);
        assert_eq!(
            minus_two.bytes(),
            [
                0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01
            ]
        );
    }
}
