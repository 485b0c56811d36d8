//! `tardy restore`: undoes the changes of a killed command. Most later commands that change the
//! machine or make a folder do this too.

use tardy_machine::journal::{self, UndoResult};
use tardy_machine::root::Root;
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
            say!(
                "tardy: cannot read the folder of journals {}: {error}: run as the user who ran \
                 tardy",
                folder.display()
            );
            return Exit::Machine;
        }
    };
    let mut text = String::new();
    if left.journals.is_empty() && left.unreadable.is_empty() {
        text.push_str("there is nothing to restore\n");
    }
    let mut is_all_back = left.unreadable.is_empty();
    for journal in &left.journals {
        if args.dry_run {
            journal
                .settings()
                .iter()
                .for_each(|setting| text.push_str(&format!("would restore: {setting}\n")));
            continue;
        }
        for undone in journal.undo() {
            is_all_back &= undone.result.is_ok();
            text.push_str(&line(&undone));
        }
    }
    for (path, why) in &left.unreadable {
        text.push_str(&format!("{}: NOT read: {why}\n", path.display()));
    }
    match output::print(&text) {
        Ok(()) if is_all_back => Exit::Done,
        _ => Exit::Machine,
    }
}

/// Undoes the changes of killed commands before a new command starts, and reports this.
pub fn before_start() {
    let Ok(left) = journal::left_behind(&journal::folder(), &Root::system()) else {
        return;
    };
    for undone in left.journals.iter().flat_map(journal::LeftBehind::undo) {
        let line = line(&undone);
        say!(
            "tardy: cleaning up after a killed command: {}",
            line.trim_end()
        );
    }
}

fn line(undone: &UndoResult) -> String {
    match &undone.result {
        Ok(result) => format!("{}: {result}\n", undone.setting),
        Err(error) => format!("{}: NOT restored: {error}\n", undone.setting),
    }
}
