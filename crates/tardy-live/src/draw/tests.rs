use super::*;
use crate::progress::{LoadProgress, PhaseProgress};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tardy_core::accounting::Counts;
use tardy_core::cpu::CpuId;
use tardy_core::figures::{Figures, FiguresNumbers, Peaks};
use tardy_core::histogram::{Budget, Histogram};
use tardy_core::verdict::Window;

const LOOK: Look = Look {
    is_unicode: true,
    is_colored: true,
};

/// Time at which a run started, on the clock of its samples.
const START: Nanos = Nanos::from_secs(1_000);

fn figures(cpu: u32, max: i64, due: Nanos) -> Figures {
    let mut recent = Peaks::default();
    recent.note(START + due, Nanos(max));
    let mut histogram = Histogram::new(Budget::RECORDER);
    (0..10_000).for_each(|step| histogram.record(2_000 + step % 900 * 10));
    histogram.record(max);
    Figures {
        probe: "cyclic".into(),
        cpu: Some(CpuId(cpu)),
        counts: Counts {
            skipped: u64::from(cpu) * 3,
            ..Counts::default()
        },
        misses: None,
        latest: Some(Nanos(4_560)),
        recent,
        numbers: FiguresNumbers::of(&histogram),
    }
}

fn progress(elapsed: i64) -> RunProgress {
    let phase = |name: &str, begin, end| PhaseProgress {
        name: name.into(),
        begin: Nanos::from_secs(begin),
        end: Some(Nanos::from_secs(end)),
    };
    RunProgress {
        run: "2026-11-22-223000".into(),
        start: START,
        state: State::Running,
        elapsed: Nanos::from_secs(elapsed),
        planned: Some(Nanos::from_secs(53)),
        phases_planned: 10,
        phases: vec![phase("idle", 0, 5), phase("io", 5, 10)],
        loads: vec![LoadProgress {
            name: "io".into(),
            operations: 31_200,
            bytes: 3 << 30,
            errors: 0,
            worked: Some(Nanos::from_secs(4)),
        }],
        marks: Vec::new(),
        window: None,
        is_cut_off: false,
    }
}

/// Makes the screen of a run on `cpus` CPUs, of which the middle one has the largest value.
fn screen(cpus: u32) -> Screen {
    let mut screen = Screen::new(Owner::Own, true);
    let max = |cpu| {
        if cpu == cpus / 2 {
            4_710_000
        } else {
            20_000 + i64::from(cpu) * 1_000
        }
    };
    for second in 0..9 {
        let series = (0..cpus)
            .map(|cpu| {
                let largest = if second == 8 { max(cpu) } else { 15_000 };
                figures(cpu, largest, Nanos::from_secs(second))
            })
            .collect();
        screen.content.take(progress(second), Some(series));
    }
    screen
}

fn drawn(screen: &Screen, (width, height): (u16, u16), look: Look) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen, look)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
            .trim_end()
            .to_owned()
    };
    (0..height).map(line).collect()
}

/// Returns the line that contains `text`.
#[track_caller]
fn line_of<'a>(lines: &'a [String], text: &str) -> &'a str {
    lines
        .iter()
        .find(|line| line.contains(text))
        .unwrap_or_else(|| panic!("no `{text}` in\n{}", lines.join("\n")))
}

#[test]
fn the_figures_of_each_cpu_stand_below_their_heads() {
    let lines = drawn(&screen(2), (80, 24), LOOK);
    let heads: Vec<&str> = line_of(&lines, "average").split_whitespace().collect();
    assert_eq!(
        heads,
        ["min", "now", "average", "99.9", "%", "max", "skipped"]
    );
    assert_eq!(
        line_of(&lines, "CPU 1 ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        "CPU 1 2.00 us 4.56 us 6.93 us 11.0 us 4.71 ms 3"
    );
    assert!(
        lines[0].ends_with("0:08 of 0:53, 0:45 left"),
        "{}",
        lines[0]
    );
    assert_eq!(
        lines[1],
        "phase 2 of 10: io, 0:02 left | 31200 operations, 768 MiB/s"
    );
    assert!(line_of(&lines, "|idle").contains("|io"));
}

#[test]
fn narrow_screens_leave_out_columns_and_not_the_maximum() {
    for width in [40, 60, 80, 120, 200] {
        for height in [8, 16, 24, 50] {
            let lines = drawn(&screen(2), (width, height), LOOK);
            assert!(
                line_of(&lines, "CPU 1").contains("4.71 ms"),
                "{width}x{height}"
            );
        }
    }
    let narrow = drawn(&screen(2), (60, 24), LOOK);
    assert!(
        !line_of(&narrow, "99.9 %").contains("min")
            && line_of(&narrow, "99.9 %").contains("skipped")
    );
    // Drawing must not panic, whatever the size.
    for size in [(1, 1), (10, 3), (300, 2), (3, 100)] {
        drawn(&screen(3), size, LOOK);
    }
}

#[test]
fn of_256_cpus_all_stand_in_the_picture_and_the_worst_in_the_table() {
    for width in [60, 80, 120] {
        let lines = drawn(&screen(256), (width, 24), LOOK);
        line_of(&lines, "max of each CPU: 20.0 us");
        let cells = |line: &&String| {
            line.chars()
                .next()
                .is_some_and(|letter| letter.is_ascii_digit())
                && line.contains('-')
        };
        let drawn: usize = lines
            .iter()
            .filter(cells)
            .map(|line| {
                line.chars()
                    .filter(|letter| ('▁'..='█').contains(letter))
                    .count()
            })
            .sum();
        assert_eq!(drawn, 256, "{}", lines.join("\n"));
        let row = lines
            .iter()
            .position(|line| line.starts_with("worst"))
            .unwrap()
            + 1;
        assert!(lines[row].starts_with("CPU 128"), "{}", lines.join("\n"));
        line_of(&lines, "largest value over time");
    }
}

#[test]
fn the_chosen_cpu_is_in_the_table_and_its_charts_are_shown() {
    let mut screen = screen(256);
    screen.selected = Some(7);
    let lines = drawn(&screen, (80, 24), LOOK);
    line_of(&lines, "CPU 7 ");
    line_of(&lines, "histogram, CPU 7");
}

#[test]
fn missed_deadlines_and_lost_samples_have_columns_where_there_can_be_some() {
    let mut screen = screen(2);
    screen.content.series[1].misses = Some(12);
    screen.content.series[1].counts.lost = 5;
    let lines = drawn(&screen, (80, 24), LOOK);
    let heads = line_of(&lines, "average");
    assert!(heads.ends_with("missed     LOST"), "{heads}");
    assert!(
        line_of(&lines, "CPU 1 ").ends_with("12        5"),
        "{}",
        line_of(&lines, "CPU 1 ")
    );
}

#[test]
fn a_late_value_stands_in_the_phase_in_which_it_was_due() {
    let mut screen = Screen::new(Owner::Own, true);
    let mut quiet = figures(0, 15_000, Nanos::ZERO);
    (1..80).for_each(|step| {
        let due = START + Nanos::from_millis(100 * step);
        // This sample was due before the phase `io` started at 5 s, but was reported after the
        // start.
        let value = if step == 49 { 3_000_000 } else { 15_000 };
        quiet.recent.note(due, Nanos(value));
    });
    screen.content.take(progress(8), Some(vec![quiet]));
    let lines = drawn(&screen, (80, 24), LOOK);
    let io = line_of(&lines, "|idle").find("|io").unwrap();
    let highest = &lines[lines
        .iter()
        .position(|line| line.contains("largest value over time"))
        .unwrap()
        + 1];
    let places: Vec<usize> = (highest.chars().enumerate())
        .filter(|(_, letter)| *letter == '█')
        .map(|(place, _)| place)
        .collect();
    assert!(
        !places.is_empty() && places.iter().all(|&place| place < io),
        "{lines:#?}"
    );
}

#[test]
fn the_time_line_of_a_value_a_millisecond_has_no_gap() {
    let mut screen = Screen::new(Owner::Own, true);
    // The view polls every 570 ms, so that polls and the steps of the time line come at different
    // times.
    for look in 0..15 {
        let mut figures = figures(0, 15_000, Nanos::from_millis(570 * look));
        for step in 570 * look..570 * (look + 1) {
            let value = 10_000 + step * 7_919 % 997 * 1_000;
            figures
                .recent
                .note(START + Nanos::from_millis(step), Nanos(value));
        }
        screen.content.take(progress(8), Some(vec![figures]));
    }
    let track = screen.content.track(None);
    let columns = track.columns(Nanos::from_secs(8), 64);
    assert!(columns.iter().all(Option::is_some), "{columns:?}");
}

#[test]
fn no_two_labels_of_an_axis_are_equal() {
    let mut screen = Screen::new(Owner::Own, true);
    screen
        .content
        .take(progress(8), Some(vec![figures(0, 15_000, Nanos::ZERO)]));
    let lines = drawn(&screen, (80, 24), LOOK);
    let labels = lines
        .iter()
        .filter(|line| line.contains("15.0 us █") || line.trim() == "15.0 us");
    assert_eq!(labels.count(), 1, "{lines:#?}");
}

#[test]
fn marks_stand_below_the_time_line() {
    let mut screen = screen(1);
    screen.content.progress.as_mut().unwrap().marks = vec![Nanos::from_secs(4)];
    let lines = drawn(&screen, (80, 24), LOOK);
    let axis = line_of(&lines, "|idle");
    let place = axis.chars().position(|letter| letter == '▲').unwrap();
    // The axis has 71 columns for 8 s, after a margin of 9 columns.
    assert_eq!(place, 9 + 35, "{axis}");
}

#[test]
fn a_terminal_of_ascii_gets_nothing_else() {
    let mut screen = screen(256);
    screen.content.progress.as_mut().unwrap().marks = vec![Nanos::from_secs(4)];
    let lines = drawn(
        &screen,
        (80, 24),
        Look {
            is_unicode: false,
            is_colored: false,
        },
    );
    assert!(
        lines.iter().all(|line| line.is_ascii()),
        "{}",
        lines.join("\n")
    );
}

#[test]
fn what_is_asked_and_what_is_paused_is_said() {
    let mut screen = screen(2);
    screen.is_asking = true;
    line_of(&drawn(&screen, (60, 24), LOOK), "Stop the run now?");
    screen.is_asking = false;
    screen.press(crate::screen::Key::Letter(' '));
    line_of(&drawn(&screen, (60, 24), LOOK), "VIEW PAUSED");
    assert!(line_of(&drawn(&screen, (80, 24), LOOK), "resume").contains("m mark"));
}

#[test]
fn samples_above_the_deadline_are_told_apart_by_colour() {
    let mut screen = screen(1);
    screen.content.progress.as_mut().unwrap().window =
        Some(Window::deadline(Nanos::from_millis(1)));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(frame, &screen, LOOK)).unwrap();
    let red = terminal
        .backend()
        .buffer()
        .content
        .iter()
        .filter(|cell| cell.fg == Color::Red)
        .count();
    assert!(red > 0);
}

#[test]
fn a_run_that_did_not_start_says_so() {
    let screen = Screen::new(Owner::Own, true);
    line_of(
        &drawn(&screen, (80, 24), LOOK),
        "waiting for the run to start",
    );
}
