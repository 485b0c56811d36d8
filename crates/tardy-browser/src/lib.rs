//! Headless Chromium for tests and benchmarks of reports. Tests control Chromium by its DevTools
//! protocol over a pair of pipes, without a port or a driver program.
//!
//! Functions panic instead of returning errors: a test or a benchmark ends when the browser does
//! something unexpected.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where something is not as expected"
)]
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Time limit for each message of the browser, far above the time that a message usually takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a separate browser; dropping the value closes both.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    next: u64,
    session: String,
    /// Events and messages that the page has sent, in order.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// Size and appearance of the screen.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Width in px.
    pub width: u32,
    /// Height in px.
    pub height: u32,
    /// Whether pages use the dark theme.
    pub is_dark: bool,
}

impl Screen {
    /// The screen of a desktop, with the light theme.
    pub const DESK: Self = Self {
        width: 1280,
        height: 900,
        is_dark: false,
    };
    /// The screen of a phone, with the dark theme.
    pub const PHONE: Self = Self {
        width: 360,
        height: 740,
        is_dark: true,
    };
}

impl Browser {
    /// Starts a browser, opens `file`, and waits until the page is loaded.
    pub fn open(file: &Path, screen: Screen) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let pipe = |name: &str| profile.path().join(name);
        let status = Command::new("mkfifo")
            .args([pipe("in"), pipe("out")])
            .status()
            .unwrap();
        assert!(status.success());
        // The protocol's pipes are the descriptors 3 and 4. Without unsafe code, a program cannot
        // open these descriptors for a child; a shell can, so a shell starts Chromium. Chromium
        // refuses to start as root unless its sandbox is switched off.
        let line = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
                    --no-first-run --disable-extensions --hide-scrollbars --remote-debugging-pipe \
                    --user-data-dir=\"$0/profile\" about:blank 3<\"$0/in\" 4>\"$0/out\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .arg(profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Chromium writes files below HOME.
        command.env("HOME", profile.path());
        let child = command.spawn().unwrap();
        let commands = File::options().write(true).open(pipe("in")).unwrap();
        let answers = BufReader::new(File::open(pipe("out")).unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                if sender
                    .send(serde_json::from_slice(&message).unwrap())
                    .is_err()
                {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            commands,
            messages,
            next: 0,
            session: String::new(),
            events: Vec::new(),
            _profile: profile,
        };
        let target =
            browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target, "flatten": true}),
        );
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let scheme = if screen.is_dark { "dark" } else { "light" };
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        let metrics = json!({"width": screen.width, "height": screen.height, "deviceScaleFactor": 1, "mobile": screen.width < 500});
        browser.call("Emulation.setDeviceMetricsOverride", metrics);
        // The path is percent-encoded, because names of folders may contain any character.
        let encode = |byte: &u8| {
            if byte.is_ascii_alphanumeric() || b"/-_.".contains(byte) {
                (*byte as char).to_string()
            } else {
                format!("%{byte:02x}")
            }
        };
        let path: String = file
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .map(encode)
            .collect();
        browser.call("Page.navigate", json!({"url": format!("file://{path}")}));
        browser.wait_for("Page.loadEventFired");
        browser
    }

    /// Calls a method of the protocol, and returns the browser's answer. Messages that arrive
    /// before the answer are added to `events`.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.commands
            .write_all(message.to_string().as_bytes())
            .unwrap();
        self.commands.write_all(&[0]).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.next {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    #[track_caller]
    fn receive(&mut self) -> Value {
        self.messages
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| {
                panic!(
                    "chromium does not answer ({error}): is the package `chromium` installed? \
                     `cargo xtask test` installs it"
                )
            })
    }

    fn wait_for(&mut self, event: &str) {
        while !self.events.iter().any(|known| known["method"] == event) {
            let message = self.receive();
            self.events.push(message);
        }
    }

    /// Evaluates an expression in the page, and returns its value.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Waits until the page has drawn two frames; then all earlier changes are visible.
    pub fn settle(&mut self) {
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => \
             done(1))))",
        );
    }

    /// Scrolls the first visible element that the selector finds into view, and returns a point in
    /// it. `x` and `y` are fractions of the element's width and height, from its upper left corner.
    #[track_caller]
    pub fn point(&mut self, selector: &str, x: f64, y: f64) -> (f64, f64) {
        let script = format!(
            "(() => {{ const e = [...document.querySelectorAll({selector:?})].find((e) => \
             e.getClientRects().length > 0); e.scrollIntoView({{block: 'center', behavior: \
             'instant'}}); const b = e.getBoundingClientRect(); return [b.left + {x} * b.width, \
             b.top + {y} * b.height]; }})()"
        );
        let point = self.evaluate(&script);
        (point[0].as_f64().unwrap(), point[1].as_f64().unwrap())
    }

    /// Presses, releases or moves the mouse. `kind` is the protocol's name of the event.
    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let buttons = u8::from(kind != "mouseReleased");
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        self.call("Input.dispatchMouseEvent", json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1}));
    }

    /// Moves the mouse to a point, and waits until the page has reacted.
    pub fn hover(&mut self, (x, y): (f64, f64)) {
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": "mouseMoved", "x": x, "y": y}),
        );
        self.settle();
    }

    /// Clicks the first visible element that matches the selector.
    pub fn click(&mut self, selector: &str) {
        let point = self.point(selector, 0.5, 0.5);
        self.mouse("mousePressed", point);
        self.mouse("mouseReleased", point);
        self.settle();
    }

    /// Drags from one point to another.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.mouse("mousePressed", from);
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": "mouseMoved", "x": to.0, "y": to.1, "button": "left", "buttons": 1}),
        );
        self.mouse("mouseReleased", to);
        self.settle();
    }

    /// Presses and releases a key.
    pub fn key(&mut self, key: &str) {
        let text = if key.len() == 1 { key } else { "" };
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyDown", "key": key, "text": text}),
        );
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key}),
        );
        self.settle();
    }

    /// Returns errors and warnings that the page printed or threw, and messages about scripts that
    /// the page's own security policy blocked.
    pub fn errors(&mut self) -> Vec<Value> {
        self.settle();
        let is_error = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => matches!(
                event["params"]["type"].as_str(),
                Some("error" | "warning" | "assert")
            ),
            Some("Log.entryAdded") => matches!(
                event["params"]["entry"]["level"].as_str(),
                Some("error" | "warning")
            ),
            _ => false,
        };
        self.events.iter().filter(is_error).cloned().collect()
    }

    /// Returns the addresses that the page requested.
    pub fn requests(&mut self) -> Vec<String> {
        self.settle();
        let requests = self
            .events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent");
        requests
            .map(|event| {
                event["params"]["request"]["url"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }

    /// Stores a screenshot of the whole page as PNG in base64, in the folder that the environment
    /// variable TARDY_TEST_SCREENSHOTS names, so that people can look at it. Does nothing if the
    /// variable is not set.
    pub fn screenshot(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("TARDY_TEST_SCREENSHOTS") else {
            return;
        };
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip =
            json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let picture = self.call(
            "Page.captureScreenshot",
            json!({"captureBeyondViewport": true, "clip": clip}),
        );
        let file = Path::new(&folder).join(format!("{name}.png.base64"));
        std::fs::write(file, picture["data"].as_str().unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
