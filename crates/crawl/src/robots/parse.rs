//! From bytes to lines that mean something.

use std::time::Duration;

use super::{CRAWL_DELAY_MAX, ROBOTS_BYTES_MAX};

/// How much of a line is read. Nobody has addresses this long.
const LINE_BYTES_MAX: usize = 16 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line that means something.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'t> {
    /// The product token of a crawler, in lower case, or `*`.
    Agent(String),
    Rule {
        allow: bool,
        pattern: &'t [u8],
    },
    Delay(Duration),
    Sitemap(String),
}

/// The lines that mean something, with their numbers and texts.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (Line<'_>, (u32, &[u8]))> {
    let numbered = Texts {
        rest: capped(bytes),
    }
    .zip(1..);
    numbered.filter_map(|(text, number)| {
        let text = &text[..text.len().min(LINE_BYTES_MAX)];
        Some((understood(text)?, (number, text)))
    })
}

/// As much of a file as is read, without the line that is cut off: half a pattern means something else.
fn capped(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    if bytes.len() <= ROBOTS_BYTES_MAX {
        return bytes;
    }
    let bytes = &bytes[..ROBOTS_BYTES_MAX];
    let end = memchr::memrchr2(b'\n', b'\r', bytes).unwrap_or(0);
    &bytes[..end]
}

/// Splits at CR, LF and CRLF.
struct Texts<'t> {
    rest: &'t [u8],
}

impl<'t> Iterator for Texts<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b'\n', b'\r', self.rest).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = match rest {
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
            [] => rest,
        };
        Some(text)
    }
}

fn understood(text: &[u8]) -> Option<Line<'_>> {
    let (key, value) = key_and_value(text)?;
    let key = std::str::from_utf8(key).ok()?.to_ascii_lowercase();
    match key.as_str() {
        "user-agent" | "useragent" | "user agent" => agent(value).map(Line::Agent),
        "allow" => Some(Line::Rule {
            allow: true,
            pattern: value,
        }),
        // The misspellings that other crawlers understand, too.
        "disallow" | "dissallow" | "dissalow" | "disalow" | "diasllow" | "disallaw" => {
            Some(Line::Rule {
                allow: false,
                pattern: value,
            })
        }
        "crawl-delay" | "crawldelay" | "crawl delay" => delay(value).map(Line::Delay),
        "request-rate" => delay_of_rate(value).map(Line::Delay),
        "sitemap" | "site-map" | "site map" => {
            let url = std::str::from_utf8(value).ok()?;
            (!url.is_empty()).then(|| Line::Sitemap(url.to_owned()))
        }
        _ => None,
    }
}

/// Splits `key: value`. Some people forget the colon, so that blanks may stand in its place if there are exactly two words.
fn key_and_value(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let comment = memchr::memchr(b'#', text).unwrap_or(text.len());
    let text = text[..comment].trim_ascii();
    if let Some(colon) = memchr::memchr(b':', text) {
        return Some((text[..colon].trim_ascii(), text[colon + 1..].trim_ascii()));
    }
    let blank = text.iter().position(u8::is_ascii_whitespace)?;
    let (key, value) = (&text[..blank], text[blank..].trim_ascii());
    let two_words = !value.iter().any(u8::is_ascii_whitespace);
    two_words.then_some((key, value))
}

/// Whom a group is for. Words after `*` do not change that everybody is meant.
fn agent(value: &[u8]) -> Option<String> {
    match value {
        [b'*'] => Some("*".to_owned()),
        [b'*', next, ..] if next.is_ascii_whitespace() => Some("*".to_owned()),
        // Also an agent without a name begins a group, which is for nobody.
        _ => Some(product_token(&String::from_utf8_lossy(value))),
    }
}

/// The part of a user agent that counts, in lower case.
pub(super) fn product_token(agent: &str) -> String {
    let counts = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    let token = agent.trim().bytes().take_while(counts);
    token
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect()
}

fn delay(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    bounded(seconds)
}

/// `1/10` is one request in ten seconds; the period may end with `s`, `m` or `h`. What holds only at some time of the day is left out.
fn delay_of_rate(value: &[u8]) -> Option<Duration> {
    let (requests, period) = std::str::from_utf8(value).ok()?.split_once('/')?;
    let requests: f64 = requests.trim().parse().ok()?;
    let period = period.trim().to_ascii_lowercase();
    let (number, unit) = match period.strip_suffix(['s', 'm', 'h']) {
        Some(number) if period.ends_with('m') => (number, 60.0),
        Some(number) if period.ends_with('h') => (number, 3_600.0),
        Some(number) => (number, 1.0),
        None => (period.as_str(), 1.0),
    };
    let period: f64 = number.trim().parse().ok()?;
    bounded(period * unit / requests)
}

fn bounded(seconds: f64) -> Option<Duration> {
    let most = CRAWL_DELAY_MAX.as_secs_f64();
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(most)))
}
