//! Fields of pages: CSS selectors into records.
//!
//! One record for the page, or one for each element that `each` selects, such as each product of a list. A field that is not
//! found is nothing, or no values if `all` are asked for.
//!
//! ```
//! use crawl::fields::{Extractor, Rules, Value};
//!
//! let rules: Rules = serde_json::from_str(r#"{
//!     "each": "li.product",
//!     "fields": {
//!         "name": {"select": "h2"},
//!         "price": {"select": ".price", "number": true},
//!         "link": {"select": "a", "attribute": "href"}
//!     }
//! }"#)?;
//! let page = r#"<ul><li class=product><h2>Honey</h2><a href="/honey">more</a><b class=price>1.299,00 €</b></ul>"#;
//! let extracted = Extractor::new(&rules)?.extract(page, |address| Some(format!("https://shop.example{address}")));
//! let records = extracted.records;
//! assert_eq!(records[0]["name"], Value::Text("Honey".to_owned()));
//! assert_eq!(records[0]["price"], Value::Number(1299.0));
//! assert_eq!(records[0]["link"], Value::Text("https://shop.example/honey".to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod number;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use html5ever::ParseOpts;
use html5ever::tendril::TendrilSink;
use regex::Regex;
use schemars::JsonSchema;
use scraper::{ElementRef, Html, HtmlTreeSink, Selector};
use serde::{Deserialize, Serialize};

pub use number::parse as parse_number;

/// What is taken from a page.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// A CSS selector: one record comes of each element that it selects, and fields are looked for within it. Without it, one
    /// record comes of the page.
    pub each: Option<String>,
    /// The fields, by their names.
    pub fields: BTreeMap<String, Field>,
    /// How many records may come of a page.
    #[serde(default = "records_max")]
    pub records_max: usize,
    /// How many values one field may have.
    #[serde(default = "values_max")]
    pub values_max: usize,
    /// How long a value may be; the rest is cut off.
    #[serde(default = "value_bytes_max")]
    pub value_bytes_max: usize,
    /// How long a page may be; of longer ones only the beginning is looked at.
    #[serde(default = "page_bytes_max")]
    pub page_bytes_max: usize,
    /// How long one page may take. Pages whose elements are nested without end take long; what is found until then counts.
    #[serde(default = "page_ms_max")]
    pub page_ms_max: u64,
}

fn records_max() -> usize {
    1_000
}

fn values_max() -> usize {
    1_000
}

fn value_bytes_max() -> usize {
    65_536
}

fn page_bytes_max() -> usize {
    2 * 1_024 * 1_024
}

fn page_ms_max() -> u64 {
    1_000
}

/// One field.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// A CSS selector, such as `h1` or `.price > span`. Without it, the element of the record itself is meant.
    pub select: Option<String>,
    /// Takes this attribute of the element, such as `href`, and not its text. Addresses in `href`, `src`, `action` and
    /// `poster` become absolute.
    pub attribute: Option<String>,
    /// Takes the HTML within the element, and not its text.
    #[serde(default)]
    pub html: bool,
    /// Takes all elements that are selected, as a list, and not only the first.
    #[serde(default)]
    pub all: bool,
    /// A regular expression: takes what its first group matches or, without groups, all that it matches. What does not match
    /// is nothing.
    pub pattern: Option<String>,
    /// Takes the first number in it. `1.299,00 €`, `$1,299.00`, `1 299` and `1'299.5` are understood: of two marks the
    /// last is the decimal one; a mark that comes twice, or once with three digits behind it and one to three other than 0
    /// before it, separates thousands. What has no number is nothing.
    #[serde(default)]
    pub number: bool,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// It was not found.
    Nothing,
    /// A text.
    Text(String),
    /// A number.
    Number(f64),
    /// All that was found.
    List(Vec<Value>),
}

/// Fields by their names.
pub type Record = BTreeMap<String, Value>;

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// There are none.
    #[error("name at least one, such as {{\"title\": {{\"select\": \"h1\"}}}}")]
    None,
    /// A selector cannot be understood.
    #[error("{selector:?} is no CSS selector that can be understood: {reason}")]
    Selector {
        /// The field, or `each`.
        place: String,
        /// What it says.
        selector: String,
        /// Why.
        reason: String,
    },
    /// A pattern cannot be understood.
    #[error("the pattern cannot be understood: {reason}")]
    Pattern {
        /// The field.
        field: String,
        /// Why.
        reason: String,
    },
    /// A field is to be two things at once.
    #[error("take either an attribute or the html, not both")]
    Both {
        /// The field.
        field: String,
    },
}

impl FieldError {
    /// Which part of the rules is meant, such as `fields.price.select`.
    pub fn place(&self) -> String {
        match self {
            Self::None => "fields".to_owned(),
            Self::Selector { place, .. } => place.clone(),
            Self::Pattern { field, .. } => format!("fields.{field}.pattern"),
            Self::Both { field } => format!("fields.{field}"),
        }
    }
}

/// Rules that are ready to be used.
#[derive(Debug)]
pub struct Extractor {
    each: Option<Selector>,
    fields: Vec<Compiled>,
    records_max: usize,
    values_max: usize,
    value_bytes_max: usize,
    page_bytes_max: usize,
    page_time_max: Duration,
}

/// What came of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Extracted {
    /// The records.
    pub records: Vec<Record>,
    /// Whether the page was too long, or took too long, to be looked at to its end.
    pub is_cut: bool,
}

/// What one page is read with.
struct Reading<'a> {
    until: Instant,
    resolve: &'a dyn Fn(&str) -> Option<String>,
}

impl Reading<'_> {
    fn is_over(&self) -> bool {
        Instant::now() > self.until
    }
}

#[derive(Debug)]
struct Compiled {
    name: String,
    select: Option<Selector>,
    pattern: Option<Regex>,
    field: Field,
}

impl Extractor {
    /// Makes rules ready.
    pub fn new(rules: &Rules) -> Result<Self, FieldError> {
        if rules.fields.is_empty() {
            return Err(FieldError::None);
        }
        let each = rules.each.as_deref();
        Ok(Self {
            each: each.map(|each| selector("each", each)).transpose()?,
            fields: rules
                .fields
                .iter()
                .map(|(name, field)| compile(name, field))
                .collect::<Result<_, _>>()?,
            records_max: rules.records_max,
            values_max: rules.values_max,
            value_bytes_max: rules.value_bytes_max,
            page_bytes_max: rules.page_bytes_max,
            page_time_max: Duration::from_millis(rules.page_ms_max),
        })
    }

    /// The records of a page. Addresses are made absolute by `resolve`; where it cannot, they stay as they are.
    pub fn extract(&self, html: &str, resolve: impl Fn(&str) -> Option<String>) -> Extracted {
        let reading = Reading {
            until: Instant::now() + self.page_time_max,
            resolve: &resolve,
        };
        let beginning = &html[..html.floor_char_boundary(self.page_bytes_max)];
        let (page, is_whole) = parse(beginning, &reading);
        let root = page.root_element();
        let records: Vec<_> = match &self.each {
            Some(each) => root
                .select(each)
                .take(self.records_max)
                .take_while(|_| !reading.is_over())
                .map(|element| self.record(element, &reading))
                .collect(),
            None => vec![self.record(root, &reading)],
        };
        Extracted {
            records,
            is_cut: !is_whole || beginning.len() < html.len() || reading.is_over(),
        }
    }

    fn record(&self, scope: ElementRef<'_>, reading: &Reading<'_>) -> Record {
        let fields = self.fields.iter();
        fields
            .map(|compiled| (compiled.name.clone(), self.value(compiled, scope, reading)))
            .collect()
    }

    fn value(&self, compiled: &Compiled, scope: ElementRef<'_>, reading: &Reading<'_>) -> Value {
        let take = |element| self.take(compiled, element, reading.resolve);
        match (&compiled.select, compiled.field.all) {
            (Some(select), true) => Value::List(
                scope
                    .select(select)
                    .take_while(|_| !reading.is_over())
                    .filter_map(take)
                    .take(self.values_max)
                    .collect(),
            ),
            (Some(select), false) => {
                let first = scope.select(select).next();
                first.and_then(take).unwrap_or(Value::Nothing)
            }
            (None, true) => Value::List(take(scope).into_iter().collect()),
            (None, false) => take(scope).unwrap_or(Value::Nothing),
        }
    }

    /// What is taken of an element, if that is anything.
    fn take(
        &self,
        compiled: &Compiled,
        element: ElementRef<'_>,
        resolve: &dyn Fn(&str) -> Option<String>,
    ) -> Option<Value> {
        let field = &compiled.field;
        let mut text = match &field.attribute {
            Some(name) => {
                let value = element.attr(name)?.trim();
                let is_address = matches!(name.as_str(), "href" | "src" | "action" | "poster");
                is_address
                    .then(|| resolve(value))
                    .flatten()
                    .unwrap_or_else(|| value.to_owned())
            }
            None if field.html => element.inner_html(),
            None => folded(element, self.value_bytes_max),
        };
        text.truncate(text.floor_char_boundary(self.value_bytes_max));
        if let Some(pattern) = &compiled.pattern {
            let captures = pattern.captures(&text)?;
            let group = captures.get(1).or(captures.get(0))?;
            text = group.as_str().to_owned();
        }
        match field.number {
            true => parse_number(&text).map(Value::Number),
            false => Some(Value::Text(text)),
        }
    }
}

/// How many bytes are parsed before the clock is looked at.
const PARSED_BYTES: usize = 4_096;

/// The tree of a page, and whether all of it was parsed in time.
fn parse(html: &str, reading: &Reading<'_>) -> (Html, bool) {
    let sink = HtmlTreeSink::new(Html::new_document());
    let mut parser = html5ever::parse_document(sink, ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() && !reading.is_over() {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(PARSED_BYTES));
        parser.process(piece.into());
        rest = behind;
    }
    (parser.finish(), rest.is_empty())
}

/// The text of an element with white space folded, and somewhat more of it than may be kept at most.
fn folded(element: ElementRef<'_>, bytes_max: usize) -> String {
    let mut text = String::new();
    let mut has_gap = false;
    for piece in element.text() {
        for (number, word) in piece.split(char::is_whitespace).enumerate() {
            has_gap |= number > 0;
            if word.is_empty() {
                continue;
            }
            if has_gap && !text.is_empty() {
                text.push(' ');
            }
            has_gap = false;
            text.push_str(word);
        }
        if text.len() > bytes_max {
            break;
        }
    }
    text
}

fn compile(name: &str, field: &Field) -> Result<Compiled, FieldError> {
    if field.html && field.attribute.is_some() {
        return Err(FieldError::Both {
            field: name.to_owned(),
        });
    }
    let place = format!("fields.{name}.select");
    let select = field.select.as_deref();
    let pattern = field.pattern.as_deref().map(Regex::new);
    Ok(Compiled {
        name: name.to_owned(),
        select: select.map(|select| selector(&place, select)).transpose()?,
        pattern: pattern.transpose().map_err(|error| FieldError::Pattern {
            field: name.to_owned(),
            reason: error.to_string(),
        })?,
        field: field.clone(),
    })
}

fn selector(place: &str, text: &str) -> Result<Selector, FieldError> {
    Selector::parse(text).map_err(|error| FieldError::Selector {
        place: place.to_owned(),
        selector: text.to_owned(),
        reason: format!("{error:?}"),
    })
}

#[cfg(test)]
mod tests;
