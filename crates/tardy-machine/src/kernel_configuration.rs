//! The kernel's build configuration. It is read from the folders in which distributions store it,
//! otherwise from the kernel itself.

use std::collections::BTreeMap;
use std::io::Read;

use super::root::Root;

/// Maximum size of a configuration in bytes; a usual one has about 300 KiB.
const BYTES_MAX: u64 = 16 << 20;

/// The options that are set. Options that are not set are not listed, so they cannot be
/// distinguished from unknown options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelConfiguration {
    options: BTreeMap<String, String>,
}

impl KernelConfiguration {
    /// Reads the first existing one of `boot/config-RELEASE`, `lib/modules/RELEASE/config` and
    /// `proc/config.gz`.
    #[must_use]
    pub fn read(root: &Root, release: Option<&str>) -> Option<Self> {
        let built = release.and_then(|release| {
            let places = [
                format!("boot/config-{release}"),
                format!("lib/modules/{release}/config"),
            ];
            places.iter().find_map(|path| root.read(path).ok())
        });
        let text = built.or_else(|| {
            let mut text = String::new();
            flate2::read::GzDecoder::new(root.open("proc/config.gz").ok()?)
                .take(BYTES_MAX)
                .read_to_string(&mut text)
                .ok()?;
            Some(text)
        });
        text.map(|text| Self::parse(&text))
            .filter(|found| !found.options.is_empty())
    }

    /// Parses `CONFIG_NAME=value`, line by line.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let option = |line: &str| {
            let (name, value) = line.trim().strip_prefix("CONFIG_")?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Self {
            options: text.lines().filter_map(option).collect(),
        }
    }

    /// Returns whether an option is built into the kernel.
    #[must_use]
    pub fn is_built_in(&self, option: &str) -> bool {
        self.options.get(option).is_some_and(|value| value == "y")
    }

    /// Returns whether an option is built into the kernel or available as a module.
    #[must_use]
    pub fn is_on(&self, option: &str) -> bool {
        self.options
            .get(option)
            .is_some_and(|value| value == "y" || value == "m")
    }

    /// Returns the value of an option, exactly as the file contains it.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake_root::FakeRoot;
    use super::*;
    use std::io::Write;

    #[test]
    fn modules_are_on_and_not_built_in_and_what_is_not_set_is_off() {
        let found = KernelConfiguration::parse(
            "CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_D=\"x\"\n#CONFIG_E=y\n",
        );
        assert!(found.is_built_in("A") && found.is_on("B") && !found.is_built_in("B"));
        assert!(!found.is_on("C") && !found.is_on("D") && !found.is_on("E"));
        assert_eq!(found.value("D"), Some("\"x\""));
    }

    #[test]
    fn the_kernels_own_copy_is_read_where_the_distribution_keeps_none() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"CONFIG_A=y\n").unwrap();
        let fake = FakeRoot::new().with("proc/config.gz", packed.finish().unwrap());
        let read = |release| KernelConfiguration::read(&fake.root(), Some(release));
        assert!(read("6.1").unwrap().is_built_in("A"));
        fake.write("boot/config-6.2", "CONFIG_B=y\n");
        assert!(!read("6.2").unwrap().is_on("A"));
        assert_eq!(
            KernelConfiguration::read(&FakeRoot::new().with("proc/config.gz", "torn").root(), None),
            None
        );
    }
}
