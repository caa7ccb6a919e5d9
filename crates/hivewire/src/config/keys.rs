//! Which keys there are. They are read off the defaults, so the list cannot fall behind the code.

use std::path::{Path, PathBuf};

use broker::{QueueRule, QueueSettings};
use listeners::User;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, ConfigFile};
use crate::alerts::{EmailSettings, RuleSettings, WebhookSettings};
use crate::deploy::{Location, RepositorySettings};

/// Below this likeness a key of another section may be meant rather than one of the same.
const LIKENESS_MIN: f64 = 0.5;

/// A key that may stand in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownKey {
    /// The key with its section, such as `http.address`.
    pub path: String,
    /// Its default; `null` where it must be given.
    pub default: Value,
}

/// All keys with their defaults.
pub fn known_keys() -> Vec<KnownKey> {
    let mut keys = Vec::new();
    collect(&sample(), "", &mut keys);
    keys.retain(|key| !key.default.is_object());
    keys
}

/// A file in which every list holds an element, so that its keys are seen.
fn sample() -> Value {
    let mut file = ConfigFile::default();
    file.users.push(User {
        name: String::new(),
        password: String::new(),
        node: false,
    });
    file.broker.queues.push(QueueRule {
        name: String::new(),
        settings: QueueSettings::default(),
    });
    file.alerts.rules.push(RuleSettings::named(""));
    file.alerts.webhooks.push(WebhookSettings::at(""));
    file.alerts.emails.push(EmailSettings::over(""));
    file.plugins.repositories.push(RepositorySettings {
        name: String::new(),
        location: Location::Folder(PathBuf::new()),
        token: None,
    });
    serde_json::to_value(file).expect("settings have text keys")
}

/// The table behind a key: itself, or the element of a list of tables.
fn table_of(value: &Value) -> Option<&serde_json::Map<String, Value>> {
    match value {
        Value::Object(table) => Some(table),
        Value::Array(list) => list.first().and_then(Value::as_object),
        _ => None,
    }
}

fn join(section: &str, key: &str) -> String {
    if section.is_empty() {
        key.to_owned()
    } else {
        format!("{section}.{key}")
    }
}

fn collect(value: &Value, section: &str, keys: &mut Vec<KnownKey>) {
    for (key, value) in table_of(value).into_iter().flatten() {
        let path = join(section, key);
        let default = match value {
            Value::Array(_) => Value::Array(Vec::new()),
            Value::String(text) if text.is_empty() => Value::Null,
            other => other.clone(),
        };
        keys.push(KnownKey {
            path: path.clone(),
            default,
        });
        collect(value, &path, keys);
    }
}

/// The line, from 1, on which a byte stands.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Finds the first key that does not exist.
pub(super) fn check(path: &Path, text: &str, table: &DeTable<'_>) -> Result<(), ConfigError> {
    match find_unknown(table, &sample(), "") {
        None => Ok(()),
        Some(unknown) => Err(ConfigError::UnknownKey {
            path: path.to_path_buf(),
            line: line_of(text, unknown.offset),
            nearest: nearest(&unknown),
            key: join(&unknown.section, &unknown.key),
        }),
    }
}

struct Unknown {
    section: String,
    key: String,
    offset: usize,
}

fn find_unknown(table: &DeTable<'_>, known: &Value, section: &str) -> Option<Unknown> {
    let known = table_of(known)?;
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref();
        match known.get(name.as_ref()) {
            None => Some(Unknown {
                section: section.to_owned(),
                key: name.to_string(),
                offset: key.span().start,
            }),
            Some(known) => find_unknown_below(value.get_ref(), known, &join(section, name)),
        }
    })
}

fn find_unknown_below(value: &DeValue<'_>, known: &Value, section: &str) -> Option<Unknown> {
    match value {
        DeValue::Table(table) => find_unknown(table, known, section),
        DeValue::Array(list) => list
            .iter()
            .find_map(|element| find_unknown_below(element.get_ref(), known, section)),
        _ => None,
    }
}

/// The known key that looks most like this one: of the same section if any does, else of all.
fn nearest(unknown: &Unknown) -> String {
    let mut keys = Vec::new();
    collect(&sample(), "", &mut keys);
    let likeness = |path: &str| {
        let last = path.rsplit('.').next().unwrap_or(path);
        strsim::normalized_damerau_levenshtein(last, &unknown.key)
    };
    let best = |paths: &mut dyn Iterator<Item = &KnownKey>| {
        paths
            .map(|key| (likeness(&key.path), key.path.clone()))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let is_sibling = |key: &&KnownKey| {
        let section = key.path.rsplit_once('.').map_or("", |(section, _)| section);
        section == unknown.section
    };
    let sibling = best(&mut keys.iter().filter(is_sibling));
    let chosen = match sibling {
        Some((likeness, path)) if likeness >= LIKENESS_MIN => Some((likeness, path)),
        _ => best(&mut keys.iter()),
    };
    chosen.map(|(_, path)| path).unwrap_or_default()
}
