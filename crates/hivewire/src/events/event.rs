//! One thing that happened, as it is told.

use kernel::StageAddress;
use runtime::HistoryEntry;
use serde_json::{Map, Value};

/// How long a text in an event may be; the rest is cut off.
const TEXT_CHARS_MAX: usize = 2_000;

/// What the events are about.
pub(crate) mod kind {
    /// Where a stream begins.
    pub const BEGIN: &str = "begin";
    /// Events that whoever listens did not get.
    pub const MISSED: &str = "missed";
    /// How busy stages and queues are.
    pub const METRICS: &str = "metrics";
    /// A node.
    pub const NODE: &str = "node";
    /// A stage.
    pub const STAGE: &str = "stage";
    /// An alert.
    pub const ALERT: &str = "alert";
    /// A silence.
    pub const SILENCE: &str = "silence";
    /// A request that changed something.
    pub const REQUEST: &str = "request";
    /// A flow.
    pub const FLOW: &str = "flow";
    /// A plug-in.
    pub const PLUGIN: &str = "plugin";
    /// What somebody said.
    pub const NOTE: &str = "note";
}

/// All kinds that can be asked for; [`kind::BEGIN`] and [`kind::MISSED`] are always told.
pub(crate) const KINDS: [&str; 9] = [
    kind::ALERT,
    kind::FLOW,
    kind::METRICS,
    kind::NODE,
    kind::NOTE,
    kind::PLUGIN,
    kind::REQUEST,
    kind::SILENCE,
    kind::STAGE,
];

/// One thing that happened: a kind, what it was, and what there is to say about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event(Map<String, Value>);

impl Event {
    /// Something happened.
    pub fn new(kind: &'static str, event: &str) -> Self {
        let mut event = Self(Map::new()).with("event", event);
        event.0.insert("kind".into(), kind.into());
        event
    }

    /// Something that says everything by its kind.
    pub fn of(kind: &'static str) -> Self {
        Self(Map::from_iter([("kind".to_owned(), kind.into())]))
    }

    /// Something happened to a stage.
    pub fn stage(stage: &StageAddress, event: &str) -> Self {
        Self::new(kind::STAGE, event)
            .with("flow", stage.flow().as_str())
            .with("stage", stage.to_string())
    }

    /// Something was noted in the history of a stage.
    pub fn history(entry: &HistoryEntry) -> Self {
        let event = serde_json::to_value(entry.event).unwrap_or_default();
        let event = Self::stage(&entry.stage, event.as_str().unwrap_or("changed"));
        let event = event.with("version", entry.version);
        let event = event.with_text("digest", &entry.digest);
        event.with_text("detail", &entry.detail)
    }

    /// Says more. A text that is too long is cut.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::String(text) => Value::String(cut(text)),
            other => other,
        };
        self.0.insert(key.to_owned(), value);
        self
    }

    /// Says more, unless there is nothing to say.
    pub fn with_text(self, key: &str, text: &str) -> Self {
        match text.is_empty() {
            true => self,
            false => self.with(key, text),
        }
    }

    /// What was told by somebody else; none if it is no event.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let fields: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        let event = Self(fields);
        (event.text("kind").is_some() && event.text("node").is_some()).then_some(event)
    }

    /// A text in it.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    /// Takes something out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    /// What it is about.
    pub fn tags(&self) -> Tags {
        let owned = |key: &str| self.text(key).map(Into::into);
        Tags {
            kind: owned("kind").unwrap_or_default(),
            node: owned("node").unwrap_or_default(),
            flow: owned("flow"),
            stage: owned("stage"),
        }
    }

    /// As JSON.
    pub fn encoded(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).unwrap_or_default()
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What an event is about, for those who want only some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags {
    pub kind: Box<str>,
    pub node: Box<str>,
    pub flow: Option<Box<str>>,
    pub stage: Option<Box<str>>,
}

/// What somebody wants to be told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// None: all kinds.
    pub kinds: Vec<String>,
    pub flow: Option<String>,
    pub stage: Option<String>,
    pub node: Option<String>,
}

impl Filter {
    /// Whether it is to be told.
    pub fn wants(&self, tags: &Tags) -> bool {
        // Who was not told something has to know, whatever it was about.
        if &*tags.kind == kind::MISSED {
            return true;
        }
        let is = |wanted: &Option<String>, has: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| has == Some(wanted))
        };
        self.wants_kind(&tags.kind)
            && is(&self.node, Some(&tags.node))
            && is(&self.flow, tags.flow.as_deref())
            && is(&self.stage, tags.stage.as_deref())
    }

    /// Whether anything of a kind is to be told.
    pub fn wants_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_wanted() {
        let stage: StageAddress = "shop/orders".parse().unwrap();
        let event = Event::stage(&stage, "deployed").with("node", "ada");
        let wants = |kinds: &[&str], flow: Option<&str>, node: Option<&str>| {
            let filter = Filter {
                kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
                flow: flow.map(str::to_owned),
                stage: None,
                node: node.map(str::to_owned),
            };
            filter.wants(&event.tags())
        };
        assert!(wants(&[], None, None));
        assert!(wants(&["alert", "stage"], Some("shop"), Some("ada")));
        assert!(!wants(&["alert"], None, None));
        assert!(!wants(&[], Some("bank"), None));
        assert!(!wants(&[], None, Some("bob")));
    }

    #[test]
    fn long_texts_are_cut_and_what_is_no_event_is_not_read() {
        let event = Event::new(kind::NOTE, "said").with("text", "é".repeat(5_000));
        assert_eq!(event.text("text").unwrap().chars().count(), 2_001);
        assert!(Event::parse(b"[]").is_none() && Event::parse(b"{\"kind\":1}").is_none());
        let told = event.with("node", "ada");
        assert_eq!(Event::parse(&told.encoded()), Some(told));
    }
}
