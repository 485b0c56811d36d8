//! `--kernel`, `--preempt` and `--cmdline`. The last two apply to the kernel before them, or to all
//! kernels if they come first.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use tardy_lab::apt::StaleLists;
use tardy_lab::architecture::Architecture;
use tardy_lab::cache::Cache;
use tardy_lab::kernel::{self, Kernel, KernelError, KernelSource};
use tardy_lab::variant::{Variant, make_names_unique};

/// A kernel with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelArgument {
    /// Source of the kernel.
    pub source: KernelSource,
    /// Preemption models, each of which makes a separate variant; empty for the kernel's default.
    pub preemption: Vec<String>,
    /// Words that are added to the kernel's command line.
    pub words: Vec<String>,
}

/// Kernels that cannot be fetched, each with its name from the command line and the reason.
pub type AbsentKernels = Vec<(String, KernelError)>;

/// The kernels of a comparison in the order of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelArguments(pub Vec<KernelArgument>);

/// Fetches the kernel. Warns of package lists that could not be renewed.
///
/// # Errors
/// Returns [`KernelError`] if the kernel cannot be fetched.
pub fn resolve(
    source: &KernelSource,
    architecture: Architecture,
    cache: &Cache,
    refresh: bool,
) -> Result<Kernel, KernelError> {
    kernel::resolve(source, architecture, cache, refresh, &warn_of_lists)
}

/// Prints the warning that package lists could not be renewed.
pub fn warn_of_lists(lists: &StaleLists) {
    say!("tardy: warning: {lists}");
}

impl KernelArgument {
    /// Fetches the kernel.
    ///
    /// # Errors
    /// Returns [`KernelError`] if the kernel cannot be fetched.
    pub fn kernel(
        &self,
        architecture: Architecture,
        cache: &Cache,
        refresh: bool,
    ) -> Result<Kernel, KernelError> {
        resolve(&self.source, architecture, cache, refresh)
    }
}

impl KernelArguments {
    /// Fetches all kernels, and returns a variant for each kernel and preemption model.
    ///
    /// # Errors
    /// Returns [`KernelError`] for the first kernel that cannot be fetched.
    pub fn variants(
        &self,
        architecture: Architecture,
        cache: &Cache,
        refresh: bool,
    ) -> Result<Vec<Variant>, KernelError> {
        let (variants, mut absent) = self.variants_there(architecture, cache, refresh)?;
        if absent.is_empty() {
            Ok(variants)
        } else {
            Err(absent.remove(0).1)
        }
    }

    /// Returns the variants and, separately, the kernels that cannot be fetched, so that the caller
    /// can measure without these.
    ///
    /// # Errors
    /// Returns [`KernelError`] for the first argument that names no kernel, or if no kernel can be
    /// fetched.
    pub fn variants_there(
        &self,
        architecture: Architecture,
        cache: &Cache,
        refresh: bool,
    ) -> Result<(Vec<Variant>, AbsentKernels), KernelError> {
        let (mut variants, mut absent) = (Vec::new(), Vec::new());
        for argument in &self.0 {
            let kernel = match argument.kernel(architecture, cache, refresh) {
                Ok(kernel) => kernel,
                Err(error @ (KernelError::Apt(_) | KernelError::NoPackage { .. })) => {
                    absent.push((argument.source.to_string(), error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if argument.preemption.is_empty() {
                variants.push(Variant::new(kernel, None, argument.words.clone()));
                continue;
            }
            for model in &argument.preemption {
                variants.push(Variant::new(
                    kernel.clone(),
                    Some(model.clone()),
                    argument.words.clone(),
                ));
            }
        }
        if variants.is_empty() && !absent.is_empty() {
            return Err(absent.remove(0).1);
        }
        make_names_unique(&mut variants);
        Ok((variants, absent))
    }
}

impl Args for KernelArguments {
    fn augment_args(command: Command) -> Command {
        let kernel = Arg::new("kernel")
            .long("kernel")
            .value_name("KERNEL")
            .required(true)
            .action(ArgAction::Append)
            .value_parser(|text: &str| {
                text.parse::<KernelSource>()
                    .map_err(|error| error.to_string())
            })
            .help(
                "A kernel: bzImage, vmlinuz, .deb, folder, or debian:VERSION[-rt]; repeat the \
                 option to compare several",
            );
        let preempt = Arg::new("preempt")
            .long("preempt")
            .value_name("MODEL,...")
            .action(ArgAction::Append)
            .value_parser(models)
            .help(
                "Preemption models (lazy, full; before Linux 7.0 also none, voluntary). Each \
                 model makes a variant of the --kernel before this option, or of every kernel if \
                 this option comes first",
            );
        let words = Arg::new("cmdline")
            .long("cmdline")
            .alias("append")
            .value_name("WORDS")
            .action(ArgAction::Append)
            .allow_hyphen_values(true)
            .help(
                "Parameters for the kernel command line. They apply to the --kernel before this \
                 option, or to every kernel if this option comes first",
            );
        command.arg(kernel).arg(preempt).arg(words)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Parses a list such as `none,full`. Unknown models are refused here, because each would cost a
/// boot of every guest.
fn models(text: &str) -> Result<String, String> {
    const KNOWN: [&str; 4] = ["none", "voluntary", "full", "lazy"];
    match text
        .split(',')
        .find(|model| !model.is_empty() && !KNOWN.contains(model))
    {
        Some(unknown) => Err(format!(
            "`{unknown}` is not a preemption model: write none, voluntary, full or lazy, \
             separated by commas"
        )),
        None => Ok(text.to_owned()),
    }
}

/// Returns the values of an option with their positions on the command line.
fn placed<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> Vec<(usize, T)> {
    let places = matches.indices_of(name).into_iter().flatten();
    places
        .zip(matches.get_many::<T>(name).into_iter().flatten().cloned())
        .collect()
}

impl FromArgMatches for KernelArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let kernels = placed::<KernelSource>(matches, "kernel");
        let (models, words) = (
            placed::<String>(matches, "preempt"),
            placed::<String>(matches, "cmdline"),
        );
        let first = kernels.first().map_or(usize::MAX, |(place, _)| *place);
        let of_kernel = |options: &[(usize, String)],
                         from: usize,
                         to: usize,
                         separators: &[char]|
         -> Vec<String> {
            let belongs = |place: usize| place < first || (from < place && place < to);
            let texts = options
                .iter()
                .filter(|(place, _)| belongs(*place))
                .map(|(_, text)| text);
            texts
                .flat_map(|text| text.split(separators))
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let ends = kernels
            .iter()
            .skip(1)
            .map(|(place, _)| *place)
            .chain([usize::MAX]);
        let argument = |((from, source), to): (&(usize, KernelSource), usize)| KernelArgument {
            source: source.clone(),
            preemption: of_kernel(&models, *from, to, &[',']),
            words: of_kernel(&words, *from, to, &[' ']),
        };
        Ok(Self(kernels.iter().zip(ends).map(argument).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Vec<(String, Vec<String>, Vec<String>)> {
        let command = KernelArguments::augment_args(Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split('|')).unwrap();
        let arguments = KernelArguments::from_arg_matches(&matches).unwrap();
        arguments
            .0
            .into_iter()
            .map(|kernel| (kernel.source.to_string(), kernel.preemption, kernel.words))
            .collect()
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_belong_to_the_kernel_before_them() {
        let kernels = parsed(
            "--kernel|debian:6.1|--preempt|none,full|--kernel|debian:6.1-rt|--cmdline|a=1 b",
        );
        assert_eq!(
            kernels[0],
            ("debian:6.1".into(), words("none full"), vec![])
        );
        assert_eq!(kernels[1], ("debian:6.1-rt".into(), vec![], words("a=1 b")));
    }

    #[test]
    fn options_before_the_first_kernel_belong_to_all() {
        let kernels = parsed("--preempt|full|--kernel|a|--kernel|b|--preempt|none");
        assert_eq!(kernels[0].1, words("full"));
        assert_eq!(kernels[1].1, words("full none"));
    }
}
