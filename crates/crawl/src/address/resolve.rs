//! From a reference to an absolute address, as browsers do it.
//!
//! The crate `url` knows all the rules. Most links are plain, though, and for those there is a short way that gives exactly the
//! same, which a property test holds against the long one. Whatever looks odd in any way goes the long way.

use url::{Position, Url};

use super::error::AddressError;

/// Where the parts of a resolved address begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// After `://`; there are no credentials.
    pub host_start: usize,
    /// At the `/` after the host and port.
    pub path_start: usize,
    /// At the `?`, or at the end if there is none.
    pub query_start: usize,
}

/// Resolves a reference and writes the address, without fragment and credentials.
pub(super) fn resolve(
    base: Option<&Url>,
    text: &str,
    out: &mut String,
) -> Result<Resolved, AddressError> {
    match resolve_plain(base, text, out) {
        Some(resolved) => Ok(resolved),
        None => resolve_any(base, text, out),
    }
}

/// The long way, for every reference.
pub(super) fn resolve_any(
    base: Option<&Url>,
    text: &str,
    out: &mut String,
) -> Result<Resolved, AddressError> {
    let url = Url::options().base_url(base).parse(text)?;
    if !is_for_http(&url) {
        let scheme = url.scheme().chars().take(40).collect();
        return Err(AddressError::Scheme { scheme });
    }
    let (host, path, query) = (
        &url[Position::BeforeHost..Position::AfterPort],
        url.path(),
        &url[Position::AfterPath..Position::AfterQuery],
    );
    out.clear();
    out.push_str(url.scheme());
    out.push_str("://");
    let host_start = out.len();
    out.push_str(host);
    Ok(finish(out, host_start, path, query))
}

/// The short way, for plain references: nothing in them would be changed, apart from `./` and `../` at the beginning.
pub(super) fn resolve_plain(base: Option<&Url>, text: &str, out: &mut String) -> Option<Resolved> {
    out.clear();
    let base = base.filter(|base| is_for_http(base) && !has_credentials(base));
    if text.starts_with("http") {
        return absolute(base, text, out);
    }
    let base = base?;
    match text.as_bytes() {
        [b'/', b'/', ..] => {
            let rest = &text[2..];
            let host_end = plain_host(rest)?;
            out.push_str(base.scheme());
            out.push_str("://");
            let host_start = out.len();
            out.push_str(&rest[..host_end]);
            append_plain(out, host_start, &rest[host_end..])
        }
        [b'/', ..] => {
            let host_start = push_origin(out, base);
            append_plain(out, host_start, text)
        }
        [] | [b'#', ..] => {
            let host_start = push_origin(out, base);
            let query = &base[Position::AfterPath..Position::AfterQuery];
            Some(finish(out, host_start, base.path(), query))
        }
        [b'?', ..] => {
            let plain = Plain::of(text)?;
            let host_start = push_origin(out, base);
            Some(finish(out, host_start, base.path(), plain.query))
        }
        _ => relative(base, text, out),
    }
}

fn absolute(base: Option<&Url>, text: &str, out: &mut String) -> Option<Resolved> {
    let host_start = match text.as_bytes() {
        [b'h', b't', b't', b'p', b':', b'/', b'/', ..] => 7,
        [b'h', b't', b't', b'p', b's', b':', b'/', b'/', ..] => 8,
        // Such as `httpd.html`.
        _ => return relative(base?, text, out),
    };
    let path_start = match own_origin(base, text) {
        Some(end) => end,
        None => host_start + plain_host(&text[host_start..])?,
    };
    out.push_str(&text[..path_start]);
    append_plain(out, host_start, &text[path_start..])
}

/// Where the path begins if the text begins with the origin of the base, which needs no further look then.
fn own_origin(base: Option<&Url>, text: &str) -> Option<usize> {
    let origin = &base?[..Position::BeforePath];
    let rest = text.strip_prefix(origin)?;
    matches!(rest.as_bytes(), [] | [b'/' | b'?' | b'#', ..]).then_some(origin.len())
}

fn relative(base: &Url, text: &str, out: &mut String) -> Option<Resolved> {
    let path = base.path();
    let mut folder = &path[..=path.rfind('/')?];
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix("../") {
            let above = &folder[..folder.len() - 1];
            folder = above.rfind('/').map_or("/", |slash| &above[..=slash]);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else {
            break;
        }
    }
    let plain = Plain::of(rest)?;
    let first_segment = plain.path.split('/').next().unwrap_or_default();
    if first_segment.contains(':') {
        // What stands before it may be a scheme.
        return None;
    }
    let host_start = push_origin(out, base);
    let path_start = out.len();
    out.push_str(folder);
    out.push_str(plain.path);
    let query_start = out.len();
    out.push_str(plain.query);
    Some(Resolved {
        host_start,
        path_start,
        query_start,
    })
}

/// Writes scheme, host and port of the base, and gives the place of the host.
fn push_origin(out: &mut String, base: &Url) -> usize {
    out.push_str(&base[..Position::BeforePath]);
    base.scheme().len() + "://".len()
}

fn append_plain(out: &mut String, host_start: usize, text: &str) -> Option<Resolved> {
    let plain = Plain::of(text)?;
    Some(finish(out, host_start, plain.path, plain.query))
}

/// Adds path and query to what ends with the host.
fn finish(out: &mut String, host_start: usize, path: &str, query: &str) -> Resolved {
    let path_start = out.len();
    out.push_str(if path.is_empty() { "/" } else { path });
    let query_start = out.len();
    out.push_str(query);
    Resolved {
        host_start,
        path_start,
        query_start,
    }
}

fn is_for_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

fn has_credentials(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// A path and a query in which there is nothing to change.
struct Plain<'t> {
    path: &'t str,
    /// With the `?`.
    query: &'t str,
}

impl<'t> Plain<'t> {
    /// Splits the text, unless there is something odd in it.
    fn of(text: &'t str) -> Option<Self> {
        let bytes = text.as_bytes();
        let path_end = Self::path_end(bytes)?;
        let mut end = path_end;
        if bytes.get(path_end) == Some(&b'?') {
            end += 1;
            while let Some(&byte) = bytes.get(end) {
                match KINDS[usize::from(byte)] & IN_QUERY {
                    0 if byte == b'#' => break,
                    0 => return None,
                    _ => end += 1,
                }
            }
        }
        Some(Self {
            path: &text[..path_end],
            query: &text[path_end..end],
        })
    }

    /// The length of the path, unless there is something odd in it, such as a segment that begins with a dot.
    fn path_end(bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            if KINDS[usize::from(byte)] & IN_PATH != 0 {
                continue;
            }
            match byte {
                b'?' | b'#' => return Some(at),
                b'.' if at > 0 && bytes[at - 1] != b'/' => {}
                // An escaped dot counts as one.
                b'%' if !matches!(&bytes[at + 1..], [b'2', b'e' | b'E', ..]) => {}
                _ => return None,
            }
        }
        Some(bytes.len())
    }
}

const IN_PATH: u8 = 1;
const IN_QUERY: u8 = 2;

/// Bytes that stay as they are without a further look.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        let plain_in_path = matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'~')
            || matches!(
                byte,
                b'!' | b'$' | b'&' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@'
            );
        let plain_in_query = !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\'');
        kinds[byte as usize] = plain_in_path as u8 * IN_PATH + plain_in_query as u8 * IN_QUERY;
        byte += 1;
    }
    kinds
};

/// The length of a host at the beginning of the text that is certainly a plain name: lower case, without a port, neither a number
/// nor in punycode.
fn plain_host(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut end = 0;
    let mut label_start = 0;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => {}
            b'.' | b'-' if end > 0 && bytes[end - 1].is_ascii_alphanumeric() => {
                if byte == b'.' {
                    label_start = end + 1;
                }
            }
            b'/' | b'?' | b'#' => break,
            _ => return None,
        }
        end += 1;
    }
    let last = *bytes.get(end.checked_sub(1)?)?;
    let certain = last.is_ascii_alphanumeric() && bytes[label_start].is_ascii_alphabetic();
    certain.then_some(end)
}
