//! The kernel facilities that tardy uses, one file each. The only unsafe code of the project.
//!
//! No policy and no printing: a wrapper returns `io::Result` and owns what it opened.
