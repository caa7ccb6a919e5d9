//! What is other in one document than in another, for people to read.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::model::Document;

/// How many characters of a value are shown.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// What is other, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The lines, in order.
    pub lines: Vec<Line>,
}

/// One thing that is other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Whether it is new, gone or changed.
    pub sign: Sign,
    /// The field, such as `stages.words.workers`.
    pub path: String,
    /// What it was, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// What it is, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<String>,
}

/// What happened to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is other.
    Changed,
}

impl Difference {
    /// Whether both are the same.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// What is other in `new` than in `old`, or than in nothing.
pub fn difference(old: Option<&Document>, new: &Document) -> Difference {
    let old = old.map(members_of).unwrap_or_default();
    let mut lines = Vec::new();
    compare(&old, &members_of(new), "", &mut lines);
    Difference { lines }
}

fn members_of(document: &Document) -> Map<String, Value> {
    match serde_json::to_value(document) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// Tables are looked into, and all else is shown as it is.
fn compare(old: &Map<String, Value>, new: &Map<String, Value>, path: &str, lines: &mut Vec<Line>) {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match (old.get(name), new.get(name)) {
            (was, is) if was == is => {}
            (Some(Value::Object(was)), Some(Value::Object(is))) => compare(was, is, &path, lines),
            // All stages of a new flow, each with a line of its own.
            (None, Some(Value::Object(is))) if path == "stages" => {
                compare(&Map::new(), is, &path, lines)
            }
            (was, is) => lines.push(line(path, was, is)),
        }
    }
}

fn line(path: String, was: Option<&Value>, is: Option<&Value>) -> Line {
    let sign = match (was, is) {
        (None, _) => Sign::Added,
        (_, None) => Sign::Removed,
        _ => Sign::Changed,
    };
    let shown = |value: &Value| {
        let text = value.to_string();
        match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    Line {
        sign,
        path,
        was: was.map(shown),
        is: is.map(shown),
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match (&self.was, &self.is) {
            (Some(was), Some(is)) => write!(f, "~ {path}: {was} -> {is}"),
            (Some(was), None) => write!(f, "- {path}: {was}"),
            (None, Some(is)) => write!(f, "+ {path}: {is}"),
            (None, None) => write!(f, "~ {path}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"
        flow = "f"
        [stages.a]
        plugin = "p"
        to = "b"
        [stages.b]
        plugin = "p"
        workers = 2
        key = "body"
        limits = { batch_ms = 3 }
    "#;

    #[test]
    fn every_field_that_differs_has_a_line() {
        let old = Document::parse(OLD).unwrap().document;
        assert!(difference(Some(&old), &old).is_empty());
        let new = OLD
            .replace("workers = 2", "workers = 3")
            .replace("key = \"body\"", "description = \"x\"")
            .replace("batch_ms = 3", "batch_ms = 4")
            .replace("to = \"b\"", "to = [\"b\", \"queue:q\"]")
            + "[stages.c]\nplugin = \"p\"";
        let new = Document::parse(&new).unwrap().document;
        let shown = difference(Some(&old), &new).to_string();
        let expected = "\
~ stages.a.outputs.out: \"b\" -> [\"b\",\"queue:q\"]
+ stages.b.description: \"x\"
- stages.b.key: \"body\"
~ stages.b.limits.batch_ms: 3 -> 4
~ stages.b.workers: 2 -> 3
+ stages.c: {\"plugin\":\"p\"}
";
        assert_eq!(shown, expected);
        let first = difference(None, &old).to_string();
        assert!(first.contains("+ stages.a: "), "{first}");
    }
}
