//! `text-extractor`: what people read on pages.

use std::sync::Arc;

use flows::handles_each;
use flows::plugins::author::{HandlesEach, OUT, Plugin};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::page::Page;
use crate::sniff::Kind;
use crate::text::{Readable, Rules, read, read_plain};

/// Parameters of `text-extractor`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How long the text may become; the rest is cut off.
    #[serde(default = "text_bytes_max")]
    text_bytes_max: usize,
    /// How long title and description may become.
    #[serde(default = "title_bytes_max")]
    title_bytes_max: usize,
    /// If less text is left without menus and the like, all of it is taken.
    #[serde(default = "text_bytes_least")]
    text_bytes_least: usize,
    /// Whether menus, headers, footers and what is hidden are taken in any case.
    #[serde(default)]
    keep_surroundings: bool,
    /// Whether the language is guessed from the text where the page does not say it.
    #[serde(default = "guess_language")]
    guess_language: bool,
    /// Whether the body is left behind, if nobody needs it any more.
    #[serde(default)]
    drop_body: bool,
}

fn text_bytes_max() -> usize {
    Rules::default().text_bytes_max
}

fn title_bytes_max() -> usize {
    Rules::default().title_bytes_max
}

fn text_bytes_least() -> usize {
    Rules::default().text_bytes_least
}

fn guess_language() -> bool {
    true
}

pub(super) struct TextExtractor {
    rules: Rules,
    drop_body: bool,
}

impl Plugin for TextExtractor {
    const ID: &'static str = "text-extractor";
    const DESCRIPTION: &'static str = "Adds title, text, description and language to pages.\n\n\
        The text is that of headings, paragraphs, lists and tables, one line each, without menus, headers, footers and what is hidden, \
        where a page says which that is. Plain text keeps its lines; XML and what is no text pass as they are.";
    const OUTPUTS: Outputs = Outputs::Named(&[(
        OUT,
        "The pages, with `text`, and `title`, `description` and `language` where there are such.",
    )]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("As usual", "{}"),
        (
            "Short texts for a search",
            r#"{"text_bytes_max": 20000, "drop_body": true}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self {
            rules: Rules {
                text_bytes_max: parameters.text_bytes_max,
                title_bytes_max: parameters.title_bytes_max,
                text_bytes_least: parameters.text_bytes_least,
                keeps_surroundings: parameters.keep_surroundings,
                guesses_language: parameters.guess_language,
                is_xhtml: false,
            },
            drop_body: parameters.drop_body,
        })
    }
}

impl HandlesEach for TextExtractor {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let page = Page::of(&event)?;
        let body = page.body();
        let readable = match page.kind(&body) {
            kind @ (Kind::Html | Kind::Xhtml) => {
                self.rules.is_xhtml = kind == Kind::Xhtml;
                read(&body, &self.rules)
            }
            Kind::Text => read_plain(&body, &self.rules),
            Kind::Xml | Kind::Other => return turn.emit_value(OUT, event),
        };
        let mut page = page.with(fields(readable));
        if self.drop_body {
            page = Event::new(page.data().clone()).held_like(&event);
        }
        turn.emit_value(OUT, Arc::new(page))
    }
}

handles_each!(TextExtractor);

fn fields(readable: Readable) -> impl Iterator<Item = (&'static str, Data)> {
    let text = ("text", Data::from(readable.text));
    let others = [
        ("title", readable.title),
        ("description", readable.description),
        ("language", readable.language),
    ];
    let others = others
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?.into())));
    std::iter::once(text).chain(others)
}
