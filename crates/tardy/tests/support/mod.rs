//! Helpers of the end-to-end tests: the real binary, the machine, and generated run folders.
#![allow(
    dead_code,
    reason = "each test file is a separate program, and uses its part"
)]

pub(crate) mod chains;
pub(crate) mod document;
pub(crate) mod lab_host;
pub(crate) mod large;
pub(crate) mod machine;
pub(crate) mod made_cost;
pub(crate) mod made_run;
pub(crate) mod random_cases;
pub(crate) mod series;
pub(crate) mod stand_in;
pub(crate) mod summary;
pub(crate) mod terminal;
pub(crate) mod workplace;
