//! Checks the optimisation levels in Cargo.toml: each crate of the workspace is hot or cold.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use xtask::workspace;

    /// Returns the optimisation level of each package in a section of Cargo.toml.
    fn levels(section: &str) -> BTreeMap<String, String> {
        let manifest = std::fs::read_to_string(workspace::root().join("Cargo.toml")).unwrap();
        let (_, rest) = manifest.split_once(&format!("\n[{section}]\n")).unwrap();
        let lines = rest.lines().take_while(|line| !line.starts_with('['));
        lines
            .filter_map(|line| {
                let (left, right) = line.split_once("opt-level = ")?;
                let level = right.split([',', ' ']).next()?;
                let package = left.split(['.', ' ']).next()?.trim_matches('"');
                Some((package.to_owned(), level.to_owned()))
            })
            .collect()
    }

    #[test]
    fn each_crate_is_hot_or_cold() {
        let levels = levels("profile.release.package");
        for folder in workspace::crates().unwrap() {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let level = levels.get(name).map(String::as_str);
            assert!(
                matches!(level, Some("0" | "3")),
                "Cargo.toml must list {name} as hot (3) or cold (0), not {level:?}"
            );
        }
    }

    #[test]
    fn binaries_for_users_have_small_code_where_it_is_cold() {
        let mut cold = levels("profile.release.package");
        cold.retain(|_, level| level == "0");
        cold.values_mut().for_each(|level| *level = "\"s\"".into());
        assert!(cold.len() > 10);
        assert_eq!(levels("profile.dist.package"), cold);
    }

    #[test]
    fn tests_optimise_hot_code_alone() {
        let mut hot = levels("profile.release.package");
        hot.retain(|_, level| level == "3");
        hot.values_mut().for_each(|level| *level = "1".into());
        assert!(hot.len() > 10);
        assert_eq!(levels("profile.dev.package"), hot);
    }
}
