//! `cargo xtask kernels`: runs tardy in guests of each architecture and kernel series that the
//! package sources have, and writes the exit codes of the commands to docs/kernels.md.

mod guests;
mod page;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Result;
use crate::static_build::{self, Architecture};
use crate::table_page::TablePage;
use crate::{program, workspace};
pub(crate) use guests::{Guests, series};
use page::Tried;

#[derive(Debug, Args)]
pub(crate) struct KernelsArguments {
    /// Kernels, as for `tardy lab run --kernel`, whose rows are renewed [default: all rows, with the
    /// newest package of each series for x86_64, and of the oldest and the newest series for the
    /// others]
    #[arg(value_name = "KERNEL")]
    kernels: Vec<String>,
    /// Architectures whose rows are renewed
    #[arg(long, value_name = "NAME,...", value_enum, value_delimiter = ',', default_values_t = Architecture::ALL)]
    arch: Vec<Architecture>,
    /// Binary for this machine and its guests, instead of a new build
    #[arg(long, value_name = "FILE")]
    tardy: Option<PathBuf>,
}

/// The script that runs the commands in a guest, one after another.
const SCRIPT: &str = "xtask/src/kernels/guest.sh";
/// Path that a binary for another architecture has in a guest.
const OTHER_BINARY: &str = "/bin/other";
/// Probes that need something that guests do not have: a program, another machine, or a cable.
const NEEDS_OTHERS: &[&str] = &["app", "response"];
const PAGE: &str = "docs/kernels.md";

/// Tests the kernels, and writes the page after each of them.
pub(crate) fn run(arguments: &KernelsArguments) -> Result<()> {
    let tardy = workspace::given_or(arguments.tardy.as_ref(), workspace::build_tardy)?;
    let mut table = TablePage::read(PAGE)?;
    let mut probes: Vec<String> = guests::listed(&tardy, ["list", "probes"], "probes")?
        .iter()
        .filter_map(|probe| Some(probe["name"].as_str()?.to_owned()))
        .collect();
    probes.retain(|name| !NEEDS_OTHERS.contains(&name.as_str()));
    for &architecture in &arguments.arch {
        let guests = guests_for(&tardy, architecture)?;
        let newest = guests.newest()?;
        page::remove(&mut table, architecture, &arguments.kernels);
        let kernels = match (arguments.kernels.is_empty(), architecture) {
            (false, _) => arguments.kernels.clone(),
            (true, Architecture::X86_64) => newest,
            (true, _) => oldest_and_newest(&newest),
        };
        for kernel in &kernels {
            let tried = in_guest(&guests, architecture, kernel, &probes)?;
            let row = page::row(architecture, kernel, &tried, program::date()?);
            let order = page::in_order(&table, &row[0]);
            table.set(&row, &order.iter().map(String::as_str).collect::<Vec<_>>())?;
            println!("| {} |", row.join(" | "));
        }
    }
    Ok(())
}

/// Returns the guests that can run the binary of an architecture. For 32-bit Arm, these are guests
/// of 64-bit Arm, to which the binary is added as a file.
fn guests_for(tardy: &Path, architecture: Architecture) -> Result<Guests> {
    if architecture != Architecture::Armv7 {
        return Guests::new(tardy, architecture);
    }
    let mut guests = Guests::new(tardy, Architecture::Aarch64)?;
    guests.add(&static_build::build_quickly(architecture)?, OTHER_BINARY);
    Ok(guests)
}

/// Returns the oldest and the newest series of the sorted kernels, both without and with
/// PREEMPT_RT. If a series has no package with PREEMPT_RT, the row of that kernel says so.
fn oldest_and_newest(kernels: &[String]) -> Vec<String> {
    let mut stock: Vec<&String> = kernels
        .iter()
        .filter(|kernel| !kernel.ends_with("-rt"))
        .collect();
    if stock.len() > 2 {
        stock.drain(1..stock.len() - 1);
    }
    let with_rt = |kernel: &String| [kernel.clone(), format!("{kernel}-rt")];
    stock.into_iter().flat_map(with_rt).collect()
}

/// Boots `kernel` twice: first to run the script, then as a watched guest.
fn in_guest(
    guests: &Guests,
    architecture: Architecture,
    kernel: &str,
    probes: &[String],
) -> Result<Vec<Tried>> {
    let is_other = architecture == Architecture::Armv7;
    let binary = if is_other { OTHER_BINARY } else { "/init" };
    let words: Vec<String> = [binary.to_owned()]
        .into_iter()
        .chain(probes.iter().cloned())
        .collect();
    let results = match guests.run_script(kernel, SCRIPT, "kernels", &words) {
        Ok(results) => results,
        Err(failure) => return Ok(vec![Tried::not("not tried", failure.to_string())]),
    };
    let cells = results.join("cells");
    let text = workspace::read(&cells)?;
    let mut tried: Vec<Tried> = text.lines().filter_map(Tried::parsed).collect();
    if is_other {
        tried.push(Tried::not(
            "watch",
            "the lab has no guests of this architecture",
        ));
        return Ok(tried);
    }
    let watched = program::output(
        guests
            .run(kernel, "kernels/watched")?
            .args(["--for", "200ms", "--load", "none", "--watch"]),
    )?;
    let said = String::from_utf8_lossy(&watched.stderr);
    tried.push(Tried {
        name: "watch".to_owned(),
        code: program::code(watched.status),
        said: said.lines().last().unwrap_or_default().to_owned(),
    });
    Ok(tried)
}
