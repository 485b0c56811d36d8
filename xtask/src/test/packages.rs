//! The packages that tests and benchmarks need besides Rust (packages.txt). Each line of
//! packages.txt has a package, the programs that are used, and the reason.

/// A package of Debian or Ubuntu.
#[derive(Debug)]
pub(super) struct Package {
    pub(super) name: &'static str,
    /// The programs of the package that are used, separated by blanks, for machines whose packages
    /// have other names.
    pub(super) programs: &'static str,
    /// Why the package is needed.
    pub(super) reason: &'static str,
}

/// Returns all packages.
pub(super) fn all() -> impl Iterator<Item = Package> {
    include_str!("packages.txt").lines().map(|line| {
        let mut parts = line.splitn(3, ": ");
        let mut part = || parts.next().unwrap_or_default();
        Package {
            name: part(),
            programs: part(),
            reason: part(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_a_package_manager_takes() {
        for package in all() {
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
            assert!(
                package.name.chars().all(is_plain) && !package.reason.is_empty(),
                "{package:?}"
            );
        }
        let mut names: Vec<&str> = all().map(|package| package.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }
}
