//! Arguments for commands on other machines, and of `tardy fetch`.

use std::path::PathBuf;

use clap::Args;
use tardy_remote::host::Place;

const HEADING: &str = "Other machines";

/// Arguments of commands that can run on other machines.
#[derive(Debug, Clone, Default, Args)]
pub struct OnArgs {
    /// Run the command over ssh on the machine given, as in ssh://root@board7, or on the machines
    /// listed in a file, one per line; repeat the option for several machines
    ///
    /// Each line of FILE has an address, or a name and an address; comments start with #. tardy is
    /// copied to the machine and removed afterwards. The command keeps running if the connection
    /// breaks. tardy prints the command's output on this machine, and fetches the folder of a run.
    /// With several machines, each has a folder below --out. The connection uses OpenSSH's client
    /// with its configuration, keys and jump hosts. With several machines, the client cannot ask
    /// for passwords.
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT]|FILE", help_heading = HEADING)]
    pub on: Vec<Place>,
    /// Configuration for ssh, instead of ~/.ssh/config
    #[arg(long, value_name = "FILE", requires = "on", help_heading = HEADING)]
    pub ssh_config: Option<PathBuf>,
    /// tardy program to copy to machines of another architecture [default: tardy-ARCHITECTURE in
    /// the folder of this program]
    #[arg(long, value_name = "FILE", requires = "on", help_heading = HEADING)]
    pub board_binary: Option<PathBuf>,
}

impl OnArgs {
    /// Returns whether the command must run on another machine.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !self.on.is_empty()
    }
}

/// `tardy fetch`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tardy fetch ssh://root@board7/var/tmp/tardy-on.Xk3f9a --out board7")]
pub struct FetchArgs {
    /// Address of the result, as a command with --on prints it when its connection breaks
    #[arg(value_name = "ssh://[USER@]HOST[:PORT]/FOLDER")]
    pub from: String,
    /// New folder for the result [default: named after the time]
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Configuration for ssh, instead of ~/.ssh/config
    #[arg(long, value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
}
