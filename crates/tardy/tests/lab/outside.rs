//! Guests watched from outside: nothing changes in them, and what was done to them is seen.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tardy_lab::injection::{InjectedDelay, LOG_PATH, parse_log};
use tardy_outside::kind::Kind;
use tardy_outside::store;
use tardy_outside::stream::Item;

use super::{REAL_TIME, STOCK, compared, lab, lab_is_there, modules};

#[test]
fn a_watched_guest_has_the_samples_of_one_that_is_not_watched() {
    if !lab_is_there("watched guests", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs");
    let arguments = ["--kernel", STOCK, "--preempt", "none,full", "--kernel", REAL_TIME, "--cycles", "300", "--load", "memory"];
    // The second run of each guest is not watched.
    let variants = compared(&out, &[&arguments[..], &["--watch", "--verify-repeatable"]].concat());
    for (name, variant) in &variants {
        assert_eq!(variant["runs"][0]["repeated"], true, "{name}");
        let run = out.join(name).join("replica-000");
        let watched = store::read(&run).unwrap().unwrap();
        assert!(watched.sections > 10_000 && watched.knows_preemption && watched.unstored == 0, "{watched:?}");
        let names: Vec<_> = std::fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("watch.")), "{names:?}");
    }
    assert_eq!(variants.len(), 3);

    let census = shown(&["show", out.to_str().unwrap(), "--json"]);
    let group = |variant: &str| {
        let groups = census["groups"].as_array().unwrap();
        groups.iter().find(|group| group["variant"] == variant && group["load"] == "memory").unwrap_or_else(|| panic!("{variant}")).clone()
    };
    let longest = |variant: &str, kind: Kind| group(variant)["kinds"][kind.index()]["longest_ns"].as_u64().unwrap();
    // What only threads do on a real-time kernel, softirqs do elsewhere.
    assert!(longest("6.1-none", Kind::Softirq) > 0 && longest("6.1-rt", Kind::Softirq) == 0);
    assert!(longest("6.1-full", Kind::PreemptionOff) > longest("6.1-rt", Kind::PreemptionOff));
    // A latency that the probe saw is no longer than a section and its own way.
    let max = variants["6.1-rt"]["phases"][0]["max_ns"].as_u64().unwrap();
    assert!(longest("6.1-rt", Kind::Blocked) < 100_000 && max < 100_000, "{max}");
    let text = String::from_utf8(tardy(&["show", out.to_str().unwrap()]).stdout).unwrap();
    assert!(text.contains("longest of 6.1-rt") && text.contains("interrupts off"), "{text}");

    let differences = ["compare", "--sections", "--format", "json"];
    let (base, other) = (out.join("6.1-full"), out.join("6.1-rt"));
    let found = shown(&[&differences[..], &[base.to_str().unwrap(), other.to_str().unwrap()]].concat());
    let found = found.as_array().unwrap();
    assert!(found.iter().any(|difference| difference["change"] == "gone"), "{found:?}");
    let same = shown(&[&differences[..], &[base.to_str().unwrap(), base.to_str().unwrap()]].concat());
    assert_eq!(same.as_array().unwrap().len(), 0);
}

fn tardy(arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_tardy")).args(arguments).output().unwrap()
}

fn shown(arguments: &[&str]) -> Value {
    let output = tardy(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const FIRINGS: usize = 5;

/// Runs delays of one context in a watched guest; returns what the module logged, and all sections of one kind with the function that begins them.
fn fired(folder: &Path, kernel: &[&str], context: &str, kind: Kind) -> (Vec<InjectedDelay>, Vec<(String, i64)>) {
    let (delays, modules) = (format!("{context}:300us:{FIRINGS}"), modules());
    let mut arguments = vec!["--for", "1400ms", "--load", "none", "--watch", "--inject", &delays];
    arguments.extend(["--inject-modules", modules.to_str().unwrap()]);
    arguments.extend(kernel);
    let variants: BTreeMap<String, Value> = compared(folder, &arguments);
    let run = folder.join(variants.keys().next().unwrap()).join("replica-000");
    let watched = store::read(&run).unwrap().unwrap();
    let mut sections = Vec::new();
    store::read_items(&run, |item, reader| {
        let Item::Section(section) = item else { return };
        let site = reader.sites()[section.site as usize];
        if site.kind == kind {
            let begin = watched.functions.get(&format!("{:x}", site.begin_pc)).cloned().unwrap_or_default();
            sections.push((begin, (section.length * watched.instruction_ns) as i64));
        }
    })
    .unwrap();
    (parse_log(&std::fs::read_to_string(run.join(LOG_PATH)).unwrap()).unwrap(), sections)
}

#[test]
fn delays_of_known_length_are_sections_of_their_kind_at_their_length() {
    if !lab_is_there("known delays from outside", true) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stock = ["--kernel", STOCK, "--preempt", "full"];
    let cases: [(&str, &[&str], Kind, Option<&str>); 5] = [
        ("preemption-off", &stock, Kind::PreemptionOff, Some("spin_preemption_off [tardy_inject]")),
        ("interrupts-off", &["--kernel", REAL_TIME], Kind::InterruptsOff, Some("spin_interrupts_off [tardy_inject]")),
        ("raw-spinlock", &["--kernel", REAL_TIME], Kind::PreemptionOff, Some("spin_raw_spinlock [tardy_inject]")),
        ("spinlock", &stock, Kind::PreemptionOff, Some("spin_spinlock [tardy_inject]")),
        ("softirq", &stock, Kind::Softirq, None),
    ];
    for (context, kernel, kind, begin) in cases {
        let (firings, sections) = fired(&folder.path().join(context), kernel, context, kind);
        assert_eq!(firings.len(), FIRINGS);
        let lengths = || sections.iter().filter(|(function, _)| begin.is_none_or(|begin| function == begin)).map(|(_, length)| *length);
        for firing in firings {
            let inside = firing.ended.0 - firing.begun.0;
            assert!(lengths().any(|length| (inside..inside + 1500).contains(&length)), "{context}: {inside}, {:?}", lengths().max());
        }
        assert_eq!(lengths().filter(|length| *length >= 300_000).count(), FIRINGS, "{context}");
    }
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_reason() {
    if !lab_is_there("what cannot be watched", false) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs");
    let run = ["run", "--kernel", STOCK, "--watch", "--out", out.to_str().unwrap()];
    let output = lab(&[&run[..], &["--memory", "4096"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let output = tardy(&["show", "--sections", folder.path().to_str().unwrap()]);
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("--watch"));
}
