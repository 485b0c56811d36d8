//! Asks for missing information on a terminal. After an empty line, the advice uses an assumption
//! and reports it.

use std::io::{self, BufRead, Write};

use tardy_advise::task::{Task, WorkKind};
use tardy_report::report::screen;

use crate::cli::advise::{bytes, yes_no};
use crate::cli::choice::Choice;
use crate::cli::{positive_duration, share};

/// A question, and the function that stores its answer in the task.
struct Question {
    text: &'static str,
    example: &'static str,
    /// Whether to ask the question, given the known answers.
    is_open: fn(&Task) -> bool,
    answer: fn(&mut Task, &str) -> Result<(), String>,
}

const QUESTIONS: &[Question] = &[
    Question {
        text: "Does only the total amount of work matter, and not when each piece is done?",
        example: "yes or no",
        is_open: |task| task.is_throughput_only.is_none(),
        answer: |task, text| yes_no(text).map(|answer| task.is_throughput_only = Some(answer)),
    },
    Question {
        text: "How long does a unit of work take, undisturbed?",
        example: "100us",
        is_open: |task| task.work_ns.is_none() && task.is_throughput_only != Some(true),
        answer: |task, text| positive_duration(text).map(|answer| task.work_ns = Some(answer)),
    },
    Question {
        text: "When must a unit of work be done, counted from its due time?",
        example: "250us",
        is_open: |task| task.deadline_ns.is_none() && task.is_throughput_only != Some(true),
        answer: |task, text| positive_duration(text).map(|answer| task.deadline_ns = Some(answer)),
    },
    Question {
        text: "How much time lies between the due times of two consecutive units?",
        example: "1ms",
        is_open: |task| task.period_ns.is_none() && task.is_throughput_only != Some(true),
        answer: |task, text| positive_duration(text).map(|answer| task.period_ns = Some(answer)),
    },
    Question {
        text: "What share of the units may be late?",
        example: "0 or 1e-6",
        is_open: |task| task.misses.is_none() && task.deadline_ns.is_some(),
        answer: |task, text| share(text).map(|answer| task.misses = Some(answer)),
    },
    Question {
        text: "What does the work do most of the time?",
        example: "compute, syscalls or memory",
        is_open: |task| task.kind.is_none() && task.is_throughput_only != Some(true),
        answer: |task, text| WorkKind::parse(text).map(|answer| task.kind = Some(answer)),
    },
    Question {
        text: "What total share of CPU time will all work use?",
        example: "40%",
        is_open: |task| task.utilisation.is_none() && task.is_throughput_only != Some(true),
        answer: |task, text| share(text).map(|answer| task.utilisation = Some(answer)),
    },
    Question {
        text: "Do parallel threads wait for each other at barriers?",
        example: "yes or no",
        is_open: |task| {
            task.has_barriers.is_none()
                && task
                    .utilisation
                    .is_some_and(|share| share > tardy_advise::flow::UTILISATION_HIGH)
        },
        answer: |task, text| yes_no(text).map(|answer| task.has_barriers = Some(answer)),
    },
    Question {
        text: "How much memory will all work need in total?",
        example: "512MiB",
        is_open: |task| task.memory_bytes.is_none() && task.is_throughput_only != Some(true),
        answer: |task, text| bytes(text).map(|answer| task.memory_bytes = Some(answer)),
    },
];

/// Asks for the missing parts of `task`, in lines of at most `columns` characters. After an invalid
/// answer, the question is repeated. Stops asking at the end of the input.
///
/// # Errors
/// Returns an error if reading or writing fails.
pub(super) fn ask(
    task: &mut Task,
    input: &mut impl BufRead,
    output: &mut impl Write,
    columns: usize,
) -> io::Result<()> {
    writeln!(output, "Press Enter to skip a question.")?;
    for question in QUESTIONS {
        while (question.is_open)(task) {
            let text = screen::fitted(
                &format!("{} ({})", question.text, question.example),
                columns,
            );
            write!(output, "{} ", text.trim_end())?;
            output.flush()?;
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                writeln!(output)?;
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Err(error) = (question.answer)(task, line.trim()) {
                write!(output, "{}", screen::fitted(&format!("  {error}"), columns))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::units::Nanos;

    fn asked(task: &mut Task, input: &str) -> String {
        let mut output = Vec::new();
        ask(task, &mut input.as_bytes(), &mut output, 60).unwrap();
        let text = String::from_utf8(output).unwrap();
        // On a terminal, the user ends the line of a question by pressing Enter. The captured
        // output lacks these line ends, so the test adds them.
        assert!(
            text.replace(") ", ")\n")
                .lines()
                .all(|line| line.chars().count() <= 60),
            "{text}"
        );
        text
    }

    #[test]
    fn answers_go_where_flags_would_and_what_is_no_answer_is_asked_for_again() {
        let mut task = Task::default();
        let text = asked(
            &mut task,
            "no\n100\n100us\n250us\n1ms\n1e-6\nsyscalls\n80%\nyes\n512MiB\n",
        );
        assert!(text.contains("`100` has no unit"), "{text}");
        let us = |us| Some(Nanos::from_micros(us));
        let expected = Task {
            work_ns: us(100),
            deadline_ns: us(250),
            period_ns: us(1000),
            kind: Some(WorkKind::Syscalls),
            misses: Some(1e-6),
            utilisation: Some(0.8),
            memory_bytes: Some(512 << 20),
            is_throughput_only: Some(false),
            has_barriers: Some(true),
            is_virtual: None,
        };
        assert_eq!(task, expected);
    }

    #[test]
    fn what_does_not_matter_is_not_asked_and_what_is_left_open_stays_open() {
        let mut throughput = Task::default();
        let text = asked(&mut throughput, "yes\n");
        assert_eq!(text.matches('?').count(), 1, "{text}");
        let mut open = Task::default();
        assert_eq!(asked(&mut open, "\n\n\n\n\n\n\n").matches('?').count(), 7);
        assert_eq!(open, Task::default());
        let mut cut = Task::default();
        asked(&mut cut, "no\n100us");
        assert_eq!(cut.work_ns, Some(Nanos::from_micros(100)));
    }
}
