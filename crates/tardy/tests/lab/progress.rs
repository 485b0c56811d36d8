//! Tests how the progress of guests is shown in a terminal.

use super::lab_is_there;
use super::support::terminal::InTerminal;
use super::support::workplace::Workplace;

#[test]
fn a_terminal_shows_the_phase_and_the_virtual_time_of_each_guest() {
    if !lab_is_there("progress of guests", false) {
        return;
    }
    let place = Workplace::new();
    let mut run = InTerminal::start(
        &place,
        "lab run --kernel debian:6.1 --load hackbench --for 10s --out run",
        (120, 24),
    );
    run.until_seen("how far the guest is, and the time left", |seen| {
        seen.contains("0 of 1 guests, ")
            && seen.contains(" left; 6.1 replica 0: hackbench, ")
            && seen.contains(" of 10 s of virtual time")
    });
    let (status, seen) = run.end();
    assert!(matches!(status.code(), Some(0 | 4)), "{status}: {seen}");
    assert!(
        !seen.contains("virtual time\n"),
        "the line is gone at the end:\n{seen}"
    );
}
