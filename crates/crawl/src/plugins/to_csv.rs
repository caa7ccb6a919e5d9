//! `to-csv`: events become rows of a table for spreadsheets.

use std::borrow::Cow;
use std::collections::BTreeMap;

use async_trait::async_trait;
use flows::plugins::author::{AppendedFile, Plugin, check_file, variables};
use flows::plugins::{Environment, Formula, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::store::safe_cell;

/// Parameters of `to-csv`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The file, in the folder of flows. Its folder is made if need be.
    file: String,
    /// The columns with their values, such as `{"address": "event.url"}`. Lists and records are written as JSON.
    columns: BTreeMap<String, Formula>,
    /// The names of the columns in their order. Those that are not named follow, sorted by name.
    #[serde(default)]
    order: Vec<String>,
    /// How large the file may become. Then it is renamed, with `.1` at its end, and a new one is begun.
    #[serde(default = "file_bytes_max")]
    file_bytes_max: u64,
    /// How many renamed files are kept; the oldest is removed.
    #[serde(default = "files_max")]
    files_max: u32,
}

fn file_bytes_max() -> u64 {
    1 << 30
}

fn files_max() -> u32 {
    10
}

pub(super) struct ToCsv {
    columns: Vec<Formula>,
    /// The names of the columns, as a row.
    names: Vec<u8>,
    file: AppendedFile,
}

impl Plugin for ToCsv {
    const ID: &'static str = "to-csv";
    const DESCRIPTION: &'static str = "Appends each event to a file of comma-separated values, for spreadsheets.\n\n\
        The names of the columns stand in the first row. A text that a spreadsheet would take for a formula gets a `'` in front. What a turn wrote that was undone is \
        taken back, so each event stands there once. One worker writes a file: give the stage one worker, and let nobody else write it.";
    const OUTPUTS: Outputs = Outputs::None;
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Broken links",
        r#"{"file": "output/broken.csv", "columns": {"page": "event.from", "link": "event.url", "reason": "event.reason"}, "order": ["page", "link"]}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        let order = order(&parameters)?;
        let path = environment.file("file", &parameters.file)?;
        let Parameters {
            file,
            mut columns,
            file_bytes_max,
            files_max,
            ..
        } = parameters;
        let names = row(order.iter().map(|name| safe_cell(name)));
        let names = names.map_err(|error| ParameterError::new("columns", error.to_string()))?;
        Ok(Self {
            columns: order
                .iter()
                .filter_map(|name| columns.remove(name))
                .collect(),
            names,
            file: AppendedFile::new(path, &file, file_bytes_max, files_max),
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check_file("file", &parameters.file)?;
        order(&parameters).map(drop)
    }
}

const COLUMNS_MAX: usize = 1_000;

/// The names of all columns in their order.
fn order(parameters: &Parameters) -> Result<Vec<String>, ParameterError> {
    let Parameters { columns, order, .. } = parameters;
    if columns.is_empty() || columns.len() > COLUMNS_MAX {
        let wanted = format!("name 1 to {COLUMNS_MAX} columns");
        return Err(ParameterError::new("columns", wanted));
    }
    let mut names: Vec<String> = Vec::with_capacity(columns.len());
    for name in order {
        let problem = match columns.contains_key(name) {
            true if names.contains(name) => format!("{name} is there twice"),
            true => {
                names.push(name.clone());
                continue;
            }
            false => format!("there is no column {name}"),
        };
        return Err(ParameterError::new("order", problem));
    }
    let others: Vec<String> = columns
        .keys()
        .filter(|name| !names.contains(name))
        .cloned()
        .collect();
    names.extend(others);
    Ok(names)
}

fn row<'a>(cells: impl Iterator<Item = Cow<'a, str>>) -> csv::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for cell in cells {
        writer.write_field(cell.as_bytes())?;
    }
    writer.write_record(None::<&[u8]>)?;
    writer
        .into_inner()
        .map_err(|error| error.into_error().into())
}

#[async_trait]
impl Worker for ToCsv {
    async fn init(&mut self, _args: &[u8], turn: &mut Turn) -> Result<(), Failure> {
        self.file.init(turn).await
    }

    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for message in messages {
            let event = Event::of(message)?;
            let variables = variables(&event, message);
            let cells: Result<Vec<Data>, _> = self
                .columns
                .iter()
                .map(|column| column.evaluate(&variables))
                .collect();
            let cells = cells?;
            let row = row(cells.iter().map(cell));
            rows.extend(row.map_err(|error| Failure::new(error.to_string()))?);
        }
        self.file.append(&self.names, &rows, turn).await
    }
}

fn cell(data: &Data) -> Cow<'_, str> {
    match data {
        Data::Null => Cow::Borrowed(""),
        Data::Text(text) => safe_cell(text.inner()),
        other => other.key_text(),
    }
}
