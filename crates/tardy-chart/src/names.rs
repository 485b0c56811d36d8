//! Names of runs that stand together: what tells their folders apart, and no more.

use std::path::Path;

use super::data::RunData;

/// Gives each run a name of its own: its folder's, and where those are the same the parts of the paths that differ. The lab's folders are called after their
/// variant in this way, not after their replica.
pub fn tell_apart(runs: &mut [RunData]) {
    let folders: Vec<String> = runs.iter().map(|run| run.folder.clone()).collect();
    let own: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let names = apart(&folders, &own);
    for (run, name) in runs.iter_mut().zip(names) {
        run.name = name;
    }
}

/// The same names, for `folders` whose last parts are `own`.
#[must_use]
pub fn apart(folders: &[String], own: &[&str]) -> Vec<String> {
    if are_different(own) {
        return own.iter().map(|&name| name.to_owned()).collect();
    }
    let whole = |folder: &String| std::fs::canonicalize(folder).map_or_else(|_| folder.clone(), |path| path.display().to_string());
    let paths: Vec<String> = folders.iter().map(whole).collect();
    let parts: Vec<Vec<&str>> = paths.iter().map(|path| Path::new(path).iter().filter_map(|part| part.to_str()).collect()).collect();
    let shortest = parts.iter().map(Vec::len).min().unwrap_or(0);
    let same = |of: &dyn Fn(&Vec<&str>) -> Option<String>| parts.windows(2).all(|two| of(&two[0]) == of(&two[1]));
    let front = (0..shortest).take_while(|&at| same(&|parts| parts.get(at).map(|&part| part.to_owned()))).count();
    let back = |at: usize| move |parts: &Vec<&str>| parts.len().checked_sub(at + 1).map(|at| parts[at].to_owned());
    let behind = (0..shortest.saturating_sub(front)).take_while(|&at| same(&back(at))).count();
    let named = |parts: &Vec<&str>| parts.get(front..parts.len() - behind).unwrap_or_default().join("/");
    let names: Vec<String> = parts.iter().map(named).collect();
    // The same folder twice has nothing to tell it apart but its place.
    let numbered = |(place, name): (usize, &String)| {
        let is_alone = !name.is_empty() && names.iter().filter(|other| *other == name).count() == 1;
        if is_alone { name.clone() } else { format!("{} ({})", own.get(place).copied().unwrap_or_default(), place + 1) }
    };
    names.iter().enumerate().map(numbered).collect()
}

fn are_different(names: &[&str]) -> bool {
    names.iter().enumerate().all(|(place, name)| !names[..place].contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(folders: &[&str]) -> Vec<String> {
        let own: Vec<&str> = folders.iter().map(|folder| folder.rsplit('/').next().unwrap()).collect();
        apart(&folders.iter().map(|&folder| folder.to_owned()).collect::<Vec<_>>(), &own)
    }

    #[test]
    fn folders_with_names_of_their_own_keep_them() {
        assert_eq!(named(&["/a/board7", "/b/board8"]), ["board7", "board8"]);
    }

    #[test]
    fn folders_of_one_name_are_called_after_what_differs_in_their_paths() {
        assert_eq!(named(&["/no-lab/none/pad-000", "/no-lab/rt/pad-000"]), ["none", "rt"]);
        assert_eq!(named(&["/no/6.1/none/pad-000", "/no/6.12/rt/pad-000"]), ["6.1/none", "6.12/rt"]);
        assert_eq!(named(&["/no/none/pad-000", "/no/none/pad-001", "/no/rt/pad-000"]), ["none/pad-000", "none/pad-001", "rt/pad-000"]);
        assert_eq!(named(&["/no/run", "/no/run"]), ["run (1)", "run (2)"]);
    }
}
