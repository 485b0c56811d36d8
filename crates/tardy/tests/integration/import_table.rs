//! Tests the table of docs/import.md, which has tool, version and layout of each test file, and the
//! result of its import. `INSTA_UPDATE=always` writes the table.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::import::sample;
use crate::support::workplace::Workplace;

const HEAD: &str =
    "| tool | version | layout | result | file | origin |\n|---|---|---|---|---|---|\n";

#[test]
fn the_table_of_docs_import_is_what_the_import_makes_of_each_file() {
    let origins = fs::read_to_string(sample("").with_file_name("import-origins.tsv")).unwrap();
    let (mut table, mut files) = (HEAD.to_owned(), BTreeSet::new());
    for line in origins.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, tool, version, layout, options, origin] = columns[..] else {
            panic!("{line} does not have six columns");
        };
        files.insert(file.to_owned());
        let result = result(file, options);
        let name = file.rsplit('/').next().unwrap();
        writeln!(
            table,
            "| {tool} | {version} | {layout} | {result} | {name} | {origin} |"
        )
        .unwrap();
    }
    assert_eq!(files, files_there());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/import.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, _) = page.split_once("| tool | version |").unwrap_or((&page, ""));
    let wanted = before.to_owned() + &table;
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, &wanted).unwrap();
    }
    assert!(
        page == wanted,
        "docs/import.md has another table: INSTA_UPDATE=always cargo nextest run import_table"
    );
}

/// Returns the format and the number of samples, or the reason why the file is refused.
fn result(file: &str, options: &str) -> String {
    let place = Workplace::new();
    let path = sample("").with_file_name(file);
    let path = path.display();
    let outcome = place.tardy(&format!("import {path} --out run {options}"));
    let said = outcome.stdout.clone() + &outcome.stderr;
    let options = if options.is_empty() {
        String::new()
    } else {
        format!(" with `{options}`")
    };
    match outcome.code() {
        0 => {
            let line = said.lines().find(|line| line.contains(" series from "));
            let (_, rest) = line.unwrap().rsplit_once(" (").unwrap();
            let (format, samples) = rest.split_once("), ").unwrap();
            format!("read as `{format}`{options}: {samples}")
        }
        2 => {
            let (_, why) = said.split_once(&format!("{path}: ")).unwrap();
            format!("refused{options}: {}", why.trim())
        }
        code => panic!("{file}: {code}: {said}"),
    }
}

fn files_there() -> BTreeSet<String> {
    ["import", "import-cases", "import-posted"]
        .iter()
        .flat_map(|folder| {
            let names = fs::read_dir(sample("").with_file_name(folder)).unwrap();
            names.map(move |name| {
                let name = name.unwrap().file_name().into_string().unwrap();
                format!("{folder}/{name}")
            })
        })
        .filter(|file| file != "import/README.md")
        .collect()
}
