//! The subcommands: glue between arguments and the modules that do the work.

pub mod advise;
pub mod breakdown;
pub mod compare;
pub mod cost;
pub mod cyclictest;
pub mod doctor;
pub mod explain;
pub mod export;
mod folder_name;
pub mod generated;
pub mod import;
pub mod lab;
pub mod list;
pub mod load;
pub mod output;
pub mod plot;
pub mod report;
pub mod reproduce;
pub mod respond;
pub mod restore;
pub mod run;
pub mod scenarios;
pub mod schema;
pub mod sections;
pub mod show;
pub mod top;
pub mod tune;
