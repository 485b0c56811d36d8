//! Players under load at SCHED_OTHER and at SCHED_FIFO, as found, beside what abeni2002 (section 5)
//! published of mplayer.

use std::process::Command;

use serde_json::Value;

use super::figure::{Bench, Figure, FigureResult, row};
use crate::failure::{Failure, Result, While};
use crate::program;

pub(crate) const FIGURE: Figure = Figure {
    name: "media",
    promise: "The audio/video skew of players is measured under the load io, without a limit",
    measure,
};

const PLAYERS: [(&str, &str, &str); 2] = [
    ("simulated", "media", "media.frame"),
    ("mpv", "media.player", "media.player-frame"),
];

fn measure(bench: &Bench) -> Result<FigureResult> {
    let length = if bench.is_quick { "3s" } else { "60s" };
    let head = row([
        "player",
        "policy",
        "frames",
        "dropped",
        "skew: least, ms",
        "median, ms",
        "99.9 %, ms",
        "largest, ms",
        "frame longer than its period by at most, ms",
    ]);
    let mut measured = FigureResult {
        tables: vec![vec![head]],
        ..FigureResult::default()
    };
    let mut reached = Vec::new();
    for (player, skew, frame) in PLAYERS {
        for policy in ["other", "fifo"] {
            let place =
                tempfile::tempdir().while_doing(|| "making a temporary folder".to_owned())?;
            let mut command = Command::new(&bench.tardy);
            let probe = format!("media:player={player}:policy={policy}");
            command.args([
                "run", "--load", "io", "--for", length, "--probe", &probe, "--quiet", "--json",
                "--out", "run",
            ]);
            command.current_dir(place.path());
            measured.commands.push(program::line(&command));
            // 4 where a report of a frame was lost: its numbers are as good.
            let output = program::output(&mut command)?;
            let summary: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
            let cells = cells(&summary, skew, frame).ok_or_else(|| {
                Failure::new(format!(
                    "`{}` gave no numbers: {}",
                    program::line(&command),
                    String::from_utf8_lossy(&output.stderr).trim()
                ))
            })?;
            reached.push(format!(
                "{player} at SCHED_{}: skew up to {} ms",
                policy.to_uppercase(),
                cells[5]
            ));
            measured.tables[0].push(
                [
                    player.to_owned(),
                    format!("SCHED_{}", policy.to_uppercase()),
                ]
                .into_iter()
                .chain(cells)
                .collect(),
            );
        }
    }
    let published = |kernel: &str, skew: &str, frame: &str| {
        let dash = || "-".to_owned();
        vec![
            "mplayer (abeni2002, section 5)".to_owned(),
            kernel.to_owned(),
            dash(),
            dash(),
            dash(),
            dash(),
            dash(),
            skew.to_owned(),
            frame.to_owned(),
        ]
    };
    measured.tables[0].push(published(
        "highest real-time priority, standard Linux 2.4",
        "beyond 80",
        "frames at 30 and 40 ms, some beyond 100 ms",
    ));
    measured.tables[0].push(published(
        "the same, lock-breaking and high-resolution timers",
        "below 0.4",
        "frames about 33.3 ms",
    ));
    measured.reached = reached.join("; ");
    measured.notes = vec![
        "30 frames a second under the load io. The audio clock of the simulated player is modelled. mpv plays to null outputs; its skew is the one that it reports when it passes a frame to its output."
            .to_owned(),
        "The paper measured a player on a CPU of 1.8 GHz with a tick of 10 ms; its table has no \
         rows of SCHED_OTHER."
            .to_owned(),
    ];
    Ok(measured)
}

/// Frames, dropped, and the numbers of both series in ms.
fn cells(summary: &Value, skew: &str, frame: &str) -> Option<Vec<String>> {
    let series = |name: &str| {
        summary["series"]
            .as_array()?
            .iter()
            .find(|series| series["probe"] == name)
    };
    let (skew, frame) = (series(skew)?, series(frame)?);
    let ms = |value: &Value| value.as_f64().map(|ns| format!("{:.3}", ns / 1e6));
    let percentile = |wanted: f64| {
        let found = skew["numbers"]["percentiles"]
            .as_array()?
            .iter()
            .find(|one| one["probability"].as_f64() == Some(wanted))?;
        ms(&found["value_ns"])
    };
    Some(vec![
        skew["counts"]["recorded"].as_u64()?.to_string(),
        skew["counts"]["skipped"].as_u64()?.to_string(),
        ms(&skew["numbers"]["min_ns"])?,
        percentile(0.5)?,
        percentile(0.999)?,
        ms(&skew["numbers"]["max_ns"])?,
        ms(&frame["numbers"]["max_ns"])?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_both_series_are_in_ms() {
        let percentiles = serde_json::json!([{"probability": 0.5, "value_ns": 20_000}, {"probability": 0.999, "value_ns": 300_000}]);
        let numbers =
            serde_json::json!({"min_ns": -5_000, "max_ns": 4_000_000, "percentiles": percentiles});
        let series = |name: &str| serde_json::json!({"probe": name, "counts": {"recorded": 90, "skipped": 2}, "numbers": numbers});
        let summary = serde_json::json!({"series": [series("media"), series("media.frame")]});
        let expected = ["90", "2", "-0.005", "0.020", "0.300", "4.000", "4.000"];
        assert_eq!(cells(&summary, "media", "media.frame").unwrap(), expected);
        assert_eq!(cells(&summary, "media.player", "media.frame"), None);
    }
}
