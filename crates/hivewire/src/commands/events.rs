//! `hivewire events`

use std::io::Write;

use anyhow::Context;
use clap::Args;
use kernel::{Name, StageAddress};
use serde_json::{Map, Value};

use super::Global;
use super::output::{bytes_line, line, printable};
use super::time::utc;
use crate::events::KINDS;
use crate::exit::Exit;

const LINE_CHARACTERS_MAX: usize = 4_000;
/// What stands in front of each line anyway, or helps programs only.
const LEFT_OUT: [&str; 7] = ["number", "kind", "event", "node", "at_ms", "stage", "flow"];

#[derive(Debug, Args)]
pub(super) struct Events {
    /// Go on with what happens from now on
    #[arg(short, long)]
    follow: bool,
    /// First the last ones that the node remembers, that many
    #[arg(long, value_name = "N", conflicts_with = "after")]
    tail: Option<u64>,
    /// Only what came after the event of this number
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Only events of this kind; may be repeated
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(KINDS))]
    kind: Vec<String>,
    /// Only events of this flow
    #[arg(long, value_name = "FLOW")]
    flow: Option<Name>,
    /// Only events of this stage
    #[arg(long, value_name = "FLOW/STAGE")]
    stage: Option<StageAddress>,
    /// Only what this node tells
    #[arg(long, value_name = "NODE")]
    node: Option<Name>,
}

impl Events {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let mut lines = global.client()?.lines(&self.path())?;
        while let Some(text) = lines.next_line()? {
            if global.json {
                bytes_line(&text)?;
            } else {
                let event = serde_json::from_slice(&text).context("the node sent no JSON")?;
                if let Some(shown) = shown(&event) {
                    line(&shown)?;
                }
            }
            // Whoever reads the output wants each line when it comes.
            std::io::stdout().flush()?;
        }
        Ok(Exit::Done)
    }

    fn path(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("follow", &self.follow.to_string());
        let kinds = (!self.kind.is_empty()).then(|| self.kind.join(","));
        for (key, value) in [
            ("tail", self.tail.map(|count| count.to_string())),
            ("after", self.after.map(|number| number.to_string())),
            ("kind", kinds),
            ("flow", self.flow.as_ref().map(Name::to_string)),
            ("stage", self.stage.as_ref().map(StageAddress::to_string)),
            ("node", self.node.as_ref().map(Name::to_string)),
        ] {
            if let Some(value) = value {
                query.append_pair(key, &value);
            }
        }
        format!("/api/v1/events?{}", query.finish())
    }
}

/// An event as people read it; none if it only helps programs.
fn shown(event: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind") == "begin" {
        return None;
    }
    let mut parts = vec![
        utc(event
            .get("at_ms")
            .and_then(Value::as_u64)
            .unwrap_or_default()),
        text("node").to_owned(),
        text("kind").to_owned(),
    ];
    let named = ["stage", "event"].map(text).into_iter();
    parts.extend(named.filter(|text| !text.is_empty()).map(str::to_owned));
    for (key, value) in event {
        match value {
            _ if LEFT_OUT.contains(&key.as_str()) => {}
            Value::Null => {}
            Value::String(text) => parts.push(format!("{key}={text}")),
            other => parts.push(format!("{key}={other}")),
        }
    }
    Some(printable(&parts.join(" "), LINE_CHARACTERS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let event = r#"{"number":3,"kind":"stage","event":"deployed","node":"ada","at_ms":0,
            "flow":"shop","stage":"shop/orders","version":2,"detail":"as\nasked"}"#;
        let event = serde_json::from_str(event).unwrap();
        let shown = shown(&event).unwrap();
        assert!(shown.contains("ada stage shop/orders deployed"), "{shown}");
        assert!(
            shown.ends_with("version=2") && !shown.contains('\n'),
            "{shown}"
        );
    }
}
