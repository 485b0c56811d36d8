//! Tests `tardy lab atlas`: each cell is generated once, by whichever process comes first, and
//! every table is made from the cells.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::snapshots::cache_without_snapshots;
use super::{REAL_TIME, assert_accounted, lab_is_there};

/// An atlas of one kernel with two loads and two replicas.
struct Atlas {
    cache: PathBuf,
    out: PathBuf,
}

const CELLS: usize = 4;

impl Atlas {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tardy"));
        command
            .args(["lab", "atlas", "--out"])
            .arg(&self.out)
            .args(arguments)
            .env("XDG_CACHE_HOME", &self.cache);
        command
    }

    fn making(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&[
            "--kernel",
            REAL_TIME,
            "--load",
            "none",
            "--load",
            "fork",
            "--replicas",
            "2",
            "--for",
            "600ms",
        ]);
        command.args(arguments);
        command
    }

    fn cells(&self) -> Vec<PathBuf> {
        let mut cells: Vec<PathBuf> = std::fs::read_dir(self.out.join("cells"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        cells.sort();
        cells
    }
}

fn ended(mut command: Command) -> (i32, String, String) {
    told(&command.output().unwrap())
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Number of cells that a lab generated, according to its messages.
fn made(stderr: &str) -> usize {
    let count = |line: &str| {
        line.split_once(" cells in ")?
            .0
            .rsplit(' ')
            .next()?
            .parse::<usize>()
            .ok()
    };
    stderr.lines().filter_map(count).sum()
}

fn sample_digest(cell: &Path) -> String {
    let record: Value =
        serde_json::from_slice(&std::fs::read(cell.join("lab.json")).unwrap()).unwrap();
    record["sample_digest"].as_str().unwrap().to_owned()
}

#[test]
fn a_cell_is_made_once_by_whichever_lab_comes_first_and_again_only_when_it_is_gone() {
    if !lab_is_there("the atlas", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    cache_without_snapshots(&cache);
    let atlas = Atlas {
        cache,
        out: folder.path().join("atlas"),
    };
    // Remains of a killed lab.
    let torn = atlas.out.join("cells/.part-6.1-rt-000/samples");
    std::fs::create_dir_all(&torn).unwrap();

    let start = |number: u32| {
        let log = |end: &str| {
            std::fs::File::create(folder.path().join(format!("{number}.{end}"))).unwrap()
        };
        atlas
            .making(&["--json", "--jobs", "1"])
            .stdout(log("out"))
            .stderr(log("err"))
            .spawn()
            .unwrap()
    };
    let mut labs = [start(1), start(2)];
    assert!(labs.iter_mut().all(|lab| lab.wait().unwrap().success()));
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(
        made(&read("1.err")) + made(&read("2.err")),
        CELLS,
        "two labs share the work: {}{}",
        read("1.err"),
        read("2.err")
    );
    assert_eq!(read("1.out"), read("2.out"), "and show the same table");
    let table = crate::support::document::read_as(&read("1.out"), "lab-atlas");
    for load in 0..2 {
        let cell = &table["cells"][0][load];
        assert_eq!(cell["runs"], 2);
        assert_eq!(
            cell["numbers"]["max_of_runs_ns"].as_array().unwrap().len(),
            2
        );
        // Of the 1,200 due times, only those after the load's first work count. That work starts
        // after about 250 ms, because the test's binary is not optimised.
        assert!(cell["numbers"]["samples"].as_u64() >= Some(650), "{cell}");
    }
    assert_eq!(
        (&table["kernels"][0]["name"], &table["kernels"][0]["model"]),
        (&"6.1-rt".into(), &"rt".into())
    );
    let cells = atlas.cells();
    assert_eq!(cells.len(), CELLS, "{cells:?}");
    cells.iter().for_each(|cell| assert_accounted(cell));
    assert!(
        std::fs::read_to_string(atlas.out.join("atlas.html"))
            .unwrap()
            .contains("6.1-rt under fork")
    );

    let digest = sample_digest(&cells[1]);
    std::fs::remove_dir_all(&cells[1]).unwrap();
    let (code, _, said) = ended(atlas.command(&[]));
    assert_eq!(
        code, 3,
        "a table with a hole is not what was asked for: {said}"
    );
    let (code, shown, said) = ended(atlas.making(&["--json"]));
    assert_eq!((code, made(&said)), (0, 1), "{said}");
    assert_eq!(shown, read("1.out"));
    assert_eq!(
        sample_digest(&cells[1]),
        digest,
        "the same inputs give the same samples"
    );
    let (code, text, said) = ended(atlas.command(&[]));
    assert_eq!((code, made(&said)), (0, 0), "{said}");
    assert!(
        text.contains("largest latency") && text.contains("6.1-rt"),
        "{text}"
    );
    let (_, markdown, _) = ended(atlas.command(&["--markdown"]));
    assert!(markdown.contains("| 6.1-rt | "), "{markdown}");

    let parts = ["1/2", "2/2"].map(|shard| {
        let part = Atlas {
            cache: atlas.cache.clone(),
            out: folder.path().join(shard.replace('/', "-")),
        };
        let (code, shown, said) = ended(part.making(&["--shard", shard]));
        assert_eq!(
            (code, made(&said), shown.as_str()),
            (0, CELLS / 2, ""),
            "{said}"
        );
        part
    });
    for cell in parts[1].cells() {
        std::fs::rename(
            &cell,
            parts[0].out.join("cells").join(cell.file_name().unwrap()),
        )
        .unwrap();
    }
    let (code, shown, _) = ended(parts[0].command(&["--json"]));
    assert_eq!(
        (code, shown),
        (0, read("1.out")),
        "shards put together are the whole"
    );
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("atlas");
    let refused = |arguments: &[&str], reason: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tardy"));
        command
            .args(["lab", "atlas", "--out"])
            .arg(&out)
            .args(arguments);
        let (code, _, said) = ended(command);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(reason) && !out.exists(), "{said}");
    };
    refused(&[], "holds no atlas");
    refused(
        &["--kernel", "debian:6.1", "--load", "nosuch"],
        "there is no load `nosuch`",
    );
    refused(
        &["--kernel", "debian:6.1", "--shard", "3/2"],
        "I from 1 to N",
    );
    refused(&["--kernel", "debian:6.1", "--", "--nosuch"], "--nosuch");
}

#[test]
fn a_kernel_that_cannot_be_had_is_named_and_the_others_are_measured() {
    if !lab_is_there("an atlas without one kernel", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    cache_without_snapshots(&cache);
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "no kernel").unwrap();
    let atlas = Atlas {
        cache,
        out: folder.path().join("atlas"),
    };
    let broken = broken.to_str().unwrap();
    let kernels = [
        "--kernel",
        broken,
        "--kernel",
        REAL_TIME,
        "--load",
        "none",
        "--replicas",
        "1",
        "--for",
        "300ms",
    ];
    let (code, text, said) = ended(atlas.command(&kernels));
    assert_eq!((code, made(&said)), (3, 1), "{said}");
    assert!(
        text.contains("broken is left out") && text.contains("6.1-rt"),
        "{text}"
    );
}
