//! `ostler schema` is valid, and what the product prints is valid under it. The validator knows the keywords that the schema
//! uses and fails on any other, so that nothing passes unread.

use super::shape::assert_shape;
use crate::broker::subscriber::Subscriber;
use crate::support::Root;
use serde_json::{Map, Value, json};

/// Keywords that say something to a reader and nothing to a validator.
const SILENT: [&str; 8] = ["description", "title", "format", "default", "$schema", "$defs", "deprecated", "examples"];

struct Validator<'a> {
    root: &'a Value,
}

impl Validator<'_> {
    fn valid(&self, path: &str, value: &Value, schema: &Value) -> Result<(), String> {
        if let Some(anything) = schema.as_bool() {
            return if anything { Ok(()) } else { Err(format!("{path}: nothing is allowed here")) };
        }
        let keywords = schema.as_object().unwrap_or_else(|| panic!("{path}: not a schema: {schema}"));
        keywords.iter().try_for_each(|(keyword, rule)| self.keyword(path, value, keywords, keyword, rule))
    }

    fn keyword(
        &self,
        path: &str,
        value: &Value,
        schema: &Map<String, Value>,
        keyword: &str,
        rule: &Value,
    ) -> Result<(), String> {
        let fails = || Err(format!("{path}: {value} breaks {keyword} {rule}"));
        let count = |rule: &Value| usize::try_from(rule.as_u64().unwrap()).unwrap();
        let holds = match keyword {
            "type" => types(rule).iter().any(|name| is_of_type(value, name)),
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").expect("a definition of this schema");
                return self.valid(path, value, &self.root["$defs"][name]);
            }
            "anyOf" => self.fitting(path, value, rule) > 0,
            "oneOf" => self.fitting(path, value, rule) == 1,
            "allOf" => return rule.as_array().unwrap().iter().try_for_each(|rule| self.valid(path, value, rule)),
            "properties" => {
                let (Some(value), Some(rules)) = (value.as_object(), rule.as_object()) else { return Ok(()) };
                let known = rules.iter().filter_map(|(name, rule)| Some((name, value.get(name)?, rule)));
                return known
                    .into_iter()
                    .try_for_each(|(name, value, rule)| self.valid(&format!("{path}.{name}"), value, rule));
            }
            "required" => {
                let needed = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                value.as_object().is_none_or(|value| needed.into_iter().all(|name| value.contains_key(name)))
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let mut others = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
                return others.try_for_each(|(name, value)| self.valid(&format!("{path}.{name}"), value, rule));
            }
            "items" => {
                let mut items = value.as_array().into_iter().flatten().enumerate();
                return items.try_for_each(|(index, value)| self.valid(&format!("{path}[{index}]"), value, rule));
            }
            "minimum" => value.as_f64().is_none_or(|value| value >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|value| value <= rule.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|value| value.chars().count() >= count(rule)),
            "maxLength" => value.as_str().is_none_or(|value| value.chars().count() <= count(rule)),
            "minItems" => value.as_array().is_none_or(|value| value.len() >= count(rule)),
            "maxItems" => value.as_array().is_none_or(|value| value.len() <= count(rule)),
            // The one that is used: printable ASCII.
            "pattern" if rule == "^[ -~]+$" => value
                .as_str()
                .is_none_or(|value| !value.is_empty() && value.bytes().all(|byte| (0x20..0x7f).contains(&byte))),
            silent if SILENT.contains(&silent) => true,
            unknown => panic!("{path}: the validator does not know {unknown} {rule}"),
        };
        if holds { Ok(()) } else { fails() }
    }

    fn fitting(&self, path: &str, value: &Value, rules: &Value) -> usize {
        rules.as_array().unwrap().iter().filter(|rule| self.valid(path, value, rule).is_ok()).count()
    }
}

fn types(rule: &Value) -> Vec<&str> {
    match rule.as_str() {
        Some(name) => vec![name],
        None => rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(),
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("no such type: {unknown}"),
    }
}

/// The document without what the command line adds to the protocol's result.
fn result_of(mut document: Value) -> Value {
    document.as_object_mut().unwrap().remove("schema");
    document
}

#[test]
fn what_the_command_line_prints_is_valid_under_the_schema() {
    let root = Root::new();
    let schema = root.ostler(["schema"]).exits(0).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let validator = Validator { root: &schema };
    let check = |method: &str, document: Value| {
        let rule = &schema["methods"][method]["result"];
        assert!(rule.is_object(), "no schema of {method}");
        if let Err(why) = validator.valid(method, &result_of(document.clone()), rule) {
            panic!("{why}\nin {document:#}");
        }
    };
    check("session.spawn", root.json(["spawn", "--name", "a", "--label", "k=v", "--", "sleep", "1000"]));
    check("session.list", root.json(["list", "--all"]));
    check("broker.status", root.json(["status"]));
    check("session.stop", root.json(["stop", "a"]));
    check("session.resume", root.json(["resume", "a"]));
    check("session.stop", root.json(["stop", "a", "--key", "stop-again"]));
    let mut subscriber = Subscriber::owner(&root);
    let subscription = subscriber.gets("events.subscribe", json!({"after": 0}));
    check("events.subscribe", subscription.clone());
    let rule = &schema["notifications"]["event"]["params"];
    validator.valid("event", &subscriber.event(), rule).unwrap();
    check(
        "events.unsubscribe",
        subscriber.gets("events.unsubscribe", json!({"subscription": subscription["subscription"]})),
    );
    check("session.wait", root.json(["wait", "a"]));
    check("operation.list", root.json(["operation", "list"]));
    check("operation.get", root.json(["operation", "show", "stop-again"]));
    check("session.delete", root.json(["delete", "a"]));
    root.ostler(["run", "--", "false"]).exits(1);
    check("session.list", root.json(["list"]));
    check("session.prune", root.json(["prune", "--older", "0s", "--dry-run"]));
    check("session.prune", root.json(["prune", "--older", "0s"]));
    root.ostler(["shutdown"]).exits(0);
    check("broker.status", root.json(["status"]));
    let error = root.ostler(["--json", "show", "nobody"]).exits(3).json()["error"].clone();
    validator.valid("error", &error, &schema["error"]).unwrap();
}

#[test]
fn the_schema_has_every_method_that_the_broker_can_and_is_one_document() {
    let root = Root::new();
    let document = root.ostler(["schema", "--json"]).exits(0).json();
    assert_shape(
        &document,
        "{protocol:{min:1,max:1},methods:map,notifications:{event:map,hello:map},error:map,error_codes:[text]}",
    );
    assert!(!root.path().exists(), "asking for the schema starts nothing and makes nothing");
    let mut listed: Vec<&String> = document["methods"].as_object().unwrap().keys().collect();
    let output = crate::support::finish(&mut root.command(["connect"]), b"").exits(0);
    let hello: Value = serde_json::from_str(output.text().lines().next().unwrap()).unwrap();
    let can: Vec<String> = serde_json::from_value(hello["params"]["capabilities"].clone()).unwrap();
    listed.retain(|name| *name != "hello");
    let mut can: Vec<&String> = can.iter().filter(|name| *name != "hello").collect();
    listed.sort();
    can.sort();
    assert_eq!(listed, can);
}

#[test]
fn the_validator_bites() {
    let schema = json!({"$defs": {"A": {"type": "object", "properties": {"n": {"type": ["integer", "null"], "minimum": 0}}, "required": ["n"], "additionalProperties": false}}});
    let validator = Validator { root: &schema };
    let check = |value: Value, rule: &Value| validator.valid("", &value, rule).is_ok();
    let rule = json!({"$ref": "#/$defs/A"});
    assert!(check(json!({"n": 1}), &rule) && check(json!({"n": null}), &rule));
    for bad in [json!({}), json!({"n": -1}), json!({"n": 1.5}), json!({"n": 1, "m": 1}), json!([])] {
        assert!(!check(bad.clone(), &rule), "{bad}");
    }
    assert!(check(json!("a"), &json!({"oneOf": [{"const": "a"}, {"const": "b"}]})));
    assert!(!check(json!("c"), &json!({"enum": ["a", "b"]})));
    assert!(!check(json!([1, "x"]), &json!({"items": {"type": "integer"}})));
}
