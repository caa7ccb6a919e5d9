//! Where a store is.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::StoreError;

/// Where a store is: a folder, or a PostgreSQL database. Shown, it has no password.
#[derive(Clone)]
pub enum Place {
    /// A folder with the file `crawl.db`.
    Folder(PathBuf),
    /// A database on a server.
    Postgres(Box<Server>),
}

/// A PostgreSQL database.
#[derive(Clone)]
pub struct Server {
    /// With the password.
    pub(super) config: Config,
    shown: String,
}

impl fmt::Display for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

const IS_POSTGRES: [&str; 2] = ["postgres://", "postgresql://"];

impl FromStr for Place {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        if IS_POSTGRES.iter().any(|scheme| text.starts_with(scheme)) {
            return server(text).map(|server| Self::Postgres(Box::new(server)));
        }
        if text.is_empty() {
            return Err(StoreError::NoPlace("nothing".to_owned(), "it is empty"));
        }
        if let Some((scheme, _)) = text.split_once("://") {
            // What follows may hold a password.
            let shown = format!("{scheme}://…");
            return Err(StoreError::NoPlace(
                shown,
                "stores of this kind are not known",
            ));
        }
        Ok(Self::Folder(PathBuf::from(text)))
    }
}

/// The address may hold a password, so no message repeats it.
fn server(text: &str) -> Result<Server, StoreError> {
    let wrong = |problem| StoreError::NoPlace("postgres://…".to_owned(), problem);
    let mut config: Config = text.parse().map_err(|_| {
        wrong("it cannot be understood; signs that mean something there need % codes")
    })?;
    if config.get_hosts().is_empty() {
        return Err(wrong("it names no host"));
    }
    if !config.get_hosts().iter().all(is_this_machine) {
        config.ssl_mode(SslMode::Require);
    }
    config.application_name("hivewire");
    let shown = shown(&config);
    Ok(Server { config, shown })
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

/// Built from the parts that may be seen, so that a password cannot slip through.
fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or("?");
    let database = config.get_dbname().unwrap_or(user);
    format!("postgres://{user}@{host}:{port}/{database}")
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(formatter),
            Self::Postgres(server) => server.fmt(formatter),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_seen() {
        let place: Place = "postgres://me:tell-nobody@db.example.com:5433/crawls"
            .parse()
            .unwrap();
        assert_eq!(
            place.to_string(),
            "postgres://me@db.example.com:5433/crawls"
        );
        assert!(!format!("{place:?}").contains("tell-nobody"));
        for wrong in [
            "postgres://me:tell-nobody@host:port/crawls",
            "postgres:///crawls?password=tell-nobody",
            "mysql://me:tell-nobody@host/crawls",
        ] {
            let error = wrong.parse::<Place>().unwrap_err();
            assert!(
                !format!("{error} {error:?}").contains("tell-nobody"),
                "{error}"
            );
        }
    }

    #[test]
    fn beyond_this_machine_the_connection_is_encrypted() {
        let mode = |text: &str| match text.parse().unwrap() {
            Place::Postgres(server) => server.config.get_ssl_mode(),
            Place::Folder(_) => panic!("{text} is no folder"),
        };
        assert_eq!(mode("postgres://me@db.example.com/a"), SslMode::Require);
        assert_eq!(
            mode("postgresql://me@db/a?sslmode=disable"),
            SslMode::Require
        );
        assert_eq!(
            mode("postgres://me@127.0.0.1/a?sslmode=disable"),
            SslMode::Disable
        );
    }

    #[test]
    fn anything_else_is_a_folder() {
        assert!(
            matches!("crawls/today".parse(), Ok(Place::Folder(folder)) if folder == *"crawls/today")
        );
        assert!("".parse::<Place>().is_err());
    }
}
