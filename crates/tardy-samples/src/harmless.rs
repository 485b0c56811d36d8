//! Replaces control characters in texts of files from unknown sources, before the texts are
//! printed.
//!
//! Texts are cleaned when a run is opened, not when they are printed, because only two functions
//! open runs but fifty print texts. So exports and reports get the same text.

use serde_json::Value;
use tardy_sys::printable::is_printable;

/// Replaces terminal control characters and line breaks in all texts of a document. Returns whether
/// the document contained any. Removes object members whose key contains such characters.
pub fn harmless(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text.contains(|character| !is_printable(character)) => {
            *text = text.replace(
                |character| !is_printable(character),
                char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]),
            );
            true
        }
        // A `fold` is used, because `any` would stop at the first text that it cleans.
        Value::Array(values) => values
            .iter_mut()
            .fold(false, |found, value| harmless(value) | found),
        Value::Object(members) => {
            let found = members
                .values_mut()
                .fold(false, |found, value| harmless(value) | found);
            let keys: Vec<String> = members
                .keys()
                .filter(|key| key.contains(|character| !is_printable(character)))
                .cloned()
                .collect();
            for key in &keys {
                members.remove(key);
            }
            found | !keys.is_empty()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_that_acts_on_a_terminal_is_left() {
        let mut value = json!({"name": "a\n\u{1b}[31mPASSED", "list": ["plain", {"deep": "\u{9b}2J"}], "number": 1.5, "key\u{7}": 1});
        assert!(harmless(&mut value));
        assert_eq!(
            value,
            json!({"name": "a\u{fffd}\u{fffd}[31mPASSED", "list": ["plain", {"deep": "\u{fffd}2J"}], "number": 1.5})
        );
        assert!(!harmless(&mut value));
    }
}
