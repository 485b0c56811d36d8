//! The reader of journals must not panic on any bytes. The target reads journals, but does not
//! execute them.

use tardy_machine::journal::parse;

/// See [`crate::Target::check`].
pub fn check(bytes: &[u8]) {
    match parse(bytes) {
        Ok(entries) => entries
            .loads
            .iter()
            .for_each(|undo| drop((undo.to_string(), undo.survives_restart()))),
        Err(error) => drop(error.to_string()),
    }
}
