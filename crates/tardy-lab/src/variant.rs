//! Variants: what an experiment compares. A variant is a kernel, together with words on its command
//! line.

use serde::{Deserialize, Serialize};

use super::kernel::Kernel;

/// One column of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// The name of the variant in tables, and of its folder.
    pub name: String,
    /// The kernel to boot.
    pub kernel: Kernel,
    /// The requested preemption model. If the kernel uses another model, the run fails.
    pub preemption: Option<String>,
    /// Further words for the kernel's command line.
    pub words: Vec<String>,
}

impl Variant {
    /// Returns a variant, and makes its name from its parts.
    #[must_use]
    pub fn new(kernel: Kernel, preemption: Option<String>, words: Vec<String>) -> Self {
        let mut name = kernel.name.clone();
        for part in preemption.iter().chain(&words) {
            name.push('-');
            name.push_str(part);
        }
        Self {
            name: folder_name(&name),
            kernel,
            preemption,
            words,
        }
    }

    /// Returns the words that the variant adds to the kernel's command line.
    #[must_use]
    pub fn command_line_words(&self) -> Vec<String> {
        let preemption = self
            .preemption
            .iter()
            .map(|model| format!("preempt={model}"));
        preemption.chain(self.words.iter().cloned()).collect()
    }
}

/// Returns the name in a form that fits into a path: at most 80 characters, without dots at the
/// start, and with `_` in place of each character other than ASCII letters, digits, `.`, `-`, `+`
/// and `=`.
fn folder_name(name: &str) -> String {
    const LENGTH_MAX: usize = 80;
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || ".-+=".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).take(LENGTH_MAX).collect();
    name.trim_start_matches('.').to_owned()
}

/// Makes the names of variants unique. If several variants have the same name, adds the version of
/// the kernel to each name; if several of these variants have the same version, adds the kernel's
/// digest instead. If several of them have the same kernel, adds a number instead.
pub fn make_names_unique(variants: &mut [Variant]) {
    let names: Vec<String> = variants
        .iter()
        .map(|variant| variant.name.clone())
        .collect();
    let digests: Vec<_> = variants
        .iter()
        .map(|variant| variant.kernel.digest.clone())
        .collect();
    let versions: Vec<Option<String>> = variants
        .iter()
        .map(|variant| variant.kernel.short_version())
        .collect();
    for index in 0..variants.len() {
        let alike: Vec<usize> = (0..variants.len())
            .filter(|&other| names[other] == names[index])
            .collect();
        if alike.len() == 1 {
            continue;
        }
        let same_kernel = alike
            .iter()
            .filter(|&&other| digests[other] == digests[index])
            .count()
            > 1;
        let number = alike
            .iter()
            .position(|&other| other == index)
            .unwrap_or_default()
            + 1;
        let is_told_by_version = |version: &String| {
            alike
                .iter()
                .filter(|&&other| versions[other].as_ref() == Some(version))
                .count()
                == 1
        };
        let version = versions[index].clone().filter(is_told_by_version);
        let addition = match version {
            _ if same_kernel => number.to_string(),
            Some(version) => folder_name(&version),
            None => digests[index].short().to_owned(),
        };
        variants[index].name = format!("{}_{addition}", names[index]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;
    use crate::digest::Digest;

    fn variant(name: &str, image: &[u8], preemption: Option<&str>, words: &[&str]) -> Variant {
        let kernel = Kernel {
            source: String::new(),
            name: name.into(),
            image: "image".into(),
            digest: Digest::of_bytes(image),
            architecture: Architecture::Amd64,
            version: None,
            package: None,
        };
        Variant::new(
            kernel,
            preemption.map(str::to_owned),
            words.iter().map(|word| (*word).to_owned()).collect(),
        )
    }

    #[test]
    fn the_name_tells_the_parts_and_is_fit_for_a_folder() {
        let variant = variant("6.1", b"a", Some("none"), &["a/b=../c"]);
        assert_eq!(variant.name, "6.1-none-a_b=.._c");
        assert_eq!(variant.command_line_words(), ["preempt=none", "a/b=../c"]);
    }

    #[test]
    fn equal_names_become_different() {
        let mut variants = [
            variant("6.1", b"a", None, &[]),
            variant("6.1", b"b", None, &[]),
            variant("6.2", b"c", None, &[]),
            variant("6.2", b"c", None, &[]),
        ];
        make_names_unique(&mut variants);
        let names: std::collections::BTreeSet<_> = variants
            .iter()
            .map(|variant| variant.name.as_str())
            .collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names.contains("6.2_1") && names.contains("6.2_2"));
        let mut versions = [
            variant("6.12", b"a", None, &[]),
            variant("6.12", b"b", None, &[]),
            variant("6.12", b"c", None, &[]),
        ];
        versions[0].kernel.package = Some("linux-image-6.12.117-amd64 6.12.117-1".to_owned());
        versions[1].kernel.version =
            Some("6.12.43+deb12-amd64 (debian-kernel@lists.debian.org) #1 SMP".to_owned());
        make_names_unique(&mut versions);
        assert_eq!(
            [&versions[0].name, &versions[1].name],
            ["6.12_6.12.117-1", "6.12_6.12.43+deb12-amd64"]
        );
        assert_eq!(
            versions[2].name,
            format!("6.12_{}", versions[2].kernel.digest.short())
        );
    }
}
