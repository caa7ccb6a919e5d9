//! `url-normaliser`: each URL is written in one way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flows::plugins::author::{HandlesEach, OUT, Plugin, REFUSED};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event, Record, handles_each};
use kernel::worker::{Failure, Incoming, Turn};
use url::Url;

use super::urls::{self, Urls};
use crate::address::{AddressBuffer, AddressView, Normaliser, NormaliserRules};

pub(super) struct UrlNormaliser {
    normaliser: Normaliser,
    buffer: AddressBuffer,
    sorted: ByHost,
}

/// How much of a URL is told that is refused.
const REFUSED_CHARACTERS_MAX: usize = 4_096;

impl Plugin for UrlNormaliser {
    const ID: &'static str = "url-normaliser";
    const DESCRIPTION: &'static str = "Writes each URL in one way, so that a page has one URL only, and sorts the URLs by host.\n\n\
        It follows the rules of browsers and RFC 3986, drops fragments and credentials, and removes what only tells where a visitor came from or \
        which session is his. URLs that are too long, or have paths that repeat themselves, are traps and are refused. Relative ones are understood \
        as links of the page in `from`.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            OUT,
            "The URLs, one event for each host, with `host`. An event with one `url` stays one, with all its fields.",
        ),
        (
            REFUSED,
            "URLs that are none or break a rule, with `rule` and `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("As usual", "{}"),
        (
            "A shop whose filters make endless URLs",
            r#"{"parameters_removed": ["filter_*", "sort"], "query_sorted": true, "query_parameters_max": 8}"#,
        ),
    ];
    type Parameters = NormaliserRules;

    fn new(rules: NormaliserRules, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self {
            normaliser: Normaliser::new(rules)?,
            buffer: AddressBuffer::default(),
            sorted: ByHost::default(),
        })
    }

    fn check(rules: NormaliserRules) -> Result<(), ParameterError> {
        Ok(rules.check()?)
    }
}

impl HandlesEach for UrlNormaliser {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let urls = Urls::of_any_host(&event)?;
        let base = Url::parse(urls.from).ok();
        self.sorted.clear();
        for text in urls.all() {
            let address = self
                .normaliser
                .normalise_into(base.as_ref(), text, &mut self.buffer);
            match address {
                Ok(address) => self.sorted.add(&address, address.as_str() == text),
                Err(error) => {
                    self.sorted.is_changed = true;
                    let refused: String = text.chars().take(REFUSED_CHARACTERS_MAX).collect();
                    let reason = error.to_string();
                    urls::refuse(&event, &urls, &[&refused], error.rule(), reason, turn)?;
                }
            }
        }
        if self.sorted.is_unchanged_for(urls.host) {
            return turn.emit_value(OUT, event);
        }
        for (host, addresses) in self.sorted.hosts.drain(..) {
            let data = with_urls(&event, &urls, host, addresses);
            turn.emit_value(OUT, Arc::new(event.with_data(data)))?;
        }
        Ok(())
    }
}

handles_each!(UrlNormaliser);

/// The fields of an event with these URLs of this host instead.
fn with_urls(event: &Event, urls: &Urls<'_>, host: String, mut addresses: Vec<Data>) -> Data {
    let mut record = match event.data() {
        Data::Record(record) => record.clone(),
        _ => Record::default(),
    };
    record.set("host", host.into());
    match urls.is_single() {
        true => record.set("url", addresses.pop().unwrap_or_default()),
        false => record.set("urls", addresses.into()),
    }
    record.into()
}

/// Addresses by host, in the order in which they came, each once.
#[derive(Default)]
struct ByHost {
    hosts: Vec<(String, Vec<Data>)>,
    places: HashMap<String, usize>,
    seen: HashSet<u128>,
    is_changed: bool,
}

impl ByHost {
    fn clear(&mut self) {
        self.hosts.clear();
        self.places.clear();
        self.seen.clear();
        self.is_changed = false;
    }

    fn add(&mut self, address: &AddressView<'_>, is_same: bool) {
        self.is_changed |= !is_same;
        if !self.seen.insert(address.fingerprint()) {
            self.is_changed = true;
            return;
        }
        let host = address.host();
        let place = match self.places.get(host) {
            Some(place) => *place,
            None => {
                self.places.insert(host.to_owned(), self.hosts.len());
                self.hosts.push((host.to_owned(), Vec::new()));
                self.hosts.len() - 1
            }
        };
        self.hosts[place].1.push(address.as_str().to_owned().into());
    }

    /// Whether an event with this host already says what would be said.
    fn is_unchanged_for(&self, host: &str) -> bool {
        let is_this = |(known, _): &(String, Vec<Data>)| known == host;
        !self.is_changed && self.hosts.len() == 1 && self.hosts.iter().all(is_this)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::rig::Rig;
    use super::*;

    fn check(parameters: &str, event: Value, expected: Value) {
        let rig = Rig::<UrlNormaliser>::new(parameters);
        assert_eq!(rig.handle(event), expected);
    }

    #[test]
    fn urls_are_written_in_one_way_and_sorted_by_host() {
        let event = json!({
            "urls": ["HTTP://b.com/#x", "/x/../y?utm_source=1", "https://a.com/y", "http://b.com/2", "../z"],
            "from": "https://a.com/d/", "depth": 2, "again": true,
        });
        let a = json!({"host": "a.com", "urls": ["https://a.com/y", "https://a.com/z"], "from": "https://a.com/d/", "depth": 2, "again": true});
        let b = json!({"host": "b.com", "urls": ["http://b.com/", "http://b.com/2"], "from": "https://a.com/d/", "depth": 2, "again": true});
        check("{}", event, json!([["out", b], ["out", a]]));
    }

    #[test]
    fn an_event_with_one_url_keeps_its_fields() {
        let event = json!({"url": "http://A.com:8080", "tries": 1, "depth": 0});
        let out =
            json!({"url": "http://a.com:8080/", "host": "a.com:8080", "tries": 1, "depth": 0});
        check("{}", event, json!([["out", out]]));
    }

    #[test]
    fn what_is_written_so_already_passes_as_it_is() {
        let event = json!({"host": "a.com", "urls": ["http://a.com/", "http://a.com/b"], "from": "", "depth": 0});
        check("{}", event.clone(), json!([["out", event]]));
    }

    #[test]
    fn what_breaks_a_rule_is_refused_with_the_reason() {
        let event = json!({"urls": ["mailto:x@a.com", "http://a.com/?a&b"], "from": "http://a.com/", "depth": 1});
        let expected = json!([
            ["refused", {
                "at": 1000, "depth": 1, "from": "http://a.com/", "host": "", "urls": ["mailto:x@a.com"], "rule": "scheme",
                "reason": "only http and https addresses can be fetched, and this one begins with `mailto:`",
            }],
            ["refused", {
                "at": 1000, "depth": 1, "from": "http://a.com/", "host": "", "urls": ["http://a.com/?a&b"], "rule": "query_parameters_max",
                "reason": "its query has 2 parameters, and query_parameters_max is 1",
            }],
        ]);
        check(r#"{"query_parameters_max": 1}"#, event, expected);
    }

    #[test]
    fn an_event_without_urls_is_a_failure_that_says_so() {
        let failure = Rig::<UrlNormaliser>::new("{}").failure(json!({"a": 1}));
        assert!(failure.contains("neither `url` nor `urls`"), "{failure}");
    }
}
