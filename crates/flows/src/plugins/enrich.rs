//! `enrich`: events get what a table knows about them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::environment::check_file;
use super::worker::{HandlesEach, OUT, REFUSED_OUTPUT, handles_each, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError};
use crate::event::{Data, Event, Record};

/// Parameters of `enrich`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The table itself: what is known, by key.
    #[serde(default)]
    table: serde_json::Map<String, serde_json::Value>,
    /// A file with the table, in the folder of flows: `.csv` with names in its first line, or otherwise a JSON object
    /// in each line. It is read when the worker starts.
    file: Option<String>,
    /// The column or field of the file that is the key.
    #[serde(default = "id")]
    key: String,
    /// The key to look for, such as `event.customer`.
    by: Formula,
    /// The field of the event that gets what was found. An event that is no record becomes one, with itself as `value`.
    #[serde(default = "found")]
    into: String,
    /// What happens with an event for which the key cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

fn id() -> String {
    "id".to_owned()
}

fn found() -> String {
    "found".to_owned()
}

pub(super) struct Enrich {
    parameters: Parameters,
    table: HashMap<String, Data>,
}

const MISSING: &str = "missing";
const FILE_BYTES_MAX: u64 = 64 << 20;
const ROWS_MAX: usize = 1_000_000;

impl Plugin for Enrich {
    const ID: &'static str = "enrich";
    const DESCRIPTION: &'static str = "Adds to each event what a table knows about it.\n\n\
        The table stands in the parameters or in a file of at most 64 MiB and a million rows. Events for which it has nothing go to the output `missing`.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "The events with what was found."),
        (
            MISSING,
            "Events for which the table has nothing, as they were.",
        ),
        REFUSED_OUTPUT,
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "Names of countries",
            r#"{"table": {"1": {"name": "Ada"}, "2": {"name": "Bob"}}, "by": "event.customer", "into": "customer_data"}"#,
        ),
        (
            "Customers from a file",
            r#"{"file": "input/customers.csv", "key": "id", "by": "event.customer"}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let mut table = HashMap::new();
        for (key, value) in &parameters.table {
            let data = serde_json::from_value(value.clone());
            let data = data
                .map_err(|error| ParameterError::new(format!("table.{key}"), error.to_string()))?;
            table.insert(key.clone(), data);
        }
        if let Some(file) = &parameters.file {
            let path = environment.file("file", file)?;
            let rows = File::open(path).map_err(|error| error.to_string());
            let rows = rows.and_then(|opened| {
                read(opened, file.ends_with(".csv"), &parameters.key, &mut table)
            });
            rows.map_err(|problem| {
                ParameterError::new("file", format!("{file} cannot be used: {problem}"))
            })?;
        }
        Ok(Self { parameters, table })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    if let Some(file) = &parameters.file {
        check_file("file", file)?;
    }
    match parameters.table.is_empty() && parameters.file.is_none() {
        true => Err(ParameterError::new(
            "table",
            "give a table, or the file that holds it",
        )),
        false => Ok(()),
    }
}

/// Reads a file into the table.
fn read(
    file: File,
    is_csv: bool,
    key: &str,
    table: &mut HashMap<String, Data>,
) -> Result<(), String> {
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, more than {FILE_BYTES_MAX}"));
    }
    let reader = BufReader::new(file.take(FILE_BYTES_MAX));
    match is_csv {
        true => read_csv(reader, key, table),
        false => read_lines(reader, key, table),
    }
}

fn read_csv(reader: impl Read, key: &str, table: &mut HashMap<String, Data>) -> Result<(), String> {
    let mut rows = csv::Reader::from_reader(reader);
    let names = rows.headers().map_err(|error| error.to_string())?.clone();
    if !names.iter().any(|name| name == key) {
        return Err(format!("it has no column {key}"));
    }
    for row in rows.records() {
        let row = row.map_err(|error| error.to_string())?;
        let fields = names
            .iter()
            .zip(&row)
            .map(|(name, value)| (name.to_owned(), Data::from(value.to_owned())));
        insert(fields.collect(), key, table)?;
    }
    Ok(())
}

fn read_lines(
    reader: impl BufRead,
    key: &str,
    table: &mut HashMap<String, Data>,
) -> Result<(), String> {
    for (number, line) in reader.lines().enumerate() {
        let line = line.map_err(|error| error.to_string())?;
        match Event::parse(line.as_bytes()).map(|event| event.data().clone()) {
            Ok(Data::Record(record)) => insert(record, key, table)?,
            _ => return Err(format!("line {} is no JSON object", number + 1)),
        }
    }
    Ok(())
}

fn insert(row: Record, key: &str, table: &mut HashMap<String, Data>) -> Result<(), String> {
    let Some(found) = row.get(key) else {
        return Err(format!("a row has no {key}"));
    };
    table.insert(found.key_text().into_owned(), row.into());
    match table.len() > ROWS_MAX {
        true => Err(format!("it has more than {ROWS_MAX} rows")),
        false => Ok(()),
    }
}

impl HandlesEach for Enrich {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let key = match self.parameters.by.evaluate(&variables(&event, message)) {
            Ok(key) => key,
            Err(error) => return self.parameters.on_error.refuse(&event, error.into(), turn),
        };
        let Some(found) = self.table.get(&*key.key_text()) else {
            return turn.emit_value(MISSING, event);
        };
        let mut record = match event.data() {
            Data::Record(record) => record.clone(),
            other => Record::from_iter([("value", other.clone())]),
        };
        record.set(self.parameters.into.clone(), found.clone());
        turn.emit_value(OUT, Arc::new(event.with_data(record.into())))
    }
}

handles_each!(Enrich);
