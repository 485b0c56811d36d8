//! A QEMU process that the host controls with the QEMU machine protocol
//! (docs/interop/qmp-spec.txt), over the process's standard input and output.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tardy_sys::child::kill_with_parent;
use tardy_sys::scoped;

use super::BootEnd;

/// The options with which QEMU offers the protocol.
pub(super) const OPTIONS: [&str; 4] = [
    "-chardev",
    "stdio,id=control,signal=off",
    "-mon",
    "chardev=control,mode=control",
];

/// Why a command to QEMU failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The process has ended.
    #[error("QEMU has ended")]
    Ended,
    /// The time limit on the host's clock has passed.
    #[error("the time limit on the host has expired")]
    WallLimit,
    /// QEMU refused the command.
    #[error("QEMU refused `{command}`: {message}")]
    Refused {
        command: String,
        /// QEMU's error message.
        message: String,
    },
    /// The answer does not follow QEMU's protocol.
    #[error("QEMU answered `{0}`")]
    Answer(String),
    /// QEMU could not be started, or its input could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The QEMU process, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct QemuProcess {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// Names of the events that arrived while the host waited for something else.
    events: Vec<String>,
    deadline: Instant,
}

impl QemuProcess {
    /// Starts `command`, whose arguments must include [`OPTIONS`]. After the deadline,
    /// [`Self::wait_for_end`] returns [`BootEnd::WallLimit`], and the other methods fail with
    /// [`ControlError::WallLimit`].
    pub(crate) fn start(command: &mut Command, deadline: Instant) -> Result<Self, ControlError> {
        // The process gets its own process group: Ctrl-C on the terminal must interrupt this
        // program or gdb, but not QEMU.
        command.process_group(0);
        let mut child =
            kill_with_parent(command.stdin(Stdio::piped()).stdout(Stdio::piped())).spawn()?;
        let piped = || io::Error::other("the child has no pipe");
        let input = child.stdin.take().ok_or_else(piped)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(piped)?);
        let (sender, messages) = channel();
        // The thread ends when the process ends, because that closes the process's standard output.
        let listener = std::thread::Builder::new().spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut controlled = Self {
            child,
            input,
            messages,
            events: Vec::new(),
            deadline,
        };
        listener.map_err(scoped::refused)?;
        controlled.next()?;
        controlled.execute("qmp_capabilities", json!({}))?;
        Ok(controlled)
    }

    /// Executes a command and returns its result.
    pub(crate) fn execute(
        &mut self,
        command: &str,
        arguments: Value,
    ) -> Result<Value, ControlError> {
        let line = json!({"execute": command, "arguments": arguments});
        // If writing fails, the process has probably ended. In this case, QEMU has written the
        // reason to its standard error.
        writeln!(self.input, "{line}")
            .and_then(|()| self.input.flush())
            .map_err(|_| ControlError::Ended)?;
        loop {
            let mut message = self.next()?;
            if let Some(result) = message.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = message.get("error") {
                let message = error["desc"].as_str().unwrap_or_default().to_owned();
                return Err(ControlError::Refused {
                    command: command.to_owned(),
                    message,
                });
            }
        }
    }

    /// Waits for one of these events.
    pub(crate) fn wait_for_event(&mut self, names: &[&str]) -> Result<(), ControlError> {
        loop {
            if self.had_event(names) {
                return Ok(());
            }
            self.next()?;
        }
    }

    /// Sends `command` every few milliseconds, until the field `field` of the answer has a value
    /// that is not in `passing`. Returns the field. The machine must be stopped meanwhile, because
    /// QEMU needs time to answer each command.
    pub(crate) fn wait_while(
        &mut self,
        command: &str,
        field: &str,
        passing: &[&str],
    ) -> Result<String, ControlError> {
        const ASK_EVERY: Duration = Duration::from_millis(3);
        loop {
            let answer = self.execute(command, json!({}))?;
            // `query-migrate` returns an empty answer before the migration starts.
            let value = answer[field].as_str().unwrap_or_default();
            if !value.is_empty() && !passing.contains(&value) {
                return Ok(value.to_owned());
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Waits until the process ends. Ends the process when the deadline passes, or when one of the
    /// events `stopping` arrives.
    pub(crate) fn wait_for_end(mut self, stopping: &[&str]) -> Result<BootEnd, ControlError> {
        let end = loop {
            match self.next() {
                Ok(_) if self.had_event(stopping) => break BootEnd::Stopped,
                Ok(_) => {}
                Err(ControlError::Ended) => return Ok(BootEnd::Exited(self.child.wait()?)),
                Err(ControlError::WallLimit) => break BootEnd::WallLimit,
                Err(error) => return Err(error),
            }
        };
        // The process ends here, because `self` is dropped.
        Ok(end)
    }

    fn had_event(&mut self, names: &[&str]) -> bool {
        let found = self
            .events
            .iter()
            .position(|event| names.contains(&event.as_str()));
        found.map(|index| self.events.remove(index)).is_some()
    }

    /// Returns the next message from QEMU. If the message is an event, also stores the name of the
    /// event.
    fn next(&mut self) -> Result<Value, ControlError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let message = match self.messages.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return Err(ControlError::WallLimit),
            Err(RecvTimeoutError::Disconnected) => return Err(ControlError::Ended),
        };
        if let Value::String(text) = message {
            return Err(ControlError::Answer(text));
        }
        if let Some(event) = message["event"].as_str() {
            self.events.push(event.to_owned());
        }
        Ok(message)
    }
}

impl Drop for QemuProcess {
    fn drop(&mut self) {
        // Kills this process only, which may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a shell instead of QEMU.
    fn machine(script: &str, limit: Duration) -> Result<QemuProcess, ControlError> {
        let greeting = r#"echo '{"QMP": {}}'; read line; echo '{"return": {}}'; "#;
        QemuProcess::start(
            Command::new("sh").args(["-c", &format!("{greeting}{script}")]),
            Instant::now() + limit,
        )
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn commands_are_answered_and_events_on_the_way_are_kept() {
        let script = r#"read line; echo '{"event": "STOP"}'; echo '{"return": {"status": "paused"}}'; read line; echo '{"error": {"desc": "no"}}'"#;
        let mut machine = machine(script, LONG).unwrap();
        assert_eq!(
            machine
                .wait_while("query-status", "status", &["inmigrate"])
                .unwrap(),
            "paused"
        );
        machine.wait_for_event(&["STOP"]).unwrap();
        let refused = machine.execute("cont", json!({})).unwrap_err();
        assert!(
            matches!(&refused, ControlError::Refused { message, .. } if message == "no"),
            "{refused}"
        );
        assert!(
            matches!(machine.wait_for_end(&[]).unwrap(), BootEnd::Exited(status) if status.success())
        );
    }

    #[test]
    fn a_machine_that_hangs_is_ended_at_the_limit_and_one_that_stops_at_once() {
        let machine_hangs = machine("exec sleep 600", Duration::from_millis(300)).unwrap();
        assert_eq!(machine_hangs.wait_for_end(&[]).unwrap(), BootEnd::WallLimit);
        let machine_stops = machine(
            r#"echo '{"event": "GUEST_PANICKED"}'; exec sleep 600"#,
            LONG,
        )
        .unwrap();
        assert_eq!(
            machine_stops.wait_for_end(&["GUEST_PANICKED"]).unwrap(),
            BootEnd::Stopped
        );
    }

    #[test]
    fn what_is_no_message_and_a_process_that_ends_are_errors() {
        let mut wrong = machine("read line; echo hello", LONG).unwrap();
        assert!(matches!(
            wrong.execute("cont", json!({})),
            Err(ControlError::Answer(_))
        ));
        let ended = machine("exit 0", LONG).unwrap().execute("cont", json!({}));
        assert!(matches!(ended, Err(ControlError::Ended)));
    }
}
