//! Parses addresses of machines: `ssh://[USER@]HOST[:PORT]`, alone or as lines of a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tardy_sys::regular_file;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// The address of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name that OpenSSH resolves through its configuration or the network, or an IP address.
    pub host: String,
    pub user: Option<String>,
    pub port: Option<u16>,
}

/// A machine, and the name of its folder and of its rows in tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub address: Address,
}

/// The error for a text that is not the address of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the address of a machine: write it as in ssh://root@board7 or \
         ssh://root@board7:2222"
)]
pub struct ParseAddressError(String);

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let refused = || ParseAddressError(text.to_owned());
        let rest = text.strip_prefix("ssh://").ok_or_else(refused)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, rest) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(user, rest)| (Some(user), rest));
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            // An IPv6 address is in brackets, because it contains colons.
            Some((host, behind)) => (
                host,
                behind
                    .strip_prefix(':')
                    .or_else(|| behind.is_empty().then_some("")),
            ),
            None => rest
                .split_once(':')
                .map_or((rest, Some("")), |(host, port)| (host, Some(port))),
        };
        let port = match port.ok_or_else(refused)? {
            "" if !rest.ends_with(':') => None,
            port => Some(
                port.parse::<u16>()
                    .ok()
                    .filter(|&port| port > 0)
                    .ok_or_else(refused)?,
            ),
        };
        // ssh would mistake a name with a leading dash for an option. A host or user name contains
        // no shell syntax.
        let is_name = |text: &str| {
            !text.is_empty()
                && !text.starts_with('-')
                && text
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "._-:%".contains(letter))
        };
        if !is_name(host) || user.is_some_and(|user| !is_name(user)) {
            return Err(refused());
        }
        Ok(Self {
            host: host.to_owned(),
            user: user.map(ToOwned::to_owned),
            port,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ssh://")?;
        if let Some(user) = &self.user {
            write!(formatter, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(formatter, "[{}]", self.host)
        } else {
            formatter.write_str(&self.host)
        }?;
        self.port
            .map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

/// The address of one machine, or a file with a list of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Machine(Address),
    /// A file with one machine per line: its address, optionally preceded by a name; `#` starts a
    /// comment.
    List(PathBuf),
}

impl FromStr for Place {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        if text.contains("://") {
            text.parse().map(Self::Machine)
        } else {
            Ok(Self::List(PathBuf::from(text)))
        }
    }
}

/// Why a list of machines cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error(
        "{0}: {1}: give a machine, such as ssh://root@board7, or a file with one machine per line"
    )]
    Unreadable(PathBuf, std::io::Error),
    #[error("{path}, line {line}: {error}")]
    Malformed {
        path: PathBuf,
        line: usize,
        error: ParseAddressError,
    },
    #[error(
        "{path}, line {line}: a line is an address, or a name and an address, as in `board7 \
         ssh://root@10.0.0.7`"
    )]
    TooManyWords { path: PathBuf, line: usize },
    #[error(
        "{path}, line {line}: `{name}` cannot name a folder: use letters, digits, dots, dashes and \
         underscores"
    )]
    BadName {
        path: PathBuf,
        line: usize,
        name: String,
    },
    #[error("{0} lists no machine")]
    Empty(PathBuf),
    #[error(
        "two machines are called {0}: name them differently in a file, as in `board7 \
         ssh://root@10.0.0.7`"
    )]
    Twice(String),
}

/// Returns all machines of `places`, each with a unique name.
///
/// # Errors
/// Returns a [`ListError`] if a list cannot be read.
pub fn all(places: &[Place]) -> Result<Vec<Host>, ListError> {
    let mut hosts = Vec::new();
    for place in places {
        match place {
            Place::Machine(address) => hosts.push(Host {
                name: name_of(address),
                address: address.clone(),
            }),
            Place::List(path) => hosts.extend(listed(path)?),
        }
    }
    // Addresses with the same host but different ports are different machines, such as guests or
    // boards behind a gateway.
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    for host in &mut hosts {
        if names.iter().filter(|name| **name == host.name).count() > 1
            && let (Some(port), true) = (host.address.port, host.name == name_of(&host.address))
        {
            host.name = format!("{}-{port}", host.name);
        }
    }
    match hosts
        .iter()
        .enumerate()
        .find(|(index, host)| hosts[..*index].iter().any(|other| other.name == host.name))
    {
        Some((_, host)) => Err(ListError::Twice(host.name.clone())),
        None => Ok(hosts),
    }
}

fn name_of(address: &Address) -> String {
    address
        .host
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || "._-".contains(letter) {
                letter
            } else {
                '_'
            }
        })
        .collect()
}

fn listed(path: &Path) -> Result<Vec<Host>, ListError> {
    let bytes = regular_file::read(path, FILE_BYTES_MAX)
        .map_err(|error| ListError::Unreadable(path.to_owned(), error))?;
    let mut hosts = Vec::new();
    for (index, text) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let (path, line) = (path.to_owned(), index + 1);
        let words: Vec<&str> = text
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let (name, address) = match words.as_slice() {
            [] => continue,
            [address] => (None, address),
            [name, address] => (Some(*name), address),
            _ => return Err(ListError::TooManyWords { path, line }),
        };
        let address: Address = address.parse().map_err(|error| ListError::Malformed {
            path: path.clone(),
            line,
            error,
        })?;
        let name = match name {
            None => name_of(&address),
            Some(name)
                if name.starts_with(['.', '-'])
                    || name.chars().any(|letter| {
                        !letter.is_ascii_alphanumeric() && !"._-".contains(letter)
                    }) =>
            {
                return Err(ListError::BadName {
                    path,
                    line,
                    name: name.to_owned(),
                });
            }
            Some(name) => name.to_owned(),
        };
        hosts.push(Host { name, address });
    }
    if hosts.is_empty() {
        Err(ListError::Empty(path.to_owned()))
    } else {
        Ok(hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn an_address_has_host_and_perhaps_user_and_port() {
        let written = [
            "ssh://board7",
            "ssh://root@board7",
            "ssh://root@10.0.0.7:2222",
            "ssh://root@[fe80::1%eth0]:22",
        ];
        assert_eq!(written.map(|text| address(text).to_string()), written);
        let full = address("ssh://root@board7:2222/");
        assert_eq!(
            (full.host.as_str(), full.user.as_deref(), full.port),
            ("board7", Some("root"), Some(2222))
        );
    }

    #[test]
    fn what_ssh_or_a_shell_would_take_apart_is_no_address() {
        for text in [
            "board7",
            "ssh://",
            "ssh://@b",
            "ssh://-oProxyCommand=x",
            "ssh://-l@b",
            "ssh://b;reboot",
            "ssh://$(reboot)",
            "ssh://a b",
            "ssh://b:0",
            "ssh://b:x",
            "ssh://b:",
            "ssh://b/path",
            "ssh://[::1",
            "http://b",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_has_names_and_comments_and_what_is_wrong_has_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boards");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            all(&[Place::List(path.clone())])
        };
        let hosts = read(
            "# the rack\n\narm1 ssh://root@10.0.0.7   # \
             above\nssh://x86\nssh://gate:1\nssh://gate:2\n",
        )
        .unwrap();
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["arm1", "x86", "gate-1", "gate-2"]);
        for (text, said) in [
            ("", "lists no machine"),
            ("a b ssh://c", "line 1: a line is"),
            ("\n../x ssh://c", "line 2: `../x` cannot name"),
            ("ssh://a\nnothing", "line 2: `nothing` is not the address"),
            ("ssh://a\nssh://a", "two machines are called a"),
        ] {
            assert!(read(text).unwrap_err().to_string().contains(said), "{text}");
        }
    }
}
