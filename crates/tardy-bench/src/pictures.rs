//! `cargo xtask pictures`: the pictures of the documents, of runs that are made for them.

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
use crate::workspace;

/// Pictures are to be small: all of them together, in bytes.
const BYTES_MAX: u64 = 1_200_000;
/// Height of a page's picture in px: what is seen first.
const PAGE: Screen = Screen {
    width: 1200,
    height: 900,
    is_dark: false,
};
/// A phone, dark.
const PHONE: Screen = Screen {
    width: 400,
    height: 900,
    is_dark: true,
};
/// A sheet of A4 without its margins of 12 mm, at 96 px to the inch.
const PAPER: Screen = Screen {
    width: 703,
    height: 1031,
    is_dark: false,
};
/// When the live view is pictured, in s of its 12.
const LIVE_AT: Duration = Duration::from_secs(10);
/// When the view of another process's run is pictured, in s of that run's 12.
const TOP_AT: Duration = Duration::from_secs(8);

/// How long a command that is pictured meanwhile may go on.
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
}

/// Runs the task.
pub(crate) fn run(arguments: &PicturesArguments) -> Result<()> {
    let tardy = match &arguments.tardy {
        Some(binary) => binary
            .canonicalize()
            .while_doing(|| format!("looking for {}", binary.display()))?,
        None => workspace::build_tardy()?,
    };
    let out = workspace::root().join(&arguments.out);
    std::fs::create_dir_all(&out).while_doing(|| format!("making {}", out.display()))?;
    eprintln!("measuring for about a minute");
    let runs = ExampleRuns::make(&tardy)?;
    let terminal = |name: &str, line: &str, size, until| {
        terminal(&runs, line, size, until)
            .and_then(|page| picture(&page, Look::screen(PAGE, None), &out.join(name)))
    };
    terminal(
        "live.png",
        "tardy run --load hackbench --load io --deadline 10ms --for 12s --out live",
        (100, 30),
        Some(LIVE_AT),
    )?;
    let mut watched = runs.start(&[
        "run",
        "--quiet",
        "--load",
        "hackbench",
        "--load",
        "io",
        "--for",
        "12s",
        "--out",
        "watched",
    ])?;
    let drawn = terminal("top.png", "tardy top watched", (100, 30), Some(TOP_AT));
    // It ends by itself, whatever came of the picture.
    watched
        .wait()
        .while_doing(|| "waiting for the run that is watched".to_owned())?;
    drawn?;
    terminal("summary.png", "tardy show board7", (80, 24), None)?;
    terminal(
        "compare.png",
        "tardy compare board7 board7-new",
        (100, 30),
        None,
    )?;
    for (name, pages) in [
        ("report.png", &["board7"][..]),
        ("comparison.png", &["board7", "board7-new"]),
        ("explained.png", &["explained"]),
    ] {
        picture(
            &runs.report(pages)?,
            Look::screen(PAGE, Some(PAGE.height)),
            &out.join(name),
        )?;
    }
    runs.tardy(&[
        "plot",
        "board7",
        "--kind",
        "heatmap",
        "--scale",
        "1",
        "-o",
        "heatmap.png",
    ])?;
    std::fs::copy(runs.folder().join("heatmap.png"), out.join("heatmap.png"))
        .while_doing(|| "keeping the heat map".to_owned())?;
    picture(
        &runs.report(&["probes"])?,
        Look::screen(PAGE, Some(PAGE.height)),
        &out.join("probes.png"),
    )?;
    picture(
        &runs.report(&["board7"])?,
        Look::screen(PHONE, Some(PHONE.height)),
        &out.join("phone.png"),
    )?;
    picture(
        &runs.report(&["board7", "board7-new"])?,
        Look {
            is_printed: true,
            ..Look::screen(PAPER, Some(PAPER.height))
        },
        &out.join("printed.png"),
    )?;
    let bytes = bytes_below(&out)?;
    println!("{}: {:.2} MB", out.display(), bytes as f64 / 1e6);
    if bytes > BYTES_MAX {
        Err(Failure::new(format!(
            "the pictures are larger than {BYTES_MAX} bytes"
        )))
    } else {
        Ok(())
    }
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let entries =
        std::fs::read_dir(folder).while_doing(|| format!("listing {}", folder.display()))?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|file| file.len())
        .sum())
}

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
struct Look {
    screen: Screen,
    /// Its first px, or all of it.
    height: Option<u32>,
    is_printed: bool,
}

impl Look {
    fn screen(screen: Screen, height: Option<u32>) -> Self {
        Self {
            screen,
            height,
            is_printed: false,
        }
    }
}

/// The page as PNG.
fn picture(
    page: &Path,
    Look {
        screen,
        height,
        is_printed,
    }: Look,
    out: &Path,
) -> Result<()> {
    let mut browser = Browser::open(page, screen);
    if is_printed {
        browser.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
        browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    }
    browser.settle();
    let size = browser.evaluate(
        "(() => { const b = (document.querySelector('pre.terminal') ?? \
         document.documentElement).getBoundingClientRect(); return [b.width, b.height]; })()",
    );
    let (width, whole) = (
        size[0].as_f64().unwrap_or(0.0).ceil(),
        size[1].as_f64().unwrap_or(0.0).ceil(),
    );
    // Who made samples late is what an explained run is about.
    let top = browser
        .evaluate("document.querySelector('#explained')?.getBoundingClientRect().top ?? 0")
        .as_f64()
        .unwrap_or(0.0);
    let clip = json!({"x": 0, "y": top, "width": width, "height": height.map_or(whole, f64::from), "scale": 1});
    let answer = browser.call(
        "Page.captureScreenshot",
        json!({"captureBeyondViewport": true, "clip": clip}),
    );
    let bytes = STANDARD
        .decode(answer["data"].as_str().unwrap_or_default())
        .while_doing(|| "reading the browser's picture".to_owned())?;
    std::fs::write(out, bytes).while_doing(|| format!("writing {}", out.display()))?;
    println!("{}", out.display());
    Ok(())
}

/// A page that shows what a command leaves in a terminal of so many columns and lines: at its end,
/// or when its view is so old.
fn terminal(
    runs: &ExampleRuns,
    line: &str,
    (columns, lines): (u16, u16),
    until: Option<Duration>,
) -> Result<PathBuf> {
    let size = |count| NonZero::new(count).expect("a terminal has a size");
    let mut parser = vt100::Parser::new(size(lines), size(columns), 0);
    // A view of another process's run lasts until somebody ends it.
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
        // A view begins when it takes the whole screen; what a run prepares before that takes its
        // own time.
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
    std::fs::write(&path, page).while_doing(|| format!("writing {}", path.display()))?;
    Ok(path)
}

fn html(screen: &vt100::Screen, (columns, lines): (u16, u16)) -> String {
    let mut out = String::from(
        "<!doctype html><meta \
         charset=utf-8><style>body{margin:0}pre{margin:0;display:inline-block;padding:12px;\
         background:#16181d;color:#d7dae0;font:14px/1.25 'DejaVu Sans \
         Mono',monospace}span{display:inline-block;height:1.25em}</style><pre class=terminal>",
    );
    // Lines below the last one with text are left out.
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

/// The first sixteen colours as usual terminals show them.
const COLORS: [&str; 16] = [
    "#16181d", "#e06c75", "#98c379", "#d8b06a", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
    "#6b7280", "#ef7d86", "#a9d48a", "#e9c17b", "#72c0ff", "#d789ee", "#67c7d3", "#ffffff",
];

fn color(color: vt100::Color, default: &str) -> String {
    match color {
        vt100::Color::Default => default.to_owned(),
        vt100::Color::Idx(index @ 0..16) => COLORS[usize::from(index)].to_owned(),
        vt100::Color::Idx(index @ 16..232) => {
            let level = |value: u8| if value == 0 { 0 } else { 55 + 40 * value };
            let index = index - 16;
            format!(
                "rgb({},{},{})",
                level(index / 36),
                level(index / 6 % 6),
                level(index % 6)
            )
        }
        vt100::Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            format!("rgb({grey},{grey},{grey})")
        }
        vt100::Color::Rgb(red, green, blue) => format!("rgb({red},{green},{blue})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
