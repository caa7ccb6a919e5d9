//! Notices by HTTP: a POST of JSON.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use url::{Host, Url};

use super::delivery::{Carrier, CarryError};
use super::error::AlertError;
use super::letter::Letter;
use super::settings::WebhookSettings;
use crate::secret::Secret;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a server says about a refusal is shown, up to so many characters.
const ANSWER_CHARACTERS_MAX: usize = 200;
const ANSWER_BYTES_MAX: u64 = 16 << 10;
pub(super) const TIMEOUT_SECONDS_MAX: u64 = 30;

/// Posts to one address.
pub(super) struct Webhook {
    agent: Agent,
    url: Url,
    bearer: Option<Secret>,
    timeout: Duration,
}

impl Webhook {
    /// A webhook as it was set.
    pub fn new(settings: &WebhookSettings) -> Result<Self, AlertError> {
        let url = Url::parse(&settings.url);
        let shown = url.as_ref().map_or_else(|_| "(no address)".into(), origin);
        let wrong = |problem: String| AlertError::Webhook {
            shown: shown.clone(),
            problem,
        };
        let url = url.map_err(|error| wrong(format!("has an address that is none: {error}")))?;
        check(&url, settings.bearer.is_some()).map_err(|problem| wrong(problem.to_owned()))?;
        if !(1..=TIMEOUT_SECONDS_MAX).contains(&settings.timeout_seconds) {
            return Err(wrong(format!(
                "needs `timeout_seconds` between 1 and {TIMEOUT_SECONDS_MAX}"
            )));
        }
        let roots = match &settings.authority {
            Some(path) => Some(authorities(path).map_err(wrong)?),
            None => None,
        };
        Ok(Self {
            agent: agent(roots),
            url,
            bearer: settings.bearer.clone(),
            timeout: Duration::from_secs(settings.timeout_seconds),
        })
    }

    /// Where it leads. The path is left out: with many services it is the secret.
    pub fn shown(&self) -> String {
        format!("webhook {}", origin(&self.url))
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn check(url: &Url, has_secret: bool) -> Result<(), &'static str> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a name or password: say `bearer` instead");
    }
    if has_secret && url.scheme() == "http" && !is_this_machine(url) {
        return Err("would send `bearer` unencrypted to another machine: use https");
    }
    Ok(())
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// The certificates in a file.
fn authorities(path: &Path) -> Result<RootCerts, String> {
    let pem = std::fs::read(path)
        .map_err(|error| format!("has an `authority` that cannot be read: {error}"))?;
    let mut certificates: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(format!("has an `authority` that is no PEM: {error}")),
        }
    }
    match certificates.is_empty() {
        true => Err("has an `authority` without a certificate".to_owned()),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}

fn agent(roots: Option<RootCerts>) -> Agent {
    let mut tls = TlsConfig::builder();
    if let Some(roots) = roots {
        tls = tls.root_certs(roots);
    }
    Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .http_status_as_error(false)
        // What was set is what is told: the secret follows no redirect and passes no proxy.
        .max_redirects(0)
        .proxy(None)
        // Notices are rare, and a kept connection would have died meanwhile.
        .max_idle_connections(0)
        .tls_config(tls.build())
        .user_agent(concat!("hivewire/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

impl Carrier for Webhook {
    fn carry(&self, letter: &Letter) -> Result<(), CarryError> {
        let mut request = self
            .agent
            .post(self.url.as_str())
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", &letter.key);
        if let Some(bearer) = &self.bearer {
            request = request.header("Authorization", format!("Bearer {}", bearer.reveal()));
        }
        let answer = request
            .config()
            .timeout_global(Some(self.timeout))
            .build()
            .send(letter.body.as_str());
        let mut answer = answer.map_err(|error| CarryError {
            reason: error.to_string(),
            is_final: false,
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let said = body.read_to_vec().unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let said: String = said
            .chars()
            .filter(|character| !character.is_control())
            .take(ANSWER_CHARACTERS_MAX)
            .collect();
        Err(CarryError {
            reason: format!("it answered {} {said}", status.as_u16())
                .trim_end()
                .to_owned(),
            is_final: is_final(status.as_u16()),
        })
    }
}

/// Whether the same request would be answered in the same way.
fn is_final(status: u16) -> bool {
    (300..500).contains(&status) && !matches!(status, 408 | 425 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(url: &str, bearer: Option<&str>) -> Result<String, String> {
        let settings = WebhookSettings {
            bearer: bearer.map(Secret::new),
            ..WebhookSettings::at(url)
        };
        let made = Webhook::new(&settings);
        made.map(|webhook| webhook.shown())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn only_addresses_that_keep_secrets_are_taken() {
        for url in [
            "http://127.0.0.1:1/a",
            "http://[::1]/a",
            "http://localhost/",
            "https://example.org/secret",
        ] {
            let shown = made(url, Some("hush")).unwrap();
            assert!(
                !shown.contains("secret") && !shown.contains("hush"),
                "{shown}"
            );
        }
        assert!(made("http://example.org/", None).is_ok());
        for (url, expected) in [
            ("http://example.org/", "use https"),
            ("ftp://example.org/", "must begin with http"),
            ("https://a:hush@example.org/", "name or password"),
            ("hush", "is none"),
        ] {
            let error = made(url, Some("x")).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn what_would_happen_again_is_not_tried_again() {
        for status in [301, 400, 401, 404, 410, 413] {
            assert!(is_final(status), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert!(!is_final(status), "{status}");
        }
    }
}
