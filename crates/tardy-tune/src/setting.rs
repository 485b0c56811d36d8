//! Defines one setting, which consists of values for files, a program that runs while the setting
//! is on, or words of the kernel's command line. Settings are stored as TOML. Users write such
//! files, and a search writes one as its result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A setting that can be on or off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Name of the setting; for a known setting, the name of its row in `tardy doctor`.
    pub name: String,
    /// Why the setting may help, as the end of a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Values to write while the setting is on, by file of /proc or /sys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<PathBuf, String>,
    /// A program that runs while the setting is on, with its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub while_on: Vec<String>,
    /// Words of the kernel's command line, which need a reboot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Whether the setting is applied only if the user names it, because it has a price that a
    /// latency does not show.
    #[serde(skip)]
    pub only_named: bool,
}

/// A file of settings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default, rename = "setting")]
    pub settings: Vec<Setting>,
}

/// Why a file of settings cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{0}: {1}")]
    Read(PathBuf, std::io::Error),
    #[error("{0}: {1}")]
    Toml(PathBuf, Box<toml::de::Error>),
    #[error("{path}: setting `{name}` {what}")]
    Bad {
        path: PathBuf,
        name: String,
        what: &'static str,
    },
}

/// The change of one file by a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub path: PathBuf,
    /// The current value, in the form in which it is written to restore it.
    pub now: String,
    pub wanted: String,
}

/// How a setting differs from the current state of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Everything has the recommended value.
    AsWanted,
    /// The files that the setting would change; empty for a program.
    Changeable(Vec<Change>),
    /// The words of the setting that are missing on the kernel's command line.
    TakesRestart(Vec<String>),
    /// A file of the setting is missing or unreadable.
    Absent(String),
}

impl Settings {
    /// Reads a file of settings, of at most 1 MiB.
    ///
    /// # Errors
    /// Returns [`SettingsError`].
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let bytes = text_file(path).map_err(|error| SettingsError::Read(path.to_owned(), error))?;
        let found: Self = toml::from_str(&bytes)
            .map_err(|error| SettingsError::Toml(path.to_owned(), Box::new(error)))?;
        let mut known = std::collections::BTreeSet::new();
        for setting in &found.settings {
            let bad = |what| SettingsError::Bad {
                path: path.to_owned(),
                name: setting.name.clone(),
                what,
            };
            if setting.name.is_empty() || setting.name.chars().any(|c| c.is_control() || c == ',') {
                return Err(bad("has an unsuitable name: write one without commas"));
            }
            if !known.insert(&setting.name) {
                return Err(bad("is defined twice: give each a different name"));
            }
            if [
                setting.files.is_empty(),
                setting.while_on.is_empty(),
                setting.words.is_empty(),
            ]
            .iter()
            .filter(|empty| !**empty)
            .count()
                != 1
            {
                return Err(bad("must have one of `files`, `while_on` and `words`"));
            }
            if setting.files.keys().any(|path| !path.is_absolute()) {
                return Err(bad("names a file by a path that does not begin with /"));
            }
        }
        Ok(found)
    }

    /// Returns the settings as TOML.
    ///
    /// # Errors
    /// Never fails for values of this type.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }
}

impl Setting {
    /// Returns how this machine differs from the setting.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if !self.while_on.is_empty() {
            return Standing::Changeable(Vec::new());
        }
        if !self.words.is_empty() {
            return match text_file(Path::new("/proc/cmdline")) {
                Ok(line) => of_words(&self.words, &line),
                Err(error) => Standing::Absent(format!("/proc/cmdline: {error}")),
            };
        }
        let mut changes = Vec::new();
        for (path, wanted) in &self.files {
            match current(path) {
                Ok(now) if is_alike(&now, wanted) => {}
                Ok(now) => changes.push(Change {
                    path: path.clone(),
                    now,
                    wanted: wanted.clone(),
                }),
                Err(error) => return Standing::Absent(format!("{}: {error}", path.display())),
            }
        }
        if changes.is_empty() {
            Standing::AsWanted
        } else {
            Standing::Changeable(changes)
        }
    }
}

fn of_words(words: &[String], line: &str) -> Standing {
    let missing: Vec<String> = words
        .iter()
        .filter(|word| !line.split_whitespace().any(|there| there == *word))
        .cloned()
        .collect();
    if missing.is_empty() {
        Standing::AsWanted
    } else {
        Standing::TakesRestart(missing)
    }
}

/// Returns the value of a file in the form in which it can be written back. For a list of choices,
/// this is the selected choice.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn current(path: &Path) -> std::io::Result<String> {
    let text = text_file(path)?;
    let text = text.trim();
    let chosen = [('[', ']'), ('(', ')')]
        .into_iter()
        .find_map(|(open, close)| text.split_once(open)?.1.split_once(close));
    // Only a text with several words is a list with a selected choice.
    Ok(chosen
        .filter(|_| text.contains(' '))
        .map_or(text, |(chosen, _)| chosen)
        .to_owned())
}

/// Returns the text of a regular file of at most 1 MiB. Bytes that are not UTF-8 are replaced.
fn text_file(path: &Path) -> std::io::Result<String> {
    let bytes = tardy_sys::regular_file::read(path, 1 << 20)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns whether two texts are the same value, apart from blanks and from leading zeros of
/// numbers and masks.
#[must_use]
pub fn is_alike(one: &str, other: &str) -> bool {
    let words = |text: &str| text.split_whitespace().map(plain).collect::<Vec<_>>();
    words(one) == words(other)
}

/// Returns a number or a mask (groups of eight hexadecimal digits) without leading zeros. Other
/// texts, such as a list of CPUs, are returned unchanged.
fn plain(word: &str) -> String {
    let is_hexadecimal = word.chars().all(|c| c.is_ascii_hexdigit() || c == ',');
    let is_number = is_hexadecimal && word.split(',').skip(1).all(|group| group.len() == 8);
    if !is_number {
        return word.to_owned();
    }
    word.replace(',', "").trim_start_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(path: &Path, value: &str) -> Setting {
        let files = BTreeMap::from([(path.to_owned(), value.to_owned())]);
        Setting {
            name: "made".into(),
            why: String::new(),
            files,
            while_on: Vec::new(),
            words: Vec::new(),
            only_named: false,
        }
    }

    #[test]
    fn words_are_on_the_command_line_or_take_a_restart() {
        let words = ["preempt=full", "threadirqs"].map(str::to_owned);
        assert_eq!(
            of_words(&words, "quiet preempt=full threadirqs\n"),
            Standing::AsWanted
        );
        assert_eq!(
            of_words(&words, "preempt=fullest threadirqs"),
            Standing::TakesRestart(vec!["preempt=full".to_owned()])
        );
    }

    #[test]
    fn of_a_list_of_choices_the_chosen_one_is_the_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("enabled");
        for (text, expected) in [
            ("always [madvise] never\n", "madvise"),
            ("none voluntary (full)\n", "full"),
            (
                "[default] performance powersave powersupersave \n",
                "default",
            ),
            ("performance\n", "performance"),
            ("7\t4\t1\t7\n", "7\t4\t1\t7"),
            ("(null)\n", "(null)"),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(current(&path).unwrap(), expected);
        }
    }

    #[test]
    fn one_value_may_be_written_in_several_ways() {
        assert!(
            is_alike("7\t4\t1\t7", "7 4 1 7")
                && is_alike("00000000,00000003", "3")
                && is_alike("0", "00")
        );
        assert!(!is_alike("3", "13") && !is_alike("never", "always") && !is_alike("0", "1"));
        assert!(
            !is_alike("0,2", "2") && !is_alike("0-1", "-1") && is_alike("0,2", "0,2"),
            "lists of CPUs"
        );
    }

    #[test]
    fn a_setting_is_as_wanted_changeable_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        assert!(matches!(
            setting(&path, "1").standing(),
            Standing::Absent(_)
        ));
        std::fs::write(&path, "0\n").unwrap();
        let change = Change {
            path: path.clone(),
            now: "0".into(),
            wanted: "1".into(),
        };
        assert_eq!(
            setting(&path, "1").standing(),
            Standing::Changeable(vec![change])
        );
        std::fs::write(&path, "1\n").unwrap();
        assert_eq!(setting(&path, "1").standing(), Standing::AsWanted);
    }

    #[test]
    fn a_file_is_read_as_it_is_written_and_refused_where_it_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        let all = Settings {
            settings: vec![setting(Path::new("/proc/sys/kernel/x"), "1")],
        };
        std::fs::write(&path, all.to_toml().unwrap()).unwrap();
        assert_eq!(Settings::read(&path).unwrap(), all);
        for (text, expected) in [
            ("[[setting]]\nname = \"a\"\n", "must have one of"),
            (
                "[[setting]]\nname = \"a\"\nwhile_on = [\"true\"]\n[[setting]]\nname = \
                 \"a\"\nwhile_on = [\"true\"]\n",
                "is defined twice",
            ),
            (
                "[[setting]]\nname = \"a\"\nfiles = { \"x\" = \"1\" }\n",
                "does not begin with /",
            ),
            ("[[setting]]\nname = \"a\"\ncolour = 1\n", "unknown field"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Settings::read(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
