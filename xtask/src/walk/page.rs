//! The commands of a page, and the outputs that the page shows.

use std::collections::BTreeSet;

/// Lines that start like this depend on the machine, such as verdicts, warnings, and notes about
/// left-out rows. They are not compared.
const VARYING: [&str; 9] = [
    "FAILED",
    "INCONCLUSIVE",
    "passed",
    "!",
    "~",
    "...",
    "worst load",
    "sampling gap",
    "vm:",
];
/// A printed line must contain at least this share of the words of a shown line.
const ALIKE: f64 = 0.6;
/// A line with fewer words is not compared.
const WORDS_MIN: usize = 3;

/// A command, and the output lines that the page shows below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Example {
    /// The command without a trailing comment.
    pub(super) command: String,
    pub(super) shown: Vec<String>,
}

/// Returns the commands in a page's code blocks. Commands with continuation lines are left out.
pub(super) fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut is_shown = false;
    for line in text.lines() {
        let Some(line) = line.strip_prefix("    ") else {
            is_shown = false;
            if line.starts_with("| ") {
                let pieces = line
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .filter(|piece| piece.starts_with("tardy ") && !is_form(piece));
                examples.extend(pieces.flat_map(commands));
            }
            continue;
        };
        let command = line.strip_prefix("$ ").unwrap_or(line);
        if command.starts_with("tardy ") && !command.ends_with('\\') {
            is_shown = line.starts_with("$ ");
            examples.extend(commands(&without_comment(command)));
        } else if is_shown && let Some(example) = examples.last_mut() {
            example.shown.push(line.to_owned());
        }
    }
    examples
}

/// Returns the commands of a line, in order.
fn commands(line: &str) -> Vec<Example> {
    let parts = line.split("; tardy ").enumerate();
    let whole = parts.map(|(index, part)| {
        if index == 0 {
            part.to_owned()
        } else {
            format!("tardy {part}")
        }
    });
    whole
        .map(|command| Example {
            command,
            shown: Vec::new(),
        })
        .collect()
}

/// Commands that cannot run without an argument. If a page names such a command without an
/// argument, the page only mentions it.
const NAMED: [&str; 4] = [
    "tardy attach",
    "tardy explain",
    "tardy plot",
    "tardy respond",
];

/// Scenarios whose phases are counted in cycles.
const COUNTED: [&str; 3] = ["williams2002", "mckenney2009-sweep", "koolwal2009-gtod"];

/// Returns whether a command is only mentioned, or contains placeholders in capitals.
fn is_form(command: &str) -> bool {
    let is_placeholder =
        |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
    NAMED.contains(&command)
        || command.contains("...")
        || command.split([' ', ':', '=']).any(is_placeholder)
}

fn without_comment(line: &str) -> String {
    line.split(" #").next().unwrap_or(line).trim().to_owned()
}

impl Example {
    /// Returns whether the command boots guests, for which a bare Debian has no QEMU.
    pub(super) fn needs_qemu(&self) -> bool {
        self.command.starts_with("tardy lab ")
            || self.command.contains("--on lab")
            || ["why/", " w/"]
                .iter()
                .any(|guests| self.command.contains(guests))
            || self.command == "tardy breakdown timers"
    }

    /// Returns the command as it is run. If the page shows no output, durations are shortened, and
    /// CPUs are replaced by existing ones.
    pub(super) fn as_run(&self) -> String {
        let mut words: Vec<String> = self.command.split(' ').map(str::to_owned).collect();
        if !self.shown.is_empty() {
            return self.command.clone();
        }
        for index in 1..words.len() {
            match words[index - 1].as_str() {
                "--for" => words[index] = "2s".to_owned(),
                "-D" => words[index] = "2".to_owned(),
                "--cpus" if words[index].starts_with(|c: char| c.is_ascii_digit()) => {
                    words[index] = "0".to_owned()
                }
                _ => {}
            }
        }
        let has = |word: &str| self.command.split(' ').any(|found| found == word);
        if COUNTED
            .iter()
            .any(|scenario| self.command.contains(&format!("--scenario {scenario}")))
            && !has("--cycles")
        {
            words.extend(["--cycles", "20"].map(str::to_owned));
        } else if words
            .get(1)
            .is_some_and(|verb| verb == "run" || verb == "attach")
            && !["--for", "--cycles", "--dry-run", "--until-stopped"]
                .iter()
                .any(|word| has(word))
        {
            words.splice(2..2, ["--for".to_owned(), "2s".to_owned()]);
        }
        if words.get(1).is_some_and(|verb| verb == "cost")
            && !["--metric", "--rounds", "build"]
                .iter()
                .any(|word| has(word))
        {
            words.splice(
                2..2,
                ["--rounds", "1", "--trials", "2", "--trial-length", "20us"].map(str::to_owned),
            );
        }
        if words.get(1).is_some_and(|verb| verb == "reproduce")
            && !has("--quick")
            && !has("--dry-run")
        {
            words.push("--dry-run".to_owned());
        }
        // A bare Debian has no jq.
        words
            .join(" ")
            .split(" | jq")
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Checks that each shown line resembles a printed line: the printed line must contain at least
    /// the share [`ALIKE`] of the shown line's words. Numbers may differ.
    pub(super) fn compare(&self, printed: &str) -> Result<(), String> {
        let printed: Vec<BTreeSet<String>> = printed.lines().map(words).collect();
        for line in &self.shown {
            let shown = words(line);
            if VARYING
                .iter()
                .any(|start| line.trim_start().starts_with(start))
                || shown.len() < WORDS_MIN
            {
                continue;
            }
            let alike = |other: &BTreeSet<String>| {
                shown.intersection(other).count() as f64 / shown.len() as f64
            };
            let best = printed.iter().map(alike).fold(0.0, f64::max);
            if best < ALIKE {
                return Err(format!("the output has no line like this: {}", line.trim()));
            }
        }
        Ok(())
    }
}

/// Returns those words of a line that have at least three letters, in lower case. So numbers and
/// short units are left out.
fn words(line: &str) -> BTreeSet<String> {
    let words = line.split(|c: char| !c.is_alphabetic());
    words
        .filter(|word| word.chars().count() > 2)
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Text, not `tardy show x`.\n\n    tardy run --for 1h --cpus 1-3 --out a   \
                        # long\n    tardy list probes; tardy list loads\n\nAnd\n\n    $ tardy run \
                        --for 10s --out b\n    b: cyclic every 1ms on CPUs 0-1\n    latency      \
                        samples  skipped   median\n    FAILED: 3 of 4\n";

    #[test]
    fn commands_are_found_with_what_is_shown_below_them() {
        let examples = examples(PAGE);
        let commands: Vec<&str> = examples
            .iter()
            .map(|example| example.command.as_str())
            .collect();
        assert_eq!(
            commands,
            [
                "tardy run --for 1h --cpus 1-3 --out a",
                "tardy list probes",
                "tardy list loads",
                "tardy run --for 10s --out b"
            ]
        );
        assert_eq!(examples[0].as_run(), "tardy run --for 2s --cpus 0 --out a");
        assert_eq!(
            (examples[3].shown.len(), examples[3].as_run().as_str()),
            (3, "tardy run --for 10s --out b")
        );
    }

    #[test]
    fn shown_lines_may_differ_in_figures_and_verdicts_only() {
        let example = &examples(PAGE)[3];
        let printed =
            "b: cyclic every 2ms on CPUs 0-3\nno miss\nlatency   samples  skipped   median   max\n";
        assert_eq!(example.compare(printed), Ok(()));
        let old = example
            .compare(&printed.replace("skipped   median", "missed avg"))
            .unwrap_err();
        assert!(old.contains("latency      samples"), "{old}");
    }

    #[test]
    fn tables_have_commands_too_but_forms_are_none() {
        let found = examples(
            "| aim | do |\n|---|---|\n| know | `tardy run` or `tardy list probes` |\n| `show` | \
             `tardy show RUN --json` |\n",
        );
        assert_eq!(
            found
                .iter()
                .map(|example| example.command.as_str())
                .collect::<Vec<_>>(),
            ["tardy run", "tardy list probes"]
        );
    }

    #[test]
    fn runs_without_a_length_get_one() {
        let run = |command: &str| {
            Example {
                command: command.to_owned(),
                shown: Vec::new(),
            }
            .as_run()
        };
        assert_eq!(
            run("tardy run --probe futex"),
            "tardy run --for 2s --probe futex"
        );
        assert_eq!(run("tardy run --dry-run"), "tardy run --dry-run");
        assert_eq!(
            run("tardy show a --json | jq '.verdict'"),
            "tardy show a --json"
        );
    }
}
