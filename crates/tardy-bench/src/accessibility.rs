//! `cargo xtask accessibility`: checks reports in a browser with axe-core, which detects barriers
//! to users of a screen reader or a keyboard.

use std::path::PathBuf;
use std::process::Command;

use tardy_browser::{Browser, Screen};

use crate::example_runs::ExampleRuns;
use crate::failure::{Failure, Result};
use crate::figure::scratch;
use crate::{program, workspace};

/// The npm package of the checker, with its major version. The version defines the rules that are
/// checked.
const AXE: &str = "axe-core@4";

/// `cargo xtask accessibility`.
#[derive(Debug, clap::Args)]
pub(crate) struct AccessibilityArguments {
    /// Use this axe.min.js instead of fetching it with npm
    #[arg(long, value_name = "FILE")]
    axe: Option<PathBuf>,
    /// Use this binary instead of a new release build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
}

/// Runs the task.
pub(crate) fn run(arguments: &AccessibilityArguments) -> Result<()> {
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let fetched = scratch()?;
    let axe = match &arguments.axe {
        Some(file) => file.clone(),
        None => {
            let npm = |words: &[&str]| {
                program::capture(Command::new("npm").args(words).current_dir(fetched.path()))
            };
            npm(&["install", "--no-save", "--ignore-scripts", "--silent", AXE])?;
            fetched.path().join("node_modules/axe-core/axe.min.js")
        }
    };
    let axe = workspace::read(&axe)?;
    eprintln!("measuring for about a minute");
    let runs = ExampleRuns::make(&tardy)?;
    let mut found = Vec::new();
    for pages in [&["board7"][..], &["board7", "board7-new"], &["explained"]] {
        let page = runs.report(pages)?;
        for screen in [Screen::DESK, Screen::PHONE] {
            let violations = violations(&mut Browser::open(&page, screen), &axe);
            let look = if screen.is_dark { "dark" } else { "light" };
            println!(
                "{} at {} px, {look}: {} violations",
                pages.join(" and "),
                screen.width,
                violations.len()
            );
            violations
                .iter()
                .for_each(|violation| println!("  {violation}"));
            found.extend(violations);
        }
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("{} violations", found.len())))
    }
}

/// Returns each rule that the page violates, with the number of offending elements and the first
/// four of them.
fn violations(browser: &mut Browser, axe: &str) -> Vec<String> {
    browser.evaluate(&format!("{axe}; 1"));
    let found = browser.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((found) => \
         found.violations.map((rule) => `${rule.id} (${rule.impact}): ${rule.help}: \
         ${rule.nodes.slice(0, 4).map((node) => node.target.join(' ')).join(', ')} \
         (${rule.nodes.length})`))",
    );
    found
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|line| line.as_str().map(str::to_owned))
        .collect()
}
