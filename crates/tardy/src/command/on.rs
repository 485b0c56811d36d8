//! Runs a command on other machines (`--on`), and fetches results (`tardy fetch`).

mod progress;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use tardy_core::verdict::requirement::Requirement;
use tardy_measure::scenario::built_in;
use tardy_remote::binary;
use tardy_remote::board::{Board, BoardError, Event, Order, Word};
use tardy_remote::host::{Address, Host, all};
use tardy_remote::on_board::{BoardOutput, COMMAND, Job};
use tardy_remote::shards;
use tardy_remote::ssh::Ssh;
use tardy_results::exit::Exit;
use tardy_sys::scoped;
use tardy_sys::signal::{HANG_UP, INTERRUPT, SignalFd, TERMINATE};

use self::progress::Progress;
use super::show::{self, Format};
use super::{folder_name, output};
use crate::cli::Command;
use crate::cli::lab::LabCommand;
use crate::cli::on::{FetchArgs, OnArgs};

/// The kind of result that a command produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandProduct {
    /// A run. `has_board` states whether the user names the board in a label.
    Run {
        has_board: bool,
    },
    Cost,
    /// Runs in guests of the lab. Each machine runs a shard of the guests.
    Guests,
    /// The command prints text and makes a folder.
    Folder,
    /// The command only prints text.
    Words,
}

/// The command to run on the machines. The command has the same words as the command line of this
/// process.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    made: CommandProduct,
    out: Option<&'a Path>,
    is_quiet: bool,
    is_json: bool,
    is_full: bool,
}

impl Request<'_> {
    /// Makes the request of a command that only prints text.
    fn of_words(is_json: bool) -> Self {
        Self {
            made: CommandProduct::Words,
            out: None,
            is_quiet: false,
            is_json,
            is_full: false,
        }
    }

    fn format(&self) -> Format {
        match () {
            () if self.is_json => Format::Json,
            () if self.is_full => Format::Full,
            () => Format::Screen,
        }
    }
}

/// The result of one machine.
type Outcome = Result<BoardOutput, BoardError>;

/// The work for a machine, given its index.
type Task<'a> = dyn Fn(&Board<'_>, usize, &dyn Fn(Event)) -> Outcome + Sync + 'a;

/// A message from the thread of a machine.
enum Message {
    Event(usize, Event),
    Outcome(usize, Box<Outcome>),
}

/// Runs the command on other machines if `--on` is given; otherwise returns `None`. Must be called
/// before the process starts threads.
#[must_use]
pub fn elsewhere(command: &Command) -> Option<Exit> {
    let (on, request) = match command {
        Command::Run(args) => {
            let asked = &args.request;
            let has_board = asked.labels.iter().any(|label| label.name == "board");
            let made = if asked.dry_run {
                CommandProduct::Words
            } else {
                CommandProduct::Run { has_board }
            };
            (
                &args.on,
                Request {
                    made,
                    out: asked.out.as_deref(),
                    is_quiet: asked.quiet,
                    is_json: asked.json,
                    is_full: asked.full,
                },
            )
        }
        Command::Cost(args) => {
            let shared = args.shared();
            let (out, is_quiet, is_json) = (shared.out.as_deref(), shared.quiet, shared.json);
            (
                &shared.on,
                Request {
                    made: CommandProduct::Cost,
                    out,
                    is_quiet,
                    is_json,
                    is_full: false,
                },
            )
        }
        Command::Tune(args) => {
            let made = if args.search {
                CommandProduct::Folder
            } else {
                CommandProduct::Words
            };
            (
                &args.on,
                Request {
                    made,
                    out: args.out.as_deref(),
                    ..Request::of_words(args.json)
                },
            )
        }
        Command::Lab(lab) => {
            let LabCommand::Run(args) = &lab.command else {
                return None;
            };
            (
                &args.on,
                Request {
                    made: CommandProduct::Guests,
                    out: Some(&args.out),
                    ..Request::of_words(args.json)
                },
            )
        }
        Command::Doctor(args) => (&args.on, Request::of_words(args.json)),
        Command::Explain(args) => (&args.on, Request::of_words(args.json)),
        Command::Restore(args) => (&args.on, Request::of_words(false)),
        _ => return None,
    };
    if let (Command::Run(args), true) = (command, on.is_given())
        && !args.request.allow.is_empty()
    {
        let machines: Vec<String> = all(&on.on)
            .map(|hosts| hosts.iter().map(|host| host.name.clone()).collect())
            .unwrap_or_default();
        say!(
            "tardy: the loads of --allow {} will run on {}",
            args.request.allow.join(","),
            machines.join(", ")
        );
    }
    on.is_given().then(|| run(on, &request))
}

/// Runs the command of this process on all machines at once, and shows the results.
fn run(on: &OnArgs, request: &Request<'_>) -> Exit {
    let refuse = |text: String| {
        say!("tardy: --on: {text}");
        Exit::Usage
    };
    let hosts = match all(&on.on) {
        Ok(hosts) => hosts,
        Err(error) => return refuse(error.to_string()),
    };
    if request.is_json && hosts.len() > 1 {
        return refuse(
            "--json is for one machine: with several, give each folder to `tardy show FOLDER \
             --json`"
                .to_owned(),
        );
    }
    let out = request
        .out
        .map_or_else(folder_name::by_time, Path::to_owned);
    if out.exists() {
        return refuse(format!(
            "--out {} exists already: give a new name",
            out.display()
        ));
    }
    let words: Vec<String> = match std::env::args_os()
        .skip(1)
        .map(OsString::into_string)
        .collect()
    {
        Ok(words) => words,
        Err(word) => return refuse(format!("{} is not UTF-8 text", word.display())),
    };
    if request.made == CommandProduct::Guests
        && let Some(word) = words
            .iter()
            .find_map(|word| LEFT_HERE.into_iter().find(|flag| is_flag(word, flag)))
    {
        return refuse(format!(
            "{word} names a file on this machine, which --on does not copy: run tardy lab on the \
             other machine instead"
        ));
    }
    let ssh = Ssh {
        configuration: on.ssh_config.clone(),
        may_ask: hosts.len() == 1,
    };
    let place = |host: &Host| {
        if hosts.len() == 1 {
            out.clone()
        } else {
            out.join(&host.name)
        }
    };
    let order = |(index, host): (usize, &Host)| {
        let shard = (request.made == CommandProduct::Guests && hosts.len() > 1)
            .then(|| format!("{}/{}", index + 1, hosts.len()));
        (
            Order {
                words: forwarded(&words, request, host, shard),
                binary: on.board_binary.clone(),
            },
            place(host),
        )
    };
    let orders: Vec<(Order, PathBuf)> = hosts.iter().enumerate().map(order).collect();
    let carry_out = |board: &Board<'_>, index: usize, tell: &dyn Fn(Event)| {
        let (order, out) = &orders[index];
        board.carry_out(order, out, tell)
    };
    let outcomes = match on_all(&hosts, &ssh, request.is_quiet, &carry_out) {
        Ok(outcomes) => outcomes,
        Err(exit) => return exit,
    };
    let places: Vec<PathBuf> = orders.into_iter().map(|(_, out)| out).collect();
    let exit = conclude(&hosts, outcomes, &places, request);
    if request.made != CommandProduct::Guests || hosts.len() == 1 {
        return exit;
    }
    if let Err(error) = shards::bring_together(&places, &out) {
        return refuse(format!("{error}: the shards stay in {}", out.display()));
    }
    let _ = show::show_folder(&out, &Requirement::default());
    exit
}

/// Runs `task` for each machine in its own thread. Ctrl-C or a closed terminal stops the commands
/// early; a second Ctrl-C leaves them running and ends this process.
fn on_all(
    hosts: &[Host],
    ssh: &Ssh,
    is_quiet: bool,
    task: &Task<'_>,
) -> Result<Vec<Outcome>, Exit> {
    let Ok(signals) = SignalFd::block(&[INTERRUPT, TERMINATE, HANG_UP]) else {
        say!("tardy: this machine has no free file descriptor");
        return Err(Exit::Machine);
    };
    let mut progress = Progress::new(hosts, is_quiet);
    let mut outcomes: Vec<Option<Outcome>> = hosts.iter().map(|_| None).collect();
    let is_ending = AtomicBool::new(false);
    let boards: Vec<Board> = hosts
        .iter()
        .map(|host| Board {
            ssh,
            address: &host.address,
            is_ending: &is_ending,
        })
        .collect();
    thread::scope(|scope| {
        let (sender, messages) = mpsc::channel();
        for (index, board) in boards.iter().enumerate() {
            let sender = sender.clone();
            let refused = sender.clone();
            let started = thread::Builder::new().spawn_scoped(scope, move || {
                let tell = |event: Event| drop(sender.send(Message::Event(index, event)));
                let outcome = task(board, index, &tell);
                drop(sender.send(Message::Outcome(index, Box::new(outcome))));
            });
            if let Err(error) = started {
                drop(refused.send(Message::Outcome(
                    index,
                    Box::new(Err(BoardError::NoThread(scoped::refused(error)))),
                )));
            }
        }
        drop(sender);
        let stop = |index: usize, folder: String| {
            let (board, name) = (boards[index], &hosts[index].name);
            let stop = move || {
                if let Err(error) = board.stop(&folder) {
                    say!("tardy: {name}: {error}");
                }
            };
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, stop) {
                say!(
                    "tardy: {name}: cannot stop the command: {}",
                    scoped::refused(error)
                );
            }
        };
        loop {
            match messages.recv_timeout(progress::TICK) {
                Ok(Message::Event(index, event)) => {
                    progress.event(index, &event);
                    // The command started after the user had asked to stop.
                    if let (Event::Started { folder }, true) =
                        (event, is_ending.load(Ordering::SeqCst))
                    {
                        stop(index, folder);
                    }
                }
                Ok(Message::Outcome(index, outcome)) => {
                    progress.ended(
                        index,
                        outcome.as_ref().as_ref().err().map(ToString::to_string),
                    );
                    outcomes[index] = Some(*outcome);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => progress.tick(),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if let Ok(Some(signal)) = signals.take() {
                let was_ending = is_ending.swap(true, Ordering::SeqCst);
                // When a terminal closes, the kernel and the shell may each send this signal.
                if was_ending && signal == HANG_UP {
                    continue;
                }
                if was_ending {
                    progress.clear();
                    for (index, folder) in progress.under_way() {
                        say!(
                            "{} keeps running. To get its result: tardy fetch {}{folder}",
                            hosts[index].name,
                            hosts[index].address
                        );
                    }
                    // The threads wait for their ssh processes, which end with this process.
                    std::process::exit(Exit::Interrupted as i32);
                }
                progress.say(
                    "stopping the commands early; a second signal leaves them running on the \
                     machines",
                );
                for (index, folder) in progress.started() {
                    stop(index, folder);
                }
            }
        }
    });
    progress.clear();
    Ok(outcomes.into_iter().flatten().collect())
}

/// Shows the fetched results, and returns the exit code for all machines.
fn conclude(
    hosts: &[Host],
    outcomes: Vec<Outcome>,
    places: &[PathBuf],
    request: &Request<'_>,
) -> Exit {
    let is_alone = hosts.len() == 1;
    let mut exits = Vec::new();
    let mut runs: Vec<(String, PathBuf)> = Vec::new();
    for ((host, outcome), out) in hosts.iter().zip(outcomes).zip(places) {
        let returned = match outcome {
            Ok(returned) => returned,
            Err(error) => {
                say!("tardy: {}: {error}", host.name);
                exits.push(match error {
                    BoardError::Ended => Exit::Interrupted,
                    _ => Exit::Machine,
                });
                continue;
            }
        };
        for line in String::from_utf8_lossy(&returned.stderr).lines() {
            if is_alone {
                say!("{line}")
            } else {
                say!("{}: {line}", host.name)
            }
        }
        if returned.code.is_none() {
            let kept = if returned.has_out {
                format!("; {} holds the data so far", out.display())
            } else {
                String::new()
            };
            say!(
                "tardy: {}: something external, such as a restart, stopped the command{kept}",
                host.name
            );
        }
        exits.push(returned.code.map_or(Exit::Machine, exit_of));
        match (request.made, returned.has_out) {
            (CommandProduct::Run { .. }, true) => runs.push((host.name.clone(), out.clone())),
            (CommandProduct::Cost, true) => {
                if !is_alone {
                    let _ = output::print(&format!("{}:\n", host.name));
                }
                let _ = super::cost::show(out, None, request.is_json);
            }
            (CommandProduct::Run { .. } | CommandProduct::Cost, false) => {}
            // Each machine ran a shard; the caller shows all shards together.
            (CommandProduct::Guests, _) if !is_alone => {}
            (CommandProduct::Folder | CommandProduct::Guests | CommandProduct::Words, has_out) => {
                if !is_alone {
                    let _ = output::print(&format!("{}:\n", host.name));
                }
                let _ = output::print(&String::from_utf8_lossy(&returned.stdout));
                if has_out {
                    say!("{}: the run folder is {}", host.name, out.display());
                }
            }
        }
    }
    match runs.as_slice() {
        [] => {}
        // The run's folder contains the deadline of the run, so no requirement is given here.
        [(_, folder)] if is_alone => drop(show::show(
            folder,
            &Requirement::default(),
            request.format(),
        )),
        runs => drop(show::show_several(runs, &Requirement::default())),
    }
    let worst = [
        Exit::Machine,
        Exit::Usage,
        Exit::Failed,
        Exit::Inconclusive,
        Exit::Interrupted,
    ];
    worst
        .into_iter()
        .find(|exit| exits.contains(exit))
        .unwrap_or(Exit::Done)
}

/// Converts the exit code of a command on a board to that of this process.
fn exit_of(code: i32) -> Exit {
    let known = [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::Machine,
        Exit::Inconclusive,
        Exit::Interrupted,
    ];
    known
        .into_iter()
        .find(|exit| *exit as i32 == code)
        .unwrap_or(Exit::Machine)
}

/// Flags for this machine only; each has a value.
const OWN: [&str; 4] = ["--on", "--ssh-config", "--board-binary", "--out"];
/// Flags whose values are files on this machine.
const FILES: [&str; 6] = [
    "--scenario",
    "--settings",
    "--against",
    "--tune",
    "--guest-binary",
    "--plugin",
];
/// Flags of `lab run` that are refused with `--on`: flags for files that are not copied to the
/// machines, and `--shard`, because each machine gets a shard.
const LEFT_HERE: [&str; 4] = ["--add", "--module", "--inject-modules", "--shard"];

/// Returns whether the word is this flag, with or without `=VALUE`.
fn is_flag(word: &str, flag: &str) -> bool {
    word.split_once('=').map_or(word, |(name, _)| name) == flag
}

/// Returns the words of the command that the machine executes.
fn forwarded(
    words: &[String],
    request: &Request<'_>,
    host: &Host,
    shard: Option<String>,
) -> Vec<Word> {
    let behind = words
        .iter()
        .position(|word| word == "--")
        .unwrap_or(words.len());
    let (own, program) = words.split_at(behind);
    let text = |word: &str| Word::Text(word.to_owned());
    let mut forwarded = Vec::new();
    let mut own = own.iter();
    while let Some(word) = own.next() {
        let (flag, value) = word
            .split_once('=')
            .map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        if OWN.contains(&flag) {
            if value.is_none() {
                own.next();
            }
        } else if let (true, Some(value)) = (FILES.contains(&flag), value) {
            forwarded.push(file_or(value, &format!("{flag}=")));
        } else if FILES.contains(&flag) && flag != "--tune" {
            forwarded.push(text(word));
            forwarded.extend(own.next().map(|value| file_or(value, "")));
        } else {
            forwarded.push(text(word));
        }
    }
    let is_quiet = forwarded
        .iter()
        .any(|word| matches!(word, Word::Text(text) if text == "--quiet" || text == "-q"));
    if matches!(
        request.made,
        CommandProduct::Run { .. } | CommandProduct::Cost
    ) && !is_quiet
    {
        forwarded.push(text("--quiet"));
    }
    if request.made == (CommandProduct::Run { has_board: false }) {
        forwarded.extend([text("--label"), text(&format!("board={}", host.name))]);
    }
    forwarded.extend(
        shard
            .iter()
            .flat_map(|shard| [text("--shard"), text(shard)]),
    );
    if request.made != CommandProduct::Words {
        forwarded.extend([text("--out"), Word::Out]);
    }
    forwarded.extend(program.iter().map(|word| text(word)));
    forwarded
}

/// Returns a file to copy to the machine. Returns a plain word if the value names a built-in
/// scenario, or if there is no such file.
fn file_or(value: &str, before: &str) -> Word {
    let path = Path::new(value);
    let is_file = built_in::find(value).is_none() && path.is_file();
    if is_file {
        Word::File(before.to_owned(), path.to_owned())
    } else {
        Word::Text(format!("{before}{value}"))
    }
}

/// Runs `tardy fetch`, which retrieves the results of a command whose connection broke. Must be
/// called before the process starts threads.
#[must_use]
pub fn fetch(args: &FetchArgs) -> Exit {
    let refuse = |text: String| {
        say!("tardy: {text}");
        Exit::Usage
    };
    let parts = args.from.strip_prefix("ssh://").and_then(|rest| {
        rest.find('/')
            .map(|at| args.from.split_at("ssh://".len() + at))
    });
    let Some((address, folder)) = parts.filter(|(_, folder)| tardy_remote::board::is_ours(folder))
    else {
        return refuse(format!(
            "`{}` is not the folder of a command started with --on: such a folder has a path like \
             /var/tmp/tardy-on.Xk3f9a",
            args.from
        ));
    };
    let address: Address = match address.parse() {
        Ok(address) => address,
        Err(error) => return refuse(format!("{error}")),
    };
    let out = args.out.clone().unwrap_or_else(folder_name::by_time);
    if out.exists() {
        return refuse(format!(
            "--out {} exists already: give a new name",
            out.display()
        ));
    }
    let hosts = [Host {
        name: address.host.clone(),
        address,
    }];
    let ssh = Ssh {
        configuration: args.ssh_config.clone(),
        may_ask: true,
    };
    let get = |board: &Board<'_>, _: usize, tell: &dyn Fn(Event)| board.fetch(folder, &out, tell);
    let outcomes = match on_all(&hosts, &ssh, false, &get) {
        Ok(outcomes) => outcomes,
        Err(exit) => return exit,
    };
    // The record in the folder states the kind of the result.
    let made = match tardy_run::folder::open(&out).map(|record| record.kind) {
        Ok(tardy_run::record::RunKind::Cost) => CommandProduct::Cost,
        Ok(_) => CommandProduct::Run { has_board: true },
        Err(_) => CommandProduct::Folder,
    };
    conclude(
        &hosts,
        outcomes,
        std::slice::from_ref(&out),
        &Request {
            made,
            ..Request::of_words(false)
        },
    )
}

/// `--on` copies this program to a board, and starts the copy with a command line of a separate
/// form. If this process was started in that way, does the work of the copy; otherwise returns
/// `None`.
#[must_use]
pub fn dispatch(words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let words: Vec<String> = words
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [COMMAND, verb, rest @ ..] = words.as_slice() else {
        return None;
    };
    let behind = |rest: &[&str]| {
        rest.iter()
            .skip_while(|word| **word != "--")
            .skip(1)
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let job = || Job::at(Path::new(rest.first().copied().unwrap_or_default()));
    let done = match *verb {
        "digest" => binary::digest(Path::new("/proc/self/exe"))
            .and_then(|digest| output::print(&format!("tardy-digest {digest}\n"))),
        "start" => job().start(&behind(rest)),
        "supervise" => job().supervise(&behind(rest)),
        "wait" => job().wait().map(drop),
        "stop" => job().stop(),
        "send" => job().send(std::io::stdout().lock()),
        _ => Err(std::io::Error::other(format!(
            "`{COMMAND} {verb}` is not a known command"
        ))),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            ExitCode::FAILURE
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_gets_the_words_without_those_of_this_side() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.toml");
        std::fs::write(&file, "").unwrap();
        let line = format!(
            "run --on ssh://a --for 1s --on=ssh://b --scenario {} --ssh-config c --out x --tune \
             -- ./loop --on y",
            file.display()
        );
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let host = Host {
            name: "a".to_owned(),
            address: "ssh://a".parse().unwrap(),
        };
        let request = Request {
            made: CommandProduct::Run { has_board: false },
            ..Request::of_words(false)
        };
        let text = |text: &str| Word::Text(text.to_owned());
        let mut wanted: Vec<Word> = ["run", "--for", "1s", "--scenario"].map(text).to_vec();
        wanted.push(Word::File(String::new(), file));
        wanted.extend(["--tune", "--quiet", "--label", "board=a", "--out"].map(text));
        wanted.push(Word::Out);
        wanted.extend(["--", "./loop", "--on", "y"].map(text));
        assert_eq!(forwarded(&words, &request, &host, None), wanted);
        let doctor: Vec<String> = ["doctor", "--all", "--on", "ssh://a"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            forwarded(&doctor, &Request::of_words(false), &host, None),
            ["doctor", "--all"].map(text)
        );
    }
}
