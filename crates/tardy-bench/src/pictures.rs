//! `cargo xtask pictures`: makes the runs for the documents' pictures, and takes the pictures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tardy_browser::{Browser, Screen};

use crate::example_runs::ExampleRuns;
use crate::failure::{Failure, Result, While};
use crate::figure::{bytes_of, scratch};
use crate::workspace;

/// Maximum size of all pictures together, in bytes.
const BYTES_MAX: u64 = 1_200_000;
/// Size of a page's picture in px: the part that a reader sees first.
const PAGE: Screen = Screen {
    width: 1200,
    height: 900,
    is_dark: false,
};
/// Size of a phone's screen, with dark colours.
const PHONE: Screen = Screen {
    width: 400,
    height: 900,
    is_dark: true,
};
/// Size of an A4 sheet minus margins of 12 mm, at 96 px per inch.
const PAPER: Screen = Screen {
    width: 703,
    height: 1031,
    is_dark: false,
};
/// The live view of a run of 12 s is shown for this time before its picture is taken.
const LIVE_AT: Duration = Duration::from_secs(10);
/// `tardy top` shows a run of 12 s for this time before its picture is taken.
const TOP_AT: Duration = Duration::from_secs(8);

/// The file with the words of each picture.
const WORDS: &str = "words.json";
/// The pictures of terminals, and the minimum share of their words that must be the same on all
/// machines.
const TERMINALS: [&str; 4] = ["live.png", "top.png", "summary.png", "compare.png"];
const TERMINAL_COMMON: f64 = 0.7;

/// Maximum time from the picture of a command to the command's end.
const AFTER_PICTURE: Duration = Duration::from_secs(15);

/// `cargo xtask pictures`.
#[derive(Debug, clap::Args)]
pub(crate) struct PicturesArguments {
    /// Output folder
    #[arg(long, value_name = "FOLDER", default_value = "docs/pictures")]
    out: PathBuf,
    /// Use this binary instead of a new release build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
    /// Compare the text of new pictures with the folder's, and write nothing
    #[arg(long)]
    check: bool,
}

/// Runs the task.
pub(crate) fn run(arguments: &PicturesArguments) -> Result<()> {
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let kept = workspace::root().join(&arguments.out);
    if !arguments.check {
        return make(&tardy, &kept).map(drop);
    }
    let folder = scratch()?;
    let stale = stale(&read_words(&kept)?, &make(&tardy, folder.path())?);
    if stale.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "pictures of {} show other words than today's output, see `cargo xtask pictures`: {}",
        kept.display(),
        stale.join("; ")
    )))
}

/// Makes all pictures in a folder, and returns their words.
fn make(tardy: &Path, out: &Path) -> Result<Words> {
    workspace::make_folder(out)?;
    eprintln!("measuring for about five minutes");
    let mut album = Album {
        runs: ExampleRuns::make(tardy)?,
        out: out.to_owned(),
        words: Words::new(),
    };
    album.terminals()?;
    album.pages()?;
    album.of_lab()?;
    let file = out.join(WORDS);
    let text =
        serde_json::to_string_pretty(&album.words).while_doing(|| "listing words".to_owned())?;
    workspace::write(&file, text + "\n")?;
    let bytes = bytes_of(out)?;
    println!("{}: {:.2} MB", out.display(), bytes as f64 / 1e6);
    if bytes > BYTES_MAX {
        return Err(Failure::new(format!(
            "the pictures are larger than {BYTES_MAX} bytes"
        )));
    }
    Ok(album.words)
}

/// The words of each picture, without digits. For a page, these are its headings and table heads;
/// for a terminal, all text.
type Words = BTreeMap<String, BTreeSet<String>>;

fn read_words(folder: &Path) -> Result<Words> {
    let file = folder.join(WORDS);
    let text = workspace::read(&file)?;
    serde_json::from_str(&text).while_doing(|| format!("reading {}", file.display()))
}

/// Returns the pictures whose words differ from the current ones. Pictures of terminals may differ
/// in some words, which depend on the machine.
fn stale(kept: &Words, today: &Words) -> Vec<String> {
    let names: BTreeSet<&String> = kept.keys().chain(today.keys()).collect();
    let none = BTreeSet::new();
    let is_stale = |name: &&&String| {
        let [old, new] = [kept, today].map(|words| words.get(**name).unwrap_or(&none));
        let common = old.intersection(new).count() as f64;
        let least = if TERMINALS.contains(&name.as_str()) {
            TERMINAL_COMMON
        } else {
            1.0
        };
        common < least * old.len().max(new.len()) as f64
    };
    names
        .iter()
        .filter(is_stale)
        .map(|name| {
            let [old, new] = [kept, today].map(|words| words.get(*name).unwrap_or(&none));
            let differing: Vec<_> = old.symmetric_difference(new).cloned().collect();
            format!("{name} ({})", differing.join(", "))
        })
        .collect()
}

/// The pictures being made.
struct Album {
    runs: ExampleRuns,
    out: PathBuf,
    words: Words,
}

impl Album {
    fn terminals(&mut self) -> Result<()> {
        self.terminal(
            "live.png",
            "tardy run --load hackbench --load io --deadline 10ms --for 12s --out live",
            (100, 30),
            Some(LIVE_AT),
        )?;
        let mut watched = self
            .runs
            .start("run --quiet --load hackbench --load io --for 12s --out watched")?;
        let drawn = self.terminal("top.png", "tardy top watched", (100, 30), Some(TOP_AT));
        // The watched run has a fixed duration, so it ends even if taking the picture fails.
        watched
            .wait()
            .while_doing(|| "waiting for the run that is watched".to_owned())?;
        drawn?;
        self.terminal("summary.png", "tardy show board7", (80, 24), None)?;
        self.terminal(
            "compare.png",
            "tardy compare board7 board7-new",
            (100, 30),
            None,
        )
    }

    fn pages(&mut self) -> Result<()> {
        for (name, runs) in [
            ("report.png", &["board7"][..]),
            ("comparison.png", &["board7", "board7-new"]),
        ] {
            let page = self.runs.report(runs)?;
            self.page(name, &page, Look::of(PAGE, &[]))?;
        }
        self.runs
            .tardy("plot board7 --kind heatmap --scale 1 -o heatmap.png")?;
        let heat_map = self.runs.folder().join("heatmap.png");
        std::fs::copy(heat_map, self.out.join("heatmap.png"))
            .while_doing(|| "keeping the heat map".to_owned())?;
        let page = self.runs.report(&["board7"])?;
        self.page("phone.png", &page, Look::of(PHONE, &[]))?;
        let page = self.runs.report(&["board7", "board7-new"])?;
        let printed = Look {
            is_printed: true,
            ..Look::of(PAPER, &[])
        };
        self.page("printed.png", &page, printed)
    }

    /// Makes the pictures of runs in the lab, which use virtual time: the explanation of the worst
    /// sample, the kernel's functions before late samples, and an atlas.
    fn of_lab(&mut self) -> Result<()> {
        self.runs.tardy(
            "lab run --kernel debian:6.1 --preempt none --load hackbench --load reclaim --for 2s \
             --watch --out kernels",
        )?;
        let page = self.runs.report(&["kernels/6.1-none/replica-000"])?;
        self.page("late.png", &page, Look::of(PAGE, &[".late"]))?;
        self.page("flames.png", &page, Look::of(PAGE, &["svg.flames"]))?;
        self.runs.tardy(
            "lab atlas --kernel debian:6.1 --kernel debian:6.1-rt --load none --load hackbench \
             --load reclaim --load io --for 1s --replicas 4 --out atlas",
        )?;
        let page = self.runs.folder().join("atlas/atlas.html");
        self.page(
            "atlas.png",
            &page,
            Look::of(PAGE, &["table.map", "p.legend"]),
        )
    }

    /// Takes a picture of a terminal with the output of a command. If `until` is given, the picture
    /// shows the command's view after that time; otherwise it shows the output when the command has
    /// ended.
    fn terminal(
        &mut self,
        name: &str,
        line: &str,
        size: (u16, u16),
        until: Option<Duration>,
    ) -> Result<()> {
        let page = terminal(&self.runs, line, size, until)?;
        self.page(name, &page, Look::of(PAGE, &["pre.terminal"]))
    }

    fn page(&mut self, name: &str, page: &Path, look: Look) -> Result<()> {
        let words = picture(page, look, &self.out.join(name))?;
        self.words.insert(name.to_owned(), words);
        Ok(())
    }
}

/// Which part of a page a picture shows, and on which screen.
#[derive(Debug, Clone, Copy)]
struct Look {
    screen: Screen,
    /// Selectors of elements. The picture shows the first element that each selector finds. If
    /// there are no selectors, it shows the first screen of the page.
    elements: &'static [&'static str],
    is_printed: bool,
}

impl Look {
    fn of(screen: Screen, elements: &'static [&'static str]) -> Self {
        Self {
            screen,
            elements,
            is_printed: false,
        }
    }
}

/// Takes a picture of the page as PNG, and returns the words that it shows. If the picture shows
/// the first screen, the words of the whole page are returned. The headline contains measured
/// numbers, and its length decides which headings are on the screen.
fn picture(page: &Path, look: Look, out: &Path) -> Result<BTreeSet<String>> {
    let mut browser = Browser::open(page, look.screen);
    if look.is_printed {
        browser.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
        browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    }
    browser.settle();
    let screen = json!([0, 0, look.screen.width, look.screen.height]);
    let seen = browser.evaluate(&format!(
        "(() => {{ const es = {elements}.map((s) => document.querySelector(s)); for (const e of es) \
         for (const d of e.querySelectorAll('details')) d.open = true; const rs = es.map((e) => \
         e.getBoundingClientRect()), box = es.length ? [Math.min(...rs.map((r) => r.left)), \
         Math.min(...rs.map((r) => r.top)), Math.max(...rs.map((r) => r.right)), \
         Math.max(...rs.map((r) => r.bottom))] : {screen}; const words = \
         [...document.querySelectorAll('h1,h2,h3,th,pre.terminal')].filter((e) => {{ const r = \
         e.getBoundingClientRect(); return r.width && (!es.length || r.top >= box[1] - 1 && \
         r.bottom <= box[3] + 1); }}).map((e) => e.textContent); return [box, words]; }})()",
        elements = json!(look.elements),
    ));
    let edge = |place: usize| seen[0][place].as_f64().unwrap_or(0.0);
    let (left, top) = (edge(0).floor().max(0.0), edge(1).floor().max(0.0));
    let clip = json!({"x": left, "y": top, "width": edge(2).ceil() - left, "height": edge(3).ceil() - top, "scale": 1});
    let answer = browser.call(
        "Page.captureScreenshot",
        json!({"captureBeyondViewport": true, "clip": clip}),
    );
    let bytes = STANDARD
        .decode(answer["data"].as_str().unwrap_or_default())
        .while_doing(|| "reading the browser's picture".to_owned())?;
    workspace::write(out, bytes)?;
    println!("{}", out.display());
    let texts = seen[1].as_array().into_iter().flatten();
    Ok(texts
        .filter_map(|text| text.as_str())
        .flat_map(words)
        .collect())
}

/// Returns the words with at least three letters.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphabetic())
        .filter(|word| word.len() > 2)
        .map(str::to_owned)
}

/// Returns a page that shows a terminal of this size with the output of a command. If `until` is
/// given, the page shows the command's view after that time; otherwise, it shows the output when
/// the command has ended.
fn terminal(
    runs: &ExampleRuns,
    line: &str,
    (columns, lines): (u16, u16),
    until: Option<Duration>,
) -> Result<PathBuf> {
    let size = |count| NonZero::new(count).expect("a terminal has a size");
    let mut parser = vt100::Parser::new(size(lines), size(columns), 0);
    // A view of another process's run does not end by itself, so the command gets a time limit.
    let limit = until.map_or_else(String::new, |until| {
        format!(
            "timeout --foreground {} ",
            (until + AFTER_PICTURE).as_secs()
        )
    });
    let script = format!("stty cols {columns} rows {lines}; {limit}{line}");
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--command", &script, "/dev/null"])
        .current_dir(runs.folder());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = runs
        .program()
        .parent()
        .map(Path::to_owned)
        .into_iter()
        .chain(std::env::split_paths(&path));
    command.env(
        "PATH",
        std::env::join_paths(folders).while_doing(|| "setting PATH".to_owned())?,
    );
    command
        .env("TERM", "xterm-256color")
        .env("LC_ALL", "C.UTF-8")
        .env("TARDY_CONFIG", "")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .while_doing(|| "starting script of bsdutils".to_owned())?;
    let mut output = child.stdout.take().expect("it is a pipe");
    let (mut begin, mut bytes, mut page) = (None, [0; 4096], None);
    parser.process(format!("\x1b[1m$ {line}\x1b[0m\r\n").as_bytes());
    while let Ok(count @ 1..) = output.read(&mut bytes) {
        parser.process(&bytes[..count]);
        // The time starts when the view takes over the whole terminal, so the command's preparation
        // does not count.
        if begin.is_none() && parser.screen().alternate_screen() {
            begin = Some(Instant::now());
        }
        let age = begin.map(|begin: Instant| begin.elapsed());
        if page.is_none() && until.zip(age).is_some_and(|(until, age)| age >= until) {
            page = Some(html(parser.screen(), (columns, lines)));
        }
    }
    child
        .wait()
        .while_doing(|| "waiting for script".to_owned())?;
    let page = page.unwrap_or_else(|| html(parser.screen(), (columns, lines)));
    let path = runs.folder().join("terminal.html");
    workspace::write(&path, page)?;
    Ok(path)
}

fn html(screen: &vt100::Screen, (columns, lines): (u16, u16)) -> String {
    let mut out = String::from(
        "<!doctype html><meta \
         charset=utf-8><style>body{margin:0}pre{margin:0;display:inline-block;padding:12px;\
         background:#16181d;color:#d7dae0;font:14px/1.25 'DejaVu Sans \
         Mono',monospace}span{display:inline-block;height:1.25em}</style><pre class=terminal>",
    );
    // Empty lines at the bottom are left out.
    let has_text = |row: &u16| {
        (0..columns).any(|column| {
            screen
                .cell(*row, column)
                .is_some_and(|cell| !cell.contents().trim().is_empty())
        })
    };
    let used = (0..lines).rev().find(has_text).map_or(0, |row| row + 1);
    for row in 0..used {
        for column in 0..columns {
            let Some(cell) = screen.cell(row, column) else {
                continue;
            };
            let (mut front, mut back) = (
                color(cell.fgcolor(), "#d7dae0"),
                color(cell.bgcolor(), "transparent"),
            );
            if cell.inverse() {
                (front, back) = (
                    color(cell.bgcolor(), "#16181d"),
                    color(cell.fgcolor(), "#d7dae0"),
                );
            }
            let weight = if cell.bold() { ";font-weight:bold" } else { "" };
            let dim = if cell.dim() { ";opacity:.6" } else { "" };
            let text = match cell.contents() {
                "" | " " => "&#160;".to_owned(),
                "<" => "&lt;".to_owned(),
                "&" => "&amp;".to_owned(),
                text => text.to_owned(),
            };
            let _ = write!(
                out,
                "<span style='color:{front};background:{back}{weight}{dim}'>{text}</span>"
            );
        }
        out.push('\n');
    }
    out + "</pre>"
}

/// The first sixteen colours, with the values that most terminals use.
const COLORS: [&str; 16] = [
    "#16181d", "#e06c75", "#98c379", "#d8b06a", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
    "#6b7280", "#ef7d86", "#a9d48a", "#e9c17b", "#72c0ff", "#d789ee", "#67c7d3", "#ffffff",
];

/// Returns a colour of the terminal. tardy uses only the first sixteen.
fn color(color: vt100::Color, default: &str) -> &str {
    match color {
        vt100::Color::Idx(index @ 0..16) => COLORS[usize::from(index)],
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_heading_makes_a_picture_stale_and_a_terminals_warning_does_not() {
        let of = |report: &str, live: &str| -> Words {
            let entry = |name: &str, text| (name.to_owned(), words(text).collect());
            [entry("report.png", report), entry("live.png", live)].into()
        };
        let kept = of("Late samples by cause", "one two three four five");
        assert_eq!(stale(&kept, &kept), [""; 0]);
        let today = of("Late samples by cause", "one two three four five warned");
        assert_eq!(stale(&kept, &today), [""; 0]);
        let renamed = stale(&kept, &of("Causes of late samples", "nothing"));
        assert_eq!(renamed.len(), 2);
        assert_eq!(renamed[1], "report.png (Causes, Late, cause, late)");
    }

    #[test]
    fn a_terminal_keeps_its_colours_and_its_places() {
        let size = |count| NonZero::new(count).unwrap();
        let mut parser = vt100::Parser::new(size(3), size(10), 0);
        parser.process(b"\x1b[31mred\x1b[0m <b>\r\n\x1b[7mx");
        let page = html(parser.screen(), (10, 3));
        assert!(
            page.contains("<span style='color:#e06c75;background:transparent'>r</span>"),
            "{page}"
        );
        assert!(
            page.contains(">&lt;</span>") && page.contains("color:#16181d;background:#d7dae0'>x"),
            "{page}"
        );
        assert_eq!(page.matches("<span").count(), 20, "the third line is empty");
    }
}
