//! The reader of a user's defaults must not panic on any text, and must only return known flags.

use std::path::Path;

use tardy_measure::configuration::{Configuration, keys, sentences};

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    let mut configuration = Configuration::default();
    if let Err(error) = configuration.take(Path::new("tardy.toml"), &String::from_utf8_lossy(bytes))
    {
        let _ = error.to_string();
    }
    assert!(
        configuration
            .flags
            .keys()
            .all(|flag| keys().any(|key| key == *flag))
    );
    let _ = sentences(
        configuration
            .flags
            .iter()
            .map(|(flag, default)| (*flag, default)),
    );
}
