//! `tardy man`, `tardy completions` and `tardy schema`: descriptions of the tool for other
//! programs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;

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
    /// Shell to write the completions for
    #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(Shells::builtins().names()))]
    pub shell: String,
}

/// `tardy schema`.
#[derive(Debug, Args)]
#[command(
    after_help = "Every document begins with its format: {\"format\": {\"name\": \"show\", \
                  \"version\": 2}, ...}.
The version grows when a key changes its meaning or is removed. Keys may be added within a \
                  version: ignore unknown ones."
)]
pub struct SchemaArgs {
    /// Format, as in the key format.name of a document [default: list the formats]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
