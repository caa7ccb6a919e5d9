//! Compares answers with the OpenAPI document.

use std::collections::BTreeSet;

use serde_json::{Value, json};

const METHODS: [&str; 5] = ["get", "post", "put", "delete", "patch"];

/// A document, and which of its operations were called.
pub struct Contract {
    pub document: Value,
    called: BTreeSet<String>,
}

/// An answer as it came.
pub struct Received {
    pub status: u16,
    pub content_type: Option<String>,
    pub body: Vec<u8>,
}

impl Contract {
    pub fn new(document: Value) -> Self {
        Self {
            document: closed(document),
            called: BTreeSet::new(),
        }
    }

    /// All operations, each as its method and path.
    pub fn operations(&self) -> BTreeSet<String> {
        let paths = self.document["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            let methods = methods.filter(|method| METHODS.contains(&method.as_str()));
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        });
        operations.collect()
    }

    /// Operations that nobody called.
    pub fn not_called(&self) -> Vec<String> {
        self.operations()
            .difference(&self.called)
            .cloned()
            .collect()
    }

    /// The operation that a request is one of: a path without braces goes before one with.
    fn operation(&self, method: &str, path: &str) -> Result<(String, &Value), String> {
        let path = path.split('?').next().unwrap();
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |template: &&String| {
            let places: Vec<&str> = template.split('/').collect();
            places.len() == parts.len()
                && places
                    .iter()
                    .zip(&parts)
                    .all(|(place, part)| place.starts_with('{') || place == part)
        };
        let paths = self.document["paths"].as_object().unwrap();
        let template = paths
            .keys()
            .filter(fits)
            .min_by_key(|template| template.matches('{').count())
            .ok_or_else(|| format!("the document has no path for {path}"))?;
        let operation = paths[template].get(method.to_lowercase());
        let operation =
            operation.ok_or_else(|| format!("the document has no {method} {template}"))?;
        Ok((format!("{method} {template}"), operation))
    }

    /// Compares an answer with what the document says, and counts the operation as called.
    pub fn check(&mut self, method: &str, path: &str, answer: &Received) -> Result<(), String> {
        let (name, operation) = self.operation(method, path)?;
        let compared = self.compare(operation, answer);
        self.called.insert(name.clone());
        compared.map_err(|reason| {
            let body = String::from_utf8_lossy(&answer.body);
            format!(
                "{name} ({path}) answered {}: {reason}\n{body}",
                answer.status
            )
        })
    }

    fn compare(&self, operation: &Value, answer: &Received) -> Result<(), String> {
        let response = &operation["responses"][answer.status.to_string()];
        let response = match response["$ref"].as_str() {
            Some(reference) => self.document.pointer(&reference[1..]).unwrap(),
            None => response,
        };
        if response.is_null() {
            return Err("the status is not in the document".to_owned());
        }
        let Some(contents) = response["content"].as_object() else {
            return match answer.body.is_empty() {
                true => Ok(()),
                false => Err("the document says that there is no body".to_owned()),
            };
        };
        let kind = answer.content_type.as_deref().unwrap_or_default();
        let content = contents
            .get(kind)
            .or_else(|| contents.get("*/*"))
            .ok_or_else(|| format!("the content type {kind:?} is not in the document"))?;
        match content.get("schema") {
            None => Ok(()),
            Some(schema) if kind == "application/x-ndjson" => {
                let lines = answer.body.split(|byte| *byte == b'\n');
                let mut lines = lines.filter(|line| !line.is_empty());
                lines.try_for_each(|line| self.fits(schema, line))
            }
            Some(schema) => self.fits(schema, &answer.body),
        }
    }

    fn fits(&self, schema: &Value, bytes: &[u8]) -> Result<(), String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "allOf": [schema],
            "components": self.document["components"],
        });
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors.join("\n")),
        }
    }
}

/// The same document, where objects hold nothing but what it names: what code gives beyond the document
/// is found out as well.
fn closed(mut document: Value) -> Value {
    let schemas = document["components"]["schemas"].as_object_mut().unwrap();
    schemas.values_mut().for_each(close);
    document
}

fn close(schema: &mut Value) {
    const JOINS: [&str; 4] = ["oneOf", "anyOf", "allOf", "$ref"];
    match schema {
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Object(object) => {
            let has_properties = object.get("properties").is_some_and(Value::is_object);
            // The parts of something that is joined know only their own properties.
            let is_joined = JOINS.iter().any(|join| object.contains_key(*join));
            if has_properties && is_joined {
                return;
            }
            if has_properties {
                object
                    .entry("additionalProperties")
                    .or_insert(Value::Bool(false));
            }
            object.values_mut().for_each(close);
        }
        _ => {}
    }
}
