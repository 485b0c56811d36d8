//! Passes the seeds of the fuzz targets and their stored corpora to the targets' functions, without
//! a fuzzer.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use lzma_rust2::XzReader;
use tar::Archive;
use tardy_fuzz::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("its folder can be read").path())
        .collect();
    files.sort();
    files
}

#[test]
fn no_seed_makes_a_reader_panic() {
    for target in TARGETS {
        let seeds = files(&fuzz().join("seeds").join(target.name));
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for seed in seeds {
            let bytes = fs::read(&seed).unwrap();
            println!("{}", seed.display());
            (target.check)(&bytes);
        }
    }
}

#[test]
fn nothing_that_was_kept_of_a_corpus_makes_a_reader_panic() {
    for target in TARGETS {
        let kept = fuzz().join(format!("kept/{}.tar.xz", target.name));
        let mut archive = Archive::new(XzReader::new(File::open(&kept).unwrap(), false));
        let mut inputs = 0;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.header().entry_type().is_file() {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                println!("{}: {}", target.name, entry.path().unwrap().display());
                (target.check)(&bytes);
                inputs += 1;
            }
        }
        assert!(inputs > 0, "{} is empty", kept.display());
    }
}

#[test]
fn every_target_has_a_program_that_calls_it_and_a_row_in_the_readme() {
    let readme = fs::read_to_string(fuzz().join("README.md")).unwrap();
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    for name in &names {
        let program = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(
            program.contains(&format!("tardy_fuzz::{name}::check(bytes)")),
            "{name}"
        );
        assert!(
            manifest.contains(&format!(
                "name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\""
            )),
            "{name} is not built"
        );
        assert!(
            readme.contains(&format!("| `{name}` |")),
            "{name} stands in no table"
        );
    }
    assert!(names.is_sorted());
    for folder in ["fuzz_targets", "seeds"] {
        let found: Vec<String> = files(&fuzz().join(folder))
            .iter()
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .filter(|name| name != "README")
            .collect();
        assert_eq!(found, names, "{folder}");
    }
}
