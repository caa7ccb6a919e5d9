//! What is asked for, and what a fetch brought.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use url::Url;

/// Says whether a redirect may be followed to there; if not, why.
pub type RedirectCheck = Arc<dyn Fn(&Url) -> Result<(), String> + Send + Sync>;

/// What is asked for.
#[derive(Clone)]
pub struct FetchRequest {
    /// What.
    pub url: Url,
    /// The version that is known already, as the server called it. If it is still the same, the answer has the status 304.
    pub etag: Option<String>,
    /// When the version that is known was made, as the server said.
    pub last_modified: Option<String>,
    /// The page that leads there, for the server.
    pub referer: Option<Url>,
    /// Is asked before each redirect.
    pub redirect_check: Option<RedirectCheck>,
}

impl FetchRequest {
    /// Asks for this.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            etag: None,
            last_modified: None,
            referer: None,
            redirect_check: None,
        }
    }
}

/// A redirect that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Who redirected.
    pub from: Url,
    /// With which status.
    pub status: u16,
}

/// Which HTTP it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0
    One0,
    /// HTTP/1.1
    One1,
    /// HTTP/2
    Two,
}

impl HttpVersion {
    /// Its usual name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::One0 => "HTTP/1.0",
            Self::One1 => "HTTP/1.1",
            Self::Two => "HTTP/2",
        }
    }

    pub(super) fn of(version: hyper::Version) -> Self {
        match version {
            hyper::Version::HTTP_10 | hyper::Version::HTTP_09 => Self::One0,
            hyper::Version::HTTP_2 => Self::Two,
            _ => Self::One1,
        }
    }
}

/// How long what took. All of it is about the last step, but for the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Finding the address, connecting and agreeing on encryption; none if a connection was there.
    pub connect: Option<Duration>,
    /// From the request to the head of the answer.
    pub first_byte: Duration,
    /// Everything, redirects included.
    pub whole: Duration,
}

/// What a fetch brought.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The status of the answer.
    pub status: u16,
    /// Where it came from in the end.
    pub final_url: Url,
    /// The redirects on the way there.
    pub redirects: Vec<Redirect>,
    /// The headers, names in lower case.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Bytes,
    /// What the server says the body is, in lower case, such as `text/html`.
    pub mime: Option<String>,
    /// How the server says the text is encoded, in lower case.
    pub charset: Option<String>,
    /// What the server says about when to come back, as it says it.
    pub retry_after: Option<String>,
    /// How long what took.
    pub timings: Timings,
    /// Where the connection led: the server, or the proxy.
    pub remote: SocketAddr,
    /// How many bytes the body had as it came, before it was decompressed.
    pub wire_bytes: usize,
    /// Which HTTP it was.
    pub version: HttpVersion,
}

/// The type of a body and its encoding, from `content-type`.
pub(super) fn content_type(headers: &HeaderMap) -> (Option<String>, Option<String>) {
    let Some(text) = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
    else {
        return (None, None);
    };
    let mut parts = text.split(';');
    let mime = parts
        .next()
        .map(str::trim)
        .filter(|mime| mime.contains('/'));
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']);
        (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then_some(value)
    });
    (
        mime.map(str::to_ascii_lowercase),
        charset.map(str::to_ascii_lowercase),
    )
}

/// When to come back, as the server says it.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_body_is_read_however_it_is_written() {
        let cases = [
            ("text/html", Some("text/html"), None),
            ("Text/HTML; Charset=UTF-8", Some("text/html"), Some("utf-8")),
            (
                "text/xml;a=b; charset=\"latin1\"",
                Some("text/xml"),
                Some("latin1"),
            ),
            ("; charset=x", None, Some("x")),
            ("html", None, None),
            ("text/html; charset=", Some("text/html"), None),
        ];
        for (text, mime, charset) in cases {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, text.parse().unwrap())]);
            let read = content_type(&headers);
            assert_eq!(
                (read.0.as_deref(), read.1.as_deref()),
                (mime, charset),
                "{text}"
            );
        }
    }
}
