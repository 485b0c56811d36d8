//! `tardy restore`: puts back what a killed run left changed.

use tardy_machine::root::Root;
use tardy_measure::setup::journal;
use tardy_results::exit::Exit;

use super::output;
use crate::cli::RestoreArgs;

/// Runs the command.
#[must_use]
pub fn run(args: &RestoreArgs) -> Exit {
    let folder = journal::folder();
    let left = match journal::left_behind(&folder, &Root::system()) {
        Ok(left) => left,
        Err(error) => {
            eprintln!("tardy: cannot read the journals in {}: {error}: run as the user who ran `tardy run`", folder.display());
            return Exit::Machine;
        }
    };
    let mut text = String::new();
    let mut is_all_back = true;
    if left.is_empty() {
        text.push_str("nothing to put back\n");
    }
    for journal in &left {
        if args.dry_run {
            journal.settings().iter().for_each(|setting| text.push_str(&format!("would put back {setting}\n")));
            continue;
        }
        for undone in journal.undo() {
            match undone.result {
                Ok(result) => text.push_str(&format!("{}: {result}\n", undone.setting)),
                Err(error) => {
                    is_all_back = false;
                    text.push_str(&format!("{}: NOT put back: {error}\n", undone.setting));
                }
            }
        }
    }
    match output::print(&text) {
        Ok(()) if is_all_back => Exit::Done,
        _ => Exit::Machine,
    }
}
