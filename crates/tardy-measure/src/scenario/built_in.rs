//! The scenarios that ship in the binary.

use super::{Scenario, parse};

/// A scenario in the binary.
#[derive(Debug)]
pub struct BuiltIn {
    pub name: &'static str,
    /// Text of the scenario. `tardy scenarios show NAME` prints it, as a template.
    pub text: &'static str,
}

/// All built-in scenarios.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "default",
        text: include_str!("built_in/default.toml"),
    },
    BuiltIn {
        name: "idle",
        text: include_str!("built_in/idle.toml"),
    },
    BuiltIn {
        name: "loads-in-turn",
        text: include_str!("built_in/loads-in-turn.toml"),
    },
    BuiltIn {
        name: "stress-kernel",
        text: include_str!("built_in/stress-kernel.toml"),
    },
    BuiltIn {
        name: "abeni2002",
        text: include_str!("built_in/abeni2002.toml"),
    },
    BuiltIn {
        name: "abeni2002-long",
        text: include_str!("built_in/abeni2002-long.toml"),
    },
    BuiltIn {
        name: "abeni2002-shuffled",
        text: include_str!("built_in/abeni2002-shuffled.toml"),
    },
    BuiltIn {
        name: "abeni2002-split",
        text: include_str!("built_in/abeni2002-split.toml"),
    },
    BuiltIn {
        name: "williams2002",
        text: include_str!("built_in/williams2002.toml"),
    },
    BuiltIn {
        name: "mckenney2009",
        text: include_str!("built_in/mckenney2009.toml"),
    },
    BuiltIn {
        name: "mckenney2009-sweep",
        text: include_str!("built_in/mckenney2009-sweep.toml"),
    },
    BuiltIn {
        name: "koolwal2009",
        text: include_str!("built_in/koolwal2009.toml"),
    },
    BuiltIn {
        name: "koolwal2009-gtod",
        text: include_str!("built_in/koolwal2009-gtod.toml"),
    },
    BuiltIn {
        name: "wake-ups",
        text: include_str!("built_in/wake-ups.toml"),
    },
    BuiltIn {
        name: "lab",
        text: include_str!("built_in/lab.toml"),
    },
];

/// Returns the names of all built-in scenarios.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|built_in| built_in.name)
}

/// Returns the built-in scenario with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|built_in| built_in.name == name)
}

impl BuiltIn {
    /// Returns the parsed scenario.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        parse(self.text).expect("a test parses every built-in scenario")
    }
}
