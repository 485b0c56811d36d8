//! Commands of tardy on other machines: the binary is copied there, runs without the connection,
//! and its folder is brought back.
//!
//! The engine is OpenSSH's client, so that its configuration, keys and jump hosts hold. The board
//! runs the same binary ([`on_board`]); the board itself needs only a shell, `uname`, `mktemp`,
//! `cat`, `chmod` and `rm`.
//!
//! Defaults files are those of the board (`/etc/tardy.toml` there): the CPUs of this machine are
//! meaningless on the board.
#![forbid(unsafe_code)]

pub mod binary;
pub mod board;
pub mod host;
pub mod on_board;
pub mod shards;
pub mod ssh;
mod step;
