//! Converts the output of other tools into runs ([`import`]), and runs into the formats of other
//! tools ([`export`]). Each format has one file.
#![forbid(unsafe_code)]

pub mod export;
pub mod history_table;
pub mod import;
