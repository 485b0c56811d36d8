//! Runs over time as text, Markdown and JUnit.

use tardy_results::compare::over_time::{OverTime, Track};

use super::cells::{percent, probability, time};
use super::changes::Changes;
use super::markdown;
use crate::report::date::date_and_time;
use crate::report::table::Table;

/// Returns the runs as text.
#[must_use]
pub fn text(found: &OverTime) -> String {
    let mut out = changes(found).text();
    for tracks in by_quantity(found) {
        let mut table = Table::new(head(&tracks));
        rows(found, &tracks)
            .into_iter()
            .for_each(|row| table.row(row));
        out.push_str(&table.text());
    }
    out
}

/// Returns the runs as Markdown.
#[must_use]
pub fn markdown(found: &OverTime) -> String {
    let mut out = changes(found).markdown();
    for tracks in by_quantity(found) {
        out.push('\n');
        out.push_str(&markdown::table(&head(&tracks), &rows(found, &tracks)));
    }
    out
}

/// Returns JUnit XML with one test case. The case fails if the latest change is for the worse.
#[must_use]
pub fn junit(found: &OverTime) -> String {
    changes(found).junit("over time")
}

fn changes(found: &OverTime) -> Changes<'_> {
    Changes {
        runs: found.runs.len(),
        verdict: found.verdict,
        reason: &found.reason,
        margin: found.settings.margin,
        steps: steps(found),
        changes: &found.changes,
    }
}

fn name(track: &Track) -> String {
    format!("{} {}", track.key, percent(track.quantile))
}

fn steps(found: &OverTime) -> Vec<String> {
    let words = |track: &Track| -> Vec<String> {
        let words = |step: &tardy_results::compare::changes::Step| {
            let (before, after) = (time(step.before_ns), time(step.after_ns));
            format!(
                "{}: {before} -> {after} since run {} (p {})",
                name(track),
                step.run + 1,
                probability(step.probability)
            )
        };
        track.steps.iter().map(words).collect()
    };
    found.tracks.iter().flat_map(words).collect()
}

/// Groups the tracks by quantity and unit, one table each, so that interval errors and latencies
/// are never in the same table.
fn by_quantity(found: &OverTime) -> Vec<Vec<&Track>> {
    let mut tables: Vec<Vec<&Track>> = Vec::new();
    for track in &found.tracks {
        match tables.iter_mut().find(|tracks| {
            tracks[0].key.quantity == track.key.quantity && tracks[0].key.unit == track.key.unit
        }) {
            Some(tracks) => tracks.push(track),
            None => tables.push(vec![track]),
        }
    }
    tables
}

/// Returns whether the table of `track` also shows the maxima. The maxima are shown once per probe,
/// with the probe's highest quantile.
fn has_maxima(track: &Track, tracks: &[&Track]) -> bool {
    track.quantile > 0.5 || tracks.iter().filter(|other| other.key == track.key).count() == 1
}

fn head(tracks: &[&Track]) -> Vec<String> {
    let fixed = ["run", "started (UTC)", "folder", "machine"].map(str::to_owned);
    let mut head = fixed.to_vec();
    for track in tracks {
        head.push(name(track));
        if has_maxima(track, tracks) {
            head.push(format!("largest of {}", track.maxima_of));
        }
    }
    head
}

/// Returns a row per run. A value at which a change starts is marked.
fn rows(found: &OverTime, tracks: &[&Track]) -> Vec<Vec<String>> {
    let row = |(index, run): (usize, &tardy_results::compare::model::RunFacts)| {
        let mut cells = vec![
            (index + 1).to_string(),
            date_and_time(run.started_realtime_ns),
            run.folder.clone(),
            run.machine.clone(),
        ];
        for track in tracks {
            let mark = if track.steps.iter().any(|step| step.run == index) {
                "* "
            } else {
                ""
            };
            cells.push(format!(
                "{mark}{}",
                track
                    .values_ns
                    .get(index)
                    .map_or_else(String::new, |&value| time(value))
            ));
            if has_maxima(track, tracks) {
                cells.push(
                    track
                        .maxima_ns
                        .get(index)
                        .map_or_else(String::new, |&value| time(value)),
                );
            }
        }
        cells
    };
    found.runs.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tardy_core::series::ClockKind;
    use tardy_core::units::Nanos;
    use tardy_results::compare::group::Key;
    use tardy_results::compare::margin::Margin;
    use tardy_results::compare::model::{Outcome, RunFacts, Settings};
    use tardy_run::record::RunKind;
    use tardy_statistics::confidence::Confidence;

    fn track(probe: &str, quantity: &str, value: f64) -> Track {
        let key = Key {
            probe: probe.into(),
            quantity: quantity.into(),
            unit: "ns".into(),
            load: None,
        };
        Track {
            key,
            quantile: 0.5,
            values_ns: vec![value],
            maxima_ns: vec![value * 2.0],
            maxima_of: 7,
            steps: Vec::new(),
        }
    }

    #[test]
    fn interval_errors_and_latencies_never_stand_in_one_table() {
        let settings = Settings {
            margin: Margin::default(),
            confidence: Confidence::NINETY_FIVE,
            resamples: 100,
            seed: 1,
            window: None,
            quantiles: vec![0.5],
            are_quantiles_given: true,
            between_runs: None,
            block: None,
            phase: None,
            is_across_clocks: false,
        };
        let run = RunFacts {
            folder: "a".into(),
            kind: RunKind::Latency,
            clock: ClockKind::Hardware,
            started_realtime_ns: Nanos::ZERO,
            measured_ns: Nanos::from_secs(1),
            machine: "m".into(),
            warnings: Vec::new(),
        };
        let tracks = vec![
            track("cyclic", "latency", 12_000.0),
            track("rtc", "interval error", 340_000.0),
            track("nanosleep", "latency", 56_000.0),
        ];
        let found = OverTime {
            verdict: Outcome::Inconclusive,
            reason: "r".into(),
            settings,
            runs: vec![run],
            tracks,
            changes: Vec::new(),
        };
        for text in [text(&found), markdown(&found)] {
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| line.contains("340 us") || line.contains("12.0 us"))
                .collect();
            assert_eq!(lines.len(), 2, "{text}");
            assert!(
                lines[0].contains("12.0 us")
                    && lines[0].contains("56.0 us")
                    && !lines[0].contains("340 us"),
                "{text}"
            );
        }
    }
}
