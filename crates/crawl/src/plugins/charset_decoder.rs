//! `charset-decoder`: pages become UTF-8.

use std::borrow::Cow;
use std::sync::Arc;

use flows::handles_each;
use flows::plugins::author::{HandlesEach, OUT, Plugin};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::page::{Page, is_gzip};
use crate::charset::decode;
use crate::sniff::Kind;

/// Parameters of `charset-decoder`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {}

pub(super) struct CharsetDecoder;

impl Plugin for CharsetDecoder {
    const ID: &'static str = "charset-decoder";
    const DESCRIPTION: &'static str = "Turns the bodies of pages into UTF-8.\n\n\
        What they are written in is told by a byte order mark, the HTTP header, the beginning of the page, or else its bytes. What has \
        no meaning there becomes U+FFFD and is counted. Bodies that are no text pass as they are, and so does what is UTF-8 already. \
        Put it before link, text and field extractors.";
    const OUTPUTS: Outputs = Outputs::Named(&[(
        OUT,
        "The pages, with `charset` saying what they were written in and, if there were any, the number of `broken_sequences`.",
    )]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[("As usual", "{}")];
    type Parameters = Parameters;

    fn new(_: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self)
    }
}

impl HandlesEach for CharsetDecoder {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let page = Page::of(&event)?;
        let body = page.body();
        if page.kind(&body) == Kind::Other || is_gzip(&body) {
            return turn.emit_value(OUT, event);
        }
        let header = page
            .text("charset")
            .map(str::to_owned)
            .or_else(|| page.sniff(&body).charset);
        let decoded = decode(
            &body,
            header.as_deref(),
            top_level_domain(page.text("host")),
        );
        let broken = decoded.broken;
        let broken = (broken > 0).then(|| ("broken_sequences", Data::from(broken as u64)));
        let charset = ("charset", Data::from(decoded.charset));
        let mut decoded_page = page.with(std::iter::once(charset).chain(broken));
        match decoded.text {
            Cow::Owned(text) => decoded_page = decoded_page.with_body(text.into()),
            // A byte order mark is left behind.
            Cow::Borrowed(text) if text.len() < body.len() => {
                let start = body.len() - text.len();
                decoded_page = decoded_page.with_body(body.slice(start..));
            }
            Cow::Borrowed(_) => (),
        }
        turn.emit_value(OUT, Arc::new(decoded_page))
    }
}

handles_each!(CharsetDecoder);

fn top_level_domain(host: Option<&str>) -> Option<&str> {
    let name = host?.split(':').next()?;
    name.rsplit_once('.').map(|(_, domain)| domain)
}
