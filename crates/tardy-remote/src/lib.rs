//! Runs commands of tardy on other machines. The binary is copied to the machine, the command runs
//! there without depending on the connection, and its output folder is copied back.
//!
//! Connections use OpenSSH's client, with the user's configuration, keys and jump hosts. The board
//! runs the copied binary ([`on_board`]); apart from it, the board needs only a shell, `uname`,
//! `mkdir`, `cat`, `chmod` and `rm`.
//!
//! Defaults come from the files on the board, such as its `/etc/tardy.toml`, because the CPU
//! numbers of this machine are meaningless on the board.
#![forbid(unsafe_code)]

pub mod binary;
pub mod board;
pub mod host;
pub mod on_board;
pub mod shards;
pub mod ssh;
mod step;
