//! Where the server is, and how it is talked to.

use std::net::IpAddr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::schema::is_schema_name;
use crate::error::BusError;
use crate::tls;

/// How long nothing may come back for what was sent before the connection counts as lost.
const UNANSWERED_MAX: Duration = Duration::from_secs(10);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

const SCHEMA_DEFAULT: &str = "hivewire";

/// A checked address.
pub(super) struct Address {
    pub config: Config,
    pub tls: MakeRustlsConnect,
    pub schema: String,
}

impl Address {
    /// Checks an address. It may hold a password, so no error repeats it.
    pub fn parse(text: &str) -> Result<Self, BusError> {
        let mut own = Own::default();
        let rest = own.take_from(text)?;
        let parsed = rest.parse::<Config>();
        let mut config = parsed.map_err(|_| refused(FORM))?;
        if config.get_hosts().is_empty() {
            return Err(refused(FORM));
        }
        if !own.has_ssl_mode {
            let is_near = config.get_hosts().iter().all(is_on_this_machine);
            config.ssl_mode(if is_near {
                SslMode::Disable
            } else {
                SslMode::Require
            });
        }
        config
            .application_name("hivewire")
            // Of several servers only the one that takes writes serves.
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(UNANSWERED_MAX)
            .tcp_user_timeout(UNANSWERED_MAX)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL);
        Ok(Self {
            config,
            tls: MakeRustlsConnect::new(tls::trusting(own.root_certificates.as_deref())?),
            schema: own.schema.unwrap_or_else(|| SCHEMA_DEFAULT.to_owned()),
        })
    }
}

const FORM: &str = "the address of the shared store must be like postgres://user:password@host:5432/database?schema=hivewire&sslmode=require&sslrootcert=/path";

/// Parts of the address that only we understand.
#[derive(Default)]
struct Own {
    schema: Option<String>,
    root_certificates: Option<String>,
    has_ssl_mode: bool,
}

impl Own {
    /// Takes our parts out of an address; gives the others.
    fn take_from(&mut self, text: &str) -> Result<String, BusError> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(refused(FORM));
        }
        let Some((start, query)) = text.split_once('?') else {
            return Ok(text.to_owned());
        };
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("schema", name)) if is_schema_name(name) => {
                    self.schema = Some(name.to_owned());
                }
                Some(("schema", _)) => {
                    return Err(refused(
                        "the schema of the shared store must be named with at most 63 small letters, digits and underscores",
                    ));
                }
                Some(("sslrootcert", path)) => self.root_certificates = Some(path.to_owned()),
                other => {
                    self.has_ssl_mode |= other.is_some_and(|(name, _)| name == "sslmode");
                    others.push(pair);
                }
            }
        }
        Ok(match others.is_empty() {
            true => start.to_owned(),
            false => format!("{start}?{}", others.join("&")),
        })
    }
}

fn is_on_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

fn refused(reason: &str) -> BusError {
    BusError::Refused {
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_never_repeated() {
        for wrong in [
            "",
            "host=localhost password=secret",
            "postgres://user:secret@localhost/x?schema=A",
            "postgres://user:secret@localhost/x?nonsense=1",
            "postgres://user:secret@localhost:port/x",
            "postgres://user:secret@localhost/x?sslrootcert=/no/such/file",
        ] {
            let error = Address::parse(wrong).err().unwrap();
            assert!(!error.can_retry());
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_this_machine_is_talked_to_without_tls_unless_told() {
        let mode = |text: &str| Address::parse(text).unwrap().config.get_ssl_mode();
        assert_eq!(mode("postgres://u@127.0.0.1/x"), SslMode::Disable);
        assert_eq!(mode("postgres://u@localhost/x?schema=a"), SslMode::Disable);
        assert_eq!(mode("postgres://u@db.example/x"), SslMode::Require);
        assert_eq!(mode("postgres://u@localhost,db/x"), SslMode::Require);
        let told = "postgres://u@db.example/x?sslmode=disable&schema=a_1";
        assert_eq!(mode(told), SslMode::Disable);
        assert_eq!(Address::parse(told).unwrap().schema, "a_1");
        let plain = Address::parse("postgresql://u@localhost/x").unwrap();
        assert_eq!(plain.schema, "hivewire");
    }
}
