//! Import rings: modules of a crate that use one another, so that none can be read, moved or tested
//! without the others. A test holds that there are none.
//!
//! A ring is one of siblings: of modules below the same one, each with all that is below itself.
//! One that uses another names something that is defined there; a name that is handed on
//! (`pub use`) counts for the file that defines it, and declaring a module uses nothing of it. A
//! module and what is below it may use one another. Tests beside the code are left out.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use source::Source;

/// A crate's modules, by their files.
struct Modules {
    sources: BTreeMap<PathBuf, Source>,
    /// The files of each module's children, by name.
    children: BTreeMap<PathBuf, BTreeMap<String, PathBuf>>,
    parents: BTreeMap<PathBuf, PathBuf>,
    root: PathBuf,
}

/// What a path leads to.
#[derive(Clone, PartialEq, Eq)]
enum PathTarget {
    Module(PathBuf),
    /// Something defined in this file.
    Item(PathBuf),
}

impl Modules {
    /// The modules below the crate's root file: what `mod NAME;` leads to, but for tests.
    fn read(root: &Path) -> Self {
        let mut modules = Self {
            sources: BTreeMap::new(),
            children: BTreeMap::new(),
            parents: BTreeMap::new(),
            root: root.to_owned(),
        };
        let mut waiting = vec![root.to_owned()];
        while let Some(file) = waiting.pop() {
            let text = std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let source = Source::parse(&text);
            let folder = if file == root {
                file.with_file_name("")
            } else {
                file.with_extension("")
            };
            for name in &source.modules {
                let child = [
                    folder.join(format!("{name}.rs")),
                    folder.join(name).join("mod.rs"),
                ];
                let Some(child) = child.into_iter().find(|child| child.is_file()) else {
                    continue;
                };
                modules.parents.insert(child.clone(), file.clone());
                modules
                    .children
                    .entry(file.clone())
                    .or_default()
                    .insert(name.clone(), child.clone());
                waiting.push(child);
            }
            modules.sources.insert(file, source);
        }
        modules
    }

    /// What each file uses of others.
    fn uses(&self) -> BTreeMap<&Path, BTreeSet<PathBuf>> {
        let of = |file: &PathBuf, source: &Source| -> BTreeSet<PathBuf> {
            let found =
                source
                    .paths
                    .iter()
                    .filter_map(|path| match self.resolve(file, path, 0)? {
                        PathTarget::Item(used) => Some(used),
                        PathTarget::Module(_) => None,
                    });
            found.filter(|used| used != file).collect()
        };
        self.sources
            .iter()
            .map(|(file, source)| (file.as_path(), of(file, source)))
            .collect()
    }

    /// Where `path`, written in `file`, leads; nowhere where it leads to another crate.
    fn resolve(&self, file: &Path, path: &[String], depth: usize) -> Option<PathTarget> {
        // Imports that lead to themselves are an error of the compiler's, not of this test's.
        if depth > 16 {
            return None;
        }
        let mut at = file.to_owned();
        for (index, name) in path.iter().enumerate() {
            let next = match name.as_str() {
                "crate" => Some(PathTarget::Module(self.root.clone())),
                "self" => Some(PathTarget::Module(at.clone())),
                "super" => Some(PathTarget::Module(self.parents.get(&at)?.clone())),
                _ => self.named(&at, name, depth),
            };
            match next {
                Some(PathTarget::Module(module)) => at = module,
                Some(item) => return Some(item),
                // The first word of a path is of this file only where it stands alone: `Vec::new`
                // is nothing of ours.
                None if index == 0 => return None,
                None => {
                    return self.sources[&at]
                        .defines(name)
                        .then(|| PathTarget::Item(at.clone()));
                }
            }
        }
        Some(PathTarget::Module(at))
    }

    /// What `name` stands for in the module `at`: a child, or what was imported under that name.
    fn named(&self, at: &Path, name: &str, depth: usize) -> Option<PathTarget> {
        if let Some(child) = self
            .children
            .get(at)
            .and_then(|children| children.get(name))
        {
            return Some(PathTarget::Module(child.clone()));
        }
        let source = &self.sources[at];
        if let Some(target) = source.imports.get(name) {
            return self.resolve(at, target, depth + 1);
        }
        source
            .globs
            .iter()
            .find_map(|glob| match self.resolve(at, glob, depth + 1)? {
                PathTarget::Module(module) if module != at => {
                    self.resolve(&module, &["self".to_owned(), name.to_owned()], depth + 1)
                }
                _ => None,
            })
    }

    /// From the crate's root to the file: each is a child of the one before it.
    fn way_to(&self, file: &Path) -> Vec<PathBuf> {
        let mut way = vec![file.to_owned()];
        while let Some(parent) = self.parents.get(&way[way.len() - 1]) {
            way.push(parent.clone());
        }
        way.reverse();
        way
    }

    /// Which children of a module use which others, and the files by which they do.
    fn uses_of_siblings(&self) -> BTreeMap<PathBuf, BTreeMap<Use, BTreeSet<Use>>> {
        let mut siblings: BTreeMap<PathBuf, BTreeMap<Use, BTreeSet<Use>>> = BTreeMap::new();
        for (file, used) in self
            .uses()
            .into_iter()
            .flat_map(|(file, used)| used.into_iter().map(move |used| (file, used)))
        {
            let (from, to) = (self.way_to(file), self.way_to(&used));
            let parted = from
                .iter()
                .zip(&to)
                .take_while(|(from, to)| from == to)
                .count();
            // One of the two lies below the other: they are one module to all others.
            let (Some(from), Some(to)) = (from.get(parted), to.get(parted)) else {
                continue;
            };
            let parent = self.parents[from].clone();
            siblings
                .entry(parent)
                .or_default()
                .entry((from.clone(), to.clone()))
                .or_default()
                .insert((file.to_owned(), used));
        }
        siblings
    }

    /// The uses that are part of a ring, each with the files by which it is one.
    fn rings(&self) -> Vec<(Use, BTreeSet<Use>)> {
        let mut found = Vec::new();
        for uses in self.uses_of_siblings().into_values() {
            let all: Vec<Use> = uses.keys().cloned().collect();
            found.extend(
                uses.into_iter()
                    .filter(|((from, to), _)| reaches(&all, to, from)),
            );
        }
        found
    }
}

/// Who uses whom.
type Use = (PathBuf, PathBuf);

/// Whether `from` uses `to`, or something that does.
fn reaches(uses: &[Use], from: &Path, to: &Path) -> bool {
    let (mut seen, mut waiting) = (BTreeSet::from([from]), vec![from]);
    while let Some(at) = waiting.pop() {
        let next = uses
            .iter()
            .filter(|(user, _)| user == at)
            .map(|(_, used)| used.as_path());
        waiting.extend(next.filter(|used| seen.insert(used)));
    }
    seen.contains(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The root files of the workspace's crates.
    fn roots() -> Vec<PathBuf> {
        let folders = xtask::workspace::crates().unwrap();
        let mut roots: Vec<PathBuf> = folders
            .iter()
            .flat_map(|folder| ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)))
            .collect();
        roots.retain(|root| root.is_file());
        roots
    }

    #[test]
    fn no_modules_of_a_crate_use_one_another_in_a_ring() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let short = |path: &Path| path.strip_prefix(workspace).unwrap().display().to_string();
        let mut told = String::new();
        for ((from, to), files) in roots().iter().flat_map(|root| Modules::read(root).rings()) {
            told += &format!(
                "\n{} uses {}, which leads back to it:\n",
                short(&from),
                short(&to)
            );
            files.iter().for_each(|(file, used)| {
                told += &format!("    {} -> {}\n", short(file), short(used))
            });
        }
        assert!(
            told.is_empty(),
            "move what two modules share into a third one:\n{told}"
        );
    }

    #[test]
    fn a_ring_is_found_through_names_that_are_handed_on() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write(
            "lib.rs",
            "pub mod one;\nmod two;\nmod alone;\nmod shared;\n",
        );
        // `Shared` is handed on: two.rs uses what is defined in shared.rs, and not one.rs.
        write(
            "one.rs",
            "pub use crate::shared::Shared;\nuse crate::two;\npub fn first() { two::second(); }\n",
        );
        write("shared.rs", "pub struct Shared;\n// crate::two::second\n");
        write(
            "two.rs",
            "use crate::one::Shared;\npub fn second() {}\n#[cfg(test)]\nmod tests { use \
             crate::one::first; }\n",
        );
        write(
            "alone.rs",
            "use std::fmt;\nfn f() -> fmt::Result { crate::two::second(); Ok(()) }\n",
        );
        let root = folder.path().join("lib.rs");
        let rings = || -> Vec<String> {
            let name = |path: &Path| {
                path.strip_prefix(folder.path())
                    .unwrap()
                    .display()
                    .to_string()
            };
            Modules::read(&root)
                .rings()
                .iter()
                .map(|((from, to), _)| format!("{} -> {}", name(from), name(to)))
                .collect()
        };
        assert_eq!(
            rings(),
            [""; 0],
            "a name that is handed on is no use of who hands it on, and neither is a test's"
        );
        write(
            "two.rs",
            "use crate::one::{Shared, first};\npub fn second() { first() }\n",
        );
        assert_eq!(rings(), ["one.rs -> two.rs", "two.rs -> one.rs"]);
        write(
            "two.rs",
            "use crate::one;\npub fn second() { one::first() }\n",
        );
        assert_eq!(
            rings(),
            ["one.rs -> two.rs", "two.rs -> one.rs"],
            "by the module's name"
        );
    }

    #[test]
    fn a_ring_is_found_in_what_is_below_modules() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("one")).unwrap();
        std::fs::create_dir_all(folder.path().join("two")).unwrap();
        for (name, text) in [
            ("lib.rs", "mod one;\nmod two;\n"),
            (
                "one.rs",
                "mod inner;\npub const A: u8 = inner::B;\npub const C: u8 = 1;\n",
            ),
            ("one/inner.rs", "pub const B: u8 = super::C;\n"),
            ("two.rs", "mod inner;\npub const D: u8 = 1;\n"),
            ("two/inner.rs", "pub const E: u8 = 1;\n"),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let count = || Modules::read(&folder.path().join("lib.rs")).rings().len();
        assert_eq!(count(), 0, "a module and its child are one");
        std::fs::write(
            folder.path().join("one/inner.rs"),
            "pub const B: u8 = crate::two::D + super::C;\n",
        )
        .unwrap();
        assert_eq!(count(), 0, "one way only");
        std::fs::write(
            folder.path().join("two/inner.rs"),
            "pub const E: u8 = crate::one::A;\n",
        )
        .unwrap();
        assert_eq!(count(), 2, "two different files close it");
    }
}
