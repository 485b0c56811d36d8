//! The output of `tardy tune`.

use std::path::Path;

use serde_json::json;
use tardy_core::cpu::CpuList;
use tardy_core::units::three_digits;
use tardy_results::document::Format;
use tardy_tune::boot::{BootWord, LOADERS};
use tardy_tune::question::{BEST, Question};
use tardy_tune::search::{Outcome, SearchResult, SettingResult};
use tardy_tune::setting::{Setting, Standing};

use super::table::Table;

/// Maximum number of files that are named for one setting. If there are more, their number follows
/// in the text.
const FILES_SHOWN: usize = 1;

pub fn plan(
    machine: &str,
    profile: &str,
    cpus: &CpuList,
    rows: &[(&Setting, Standing)],
    words: &[BootWord],
    is_debugfs_missing: bool,
    columns: usize,
) -> String {
    let mut out = format!(
        "{machine}\nsettings for tasks on {}, profile {profile}\n\n",
        cpus.named()
    );
    let mut table = Table::new(["setting", "now", "wanted", "file"]).words([1, 2, 3]);
    let mut is_any = false;
    for (setting, standing) in rows {
        match standing {
            Standing::Changeable(changes) if changes.is_empty() => {
                table.row([
                    setting.name.as_str(),
                    "off",
                    "on",
                    &format!("(runs {})", setting.while_on.join(" ")),
                ]);
                is_any = true;
            }
            Standing::Changeable(changes) => {
                let more = changes.len() - FILES_SHOWN.min(changes.len());
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                let now = changes[0]
                    .now
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                table.row([
                    setting.name.as_str(),
                    &now,
                    &changes[0].wanted,
                    &format!("{}{more}", changes[0].path.display()),
                ]);
                is_any = true;
            }
            Standing::TakesRestart(words) => {
                table.row([
                    setting.name.as_str(),
                    "off",
                    &words.join(" "),
                    "(the kernel's command line; needs a restart)",
                ]);
                is_any = true;
            }
            Standing::AsWanted | Standing::Absent(_) => {}
        }
    }
    out.push_str(&if is_any {
        of_settings(&table, columns)
    } else {
        "nothing to change without a restart\n".to_owned()
    });
    let named = |wanted: fn(&Standing) -> bool| {
        let names: Vec<&str> = rows
            .iter()
            .filter(|(_, standing)| wanted(standing))
            .map(|(setting, _)| setting.name.as_str())
            .collect();
        names.join(", ")
    };
    for (title, names) in [
        (
            "as wanted",
            named(|standing| matches!(standing, Standing::AsWanted)),
        ),
        (
            "cannot be read",
            named(|standing| matches!(standing, Standing::Absent(_))),
        ),
    ] {
        if !names.is_empty() {
            out.push_str(&format!("\n{title}: {names}\n"));
        }
    }
    if !words.is_empty() {
        out.push_str("\nfor the kernel's command line (needs a restart):\n");
        let mut table = Table::new(["parameter", "purpose"]).words([1]);
        words
            .iter()
            .for_each(|word| table.row([word.word.as_str(), word.why.as_str()]));
        out.push_str(&table.text());
        for (loader, how) in LOADERS {
            out.push_str(&format!("{loader}: {how}\n"));
        }
    }
    if is_debugfs_missing {
        out.push_str(
            "\nnot checked, because /sys/kernel/debug is not mounted (mount -t debugfs debugfs \
             /sys/kernel/debug): preemption-mode, fair-server, ext-server, \
             time-slice-extension\n",
        );
    }
    out.push_str(
        "\nto measure the effect of each setting: tardy tune --search; to apply the settings while \
         a program runs: tardy tune --apply -- PROGRAM\n",
    );
    out
}

/// Returns a line per setting, or two lines if the screen is too narrow.
fn of_settings(table: &Table, columns: usize) -> String {
    if table.line_width() <= columns {
        return table.text();
    }
    let (_, rows) = table.parts();
    rows.iter()
        .map(|row| format!("{}: {} -> {}\n    {}\n", row[0], row[1], row[2], row[3]))
        .collect()
}

pub fn plan_json(
    machine: &str,
    profile: &str,
    cpus: &CpuList,
    rows: &[(&Setting, Standing)],
    words: &[BootWord],
) -> String {
    let settings: Vec<_> = rows
        .iter()
        .map(|(setting, standing)| row(setting, standing))
        .collect();
    let value = json!({ "machine": machine, "profile": profile, "cpus": cpus, "settings": settings, "boot": words });
    Format::TUNE_PLAN.document(&value)
}

/// Returns the settings of a file as a table, each with its current state.
pub fn against(rows: &[(&Setting, Standing)]) -> String {
    let mut table = Table::new(["setting", "state", "now", "wanted", "file"]);
    for (setting, standing) in rows {
        match standing {
            Standing::AsWanted => table.row([setting.name.as_str(), "as wanted", "", "", ""]),
            Standing::Absent(why) => table.row([setting.name.as_str(), "NOT READ", "", "", why]),
            Standing::TakesRestart(words) => table.row([
                setting.name.as_str(),
                "DIFFERS",
                "",
                &words.join(" "),
                "/proc/cmdline",
            ]),
            Standing::Changeable(changes) => {
                for change in changes {
                    table.row([
                        setting.name.as_str(),
                        "DIFFERS",
                        &change.now,
                        &change.wanted,
                        &change.path.display().to_string(),
                    ]);
                }
            }
        }
    }
    table.text()
}

fn row(setting: &Setting, standing: &Standing) -> serde_json::Value {
    let (state, changes, missing) = match standing {
        Standing::AsWanted => ("as-wanted", None, None),
        Standing::Changeable(changes) => ("changeable", Some(changes), None),
        Standing::TakesRestart(_) => ("takes-restart", None, None),
        Standing::Absent(why) => ("absent", None, Some(why)),
    };
    json!({
        "name": setting.name, "why": setting.why, "state": state, "changes": changes, "missing": missing, "while_on": setting.while_on,
        "words": setting.words,
    })
}

pub fn found(question: &Question, found: &SearchResult, out: &Path) -> String {
    let goal = goal(question);
    let mut text = format!(
        "{}\n{goal} of cyclic {} on {}, with the settings as found: {}\n\n",
        question.machine,
        if question.loads == ["none"] {
            "without load".to_owned()
        } else {
            format!("under {}", question.loads.join(" and "))
        },
        question.cpus.named(),
        three_digits(found.base_ns.round())
    );
    let mut order: Vec<usize> = (0..found.settings.len()).collect();
    order.sort_by(|&a, &b| rank(&found.settings[a]).total_cmp(&rank(&found.settings[b])));
    let mut table = Table::new(["setting", "pairs", "effect"]).words([2]);
    for place in order {
        let result = &found.settings[place];
        let pairs = if result.pairs == 0 {
            "-".to_owned()
        } else {
            result.pairs.to_string()
        };
        table.row([
            question.settings.settings[place].name.clone(),
            pairs,
            words(result, found.base_ns),
        ]);
    }
    if let Some(together) = found.together {
        let result = SettingResult {
            outcome: Outcome::of(&together),
            difference: together,
            pairs: 0,
        };
        table.row([
            "all that lower the metric".to_owned(),
            "10".to_owned(),
            words(&result, found.base_ns),
        ]);
    }
    text.push_str(&table.text());
    text.push_str(&format!(
        "\n{} runs of {}. All statements on settings hold jointly at 95 % confidence. Nine in ten \
         such searches would find a change of {} %.\n",
        found.runs,
        question.length,
        (found.smallest_share * 100.0).ceil()
    ));
    let best = out.join(BEST);
    if found.useful().is_empty() {
        text.push_str(
            "No setting lowers the metric on this machine: a larger --budget finds smaller \
             effects.\n",
        );
    } else {
        text.push_str(&format!(
            "To apply the settings that lower the metric: tardy tune --apply --settings {} -- \
             PROGRAM\n",
            best.display()
        ));
    }
    text
}

/// Returns the rank of a result: helpful settings come first, then harmful ones, then the others.
fn rank(result: &SettingResult) -> f64 {
    match result.outcome {
        Outcome::Lowers => -1e6 + result.difference.value,
        Outcome::Raises => -result.difference.value,
        Outcome::NothingSeen => 1e6,
    }
}

fn goal(question: &Question) -> String {
    if question.goal == "max" {
        "max".to_owned()
    } else {
        format!("{} % quantile", question.goal)
    }
}

/// Formats a difference of logarithms as a time. `base_ns` is the metric's value with all settings
/// unchanged.
fn words(result: &SettingResult, base_ns: f64) -> String {
    let interval = result.difference.interval;
    let by = |logarithm: f64| three_digits((base_ns * logarithm.exp_m1().abs()).round());
    let percent = |logarithm: f64| (logarithm.exp_m1().abs() * 100.0).round();
    match result.outcome {
        _ if !interval.is_finite() => "too few runs to decide".to_owned(),
        Outcome::Lowers => {
            format!(
                "lowers the metric by {} to {} ({} to {} %)",
                by(interval.upper),
                by(interval.lower),
                percent(interval.upper),
                percent(interval.lower)
            )
        }
        Outcome::Raises => {
            format!(
                "raises the metric by {} to {} ({} to {} %)",
                by(interval.lower),
                by(interval.upper),
                percent(interval.lower),
                percent(interval.upper)
            )
        }
        Outcome::NothingSeen => {
            format!(
                "effect too small to see: lowers the metric by at most {}, or raises it by at \
                 most {}",
                by(interval.lower.min(0.0)),
                by(interval.upper.max(0.0))
            )
        }
    }
}

pub fn found_json(question: &Question, found: &SearchResult) -> String {
    let factor = |logarithm: f64| logarithm.exp();
    let settings: Vec<_> = question
        .settings
        .settings
        .iter()
        .zip(&found.settings)
        .map(|(setting, result)| {
            let interval = result.difference.interval;
            let bounds = interval
                .is_finite()
                .then(|| [factor(interval.lower), factor(interval.upper)]);
            json!({
                "name": setting.name, "outcome": result.outcome, "pairs": result.pairs,
                "factor": factor(result.difference.value), "factor_interval": bounds,
            })
        })
        .collect();
    let together = found.together.map(|together| {
        json!({ "factor": factor(together.value), "factor_interval": [factor(together.interval.lower), factor(together.interval.upper)] })
    });
    let value = json!({
        "machine": question.machine, "goal": question.goal, "cpus": question.cpus, "loads": question.loads, "length_ns": question.length,
        "as_found_ns": found.base_ns, "confidence": 0.95, "runs": found.runs, "smallest_share_found": found.smallest_share,
        "settings": settings, "together": together,
    });
    Format::TUNE_SEARCH.document(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_statistics::confidence::Interval;
    use tardy_tune::pairs::Difference;

    fn result(outcome: Outcome, lower: f64, upper: f64) -> SettingResult {
        SettingResult {
            outcome,
            difference: Difference {
                value: f64::midpoint(lower, upper),
                interval: Interval { lower, upper },
            },
            pairs: 12,
        }
    }

    #[test]
    fn effects_are_told_as_times_and_shares() {
        assert_eq!(
            words(
                &result(Outcome::Lowers, 0.5_f64.ln(), 0.8_f64.ln()),
                100_000.0
            ),
            "lowers the metric by 20.0 us to 50.0 us (20 to 50 %)"
        );
        assert_eq!(
            words(
                &result(Outcome::Raises, 1.1_f64.ln(), 1.3_f64.ln()),
                100_000.0
            ),
            "raises the metric by 10.0 us to 30.0 us (10 to 30 %)"
        );
        assert_eq!(
            words(
                &result(Outcome::NothingSeen, 0.97_f64.ln(), 1.02_f64.ln()),
                100_000.0
            ),
            "effect too small to see: lowers the metric by at most 3.00 us, or raises it by at \
             most 2.00 us"
        );
        assert_eq!(
            words(
                &result(Outcome::NothingSeen, f64::NEG_INFINITY, f64::INFINITY),
                1.0
            ),
            "too few runs to decide"
        );
    }
}
