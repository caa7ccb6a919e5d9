//! Who may ask. Web pages can reach loopback, so everything but `/health` and the files of the studio, which
//! tell nothing, needs a token; and every request must name us in Host (else a page could rebind its own name to our address)
//! and, if it comes from a page, come from one of ours.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

use super::app::App;
use super::problem::Problem;
use super::studio;

const HTTP_PORT: u16 = 80;
/// Where a WebSocket may begin.
const SOCKET_PATHS: [&str; 2] = ["/api/v1/events", "/api/v1/live"];
/// How the protocol begins that carries the token, percent-encoded. It is never the one that is chosen.
const TOKEN_PROTOCOL: &str = "hivewire.token.";

/// The names under which we may be addressed.
#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    bound: SocketAddr,
    /// Lower-case, with or without a port.
    configured: Vec<String>,
}

impl AllowedHosts {
    pub fn new(bound: SocketAddr, configured: &[String]) -> Self {
        let configured = configured.iter().map(|host| host.to_lowercase()).collect();
        Self { bound, configured }
    }

    fn is_configured(&self, host: &str) -> bool {
        let (name, _) = split_port(host);
        self.configured.iter().any(|c| c == host || c == name)
    }

    pub fn allows(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        if self.is_configured(&host) {
            return true;
        }
        let (name, port) = split_port(&host);
        if port != Some(self.bound.port()) {
            return false;
        }
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            // No page can make its own name an address, so addresses are safe from rebinding.
            Ok(ip) => ip.is_loopback() || ip == self.bound.ip() || self.bound.ip().is_unspecified(),
            Err(_) => name == "localhost",
        }
    }

    pub fn allows_origin(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_lowercase();
        let host = host.to_lowercase();
        let from = |scheme: &str| origin.strip_prefix(scheme) == Some(host.as_str());
        // A configured name may be that of a proxy that adds TLS.
        from("http://") || (from("https://") && self.is_configured(&host))
    }
}

/// Splits `name:port`; without a port it is that of HTTP. `None`: the port is no number.
fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
        _ => (host, Some(HTTP_PORT)),
    }
}

/// Lets a request through, or says why not.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    app.counters.requests.inc();
    let mut response = match refusal(&app, &request) {
        None => next.run(request).await,
        Some(problem) => {
            app.counters.refused.inc();
            problem.into_response()
        }
    };
    let headers = response.headers_mut();
    for (name, value) in SAFETY_HEADERS {
        // The studio says itself what it may do and how long it is kept.
        let default = HeaderValue::from_static(value);
        headers.entry(name).or_insert(default);
    }
    response
}

const SAFETY_HEADERS: [(header::HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
];

fn refusal(app: &App, request: &Request) -> Option<Problem> {
    let headers = request.headers();
    let Some(host) = single(headers, header::HOST) else {
        return Some(Problem::bad_request("exactly one Host header is needed"));
    };
    let authority = request.uri().authority().map(|a| a.as_str());
    if !app.hosts.allows(host) || authority.is_some_and(|a| !app.hosts.allows(a)) {
        return Some(Problem::forbidden(
            "the Host header does not name this node: use its address, or add the name to `http.hosts`",
        ));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = single(headers, header::ORIGIN);
        if !origin.is_some_and(|origin| app.hosts.allows_origin(origin, host)) {
            return Some(Problem::forbidden(
                "the request comes from a web page of another origin",
            ));
        }
    }
    let uri = request.uri();
    let is_open = uri.path() == "/health" || studio::is_open(request.method(), uri);
    let may_ask = is_open || has_token(app, request);
    (!may_ask).then(Problem::unauthorized)
}

fn single(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// Whether a request carries the token.
pub(super) fn has_token(app: &App, request: &Request) -> bool {
    if let Some(given) = bearer(request.headers()) {
        return app.token.is(given.as_bytes());
    }
    if SOCKET_PATHS.contains(&request.uri().path())
        && let Some(given) = token_of_protocols(request.headers())
    {
        return app.token.is(&given);
    }
    false
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = single(headers, header::AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token among the protocols that are offered for a WebSocket: a browser can set no other header.
fn token_of_protocols(headers: &HeaderMap) -> Option<Vec<u8>> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut offered = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let token = offered.find_map(|protocol| protocol.trim().strip_prefix(TOKEN_PROTOCOL))?;
    Some(percent_decode_str(token).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_hosts() {
        let loopback =
            AllowedHosts::new("127.0.0.1:8000".parse().unwrap(), &["Hive.Example".into()]);
        for host in [
            "127.0.0.1:8000",
            "localhost:8000",
            "LOCALHOST:8000",
            "[::1]:8000",
            "hive.example",
            "hive.example:443",
        ] {
            assert!(loopback.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.example:8000",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:8001",
            "10.0.0.1:8000",
            "localhost.evil.example:8000",
            "127.0.0.1:8000:8000",
            "hive.example.evil",
        ] {
            assert!(!loopback.allows(host), "{host}");
        }
        let wide = AllowedHosts::new("0.0.0.0:80".parse().unwrap(), &[]);
        assert!(
            wide.allows("10.0.0.1") && wide.allows("localhost") && !wide.allows("evil.example")
        );
    }

    #[test]
    fn only_our_own_pages_are_origins() {
        let hosts = AllowedHosts::new("127.0.0.1:8000".parse().unwrap(), &["hive.example".into()]);
        assert!(hosts.allows_origin("http://localhost:8000", "localhost:8000"));
        assert!(hosts.allows_origin("https://hive.example", "hive.example"));
        for origin in [
            "null",
            "",
            "http://localhost",
            "https://localhost:8000",
            "http://evil.example",
            "http://127.0.0.1:8000",
        ] {
            assert!(!hosts.allows_origin(origin, "localhost:8000"), "{origin}");
        }
    }
}
