//! `field-extractor`: records of pages.

use std::borrow::Cow;
use std::sync::Arc;

use flows::handles_each;
use flows::plugins::author::{HandlesEach, OUT, Plugin};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, LogLevel, Turn};

use super::page::{Page, base_of, resolve};
use crate::fields::{Extracted, Extractor, Rules, Value};
use crate::sniff::Kind;

pub(super) struct FieldExtractor(Extractor);

/// Fields that every record has.
const OWN: [&str; 3] = ["url", "fetched_at", "host"];

impl Plugin for FieldExtractor {
    const ID: &'static str = "field-extractor";
    const DESCRIPTION: &'static str = "Makes records of pages with CSS selectors.\n\n\
        One record for the page, or one for each element that `each` selects. A field that is not found is null. Pages that are no HTML \
        give none.";
    const OUTPUTS: Outputs = Outputs::Named(&[(
        OUT,
        "Records: the fields, and `url`, `host` and `fetched_at` of the page.",
    )]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "The price of a product",
            r#"{"fields": {"name": {"select": "h1"}, "price": {"select": ".price", "number": true}}}"#,
        ),
        (
            "Each product of a list",
            r#"{"fields": {"name": {"select": "h2"}, "link": {"select": "a", "attribute": "href"}, "stock": {"select": ".stock", "pattern": "([0-9]+) left", "number": true}}, "each": "li.product"}"#,
        ),
    ];
    type Parameters = Rules;

    fn new(rules: Rules, _: &Environment) -> Result<Self, ParameterError> {
        extractor(&rules).map(Self)
    }

    fn check(rules: Rules) -> Result<(), ParameterError> {
        extractor(&rules).map(drop)
    }
}

fn extractor(rules: &Rules) -> Result<Extractor, ParameterError> {
    if let Some(name) = OWN.iter().find(|name| rules.fields.contains_key(**name)) {
        let problem = "every record has this of the page: choose another name";
        return Err(ParameterError::new(format!("fields.{name}"), problem));
    }
    Extractor::new(rules).map_err(|error| ParameterError::new(error.place(), error.to_string()))
}

impl HandlesEach for FieldExtractor {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let page = Page::of(&event)?;
        let body = page.body();
        if !matches!(page.kind(&body), Kind::Html | Kind::Xhtml) {
            return Ok(());
        }
        let html = String::from_utf8_lossy(&body);
        let extracted = self.extract(&page, &html);
        if extracted.is_cut {
            let line = format!(
                "{} is too long or nested too deep to be looked at to its end",
                page.url
            );
            turn.log(LogLevel::Warn, &line);
        }
        for record in extracted.records {
            let own = OWN.iter().filter_map(|name| {
                let value = event.data().get(name)?;
                Some((Cow::Borrowed(*name), value.clone()))
            });
            let fields = record
                .into_iter()
                .map(|(name, value)| (Cow::Owned(name), data_of(value)));
            let named = own
                .chain(fields)
                .map(|(name, value)| (name.into_owned(), value));
            let record = Event::new(Data::record(named)).held_like(&event);
            turn.emit_value(OUT, Arc::new(record))?;
        }
        Ok(())
    }
}

handles_each!(FieldExtractor);

impl FieldExtractor {
    fn extract(&self, page: &Page<'_>, html: &str) -> Extracted {
        let base = base_of(page.final_url(), page.text("base"));
        let absolute = |address: &str| base.as_ref().and_then(|base| resolve(base, address));
        self.0
            .extract(html, |address| absolute(address).map(String::from))
    }
}

fn data_of(value: Value) -> Data {
    match value {
        Value::Nothing => Data::Null,
        Value::Text(text) => text.into(),
        Value::Number(number) => Data::float(number).unwrap_or_default(),
        Value::List(values) => values.into_iter().map(data_of).collect::<Vec<_>>().into(),
    }
}
