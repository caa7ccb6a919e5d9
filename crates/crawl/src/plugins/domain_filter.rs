//! `domain-filter`: only what belongs to the crawl passes.

use std::sync::Arc;

use flows::plugins::author::{HandlesEach, OUT, Plugin, REFUSED};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event, handles_each};
use kernel::worker::{Failure, Incoming, Turn};

use super::urls::{self, Urls};
use crate::domain::{DomainParameters, DomainRules, Refusal, Verdict};

pub(super) struct DomainFilter(DomainRules);

impl Plugin for DomainFilter {
    const ID: &'static str = "domain-filter";
    const DESCRIPTION: &'static str = "Lets those URLs pass that belong to the crawl: by domain, by pattern, by depth.\n\n\
        It takes URLs, requests and pages alike, and can stand at several places of a flow: behind the link extractor it keeps the frontier small, and before the \
        downloader it makes a change take effect at once. Put a URL normaliser before it, so that patterns meet URLs that are written in one way.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "Events with those URLs that belong to the crawl."),
        (
            REFUSED,
            "URLs that do not, with `rule`, which is domain, depth or pattern, and the `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "One site with all its hosts, but not its calendar",
            r#"{"domains": ["example.com"], "deny": ["*/calendar/*"], "depth_max": 20}"#,
        ),
        (
            "Articles of two hosts",
            r#"{"domains": ["=news.example.com", "=www.example.org"], "allow": ["*/article/*", "re:/20[0-9]{2}/"]}"#,
        ),
    ];
    type Parameters = DomainParameters;

    fn new(parameters: DomainParameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self(DomainRules::new(&parameters)?))
    }

    fn check(parameters: DomainParameters) -> Result<(), ParameterError> {
        DomainRules::new(&parameters)?;
        Ok(())
    }
}

impl HandlesEach for DomainFilter {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let urls = Urls::of(&event)?;
        let mut passing = Vec::new();
        // Most URLs of one event are refused for the same reason.
        let mut refused: Vec<(Refusal, Vec<&str>)> = Vec::new();
        for url in urls.all() {
            match self.0.decide(url, urls.depth) {
                Verdict::Passes => passing.push(url),
                Verdict::Refused(refusal) => {
                    match refused.iter_mut().find(|(known, _)| *known == refusal) {
                        Some((_, same)) => same.push(url),
                        None => refused.push((refusal, vec![url])),
                    }
                }
            }
        }
        for (refusal, these) in &refused {
            let reason = refusal.reason.clone();
            urls::refuse(&event, &urls, these, refusal.rule, reason, turn)?;
        }
        match (passing.is_empty(), refused.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => turn.emit_value(OUT, event),
            (false, false) => {
                let data = with_urls(&event, &passing);
                turn.emit_value(OUT, Arc::new(event.with_data(data)))
            }
        }
    }
}

handles_each!(DomainFilter);

/// The fields of an event with fewer URLs.
fn with_urls(event: &Event, these: &[&str]) -> Data {
    let these: Vec<Data> = these.iter().map(|url| (*url).to_owned().into()).collect();
    let mut data = event.data().clone();
    if let Data::Record(record) = &mut data {
        record.set("urls", these.into());
    }
    data
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::rig::Rig;
    use super::*;

    const PARAMETERS: &str = r#"{"domains": ["a.com"], "deny": ["*.pdf"], "depth_max": 3}"#;

    fn check(event: Value, expected: Value) {
        let rig = Rig::<DomainFilter>::new(PARAMETERS);
        assert_eq!(rig.handle(event), expected);
    }

    #[test]
    fn urls_that_belong_to_the_crawl_pass() {
        let event = json!({
            "host": "a.com", "depth": 3, "from": "http://a.com/",
            "urls": ["http://a.com/1", "http://b.com/", "http://a.com/x.pdf", "http://www.a.com/2", "http://b.com/2"],
        });
        let refused = |urls: &[&str], rule: &str, reason: &str| {
            json!(["refused", {
                "at": 1000, "host": "a.com", "depth": 3, "from": "http://a.com/", "urls": urls, "rule": rule, "reason": reason,
            }])
        };
        let out = json!({"host": "a.com", "depth": 3, "from": "http://a.com/", "urls": ["http://a.com/1", "http://www.a.com/2"]});
        let outside = "b.com is none of the domains `a.com`";
        let expected = json!([
            refused(&["http://b.com/", "http://b.com/2"], "domain", outside),
            refused(
                &["http://a.com/x.pdf"],
                "pattern",
                "it fits the deny pattern `*.pdf`"
            ),
            ["out", out],
        ]);
        check(event, expected);
    }

    #[test]
    fn requests_and_pages_pass_as_they_are_or_not_at_all() {
        let page = json!({"url": "http://a.com/", "host": "a.com", "depth": 1, "status": 200, "headers": {"a": "b"}});
        check(page.clone(), json!([["out", page]]));
        let deep = json!({"url": "http://a.com/", "host": "a.com", "depth": 4, "status": 200});
        let refused = json!({
            "urls": ["http://a.com/"], "host": "a.com", "depth": 4, "from": "", "at": 1000, "rule": "depth",
            "reason": "it is 4 links away from a seed, and depth_max is 3",
        });
        check(deep, json!([["refused", refused]]));
    }

    #[test]
    fn parameters_are_checked() {
        let error = DomainFilter::check(serde_json::from_str(r#"{"domains": ["co.uk"]}"#).unwrap());
        assert_eq!(error.unwrap_err().field(), "domains[0]");
    }
}
