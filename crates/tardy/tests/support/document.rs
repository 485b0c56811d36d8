//! Reads documents of `--json`: each document that a test reads is checked against its schema, so
//! the schema cannot differ from the tool's output.

use jsonschema::Validator;
use serde_json::Value;
use tardy::command::schema::SCHEMAS;

/// Compiles the schema `name` so that it rejects unknown keys.
#[track_caller]
fn validator(name: &str) -> Validator {
    let schema = SCHEMAS
        .iter()
        .find(|schema| schema.format.name == name)
        .unwrap_or_else(|| panic!("`{name}` has no schema"));
    let mut schema: Value = serde_json::from_str(schema.text).unwrap();
    close(&mut schema, false);
    jsonschema::draft202012::new(&schema).unwrap()
}

/// Reads JSON. A document that names its format must match the schema.
#[track_caller]
pub(crate) fn read(text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if let Some(name) = value["format"]["name"].as_str() {
        check(&value, name);
    }
    value
}

/// Reads a document that must have this format and match its schema.
#[track_caller]
pub(crate) fn read_as(text: &str, name: &str) -> Value {
    let value = read(text);
    assert_eq!(value["format"]["name"], name, "{text}");
    value
}

#[track_caller]
pub(crate) fn check(value: &Value, name: &str) {
    let faults: Vec<String> = validator(name)
        .iter_errors(value)
        .map(|error| format!("at {}: {error}", error.instance_path()))
        .collect();
    assert!(
        faults.is_empty(),
        "crates/tardy/schemas/{name}.json does not describe it:\n{}",
        faults.join("\n").chars().take(4000).collect::<String>()
    );
}

/// Forbids keys that the schema does not name. Readers must ignore such keys; in a test, they mean
/// that the schema was not updated.
fn close(schema: &mut Value, is_part: bool) {
    let has_keys = has_keys(schema);
    let Some(keys) = schema.as_object_mut() else {
        return;
    };
    for (key, value) in keys.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "$defs", Value::Object(named)) => {
                named.values_mut().for_each(|value| close(value, false))
            }
            ("allOf" | "oneOf" | "anyOf", Value::Array(parts)) => {
                parts.iter_mut().for_each(|value| close(value, true))
            }
            ("prefixItems", Value::Array(items)) => {
                items.iter_mut().for_each(|value| close(value, false))
            }
            ("items" | "additionalProperties", value) => close(value, false),
            _ => {}
        }
    }
    if has_keys && !is_part {
        keys.insert("unevaluatedProperties".to_owned(), false.into());
    }
}

fn has_keys(schema: &Value) -> bool {
    let parts = ["allOf", "oneOf", "anyOf"]
        .into_iter()
        .filter_map(|key| schema[key].as_array())
        .flatten();
    schema["properties"].is_object() || parts.into_iter().any(has_keys)
}
