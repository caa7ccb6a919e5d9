//! `hivewire config`

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::output::{json_line, line, printable, table};
use super::time::utc;
use crate::client::{Client, encode};
use crate::exit::Exit;

const VALUE_CHARACTERS_MAX: usize = 60;

#[derive(Debug, Args)]
pub(super) struct Config {
    /// The node [default: the one that is asked]
    #[arg(long, global = true, value_name = "NODE")]
    node: Option<String>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show one key
    Get {
        /// The key, such as logs.filter
        key: String,
    },
    /// Change a key while the node runs; the change survives a restart
    Set {
        /// The key, such as logs.filter
        key: String,
        /// The value: JSON, or text as it is
        value: String,
    },
    /// Go back to what is configured
    Unset {
        /// The key
        key: String,
    },
    /// Show who changed what, the newest first
    History,
}

impl Config {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let answer = match &self.what {
            None => client.get(&self.path(""))?,
            Some(What::Get { key }) => client.get(&self.key_path(key))?,
            Some(What::Set { key, value }) => self.set(&client, key, value)?,
            Some(What::Unset { key }) => client.delete(&self.key_path(key))?,
            Some(What::History) => client.get(&self.path("/history"))?,
        };
        if global.json {
            json_line(&answer)?;
            return Ok(Exit::Done);
        }
        match &self.what {
            None => print(&answer, "keys", KEY_TITLES, key_row)?,
            Some(What::History) => print(&answer, "changes", CHANGE_TITLES, change_row)?,
            Some(What::Get { .. }) => line(&answer["value"].to_string())?,
            Some(What::Set { key, .. } | What::Unset { key }) => {
                let what = match answer["changed"].as_bool() {
                    Some(true) => "is now",
                    _ => "was and is",
                };
                line(&format!("{key} {what} {}", answer["value"]))?;
            }
        }
        Ok(Exit::Done)
    }

    /// What is no JSON is text, so that nobody has to quote twice.
    fn set(&self, client: &Client, key: &str, value: &str) -> anyhow::Result<Value> {
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        let body = json!({ "value": value }).to_string();
        Ok(client.put_json(&self.key_path(key), &body)?)
    }

    fn key_path(&self, key: &str) -> String {
        self.path(&format!("/{}", encode(key)))
    }

    fn path(&self, below: &str) -> String {
        let node = self
            .node
            .as_deref()
            .map(|node| format!("?node={}", encode(node)));
        format!("/api/v1/config{below}{}", node.unwrap_or_default())
    }
}

const KEY_TITLES: &[&str] = &["key", "value", "from", "changeable"];
const CHANGE_TITLES: &[&str] = &["at", "key", "old", "new", "who", "from", "via"];

fn print(
    answer: &Value,
    key: &str,
    titles: &[&str],
    row: fn(&Value) -> Vec<String>,
) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> = answer[key]
        .as_array()
        .into_iter()
        .flatten()
        .map(row)
        .collect();
    match rows.is_empty() {
        true => line("nothing was changed while the node ran"),
        false => line(table(titles, &[], &rows).trim_end()),
    }
}

fn key_row(key: &Value) -> Vec<String> {
    let changeable = match key["changeable"].as_bool() {
        Some(true) => "while it runs",
        _ => "needs a restart",
    };
    vec![
        text(key, "key"),
        value(&key["value"]),
        text(key, "from"),
        changeable.to_owned(),
    ]
}

fn change_row(change: &Value) -> Vec<String> {
    vec![
        utc(change["at_ms"].as_u64().unwrap_or_default()),
        text(change, "key"),
        value(&change["old"]),
        value(&change["new"]),
        text(change, "who"),
        text(change, "from"),
        text(change, "via"),
    ]
}

fn text(value: &Value, key: &str) -> String {
    printable(
        value[key].as_str().unwrap_or_default(),
        VALUE_CHARACTERS_MAX,
    )
}

fn value(value: &Value) -> String {
    printable(&value.to_string(), VALUE_CHARACTERS_MAX)
}
