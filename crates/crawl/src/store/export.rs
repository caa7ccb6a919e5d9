//! Everything in a store, as JSON lines or CSV.

use std::borrow::Cow;
use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use super::{PageRow, Reader, RefusalRow, StoreError};

/// How an export is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportForm {
    /// A JSON record a line.
    JsonLines,
    /// Comma-separated values, names first, for spreadsheets.
    Csv,
}

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportOf {
    /// Pages without text.
    Pages,
    /// Pages with text.
    PagesWithText,
    /// What was refused.
    Refusals,
}

/// So many rows are in memory at once.
const ROWS_AT_ONCE: usize = 200;

impl Reader {
    /// Writes all rows, in the order in which they were first written, and says how many. Rows that are written meanwhile may
    /// be among them.
    pub async fn export(
        &mut self,
        what: ExportOf,
        form: ExportForm,
        to: &mut (dyn Write + Send),
    ) -> Result<u64, StoreError> {
        let mut lines = Lines::new(form, to);
        lines.begin(what.columns())?;
        let (mut last, mut count) = (i64::MIN, 0);
        while let Some((number, rows)) = self.export_rows(what, last, &mut lines).await? {
            (last, count) = (number, count + rows);
        }
        lines.end()?;
        Ok(count)
    }

    /// Writes rows after the one with this number until there are so many bytes or no more rows, and gives the number of the last one if
    /// there may be more. Without a number it begins at the beginning, with the names of columns if the form has them.
    pub async fn export_part(
        &mut self,
        what: ExportOf,
        form: ExportForm,
        after: Option<i64>,
        part_bytes: usize,
        to: &mut Vec<u8>,
    ) -> Result<Option<i64>, StoreError> {
        let mut last = after.unwrap_or(i64::MIN);
        if after.is_none() {
            let mut lines = Lines::new(form, to);
            lines.begin(what.columns())?;
            lines.end()?;
        }
        loop {
            let mut lines = Lines::new(form, to);
            let Some((number, _)) = self.export_rows(what, last, &mut lines).await? else {
                return Ok(None);
            };
            lines.end()?;
            drop(lines);
            last = number;
            if to.len() >= part_bytes {
                return Ok(Some(last));
            }
        }
    }

    /// Writes some rows; gives the number of the last one and how many they were, or nothing if there are no more.
    async fn export_rows(
        &mut self,
        what: ExportOf,
        after: i64,
        lines: &mut Lines<'_>,
    ) -> Result<Option<(i64, u64)>, StoreError> {
        let columns = what.columns();
        if what == ExportOf::Refusals {
            let rows = self.refusals_after(after, ROWS_AT_ONCE).await?;
            for (_, refusal) in &rows {
                lines.write(columns, &refusal_values(refusal))?;
            }
            return Ok(rows.last().map(|(number, _)| (*number, rows.len() as u64)));
        }
        let rows = self.pages_after(after, ROWS_AT_ONCE).await?;
        for (_, page) in &rows {
            lines.write(columns, &page_values(page, what == ExportOf::PagesWithText))?;
        }
        Ok(rows.last().map(|(number, _)| (*number, rows.len() as u64)))
    }
}

impl ExportOf {
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Pages => &PAGE[..PAGE.len() - 1],
            Self::PagesWithText => PAGE,
            Self::Refusals => REFUSAL,
        }
    }
}

const PAGE: &[&str] = &[
    "url",
    "final_url",
    "host",
    "depth",
    "from",
    "status",
    "mime",
    "charset",
    "size",
    "fetched_at",
    "took_ms",
    "node",
    "title",
    "language",
    "description",
    "hash",
    "simhash",
    "headers",
    "fields",
    "fetches",
    "text",
];

const REFUSAL: &[&str] = &[
    "url", "host", "stage", "rule", "reason", "from", "depth", "at", "node",
];

/// A value of a row.
#[derive(Serialize)]
#[serde(untagged)]
enum Cell<'a> {
    Number(i64),
    Text(&'a str),
    Nothing,
    Json(Value),
}

impl<'a> Cell<'a> {
    fn maybe(text: Option<&'a String>) -> Self {
        text.map_or(Self::Nothing, |text| Self::Text(text))
    }

    fn number(number: impl TryInto<i64>) -> Self {
        Self::Number(number.try_into().unwrap_or(i64::MAX))
    }

    fn json(text: Option<&'a String>) -> Self {
        let Some(text) = text else {
            return Self::Nothing;
        };
        serde_json::from_str(text).map_or(Self::Text(text), Self::Json)
    }

    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Number(number) => number.to_string().into(),
            Self::Text(text) => safe_cell(text),
            Self::Nothing => Cow::Borrowed(""),
            Self::Json(value) => value.to_string().into(),
        }
    }
}

fn page_values(page: &PageRow, with_text: bool) -> Vec<Cell<'_>> {
    let mut values = vec![
        Cell::Text(&page.url),
        Cell::Text(&page.final_url),
        Cell::Text(&page.host),
        Cell::number(page.depth),
        Cell::maybe(page.from.as_ref()),
        Cell::number(page.status),
        Cell::maybe(page.mime.as_ref()),
        Cell::maybe(page.charset.as_ref()),
        Cell::number(page.size),
        Cell::Number(page.fetched_at),
        Cell::number(page.took_ms),
        Cell::Text(&page.node),
        Cell::maybe(page.title.as_ref()),
        Cell::maybe(page.language.as_ref()),
        Cell::maybe(page.description.as_ref()),
        Cell::maybe(page.hash.as_ref()),
        Cell::maybe(page.simhash.as_ref()),
        Cell::json(page.headers.as_ref()),
        Cell::json(page.fields.as_ref()),
        Cell::number(page.fetches),
    ];
    if with_text {
        values.push(Cell::maybe(page.text.as_ref()));
    }
    values
}

fn refusal_values(refusal: &RefusalRow) -> Vec<Cell<'_>> {
    vec![
        Cell::Text(&refusal.url),
        Cell::Text(&refusal.host),
        Cell::maybe(refusal.stage.as_ref()),
        Cell::Text(&refusal.rule),
        Cell::Text(&refusal.reason),
        Cell::maybe(refusal.from.as_ref()),
        Cell::number(refusal.depth),
        Cell::Number(refusal.at),
        Cell::Text(&refusal.node),
    ]
}

/// Rows on their way out.
enum Lines<'a> {
    Json(&'a mut (dyn Write + Send)),
    Csv(Box<csv::Writer<&'a mut (dyn Write + Send)>>),
}

impl<'a> Lines<'a> {
    fn new(form: ExportForm, to: &'a mut (dyn Write + Send)) -> Self {
        match form {
            ExportForm::JsonLines => Self::Json(to),
            ExportForm::Csv => Self::Csv(Box::new(csv::Writer::from_writer(to))),
        }
    }

    fn begin(&mut self, names: &[&str]) -> std::io::Result<()> {
        match self {
            Self::Json(_) => Ok(()),
            Self::Csv(to) => Ok(to.write_record(names)?),
        }
    }

    fn write(&mut self, names: &[&str], values: &[Cell<'_>]) -> std::io::Result<()> {
        match self {
            Self::Json(to) => {
                let mut line = Vec::with_capacity(1_024);
                let pairs = names.iter().zip(values);
                serde::Serializer::collect_map(&mut serde_json::Serializer::new(&mut line), pairs)?;
                line.push(b'\n');
                to.write_all(&line)
            }
            Self::Csv(to) => {
                for value in values {
                    to.write_field(value.text().as_bytes())?;
                }
                Ok(to.write_record(None::<&[u8]>)?)
            }
        }
    }

    fn end(&mut self) -> std::io::Result<()> {
        match self {
            Self::Json(to) => to.flush(),
            Self::Csv(to) => to.flush(),
        }
    }
}

/// A text that no spreadsheet takes for a formula: one that begins as formulas do gets a `'` in front.
pub fn safe_cell(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}").into(),
        false => text.into(),
    }
}
