//! Runs the real binary in a pseudo-terminal, and keeps the screen that a user sees.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use super::machine;
use super::workplace::{PATIENCE, Workplace};

/// O_NOCTTY: the terminal must control the command, not the test.
const NO_CONTROL: i32 = 0o400;

/// A command in its own terminal, killed on drop.
pub(crate) struct InTerminal {
    child: Child,
    path: PathBuf,
    keyboard: std::fs::File,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: Option<JoinHandle<()>>,
}

impl InTerminal {
    /// Starts `tardy` with the words of `line` in a terminal of `columns` and `lines`.
    pub(crate) fn start(place: &Workplace, line: &str, (columns, lines): (u16, u16)) -> Self {
        let (master, path) = tardy_sys::serial::pseudo_terminal().unwrap();
        let stty = stty(
            &path,
            &["cols", &columns.to_string(), "rows", &lines.to_string()],
        );
        assert!(stty.is_empty(), "{stty}");
        let terminal = || {
            Stdio::from(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .custom_flags(NO_CONTROL)
                    .open(&path)
                    .unwrap(),
            )
        };
        let words = ["--ctty", env!("CARGO_BIN_EXE_tardy")]
            .into_iter()
            .chain(line.split_whitespace());
        let mut command = place.prepared(machine::program("setsid", "util-linux"), words);
        command
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        let child = command
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal())
            .spawn()
            .unwrap();
        // Dropping the command closes its copies of the terminal, so the reader ends when the
        // process does.
        drop(command);
        let size = |count| std::num::NonZero::new(count).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(
            size(lines),
            size(columns),
            1000,
        )));
        let mut output = master.try_clone().unwrap();
        let shown = Arc::clone(&screen);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails with EIO after the last process has closed the other end.
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..read]);
            }
        });
        Self {
            child,
            path,
            keyboard: master,
            screen,
            reader: Some(reader),
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The text on the screen.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Whether the live view covers the previous contents of the terminal.
    pub(crate) fn has_view(&self) -> bool {
        self.screen.lock().unwrap().screen().alternate_screen()
    }

    /// Waits until `text` appears, and returns the whole screen.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        self.until_seen(text, |seen| seen.contains(text))
    }

    #[track_caller]
    pub(crate) fn until_seen(&mut self, what: &str, is_seen: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let seen = self.text();
            if is_seen(&seen) {
                return seen;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && start.elapsed() < PATIENCE,
                "no `{what}` ({ended:?}) in\n{seen}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Waits for the command to end and checks that the terminal is restored. Returns the text to
    /// which a user can scroll back.
    #[track_caller]
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        let setting = stty(&self.path, &["-a"]);
        // All processes have closed the terminal, so the reader reaches the end.
        self.reader.take().unwrap().join().unwrap();
        let mut screen = self.screen.lock().unwrap();
        let screen = screen.screen_mut();
        assert!(
            !screen.alternate_screen() && !screen.hide_cursor(),
            "the terminal was not restored:\n{}",
            screen.contents()
        );
        for word in ["icanon", "echo", "isig", "ixon", "icrnl"] {
            assert!(
                setting.split_whitespace().any(|found| found == word),
                "no {word}: {setting}"
            );
        }
        assert!(
            setting.contains("susp = ^Z") && setting.contains("quit = ^\\"),
            "{setting}"
        );
        screen.set_scrollback(usize::MAX);
        let top = screen.contents();
        screen.set_scrollback(0);
        (status, top + "\n" + &screen.contents())
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn stty(path: &Path, words: &[&str]) -> String {
    let output = Command::new("stty")
        .arg("-F")
        .arg(path)
        .args(words)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
