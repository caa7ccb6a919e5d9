//! From a request to an event, and from a reply to an answer.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use kernel::{HeadersBuilder, Message};
use percent_encoding::percent_decode_str;

use super::table::FlowRoute;
use crate::rest::Problem;

/// What a body holds, in messages.
const CONTENT_TYPE: &str = "content-type";
const METHOD: &str = "http-method";
const PATH: &str = "http-path";
const QUERY: &str = "http-query";
/// Parts of the path that have names.
const PARAMETER_PREFIX: &str = "http-param-";
/// Headers of requests and of answers.
const HEADER_PREFIX: &str = "http-header-";
/// The status of an answer.
const STATUS: &str = "http-status";
/// What a reply says nothing about goes as bytes.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// What only the server itself says.
const OWN_HEADERS: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The event that a stage gets.
pub(super) fn message_of(
    route: &FlowRoute,
    parts: &Parts,
    open: &[(&str, &str)],
    body: Bytes,
) -> Result<Message, Problem> {
    let mut headers = HeadersBuilder::default();
    let mut note = |name: &str, value: &str| {
        let noted = headers.push(name, value);
        noted.map_err(|error| Problem::bad_request(error.to_string()))
    };
    note(METHOD, parts.method.as_str())?;
    note(PATH, &decoded(parts.uri.path())?)?;
    if let Some(query) = parts.uri.query() {
        note(QUERY, query)?;
    }
    for (name, value) in open {
        note(&format!("{PARAMETER_PREFIX}{name}"), &decoded(value)?)?;
    }
    if let Some(kind) = text_of(&parts.headers, &header::CONTENT_TYPE) {
        note(CONTENT_TYPE, &kind)?;
    }
    for name in &route.headers {
        if let Some(value) = text_of(&parts.headers, name) {
            note(&format!("{HEADER_PREFIX}{name}"), &value)?;
        }
    }
    Ok(Message::new(body).with_headers(headers.build()))
}

/// What is percent-encoded stands for bytes, which have to be text.
fn decoded(text: &str) -> Result<String, Problem> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| Problem::bad_request("the path is no text in UTF-8"))?;
    Ok(decoded.into_owned())
}

/// A header that may be there several times, as one text.
fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let values: Vec<_> = headers
        .get_all(name)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    (!values.is_empty()).then(|| String::from_utf8_lossy(&values.join(&b", "[..])).into_owned())
}

/// The answer that a reply stands for.
pub(super) fn answer_of(route: &FlowRoute, method: &Method, reply: Message) -> Response {
    let wrong = |what: String| {
        let stage = &route.stage;
        tracing::warn!(%stage, what, "a reply is no answer to a request");
        Problem::gave_no_answer(format!("{stage} replied with {what}")).into_response()
    };
    let mut headers = HeaderMap::new();
    let mut status = StatusCode::OK;
    for (name, value) in reply.headers.iter() {
        match name {
            STATUS => match status_of(value) {
                Some(given) => status = given,
                None => {
                    return wrong(format!(
                        "the {STATUS} {value:?}, which is none of 200 to 599"
                    ));
                }
            },
            CONTENT_TYPE => match HeaderValue::from_str(value) {
                Ok(value) => {
                    headers.insert(header::CONTENT_TYPE, value);
                }
                Err(_) => return wrong(format!("the {CONTENT_TYPE} {value:?}")),
            },
            name => {
                let Some(name) = name.strip_prefix(HEADER_PREFIX) else {
                    continue;
                };
                let header = (HeaderName::try_from(name), HeaderValue::from_str(value));
                let (Ok(name), Ok(value)) = header else {
                    return wrong(format!("the header {name:?}, which HTTP cannot carry"));
                };
                if OWN_HEADERS.contains(&name) {
                    return wrong(format!("the header {name}, which is not its own to say"));
                }
                headers.append(name, value);
            }
        }
    }
    if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        headers.remove(header::CONTENT_TYPE);
        return (status, headers).into_response();
    }
    if !headers.contains_key(header::CONTENT_TYPE) && !reply.body.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(UNKNOWN_TYPE));
    }
    // Whatever the stage holds about it, a browser must not guess what the body is.
    let nosniff = HeaderValue::from_static("nosniff");
    headers
        .entry(header::X_CONTENT_TYPE_OPTIONS)
        .or_insert(nosniff);
    match *method == Method::HEAD {
        true => {
            headers.insert(header::CONTENT_LENGTH, reply.body.len().into());
            (status, headers, Body::empty()).into_response()
        }
        false => (status, headers, reply.body).into_response(),
    }
}

fn status_of(text: &str) -> Option<StatusCode> {
    let status: u16 = text.parse().ok()?;
    let is_final = (200..600).contains(&status);
    StatusCode::from_u16(status).ok().filter(|_| is_final)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use flows::document::Document;
    use kernel::Headers;

    use super::super::table::Table;
    use super::*;

    const FLOW: &str = "
        flow = 'shop'
        [stages.orders]
        plugin = 'p'
        [[http]]
        route = 'PUT /orders/{id}/{*rest}'
        stage = 'orders'
        headers = ['accept']
    ";

    fn table() -> Table {
        let document = Document::parse(FLOW).unwrap().document;
        Table::of(std::iter::once(&document), &Table::default())
    }

    fn event(request: Request<()>) -> Result<Message, Problem> {
        let table = table();
        let (parts, ()) = request.into_parts();
        let (route, open) = table.find("PUT", parts.uri.path()).unwrap();
        message_of(route, &parts, &open, Bytes::from_static(b"body"))
    }

    #[test]
    fn an_event_says_all_of_the_request_that_it_may() {
        let request = Request::put("/orders/a%20b/x/y?q=%20&q=2");
        let request = request.header("content-type", "text/plain");
        let request = request
            .header("accept", "text/html")
            .header("accept", "*/*");
        let event = event(request.header("cookie", "secret").body(()).unwrap()).unwrap();
        let headers: Vec<(&str, &str)> = event.headers.iter().collect();
        let expected = [
            ("http-method", "PUT"),
            ("http-path", "/orders/a b/x/y"),
            ("http-query", "q=%20&q=2"),
            ("http-param-id", "a b"),
            ("http-param-rest", "x/y"),
            ("content-type", "text/plain"),
            ("http-header-accept", "text/html, */*"),
        ];
        assert_eq!(headers, expected);
        assert_eq!(&*event.body, b"body");
        assert!(self::event(Request::put("/orders/%ff/x").body(()).unwrap()).is_err());
    }

    fn answer(method: &Method, headers: &[(&str, &str)], body: &'static str) -> Response {
        let table = table();
        let headers = Headers::from_pairs(headers.iter().copied()).unwrap();
        let reply = Message::new(body).with_headers(headers);
        answer_of(&table.routes[0].route, method, reply)
    }

    #[test]
    fn a_reply_says_what_the_answer_is() {
        let said = [
            ("http-status", "201"),
            ("content-type", "text/plain"),
            ("http-header-location", "/orders/7"),
            ("flow", "is not for others"),
        ];
        let answer = answer(&Method::PUT, &said, "made");
        assert_eq!(answer.status(), StatusCode::CREATED);
        let headers = answer.headers();
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(headers["location"], "/orders/7");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers.len(), 3);
        let head = self::answer(&Method::HEAD, &[], "made");
        assert_eq!(head.headers()["content-length"], "4");
        assert_eq!(head.headers()["content-type"], UNKNOWN_TYPE);
        let empty = self::answer(
            &Method::PUT,
            &[("http-status", "204"), ("content-type", "a/b")],
            "",
        );
        assert_eq!(empty.status(), StatusCode::NO_CONTENT);
        assert!(empty.headers().is_empty());
    }

    #[test]
    fn what_is_no_answer_is_502() {
        for (name, value) in [
            ("http-status", "99"),
            ("http-status", "100"),
            ("http-status", "600"),
            ("http-status", "fine"),
            ("content-type", "a\nb"),
            ("http-header-a b", "x"),
            ("http-header-x", "a\nb"),
            ("http-header-content-length", "5"),
            ("http-header-Transfer-Encoding", "chunked"),
        ] {
            let answer = answer(&Method::PUT, &[(name, value)], "x");
            assert_eq!(answer.status(), StatusCode::BAD_GATEWAY, "{name}: {value}");
        }
    }
}
