//! `content-filter`: only pages that can be used pass.

use std::sync::Arc;

use flows::Event;
use flows::handles_each;
use flows::plugins::author::{HandlesEach, OUT, Plugin, REFUSED};
use flows::plugins::{Environment, Outputs, ParameterError};
use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::page::{Page, is_gzip};
use crate::sniff::{Allowed, Kind};

/// Parameters of `content-filter`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Which status an answer may have.
    #[serde(default = "status")]
    status: Vec<u16>,
    /// What passes: kinds (`html`, `xhtml`, `xml`, `text`, `other`) and patterns of types such as `application/pdf`,
    /// `image/*` or `*/*`.
    #[serde(default = "allow")]
    allow: Vec<String>,
    /// How long a body may be.
    #[serde(default = "body_bytes_max")]
    body_bytes_max: usize,
    /// How long a body must be.
    #[serde(default)]
    body_bytes_min: usize,
}

fn status() -> Vec<u16> {
    vec![200]
}

fn allow() -> Vec<String> {
    ["html", "xhtml", "xml"].map(str::to_owned).to_vec()
}

fn body_bytes_max() -> usize {
    8 * 1_024 * 1_024
}

pub(super) struct ContentFilter {
    parameters: Parameters,
    allowed: Allowed,
}

impl Plugin for ContentFilter {
    const ID: &'static str = "content-filter";
    const DESCRIPTION: &'static str = "Lets pages pass by status, type and size.\n\n\
        The type is that of the header, or is told from the first bytes where the header says nothing or cannot be right. Sitemaps that \
        are compressed by themselves (`.xml.gz`) count as XML.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            OUT,
            "Pages that fit, with their `mime` and `kind` as found.",
        ),
        (
            REFUSED,
            "Pages that do not, without their body, with `rule` and `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("Pages, feeds and sitemaps", "{}"),
        (
            "Pages and PDF up to a megabyte",
            r#"{"allow": ["html", "xhtml", "application/pdf"], "body_bytes_max": 1000000}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self {
            allowed: allowed(&parameters)?,
            parameters,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        allowed(&parameters).map(drop)
    }
}

fn allowed(parameters: &Parameters) -> Result<Allowed, ParameterError> {
    let wrong = |error: crate::sniff::AllowedError| ParameterError::new("allow", error.to_string());
    Allowed::parse(&parameters.allow).map_err(wrong)
}

impl HandlesEach for ContentFilter {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let page = Page::of(&event)?;
        let status = page.number("status").unwrap_or_default();
        if !self
            .parameters
            .status
            .iter()
            .any(|known| i64::from(*known) == status)
        {
            let reason = format!(
                "the server answered with status {status}; those that pass are {:?}",
                self.parameters.status
            );
            return page.refuse("status", reason, [], turn);
        }
        let body = page.body();
        if let Some(reason) = self.wrong_size(body.len()) {
            return page.refuse("size", reason, [], turn);
        }
        let mut sniffed = page.sniff(&body);
        if is_gzip(&body) && path(page.final_url()).ends_with(".xml.gz") {
            sniffed.kind = Kind::Xml;
        }
        if !self.allowed.fits(&sniffed) {
            let reason = format!(
                "it is {} ({}); what passes is {}",
                sniffed.mime,
                sniffed.kind.name(),
                self.parameters.allow.join(", ")
            );
            return page.refuse("content", reason, [], turn);
        }
        let charset = page.text("charset").map(str::to_owned).or(sniffed.charset);
        let found = [
            ("mime", sniffed.mime.into()),
            ("kind", sniffed.kind.name().into()),
        ];
        let charset = charset.map(|charset| ("charset", charset.into()));
        turn.emit_value(OUT, Arc::new(page.with(found.into_iter().chain(charset))))
    }
}

handles_each!(ContentFilter);

impl ContentFilter {
    fn wrong_size(&self, bytes: usize) -> Option<String> {
        let (least, most) = (
            self.parameters.body_bytes_min,
            self.parameters.body_bytes_max,
        );
        let is_wrong = !(least..=most).contains(&bytes);
        is_wrong.then(|| format!("it has {bytes} bytes; between {least} and {most} pass"))
    }
}

/// An address without what stands behind its path.
fn path(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}
