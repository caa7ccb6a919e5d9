//! Requests over HTTP that stages of a flow answer.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::period::Period;

/// How many routes a flow may have.
pub const ROUTES_MAX: usize = 1_000;

/// The methods that a route may have.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const PATH_BYTES_MAX: usize = 1_000;
const REPLY_MS: u64 = 5_000;
/// The longest time that a reply may be waited for.
const REPLY_MS_MAX: u64 = 300_000;
/// How many headers of a request a stage may get.
const HEADERS_MAX: usize = 32;

/// A route: requests with this method and path become events of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpRoute")]
pub struct HttpRoute {
    /// The method and the path: `POST /orders` or `GET /orders/{id}`. A part in braces stands for any one part of a path, and
    /// `{*rest}` at the end for all that follows.
    pub route: String,
    /// The stage of this flow that gets the requests.
    pub stage: String,
    /// Whether the reply of the stage is the answer. If not, the answer is 202 as soon as the event is taken in.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub reply: bool,
    /// How long the reply is waited for: five seconds if nothing is said, and at most five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
    /// Headers of the request that the stage gets as `http-header-NAME`, in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Which requests a route is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpPattern {
    /// The method.
    pub method: String,
    /// The path, with its parts in braces.
    pub path: String,
}

impl HttpPattern {
    /// Reads a method and a path, or says what is wrong with them.
    pub fn read(route: &str) -> Result<Self, String> {
        let usual = "write a method and a path, such as \"POST /orders\"";
        let Some((method, path)) = route.split_once(' ') else {
            return Err(format!("{route:?} is no route: {usual}"));
        };
        if !METHODS.contains(&method) {
            let methods = METHODS.join(", ");
            return Err(format!("{method:?} is no method: write one of {methods}"));
        }
        check_path(path)?;
        Ok(Self {
            method: method.to_owned(),
            path: path.to_owned(),
        })
    }
}

/// Parts of a path, by the names in braces for which they stand.
pub type OpenParts<'t> = Vec<(&'t str, &'t str)>;

/// What is to be done about requests, by their method and path.
#[derive(Clone, Debug)]
pub struct HttpTable<T> {
    by_method: BTreeMap<String, matchit::Router<T>>,
}

impl<T> Default for HttpTable<T> {
    fn default() -> Self {
        let by_method = BTreeMap::new();
        Self { by_method }
    }
}

impl<T> HttpTable<T> {
    /// Adds what is to be done about these requests. If something else is done about them, its path is told.
    pub fn insert(&mut self, pattern: &HttpPattern, what: T) -> Result<(), String> {
        let router = self.by_method.entry(pattern.method.clone()).or_default();
        router
            .insert(&pattern.path, what)
            .map_err(|error| match error {
                matchit::InsertError::Conflict { with } => with,
                other => other.to_string(),
            })
    }

    /// What is to be done about a request, with the parts of its path for which there are names. Who asks for the head alone
    /// gets that of the whole.
    pub fn find<'t>(&'t self, method: &str, path: &'t str) -> Option<(&'t T, OpenParts<'t>)> {
        let router = self.by_method.get(method);
        let found = router.and_then(|router| router.at(path).ok());
        match found {
            Some(found) => Some((found.value, found.params.iter().collect())),
            None if method == "HEAD" => self.find("GET", path),
            None => None,
        }
    }

    /// The methods for which something is done at this path.
    pub fn methods_at(&self, path: &str) -> Vec<&str> {
        let methods = self.by_method.keys().map(String::as_str);
        let mut methods: Vec<&str> = methods
            .filter(|method| self.find(method, path).is_some())
            .collect();
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        methods.sort_unstable();
        methods
    }
}

/// The name of a part in braces, and whether it stands for all that follows.
fn open_part(part: &str) -> Option<(&str, bool)> {
    let name = part.strip_prefix('{')?.strip_suffix('}')?;
    Some(match name.strip_prefix('*') {
        Some(name) => (name, true),
        None => (name, false),
    })
}

fn check_path(path: &str) -> Result<(), String> {
    let Some(parts) = path.strip_prefix('/') else {
        return Err(format!("{path:?} is no path: it begins with /"));
    };
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("a path has at most {PATH_BYTES_MAX} bytes"));
    }
    let mut names = BTreeSet::new();
    let mut parts = parts.split('/').peekable();
    while let Some(part) = parts.next() {
        let Some((name, is_rest)) = open_part(part) else {
            check_fixed(part)?;
            continue;
        };
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "{part} has no name that fits: use lower-case letters, digits, - and _"
            ));
        }
        if !names.insert(name) {
            return Err(format!("{name} stands twice in {path}: rename one of them"));
        }
        if is_rest && parts.peek().is_some() {
            return Err(format!("{part} stands for all that follows: put it last"));
        }
    }
    Ok(())
}

fn check_fixed(part: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_graphic() && !"{}?#\\\"<>^`|".contains(c);
    match part.chars().find(|c| !fits(*c)) {
        None => Ok(()),
        Some(c) => Err(format!(
            "{c:?} cannot stand in {part:?}: write it percent-encoded, and braces only around a whole part"
        )),
    }
}

impl HttpRoute {
    /// Which requests it is for, or what is wrong with that.
    pub fn pattern(&self) -> Result<HttpPattern, String> {
        HttpPattern::read(&self.route)
    }

    /// How long the reply is waited for.
    pub fn timeout_ms(&self) -> u64 {
        self.timeout.map_or(REPLY_MS, Period::as_millis)
    }

    /// What is wrong with the time, if anything.
    pub(super) fn wrong_timeout(&self) -> Option<String> {
        if self.timeout.is_some() && !self.reply {
            return Some("nothing is waited for: take it out, or write reply = true".to_owned());
        }
        let fits = (1..=REPLY_MS_MAX).contains(&self.timeout_ms());
        (!fits).then(|| "a reply is waited for between 1ms and 5m".to_owned())
    }

    /// What is wrong with a header, if anything, by its place in the list.
    pub(super) fn wrong_header(&self) -> Option<(usize, String)> {
        if self.headers.len() > HEADERS_MAX {
            let message = format!("a stage gets at most {HEADERS_MAX} headers of a request");
            return Some((HEADERS_MAX, message));
        }
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let wrong = |name: &String| name.is_empty() || !name.chars().all(is_name);
        let index = self.headers.iter().position(wrong)?;
        let name = &self.headers[index];
        let message = format!("{name:?} is no header: write its name in lower case");
        Some((index, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_or_refused_with_a_reason() {
        for route in [
            "GET /",
            "POST /orders",
            "GET /orders/{id}",
            "DELETE /orders/{id}/lines/{line-number}",
            "GET /files/{*rest}",
            "PUT /a%20b/c.d~e",
        ] {
            let pattern = HttpPattern::read(route).unwrap();
            assert_eq!(format!("{} {}", pattern.method, pattern.path), route);
        }
        for (route, reason) in [
            ("", "is no route"),
            ("/orders", "is no route"),
            ("post /orders", "is no method"),
            ("FETCH /orders", "is no method"),
            ("POST orders", "begins with /"),
            ("POST /orders?x=1", "cannot stand"),
            ("POST /or ders", "cannot stand"),
            ("POST /a{id}", "cannot stand"),
            ("POST /{Id}", "no name that fits"),
            ("POST /{}", "no name that fits"),
            ("POST /{id}/{id}", "stands twice"),
            ("POST /{*rest}/more", "put it last"),
        ] {
            let said = HttpPattern::read(route).unwrap_err();
            assert!(said.contains(reason), "{route}: {said}");
        }
    }

    #[test]
    fn requests_find_their_route() {
        let mut table = HttpTable::default();
        let mut insert = |route: &'static str| {
            let pattern = HttpPattern::read(route).unwrap();
            table.insert(&pattern, route)
        };
        for route in [
            "GET /",
            "GET /orders",
            "POST /orders",
            "GET /orders/{id}",
            "GET /orders/new",
            "GET /orders/{id}/lines/{line}",
            "GET /files/{*rest}",
        ] {
            assert_eq!(insert(route), Ok(()), "{route}");
        }
        assert_eq!(
            insert("GET /orders/{other}"),
            Err("/orders/{id}".to_owned())
        );
        assert_eq!(insert("GET /orders"), Err("/orders".to_owned()));
        assert_eq!(insert("PUT /orders/{other}"), Ok(()));
        for (method, path, route, open) in [
            ("GET", "/", "GET /", vec![]),
            ("POST", "/orders", "POST /orders", vec![]),
            ("GET", "/orders/7", "GET /orders/{id}", vec![("id", "7")]),
            ("GET", "/orders/new", "GET /orders/new", vec![]),
            (
                "GET",
                "/orders/7/lines/2",
                "GET /orders/{id}/lines/{line}",
                vec![("id", "7"), ("line", "2")],
            ),
            (
                "GET",
                "/files/a/b",
                "GET /files/{*rest}",
                vec![("rest", "a/b")],
            ),
            ("HEAD", "/orders/7", "GET /orders/{id}", vec![("id", "7")]),
        ] {
            let found = table.find(method, path).unwrap();
            assert_eq!((*found.0, found.1), (route, open), "{method} {path}");
        }
        for (method, path) in [
            ("DELETE", "/orders"),
            ("GET", "/order"),
            ("GET", "/orders/"),
        ] {
            assert!(table.find(method, path).is_none(), "{method} {path}");
        }
        assert_eq!(table.methods_at("/orders/7"), ["GET", "HEAD", "PUT"]);
        assert!(table.methods_at("/nowhere").is_empty());
    }
}
