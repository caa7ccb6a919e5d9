//! A document as tidy TOML, always in the same order: stages stand before those that they lead to.

use serde_json::{Map, Value};

use super::http::HttpRoute;
use super::model::{Document, Stage, USUAL_OUTPUT};

/// A table that makes a longer line gets lines of its own.
const LINE_CHARACTERS_MAX: usize = 110;

/// The fields of a stage, in the order in which they are written.
const STAGE_FIELDS: [&str; 16] = [
    "plugin",
    "description",
    "parameters",
    "to",
    "outputs",
    "key",
    "router",
    "workers",
    "scale",
    "delivery",
    "grants",
    "supervision",
    "limits",
    "hand_over",
    "on",
    "position",
];

/// The fields of a route, in the order in which they are written.
const ROUTE_FIELDS: [&str; 5] = ["route", "stage", "reply", "timeout", "headers"];

impl Document {
    /// The document as TOML.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut top = vec![("flow", Value::from(self.flow.as_str()))];
        if !self.description.is_empty() {
            top.push(("description", Value::from(self.description.as_str())));
        }
        top.push(("delivery", Value::from(self.delivery.name())));
        for (name, value) in top {
            text += &line(name, &value);
        }
        let groups = self.downstream_first();
        for name in groups.iter().rev().flatten() {
            if let Some(stage) = self.stages.get(name) {
                write_stage(name, stage, &mut text);
            }
        }
        for route in &self.http {
            write_route(route, &mut text);
        }
        text
    }
}

fn write_route(route: &HttpRoute, text: &mut String) {
    let Ok(Value::Object(fields)) = serde_json::to_value(route) else {
        return;
    };
    *text += "\n[[http]]\n";
    for field in ROUTE_FIELDS {
        if let Some(value) = fields.get(field) {
            *text += &line(field, value);
        }
    }
}

fn write_stage(name: &str, stage: &Stage, text: &mut String) {
    let header = format!("stages.{}", key(name));
    let fields = fields_of(stage);
    *text += &format!("\n[{header}]\n");
    let mut tables = Vec::new();
    for field in STAGE_FIELDS {
        let Some(value) = fields.get(field) else {
            continue;
        };
        let line = line(field, value);
        match value {
            // A table's header ends the fields of the stage, so tables come last.
            Value::Object(members) if line.chars().count() > LINE_CHARACTERS_MAX => {
                tables.push((field, members));
            }
            _ => *text += &line,
        }
    }
    for (field, members) in tables {
        *text += &format!("\n[{header}.{field}]\n");
        for (name, value) in members {
            *text += &line(name, value);
        }
    }
}

/// What is to be written about a stage: nothing that goes without saying.
fn fields_of(stage: &Stage) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(stage) else {
        return Map::new();
    };
    let usual = [
        (
            "supervision",
            serde_json::to_value(runtime::SupervisionRule::default()),
        ),
        (
            "hand_over",
            serde_json::to_value(runtime::HandOverRule::default()),
        ),
    ];
    for (name, usual) in usual {
        if let (Some(Value::Object(rule)), Ok(usual)) = (fields.get_mut(name), usual) {
            rule.retain(|field, value| usual.get(field) != Some(value));
        }
    }
    let only_usual = |outputs: &Value| outputs.as_object().is_some_and(|all| all.len() == 1);
    if fields.get("outputs").is_some_and(only_usual)
        && let Some(to) = fields["outputs"].get(USUAL_OUTPUT).cloned()
    {
        fields.remove("outputs");
        fields.insert("to".to_owned(), to);
    }
    fields
}

fn line(name: &str, value: &Value) -> String {
    format!("{} = {}\n", key(name), inline(value))
}

fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => inline(&Value::from(name)),
    }
}

/// A value in one line, or in several if it is a text of several lines.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, value)| format!("{} = {}", key(name), inline(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(inline).collect();
            format!("[{}]", list.join(", "))
        }
        Value::String(text) => toml::Value::String(text.clone()).to_string(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.to_string(),
            None => toml::Value::Float(number.as_f64().unwrap_or_default()).to_string(),
        },
        Value::Bool(truth) => truth.to_string(),
        // Refused when the document was read.
        Value::Null => "\"\"".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exported_is_short_and_in_the_order_of_events() {
        let text = r#"
            flow = "f"
            [stages.a]
            plugin = "sink"
            from = "b"
            parameters = { one = "a rather long text that does not fit", two = ["another one", "and one more that is long"] }
            supervision = { tries_max = 9 }
            [stages.b]
            plugin = "source"
            workers = 2
            parameters = { "a key" = 1.0 }
            [[http]]
            stage = "a"
            reply = false
            headers = ["accept"]
            route = "POST /a"
        "#;
        let document = Document::parse(text).unwrap().document;
        let expected = r#"flow = "f"
delivery = "state-once"

[stages.b]
plugin = "source"
parameters = { "a key" = 1.0 }
to = "a"
workers = 2

[stages.a]
plugin = "sink"
supervision = { tries_max = 9 }

[stages.a.parameters]
one = "a rather long text that does not fit"
two = ["another one", "and one more that is long"]

[[http]]
route = "POST /a"
stage = "a"
reply = false
headers = ["accept"]
"#;
        assert_eq!(document.to_toml(), expected);
        let again = Document::parse(expected).unwrap().document;
        assert_eq!(again, document);
    }
}
