//! Configuration while a node runs: what holds and where it comes from, and changes of what can be changed
//! without a restart.

mod changeable;
mod kept;
mod shown;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::changeable::CHANGEABLE;
pub(crate) use self::changeable::{Parts, changeable_keys};
pub use self::kept::KeepError;
use self::kept::Kept;
pub(crate) use self::kept::{By, Change};
use super::file::without_values;
use super::{Config, ConfigFile};
use crate::desk::Refusal;

/// How long a value may be, as JSON.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "ConfigFrom")]
pub(crate) enum From {
    Default,
    File,
    Flag,
    RunTime,
}

/// A key as people see it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct KeyShown {
    pub key: String,
    pub value: Value,
    pub default: Value,
    pub from: From,
    /// Whether it can be changed without a restart.
    pub changeable: bool,
}

/// What a change led to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Changed {
    #[serde(flatten)]
    pub key: KeyShown,
    /// Whether it was not so before.
    pub changed: bool,
}

/// The configuration of a node that runs.
pub(crate) struct LiveConfig {
    /// As the node was started, without changes.
    started: Config,
    state: RwLock<State>,
    /// One change at a time, from the check to the disk.
    changing: tokio::sync::Mutex<()>,
    parts: OnceLock<Parts>,
}

struct State {
    kept: Kept,
    /// What the node goes by.
    effective: Config,
    /// The same as it would stand in a file.
    file: Value,
}

impl LiveConfig {
    /// Reads back what was changed before; what does not fit any more is left out and told.
    pub fn open(started: Config) -> Result<Self, KeepError> {
        let mut kept = Kept::read(&started.data)?;
        let changes = std::mem::take(&mut kept.changes);
        for (key, value) in changes {
            let mut with = kept.clone();
            with.changes.insert(key.clone(), value.clone());
            match resolve(&started, &with) {
                Ok(_) if changeable::find(&key).is_some() => kept = with,
                Ok(_) => tracing::warn!(
                    key,
                    "it was changed while the node ran, and cannot be any more: what is configured holds"
                ),
                Err(error) => tracing::warn!(
                    key,
                    error,
                    "what it was changed to while the node ran does not fit any more: what is configured holds"
                ),
            }
        }
        if !kept.changes.is_empty() {
            let keys: Vec<&String> = kept.changes.keys().collect();
            tracing::info!(?keys, "changed while the node ran, and so they stay");
        }
        let (effective, file) = resolve(&started, &kept).unwrap_or_else(|error| {
            tracing::warn!(error, "what is configured cannot be shown key by key");
            (started.clone(), Value::Null)
        });
        Ok(Self {
            started,
            state: RwLock::new(State {
                kept,
                effective,
                file,
            }),
            changing: tokio::sync::Mutex::default(),
            parts: OnceLock::new(),
        })
    }

    /// What the node goes by.
    pub fn effective(&self) -> Config {
        self.state.read().effective.clone()
    }

    /// From now on changes reach these.
    pub fn attach(&self, parts: Parts) {
        // A node is started once.
        let _ = self.parts.set(parts);
    }

    /// All keys.
    pub fn list(&self) -> Vec<KeyShown> {
        let defaults = serde_json::to_value(ConfigFile::default()).unwrap_or_default();
        let state = self.state.read();
        let keys = shown::flat(&state.file).into_iter();
        let shown = keys.map(|(key, value)| {
            let default = shown::at(&defaults, &key).cloned().unwrap_or_default();
            KeyShown {
                value: hidden(&key, &value),
                default: hidden(&key, &default),
                from: self.origin(&state.kept, &key),
                changeable: changeable::find(&key).is_some(),
                key,
            }
        });
        shown.collect()
    }

    /// One key.
    pub fn show(&self, key: &str) -> Result<KeyShown, Refusal> {
        let all = self.list();
        let found = all.iter().find(|shown| shown.key == key).cloned();
        found.ok_or_else(|| {
            let likeness = |shown: &&KeyShown| strsim::jaro_winkler(&shown.key, key);
            let nearest = all
                .iter()
                .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            let nearest = nearest.map(|shown| shown.key.as_str()).unwrap_or_default();
            Refusal::unknown(format!(
                "there is no key `{key}`; did you mean `{nearest}`?"
            ))
        })
    }

    fn origin(&self, kept: &Kept, key: &str) -> From {
        let sources = &self.started.sources;
        if kept.changes.contains_key(key) {
            From::RunTime
        } else if sources.overrides.keys().contains(&key) {
            From::Flag
        } else if shown::at(&sources.written, key).is_some() {
            From::File
        } else {
            From::Default
        }
    }

    /// Changes a key, or with no value gives it back what is configured. Everything is checked before
    /// anything is touched, and the change is on the disk before it holds.
    pub async fn change(
        &self,
        key: &str,
        value: Option<Value>,
        by: By,
        at_ms: u64,
    ) -> Result<Changed, Refusal> {
        let before = self.show(key)?;
        let changeable = changeable::find(key).ok_or_else(|| {
            Refusal::conflict(format!(
                "`{key}` needs a restart: change it in the configuration file and start the node again"
            ))
        })?;
        if let Some(value) = &value {
            check_value(key, value)?;
        }
        let _changing = self.changing.lock().await;
        let before_raw = shown::at(&self.state.read().file, key)
            .cloned()
            .unwrap_or_default();
        let mut kept = self.state.read().kept.clone();
        let is_same = kept.changes.get(key) == value.as_ref();
        if is_same {
            return Ok(Changed {
                key: before,
                changed: false,
            });
        }
        let unset = value.is_none();
        match value {
            Some(value) => kept.changes.insert(key.to_owned(), value),
            None => kept.changes.remove(key),
        };
        let (effective, file) = resolve(&self.started, &kept).map_err(Refusal::bad)?;
        let new = shown::at(&file, key).cloned().unwrap_or_default();
        kept.remember(Change {
            number: 0,
            at_ms,
            key: key.to_owned(),
            old: hidden(key, &before_raw),
            new: hidden(key, &new),
            unset,
            by,
        });
        let (data, writing) = (self.started.data.clone(), kept.clone());
        write(data, writing).await?;
        if let Some(parts) = self.parts.get() {
            (changeable.apply)(parts, &effective);
        }
        *self.state.write() = State {
            kept,
            effective,
            file,
        };
        tracing::info!(key, unset, "the configuration was changed");
        Ok(Changed {
            key: self.show(key)?,
            changed: true,
        })
    }

    /// Who changed what, the newest first: up to `limit` changes with numbers below `before`.
    pub fn history(&self, before: Option<u64>, limit: usize) -> Vec<Change> {
        let state = self.state.read();
        let newest_first = state.kept.history.iter().rev();
        let wanted =
            newest_first.filter(|change| before.is_none_or(|before| change.number < before));
        wanted.take(limit).cloned().collect()
    }
}

fn check_value(key: &str, value: &Value) -> Result<(), Refusal> {
    if value.is_null() {
        return Err(Refusal::bad(format!(
            "`{key}` needs a value; to go back to what is configured, unset it"
        )));
    }
    if value.to_string().len() > VALUE_BYTES_MAX {
        return Err(Refusal::bad(format!(
            "a value has at most {VALUE_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

async fn write(data: PathBuf, kept: Kept) -> Result<(), Refusal> {
    let writing = tokio::task::spawn_blocking(move || kept.write(&data));
    let not_kept = |error: String| Refusal::failed(format!("nothing was changed: {error}"));
    let written = writing.await.map_err(|error| not_kept(error.to_string()))?;
    written.map_err(|error| not_kept(error.to_string()))
}

/// The value of a key without what is secret in it.
fn hidden(key: &str, value: &Value) -> Value {
    let last = key.rsplit('.').next().unwrap_or(key);
    let named = shown::without_secrets(&serde_json::json!({ last: value }));
    named[last].clone()
}

/// What a node goes by that was started so and changed so; and the same as it would stand in a file. The
/// types of the file decide what fits.
fn resolve(started: &Config, kept: &Kept) -> Result<(Config, Value), String> {
    let sources = &started.sources;
    let mut written = sources.written.clone();
    let mut overrides = sources.overrides.clone();
    for (key, value) in &kept.changes {
        if !shown::put(&mut written, key, value.clone()) {
            return Err(format!("`{key}` is no key"));
        }
        overrides.forget(key);
    }
    let changed: Vec<&str> = kept.changes.keys().map(String::as_str).collect();
    let file: ConfigFile = serde_json::from_value(written).map_err(|error| {
        let problem = without_values(&error.to_string());
        format!("{}: {problem}", changed.join(", "))
    })?;
    let file = file.with_flags(&overrides);
    let shown = serde_json::to_value(&file).map_err(|error| error.to_string())?;
    let resolved = Config::resolve(file, &overrides);
    let mut effective = started.clone();
    for changeable in CHANGEABLE.iter().filter(|one| changed.contains(&one.key)) {
        (changeable.copy)(&mut effective, &resolved);
    }
    changeable::check(&effective, &changed)?;
    Ok((effective, shown))
}

/// The one that the parts of a node share.
pub(crate) type SharedConfig = Arc<LiveConfig>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, known_keys};
    use serde_json::json;

    fn open(folder: &std::path::Path) -> LiveConfig {
        let overrides = Overrides {
            data: Some(folder.to_path_buf()),
            log: Some("warn".to_owned()),
            ..Overrides::default()
        };
        let text =
            "[deploy]\nwatch_interval_ms = 7000\n[[users]]\nname = \"a\"\npassword = \"hush\"\n";
        let config = Config::parse("test.toml".as_ref(), text, &overrides).unwrap();
        LiveConfig::open(config).unwrap()
    }

    async fn set(config: &LiveConfig, key: &str, value: Value) -> Result<Changed, String> {
        let by = By::default();
        let changed = config.change(key, Some(value), by, 5).await;
        changed.map_err(|refusal| refusal.detail)
    }

    #[test]
    fn every_changeable_key_is_a_key() {
        let known: Vec<String> = known_keys().into_iter().map(|key| key.path).collect();
        for changeable in CHANGEABLE {
            assert!(
                known.iter().any(|key| key == changeable.key),
                "{}",
                changeable.key
            );
        }
    }

    #[tokio::test]
    async fn a_change_holds_is_noted_and_survives() {
        let folder = tempfile::tempdir().unwrap();
        let config = open(folder.path());
        let key = config.show("deploy.watch_interval_ms").unwrap();
        assert_eq!((key.value, key.from), (json!(7000), From::File));
        assert_eq!(config.show("logs.filter").unwrap().from, From::Flag);
        assert_eq!(config.show("broker.names_max").unwrap().from, From::Default);

        let changed = set(&config, "deploy.watch_interval_ms", json!(50))
            .await
            .unwrap();
        assert_eq!((changed.key.from, changed.changed), (From::RunTime, true));
        assert!(
            !set(&config, "deploy.watch_interval_ms", json!(50))
                .await
                .unwrap()
                .changed
        );
        set(&config, "logs.filter", json!("debug")).await.unwrap();
        assert_eq!(config.effective().logs.filter, "debug", "over a flag, too");

        let config = open(folder.path());
        assert_eq!(config.effective().deploy.watch_interval_ms, 50);
        assert_eq!(config.effective().logs.filter, "debug");
        let history = config.history(None, 10);
        assert_eq!(
            (history.len(), &history[1].old, &history[1].new),
            (2, &json!(7000), &json!(50))
        );
        let back = config
            .change("deploy.watch_interval_ms", None, By::default(), 6)
            .await
            .unwrap();
        assert_eq!((back.key.value, back.key.from), (json!(7000), From::File));
        assert_eq!(config.history(Some(3), 1)[0].key, "logs.filter");
        assert!(config.history(None, 1)[0].unset);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_refused_and_nothing_changes() {
        let folder = tempfile::tempdir().unwrap();
        let config = open(folder.path());
        for (key, value, expected) in [
            ("deploy.watch_interval_ms", json!("soon"), "expected u64"),
            ("deploy.watch_interval_ms", json!(-1), "expected u64"),
            ("deploy.watch_interval_ms", json!(0), "at least 10"),
            ("deploy.watch_interval_ms", Value::Null, "needs a value"),
            (
                "deploy.watch_interval",
                json!(1),
                "did you mean `deploy.watch_interval_ms`",
            ),
            ("http.address", json!("off"), "needs a restart"),
            ("logs.filter", json!("broker=loud"), "is no log filter"),
            ("alerts.rules", json!([{ "name": "x" }]), "needs a `kind`"),
            (
                "broker.queues",
                json!([{ "name": "x", "no": 1 }]),
                "unknown field",
            ),
            ("logs.files_max", json!(0), "between 1 and"),
        ] {
            let error = set(&config, key, value).await.unwrap_err();
            assert!(error.contains(expected), "{key}: {error}");
        }
        assert!(config.history(None, 10).is_empty());
        assert!(!folder.path().join("config.json").exists());
    }

    #[test]
    fn secrets_are_not_shown_and_a_damaged_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let config = open(folder.path());
        let shown = serde_json::to_string(&config.list()).unwrap();
        assert!(
            shown.contains("\"users\"") && !shown.contains("hush"),
            "{shown}"
        );
        std::fs::write(folder.path().join("config.json"), "{").unwrap();
        let error = LiveConfig::open(config.started).err().unwrap().to_string();
        assert!(error.contains("mend it, or delete it"), "{error}");
    }

    #[test]
    fn a_change_that_no_longer_fits_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"changes": {"logs.files_max": 3, "logs.gone": 1, "http.hosts": []}, "history": []}"#;
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        let config = open(folder.path());
        assert_eq!(config.effective().logs.files_max, 3);
        assert_eq!(config.state.read().kept.changes.len(), 1);
    }
}
