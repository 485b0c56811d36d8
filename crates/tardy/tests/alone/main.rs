//! Tests that need the machine to themselves: they count instructions, starve CPUs, take them away,
//! or compare what is mounted. Each test holds the lock from `turn()` while it runs.
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]

#[path = "../support/mod.rs"]
mod support;

mod clock_steps;
mod dangerous;
mod explaining;
mod guardian;
mod hot_loop;
mod moved;
mod nothing_is_left;
mod passes;
mod readers;
mod shares;
mod tool;
mod tune;

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// Waits for the lock that gives the machine to one test at a time.
fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
