//! Cookies: each site has a jar of its own, so that no site can leave anything for another one.

use std::collections::HashMap;

use cookie_store::{CookieStore, StoreAction};
use hyper::header::{HeaderMap, SET_COOKIE};
use parking_lot::Mutex;
use url::{Host, Url};

/// So many sites have a jar.
const SITES_MAX: usize = 10_000;
/// So many cookies are in a jar.
const COOKIES_PER_SITE_MAX: usize = 50;
/// The longest cookie.
const COOKIE_BYTES_MAX: usize = 4 << 10;

/// The jars of all sites.
#[derive(Default)]
pub(super) struct Jars(Mutex<HashMap<Box<str>, CookieStore>>);

impl Jars {
    /// The value of the header `cookie` for this URL.
    pub fn header(&self, url: &Url) -> Option<String> {
        let jars = self.0.lock();
        let jar = jars.get(site(url))?;
        let mut text = String::new();
        for (name, value) in jar.get_request_values(url) {
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(name);
            text.push('=');
            text.push_str(value);
        }
        (!text.is_empty()).then_some(text)
    }

    /// Keeps what a server sets; says whether it was anything.
    pub fn keep(&self, url: &Url, headers: &HeaderMap) -> bool {
        if !headers.contains_key(SET_COOKIE) {
            return false;
        }
        let mut jars = self.0.lock();
        let site = site(url);
        if !jars.contains_key(site) {
            if jars.len() >= SITES_MAX {
                // Sites come again or not: nobody knows which, so any half goes.
                let mut is_kept = false;
                jars.retain(|_, _| {
                    is_kept = !is_kept;
                    is_kept
                });
            }
            jars.insert(site.into(), CookieStore::default());
        }
        let Some(jar) = jars.get_mut(site) else {
            return false;
        };
        let mut is_changed = false;
        for value in headers.get_all(SET_COOKIE) {
            let Ok(text) = value.to_str() else { continue };
            let is_full = jar.iter_any().count() >= COOKIES_PER_SITE_MAX;
            if text.len() > COOKIE_BYTES_MAX || is_full {
                continue;
            }
            let action = jar.parse(text, url);
            is_changed |= matches!(
                action,
                Ok(StoreAction::Inserted | StoreAction::UpdatedExisting)
            );
        }
        is_changed
    }
}

/// Whose jar it is: that of the domain that somebody registered, so that its parts can share cookies.
fn site(url: &Url) -> &str {
    match url.host() {
        Some(Host::Domain(name)) => psl::domain_str(name).unwrap_or(name),
        _ => url.host_str().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn set(jars: &Jars, at: &str, cookie: &str) -> bool {
        let headers = HeaderMap::from_iter([(SET_COOKIE, cookie.parse().unwrap())]);
        jars.keep(&url(at), &headers)
    }

    #[test]
    fn cookies_come_back_to_their_site_and_to_no_other() {
        let jars = Jars::default();
        assert!(set(
            &jars,
            "https://www.example.co.uk/",
            "a=1; Domain=example.co.uk"
        ));
        assert!(set(&jars, "https://www.example.co.uk/", "b=2; Path=/deep"));
        assert!(!set(
            &jars,
            "https://www.example.co.uk/",
            "c=3; Domain=other.co.uk"
        ));
        let of = |at: &str| jars.header(&url(at));
        assert_eq!(of("https://www.example.co.uk/").as_deref(), Some("a=1"));
        assert_eq!(of("https://shop.example.co.uk/").as_deref(), Some("a=1"));
        assert_eq!(
            of("https://shop.example.co.uk/deep").as_deref(),
            Some("a=1")
        );
        let both = of("https://www.example.co.uk/deep").unwrap();
        assert!(both == "a=1; b=2" || both == "b=2; a=1", "{both}");
        // Even a cookie for everything below co.uk stays with whoever set it.
        set(&jars, "https://evil.co.uk/", "d=4; Domain=co.uk");
        assert_eq!(of("https://www.example.co.uk/").as_deref(), Some("a=1"));
    }

    #[test]
    fn a_site_cannot_fill_the_memory() {
        let jars = Jars::default();
        for number in 0..1_000 {
            set(&jars, "http://example.com/", &format!("c{number}=1"));
        }
        let header = jars.header(&url("http://example.com/")).unwrap();
        assert_eq!(header.split("; ").count(), COOKIES_PER_SITE_MAX);
        let long = format!("long={}", "x".repeat(COOKIE_BYTES_MAX));
        assert!(!set(&jars, "http://other.com/", &long));
        for number in 0..SITES_MAX + 10 {
            set(&jars, &format!("http://site{number}.com/"), "a=1");
        }
        assert!(jars.0.lock().len() <= SITES_MAX);
    }
}
