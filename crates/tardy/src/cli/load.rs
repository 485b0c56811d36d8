//! Arguments of `tardy load`.

use tardy_core::cpu::CpuList;
use tardy_core::units::Nanos;

/// Arguments of `tardy load`.
#[derive(Debug, clap::Args)]
pub struct LoadArguments {
    /// Loads to run together, as in io:size=64MiB (`tardy list loads`)
    #[arg(required = true, value_name = "LOAD")]
    pub loads: Vec<String>,
    /// How long to run them
    #[arg(long = "for", value_name = "TIME", default_value = "30s")]
    pub duration: Nanos,
    /// CPUs to load, as in 0-3,6 [default: all but isolated ones]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Print events as JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}
