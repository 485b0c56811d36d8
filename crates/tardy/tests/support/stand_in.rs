//! Provides kernel settings that a test may change: the OOM score adjustments of processes that
//! only sleep.

use std::path::PathBuf;
use std::process::{Child, Command};

/// The initial value of the file, and another valid value.
pub(crate) const OLD: &str = "10";
pub(crate) const NEW: &str = "20";

/// A stand-in for a setting. The process of the setting is killed on drop.
pub(crate) struct StandIn(Child);

impl StandIn {
    pub(crate) fn new() -> Self {
        let made = Self(Command::new("sleep").arg("600").spawn().unwrap());
        made.set(OLD);
        made
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/oom_score_adj", self.0.id()).into()
    }

    pub(crate) fn set(&self, value: &str) {
        std::fs::write(self.path(), value).unwrap();
    }

    pub(crate) fn value(&self) -> String {
        let value = std::fs::read_to_string(self.path()).unwrap();
        value.trim().to_owned()
    }

    /// Text of a settings file that names this setting `name` and gives it the value `NEW`.
    pub(crate) fn as_setting(&self, name: &str) -> String {
        let path = self.path();
        let path = path.display();
        format!("[[setting]]\nname = \"{name}\"\nfiles = {{ \"{path}\" = \"{NEW}\" }}\n")
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
