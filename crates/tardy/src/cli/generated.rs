//! `tardy man` and `tardy completions`: what is made of the definition of the command line.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `tardy man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command to describe, as in `tardy man lab run`; without one, `tardy` itself
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub all: Option<PathBuf>,
}

/// `tardy completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bash: tardy completions bash > ~/.local/share/bash-completion/completions/tardy
  zsh:  tardy completions zsh > ~/.zfunc/_tardy, with ~/.zfunc in fpath
  fish: tardy completions fish > ~/.config/fish/completions/tardy.fish")]
pub struct CompletionsArgs {
    /// Shell to write for
    #[arg(value_enum)]
    pub shell: Shell,
}
