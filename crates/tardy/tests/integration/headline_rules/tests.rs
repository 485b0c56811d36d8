//! Checks that the unchanged texts have no contradictions, and that each rule finds the
//! contradiction that a change introduces.

use super::contradictions;
use super::texts::{
    ALLOWED, BETTER, FAILED, LARGEST, MIXED, NARROW, NARROW_BETTER, OPEN, OPEN_BETTER, PASSED, SAME,
};

/// A text with its exit code, and changes to the text.
struct Case {
    text: &'static str,
    exit_code: i32,
    /// For each change: the old text, the new text, and words of the contradiction that must be
    /// found.
    changes: &'static [(&'static str, &'static str, &'static str)],
}

const CASES: &[Case] = &[
    Case {
        text: PASSED,
        exit_code: 0,
        changes: PASSED_CHANGES,
    },
    Case {
        text: FAILED,
        exit_code: 1,
        changes: FAILED_CHANGES,
    },
    Case {
        text: LARGEST,
        exit_code: 4,
        changes: LARGEST_CHANGES,
    },
    Case {
        text: BETTER,
        exit_code: 0,
        changes: BETTER_CHANGES,
    },
    Case {
        text: SAME,
        exit_code: 0,
        changes: SAME_CHANGES,
    },
    Case {
        text: ALLOWED,
        exit_code: 0,
        changes: ALLOWED_CHANGES,
    },
    Case {
        text: NARROW,
        exit_code: 1,
        changes: NARROW_CHANGES,
    },
    Case {
        text: NARROW_BETTER,
        exit_code: 0,
        changes: NARROW_BETTER_CHANGES,
    },
    Case {
        text: MIXED,
        exit_code: 1,
        changes: MIXED_CHANGES,
    },
    Case {
        text: OPEN,
        exit_code: 4,
        changes: OPEN_CHANGES,
    },
    Case {
        text: OPEN_BETTER,
        exit_code: 4,
        changes: OPEN_BETTER_CHANGES,
    },
];

const PASSED_CHANGES: &[(&str, &str, &str)] = &[
    (
        "0 misses in 6000 due times",
        "3 of 6000 due times missed",
        "own count",
    ),
    ("in 6000 due", "in 5000 due", "Some(5995.0) samples"),
    (
        "in 6000 due",
        "in 6100 due",
        "6100 due times against row all",
    ),
    ("63000 an", "3000 an", "fewer than 3000"),
    ("; 5 skipped", "; 4 skipped", "Some(4.0) in time"),
    (
        "(--skipped limits such periods)",
        "(inconclusive because of the warnings below)",
        "without a warning",
    ),
    ("measured\n", "measured, CUT OFF\n", "lost samples"),
    ("hackbench, 1.48", "hackbench, 1.40", "row hackbench: max"),
    ("hackbench, 1.48", "timers, 1.48", "has no row"),
    ("hackbench, 1.48", "hackbench, 1.58", "above row all"),
    ("on CPUs 0-1,", "on CPUs 0-2,", "title: CPUs"),
    ("every 1ms", "every 2ms", "sampling gap"),
    ("every 1ms", "every 2ms", "due times"),
    ("  968 us", "  868 us", "99.9 %"),
    ("375 ms", "3.75 s", "at Some(3750000 us)"),
    (
        "375 ms       0              0",
        "375 ms       0              1",
        "longest burst",
    ),
    (
        "CPU 1                  3000",
        "CPU 1                  2999",
        "sum of the CPUs",
    ),
    ("5  12.5 us  17.5", "5  12.5 us  18.5", "of the CPUs"),
    (
        "all                    5995        5  12.5",
        "all                    5995        5  13.5",
        "row all: min",
    ),
    ("20.9 us", "21.9 us", "row all: mean"),
    (
        "1.48 ms  2.11 s       0              0\nCPU",
        "1.48 ms  2.12 s       0              0\nCPU",
        "in no row of a CPU",
    ),
    (
        "skipped           6000",
        "skipped           6001",
        "row with skipped: samples",
    ),
    ("~965 us", "1.65 ms", "row with skipped: 99.9 %"),
    ("17.8 us", "17.1 us", "row upper bound"),
    ("n>=65k", "n>=999", "against 5995 samples"),
    ("  ~968 us", "   968 us", "row upper bound"),
    ("3988  18.3", "4988  18.3", "loads: samples"),
    ("< 90000   passed", "< 90000   failed", "verdict failed"),
    (
        "0        < 90000",
        "2        < 90000",
        "verdict PASSED against row hackbench",
    ),
    ("< 34000", " < 3000", "an hour against"),
    ("(largest 1.48", "(largest 1.49", "answer: largest"),
    ("deadline of 2ms", "deadline of 1ms", "misses of deadline"),
    ("T? No:", "T? Perhaps:", "fits FAILED"),
    (
        "v657 PREEMPT_DYNAMIC (none)\n",
        "v657 PREEMPT_RT\n",
        "its kernel",
    ),
    ("vm: Linux 6.18", "vm: Linux 6.19", "machine's Linux"),
    ("of 2ms.", "of 2ms, but no load ran.", "no load ran"),
    ("1.36 ms       0", "2.36 ms       0", "row idle: max"),
];

const FAILED_CHANGES: &[(&str, &str, &str)] = &[
    ("8 of 1000", "9 of 1000", "9 misses against row CPU 1"),
    ("2.715e-2", "2.715e-3", "is not between"),
    ("the 1e-3", "the 1e-2", "of the 0.01 allowed"),
    ("more\n  than", "not more\n  than", "allowed"),
    (
        "CPU 0                   996        4  26.5 us  ~1.95 ms  1.95",
        "CPU 0                   996        4  26.5 us  ~1.95 ms  2.95",
        "row CPU 0: 0 misses",
    ),
    ("~3.52 ms", "~1.52 ms", "row with skipped"),
    ("of 2ms (5", "of 3ms (5", "PREEMPT_RT answer: deadline"),
    ("28.6 us", "2.86 ms", "beyond the deadline"),
    (
        "of 2ms (5",
        "of 2ms (deadline is at most the period) (5",
        "up to the period",
    ),
    ("Perhaps:", "PREEMPT_RT is not enough:", "its kernel"),
];

const LARGEST_CHANGES: &[(&str, &str, &str)] = &[
    (
        "Largest latency: 14.5",
        "Largest latency: 14.6",
        "row CPU 1: max",
    ),
    ("within 31.1", "within 31.3", "median"),
    ("45.6 us.", "45.7 us.", "99 % within"),
    ("(CPU 1).", "(CPU 2).", "without a row"),
    ("held: 14.5", "held: 14.3", "that held"),
    ("held: 14.5", "held: 15.5", "that held"),
    ("18   16", "18    0", "row misses: 0"),
    ("18   16", "18   22", "longer deadline"),
    ("max 14.5", "max 14.4", "chart"),
    (", CUT OFF", "", "exit code 4"),
    ("~1.05 ms  14", "~31.0 us  14", "above"),
];

const BETTER_CHANGES: &[(&str, &str, &str)] = &[
    ("in 2 of", "in 3 of", "3 rows against 2"),
    ("of 3 rows", "of 4 rows", "of 4 rows"),
    ("22 times", "23 times", "23 times"),
    ("undecided in 1", "undecided in 2", "undecided"),
    ("ms        better", "ms         worse", "give MIXED"),
    ("22.6 -> 15.3", "15.3 -> 22.6", "decides the verdict"),
    ("22.6 -> 15.3", "15.5 -> 15.3", "decides the verdict"),
    ("(procfs", "(idle", "names row idle"),
    ("(procfs", "(timers", "has no row"),
    (
        "22 times shorter",
        "22 times longer",
        "does not make it better",
    ),
    ("median 22 times", "maximum 7.5 times", "does not decide"),
    ("median 22 times shorter", "median -300 us", "-300 us"),
    ("compare base new", "compare new base", "but Some"),
];

const SAME_CHANGES: &[(&str, &str, &str)] = &[
    ("28.5 us (+0", "28.9 us (+0", "the same samples"),
    ("28.5 us (+0", "28.9 us (+0", "percentage"),
    ("28.5 us (+0", "38.9 us (+0", "beyond the margin"),
];

const ALLOWED_CHANGES: &[(&str, &str, &str)] = &[
    (
        "; 19 periods were",
        "; 1900 periods were",
        "1900 periods of 12019 skipped",
    ),
    (
        "skipped, not more than the",
        "skipped, which may or may not exceed the",
        "19 periods of 12019 skipped",
    ),
    (
        "skipped, not more than the",
        "skipped, more than the",
        "own count",
    ),
    ("6.404e-3", "6.404e-1", "of the 0.1 allowed"),
    ("5986", "5999", "loads: samples"),
    ("2.29 ms      23", "2.29 ms      93", "loads: misses"),
];

const NARROW_CHANGES: &[(&str, &str, &str)] = &[
    ("201 us       0", "501 us       0", "row CPU 1: 0 misses"),
    ("FAILED: 24", "FAILED: 25", "25 misses against row all"),
];

const NARROW_BETTER_CHANGES: &[(&str, &str, &str)] = &[
    ("-27.7 us", "-29.7 us", "99 % quantile -29.7 us against"),
    (" better: 99", "  worse: 99", "give WORSE"),
    ("101 us -> 73.8", "73.8 us -> 101", "decides the verdict"),
];

const MIXED_CHANGES: &[(&str, &str, &str)] = &[
    (
        "maximum 6.5 times",
        "maximum 7.5 times",
        "7.5 times longer against",
    ),
    ("-33.3 us", "-35.3 us", "-35.3 us against"),
    (
        "better and worse in 1 (whole run",
        "better and worse in 1 (hackbench",
        "names row hackbench",
    ),
    ("564 us (x 6.5)  86.6", "564 us (x 7.5)  86.6", "percentage"),
    (
        "38.7 us (-46 %)*   ~86",
        "38.7 us (-48 %)*   ~86",
        "percentage",
    ),
    (
        "~86.6 -> 565 us (x 6.5)   better",
        " 86.6 -> 565 us (x 6.5)   better",
        "has no mark",
    ),
    (
        "~ not compared",
        "not compared",
        "the mark ~ is not explained",
    ),
];

const OPEN_CHANGES: &[(&str, &str, &str)] = &[
    ("(/ 3.6)", "(/ 4.6)", "percentage"),
    ("+14.4 us", "+15.4 us", "+15.4 us"),
    ("under idle", "under timers", "has no row"),
    ("50 % quantile", "90 % quantile", "is not in the table"),
    (
        " 44.0 -> 58.4 us (+33 %)*",
        "  44.0 -> 58.4 us (+33 %)",
        "does not decide its row",
    ),
];

const OPEN_BETTER_CHANGES: &[(&str, &str, &str)] = &[
    (", so inconclusive as a whole", "", "exit code is 4"),
    (
        "ms (+39 %)  inconclusive\nidle",
        "ms (+39 %)        better\nidle",
        "is open: false",
    ),
];

#[test]
fn texts_without_contradiction() {
    for case in CASES {
        assert_eq!(
            contradictions(case.text, case.exit_code),
            Vec::<String>::new(),
            "{}",
            case.text
        );
        let other_code = 1 - case.exit_code % 4;
        assert!(contradictions(case.text, other_code)[0].contains("exit code"));
    }
    assert_eq!(contradictions("a: b", 0), Vec::<String>::new());
    assert!(contradictions("a: b", 1)[0].contains("exit code"));
}

#[test]
fn each_rule_finds_its_contradiction() {
    let mut unseen = Vec::new();
    for case in CASES {
        for (from, to, words) in case.changes {
            let changed = case.text.replacen(from, to, 1);
            let found = contradictions(&changed, case.exit_code).join("\n");
            if !case.text.contains(from) || !found.contains(words) {
                unseen.push(format!("{from} -> {to}, {words}: {found}"));
            }
        }
    }
    assert!(unseen.is_empty(), "{}", unseen.join("\n\n"));
}
