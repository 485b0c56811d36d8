//! The run folders that the tested commands read, and checks of run folders after a command.

use std::path::Path;

use serde_json::Value;
use tardy_sys::affinity;
use xtask::failure::{Failure, Result, While};
use xtask::workspace;

use crate::fault::Ground;
use crate::place::Place;

/// The state of a run folder, as `tardy show` reports it.
#[derive(Debug)]
pub(crate) enum Folder {
    /// The folder does not exist.
    Absent,
    /// The folder has no run.json, and `show` reports that it is not a run.
    NotBegun,
    /// `show` opens the folder.
    Opens {
        /// State of the run, such as finished or interrupted; running if the run was cut off.
        state: String,
        /// The output of `tardy show --json`.
        summary: Value,
    },
    /// The folder has a run.json, but `show` fails with this message.
    Refused(String),
}

/// Returns the violations after a command has ended: `disgrace`, the command's leftovers, and
/// faults of its run folder `name`. Also returns the folder's state.
pub(crate) fn after(
    place: &Place,
    disgrace: Option<String>,
    name: &str,
) -> Result<(Vec<String>, Folder)> {
    let mut wrong: Vec<String> = disgrace.into_iter().collect();
    wrong.extend(place.leftovers()?);
    let folder = look(place, name)?;
    wrong.extend(folder.wrong());
    Ok((wrong, folder))
}

/// Inspects the folder `name` in `place`.
pub(crate) fn look(place: &Place, name: &str) -> Result<Folder> {
    look_at(place, &place.path(name))
}

/// Inspects the folder at any path. The tool that inspects the folder runs in `place`.
pub(crate) fn look_at(place: &Place, folder: &Path) -> Result<Folder> {
    if !folder.exists() {
        return Ok(Folder::Absent);
    }
    let shown = place.tardy(&format!("show --json {}", folder.display()))?;
    if let Some(disgrace) = shown.disgrace() {
        return Ok(Folder::Refused(disgrace));
    }
    if !folder.join("run.json").exists() {
        let is_said = shown.code == Some(2);
        return Ok(if is_said {
            Folder::NotBegun
        } else {
            Folder::Refused(format!(
                "without run.json `show` ends with {}",
                shown.ending()
            ))
        });
    }
    let summary: Value = match serde_json::from_str(&shown.printed) {
        Ok(summary) => summary,
        Err(_) => {
            return Ok(Folder::Refused(format!(
                "show ends with {}: {}",
                shown.ending(),
                shown.said.trim()
            )));
        }
    };
    let state = summary["state"].as_str().unwrap_or("finished").to_owned();
    Ok(Folder::Opens { state, summary })
}

impl Folder {
    /// Returns the violations, one sentence each.
    pub(crate) fn wrong(&self) -> Vec<String> {
        if let Self::Refused(why) = self {
            return vec![format!("the folder does not open: {why}")];
        }
        let adds_up = |counts: &&Value| {
            let count = |name: &str| counts[name].as_u64().unwrap_or(0);
            count("expected") == count("recorded") + count("skipped") + count("lost")
        };
        let counts = self.series().iter().map(|series| &series["counts"]);
        counts
            .filter(|counts| !adds_up(counts))
            .map(|counts| format!("counts do not add up: {counts}"))
            .collect()
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Opens { .. })
    }

    /// Returns the series in the summary; no series if the folder does not open.
    pub(crate) fn series(&self) -> &[Value] {
        match self {
            Self::Opens { summary, .. } => {
                summary["series"].as_array().map_or(&[][..], Vec::as_slice)
            }
            _ => &[],
        }
    }

    /// Returns the number of recorded samples.
    pub(crate) fn recorded(&self) -> u64 {
        let counts = self.series().iter().map(|series| &series["counts"]);
        counts
            .filter_map(|counts| counts["recorded"].as_u64())
            .sum()
    }

    /// Returns the run's warnings of this kind.
    pub(crate) fn warnings_of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let warnings = match self {
            Self::Opens { summary, .. } => summary["warnings"].as_array(),
            _ => None,
        };
        let warnings = warnings.into_iter().flatten();
        warnings.filter(move |warning| warning["warning"] == kind)
    }

    /// Returns how many times the run reports that it was resumed after a reboot and with a gap in
    /// its data.
    pub(crate) fn reboots(&self) -> usize {
        self.warnings_of("resumed")
            .filter(|warning| warning["is_reboot"] == true && warning["away"].as_i64() > Some(0))
            .count()
    }

    /// Returns all warnings of the run in one text; an empty text if the folder does not open.
    pub(crate) fn warnings(&self) -> String {
        match self {
            Self::Opens { summary, .. } => summary["warnings"].to_string(),
            _ => String::new(),
        }
    }
}

/// Returns the last CPU that this process may use, because the first CPU serves most interrupts.
pub(crate) fn last_cpu() -> u32 {
    affinity::get(0)
        .ok()
        .and_then(|cpus| cpus.into_iter().max())
        .unwrap_or(0)
}

/// Makes the inputs of the tested commands once: the runs `base/run`, `base/other` and
/// `base/explained`, and `base/verbose`, a text like that of cyclictest -v.
pub(crate) fn base(ground: &Ground) -> Result<()> {
    let base = ground.folder.join("base");
    if base.exists() {
        return Ok(());
    }
    std::fs::create_dir(&base).while_doing(|| format!("making {}", base.display()))?;
    let place = ground.place()?;
    for (name, cycles) in [
        ("run", "3000"),
        ("other", "3000"),
        ("explained", "200 --explain"),
    ] {
        let line = format!(
            "run --period 500us --load none --quiet --out {} --cycles {cycles}",
            base.join(name).display()
        );
        let outcome = place.tardy(&line)?;
        if !matches!(outcome.code, Some(0 | 4)) {
            return Err(Failure::new(format!(
                "a first run does not work ({}): {}",
                outcome.ending(),
                outcome.said.trim()
            )));
        }
    }
    let lines = (0..20_000)
        .map(|cycle| format!("       0:{cycle:8}:{:8}\n", 5 + cycle % 37))
        .collect::<String>();
    workspace::write(&base.join("verbose"), lines)
}
