//! `cargo xtask sbom`: what a static binary is made of, in CycloneDX 1.5 (JSON): every crate that
//! is linked, from Cargo.lock, with licence and checksum, and what brings it.
//!
//! The same tree gives the same bytes: there is no time and no drawn number in it.
//!
//! The bill of materials comes from cargo's own graph, with a few lines of our own code. A tool for
//! it takes longer to build than the product, and writes a time and a random number, which differ
//! in a second build. The bill also names Rust's standard library and the C library: they are
//! linked in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::failure::{Failure, Result, While};
use crate::{program, workspace};

/// Beside the binary.
const FILE: &str = "tardy.cdx.json";

/// Writes that of a build for this target into the folder of the binary.
pub(crate) fn write(target: &str, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(FILE);
    workspace::write(&file, text(target)?.as_bytes())?;
    Ok(file)
}

fn text(target: &str) -> Result<String> {
    let metadata = program::capture(workspace::cargo().args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        target,
    ]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).while_doing(|| "reading cargo's metadata".to_owned())?;
    let lock = std::fs::read_to_string(workspace::root().join("Cargo.lock"))
        .while_doing(|| "reading Cargo.lock".to_owned())?;
    let compiler = program::capture(
        std::process::Command::new("rustc")
            .arg("--version")
            .current_dir(workspace::root()),
    )?;
    let metadata = Graph {
        metadata: &metadata,
        built: &built(target)?,
    };
    let document = document(
        &metadata,
        &checksums(&lock),
        target,
        compiler.split(' ').nth(1).unwrap_or_default(),
    );
    let document = document.ok_or_else(|| {
        Failure::new("cargo's metadata has no package `tardy`, or no dependency graph")
    })?;
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .while_doing(|| "writing JSON".to_owned())
}

/// What cargo builds for the tool alone, as `name version`: the graph of its metadata has what
/// features of other packages of the workspace need, too.
fn built(target: &str) -> Result<BTreeSet<String>> {
    let mut tree = workspace::cargo();
    tree.args([
        "tree",
        "--locked",
        "--package",
        "tardy",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--no-dedupe",
        "--target",
        target,
    ]);
    Ok(program::capture(&mut tree)?
        .lines()
        .filter_map(|line| Some(line.split(" (").next()?.trim().replacen(" v", " ", 1)))
        .collect())
}

/// What needs what, and which of it is built.
struct Graph<'a> {
    metadata: &'a Value,
    built: &'a BTreeSet<String>,
}

/// The checksums of Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let entries = lock.split("[[package]]").skip(1).filter_map(|entry| {
        let of = |key: &str| {
            entry
                .lines()
                .find_map(|line| {
                    line.strip_prefix(key)?
                        .strip_prefix(" = \"")?
                        .strip_suffix('"')
                })
                .map(str::to_owned)
        };
        Some(((of("name")?, of("version")?), of("checksum")?))
    });
    entries.collect()
}

fn document(
    graph: &Graph<'_>,
    checksums: &BTreeMap<(String, String), String>,
    target: &str,
    compiler: &str,
) -> Option<Value> {
    let metadata = graph.metadata;
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let root = *packages
        .iter()
        .find(|(_, package)| package["name"] == "tardy")?
        .0;
    // What is needed to build or to test alone is not linked.
    let is_linked = |dependency: &&Value| {
        dependency["dep_kinds"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let is_built = |id: &&str| {
        let text = |key: &str| {
            packages
                .get(id)
                .and_then(|package| package[key].as_str())
                .unwrap_or_default()
        };
        graph
            .built
            .contains(&format!("{} {}", text("name"), text("version")))
    };
    let needs = |id: &str| -> BTreeSet<&str> {
        let all = nodes
            .get(id)
            .and_then(|node| node["deps"].as_array())
            .into_iter()
            .flatten();
        all.filter(is_linked)
            .filter_map(|dependency| dependency["pkg"].as_str())
            .filter(is_built)
            .collect()
    };
    let mut linked = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(id) = next.pop() {
        next.extend(
            needs(id)
                .into_iter()
                .filter(|&needed| linked.insert(needed)),
        );
    }
    let reference = |id: &str| {
        let (name, version) = (
            packages[id]["name"].as_str().unwrap_or_default(),
            packages[id]["version"].as_str().unwrap_or_default(),
        );
        format!("pkg:cargo/{name}@{version}")
    };
    let component = |id: &str, kind: &str| {
        let package = packages[id];
        let mut component = json!({
            "type": kind, "bom-ref": reference(id), "name": package["name"], "version": package["version"], "purl": reference(id),
        });
        if let Some(licence) = package["license"].as_str() {
            // Older crates write `MIT/Apache-2.0`, which is no expression of SPDX.
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        if let Some(checksum) = checksums.get(&(text("name"), text("version"))) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    let mut components: Vec<Value> = linked
        .iter()
        .filter(|&&id| id != root)
        .map(|id| component(id, "library"))
        .collect();
    let library = if target.contains("musl") {
        "musl"
    } else {
        "glibc"
    };
    components.push(json!({ "type": "library", "bom-ref": "rust-std", "name": "rust-std", "version": compiler }));
    components.push(json!({ "type": "library", "bom-ref": library, "name": library, "description": format!("the C library of {target}") }));
    components.sort_by_key(|component| component["bom-ref"].as_str().map(str::to_owned));
    let mut dependencies: Vec<Value> = linked
        .iter()
        .map(|id| json!({ "ref": reference(id), "dependsOn": needs(id).into_iter().map(&reference).collect::<BTreeSet<_>>() }))
        .collect();
    dependencies.sort_by_key(|dependency| dependency["ref"].as_str().map(str::to_owned));
    Some(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": component(root, "application"), "properties": [{ "name": "target", "value": target }] },
        "components": components, "dependencies": dependencies,
    }))
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
            let find = |name: &str, version: &str| {
                components
                    .iter()
                    .find(|one| one["name"] == name && one["version"] == version)
            };
            let mut tree = workspace::cargo();
            tree.args([
                "tree",
                "--locked",
                "--package",
                "tardy",
                "--edges",
                "normal",
                "--prefix",
                "none",
                "--no-dedupe",
                "--target",
            ]);
            let tree = program::capture(tree.arg(target)).unwrap();
            let linked: BTreeSet<(&str, &str)> = tree
                .lines()
                .filter_map(|line| line.split(" (").next()?.trim().split_once(" v"))
                .filter(|(name, _)| *name != "tardy")
                .collect();
            assert!(linked.len() > 50, "{tree}");
            assert_eq!(
                components.len(),
                linked.len() + 2,
                "beside the crates, Rust's library and C's"
            );
            for (name, version) in linked {
                let component = find(name, version).unwrap_or_else(|| {
                    panic!("{name} {version} is linked, and is not in the SBOM")
                });
                assert!(
                    component["licenses"][0]["expression"].is_string(),
                    "{component}"
                );
                let is_own = name.starts_with("tardy");
                assert_eq!(
                    component["hashes"][0]["content"]
                        .as_str()
                        .map_or(0, str::len),
                    if is_own { 0 } else { 64 },
                    "{component}"
                );
            }
            let references: BTreeSet<&str> = components
                .iter()
                .map(|one| one["bom-ref"].as_str().unwrap())
                .collect();
            assert_eq!(
                references.len(),
                components.len(),
                "each has a unique reference"
            );
            for dependency in document["dependencies"].as_array().unwrap() {
                let named = dependency["dependsOn"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| one.as_str().unwrap());
                assert_eq!(
                    named
                        .filter(|one| !references.contains(one))
                        .collect::<Vec<_>>(),
                    [""; 0]
                );
            }
            assert!(
                components
                    .iter()
                    .all(|one| one["name"] != "proptest" && one["name"] != "insta"),
                "tests are not linked"
            );
        }
    }

    #[test]
    fn checksums_are_those_of_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nchecksum = \
                    \"00ff\"\n\n[[package]]\nname = \"b\"\nversion = \"2\"\n";
        assert_eq!(
            checksums(lock),
            BTreeMap::from([(("a".to_owned(), "1.0".to_owned()), "00ff".to_owned())])
        );
    }
}
