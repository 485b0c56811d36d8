//! The subcommands: glue between arguments and the modules that do the work.

pub mod load;
