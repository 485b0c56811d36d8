//! Tests injected delays whose kind and length are known, and the cause that `tardy run --explain`
//! names for them. docs/proof-archive.md has the result for all kernels of the lab.

use std::collections::BTreeMap;

use tardy_lab::blame::judge;
use tardy_lab::injection::Context;

use super::{REAL_TIME, STOCK, compared, lab_is_there, modules};

#[test]
fn a_delay_of_any_kind_is_laid_to_its_cause_at_its_length() {
    if !lab_is_there("blame for known delays", true) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let modules = modules();
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::new());
    for context in Context::ALL {
        let delays = format!("{}:1ms:8", context.name());
        let out = folder.path().join(context.name());
        let mut arguments = vec![
            "--kernel",
            STOCK,
            "--preempt",
            "none,full",
            "--kernel",
            REAL_TIME,
            "--for",
            "1300ms",
            "--load",
            "none",
        ];
        arguments.extend([
            "--inject",
            &delays,
            "--inject-modules",
            modules.to_str().unwrap(),
            "--",
            "--period",
            "100us",
            "--explain",
        ]);
        for variant in compared(&out, &arguments).keys() {
            let judged = judge(&out.join(variant).join("replica-000"), context).unwrap();
            assert_eq!(judged.len(), 8, "{} on {variant}", context.name());
            seen.insert(
                (context.name(), variant.clone()),
                judged.iter().filter(|one| one.blamed.is_some()).count(),
            );
            wrong.extend(
                judged
                    .into_iter()
                    .filter(|one| !one.is_true() || !one.is_exact())
                    .map(|one| (context.name(), variant.clone(), one)),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The preemption model decides in which contexts a delay keeps other threads off the CPU.
    let of =
        |variant: &str| Context::ALL.map(|context| seen[&(context.name(), variant.to_owned())]);
    assert_eq!(
        [of("6.1-none"), of("6.1-full"), of("6.1-rt")],
        [[8; 6], [8, 8, 8, 8, 8, 0], [8, 8, 0, 8, 0, 0]]
    );
}
