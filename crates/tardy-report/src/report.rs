//! How results are shown.

pub mod advise;
pub mod atlas_html;
pub mod atlas_text;
pub mod breakdown_text;
pub mod compare;
pub mod cost_text;
pub mod date;
pub mod doctor_html;
pub mod doctor_text;
pub mod explain_run_text;
pub mod explain_text;
pub mod history_html;
pub mod html;
pub mod junit;
pub mod ladder_text;
mod page;
pub mod plan_text;
pub mod repeat;
pub mod reproduce_html;
pub mod reproduce_text;
pub mod runs_text;
pub mod screen;
pub mod sections_text;
pub mod statistics_text;
pub mod summary_text;
pub mod table;
pub mod terminal_histogram;
