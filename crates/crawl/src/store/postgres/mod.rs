//! A store on a PostgreSQL server.

mod read;
mod schema;
mod write;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore, crypto};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(super) use read::Reader;
pub(super) use write::Writer;

use super::StoreError;
use super::place::Server;

/// A connection, which ends with this.
struct Connection {
    client: Client,
    driver: JoinHandle<Result<(), Error>>,
    place: String,
    timeout: Duration,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    async fn open(server: &Server, timeout: Duration) -> Result<Self, StoreError> {
        let place = server.to_string();
        let tls = tls().map_err(|problem| StoreError::Unusable {
            place: place.clone(),
            problem,
        })?;
        let connecting = server.config.connect(tls);
        let (client, driver) = within(&place, timeout, connecting).await?;
        Ok(Self {
            client,
            driver: tokio::spawn(driver),
            place,
            timeout,
        })
    }
}

/// What the server answers, if it does so in time.
async fn within<T>(
    place: &str,
    timeout: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(answer) => answer.map_err(|error| StoreError::Unusable {
            place: place.to_owned(),
            problem: described(&error),
        }),
        Err(_) => Err(StoreError::Slow {
            place: place.to_owned(),
            ms: timeout.as_millis(),
        }),
    }
}

/// The error with its cause, which some of them keep to themselves.
fn described(error: &Error) -> String {
    if let Some(told) = error.as_db_error() {
        let (message, code) = (told.message(), told.code().code());
        return format!("the server says: {message} ({code})");
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Encryption with those trusted whom browsers trust.
fn tls() -> Result<MakeRustlsConnect, String> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let provider = Arc::new(crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("encryption cannot be used: {error}"))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// What tells URLs apart: an index takes no texts as long as some URLs are.
fn key(url: &str) -> [u8; 16] {
    xxhash_rust::xxh3::xxh3_128(url.as_bytes()).to_be_bytes()
}
