//! Defaults of `tardy run` for a machine and for a user. The machine's file is `/etc/tardy.toml`.
//! The user's file, `~/.config/tardy.toml`, overrides it. Flags override both.
//!
//! ```toml
//! cpus = "1-3"                # the flag --cpus, and so on
//! deadline = "200us"
//!
//! [labels]
//! board = "imx8-07"
//! ```
//! [`keys`] lists the keys that a file may have. Each value is parsed like the value of the flag
//! with the same name. Settings that would change a scenario, such as its period, cannot have a
//! default.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tardy_run::nearest::did_you_mean;
use tardy_run::request::OPTIONS;
use tardy_run::shell::quoted;
use tardy_sys::regular_file;

/// Returns the names of the options that can have a default in a file.
pub fn keys() -> impl Iterator<Item = &'static str> {
    OPTIONS
        .iter()
        .filter(|option| option.definition.is_in_files)
        .map(|option| option.definition.name)
}

/// Name of the table of labels in a file.
const LABELS: &str = "labels";
/// Environment variable that names a file to read instead of the two default files. If it is empty,
/// no file is read.
const VARIABLE: &str = "TARDY_CONFIG";
const MACHINE: &str = "/etc/tardy.toml";
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    #[error("cannot read {path}: {error}")]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{path}: {error}")]
    Malformed {
        path: PathBuf,
        error: Box<toml::de::Error>,
    },
    #[error("{path}: `{key}` is not a key{}: choose from {}, {LABELS}", did_you_mean(key, keys().chain([LABELS])), keys().collect::<Vec<_>>().join(", "))]
    UnknownKey { path: PathBuf, key: String },
    #[error(
        "{path}: {key} is not text or a number: write it as the flag --{key} takes it, as in {key} \
         = \"1-3\""
    )]
    NotAValue { path: PathBuf, key: String },
    #[error("{path}: the label `{name}` is not text or a number: write it as in {name} = \"7\"")]
    NotALabel { path: PathBuf, name: String },
    #[error("{path}: {key}: {reason}")]
    Refused {
        path: PathBuf,
        key: String,
        reason: String,
    },
}

/// A default and the file that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultValue {
    pub value: String,
    pub path: PathBuf,
}

/// The defaults from all configuration files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Defaults of options, by the name of the flag.
    pub flags: BTreeMap<&'static str, DefaultValue>,
    /// Defaults of labels, by the name of the label.
    pub labels: BTreeMap<String, DefaultValue>,
}

impl Configuration {
    /// Reads the files of this machine and this user.
    ///
    /// # Errors
    /// Returns a [`ConfigurationError`] if a file cannot be used. A missing default file sets
    /// nothing; a missing file that `TARDY_CONFIG` names is an error.
    pub fn read() -> Result<Self, ConfigurationError> {
        Self::read_of(paths(), env::var_os(VARIABLE).is_some())
    }

    fn read_of(paths: Vec<PathBuf>, is_named: bool) -> Result<Self, ConfigurationError> {
        let mut configuration = Self::default();
        for path in paths {
            match regular_file::read(&path, FILE_BYTES_MAX) {
                Ok(text) => configuration.take(&path, &String::from_utf8_lossy(&text))?,
                // A missing default file sets nothing. If HOME belongs to another user, as under
                // setpriv(1), the check whether the file exists also fails, and the file is
                // ignored.
                Err(_) if !is_named && fs::symlink_metadata(&path).is_err() => {}
                Err(error) => return Err(ConfigurationError::Unreadable { path, error }),
            }
        }
        Ok(configuration)
    }

    /// Adds the settings of a file, which override earlier ones.
    ///
    /// # Errors
    /// Returns a [`ConfigurationError`] if a file cannot be used.
    pub fn take(&mut self, path: &Path, text: &str) -> Result<(), ConfigurationError> {
        let owned = || path.to_owned();
        let table: toml::Table = text
            .parse()
            .map_err(|error| ConfigurationError::Malformed {
                path: owned(),
                error: Box::new(error),
            })?;
        for (key, value) in table {
            if let (LABELS, toml::Value::Table(labels)) = (key.as_str(), &value) {
                for (name, value) in labels {
                    let value = word(value).ok_or_else(|| ConfigurationError::NotALabel {
                        path: owned(),
                        name: name.clone(),
                    })?;
                    self.labels.insert(
                        name.clone(),
                        DefaultValue {
                            value,
                            path: owned(),
                        },
                    );
                }
                continue;
            }
            let Some(flag) = keys().find(|flag| *flag == key) else {
                return Err(ConfigurationError::UnknownKey { path: owned(), key });
            };
            let value = word(&value).ok_or_else(|| ConfigurationError::NotAValue {
                path: owned(),
                key: key.clone(),
            })?;
            self.flags.insert(
                flag,
                DefaultValue {
                    value,
                    path: owned(),
                },
            );
        }
        Ok(())
    }
}

/// Returns one line for each file. The line lists the settings in `used` that come from this file.
#[must_use]
pub fn sentences<'a>(used: impl IntoIterator<Item = (&'a str, &'a DefaultValue)>) -> Vec<String> {
    let mut by_file: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
    for (flag, default) in used {
        by_file
            .entry(&default.path)
            .or_default()
            .push(format!("--{flag} {}", quoted(&default.value)));
    }
    by_file
        .into_iter()
        .map(|(path, flags)| format!("from {}: {}", path.display(), flags.join(" ")))
        .collect()
}

fn word(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the paths of the files, in increasing order of priority.
fn paths() -> Vec<PathBuf> {
    let given = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if env::var_os(VARIABLE).is_some() {
        return given(VARIABLE).into_iter().collect();
    }
    let user = given("XDG_CONFIG_HOME").or_else(|| Some(given("HOME")?.join(".config")));
    [
        Some(PathBuf::from(MACHINE)),
        user.map(|folder| folder.join("tardy.toml")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_file_that_cannot_be_looked_for_is_none_and_a_named_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("home");
        fs::write(&place, "").unwrap();
        let hidden = || vec![place.join("tardy.toml")];
        assert_eq!(
            regular_file::read(&hidden()[0], 1).unwrap_err().kind(),
            io::ErrorKind::NotADirectory
        );
        assert!(Configuration::read_of(hidden(), false).is_ok());
        assert!(matches!(
            Configuration::read_of(hidden(), true),
            Err(ConfigurationError::Unreadable { .. })
        ));
        assert!(
            Configuration::read_of(vec![folder.path().to_owned()], false).is_err(),
            "an existing file must be readable"
        );
    }

    #[test]
    fn the_users_file_goes_before_the_machines() {
        let mut configuration = Configuration::default();
        configuration
            .take(
                Path::new("/etc/tardy.toml"),
                "cpus = \"1\"\nskipped = 3\n[labels]\nboard = 7\n",
            )
            .unwrap();
        configuration
            .take(Path::new("user.toml"), "cpus = \"2-3\"")
            .unwrap();
        let value = |flag: &str| configuration.flags[flag].value.clone();
        assert_eq!(
            (
                value("cpus"),
                value("skipped"),
                configuration.labels["board"].value.clone()
            ),
            ("2-3".into(), "3".into(), "7".into())
        );
        let used = configuration
            .flags
            .iter()
            .map(|(flag, default)| (*flag, default));
        assert_eq!(
            sentences(used),
            [
                "from /etc/tardy.toml: --skipped 3",
                "from user.toml: --cpus 2-3"
            ]
        );
    }

    #[test]
    fn a_mistyped_key_and_a_value_that_is_none_name_their_file() {
        let said = |text: &str| {
            Configuration::default()
                .take(Path::new("t.toml"), text)
                .unwrap_err()
                .to_string()
        };
        assert!(
            said("cpu = \"1\"").contains("t.toml: `cpu` is not a key (did you mean `cpus`?)"),
            "{}",
            said("cpu = \"1\"")
        );
        assert!(said("cpus = [1]").contains("cpus is not text or a number"));
        assert!(said("cpus = ").contains("t.toml: "));
    }
}
