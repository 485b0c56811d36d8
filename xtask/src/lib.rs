//! Code that `cargo xtask` and the benchmarks share: it runs programs such as cargo, and reports
//! why a task failed.
//!
//! xtask uses no crate of the product, so it compiles in seconds.
#![forbid(unsafe_code)]

pub mod failure;
pub mod inject;
pub mod program;
pub mod table_page;
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
