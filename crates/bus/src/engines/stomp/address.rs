//! Where the server is and how it wants to be spoken to, from one address.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use tokio_rustls::rustls::ClientConfig;
use url::Url;

use super::dialect::{self, Dialect};
use crate::error::BusError;
use crate::tls;

const PLAIN_PORT: u16 = 61_613;
const TLS_PORT: u16 = 61_614;

/// An address that was understood.
pub(super) struct Address {
    pub host: String,
    pub port: u16,
    /// How to encrypt, if at all.
    pub tls: Option<Arc<ClientConfig>>,
    pub login: Option<String>,
    pub passcode: String,
    pub virtual_host: String,
    /// The dialect, if it is not left to the server to say.
    pub dialect: Option<&'static dyn Dialect>,
}

impl Address {
    /// Reads `stomp://user:password@host:port/virtual-host?ca=FILE&dialect=NAME`.
    pub fn parse(text: &str) -> Result<Self, BusError> {
        // The text may hold a password, so it is never repeated.
        let url = Url::parse(text)
            .map_err(|error| refused(&format!("it cannot be understood ({error})")))?;
        let encrypted = match url.scheme() {
            "stomp" => false,
            "stomp+ssl" => true,
            _ => return Err(refused("it must begin with stomp:// or stomp+ssl://")),
        };
        let mut authority = None;
        let mut dialect = None;
        for (name, value) in url.query_pairs() {
            match &*name {
                "ca" => authority = Some(value.into_owned()),
                "dialect" => dialect = Some(find_dialect(&value)?),
                other => {
                    let what = format!("`{other}` is not known: there are `ca` and `dialect`");
                    return Err(refused(&what));
                }
            }
        }
        // Whoever names an authority wants to know whom he speaks to.
        let tls = match encrypted || authority.is_some() {
            true => Some(Arc::new(tls::trusting(authority.as_deref())?)),
            false => None,
        };
        let host = url.host_str().unwrap_or_default();
        if host.is_empty() {
            return Err(refused("it names no host"));
        }
        let default_port = if tls.is_some() { TLS_PORT } else { PLAIN_PORT };
        let login = decoded(url.username())?;
        let virtual_host = match url.path() {
            "" | "/" => "/".to_owned(),
            path => decoded(&path[1..])?,
        };
        Ok(Self {
            // An IPv6 address stands in brackets only where a port follows.
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(default_port),
            tls,
            login: (!login.is_empty()).then_some(login),
            passcode: decoded(url.password().unwrap_or_default())?,
            virtual_host,
            dialect,
        })
    }
}

fn decoded(text: &str) -> Result<String, BusError> {
    let decoded = percent_decode_str(text).decode_utf8().map(Cow::into_owned);
    decoded.map_err(|_| refused("a part of it is not UTF-8"))
}

fn find_dialect(name: &str) -> Result<&'static dyn Dialect, BusError> {
    dialect::named(name).ok_or_else(|| {
        let names = dialect::names();
        refused(&format!("`{name}` is no dialect: there are {names}"))
    })
}

fn refused(what: &str) -> BusError {
    BusError::Refused {
        reason: format!("the STOMP address does not serve: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_read() {
        let address = Address::parse("stomp://us%40er:p%3Ass@example:99/v?dialect=rabbitmq");
        let address = address.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((address.host.as_str(), address.port), ("example", 99));
        assert_eq!(address.login.as_deref(), Some("us@er"));
        assert_eq!(address.passcode, "p:ss");
        assert_eq!(address.virtual_host, "v");
        assert_eq!(address.dialect.map(|d| d.name()), Some("rabbitmq"));
        assert!(address.tls.is_none());

        let address = Address::parse("stomp://[::1]").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((address.host.as_str(), address.port), ("::1", PLAIN_PORT));
        assert_eq!(address.virtual_host, "/");
        assert!(address.login.is_none() && address.dialect.is_none());

        let address = Address::parse("stomp+ssl://h").unwrap_or_else(|error| panic!("{error}"));
        assert!(address.tls.is_some());
        assert_eq!(address.port, TLS_PORT);
    }

    #[test]
    fn wrong_ones_are_refused_and_never_repeated() {
        for wrong in [
            "http://user:secret@host",
            "stomp://user:secret@host?dialect=artemis",
            "stomp://user:secret@host?colour=red",
            "stomp://user:secret@host?ca=/no/such/file",
            "secret",
        ] {
            let error = Address::parse(wrong).map(|_| ()).unwrap_err();
            assert!(!error.can_retry());
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
