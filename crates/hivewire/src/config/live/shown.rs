//! Configuration as people may see it: key by key, without what is secret.

use std::collections::BTreeMap;

use serde_json::Value;
use url::Url;

/// What stands in the place of a secret.
const HIDDEN: &str = "…";
/// Keys whose values are secrets wherever they stand.
const SECRETS: [&str; 4] = ["bearer", "passcode", "password", "token"];

/// The values of all keys, with their sections. A list is one value.
pub(super) fn flat(config: &Value) -> BTreeMap<String, Value> {
    let mut keys = BTreeMap::new();
    collect(config, "", &mut keys);
    keys
}

fn collect(value: &Value, path: &str, keys: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(section) => {
            for (key, value) in section {
                let below = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                collect(value, &below, keys);
            }
        }
        value => {
            keys.insert(path.to_owned(), value.clone());
        }
    }
}

/// The value at a key, if it stands there.
pub(super) fn at<'a>(config: &'a Value, key: &str) -> Option<&'a Value> {
    key.split('.')
        .try_fold(config, |section, part| section.get(part))
}

/// Puts a value at a key. False if something else than a section stands in the way.
pub(super) fn put(config: &mut Value, key: &str, value: Value) -> bool {
    let (sections, last) = match key.rsplit_once('.') {
        Some((sections, last)) => (sections.split('.').collect(), last),
        None => (Vec::new(), key),
    };
    let mut section = config;
    for part in sections {
        let Some(table) = section.as_object_mut() else {
            return false;
        };
        section = table
            .entry(part)
            .or_insert_with(|| Value::Object(Default::default()));
    }
    match section.as_object_mut() {
        Some(table) => {
            table.insert(last.to_owned(), value);
            true
        }
        None => false,
    }
}

/// The value without secrets: passwords, tokens, and what stands in addresses besides the host.
pub(super) fn without_secrets(value: &Value) -> Value {
    match value {
        Value::Object(table) => {
            let shown = table.iter().map(|(key, value)| {
                let is_secret = SECRETS.contains(&key.as_str()) && !value.is_null();
                let shown = match is_secret {
                    true => HIDDEN.into(),
                    false => without_secrets(value),
                };
                (key.clone(), shown)
            });
            Value::Object(shown.collect())
        }
        Value::Array(list) => list.iter().map(without_secrets).collect(),
        Value::String(text) if text.contains("://") => shown_address(text).into(),
        value => value.clone(),
    }
}

/// Users, paths and queries of addresses may be secrets: those of webhooks often are.
fn shown_address(text: &str) -> String {
    let Ok(url) = Url::parse(text) else {
        return HIDDEN.to_owned();
    };
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    let has_more = !url.username().is_empty()
        || url.password().is_some()
        || url.path().len() > 1
        || url.query().is_some();
    let more = if has_more { "/…" } else { "" };
    format!(
        "{}://{}{port}{more}",
        url.scheme(),
        url.host_str().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_are_read_and_written_by_their_sections() {
        let mut config = json!({ "a": 1, "b": { "c": [1, 2], "d": null } });
        let keys: Vec<String> = flat(&config).into_keys().collect();
        assert_eq!(keys, ["a", "b.c", "b.d"]);
        assert!(put(&mut config, "b.e.f", json!(5)) && put(&mut config, "a", json!(2)));
        assert_eq!(at(&config, "b.e.f"), Some(&json!(5)));
        assert_eq!(at(&config, "a"), Some(&json!(2)));
        assert_eq!(at(&config, "b.x.f"), None);
        assert!(!put(&mut config, "a.b", json!(1)), "that is no section");
    }

    #[test]
    fn secrets_are_not_shown() {
        let value = json!([{
            "name": "alice",
            "password": "hush",
            "bearer": null,
            "url": "https://hush:hush@example.org:1/hush?hush",
            "bus": ["stomp://h:61613", "postgres://u@h/hush", "://hush"],
        }]);
        let shown = without_secrets(&value);
        assert!(!shown.to_string().contains("hush"), "{shown}");
        assert_eq!(shown[0]["name"], "alice");
        assert_eq!(shown[0]["bearer"], Value::Null);
        assert_eq!(shown[0]["url"], "https://example.org:1/…");
        assert_eq!(shown[0]["bus"][0], "stomp://h:61613");
    }
}
