//! Why the edge refuses a request or cuts a connection off, and what it says to the client.

use std::time::SystemTime;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

/// After how many seconds a client who found no room should try again.
const RETRY_AFTER_SECONDS: &str = "1";
const CONTENT_TYPE: &str = "application/problem+json";

/// Why the edge refused a request or ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// There are as many connections as there may be.
    ConnectionsFull,
    /// There are as many connections from this address as there may be.
    AddressFull,
    /// There are as many requests under way as there may be.
    RequestsFull,
    /// The request breaks the rules of HTTP, or could be understood in two ways.
    Malformed,
    /// Another version than HTTP/1.1 and HTTP/1.0.
    VersionUnknown,
    /// A transfer coding besides `chunked`.
    CodingUnknown,
    /// The URI is too long.
    UriTooLong,
    /// The headers are too large or too many.
    HeadersTooLarge,
    /// The headers took too long.
    HeadersTooSlow,
    /// The body is too large.
    BodyTooLarge,
    /// The body took too long.
    BodyTooSlow,
    /// The client does not take its answer.
    ReaderTooSlow,
    /// The next request did not come in time. This is how connections usually end.
    Idle,
}

impl Refusal {
    /// All there are.
    pub const ALL: [Self; 13] = [
        Self::ConnectionsFull,
        Self::AddressFull,
        Self::RequestsFull,
        Self::Malformed,
        Self::VersionUnknown,
        Self::CodingUnknown,
        Self::UriTooLong,
        Self::HeadersTooLarge,
        Self::HeadersTooSlow,
        Self::BodyTooLarge,
        Self::BodyTooSlow,
        Self::ReaderTooSlow,
        Self::Idle,
    ];

    /// What it is called in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectionsFull => "connections-full",
            Self::AddressFull => "address-full",
            Self::RequestsFull => "requests-full",
            Self::Malformed => "malformed",
            Self::VersionUnknown => "version-unknown",
            Self::CodingUnknown => "coding-unknown",
            Self::UriTooLong => "uri-too-long",
            Self::HeadersTooLarge => "headers-too-large",
            Self::HeadersTooSlow => "headers-too-slow",
            Self::BodyTooLarge => "body-too-large",
            Self::BodyTooSlow => "body-too-slow",
            Self::ReaderTooSlow => "reader-too-slow",
            Self::Idle => "idle",
        }
    }

    /// What it says to the client in general: status, kind and title.
    fn says(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::ConnectionsFull | Self::AddressFull | Self::RequestsFull => {
                (StatusCode::SERVICE_UNAVAILABLE, "not-ready", "Not ready")
            }
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                "bad-request",
                "The request cannot be understood",
            ),
            Self::VersionUnknown => (
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                "version",
                "Not in this version of HTTP",
            ),
            Self::CodingUnknown => (
                StatusCode::NOT_IMPLEMENTED,
                "coding",
                "Not in this transfer coding",
            ),
            Self::UriTooLong => (StatusCode::URI_TOO_LONG, "too-large", "Too large"),
            Self::HeadersTooLarge => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "too-large",
                "Too large",
            ),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Too large"),
            Self::HeadersTooSlow | Self::BodyTooSlow | Self::ReaderTooSlow | Self::Idle => (
                StatusCode::REQUEST_TIMEOUT,
                "too-slow",
                "The request took too long",
            ),
        }
    }
}

/// A refusal with what is wrong in this case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub reason: Refusal,
    pub detail: &'static str,
}

/// A problem document (RFC 9457).
#[derive(Serialize)]
struct Problem {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: &'static str,
}

impl Refused {
    pub const fn new(reason: Refusal, detail: &'static str) -> Self {
        Self { reason, detail }
    }

    pub const fn malformed(detail: &'static str) -> Self {
        Self::new(Refusal::Malformed, detail)
    }

    /// The answer, for where a service would have given one.
    pub fn response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.document()));
        *response.status_mut() = self.reason.says().0;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if self.is_for_later() {
            let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
            headers.insert(header::RETRY_AFTER, seconds);
        }
        response
    }

    /// The answer as bytes, for where no request was understood. The connection ends with it.
    pub fn bytes(self) -> Vec<u8> {
        let document = self.document();
        let retry_after = match self.is_for_later() {
            true => format!("retry-after: {RETRY_AFTER_SECONDS}\r\n"),
            false => String::new(),
        };
        let mut bytes = format!(
            "HTTP/1.1 {}\r\ncontent-type: {CONTENT_TYPE}\r\n{retry_after}content-length: {}\r\nconnection: close\r\ndate: {}\r\n\r\n",
            self.reason.says().0,
            document.len(),
            httpdate::fmt_http_date(SystemTime::now()),
        )
        .into_bytes();
        bytes.extend_from_slice(&document);
        bytes
    }

    fn is_for_later(self) -> bool {
        self.reason.says().0 == StatusCode::SERVICE_UNAVAILABLE
    }

    fn document(self) -> Vec<u8> {
        let (status, kind, title) = self.reason.says();
        let problem = Problem {
            kind: format!("urn:hivewire:{kind}"),
            title,
            status: status.as_u16(),
            detail: self.detail,
        };
        serde_json::to_vec(&problem).expect("text and numbers can be written as JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_refusals_have_names_of_their_own_and_stand_in_order() {
        for (position, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, position);
            let same = Refusal::ALL
                .iter()
                .filter(|other| other.name() == refusal.name());
            assert_eq!(same.count(), 1, "{}", refusal.name());
        }
    }

    #[test]
    fn the_bytes_are_a_whole_answer() {
        let text = String::from_utf8(Refused::malformed("no").bytes()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
        assert!(!head.contains("retry-after"));
        assert_eq!(
            body,
            r#"{"type":"urn:hivewire:bad-request","title":"The request cannot be understood","status":400,"detail":"no"}"#
        );
    }

    #[test]
    fn who_finds_no_room_is_told_when_to_come_again() {
        let refused = Refused::new(Refusal::RequestsFull, "full");
        assert!(
            refused
                .response()
                .headers()
                .contains_key(header::RETRY_AFTER)
        );
        let text = String::from_utf8(refused.bytes()).unwrap();
        assert!(text.contains("\r\nretry-after: 1\r\n"), "{text}");
    }
}
