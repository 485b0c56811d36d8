//! What runs of kind `cost` say, and published numbers to set beside them.

pub mod reference;
pub mod run;
pub mod shown;
pub mod summary;
