//! What a fetcher keeps to.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// The least that hyper can keep to.
const HEADER_BYTES_LEAST: usize = 8 << 10;

/// What a fetcher keeps to: limits of size, time and number, who it says it is, and where it may go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FetchSettings {
    /// Who asks. The first word is what robots.txt files call it.
    pub user_agent: String,
    /// How people reach whoever runs this, such as a web page or an e-mail address. It is put behind the user agent.
    pub contact: Option<String>,
    /// What kinds of documents are wanted.
    pub accept: String,
    /// What languages are wanted.
    pub accept_language: Option<String>,
    /// Further headers of every request.
    pub headers: BTreeMap<String, String>,
    /// The longest body, as it is after decompression.
    pub body_bytes_max: usize,
    /// The longest body, as it comes.
    pub wire_bytes_max: usize,
    /// How many times its size a body may grow when it is decompressed, once it is larger than a mebibyte.
    pub decoded_ratio_max: usize,
    /// The longest head of an answer; at least 8192.
    pub header_bytes_max: usize,
    /// How long finding the address, connecting and agreeing on encryption may take.
    pub connect_timeout_ms: u64,
    /// How long the server may take until the head of its answer has come.
    pub first_byte_timeout_ms: u64,
    /// How long there may be nothing between two parts of a body.
    pub between_bytes_timeout_ms: u64,
    /// How long all of it may take, redirects included.
    pub whole_timeout_ms: u64,
    /// How many redirects are followed. With 0, an answer that redirects is given as it is.
    pub redirects_max: usize,
    /// How many connections there may be, and how many requests under way.
    pub connections_max: usize,
    /// How many connections there may be to one host. With HTTP/2 there is one, for many requests.
    pub connections_per_host_max: usize,
    /// How many connections to one host are kept open when they are not needed.
    pub idle_per_host_max: usize,
    /// How long a connection is kept open when it is not needed.
    pub idle_timeout_ms: u64,
    /// How long the addresses of a name are remembered.
    pub names_kept_ms: u64,
    /// How many names are remembered with their addresses.
    pub names_max: usize,
    /// Whether HTTP/2 is spoken with servers that offer it.
    pub http2: bool,
    /// The proxy that all requests go through, such as `http://proxy.example.com:3128`. It looks names up itself, so only addresses that
    /// stand in URLs are checked here.
    pub proxy: Option<Proxy>,
    /// Whether addresses that do not belong to the public internet may be reached.
    pub allow_private: bool,
    /// Addresses that may be reached although they do not belong to the public internet.
    pub private_allowed: Vec<IpAddr>,
    /// Whether certificates must be valid. Without it anybody in between can read and change pages.
    pub verify_certificates: bool,
    /// Certificates of authorities that are trusted besides the usual ones, as PEM.
    pub certificates_trusted: Vec<String>,
    /// Whether cookies are kept.
    pub cookies: Cookies,
}

/// Whether cookies are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cookies {
    /// They are not.
    #[default]
    Off,
    /// Those of each site are kept in memory and sent back to it.
    PerSite,
}

/// The address of a proxy. What it is asked with is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Proxy(String);

impl Proxy {
    /// The proxy at this URL, which may hold a name and a password.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    pub(super) fn url(&self) -> Result<Url, SettingsError> {
        let wrong = |reason: &str| SettingsError::new("proxy", reason);
        let url = Url::parse(&self.0).map_err(|error| wrong(&error.to_string()))?;
        match url.scheme() == "http" && url.has_host() {
            true => Ok(url),
            false => Err(wrong(
                "write a URL such as http://proxy.example.com:3128; other schemes are not supported",
            )),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.url() {
            Ok(url) => write!(f, "Proxy({})", host_and_port(&url)),
            Err(_) => f.write_str("Proxy(unreadable)"),
        }
    }
}

/// The host of a URL, with the port where it is not the usual one.
pub(super) fn host_and_port(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}

/// What is wrong with settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SettingsError {
    /// Which of them.
    pub field: &'static str,
    /// What is wrong with it, and what to do.
    pub reason: String,
}

impl SettingsError {
    pub(super) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self {
            field,
            reason: reason.into(),
        }
    }
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            user_agent: "HivewireBot/0.1".to_owned(),
            contact: None,
            accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8".to_owned(),
            accept_language: None,
            headers: BTreeMap::new(),
            body_bytes_max: 10 << 20,
            wire_bytes_max: 10 << 20,
            decoded_ratio_max: 200,
            header_bytes_max: 64 << 10,
            connect_timeout_ms: 10_000,
            first_byte_timeout_ms: 20_000,
            between_bytes_timeout_ms: 10_000,
            whole_timeout_ms: 30_000,
            redirects_max: 5,
            connections_max: 256,
            connections_per_host_max: 32,
            idle_per_host_max: 32,
            idle_timeout_ms: 30_000,
            names_kept_ms: 300_000,
            names_max: 10_000,
            http2: true,
            proxy: None,
            allow_private: false,
            private_allowed: Vec::new(),
            verify_certificates: true,
            certificates_trusted: Vec::new(),
            cookies: Cookies::Off,
        }
    }
}

impl FetchSettings {
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), SettingsError> {
        let at_least_one = [
            ("body_bytes_max", self.body_bytes_max),
            ("wire_bytes_max", self.wire_bytes_max),
            ("decoded_ratio_max", self.decoded_ratio_max),
            ("connections_max", self.connections_max),
            ("connections_per_host_max", self.connections_per_host_max),
            ("names_max", self.names_max),
        ];
        for (field, value) in at_least_one {
            if value == 0 {
                return Err(SettingsError::new(field, "it has to be at least 1"));
            }
        }
        let times = [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("first_byte_timeout_ms", self.first_byte_timeout_ms),
            ("between_bytes_timeout_ms", self.between_bytes_timeout_ms),
            ("whole_timeout_ms", self.whole_timeout_ms),
            ("idle_timeout_ms", self.idle_timeout_ms),
        ];
        for (field, ms) in times {
            if !(1..=86_400_000).contains(&ms) {
                let reason = "it has to be between a millisecond and a day";
                return Err(SettingsError::new(field, reason));
            }
        }
        if self.header_bytes_max < HEADER_BYTES_LEAST {
            let reason = format!("it has to be at least {HEADER_BYTES_LEAST}");
            return Err(SettingsError::new("header_bytes_max", reason));
        }
        super::head::Prepared::new(self)?;
        super::tls::config(self)?;
        self.proxy
            .as_ref()
            .map_or(Ok(()), |proxy| proxy.url().map(drop))
    }

    /// What it says it is.
    pub fn full_user_agent(&self) -> String {
        match &self.contact {
            Some(contact) => format!("{} (+{contact})", self.user_agent),
            None => self.user_agent.clone(),
        }
    }

    pub(super) fn idle_timeout(&self) -> Duration {
        Duration::from_millis(self.idle_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_settings_are_right_and_wrong_ones_are_named() {
        let usual = FetchSettings::default();
        usual.check().unwrap();
        assert_eq!(usual.full_user_agent(), "HivewireBot/0.1");
        type Change = fn(&mut FetchSettings);
        let wrong: [(&str, Change); 6] = [
            ("body_bytes_max", |s| s.body_bytes_max = 0),
            ("header_bytes_max", |s| s.header_bytes_max = 100),
            ("whole_timeout_ms", |s| s.whole_timeout_ms = 0),
            ("user_agent", |s| s.user_agent = "a\nb".to_owned()),
            ("certificates_trusted", |s| {
                s.certificates_trusted = vec!["no certificate".to_owned()];
            }),
            ("proxy", |s| {
                s.proxy = Some(Proxy::new("socks5://127.0.0.1:1"));
            }),
        ];
        for (field, change) in wrong {
            let mut settings = usual.clone();
            change(&mut settings);
            assert_eq!(settings.check().unwrap_err().field, field);
        }
    }

    #[test]
    fn a_password_of_a_proxy_is_not_shown() {
        let proxy = Proxy::new("http://name:planted@proxy.example.com:3128");
        assert_eq!(format!("{proxy:?}"), "Proxy(proxy.example.com:3128)");
    }

    #[test]
    fn settings_are_read_with_their_usual_values() {
        let settings: FetchSettings =
            serde_json::from_str(r#"{"contact": "crawl@example.com", "cookies": "per-site"}"#)
                .unwrap();
        assert_eq!(
            settings.full_user_agent(),
            "HivewireBot/0.1 (+crawl@example.com)"
        );
        assert_eq!(settings.cookies, Cookies::PerSite);
        assert_eq!(settings.redirects_max, 5);
    }
}
