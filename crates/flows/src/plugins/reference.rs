//! The page about built-in plug-ins.

use std::fmt::Write;

use kernel::descriptor::PluginKind;
use serde_json::Value;

use super::{BuiltIn, Outputs, all};

/// The page about built-in plug-ins, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Built-in plug-ins\n\n\
         Printed by `hivewire internal-docs plugins`; a test compares.\n\n\
         What a stage of a flow can do without a component. Expressions are CEL, the Common Expression Language; \
         they see the `event`, and the `headers` of a message that came from outside.\n",
    );
    table(&mut page);
    for built_in in all() {
        section(&mut page, built_in);
    }
    page
}

fn table(page: &mut String) {
    page.push_str("\n| plug-in | kind | what it does |\n|---|---|---|\n");
    for built_in in all() {
        let first = built_in.description().lines().next().unwrap_or_default();
        let id = built_in.id();
        let _ = writeln!(page, "| [`{id}`](#{id}) | {} | {first} |", kind(built_in));
    }
}

fn kind(built_in: &BuiltIn) -> &'static str {
    match (built_in.kind(), built_in.outputs()) {
        (PluginKind::Provider, _) => "provider",
        (PluginKind::Processor, Outputs::None | Outputs::Optional(_)) => "sink",
        (PluginKind::Processor, _) => "processor",
    }
}

fn section(page: &mut String, built_in: &BuiltIn) {
    let _ = writeln!(page, "\n## {}\n\n{}", built_in.id(), built_in.description());
    let descriptor = built_in.descriptor();
    if let Some(schema) = &descriptor.parameters {
        parameters(page, schema);
    }
    match built_in.outputs() {
        Outputs::Named(outputs) | Outputs::Optional(outputs) => {
            page.push_str("\n| output | what comes out |\n|---|---|\n");
            for (name, description) in outputs {
                let _ = writeln!(page, "| `{name}` | {description} |");
            }
        }
        Outputs::OfParameters => {
            page.push_str("\nIts outputs are those that its parameters name.\n")
        }
        Outputs::None => page.push_str("\nIt has no outputs.\n"),
    }
    if !descriptor.capabilities.is_empty() {
        let _ = writeln!(
            page,
            "\nIt has to be granted: `{}`.",
            descriptor.capabilities.join("`, `")
        );
    }
    for (title, example) in built_in.examples() {
        let _ = writeln!(page, "\n{title}:\n\n```json\n{example}\n```");
    }
}

fn parameters(page: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"]
        .as_object()
        .filter(|all| !all.is_empty())
    else {
        page.push_str("\nIt has no parameters.\n");
        return;
    };
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    page.push_str("\n| parameter | default | meaning |\n|---|---|---|\n");
    for (name, property) in properties {
        let default = match (&property["default"], is_required(name)) {
            (_, true) => "required".to_owned(),
            (Value::Null, false) => String::new(),
            (default, false) => format!("`{default}`"),
        };
        let meaning = property["description"]
            .as_str()
            .unwrap_or_default()
            .replace('\n', " ");
        let _ = writeln!(page, "| `{name}` | {default} | {meaning} |");
    }
}
