//! `to-postgres`: events become rows of a table in PostgreSQL.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use rustls::{ClientConfig, RootCertStore, crypto};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Error, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::built_in::Plugin;
use super::table::{self, quoted};
use super::worker::variables;
use super::{Environment, Formula, Outputs, ParameterError, Period};
use crate::event::{Data, Event};

/// Parameters of `to-postgres`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Where the database is: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Beyond this machine the connection is
    /// always encrypted, and the server needs a certificate that browsers trust.
    url: String,
    /// The name of the table. It has to be there.
    table: String,
    /// The columns with their values, such as `{"sensor": "event.sensor"}`. The server makes from a value what the
    /// column holds.
    columns: BTreeMap<String, Formula>,
    /// The columns that tell rows apart, such as the id of the event: an event replaces the row that has the same. The
    /// table needs a primary key or a unique index of just these. Without them, each event is a row of its own.
    #[serde(default)]
    key: Vec<String>,
    /// How long the server may take. It has to be shorter than a turn of the stage may take.
    #[serde(default = "timeout")]
    timeout: Period,
}

fn timeout() -> Period {
    Period::from_millis(800)
}

pub(super) struct ToPostgres {
    parameters: Parameters,
    config: Config,
    tls: MakeRustlsConnect,
    insert: String,
    connection: Option<Connection>,
}

/// A connection, which ends with this.
struct Connection {
    client: Client,
    insert: Statement,
    driver: JoinHandle<Result<(), Error>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Plugin for ToPostgres {
    const ID: &'static str = "to-postgres";
    const DESCRIPTION: &'static str = "Writes each event into a table of a PostgreSQL database.\n\n\
        The events of a turn are written in one transaction. A turn that is undone after it was written is written again: each event is written at \
        least once. With a `key` that leaves one row all the same. If the server cannot be reached, an event is tried again as often as the stage \
        allows and then goes to the dead letters.";
    const OUTPUTS: Outputs = Outputs::None;
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Each order once",
        r#"{"url": "postgres://hivewire@localhost/shop", "table": "orders", "columns": {"id": "event.id", "total": "event.total", "who": "event.customer"}, "key": ["id"]}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        let config = check(&parameters)?;
        Ok(Self {
            config,
            tls: tls()?,
            insert: insert(&parameters),
            parameters,
            connection: None,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters).map(drop)
    }
}

fn check(parameters: &Parameters) -> Result<Config, ParameterError> {
    table::check(&parameters.table, &parameters.columns, &parameters.key)?;
    // The address may hold a password, so no message repeats it.
    let wrong = |problem: &str| {
        let wanted = format!(
            "{problem}: write postgres://USER:PASSWORD@HOST:PORT/DATABASE, and % codes for signs that mean something there"
        );
        ParameterError::new("url", wanted)
    };
    let config = parameters.url.parse::<Config>();
    let mut config = config.map_err(|_| wrong("it cannot be understood"))?;
    if config.get_hosts().is_empty() {
        return Err(wrong("it names no host"));
    }
    if !config.get_hosts().iter().all(is_this_machine) {
        config.ssl_mode(SslMode::Require);
    }
    config.application_name("hivewire");
    Ok(config)
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// Encryption with those trusted whom browsers trust.
fn tls() -> Result<MakeRustlsConnect, ParameterError> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let provider = Arc::new(crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config
        .map_err(|error| ParameterError::general(format!("encryption cannot be used: {error}")))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// One statement, and so one transaction, for all rows, which come as JSON: the server knows the types of the columns.
fn insert(parameters: &Parameters) -> String {
    let Parameters {
        table,
        columns,
        key,
        ..
    } = parameters;
    let names = quoted(columns.keys());
    let rows = format!("jsonb_populate_recordset(NULL::\"{table}\", $1::text::jsonb)");
    let insert = format!("INSERT INTO \"{table}\" ({names}) SELECT {names} FROM {rows}");
    if key.is_empty() {
        return insert;
    }
    let others = columns.keys().filter(|name| !key.contains(name));
    let others: Vec<String> = others
        .map(|name| format!("\"{name}\" = EXCLUDED.\"{name}\""))
        .collect();
    let then = match others.is_empty() {
        true => "NOTHING".to_owned(),
        false => format!("UPDATE SET {}", others.join(", ")),
    };
    format!("{insert} ON CONFLICT ({}) DO {then}", quoted(key.iter()))
}

#[async_trait]
impl Worker for ToPostgres {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], _: &mut Turn) -> Result<(), Failure> {
        let rows = self.rows(messages)?;
        let timeout = self.parameters.timeout.duration();
        let written = match tokio::time::timeout(timeout, self.write(&rows)).await {
            Ok(written) => written.map_err(|error| described(&error)),
            Err(_) => Err(told_nothing(timeout)),
        };
        written.map_err(|problem| {
            // Nobody knows what became of it, so the next attempt has a new one.
            self.connection = None;
            let table = &self.parameters.table;
            Failure::new(format!(
                "the table {table} in PostgreSQL cannot be written: {problem}"
            ))
        })
    }
}

fn told_nothing(timeout: Duration) -> String {
    format!(
        "the server did not answer within {timeout:?}; raise the parameter timeout, and call_ms_max of the stage with it"
    )
}

/// The error with its cause, which some of them keep to themselves.
fn described(error: &Error) -> String {
    if let Some(told) = error.as_db_error() {
        return format!(
            "the server says: {} ({})",
            told.message(),
            told.code().code()
        );
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl ToPostgres {
    /// The rows as a JSON list. Of those with the same key only the last: one statement cannot write a row twice.
    fn rows(&self, messages: &[Incoming]) -> Result<String, Failure> {
        let Parameters { columns, key, .. } = &self.parameters;
        let mut rows: Vec<BTreeMap<&str, Data>> = Vec::with_capacity(messages.len());
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for message in messages {
            let event = Event::of(message)?;
            let variables = variables(&event, message);
            let mut row = BTreeMap::new();
            for (name, column) in columns {
                row.insert(name.as_str(), column.evaluate(&variables)?);
            }
            if key.is_empty() {
                rows.push(row);
                continue;
            }
            let id: Vec<Option<&Data>> = key.iter().map(|name| row.get(name.as_str())).collect();
            match places.get(&serde_json::to_string(&id)?) {
                Some(place) => rows[*place] = row,
                None => {
                    places.insert(serde_json::to_string(&id)?, rows.len());
                    rows.push(row);
                }
            }
        }
        Ok(serde_json::to_string(&rows)?)
    }

    async fn write(&mut self, rows: &str) -> Result<(), Error> {
        let connection = match self.connection.take() {
            Some(connection) if !connection.client.is_closed() => connection,
            _ => self.connect().await?,
        };
        let Connection { client, insert, .. } = &connection;
        client.execute(insert, &[&rows]).await?;
        self.connection = Some(connection);
        Ok(())
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        let driver = tokio::spawn(connection);
        let insert = client.prepare(&self.insert).await?;
        Ok(Connection {
            client,
            insert,
            driver,
        })
    }
}
