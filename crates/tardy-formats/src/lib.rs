//! Other tools' formats, one file each: runs made from them ([`import`]), and runs written in them
//! ([`export`]).
#![forbid(unsafe_code)]

pub mod export;
pub mod history_table;
pub mod import;
