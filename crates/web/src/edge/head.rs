//! Looks at the head of a request before hyper sees it.
//!
//! It is parsed by the parser that hyper uses, so that both agree where it ends. Then come the rules
//! that hyper does not enforce: whatever another server on the way could understand in another way is
//! refused, because requests are smuggled through such differences.

use std::mem::MaybeUninit;

use axum::http::Uri;
use httparse::{Error, Header, Request, Status};

use super::limits::EdgeLimits;
use super::refusal::{Refusal, Refused};

const HEADERS_MOST: usize = 100;
/// Clients of old send an empty line after a body. More than two are no mistake any more.
const BLANK_BYTES_MAX: usize = 4;
/// Room for the method and the version beside the URI.
const LINE_BYTES_BESIDE_URI: usize = 64;

/// What was found at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A head that may pass.
    Head(Head),
    /// The beginning of one.
    Part,
    /// Something that may not pass.
    Refused(Refused),
}

/// What must be known of a head to find the end of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub bytes: usize,
    pub body: BodyLength,
    /// The connection may become something else after this request.
    pub may_switch: bool,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    Bytes(u64),
    /// It comes in chunks that say it.
    Chunks,
}

/// Looks for a head at the beginning of these bytes.
pub(super) fn find(bytes: &[u8], limits: &EdgeLimits) -> Found {
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADERS_MOST];
    let mut request = Request::new(&mut []);
    let headers = &mut headers[..limits.headers_max];
    let length = match request.parse_with_uninit_headers(bytes, headers) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return part(bytes, limits),
        Err(error) => return Found::Refused(refused(error, bytes)),
    };
    match check(&request, &bytes[..length], limits) {
        Ok((body, may_switch)) => Found::Head(Head {
            bytes: length,
            body,
            may_switch,
        }),
        Err(refused) => Found::Refused(refused),
    }
}

/// Whether what has come so far may still become a head.
pub(super) fn part(bytes: &[u8], limits: &EdgeLimits) -> Found {
    match check_size(bytes, limits) {
        Ok(()) => Found::Part,
        Err(refused) => Found::Refused(refused),
    }
}

fn check_size(bytes: &[u8], limits: &EdgeLimits) -> Result<(), Refused> {
    let blank = bytes
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'));
    if blank.take(BLANK_BYTES_MAX + 1).count() > BLANK_BYTES_MAX {
        return Err(Refused::malformed(
            "there are empty lines before the request",
        ));
    }
    let line_bytes_max = limits.uri_bytes_max + LINE_BYTES_BESIDE_URI;
    if bytes.len() > line_bytes_max.min(limits.header_bytes_max) {
        let line = memchr::memchr(b'\n', bytes.get(BLANK_BYTES_MAX..).unwrap_or_default());
        if line.unwrap_or(bytes.len()) > line_bytes_max {
            return Err(URI_TOO_LONG);
        }
    }
    match bytes.len() > limits.header_bytes_max {
        true => Err(Refused::new(
            Refusal::HeadersTooLarge,
            "the headers together are larger than this server takes",
        )),
        false => Ok(()),
    }
}

const URI_TOO_LONG: Refused = Refused::new(
    Refusal::UriTooLong,
    "the URI is longer than this server takes",
);

/// What the parser found, in our words.
fn refused(error: Error, bytes: &[u8]) -> Refused {
    match error {
        Error::TooManyHeaders => Refused::new(
            Refusal::HeadersTooLarge,
            "there are more headers than this server takes",
        ),
        Error::Version if names_a_version(bytes) => Refused::new(
            Refusal::VersionUnknown,
            "this server speaks HTTP/1.1 and HTTP/1.0",
        ),
        Error::HeaderName => {
            Refused::malformed("the name of a header has a character that none may have")
        }
        Error::HeaderValue => {
            Refused::malformed("the value of a header has a character that none may have")
        }
        Error::NewLine => Refused::malformed("a line does not end with CR LF"),
        _ => Refused::malformed("the first line is not a method, a URI and a version of HTTP"),
    }
}

/// Whether the third word of the first line is a version of HTTP, if not one of ours.
fn names_a_version(bytes: &[u8]) -> bool {
    let line = bytes
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let version = line.split(|byte| *byte == b' ').nth(2).unwrap_or_default();
    version
        .strip_prefix(b"HTTP/")
        .is_some_and(|number| number.first().is_some_and(u8::is_ascii_digit))
}

/// Checks a whole head, and says how long the body is and whether the connection may switch.
fn check(
    request: &Request<'_, '_>,
    head: &[u8],
    limits: &EdgeLimits,
) -> Result<(BodyLength, bool), Refused> {
    check_size(head, limits)?;
    check_line_ends(head)?;
    let uri = request.path.unwrap_or_default();
    if uri.len() > limits.uri_bytes_max {
        return Err(URI_TOO_LONG);
    }
    check_uri(uri)?;
    let is_newest = request.version == Some(1);
    let mut framing = Framing::default();
    let mut may_switch = request.method == Some("CONNECT");
    for header in request.headers.iter() {
        framing.look(header)?;
        may_switch |= is_newest && header.name.eq_ignore_ascii_case("upgrade");
    }
    let body = framing.body(is_newest, limits)?;
    Ok((body, may_switch))
}

/// The parser also takes lines that end with LF alone; other servers may not see an end there.
fn check_line_ends(head: &[u8]) -> Result<(), Refused> {
    for at in memchr::memchr_iter(b'\n', head) {
        if at == 0 || head[at - 1] != b'\r' {
            return Err(Refused::malformed("a line does not end with CR LF"));
        }
    }
    Ok(())
}

/// Characters that may stand anywhere in a path and its query.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let characters =
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/?&=%:@!$'()*+,;";
    let mut at = 0;
    while at < characters.len() {
        plain[characters[at] as usize] = true;
        at += 1;
    }
    plain
};

/// Refuses what hyper would refuse, so that it is answered with a reason.
fn check_uri(uri: &str) -> Result<(), Refused> {
    let bytes = uri.as_bytes();
    let is_plain = bytes.first() == Some(&b'/') && bytes.iter().all(|byte| PLAIN[*byte as usize]);
    if is_plain || Uri::try_from(uri).is_ok() {
        return Ok(());
    }
    Err(Refused::malformed(
        "the URI has a character or a form that none may have",
    ))
}

/// What the headers say about where the request ends, and to whom it goes.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    host: bool,
}

impl Framing {
    fn look(&mut self, header: &Header<'_>) -> Result<(), Refused> {
        // Most headers have a name of another length, so that they are not compared.
        match header.name.len() {
            4 if header.name.eq_ignore_ascii_case("host") => {
                let is_second = std::mem::replace(&mut self.host, true);
                return match is_second {
                    true => Err(Refused::malformed("there are several Host headers")),
                    false => Ok(()),
                };
            }
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let length = number(header.value)?;
                if self.length.replace(length).is_some() {
                    return Err(Refused::malformed(
                        "there are several Content-Length headers",
                    ));
                }
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                self.look_at_coding(header.value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn look_at_coding(&mut self, value: &[u8]) -> Result<(), Refused> {
        if std::mem::replace(&mut self.chunked, true) {
            return Err(Refused::malformed(
                "there are several Transfer-Encoding headers",
            ));
        }
        let mut codings = value.rsplit(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let last = codings.next().unwrap_or_default();
        if !last.eq_ignore_ascii_case(b"chunked") {
            return Err(Refused::malformed(
                "the last Transfer-Encoding of a request must be chunked",
            ));
        }
        let mut others = codings.filter(|coding| !coding.is_empty());
        match others.next() {
            None => Ok(()),
            Some(_) => Err(Refused::new(
                Refusal::CodingUnknown,
                "this server knows no Transfer-Encoding but chunked",
            )),
        }
    }

    fn body(self, is_newest: bool, limits: &EdgeLimits) -> Result<BodyLength, Refused> {
        if is_newest && !self.host {
            return Err(Refused::malformed("there is no Host header"));
        }
        match (self.length, self.chunked) {
            (Some(_), true) => Err(Refused::malformed(
                "there are a Content-Length and a Transfer-Encoding",
            )),
            (None, true) if !is_newest => {
                Err(Refused::malformed("HTTP/1.0 has no Transfer-Encoding"))
            }
            (None, true) => Ok(BodyLength::Chunks),
            (Some(length), false) if length > limits.body_bytes_max => Err(BODY_TOO_LARGE),
            (length, false) => Ok(BodyLength::Bytes(length.unwrap_or(0))),
        }
    }
}

/// A body that says or shows that it is longer than bodies may be.
pub(super) const BODY_TOO_LARGE: Refused = Refused::new(
    Refusal::BodyTooLarge,
    "the body is larger than this server takes",
);

/// Digits and nothing else: other servers may read a sign, a list or a blank in another way.
fn number(value: &[u8]) -> Result<u64, Refused> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Refused::malformed("the Content-Length is not a number"));
    }
    let digit = |sum: u64, byte: &u8| sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'));
    value.iter().try_fold(0, digit).ok_or(BODY_TOO_LARGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> EdgeLimits {
        EdgeLimits {
            header_bytes_max: 400,
            headers_max: 5,
            uri_bytes_max: 100,
            body_bytes_max: 1_000,
            ..EdgeLimits::default()
        }
    }

    /// What comes of a request with these lines.
    fn look(lines: &str) -> Found {
        find(lines.replace('\n', "\r\n").as_bytes(), &limits())
    }

    fn reason(lines: &str) -> Refusal {
        match look(lines) {
            Found::Refused(refused) => refused.reason,
            other => panic!("{lines:?} gave {other:?}"),
        }
    }

    fn body(lines: &str) -> BodyLength {
        match look(lines) {
            Found::Head(head) => head.body,
            other => panic!("{lines:?} gave {other:?}"),
        }
    }

    #[test]
    fn a_head_says_where_it_ends_and_how_long_its_body_is() {
        let bytes = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET";
        let head = Head {
            bytes: 48,
            body: BodyLength::Bytes(5),
            may_switch: false,
        };
        assert_eq!(find(bytes, &limits()), Found::Head(head));
        assert_eq!(body("GET / HTTP/1.1\nHost: a\n\n"), BodyLength::Bytes(0));
        assert_eq!(body("GET / HTTP/1.0\n\n"), BodyLength::Bytes(0));
        let chunked = "POST / HTTP/1.1\nhost: a\nTRANSFER-ENCODING: Chunked\n\n";
        assert_eq!(body(chunked), BodyLength::Chunks);
        assert_eq!(look("GET / HTTP/1.1\nHost: a\n"), Found::Part);
    }

    #[test]
    fn what_could_be_understood_in_two_ways_is_refused() {
        let with = |headers: &str| format!("POST / HTTP/1.1\nHost: a\n{headers}\n\n");
        let headers = [
            "Content-Length: 5\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\nContent-Length: 5",
            "Content-Length: 5\nContent-Length: 6",
            "Content-Length: 5\nContent-Length: 5",
            "Content-Length: 5, 5",
            "Content-Length: +5",
            "Content-Length: -5",
            "Content-Length: 0x5",
            "Content-Length: 5 5",
            "Content-Length:",
            "Content-Length : 5",
            "Transfer-Encoding: chunked\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: identity",
            "Transfer-Encoding:",
            "Transfer-Encoding : chunked",
            "Host: b",
            "X: folded\n over two lines",
            "X: a\rb",
            "X: a\0b",
            "X\x0b: a",
            ": a",
            "no colon",
        ];
        for header in headers {
            assert_eq!(reason(&with(header)), Refusal::Malformed, "{header:?}");
        }
        // The control: without what is wrong, the same request passes.
        assert_eq!(body(&with("Content-Length: 5")), BodyLength::Bytes(5));
        assert_eq!(body(&with("X: a b")), BodyLength::Bytes(0));
    }

    #[test]
    fn first_lines_that_are_none_are_refused() {
        for line in [
            "GET /",
            "GET  / HTTP/1.1",
            "G@T / HTTP/1.1",
            "GET /\x7f HTTP/1.1",
            "\x16\x03\x01",
        ] {
            let lines = format!("{line}\nHost: a\n\n");
            assert_eq!(reason(&lines), Refusal::Malformed, "{line:?}");
        }
        assert_eq!(reason("GET / HTTP/1.1\n\n"), Refusal::Malformed);
        assert_eq!(
            reason("GET /a HTTP/3.0\nHost: a\n\n"),
            Refusal::VersionUnknown
        );
        assert_eq!(reason("PRI * HTTP/2.0\n\nSM\n\n"), Refusal::VersionUnknown);
        assert_eq!(
            reason("POST / HTTP/1.0\nTransfer-Encoding: chunked\n\n"),
            Refusal::Malformed
        );
    }

    #[test]
    fn lines_must_end_with_both_characters() {
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert!(matches!(find(whole, &limits()), Found::Head(_)));
        for bytes in [
            &b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        ] {
            let found = find(bytes, &limits());
            assert!(
                matches!(found, Found::Refused(refused) if refused.reason == Refusal::Malformed),
                "{found:?}"
            );
        }
    }

    #[test]
    fn other_codings_are_not_known() {
        let lines = "POST / HTTP/1.1\nHost: a\nTransfer-Encoding: gzip, chunked\n\n";
        assert_eq!(reason(lines), Refusal::CodingUnknown);
    }

    #[test]
    fn sizes_are_limited_as_soon_as_they_show() {
        let long = "a".repeat(101);
        let whole = format!("GET /{long} HTTP/1.1\nHost: a\n\n");
        assert_eq!(reason(&whole), Refusal::UriTooLong);
        let endless = format!("GET /{}", "a".repeat(200));
        assert_eq!(reason(&endless), Refusal::UriTooLong);
        let wide = format!("GET / HTTP/1.1\nHost: a\nX: {}", "a".repeat(400));
        assert_eq!(reason(&wide), Refusal::HeadersTooLarge);
        let many = format!("GET / HTTP/1.1\nHost: a\n{}\n", "X: a\n".repeat(5));
        assert_eq!(reason(&many), Refusal::HeadersTooLarge);
        let blank = "\n\n\nGET / HTTP/1.1\nHost: a\n\n";
        assert_eq!(reason(blank), Refusal::Malformed);
        // The controls are just below.
        assert_eq!(
            body(&format!("GET /{} HTTP/1.1\nHost: a\n\n", "a".repeat(99))),
            BodyLength::Bytes(0)
        );
        assert_eq!(
            body(&format!(
                "GET / HTTP/1.1\nHost: a\n{}\n",
                "X: a\n".repeat(4)
            )),
            BodyLength::Bytes(0)
        );
        assert_eq!(
            body("\n\nGET / HTTP/1.1\nHost: a\n\n"),
            BodyLength::Bytes(0)
        );
    }

    #[test]
    fn a_body_that_says_that_it_is_too_large_is_refused_before_it_comes() {
        let with = |length: &str| format!("POST / HTTP/1.1\nHost: a\nContent-Length: {length}\n\n");
        assert_eq!(reason(&with("1001")), Refusal::BodyTooLarge);
        assert_eq!(
            reason(&with("99999999999999999999999")),
            Refusal::BodyTooLarge
        );
        assert_eq!(body(&with("1000")), BodyLength::Bytes(1_000));
    }

    #[test]
    fn a_connection_may_switch_only_where_the_request_says_so() {
        let switches = |lines: &str| match look(lines) {
            Found::Head(head) => head.may_switch,
            other => panic!("{other:?}"),
        };
        assert!(switches("GET / HTTP/1.1\nHost: a\nUpgrade: websocket\n\n"));
        assert!(switches("CONNECT a:80 HTTP/1.1\nHost: a\n\n"));
        assert!(!switches("GET / HTTP/1.1\nHost: a\n\n"));
        assert!(!switches("GET / HTTP/1.0\nUpgrade: websocket\n\n"));
    }

    /// hyper takes whatever passes here, so it never answers by itself.
    #[test]
    fn a_uri_is_taken_or_refused_as_hyper_would() {
        for byte in 0x21..=0x7e_u8 {
            let uri = format!("/a{}b", char::from(byte));
            assert_eq!(
                check_uri(&uri).is_ok(),
                Uri::try_from(&uri).is_ok(),
                "{uri}"
            );
        }
        assert!(check_uri("*").is_ok());
        assert!(check_uri("http://a/b").is_ok());
        assert!(check_uri("http://").is_err());
    }
}
