//! No bytes make the reader of explained samples panic, and what it reads names only what is there.

use tardy_samples::delays::decode;

/// See [`crate::Target::check`].
pub fn check(body: &[u8]) {
    if let Some(chunk) = decode(body) {
        let pieces = || chunk.samples.iter().flat_map(|sample| &sample.pieces);
        assert!(chunk.samples.len() <= body.len() && pieces().count() <= body.len());
        assert!(pieces().all(|piece| piece.holder < chunk.holders.len()));
    }
}
