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
            let value = printable(&value.replace("\n\n", " "), LINE_CHARACTERS_MAX);
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
    add("digest", text(plugin, "digest"));
    add("bytes", &plugin["bytes"].to_string());
    add("repository", text(plugin, "repository"));
    add("versions", &versions.join(", "));
    page.push_str(&parameters(&plugin["parameters"]));
    page
}

/// The parameters, one below the other, with what each may be.
fn parameters(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object() else {
        return String::new();
    };
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let mut page = "parameters:\n".to_owned();
    for (name, property) in properties {
        let usual = match (&property["default"], is_required(name)) {
            (_, true) => ", must be given".to_owned(),
            (Value::Null, false) => String::new(),
            (usual, false) => format!(", usually {usual}"),
        };
        let may_be = forms(property, schema, FORMS_DEPTH).join(" or ");
        let head = format!("  {name}: {may_be}{usual}");
        page.push_str(&printable(&head, LINE_CHARACTERS_MAX));
        page.push('\n');
        let description = text(property, "description");
        if !description.is_empty() {
            let description = description.replace('\n', " ");
            let description = printable(&description, LINE_CHARACTERS_MAX);
            page.push_str(&format!("      {description}\n"));
        }
    }
    page
}

/// How built-in plug-ins have times written.
const TIME: &str = "^[0-9]+(ms|s|m|h|d)$";
/// How deep forms within forms are written out.
const FORMS_DEPTH: usize = 4;

/// What may stand where a schema holds, as one would write it.
fn forms(property: &Value, root: &Value, depth: usize) -> Vec<String> {
    if depth == 0 {
        return vec!["…".to_owned()];
    }
    let within = |schema: &Value| forms(schema, root, depth - 1);
    if let Some(name) = property["$ref"].as_str() {
        let found = root.pointer(name.trim_start_matches('#'));
        return found.map_or_else(Vec::new, |found| forms(found, root, depth));
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(several) = property[key].as_array() {
            let several = several.iter().flat_map(|one| forms(one, root, depth));
            return several.filter(|form| form != "null").collect();
        }
    }
    if !property["const"].is_null() {
        return vec![property["const"].to_string()];
    }
    if let Some(several) = property["enum"].as_array() {
        return several.iter().map(Value::to_string).collect();
    }
    if let Some(members) = property["properties"].as_object() {
        let member =
            |(name, schema): (&String, &Value)| format!("{name} = {}", within(schema).join(" or "));
        let members: Vec<String> = members.iter().map(member).collect();
        return vec![format!("{{ {} }}", members.join(", "))];
    }
    let kinds = match &property["type"] {
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    };
    let format = text(property, "format");
    let kinds = kinds.into_iter().filter(|kind| *kind != "null");
    let kinds = kinds.map(|kind| match kind {
        "string" if format == "cel" => "an expression".to_owned(),
        "string" if text(property, "pattern") == TIME => "a time such as \"10s\"".to_owned(),
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        "array" => format!("[ {}, … ]", within(&property["items"]).join(" or ")),
        _ => match property["additionalProperties"].is_object() {
            true => format!(
                "{{ NAME = {}, … }}",
                within(&property["additionalProperties"]).join(" or ")
            ),
            false => "a table".to_owned(),
        },
    });
    kinds.collect()
}
