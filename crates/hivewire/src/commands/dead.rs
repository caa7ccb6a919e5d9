//! `hivewire dead`

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::Global;
use super::output::{json_line, line, printable, table};
use crate::client::{Client, encode};
use crate::exit::Exit;

const BODY_CHARACTERS_MAX: usize = 40;
const REASON_CHARACTERS_MAX: usize = 60;

#[derive(Debug, Args)]
pub(super) struct Dead {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show dead letters, oldest first, with the reason
    List {
        #[command(flatten)]
        filter: Filter,
        /// Show at most that many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: u32,
    },
    /// Send dead letters back to where they came from
    Replay {
        #[command(flatten)]
        filter: Filter,
    },
    /// Remove dead letters for good
    Purge {
        #[command(flatten)]
        filter: Filter,
    },
}

#[derive(Debug, Args)]
struct Filter {
    /// Only those from this queue or topic
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Only this one
    #[arg(long, value_name = "N")]
    id: Option<u64>,
}

impl Filter {
    fn order(&self) -> Value {
        let mut order = Map::new();
        if let Some(from) = &self.from {
            order.insert("from".into(), from.clone().into());
        }
        if let Some(id) = self.id {
            order.insert("id".into(), id.into());
        }
        order.into()
    }
}

impl Dead {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        match &self.action {
            Action::List { filter, limit } => list(global, &client, filter, *limit)?,
            Action::Replay { filter } => order(global, &client, "replay", "replayed", filter)?,
            Action::Purge { filter } => order(global, &client, "purge", "purged", filter)?,
        }
        Ok(Exit::Done)
    }
}

fn list(global: &Global, client: &Client, filter: &Filter, limit: u32) -> anyhow::Result<()> {
    let mut path = format!("/api/v1/dead?limit={limit}");
    if let Some(from) = &filter.from {
        path.push_str(&format!("&from={}", encode(from)));
    }
    if let Some(id) = filter.id {
        path.push_str(&format!("&id={id}"));
    }
    let answer = client.get(&path)?;
    if global.json {
        return json_line(&answer);
    }
    let rows: Vec<Vec<String>> = answer["letters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(row)
        .collect();
    let text = table(&["id", "from", "tries", "reason", "body"], &[2], &rows);
    line(text.trim_end())
}

fn row(letter: &Value) -> Vec<String> {
    let text =
        |key: &str, characters_max| printable(letter[key].as_str().unwrap_or("-"), characters_max);
    let number = |key: &str| letter[key].as_u64().map_or("-".into(), |n| n.to_string());
    let body = match letter["body"].as_str() {
        Some(body) => printable(body, BODY_CHARACTERS_MAX),
        None => "(binary)".to_owned(),
    };
    vec![
        number("id"),
        text("from", usize::MAX),
        number("tries"),
        text("reason", REASON_CHARACTERS_MAX),
        body,
    ]
}

fn order(
    global: &Global,
    client: &Client,
    action: &str,
    done: &str,
    filter: &Filter,
) -> anyhow::Result<()> {
    let answer = client.post(&format!("/api/v1/dead/{action}"), &filter.order())?;
    if global.json {
        return json_line(&answer);
    }
    let letters = answer[done].as_u64().unwrap_or_default();
    let plural = if letters == 1 { "" } else { "s" };
    line(&format!("{letters} dead letter{plural} {done}"))
}
