//! A patch that adds one file and a line or two to others. It is found again by the lines around
//! it, not by their numbers: what others add elsewhere does not make it fail.

/// What a patch does to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Its path in the workspace.
    pub(super) path: String,
    /// Whether the patch makes it.
    pub(super) is_new: bool,
    hunks: Vec<Hunk>,
}

/// Lines that stand together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hunk {
    before: Vec<String>,
    after: Vec<String>,
}

/// Reads a patch as `git diff` writes it.
pub(super) fn parse(patch: &str) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for line in patch.lines() {
        if let Some(paths) = line.strip_prefix("diff --git a/") {
            let path = paths.split(" b/").next().unwrap_or_default().to_owned();
            changes.push(Change {
                path,
                is_new: false,
                hunks: Vec::new(),
            });
        }
        let Some(change) = changes.last_mut() else {
            continue;
        };
        if line.starts_with("new file") {
            change.is_new = true;
        } else if line.starts_with("@@") {
            change.hunks.push(Hunk::default());
        } else if let Some(hunk) = change.hunks.last_mut() {
            let (kind, text) = line.split_at_checked(1).unwrap_or((" ", ""));
            if kind != "+" {
                hunk.before.push(text.to_owned());
            }
            if kind != "-" {
                hunk.after.push(text.to_owned());
            }
        }
    }
    changes
}

impl Change {
    /// How many lines it adds or writes anew.
    #[cfg(test)]
    pub(super) fn lines(&self) -> usize {
        let of = |hunk: &Hunk| {
            hunk.after
                .iter()
                .filter(|line| !hunk.before.contains(line))
                .count()
        };
        self.hunks.iter().map(of).sum()
    }

    /// The file's text with the change made to it.
    ///
    /// # Errors
    /// The lines that are not there, or not once.
    pub(super) fn apply(&self, text: &str) -> Result<String, String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for hunk in &self.hunks {
            let count = hunk.before.len();
            let places: Vec<usize> = match count {
                0 => vec![0],
                _ => (0..(lines.len() + 1).saturating_sub(count))
                    .filter(|&at| lines[at..at + count] == hunk.before)
                    .collect(),
            };
            let [at] = places[..] else {
                return Err(format!(
                    "{}: these lines stand there {} times, not once:\n{}",
                    self.path,
                    places.len(),
                    hunk.before.join("\n")
                ));
            };
            lines.splice(at..at + count, hunk.after.iter().cloned());
        }
        Ok(lines.join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/list.rs b/list.rs\n--- a/list.rs\n+++ b/list.rs\n@@ -1,2 \
                         +1,3 @@\n mod a;\n+mod b;\n mod c;\ndiff --git a/b.rs b/b.rs\nnew file \
                         mode 100644\n--- /dev/null\n+++ b/b.rs\n@@ -0,0 +1,2 @@\n+//! New.\n+\n";

    #[test]
    fn a_patch_is_found_by_the_lines_around_it() {
        let [list, new] = &parse(PATCH)[..] else {
            panic!("{:?}", parse(PATCH))
        };
        assert_eq!(
            (list.path.as_str(), list.is_new, list.lines()),
            ("list.rs", false, 1)
        );
        assert_eq!(
            list.apply("//! Moved down.\n\nmod a;\nmod c;\n").unwrap(),
            "//! Moved down.\n\nmod a;\nmod b;\nmod c;\n"
        );
        assert!(
            list.apply("mod a;\nmod d;\n")
                .unwrap_err()
                .contains("0 times")
        );
        assert!(
            list.apply("mod a;\nmod c;\nmod a;\nmod c;\n")
                .unwrap_err()
                .contains("2 times")
        );
        assert_eq!(
            (new.is_new, new.apply("").unwrap().as_str()),
            (true, "//! New.\n\n")
        );
    }
}
