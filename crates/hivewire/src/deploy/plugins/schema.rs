//! Arguments against the JSON Schema of a plug-in's parameters.

use std::time::Duration;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many regular expressions a schema may hold.
const PATTERNS_MAX: usize = 100;
/// What one of them may take once it is compiled.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// How long arguments may be checked: a schema can be written so that this takes for ever.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// How many checks run at a time. One that takes for ever keeps its place, so that a few of its kind
/// cannot have all threads.
const CHECKS_AT_ONCE: usize = 4;
static CHECKS: Semaphore = Semaphore::const_new(CHECKS_AT_ONCE);

/// Why arguments do not fit the parameters of a plug-in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the args do not fit the parameters of {plugin}: {reason}")]
pub struct ArgsError {
    /// The plug-in, or the component's name.
    pub plugin: String,
    /// Where the mistake is, as a JSON pointer; empty for the whole.
    pub pointer: String,
    /// What is wrong, and where, without the values that stand there: one may be a secret.
    pub reason: String,
}

/// Makes a schema ready. Its regular expressions take linear time, and nothing is fetched for it.
pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns = patterns_in(schema);
    if patterns > PATTERNS_MAX {
        return Err(format!(
            "it holds {patterns} regular expressions, and {PATTERNS_MAX} are allowed"
        ));
    }
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            path => format!("at {path}: {error}"),
        })
}

fn patterns_in(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                let here = match (key.as_str(), value) {
                    ("pattern", Value::String(_)) => 1,
                    ("patternProperties", Value::Object(patterns)) => patterns.len(),
                    _ => 0,
                };
                here + patterns_in(value)
            })
            .sum(),
        Value::Array(list) => list.iter().map(patterns_in).sum(),
        _ => 0,
    }
}

/// Checks arguments, which are JSON.
pub(in crate::deploy) async fn check_args(
    plugin: &str,
    schema: Value,
    args: &str,
) -> Result<(), ArgsError> {
    let (name, text) = (plugin.to_owned(), args.to_owned());
    let checking = async move {
        let permit = CHECKS.acquire().await;
        let checking = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            check(&name, &schema, &text)
        });
        checking.await
    };
    let failed = |reason: String| ArgsError {
        plugin: plugin.to_owned(),
        pointer: String::new(),
        reason,
    };
    match timeout(CHECK_TIMEOUT, checking).await {
        Ok(Ok(checked)) => checked,
        Ok(Err(error)) => Err(failed(format!("checking them broke off: {error}"))),
        Err(_) => Err(failed(format!(
            "checking them takes more than {CHECK_TIMEOUT:?}: simplify its schema"
        ))),
    }
}

/// Tells the first mistake. There may be so many that gathering them would take all memory.
fn check(plugin: &str, schema: &Value, args: &str) -> Result<(), ArgsError> {
    let wrong = |pointer: &str, reason: String| ArgsError {
        plugin: plugin.to_owned(),
        pointer: pointer.to_owned(),
        reason,
    };
    let args: Value = serde_json::from_str(args)
        .map_err(|error| wrong("", format!("they must be JSON ({})", position(&error))))?;
    let validator =
        compile(schema).map_err(|reason| wrong("", format!("its schema is none: {reason}")))?;
    let checked = validator.validate(&args);
    checked.map_err(|error| {
        let reason = error.masked().to_string();
        match error.instance_path().as_str() {
            "" => wrong("", reason),
            pointer => wrong(pointer, format!("at {pointer}: {reason}")),
        }
    })
}

/// Where JSON ends to be JSON. The parser's own words may hold what stands there.
fn position(error: &serde_json::Error) -> String {
    format!("see line {}, column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "limit": { "type": "integer", "minimum": 1 },
                "shops": { "type": "array", "items": { "type": "string", "pattern": "^[a-z]+$" } },
            },
            "required": ["limit"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn a_mistake_is_told_with_its_place_and_without_its_value() {
        assert_eq!(
            check("p", &schema(), r#"{"limit":3,"shops":["a"]}"#),
            Ok(())
        );
        for (args, pointer, expected) in [
            (r#"{"limit":"planted-secret"}"#, "/limit", "integer"),
            (r#"{"limit":0}"#, "/limit", "minimum"),
            (r#"{"limit":1,"shops":["a","B"]}"#, "/shops/1", "^[a-z]+$"),
            (r#"{}"#, "", "limit"),
            (r#"{"limit":1,"limits":2}"#, "", "limits"),
            ("planted-secret", "", "line 1, column 1"),
        ] {
            let error = check("p", &schema(), args).unwrap_err();
            assert_eq!(error.pointer, pointer, "{error}");
            let text = error.to_string();
            assert!(text.contains(expected), "{text}");
            assert!(text.contains(pointer), "{text}");
            assert!(!text.contains("planted-secret"), "{text}");
        }
    }

    #[test]
    fn schemas_that_fetch_or_are_none_are_refused() {
        for schema in [
            json!({ "$ref": "http://127.0.0.1:1/schema.json" }),
            json!({ "$ref": "file:///etc/passwd" }),
            json!({ "type": "orders" }),
            json!({ "pattern": "(" }),
            json!({ "pattern": "(a{1000}){1000}" }),
            json!({ "patternProperties": { "(?=a)": true } }),
        ] {
            assert!(compile(&schema).is_err(), "{schema}");
        }
        let many: Vec<Value> = (0..=PATTERNS_MAX)
            .map(|_| json!({ "pattern": "a" }))
            .collect();
        assert!(compile(&json!({ "anyOf": many })).is_err());
    }

    /// Two to the power of sixty: all together they would not fit into memory.
    #[test]
    fn of_endlessly_many_mistakes_the_first_is_told() {
        let mut definitions = json!({ "d60": { "required": ["x"] } });
        for number in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/d{}", number + 1) });
            definitions[format!("d{number}")] = json!({ "allOf": [next.clone(), next] });
        }
        let schema = json!({ "$defs": definitions, "$ref": "#/$defs/d0" });
        let error = check("p", &schema, "{}").unwrap_err();
        assert!(error.reason.contains("\"x\""), "{error}");
    }

    #[test]
    fn a_schema_that_leads_to_itself_ends() {
        let tree = json!({
            "type": "object",
            "properties": { "next": { "$ref": "#" } },
            "additionalProperties": false,
        });
        assert_eq!(check("p", &tree, r#"{"next":{"next":{}}}"#), Ok(()));
        let error = check("p", &tree, r#"{"next":{"last":{}}}"#).unwrap_err();
        assert_eq!(error.pointer, "/next");
        for endless in [
            json!({ "$ref": "#" }),
            json!({ "allOf": [{ "$ref": "#" }] }),
        ] {
            let _ = check("p", &endless, "{}");
        }
    }
}
