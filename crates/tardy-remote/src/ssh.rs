//! OpenSSH's client, which runs each step on a board.
//!
//! tardy runs the client program instead of using a library, because users have already configured
//! it, and trust its keys, agents and jump hosts. Each step is a separate connection: six in all,
//! and one more for each copied file. A shared connection would be faster, but it keeps the
//! standard error of its first step open until the connection is closed. Users who want shared
//! connections have configured OpenSSH for that already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tardy_run::shell;
use tardy_sys::child;

use super::host::Address;

/// Exit code of ssh(1) if it could not reach the machine, or lost it.
pub const UNREACHED: i32 = 255;

/// Settings of the connection.
#[derive(Debug, Clone, Default)]
pub struct Ssh {
    /// Replaces the user's configuration (`ssh -F`).
    pub configuration: Option<PathBuf>,
    /// Whether ssh may ask for a password. ssh must not ask if several machines are used at once.
    pub may_ask: bool,
}

impl Ssh {
    /// Returns a command that runs `line` in a shell on the machine. The command is killed when
    /// this process dies. The command's standard streams are /dev/null until the caller sets them.
    #[must_use]
    pub fn shell(&self, address: &Address, line: &str) -> Command {
        let mut words: Vec<OsString> = vec!["-T".into()];
        if let Some(file) = &self.configuration {
            words.extend(["-F".into(), file.into()]);
        }
        let mut option = |text: &str| words.extend(["-o".into(), text.into()]);
        // With these options, ssh waits for at most a minute for a board that hangs.
        [
            "ConnectTimeout=15",
            "ServerAliveInterval=15",
            "ServerAliveCountMax=4",
        ]
        .into_iter()
        .for_each(&mut option);
        if !self.may_ask {
            option("BatchMode=yes");
        }
        if let Some(port) = address.port {
            words.extend(["-p".into(), port.to_string().into()]);
        }
        if let Some(user) = &address.user {
            words.extend(["-l".into(), user.into()]);
        }
        words.extend(["--".into(), address.host.as_str().into(), line.into()]);
        let mut command = Command::new("ssh");
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        child::kill_with_parent(&mut command);
        // If the terminal closes, ssh keeps running, so that the commands can be stopped early and
        // their results are still copied.
        child::ignore_hang_up(&mut command);
        command
    }

    /// Returns a command that runs a program on the machine. Each word is quoted, no matter what it
    /// contains.
    #[must_use]
    pub fn program<S: AsRef<str>>(&self, address: &Address, words: &[S]) -> Command {
        self.shell(address, &shell::line(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_in_quotes_and_options_are_none_of_the_hosts() {
        let ssh = Ssh {
            configuration: Some("conf".into()),
            may_ask: false,
        };
        let command = ssh.program(
            &"ssh://root@b:22".parse().unwrap(),
            &["tardy", "--label", "note=it's; $(reboot)"],
        );
        let words: Vec<&str> = command
            .get_args()
            .map(|word| word.to_str().unwrap())
            .collect();
        assert_eq!(words[..3], ["-T", "-F", "conf"]);
        assert!(words.contains(&"BatchMode=yes"));
        assert_eq!(
            words[words.len() - 7..],
            [
                "-p",
                "22",
                "-l",
                "root",
                "--",
                "b",
                "tardy --label 'note=it'\\''s; $(reboot)'"
            ]
        );
    }
}
