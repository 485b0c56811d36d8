//! `tardy schema`: prints the formats of documents that `--json` writes.

use std::fmt::Write as _;

use tardy_results::document::Format;
use tardy_results::exit::Exit;
use tardy_run::nearest::did_you_mean;

use super::output;
use crate::cli::generated::SchemaArgs;

/// A format: its name, the commands that write it, and its schema (JSON Schema 2020-12).
pub struct Schema {
    pub format: Format,
    /// The commands that write it.
    pub written_by: &'static str,
    pub text: &'static str,
}

macro_rules! schema {
    ($format:ident, $name:literal, $written_by:literal) => {
        Schema {
            format: Format::$format,
            written_by: $written_by,
            text: include_str!(concat!("../../schemas/", $name, ".json")),
        }
    };
}

/// All formats, in the order of their names. Tests compare each with the real output of its
/// commands.
pub const SCHEMAS: &[Schema] = &[
    schema!(ADVISE, "advise", "tardy advise RUN... --json"),
    schema!(
        ADVISE_PAPER,
        "advise-paper",
        "tardy advise --paper NAME --json"
    ),
    schema!(ATTACH, "attach", "tardy attach PID --json"),
    schema!(BREAKDOWN, "breakdown", "tardy breakdown RUN... --json"),
    schema!(
        COMPARE,
        "compare",
        "tardy compare BASE CANDIDATE... --format json"
    ),
    schema!(
        COMPARE_OVER_TIME,
        "compare-over-time",
        "tardy compare --over-time RUN... --format json"
    ),
    schema!(
        COST,
        "cost",
        "tardy cost --json, tardy show COST --json, tardy export COST --format json"
    ),
    schema!(
        COST_COMPARE,
        "cost-compare",
        "tardy compare COST COST... --format json"
    ),
    schema!(
        COST_COMPARE_OVER_TIME,
        "cost-compare-over-time",
        "tardy compare --over-time COST... --format json"
    ),
    schema!(DOCTOR, "doctor", "tardy doctor --json"),
    schema!(
        EXPLAIN_CYCLES,
        "explain-cycles",
        "tardy explain FOLDER-OF-ATTACH --json"
    ),
    schema!(EXPLAIN_RUN, "explain-run", "tardy explain RUN --json"),
    schema!(
        EXPLAIN_TRACE,
        "explain-trace",
        "tardy explain trace.dat --task NAME --json"
    ),
    schema!(EXPORT, "export", "tardy export RUN --format json"),
    schema!(HISTORY, "history", "tardy history FOLDER... --format json"),
    schema!(LAB_APP, "lab-app", "tardy lab app ... --json"),
    schema!(
        LAB_ATLAS,
        "lab-atlas",
        "tardy lab atlas ... --json, and atlas.json in its folder"
    ),
    schema!(LAB_BISECT, "lab-bisect", "tardy lab bisect ... --json"),
    schema!(LAB_CHECK, "lab-check", "tardy lab check ... --json"),
    schema!(LAB_COST, "lab-cost", "tardy lab run --cost METRIC --json"),
    schema!(
        LAB_HUNT,
        "lab-hunt",
        "tardy lab hunt ... --json, and result.json in its folder"
    ),
    schema!(LAB_KERNELS, "lab-kernels", "tardy lab kernels --json"),
    schema!(LAB_RUN, "lab-run", "tardy lab run ... --json"),
    schema!(LIST, "list", "tardy list LIST --json"),
    schema!(LOAD, "load", "tardy load LOAD --json, a document per line"),
    schema!(PLAN, "plan", "tardy run --dry-run --json"),
    schema!(
        REPRODUCE,
        "reproduce",
        "tardy reproduce ... --json, and reproduce.json in its folder"
    ),
    schema!(RESPOND, "respond", "tardy respond LINK --json"),
    schema!(
        SECTIONS,
        "sections",
        "tardy lab sections ... --json, tardy show LAB --sections --json"
    ),
    schema!(
        SECTIONS_COMPARE,
        "sections-compare",
        "tardy compare --sections BASE NEW --format json"
    ),
    schema!(SHOW, "show", "tardy show RUN --json, tardy run --json"),
    schema!(
        TUNE_LAB,
        "tune-lab",
        "tardy tune --search --lab --json, and result.json in its folder"
    ),
    schema!(TUNE_PLAN, "tune-plan", "tardy tune --plan --json"),
    schema!(
        TUNE_SEARCH,
        "tune-search",
        "tardy tune --search --json, and result.json in its folder"
    ),
    schema!(
        WHY,
        "why",
        "tardy lab why ... --json, tardy compare --why BASE NEW --format json"
    ),
];

/// Prints a schema, or the names of all schemas.
#[must_use]
pub fn run(args: &SchemaArgs) -> Exit {
    let text = match &args.name {
        None => output::fitted(&list()),
        Some(name) => match SCHEMAS.iter().find(|schema| schema.format.name == name) {
            Some(schema) => schema.text.to_owned(),
            None => {
                let names = SCHEMAS.iter().map(|schema| schema.format.name);
                say!(
                    "tardy: there is no format `{name}`{}: `tardy schema` names them",
                    did_you_mean(name, names)
                );
                return Exit::Usage;
            }
        },
    };
    output::print(&text).map_or(Exit::Machine, |()| Exit::Done)
}

fn list() -> String {
    let mut text = String::new();
    let width = SCHEMAS
        .iter()
        .map(|schema| schema.format.name.len())
        .max()
        .unwrap_or(0);
    for schema in SCHEMAS {
        let _ = writeln!(
            text,
            "{:<width$}  {}  {}",
            schema.format.name, schema.format.version, schema.written_by
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_of_its_format() {
        for Schema { format, text, .. } in SCHEMAS {
            let schema: serde_json::Value = serde_json::from_str(text).unwrap();
            let constants = &schema["properties"]["format"]["properties"];
            assert_eq!(
                (&constants["name"]["const"], &constants["version"]["const"]),
                (&format.name.into(), &format.version.into())
            );
            assert!(
                schema["required"]
                    .as_array()
                    .unwrap()
                    .contains(&"format".into()),
                "{}",
                format.name
            );
        }
        assert!(SCHEMAS.is_sorted_by_key(|schema| schema.format.name));
        assert!(list().lines().all(|line| line.len() <= 110), "{}", list());
    }
}
