//! Names of several runs in one chart. A name consists of the parts of the paths that differ
//! between the runs, and of the labels or kernels that differ.

use std::collections::BTreeMap;
use std::path::Path;

use super::data::RunData;

/// Gives each run a unique name. Each run is named after its folder or, if two folders have the
/// same name, after the parts of their paths that differ. Replicas of different variants have
/// folders with the same names in the lab, so these runs are named after their variants. If labels
/// differ between the runs, the names also contain these labels. Otherwise, they contain the
/// release and the preemption model of the kernel, if these differ.
pub fn tell_apart(runs: &mut [RunData]) {
    let folders: Vec<String> = runs.iter().map(|run| run.folder.clone()).collect();
    let own: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let facts: Vec<Facts> = runs.iter().map(Facts::of).collect();
    let names = told(apart(&folders, &own), &facts);
    for (run, name) in runs.iter_mut().zip(names) {
        run.name = name;
    }
}

/// Facts about a run that its name may contain.
#[derive(Debug, Default)]
struct Facts {
    labels: BTreeMap<String, String>,
    release: Option<String>,
    preemption: Option<String>,
}

impl Facts {
    fn of(run: &RunData) -> Self {
        let kernel = &run.record.machine.kernel;
        Self {
            labels: run.record.plan.labels.clone(),
            release: kernel.release.clone(),
            preemption: kernel.preemption.as_ref().map(ToString::to_string),
        }
    }

    fn kernel(&self) -> Vec<String> {
        [&self.release, &self.preemption]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

/// Maximum number of labels in a name. More labels would make the name too long.
const LABELS_MAX: usize = 2;
/// Prefixes of the names of the lab's guest folders. A number follows, so such a name does not show
/// which kernel the guest ran. "pad-" is the prefix in older folders.
const REPLICAS: [&str; 2] = ["replica-", "pad-"];

/// Adds distinguishing facts to each name: labels, or otherwise the release and the preemption
/// model of the kernel. A fact that all names already contain is not added.
fn told(names: Vec<String>, facts: &[Facts]) -> Vec<String> {
    let mut more: Vec<Vec<String>> = vec![Vec::new(); names.len()];
    let mut add = |values: Vec<Option<String>>, label: &str| {
        let is_said = |(name, value): (&String, &Option<String>)| {
            value
                .as_ref()
                .is_none_or(|value| name.contains(value.as_str()))
        };
        if values.iter().all(|value| *value == values[0]) || names.iter().zip(&values).all(is_said)
        {
            return false;
        }
        let written = |value: String| {
            if label.is_empty() {
                value
            } else {
                format!("{label}={value}")
            }
        };
        more.iter_mut()
            .zip(values)
            .for_each(|(more, value)| more.extend(value.map(written)));
        true
    };
    let mut labels: Vec<&String> = facts.iter().flat_map(|facts| facts.labels.keys()).collect();
    labels.sort_unstable();
    labels.dedup();
    let mut added = 0;
    for label in labels {
        if added < LABELS_MAX
            && add(
                facts
                    .iter()
                    .map(|facts| facts.labels.get(label).cloned())
                    .collect(),
                label,
            )
        {
            added += 1;
        }
    }
    if added == 0 {
        add(
            facts.iter().map(|facts| facts.release.clone()).collect(),
            "",
        );
        add(
            facts.iter().map(|facts| facts.preemption.clone()).collect(),
            "",
        );
    }
    let whole = |((name, mut more), facts): ((String, Vec<String>), &Facts)| {
        if more.is_empty() && REPLICAS.iter().any(|replica| name.starts_with(replica)) {
            more = facts.kernel();
        }
        if more.is_empty() {
            name
        } else {
            format!("{name} ({})", more.join(", "))
        }
    };
    names.into_iter().zip(more).zip(facts).map(whole).collect()
}

/// Returns unique names for `folders`; `own` are the last parts of their paths.
#[must_use]
pub fn apart(folders: &[String], own: &[&str]) -> Vec<String> {
    if are_different(own) {
        return own.iter().map(|&name| name.to_owned()).collect();
    }
    let whole = |folder: &String| {
        std::fs::canonicalize(folder)
            .map_or_else(|_| folder.clone(), |path| path.display().to_string())
    };
    let paths: Vec<String> = folders.iter().map(whole).collect();
    let parts: Vec<Vec<&str>> = paths
        .iter()
        .map(|path| {
            Path::new(path)
                .iter()
                .filter_map(|part| part.to_str())
                .collect()
        })
        .collect();
    let shortest = parts.iter().map(Vec::len).min().unwrap_or(0);
    let same = |of: &dyn Fn(&Vec<&str>) -> Option<String>| {
        parts.windows(2).all(|two| of(&two[0]) == of(&two[1]))
    };
    let front = (0..shortest)
        .take_while(|&at| same(&|parts| parts.get(at).map(|&part| part.to_owned())))
        .count();
    let back = |at: usize| {
        move |parts: &Vec<&str>| {
            parts
                .len()
                .checked_sub(at + 1)
                .map(|at| parts[at].to_owned())
        }
    };
    let behind = (0..shortest.saturating_sub(front))
        .take_while(|&at| same(&back(at)))
        .count();
    let named = |parts: &Vec<&str>| {
        parts
            .get(front..parts.len() - behind)
            .unwrap_or_default()
            .join("/")
    };
    let names: Vec<String> = parts.iter().map(named).collect();
    // A folder that is given twice gets a number, because nothing else distinguishes it.
    let numbered = |(place, name): (usize, &String)| {
        let is_alone = !name.is_empty() && names.iter().filter(|other| *other == name).count() == 1;
        if is_alone {
            name.clone()
        } else {
            format!(
                "{} ({})",
                own.get(place).copied().unwrap_or_default(),
                place + 1
            )
        }
    };
    names.iter().enumerate().map(numbered).collect()
}

fn are_different(names: &[&str]) -> bool {
    names
        .iter()
        .enumerate()
        .all(|(place, name)| !names[..place].contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(folders: &[&str]) -> Vec<String> {
        let own: Vec<&str> = folders
            .iter()
            .map(|folder| folder.rsplit('/').next().unwrap())
            .collect();
        apart(
            &folders
                .iter()
                .map(|&folder| folder.to_owned())
                .collect::<Vec<_>>(),
            &own,
        )
    }

    fn facts(labels: &[(&str, &str)], release: &str, preemption: &str) -> Facts {
        let labels = labels
            .iter()
            .map(|&(name, text)| (name.to_owned(), text.to_owned()))
            .collect();
        Facts {
            labels,
            release: Some(release.to_owned()),
            preemption: Some(preemption.to_owned()),
        }
    }

    #[test]
    fn a_name_says_what_differs_of_labels_or_else_of_kernels() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let labelled = [
            facts(&[("board", "7"), ("kernel", "old")], "6.1", "PREEMPT"),
            facts(&[("board", "7"), ("kernel", "new")], "6.12", "PREEMPT"),
        ];
        assert_eq!(
            told(names(&["board7", "board7-b"]), &labelled),
            ["board7 (kernel=old)", "board7-b (kernel=new)"]
        );
        let one_labelled = [
            facts(&[], "6.1", "PREEMPT"),
            facts(&[("kernel", "new")], "6.1", "PREEMPT"),
        ];
        assert_eq!(
            told(names(&["a", "b"]), &one_labelled),
            ["a", "b (kernel=new)"]
        );
        let kernels = [
            facts(&[], "6.1", "PREEMPT"),
            facts(&[], "6.1", "PREEMPT_RT"),
            facts(&[], "6.12", "PREEMPT_RT"),
        ];
        assert_eq!(
            told(names(&["a", "b", "c"]), &kernels),
            [
                "a (6.1, PREEMPT)",
                "b (6.1, PREEMPT_RT)",
                "c (6.12, PREEMPT_RT)"
            ]
        );
        // The names stay the same if the runs do not differ, or if the names already contain the
        // difference.
        let alike = [
            facts(&[("board", "7")], "6.1", "PREEMPT"),
            facts(&[("board", "7")], "6.1", "PREEMPT"),
        ];
        assert_eq!(told(names(&["a", "b"]), &alike), ["a", "b"]);
        let said = [
            facts(&[("kernel", "old")], "6.1", "PREEMPT"),
            facts(&[("kernel", "new")], "6.1", "PREEMPT"),
        ];
        assert_eq!(
            told(names(&["board7-old", "board7-new"]), &said),
            ["board7-old", "board7-new"]
        );
        // The name of a guest's folder is always completed with the kernel.
        assert_eq!(
            told(names(&["pad-000", "replica-001"]), &alike),
            ["pad-000 (6.1, PREEMPT)", "replica-001 (6.1, PREEMPT)"]
        );
    }

    #[test]
    fn folders_with_names_of_their_own_keep_them() {
        assert_eq!(named(&["/a/board7", "/b/board8"]), ["board7", "board8"]);
    }

    #[test]
    fn folders_of_one_name_are_called_after_what_differs_in_their_paths() {
        assert_eq!(
            named(&["/no-lab/none/pad-000", "/no-lab/rt/pad-000"]),
            ["none", "rt"]
        );
        assert_eq!(
            named(&["/no/6.1/none/pad-000", "/no/6.12/rt/pad-000"]),
            ["6.1/none", "6.12/rt"]
        );
        assert_eq!(
            named(&["/no/none/pad-000", "/no/none/pad-001", "/no/rt/pad-000"]),
            ["none/pad-000", "none/pad-001", "rt/pad-000"]
        );
        assert_eq!(named(&["/no/run", "/no/run"]), ["run (1)", "run (2)"]);
    }
}
