//! Writes what a static binary contains, in CycloneDX 1.5 (JSON): every linked crate with its
//! licence, its checksum and its dependencies.
//!
//! The same tree always gives the same bytes. `cargo cyclonedx` is not used, because it writes a
//! time and a random number, and omits Rust's standard library and the C library, which are linked
//! in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// Name of the file, next to the binary.
const FILE: &str = "tardy.cdx.json";

/// Writes the list of components of a build for `target` into the folder of the binary.
pub(crate) fn write(target: &str, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(FILE);
    workspace::write(&file, text(target)?.as_bytes())?;
    Ok(file)
}

/// A linked crate.
#[derive(Default)]
struct Crate {
    licence: String,
    /// Names and versions of the crates on which this crate depends.
    uses: BTreeSet<String>,
}

fn text(target: &str) -> Result<String> {
    let lock = workspace::read(&workspace::root().join("Cargo.lock"))?;
    let mut rustc = Command::new("rustc");
    let compiler = program::capture(rustc.arg("--version").current_dir(workspace::root()))?;
    let document = document(
        &linked(target)?,
        &checksums(&lock),
        target,
        compiler.split(' ').nth(1).unwrap_or_default(),
    );
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .while_doing(|| "writing JSON".to_owned())
}

/// Runs `cargo tree` for the linked crates. Each line of the output has a depth, a package and a
/// licence.
fn tree(target: &str) -> Result<String> {
    let mut tree = workspace::cargo();
    tree.args(["tree", "--locked", "--package", "tardy", "--no-dedupe"])
        .args(["--edges", "normal", "--prefix", "depth"])
        .args(["--format", "{p}\t{l}", "--target", target]);
    program::capture(&mut tree)
}

/// Returns the linked crates by `name@version`.
fn linked(target: &str) -> Result<BTreeMap<String, Crate>> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    // The chain of crates that depend on the current line's crate, by depth.
    let mut above: Vec<String> = Vec::new();
    for line in tree(target)?.lines() {
        let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        let parts = line[digits..]
            .split_once('\t')
            .zip(line[..digits].parse::<usize>().ok());
        let Some(((package, licence), depth)) = parts else {
            return Err(Failure::new(format!("cargo tree printed `{line}`")));
        };
        let package = package.split(" (").next().unwrap_or_default();
        let package = package.replacen(" v", "@", 1);
        above.truncate(depth);
        if let Some(user) = above.last().and_then(|user| crates.get_mut(user)) {
            user.uses.insert(package.clone());
        }
        crates.entry(package.clone()).or_default().licence = licence.to_owned();
        above.push(package);
    }
    Ok(crates)
}

/// Returns the checksums of Cargo.lock by `name@version`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let entries = lock.split("[[package]]").skip(1).filter_map(|entry| {
        let of = |key: &str| {
            let line = |line: &'_ str| {
                line.strip_prefix(key)?
                    .strip_prefix(" = \"")
                    .map(str::to_owned)
            };
            Some(
                entry
                    .lines()
                    .find_map(line)?
                    .trim_end_matches('"')
                    .to_owned(),
            )
        };
        Some((
            format!("{}@{}", of("name")?, of("version")?),
            of("checksum")?,
        ))
    });
    entries.collect()
}

fn document(
    crates: &BTreeMap<String, Crate>,
    checksums: &BTreeMap<String, String>,
    target: &str,
    compiler: &str,
) -> Value {
    let reference = |package: &String| format!("pkg:cargo/{package}");
    let component = |package: &String, kind: &str| {
        let (name, version) = package.split_once('@').unwrap_or((package, ""));
        let mut component = json!({
            "type": kind, "bom-ref": reference(package), "name": name, "version": version, "purl": reference(package),
        });
        // Older crates write `MIT/Apache-2.0`, which is not a valid SPDX expression.
        let licence = crates[package].licence.replace('/', " OR ");
        if !licence.is_empty() {
            component["licenses"] = json!([{ "expression": licence }]);
        }
        if let Some(checksum) = checksums.get(package) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let is_root = |package: &&String| package.starts_with("tardy@");
    let mut components: Vec<Value> = crates
        .keys()
        .filter(|package| !is_root(package))
        .map(|package| component(package, "library"))
        .collect();
    let library = if target.contains("musl") {
        "musl"
    } else {
        "glibc"
    };
    components.push(json!({ "type": "library", "bom-ref": "rust-std", "name": "rust-std", "version": compiler }));
    components.push(json!({ "type": "library", "bom-ref": library, "name": library, "description": format!("the C library of {target}") }));
    components.sort_by_key(|component| component["bom-ref"].as_str().map(str::to_owned));
    let dependencies: Vec<Value> = crates
        .iter()
        .map(|(package, one)| json!({ "ref": reference(package), "dependsOn": one.uses.iter().map(reference).collect::<Vec<_>>() }))
        .collect();
    let root = crates.keys().find(is_root);
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "component": root.map(|root| component(root, "application")),
            "properties": [{ "name": "target", "value": target }],
        },
        "components": components, "dependencies": dependencies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_that_is_linked_is_in_it_with_its_checksum_and_nothing_dangles() {
        for target in ["x86_64-unknown-linux-musl", "riscv64gc-unknown-linux-gnu"] {
            let written = text(target).unwrap();
            assert_eq!(
                written,
                text(target).unwrap(),
                "the same tree gives the same bytes"
            );
            let document: Value = serde_json::from_str(&written).unwrap();
            let components = document["components"].as_array().unwrap();
            let tree = tree(target).unwrap();
            let linked: BTreeSet<String> = tree
                .lines()
                .map(|line| line.trim_start_matches(|c: char| c.is_ascii_digit()))
                .filter_map(|line| {
                    let mut words = line.split([' ', '\t']);
                    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
                    (name != "tardy").then(|| format!("pkg:cargo/{name}@{version}"))
                })
                .collect();
            assert!(linked.len() > 50, "{tree}");
            let mut references = BTreeSet::new();
            for component in components {
                let name = component["name"].as_str().unwrap();
                let reference = component["bom-ref"].as_str().unwrap();
                references.insert(reference);
                if !linked.contains(reference) {
                    assert!(["rust-std", "musl", "glibc"].contains(&name), "{component}");
                    continue;
                }
                let licence = &component["licenses"][0]["expression"];
                let checksum = component["hashes"][0]["content"].as_str();
                let has_checksum = checksum.is_some_and(|checksum| checksum.len() == 64);
                assert!(licence.is_string(), "{component}");
                assert_eq!(has_checksum, !name.starts_with("tardy"), "{component}");
            }
            // Besides the crates, the list contains Rust's standard library and the C library.
            assert_eq!(
                (references.len(), components.len()),
                (linked.len() + 2, linked.len() + 2)
            );
            for dependency in document["dependencies"].as_array().unwrap() {
                let named = dependency["dependsOn"].as_array().unwrap().iter();
                let dangling = named.filter(|one| !references.contains(one.as_str().unwrap()));
                assert_eq!(dangling.count(), 0, "{dependency}");
            }
            let is_of_tests = |name: &str| ["proptest", "insta"].contains(&name);
            assert!(
                components
                    .iter()
                    .all(|one| !is_of_tests(one["name"].as_str().unwrap()))
            );
        }
    }

    #[test]
    fn checksums_are_those_of_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nchecksum = \
                    \"00ff\"\n\n[[package]]\nname = \"b\"\nversion = \"2\"\n";
        assert_eq!(
            checksums(lock),
            BTreeMap::from([("a@1.0".to_owned(), "00ff".to_owned())])
        );
    }
}
