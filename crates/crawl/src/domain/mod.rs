//! Which addresses belong to a crawl: by domain, by pattern, by depth.
//!
//! ```
//! use crawl::domain::{DomainParameters, DomainRules, Verdict};
//!
//! let parameters: DomainParameters =
//!     serde_json::from_str(r#"{"domains": ["example.co.uk"], "deny": ["*/calendar/*"], "depth_max": 5}"#).unwrap();
//! let rules = DomainRules::new(&parameters).unwrap();
//! assert_eq!(rules.decide("https://www.example.co.uk/news", 1), Verdict::Passes);
//! let Verdict::Refused(refusal) = rules.decide("https://www.example.co.uk/calendar/2031", 1) else { panic!() };
//! assert_eq!(refusal.rule, "pattern");
//! ```
//!
//! What it deliberately does not do: it counts nothing. How many pages of a host are wanted is a matter of the frontier.

mod names;
mod patterns;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Position, Url};

use crate::wrong::WrongParameter;
use names::Names;
use patterns::Patterns;

pub use names::registrable_domain;

/// Which addresses belong to a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DomainParameters {
    /// The domains; all if there are none here. `example.co.uk` stands for that host and all below it, `*.example.co.uk` only for
    /// those below it, `=example.co.uk` only for that host. With a port, as in `localhost:8080`, only that port is meant;
    /// `=example.co.uk` means the usual ports.
    pub domains: Vec<String>,
    /// Patterns of which one must fit the whole address, if there are any: `*` stands for any characters, `?` for one. After
    /// `re:` comes a regular expression, which may fit any part of the address.
    pub allow: Vec<String>,
    /// Patterns of which none may fit. They win over those in `allow`.
    pub deny: Vec<String>,
    /// How many links away from a seed an address may be; no limit if it is missing. Seeds have depth 0.
    pub depth_max: Option<u32>,
}

/// Whether an address belongs to the crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Passes,
    /// It does not.
    Refused(Refusal),
}

impl Verdict {
    fn refused(rule: &'static str, reason: String) -> Self {
        Self::Refused(Refusal { rule, reason })
    }
}

/// Why an address does not belong to the crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `domain`, `depth`, `pattern`, or `syntax` if it is no address at all.
    pub rule: &'static str,
    /// A sentence with what decided.
    pub reason: String,
}

/// [`DomainParameters`], ready to decide.
#[derive(Debug)]
pub struct DomainRules {
    domains: Names,
    allow: Patterns,
    deny: Patterns,
    depth_max: Option<u32>,
}

impl DomainRules {
    /// Understands the parameters.
    pub fn new(parameters: &DomainParameters) -> Result<Self, WrongParameter> {
        Ok(Self {
            domains: Names::new("domains", &parameters.domains)?,
            allow: Patterns::new("allow", &parameters.allow)?,
            deny: Patterns::new("deny", &parameters.deny)?,
            depth_max: parameters.depth_max,
        })
    }

    /// Whether this address belongs to the crawl, so many links away from a seed.
    pub fn decide(&self, url: &str, depth: u32) -> Verdict {
        if let Some(most) = self.depth_max.filter(|most| depth > *most) {
            let reason = format!("it is {depth} links away from a seed, and depth_max is {most}");
            return Verdict::refused("depth", reason);
        }
        if let Some(host) = plain_host(url) {
            return self.decide_by_text(url, host);
        }
        // Written in another way, an address must not slip through.
        match Url::parse(url) {
            Ok(mut parsed) => {
                // It fails for addresses that cannot have credentials.
                let _ = parsed.set_username("");
                let _ = parsed.set_password(None);
                let host = &parsed[Position::BeforeHost..Position::AfterPort];
                self.decide_by_text(parsed.as_str(), host)
            }
            Err(error) => Verdict::refused("syntax", format!("it is no URL: {error}")),
        }
    }

    fn decide_by_text(&self, url: &str, host: &str) -> Verdict {
        if !self.domains.contain(host) {
            let reason = format!("{host} is none of the domains {}", self.domains.shown());
            return Verdict::refused("domain", reason);
        }
        if let Some(pattern) = self.deny.first_fitting(url) {
            let reason = format!("it fits the deny pattern `{pattern}`");
            return Verdict::refused("pattern", reason);
        }
        if !self.allow.is_empty() && !self.allow.any_fits(url) {
            let reason = format!("it fits none of the allow patterns {}", self.allow.shown());
            return Verdict::refused("pattern", reason);
        }
        Verdict::Passes
    }
}

/// The host of an address that is written as browsers would write it.
fn plain_host(url: &str) -> Option<&str> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))?;
    let end = rest.find(['/', '?', '#'])?;
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':');
    let host = &rest[..end];
    (!host.is_empty() && host.bytes().all(plain)).then_some(host)
}

/// The first few of a list, for a sentence.
fn shown(texts: &[Box<str>]) -> String {
    const SHOWN_MAX: usize = 5;
    let first = texts.iter().take(SHOWN_MAX);
    let mut sentence: Vec<String> = first.map(|text| format!("`{text}`")).collect();
    if texts.len() > SHOWN_MAX {
        sentence.push(format!("and {} more", texts.len() - SHOWN_MAX));
    }
    sentence.join(", ")
}

#[cfg(test)]
mod tests;
