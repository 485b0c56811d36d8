//! Named lists of loads.

use super::LOADS;

/// A named list of loads.
#[derive(Debug)]
pub struct Composite {
    pub name: &'static str,
    /// Description of the list's loads, in one line.
    pub does: &'static str,
    /// The paper that the list comes from, or `today`.
    pub source: &'static str,
    /// The loads, with the parameters that the paper states. Empty for the list `all`, which
    /// contains every load that can do no harm and needs no values.
    members: &'static [&'static str],
    /// Whether the list includes loads that otherwise run only by name, because the paper's list
    /// contains them.
    pub names_dangers: bool,
}

/// Every list.
pub const COMPOSITES: &[Composite] = &[
    Composite {
        name: "stress-kernel",
        does: "all loads from the configuration of the cerberus burn-in suite, together",
        source: "williams2002",
        members: &["nfs-compile", "ttcp", "fifos-mmap", "fpu", "fs", "crashme"],
        names_dangers: true,
    },
    Composite {
        name: "paper-script",
        does: "all loads of the paper's load script together",
        source: "koolwal2009",
        members: &[
            "kernel-build:jobs=8",
            "dd:block=1000KiB",
            "ping-flood:size=10B",
            "hackbench:groups=30",
            "du:folder=/",
        ],
        names_dangers: false,
    },
    Composite {
        name: "all",
        does: "all loads that cannot do harm, together",
        source: "today",
        members: &[],
        names_dangers: false,
    },
];

/// Returns the list of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Composite> {
    COMPOSITES.iter().find(|composite| composite.name == name)
}

impl Composite {
    /// Returns the list's loads, as a user would request them.
    pub fn requests(&self) -> Box<dyn Iterator<Item = &'static str>> {
        if self.members.is_empty() {
            return Box::new(
                LOADS
                    .iter()
                    .filter(|info| !info.can_do_harm && !needs_values(info))
                    .map(|info| info.name),
            );
        }
        Box::new(self.members.iter().copied())
    }

    /// Returns the names of the list's loads.
    pub fn loads(&self) -> impl Iterator<Item = &'static str> {
        self.requests()
            .map(|request| request.split_once(':').map_or(request, |(name, _)| name))
    }
}

/// Returns whether the load needs a value that only the user can give.
fn needs_values(info: &super::LoadInfo) -> bool {
    info.parameters.iter().any(|parameter| parameter.needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_can_do_harm_names_the_lists_that_include_it() {
        for info in LOADS.iter().filter(|info| info.can_do_harm) {
            let lists: Vec<&str> = COMPOSITES
                .iter()
                .filter(|list| list.loads().any(|name| name == info.name))
                .map(|list| list.name)
                .collect();
            let says_none = info.effect.contains("no list");
            match lists.as_slice() {
                [] => assert!(!info.effect.contains("only list"), "{}", info.name),
                [list] => {
                    let named = format!("`{list}` is the only list with this load");
                    assert!(info.effect.contains(&named) && !says_none, "{}", info.name);
                }
                several => panic!("{} is in {several:?}", info.name),
            }
        }
    }
}
