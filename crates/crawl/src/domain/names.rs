//! Names of domains and hosts.

use std::collections::HashMap;

use url::Host;

use super::shown;
use crate::wrong::WrongParameter;

const NAMES_MAX: usize = 100_000;
const NAME_BYTES_MAX: usize = 300;

/// What a name in the list stands for.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    /// The host of this name, at any port unless the name has one.
    itself: bool,
    /// All hosts below it.
    below: bool,
    /// The host that is written exactly so.
    exactly: bool,
}

/// Names of domains and hosts; if there are none, they contain every host.
#[derive(Debug)]
pub(super) struct Names {
    names: HashMap<Box<str>, Covered>,
    texts: Vec<Box<str>>,
}

impl Names {
    pub fn new(field: &str, texts: &[String]) -> Result<Self, WrongParameter> {
        if texts.len() > NAMES_MAX {
            let reason = format!("has {} names, and may have {NAMES_MAX}", texts.len());
            return Err(WrongParameter::new(field, reason));
        }
        let mut names: HashMap<Box<str>, Covered> = HashMap::new();
        for (index, text) in texts.iter().enumerate() {
            let wrong = |reason| WrongParameter::new(format!("{field}[{index}]"), reason);
            let (name, covered) = understood(text.trim()).map_err(wrong)?;
            let known = names.entry(name.into()).or_default();
            known.itself |= covered.itself;
            known.below |= covered.below;
            known.exactly |= covered.exactly;
        }
        Ok(Self {
            names,
            texts: texts.iter().map(|text| text.as_str().into()).collect(),
        })
    }

    /// Whether this host, with its port if that is not the usual one, is among them.
    pub fn contain(&self, host: &str) -> bool {
        if self.names.is_empty() {
            return true;
        }
        let exactly = self.names.get(host).is_some_and(|covered| covered.exactly);
        let (name, port) = without_port(host);
        exactly
            || self.cover(name.strip_suffix('.').unwrap_or(name))
            || (port.is_some() && self.cover(host))
    }

    fn cover(&self, host: &str) -> bool {
        let covered = |name: &str| self.names.get(name).copied().unwrap_or_default();
        let dots = memchr::memchr_iter(b'.', host.as_bytes());
        covered(host).itself || dots.into_iter().any(|dot| covered(&host[dot + 1..]).below)
    }

    pub fn shown(&self) -> String {
        shown(&self.texts)
    }
}

fn understood(text: &str) -> Result<(String, Covered), String> {
    if text.len() > NAME_BYTES_MAX {
        return Err(format!("is longer than {NAME_BYTES_MAX} bytes"));
    }
    if let Some(host) = text.strip_prefix('=') {
        let exactly = Covered {
            exactly: true,
            ..Covered::default()
        };
        return Ok((written_as_hosts_are(host)?, exactly));
    }
    if let Some(name) = text.strip_prefix("*.") {
        let below = Covered {
            below: true,
            ..Covered::default()
        };
        return Ok((written_as_hosts_are(name)?, below));
    }
    let name = written_as_hosts_are(text)?;
    if is_public_suffix(without_port(&name).0) {
        return Err(format!(
            "`{name}` is shared by many owners: name the domain of one, or write `*.{name}` if all are meant"
        ));
    }
    let all = Covered {
        itself: true,
        below: true,
        ..Covered::default()
    };
    Ok((name, all))
}

/// A host as it stands in addresses: in lower case, in punycode, with the port if there is one.
fn written_as_hosts_are(text: &str) -> Result<String, String> {
    let (name, port) = without_port(text);
    let host = Host::parse(name).map_err(|_| {
        format!("`{text}` is no name of a domain: write `example.com`, `*.example.com` or `=www.example.com`")
    })?;
    let host = host.to_string();
    let host = host.strip_suffix('.').unwrap_or(&host);
    match port.map(str::parse::<u16>) {
        None => Ok(host.to_owned()),
        Some(Ok(port)) => Ok(format!("{host}:{port}")),
        Some(Err(_)) => Err(format!("`{text}` has a port that is no number up to 65535")),
    }
}

/// Splits `host:port`; the colons of `[::1]` separate no port.
fn without_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

fn is_public_suffix(name: &str) -> bool {
    let suffix = psl::suffix(name.as_bytes());
    suffix.is_some_and(|suffix| suffix.is_known() && suffix.as_bytes() == name.as_bytes())
}

/// The domain that was registered by the owner of this host, such as `example.co.uk` for `www.example.co.uk:8080`. A host that has none,
/// such as an IP address, is its own.
pub fn registrable_domain(host: &str) -> &str {
    let (name, _) = without_port(host);
    let is_number = name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
    match psl::domain_str(name) {
        Some(domain) if !is_number => domain,
        _ => name,
    }
}
