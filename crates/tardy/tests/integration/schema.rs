//! `tardy schema`. Documents are checked against their schemas wherever a test reads them
//! (`support::document`).

use crate::support;

use support::workplace::Workplace;
use tardy::command::schema::SCHEMAS;

#[test]
fn every_format_has_a_schema_that_validators_take() {
    let place = Workplace::new();
    let list = place.tardy("schema").ends_with(0).stdout;
    assert_eq!(list.lines().count(), SCHEMAS.len());
    for line in list.lines() {
        let name = line.split(' ').next().unwrap();
        let schema: serde_json::Value =
            serde_json::from_str(&place.tardy(&format!("schema {name}")).ends_with(0).stdout)
                .unwrap();
        jsonschema::draft202012::meta::validate(&schema)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            schema["properties"]["format"]["properties"]["name"]["const"],
            name
        );
    }
}

#[test]
fn a_format_that_there_is_not_is_answered_with_the_nearest() {
    let refused = Workplace::new().tardy("schema lab-atals").ends_with(2);
    assert!(
        refused.stdout.is_empty() && refused.stderr.contains("did you mean `lab-atlas`?"),
        "{refused:?}"
    );
}

#[test]
fn a_key_that_the_schema_does_not_name_or_a_version_of_the_future_is_found() {
    let place = Workplace::new();
    let list = place.tardy("list links --json").ends_with(0).json();
    let faulty = |change: fn(&mut serde_json::Value)| {
        let mut changed = list.clone();
        change(&mut changed);
        std::panic::catch_unwind(|| support::document::check(&changed, "list")).is_err()
    };
    assert!(!faulty(|_| {}));
    assert!(faulty(|list| list["links"][0]["more"] = 1.into()));
    assert!(faulty(|list| list["format"]["version"] = 2.into()));
    assert!(faulty(
        |list| _ = list["links"][0].as_object_mut().unwrap().remove("form")
    ));
}
