//! `cargo xtask extend`: adds one probe, load, check, exporter, importer, cost metric and link to a
//! copy of the tree, builds the copy, and checks that the tool lists all of them.
//!
//! The patches (`xtask/extensions`) are the examples of docs/extending.md. Tests count the lines of
//! each patch, and check that it still applies to the tree. The build is not part of these tests,
//! because it takes minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// Each kind of extension, named as in docs/extending.md and in its patch's file name, with a
/// command whose output lists the extension. A check has no command, because the tool shows a check
/// only on machines that it concerns.
const EXTENSIONS: [(&str, Option<[&str; 2]>); 7] = [
    ("probe", Some(["list", "probes"])),
    ("load", Some(["list", "loads"])),
    ("check", None),
    ("exporter", Some(["export", "--help"])),
    ("importer", Some(["import", "--help"])),
    ("cost-metric", Some(["list", "costs"])),
    ("link", Some(["list", "links"])),
];
/// The name that each extension has in its patch.
const ADDED: &str = "example";

/// Runs the task.
pub(crate) fn run() -> Result<()> {
    let folder = workspace::target_folder()?.join("extend");
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    workspace::copy_to(&tree)?;
    let patches = EXTENSIONS.map(|(kind, _)| patch(kind));
    // If git finds no repository, it applies a patch to the folder in which it runs.
    program::run(
        Command::new("git")
            .env("GIT_CEILING_DIRECTORIES", &folder)
            .current_dir(&tree)
            .arg("apply")
            .args(patches),
    )?;
    let mut cargo = workspace::cargo();
    program::run(
        cargo
            .current_dir(&tree)
            .args(["build", "--package", "tardy", "--locked"])
            .env("CARGO_TARGET_DIR", &target),
    )?;
    let tardy = built(&target)?;
    for (kind, command) in EXTENSIONS {
        let Some(command) = command else { continue };
        if !program::capture(Command::new(&tardy).args(command))?.contains(ADDED) {
            return Err(Failure::new(format!(
                "`tardy {}` does not name the {kind} that was added",
                command.join(" ")
            )));
        }
    }
    println!(
        "for each of {} kinds, an extension was added with one new file and lines in one other \
         file",
        EXTENSIONS.len()
    );
    Ok(())
}

fn patch(kind: &str) -> PathBuf {
    workspace::root().join(format!("xtask/extensions/{kind}.patch"))
}

/// Returns the built tool in the target folder `target`, in the subfolder of the build target that
/// .cargo/config.toml names.
fn built(target: &Path) -> Result<PathBuf> {
    let folders =
        std::fs::read_dir(target).while_doing(|| format!("reading {}", target.display()))?;
    folders
        .flatten()
        .map(|entry| entry.path().join("debug/tardy"))
        .chain([target.join("debug/tardy")])
        .find(|tool| tool.is_file())
        .ok_or_else(|| Failure::new("cargo built no tardy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the files that a patch changes: for each, whether it is new, how many lines are
    /// added, and its path.
    fn changes(kind: &str) -> Vec<(bool, usize, String)> {
        let mut git = Command::new("git");
        git.args(["apply", "--numstat"]).arg(patch(kind));
        let listed = program::capture(git.current_dir(workspace::root())).unwrap();
        let change = |line: &str| {
            let [added, deleted, path] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            assert_eq!(deleted, "0", "{path}");
            let is_new = !workspace::root().join(path).exists();
            (is_new, added.parse().unwrap(), path.to_owned())
        };
        listed.lines().map(change).collect()
    }

    #[test]
    fn what_is_added_is_one_file_and_at_most_two_lines_of_one_other() {
        for (kind, _) in EXTENSIONS {
            let changes = changes(kind);
            let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.0);
            assert_eq!((new.len(), changed.len()), (1, 1), "{kind}: {changes:?}");
            // At most two lines may be added: the module, and its entry in the list.
            assert!(changed[0].1 <= 2, "{kind}: {changes:?}");
            let text = std::fs::read_to_string(patch(kind)).unwrap();
            assert!(text.contains(ADDED), "{kind}");
        }
    }

    #[test]
    fn the_patches_fit_the_tree() {
        let mut git = Command::new("git");
        git.args(["apply", "--check"])
            .args(EXTENSIONS.map(|(kind, _)| patch(kind)));
        program::capture(git.current_dir(workspace::root()))
            .expect("bring the patches in xtask/extensions up to date");
    }

    #[test]
    fn the_guide_has_a_section_for_each_kind_and_names_the_files() {
        let guide = workspace::root().join("docs/extending.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        for (kind, _) in EXTENSIONS {
            let title = format!("## A {}", kind.replace('-', " "));
            let title = title
                .replace("A exporter", "An exporter")
                .replace("A importer", "An importer");
            let section = guide
                .split(&title)
                .nth(1)
                .unwrap_or_else(|| panic!("no section `{title}`"));
            let section = section.split("\n## ").next().unwrap_or_default();
            let example = format!("xtask/extensions/{kind}.patch");
            assert!(section.contains(&example), "{title}");
            for (_, _, path) in changes(kind).iter().filter(|change| !change.0) {
                assert!(section.contains(path.as_str()), "{title}: {path}");
            }
        }
    }
}
