//! What `cargo xtask` and the benchmarks have in common: running programs, cargo among them, and
//! saying why a task failed.
//!
//! Nothing of xtask needs a crate of the product, so that its help and its lists are there in
//! seconds.
#![forbid(unsafe_code)]

pub mod failure;
pub mod inject;
pub mod program;
pub mod workspace;

#[cfg(test)]
mod tests {
    #[test]
    fn xtask_needs_no_crate_of_the_product() {
        let manifest = include_str!("../Cargo.toml");
        let names = manifest
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next());
        assert_eq!(
            names
                .filter(|name| name.starts_with("tardy"))
                .collect::<Vec<_>>(),
            [""; 0],
            "put it into tardy-bench"
        );
    }
}
