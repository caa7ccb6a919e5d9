//! Where a fetcher may go. Pages of strangers decide what is fetched, so they must not lead it to machines behind the firewall.

use std::net::IpAddr;

use kernel::net::is_public;
use url::{Host, Url};

use super::error::FetchError;
use super::settings::FetchSettings;

/// Where a fetcher may go.
pub(super) struct Guard {
    allow_private: bool,
    private_allowed: Vec<IpAddr>,
    has_proxy: bool,
}

impl Guard {
    pub fn new(settings: &FetchSettings) -> Self {
        Self {
            allow_private: settings.allow_private,
            private_allowed: settings.private_allowed.clone(),
            has_proxy: settings.proxy.is_some(),
        }
    }

    /// Whether this address may be reached.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow_private || is_public(address) || self.private_allowed.contains(&address)
    }

    /// Whether this URL may be fetched, as far as it can be told without looking its name up.
    pub fn check(&self, url: &Url) -> Result<(), FetchError> {
        let wrong = |reason: &str| FetchError::Address {
            url: url.to_string(),
            reason: reason.to_owned(),
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("only http and https are fetched"));
        }
        let literal = match url.host() {
            None | Some(Host::Domain("")) => return Err(wrong("it names no host")),
            Some(Host::Domain(name)) => match self.has_proxy && !self.allow_private {
                // A proxy would look this up for itself and go where it is: to itself.
                true if is_this_machine(name) => Some(IpAddr::from([127, 0, 0, 1])),
                _ => None,
            },
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
        };
        match literal {
            Some(address) if !self.allows(address) => Err(FetchError::Private {
                host: url.host_str().unwrap_or_default().to_owned(),
                address,
            }),
            _ => Ok(()),
        }
    }

    /// Those of the addresses of a host that may be reached. There is at least one.
    pub fn allowed(&self, host: &str, found: &[IpAddr]) -> Result<Vec<IpAddr>, FetchError> {
        let allowed: Vec<_> = found
            .iter()
            .copied()
            .filter(|&ip| self.allows(ip))
            .collect();
        match (allowed.is_empty(), found.first()) {
            (false, _) => Ok(allowed),
            (true, Some(&address)) => Err(FetchError::Private {
                host: host.to_owned(),
                address,
            }),
            (true, None) => Err(FetchError::Name {
                host: host.to_owned(),
                reason: "nothing was found".to_owned(),
                is_passing: false,
            }),
        }
    }
}

fn is_this_machine(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::{FetchErrorKind, Proxy};

    fn kind(settings: &FetchSettings, url: &str) -> Option<FetchErrorKind> {
        let url = Url::parse(url).unwrap();
        let checked = Guard::new(settings).check(&url);
        checked.err().map(|error| error.kind())
    }

    #[test]
    fn addresses_of_this_machine_are_refused_however_they_are_written() {
        let usual = FetchSettings::default();
        for host in [
            "127.0.0.1",
            "[::1]",
            "2130706433",
            "0x7f.1",
            "017700000001",
            "127.1",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "0",
            "169.254.169.254",
            "１２７.0.0.1",
        ] {
            let url = format!("http://{host}/");
            assert_eq!(kind(&usual, &url), Some(FetchErrorKind::Private), "{host}");
            let all = FetchSettings {
                allow_private: true,
                ..usual.clone()
            };
            assert_eq!(kind(&all, &url), None, "{host}");
        }
        assert_eq!(kind(&usual, "http://93.184.216.34/"), None);
    }

    #[test]
    fn only_http_is_fetched() {
        let usual = FetchSettings::default();
        for url in [
            "file:///etc/passwd",
            "ftp://example.com/",
            "data:,x",
            "gopher://a/",
        ] {
            assert_eq!(kind(&usual, url), Some(FetchErrorKind::Address), "{url}");
        }
    }

    #[test]
    fn single_addresses_can_be_allowed() {
        let settings = FetchSettings {
            private_allowed: vec!["10.0.0.7".parse().unwrap()],
            ..FetchSettings::default()
        };
        assert_eq!(kind(&settings, "http://10.0.0.7/"), None);
        assert_eq!(
            kind(&settings, "http://10.0.0.8/"),
            Some(FetchErrorKind::Private)
        );
    }

    #[test]
    fn a_proxy_is_not_asked_for_itself() {
        let mut settings = FetchSettings::default();
        assert_eq!(
            kind(&settings, "http://localhost/"),
            None,
            "found when it is looked up"
        );
        settings.proxy = Some(Proxy::new("http://proxy.example.com"));
        for url in [
            "http://localhost/",
            "http://a.localhost./",
            "http://127.0.0.1/",
        ] {
            assert_eq!(kind(&settings, url), Some(FetchErrorKind::Private), "{url}");
        }
    }

    #[test]
    fn only_public_addresses_of_a_name_are_used() {
        let guard = Guard::new(&FetchSettings::default());
        let public: IpAddr = "1.1.1.1".parse().unwrap();
        let private: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(guard.allowed("a", &[private, public]).unwrap(), [public]);
        let kind = |found: &[IpAddr]| guard.allowed("a", found).unwrap_err().kind();
        assert_eq!(kind(&[private]), FetchErrorKind::Private);
        assert_eq!(kind(&[]), FetchErrorKind::Name);
    }
}
