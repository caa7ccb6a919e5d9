//! `to-sqlite`: events become rows of a table in SQLite.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use rusqlite::Connection;
use rusqlite::types::Value;
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::environment::check_file;
use super::table::{self, quoted};
use super::worker::variables;
use super::{Environment, Formula, Outputs, ParameterError};
use crate::event::{Data, Event};

/// Parameters of `to-sqlite`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The file of the database, in the folder of flows. It is made if need be.
    file: String,
    /// The name of the table. It is made if need be.
    table: String,
    /// The columns with their values, such as `{"sensor": "event.sensor"}`. Lists and records are written as JSON.
    columns: BTreeMap<String, Formula>,
    /// The columns that tell rows apart: an event replaces the row that has the same. Without them, each event is a row
    /// of its own.
    #[serde(default)]
    key: Vec<String>,
}

pub(super) struct ToSqlite {
    parameters: Parameters,
    path: PathBuf,
    insert: String,
    connection: Option<Connection>,
}

const BUSY_TIMEOUT: Duration = Duration::from_millis(500);

impl Plugin for ToSqlite {
    const ID: &'static str = "to-sqlite";
    const DESCRIPTION: &'static str = "Writes each event into a table of an SQLite database.\n\n\
        A turn that is undone after it was written is written again: each event is written at least once. With a `key` that leaves one row all the same.";
    const OUTPUTS: Outputs = Outputs::None;
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "The latest temperature of each sensor",
        r#"{"file": "output/sensors.db", "table": "latest", "columns": {"sensor": "event.sensor", "celsius": "event.celsius", "at": "event.at"}, "key": ["sensor"]}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        Ok(Self {
            path: environment.file("file", &parameters.file)?,
            insert: insert(&parameters),
            parameters,
            connection: None,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    check_file("file", &parameters.file)?;
    table::check(&parameters.table, &parameters.columns, &parameters.key)
}

fn insert(parameters: &Parameters) -> String {
    let verb = if parameters.key.is_empty() {
        "INSERT"
    } else {
        "INSERT OR REPLACE"
    };
    let places = vec!["?"; parameters.columns.len()].join(", ");
    let columns = quoted(parameters.columns.keys());
    format!(
        "{verb} INTO \"{}\" ({columns}) VALUES ({places})",
        parameters.table
    )
}

#[async_trait]
impl Worker for ToSqlite {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], _: &mut Turn) -> Result<(), Failure> {
        let mut rows = Vec::with_capacity(messages.len());
        for message in messages {
            let event = Event::of(message)?;
            let variables = variables(&event, message);
            let columns = self.parameters.columns.values();
            let row: Result<Vec<Value>, _> = columns
                .map(|column| column.evaluate(&variables).map(value))
                .collect();
            rows.push(row?);
        }
        self.write(rows).map_err(|error| {
            self.connection = None;
            let Parameters { file, table, .. } = &self.parameters;
            Failure::new(format!(
                "the table {table} in the file {file} of the flow cannot be written: {error}"
            ))
        })
    }
}

impl ToSqlite {
    fn write(&mut self, rows: Vec<Vec<Value>>) -> rusqlite::Result<()> {
        if self.connection.is_none() {
            self.connection = Some(self.connect()?);
        }
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let transaction = connection.transaction()?;
        {
            let mut statement = transaction.prepare(&self.insert)?;
            for row in rows {
                statement.execute(rusqlite::params_from_iter(row))?;
            }
        }
        transaction.commit()
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        if let Some(folder) = self.path.parent() {
            // If that fails, opening the file says why.
            let _ = std::fs::create_dir_all(folder);
        }
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let Parameters {
            table,
            columns,
            key,
            ..
        } = &self.parameters;
        let columns = quoted(columns.keys());
        let key = match key.is_empty() {
            true => String::new(),
            false => format!(", PRIMARY KEY ({})", quoted(key.iter())),
        };
        connection.execute(
            &format!("CREATE TABLE IF NOT EXISTS \"{table}\" ({columns}{key})"),
            (),
        )?;
        Ok(connection)
    }
}

fn value(data: Data) -> Value {
    match data {
        Data::Null => Value::Null,
        Data::Bool(is_true) => Value::Integer(i64::from(*is_true.inner())),
        Data::Int(number) => Value::Integer(*number.inner()),
        Data::UInt(number) => Value::Real(*number.inner() as f64),
        Data::Float(number) => Value::Real(*number.inner()),
        Data::Text(text) => Value::Text(text.into_inner()),
        other => Value::Text(other.key_text().into_owned()),
    }
}
