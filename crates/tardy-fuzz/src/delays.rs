//! The reader of explained samples must not panic on any bytes, and must return valid indices only.

use tardy_samples::delays::decode;

/// See [`crate::Target::check`].
pub fn check(body: &[u8]) {
    if let Some(chunk) = decode(body) {
        let pieces = || chunk.samples.iter().flat_map(|sample| &sample.pieces);
        assert!(chunk.samples.len() <= body.len() && pieces().count() <= body.len());
        assert!(pieces().all(|piece| piece.holder < chunk.holders.len()));
    }
}
