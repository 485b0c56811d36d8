//! `cargo xtask extend`: adds one probe, load, check, exporter, importer, cost metric and link to a
//! copy of the tree, builds it, and sees that the tool lists them.
//!
//! The patches (`xtask/extensions`) are the examples of docs/extending.md. A test counts what each
//! touches and sees that it still fits the tree; building the copy takes minutes and is a task of
//! its own.

mod patch;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// A kind of thing that can be added.
struct Extension {
    /// As in docs/extending.md, and the patch's name.
    name: &'static str,
    patch: &'static str,
    /// A command line of the tool whose output names it; none where only a machine shows it.
    seen_by: Option<&'static [&'static str]>,
}

/// Everything that has a list.
const EXTENSIONS: [Extension; 7] = [
    Extension {
        name: "probe",
        patch: include_str!("../extensions/probe.patch"),
        seen_by: Some(&["list", "probes"]),
    },
    Extension {
        name: "load",
        patch: include_str!("../extensions/load.patch"),
        seen_by: Some(&["list", "loads"]),
    },
    Extension {
        name: "check",
        patch: include_str!("../extensions/check.patch"),
        seen_by: None,
    },
    Extension {
        name: "exporter",
        patch: include_str!("../extensions/exporter.patch"),
        seen_by: Some(&["export", "--help"]),
    },
    Extension {
        name: "importer",
        patch: include_str!("../extensions/importer.patch"),
        seen_by: Some(&["import", "--help"]),
    },
    Extension {
        name: "cost-metric",
        patch: include_str!("../extensions/cost-metric.patch"),
        seen_by: Some(&["list", "costs"]),
    },
    Extension {
        name: "link",
        patch: include_str!("../extensions/link.patch"),
        seen_by: Some(&["list", "links"]),
    },
];

/// What each patch calls the thing that it adds.
const ADDED: &str = "example";

/// Adds them all to a copy of the tree, builds that, and looks at the lists.
pub(crate) fn run() -> Result<()> {
    let folder = workspace::target_folder()?.join("extend");
    let tree = folder.join("tree");
    workspace::copy_to(&tree)?;
    for change in EXTENSIONS
        .iter()
        .flat_map(|extension| patch::parse(extension.patch))
    {
        let path = tree.join(&change.path);
        let text = if change.is_new {
            String::new()
        } else {
            read(&path)?
        };
        workspace::write(&path, change.apply(&text).map_err(Failure::new)?.as_bytes())?;
    }
    let target = folder.join("target");
    let mut cargo = workspace::cargo();
    program::run(
        cargo
            .current_dir(&tree)
            .args(["build", "--package", "tardy", "--locked"])
            .env("CARGO_TARGET_DIR", &target),
    )?;
    let tardy = built(&target)?;
    for (extension, arguments) in EXTENSIONS
        .iter()
        .filter_map(|extension| Some((extension, extension.seen_by?)))
    {
        let listed = program::capture(Command::new(&tardy).args(arguments))?;
        if !listed.contains(ADDED) {
            return Err(Failure::new(format!(
                "`tardy {}` does not name the {} that was added",
                arguments.join(" "),
                extension.name
            )));
        }
    }
    println!(
        "each of {} kinds was added by one file and its lines in one other",
        EXTENSIONS.len()
    );
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).while_doing(|| format!("reading {}", path.display()))
}

/// The tool in `target`, below the folder of the target that .cargo/config.toml names.
fn built(target: &Path) -> Result<PathBuf> {
    let folders =
        std::fs::read_dir(target).while_doing(|| format!("reading {}", target.display()))?;
    let tools = folders
        .filter_map(|entry| entry.ok())
        .map(|entry| entry.path().join("debug/tardy"));
    tools
        .chain([target.join("debug/tardy")])
        .find(|tool| tool.is_file())
        .ok_or_else(|| Failure::new("cargo built no tardy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_one_file_and_at_most_two_lines_of_one_other() {
        for extension in &EXTENSIONS {
            let changes = patch::parse(extension.patch);
            let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.is_new);
            let lines: usize = changed.iter().map(|change| change.lines()).sum();
            assert_eq!(
                (new.len(), changed.len()),
                (1, 1),
                "{}: new and changed files",
                extension.name
            );
            // Its module, and its place in the list.
            assert!(
                lines <= 2,
                "{}: {lines} lines of {}",
                extension.name,
                changed[0].path
            );
            assert!(extension.patch.contains(ADDED), "{}", extension.name);
        }
    }

    #[test]
    fn the_patches_fit_the_tree() {
        let mut files = std::collections::BTreeMap::<String, String>::new();
        for change in EXTENSIONS
            .iter()
            .flat_map(|extension| patch::parse(extension.patch))
        {
            let path = workspace::root().join(&change.path);
            assert_ne!(change.is_new, path.is_file(), "{}", change.path);
            let text = files
                .entry(change.path.clone())
                .or_insert_with(|| std::fs::read_to_string(&path).unwrap_or_default());
            *text = change.apply(text).unwrap_or_else(|error| {
                panic!("bring the patch in xtask/extensions up to date: {error}")
            });
        }
    }

    #[test]
    fn the_guide_has_a_section_for_each_kind_and_names_the_files() {
        let guide = read(&workspace::root().join("docs/extending.md")).unwrap();
        for extension in &EXTENSIONS {
            let title = format!("## A {}", extension.name.replace('-', " "));
            let title = title
                .replace("A exporter", "An exporter")
                .replace("A importer", "An importer");
            let section = guide
                .split(&title)
                .nth(1)
                .unwrap_or_else(|| panic!("no section `{title}`"));
            let section = section.split("\n## ").next().unwrap_or_default();
            assert!(
                section.contains(&format!("xtask/extensions/{}.patch", extension.name)),
                "{title}"
            );
            for change in patch::parse(extension.patch)
                .iter()
                .filter(|change| !change.is_new)
            {
                assert!(section.contains(&change.path), "{title}: {}", change.path);
            }
        }
    }
}
