//! The `tardy` binary.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_macros)]

use std::process::ExitCode;

use tardy::cli::{Command, renamed, suggest};
use tardy::command;
use tardy_measure::configuration::Configuration;
use tardy_measure::measure::live::ProgressListener;
use tardy_results::exit::Exit;

fn main() -> ExitCode {
    tardy_sys::signal::set_default(tardy_sys::process::CHILD_ENDED);
    if tardy_lab::guest::is_guest_init() {
        let error = tardy_lab::guest::run();
        tardy_sys::say!("tardy: the guest could not be switched off: {error}");
        return ExitCode::FAILURE;
    }
    if let Some(launched) = tardy_lab::guest::launch(std::env::args_os()) {
        return match launched {
            Ok(()) => Exit::Done.into(),
            Err(error) => {
                tardy_sys::say!("tardy: the program was not started: {error}");
                Exit::Machine.into()
            }
        };
    }
    tardy_measure::descriptors::raise_limit();
    // The supervisor and the workers of loads are started from this binary too, with a separate
    // command line.
    if let Some(code) = tardy_loads::guardian::dispatch(std::env::args_os()) {
        return code;
    }
    if let Some(code) = command::on::dispatch(std::env::args_os()) {
        return code;
    }
    if let Some(request) = tardy_lab::guest::measurement(std::env::args_os()) {
        return match request {
            Ok(request) => {
                command::restore::before_start();
                let listener = tardy_lab::guest::progress_listener()
                    .map(|listener| Box::new(listener) as ProgressListener);
                command::run::run(&request, &Configuration::default(), listener).into()
            }
            Err(error) => {
                tardy_sys::say!("tardy: the guest's job: {error}");
                Exit::Usage.into()
            }
        };
    }
    command::generated::complete_if_asked();
    let (command, configuration) = match suggest::parse() {
        Ok((cli, configuration)) => (cli.command, configuration),
        Err(error) => {
            tardy_sys::say!("tardy: {error}");
            return Exit::Usage.into();
        }
    };
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    renamed::notes(&arguments)
        .iter()
        .for_each(|note| tardy_sys::say!("tardy: {note}"));
    if let Some(exit) = command::on::elsewhere(&command) {
        return exit.into();
    }
    let is_making = match &command {
        Command::Run(args) => !args.request.dry_run,
        Command::Reproduce(args) => !args.dry_run,
        Command::Tune(args) => !args.plan,
        Command::Attach(_)
        | Command::Cost(_)
        | Command::Cyclictest(_)
        | Command::Fetch(_)
        | Command::Import(_)
        | Command::Lab(_)
        | Command::Load(_)
        | Command::Respond(_) => true,
        _ => false,
    };
    if is_making {
        command::restore::before_start();
    }
    command::reading::begin(&command);
    let exit = execute(command, &configuration);
    command::reading::end();
    exit
}

fn execute(command: Command, configuration: &Configuration) -> ExitCode {
    match command {
        Command::Run(args) => command::run::run(&args.request, configuration, None).into(),
        Command::Cost(args) => command::cost::run(&args).into(),
        Command::Cyclictest(args) => command::cyclictest::run(&args).into(),
        Command::Fetch(args) => command::on::fetch(&args).into(),
        Command::Top(args) => command::top::run(&args).into(),
        Command::Show(args) => command::show::run(&args).into(),
        Command::Compare(args) => command::compare::run(&args).into(),
        Command::History(args) => command::history::run(&args).into(),
        Command::Advise(args) => command::advise::run(&args).into(),
        Command::Doctor(args) => command::doctor::run(&args).into(),
        Command::Tune(args) => command::tune::run(&args),
        Command::Import(args) => command::import::run(&args).into(),
        Command::Export(args) => command::export::run(&args).into(),
        Command::Plot(args) => command::plot::run(&args).into(),
        Command::Report(args) => command::report::run(&args).into(),
        Command::Breakdown(args) => command::breakdown::run(&args).into(),
        Command::Attach(args) => command::attach::run(&args).into(),
        Command::Explain(args) => command::explain::run(&args).into(),
        Command::Lab(args) => command::lab::run(&args).into(),
        Command::Load(args) => command::load::run(&args),
        Command::Reproduce(args) => command::reproduce::run(&args).into(),
        Command::Respond(args) => command::respond::run(&args).into(),
        Command::Scenarios(args) => command::scenarios::run(&args).into(),
        Command::List(args) => command::list::run(&args).into(),
        Command::Restore(args) => command::restore::run(&args).into(),
        Command::Man(args) => command::generated::man(&args).into(),
        Command::Completions(args) => command::generated::completions(&args).into(),
        Command::Schema(args) => command::schema::run(&args).into(),
    }
}
