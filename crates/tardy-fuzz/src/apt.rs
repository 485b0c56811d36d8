//! The readers of package sources and of apt-cache's output must not panic on any text, nor on the
//! sources that are written for the lab's own apt. When the sources are changed to another release,
//! no source may be added, and each must keep a suite.

use std::path::Path;

use tardy_lab::apt::parse_show;
use tardy_lab::apt::sources::{for_release, paragraph, parse};

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    let _ = parse_show(text);
    for name in ["x.list", "x.sources"] {
        let sources = parse(Path::new(name), text);
        for source in &sources {
            let _ = parse(Path::new("lab.sources"), &paragraph(source));
        }
        for release in ["trixie", "sid", "bookworm-backports"] {
            let turned = for_release(&sources, release);
            assert!(
                turned.len() <= sources.len()
                    && turned.iter().all(|source| !source.suites.is_empty())
            );
        }
    }
}
