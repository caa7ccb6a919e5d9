//! `hivewire plugins show`

use clap::Args;
use serde_json::{Value, json};

use super::{TEXT_CHARACTERS_MAX, descriptor, parse_reference, text, versions_of};
use crate::commands::Global;
use crate::commands::output::{json_line, line, printable};
use crate::deploy::PluginRef;

/// Texts of authors that have a line of their own.
const LINE_CHARACTERS_MAX: usize = 2_000;

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The plug-in
    #[arg(value_name = "ID[@VERSION]", value_parser = parse_reference)]
    plugin: PluginRef,
}

impl Show {
    pub fn run(&self, global: &Global) -> anyhow::Result<()> {
        let client = global.client()?;
        let shown = descriptor(&client, &self.plugin)?;
        let answer = versions_of(&client, &self.plugin)?;
        let versions = answer["versions"].as_array().into_iter().flatten();
        let versions: Vec<&str> = versions.map(|version| text(version, "version")).collect();
        match global.json {
            true => json_line(&json!({ "plugin": shown, "versions": versions })),
            false => line(described(&shown, &versions).trim_end()),
        }
    }
}

fn described(plugin: &Value, versions: &[&str]) -> String {
    let mut page = format!("{}@{}\n", text(plugin, "id"), text(plugin, "version"));
    let mut add = |title: &str, value: &str| {
        if !value.is_empty() {
            let value = printable(value, LINE_CHARACTERS_MAX);
            page.push_str(&format!("{title}: {value}\n"));
        }
    };
    for key in ["description", "author", "licence", "kind", "language"] {
        add(key, text(plugin, key));
    }
    add("entry point", text(plugin, "entry_point"));
    for output in plugin["outputs"].as_array().into_iter().flatten() {
        let name = printable(text(output, "name"), TEXT_CHARACTERS_MAX);
        match text(output, "description") {
            "" => add("output", &name),
            description => add("output", &format!("{name}, {description}")),
        }
    }
    let capabilities = plugin["capabilities"].as_array().into_iter().flatten();
    let capabilities: Vec<&str> = capabilities.filter_map(Value::as_str).collect();
    add("asks for", &capabilities.join(", "));
    if !plugin["parameters"].is_null() {
        add("parameters", &plugin["parameters"].to_string());
    }
    add("digest", text(plugin, "digest"));
    add("bytes", &plugin["bytes"].to_string());
    add("repository", text(plugin, "repository"));
    add("versions", &versions.join(", "));
    page
}
