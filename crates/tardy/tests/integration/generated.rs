//! Tests manual pages and completions with the programs that read them.

use std::path::Path;

use crate::support;

use support::machine;
use support::made_run::MadeRun;
use support::workplace::{Workplace, finish};

/// Commands listed in the help of `line`.
fn commands(place: &Workplace, line: &str) -> Vec<String> {
    let help = place.tardy(&format!("{line} --help")).ends_with(0).stdout;
    let lines = help
        .lines()
        .skip_while(|line| !line.starts_with("Usage:"))
        .take_while(|line| *line != "Options:");
    let name = |line: &str| {
        line.strip_prefix("  ")
            .filter(|line| line.starts_with(char::is_alphabetic))?
            .split_whitespace()
            .next()
            .map(str::to_owned)
    };
    lines
        .filter_map(name)
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_command_has_a_manual_page_that_its_reader_formats_without_a_complaint() {
    let place = Workplace::new();
    place.tardy("man --all pages").ends_with(0);
    let mut pages = vec!["tardy.1".to_owned()];
    let all = commands(&place, "");
    assert!(all.len() > 15, "{all:?}");
    for command in &all {
        pages.push(format!("tardy-{command}.1"));
        let below = if ["cost", "lab", "scenarios"].contains(&command.as_str()) {
            commands(&place, command)
        } else {
            Vec::new()
        };
        pages.extend(
            below
                .into_iter()
                .map(|below| format!("tardy-{command}-{below}.1")),
        );
    }
    pages.sort();
    let mut written = support::workplace::names(&place.path("pages"));
    written.sort();
    assert_eq!(written, pages);
    for page in pages {
        let mut groff = machine::program("groff", "groff-base");
        groff.env("LC_ALL", "C.UTF-8");
        let formatted =
            finish(place.prepared(groff, ["-man", "-Tutf8", "-ww", &format!("pages/{page}")]))
                .ends_with(0);
        assert_eq!(formatted.stderr, "", "{page}");
    }
    let run = std::fs::read_to_string(place.path("pages/tardy-run.1")).unwrap();
    for text in [
        ".TH TARDY-RUN 1",
        "tardy\\-run",
        "\\-\\-deadline",
        "\\-\\-no\\-live",
    ] {
        assert!(run.contains(text), "no {text} in {run}");
    }
}

#[test]
fn one_page_is_printed_and_a_command_that_there_is_not_is_told() {
    let place = Workplace::new();
    assert!(
        place
            .tardy("man lab run")
            .ends_with(0)
            .stdout
            .contains(".TH TARDY-LAB-RUN 1")
    );
    let refused = place.tardy("man comapre").ends_with(2);
    assert!(
        refused.stderr.contains("did you mean `compare`?"),
        "{}",
        refused.stderr
    );
}

#[test]
fn bash_completes_commands_and_flags() {
    let place = Workplace::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place
            .tardy(&format!("completions {shell}"))
            .ends_with(0)
            .stdout;
        assert!(script.contains("TARDY_COMPLETE"), "{shell}");
        std::fs::write(place.path(shell), script).unwrap();
    }
    let complete = |words: &str| {
        let count = words.split(' ').count() - 1;
        let script = format!(
            "source ./bash; COMP_WORDS=({words}); COMP_CWORD={count}; COMP_TYPE=9; \
             _clap_complete_tardy tardy \"${{COMP_WORDS[COMP_CWORD]}}\" x; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let mut bash = machine::program("bash", "bash");
        // The completion script calls `tardy`.
        let tool = Path::new(env!("CARGO_BIN_EXE_tardy")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        bash.env("PATH", format!("{}:{path}", tool.display()));
        bash.env("XDG_CACHE_HOME", place.path("cache"));
        finish(place.prepared(bash, ["-c", &script]))
            .ends_with(0)
            .stdout
            .trim()
            .to_owned()
    };
    assert_eq!(complete("tardy comp"), "compare completions");
    assert_eq!(complete("tardy run --dead"), "--deadline");
    assert_eq!(complete("tardy run --load hack"), "hackbench");
    assert_eq!(complete("tardy run --load io,hack"), "io,hackbench");
    assert_eq!(complete("tardy load hack"), "hackbench");
    assert_eq!(complete("tardy run --probe nano"), "nanosleep");
    assert_eq!(complete("tardy run --scenario loads"), "loads-in-turn");
    assert_eq!(
        complete("tardy lab run --kernel 6.1"),
        "6.1 6.1-rt 6.12 6.12-rt"
    );
    MadeRun::new(vec![vec![10_000; 100]]).write(&place.path("runs/board7"));
    std::fs::create_dir(place.path("runs/no-run")).unwrap();
    // Run folders come first; other folders follow, because they may contain runs.
    assert_eq!(
        complete("tardy compare x runs/"),
        "runs/board7/ runs/no-run/"
    );
}
