//! `hivewire plugins`

use clap::Args;
use kernel::descriptor::PluginKind;
use serde_json::{Value, json};

use super::{TEXT_CHARACTERS_MAX, text};
use crate::client::{Client, encode};
use crate::commands::Global;
use crate::commands::output::{json_line, line, printable, table};

const PAGE: usize = 200;

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only those with this text in their id, description or author
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only those of this kind: provider or processor
    #[arg(long, value_name = "KIND")]
    kind: Option<PluginKind>,
}

impl List {
    pub fn run(&self, global: &Global) -> anyhow::Result<()> {
        let (plugins, troubles) = self.all(&global.client()?)?;
        for trouble in &troubles {
            let (name, reason) = (text(trouble, "repository"), text(trouble, "reason"));
            tracing::warn!(repository = name, reason, "a repository cannot be asked");
        }
        if global.json {
            return json_line(&json!({ "plugins": plugins, "troubles": troubles }));
        }
        if plugins.is_empty() {
            let push = "take one in with `hivewire plugins push FILE`";
            return line(&format!("there is no such plug-in: {push}"));
        }
        let rows: Vec<Vec<String>> = plugins.iter().map(row).collect();
        let titles = [
            "plug-in",
            "newest",
            "versions",
            "kind",
            "repository",
            "description",
        ];
        line(table(&titles, &[2], &rows).trim_end())
    }

    /// One page after another.
    fn all(&self, client: &Client) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
        let mut filter = format!("limit={PAGE}");
        if let Some(search) = &self.search {
            filter.push_str(&format!("&q={}", encode(search)));
        }
        if let Some(kind) = self.kind {
            filter.push_str(&format!("&kind={kind}"));
        }
        let mut plugins = Vec::new();
        let mut after = String::new();
        loop {
            let page = client.get(&format!("/api/v1/plugins?{filter}{after}"))?;
            plugins.extend(list_of(&page, "plugins"));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", encode(next)),
                None => return Ok((plugins, list_of(&page, "troubles"))),
            }
        }
    }
}

fn list_of(page: &Value, key: &str) -> Vec<Value> {
    page[key].as_array().cloned().unwrap_or_default()
}

fn row(plugin: &Value) -> Vec<String> {
    let versions = plugin["versions"].as_array().map_or(0, Vec::len);
    // The first line says what it does, and the others more about it.
    let description = text(plugin, "description").lines().next();
    vec![
        text(plugin, "id").to_owned(),
        text(plugin, "newest").to_owned(),
        versions.to_string(),
        text(plugin, "kind").to_owned(),
        printable(text(plugin, "repository"), TEXT_CHARACTERS_MAX),
        printable(description.unwrap_or_default(), TEXT_CHARACTERS_MAX),
    ]
}
