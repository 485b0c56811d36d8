//! Checks that ARCHITECTURE.md lists the crates in the order of their dependencies, and each
//! foreign crate with its reason. deny.toml defines which crates may use which others.

#[cfg(test)]
mod tests {
    use std::process::Command;

    use xtask::workspace;

    /// Returns the crates in the order of the table in ARCHITECTURE.md.
    fn crates_of_the_map() -> Vec<String> {
        let text = std::fs::read_to_string(workspace::root().join("ARCHITECTURE.md")).unwrap();
        text.lines()
            .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
            .filter_map(|place| match place {
                "xtask" => Some(place),
                _ => place.strip_prefix("crates/"),
            })
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn each_crate_uses_only_crates_above_it_in_the_map() {
        let map = crates_of_the_map();
        for folder in workspace::crates().unwrap() {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let place = map.iter().position(|other| other == name);
            let place = place.unwrap_or_else(|| panic!("{name} is not in the map"));
            let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let mut used = text
                .lines()
                .filter_map(|line| line.split(['.', ' ', '=']).next())
                .filter(|used| map.iter().any(|other| other == used));
            assert_eq!(
                used.find(|used| !map[..place].iter().any(|above| above == used)),
                None,
                "{name} uses it, and it is not above {name} in ARCHITECTURE.md"
            );
        }
    }

    #[test]
    fn every_foreign_crate_has_a_reason() {
        let text = std::fs::read_to_string(workspace::root().join("ARCHITECTURE.md")).unwrap();
        let (_, table) = text.split_once("## Foreign crates").unwrap();
        let rows = table
            .split("\n## ")
            .next()
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split('|').next());
        let mut reasons: Vec<&str> = rows
            .flat_map(|names| names.split('`').skip(1).step_by(2))
            .collect();
        reasons.sort_unstable();
        let output = workspace::cargo()
            .args(["metadata", "--locked", "--offline", "--no-deps"])
            .args(["--format-version", "1"])
            .output()
            .unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let (mut own, mut used) = (vec!["tardy"], Vec::new());
        let mut next = 0;
        while let Some(name) = own.get(next) {
            next += 1;
            let package = packages.iter().find(|package| package["name"] == **name);
            for used_by_it in package.unwrap()["dependencies"].as_array().unwrap() {
                let name = used_by_it["name"].as_str().unwrap();
                let is_in_the_binary =
                    used_by_it["kind"].is_null() && used_by_it["optional"] == false;
                let is_own = used_by_it["path"].is_string();
                let list = if is_own { &mut own } else { &mut used };
                if is_in_the_binary && !list.contains(&name) {
                    list.push(name);
                }
            }
        }
        used.sort_unstable();
        assert_eq!(used, reasons);
    }

    #[test]
    fn every_file_of_tests_is_in_its_program() {
        let programs = std::fs::read_dir(workspace::root().join("crates/tardy/tests"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for folder in programs.filter(|folder| folder.join("main.rs").exists()) {
            let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
            for entry in std::fs::read_dir(&folder).unwrap() {
                let file = entry.unwrap().path();
                let name = file
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                let is_test = file.extension().is_some_and(|end| end == "rs") && name != "main";
                assert!(
                    !is_test || main.contains(&format!("mod {name};\n")),
                    "{} is not compiled",
                    file.display()
                );
            }
        }
    }

    #[test]
    fn each_request_that_is_answered_names_a_test_of_the_tree() {
        let root = workspace::root();
        let page = std::fs::read_to_string(root.join("docs/requests.md")).unwrap();
        let named: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_suffix("` |")?.rsplit_once('`'))
            .map(|(_, test)| test)
            .collect();
        let sources = Command::new("git")
            .args(["grep", "-hE", r"^ *fn [a-z0-9_]+\(\) \{$", "--", "*.rs"])
            .current_dir(root)
            .output()
            .unwrap();
        let sources = String::from_utf8(sources.stdout).unwrap();
        for test in &named {
            assert!(
                sources
                    .lines()
                    .any(|line| line.trim() == format!("fn {test}() {{")),
                "docs/requests.md names {test}, which is no test"
            );
        }
        let stated = format!("answers {} of them", named.len());
        assert!(
            page.contains(&stated),
            "the page states another number than {}",
            named.len()
        );
    }
}
