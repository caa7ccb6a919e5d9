//! `GET /` and `GET /assets/{file}`: the studio, as it was put into the binary. It is the same for everybody and holds
//! nothing of the node, so it needs no token; what it shows it asks for with one.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderMap, HeaderName, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::etag::etag_of;
use super::problem::Problem;

/// What nobody needs a token for is under here.
const ASSETS: &str = "/assets/";
const HTML: &str = "text/html; charset=utf-8";
/// The name of an asset changes with what it says.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const NOT_KEPT: &str = "no-store";
/// The studio runs its own code, asks its own node, and is shown in no other page. Where the parts of a graph lie is in
/// attributes of style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// A file of the studio.
struct StudioFile {
    path: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    /// The same, compressed, if that is smaller.
    gzip: Option<&'static [u8]>,
}

/// All of them; none if the binary was built without the studio.
static FILES: &[StudioFile] = include!(concat!(env!("OUT_DIR"), "/studio.rs"));

/// What there is instead.
static WITHOUT: StudioFile = StudioFile {
    path: "/",
    content_type: HTML,
    bytes: b"<!doctype html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>Hivewire</title></head>
<body>
<h1>Hivewire</h1>
<p>This binary was built without the studio. <code>make build</code> builds it with it; that needs npm, which Debian has in the packages
<code>nodejs</code> and <code>npm</code>.</p>
<p>Everything else is there. The API is at <code>/api/v1</code>, described by <code>/api/v1/openapi.json</code>, metrics are at
<code>/metrics</code>, health at <code>/health</code>. Send the token as <code>Authorization: Bearer TOKEN</code>; it lies in the file
<code>token</code> of the data folder.</p>
<p>On the command line: <code>hivewire queues</code>, <code>hivewire pub NAME MESSAGE</code>,
<code>hivewire sub NAME</code>; <code>hivewire ps</code>, <code>hivewire deploy FILE --as FLOW/STAGE</code>,
<code>hivewire ask FLOW/STAGE MESSAGE</code>.</p>
</body>
</html>
",
    gzip: None,
};

/// What is served, by its path.
static SERVED: LazyLock<HashMap<&'static str, Served>> = LazyLock::new(|| {
    let index = FILES.is_empty().then_some(&WITHOUT);
    let files = FILES.iter().chain(index);
    files.map(|file| (file.path, Served::of(file))).collect()
});

struct Served {
    file: &'static StudioFile,
    etag: String,
    gzip_etag: String,
}

impl Served {
    fn of(file: &'static StudioFile) -> Self {
        Self {
            file,
            etag: etag_of(file.bytes),
            gzip_etag: etag_of(file.gzip.unwrap_or_default()),
        }
    }

    fn answer(&self, headers: &HeaderMap, kept: &'static str) -> Response {
        let gzip = self.file.gzip.filter(|_| takes_gzip(headers));
        let (bytes, etag) = match gzip {
            Some(gzip) => (gzip, &self.gzip_etag),
            None => (self.file.bytes, &self.etag),
        };
        let headers: [(HeaderName, &str); 5] = [
            (header::CONTENT_TYPE, self.file.content_type),
            (header::CACHE_CONTROL, kept),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::ETAG, etag),
            (header::VARY, "Accept-Encoding"),
        ];
        let body = Body::from(Bytes::from_static(bytes));
        match gzip {
            Some(_) => (headers, [(header::CONTENT_ENCODING, "gzip")], body).into_response(),
            None => (headers, body).into_response(),
        }
    }
}

/// Whether a request is for what needs no token.
pub(super) fn is_open(method: &Method, uri: &Uri) -> bool {
    let path = uri.path();
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    is_read && (path == "/" || path.starts_with(ASSETS))
}

pub(super) async fn page(headers: HeaderMap) -> Response {
    serve("/", &headers, NOT_KEPT)
}

pub(super) async fn asset(
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Path(name) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let path = format!("{ASSETS}{name}");
    if !SERVED.contains_key(path.as_str()) {
        return Err(Problem::not_found(
            "the studio has no such file: it may be of another version, so load the page again",
        ));
    }
    Ok(serve(&path, &headers, FOR_EVER))
}

fn serve(path: &str, headers: &HeaderMap, kept: &'static str) -> Response {
    match SERVED.get(path) {
        Some(served) => served.answer(headers, kept),
        None => Problem::not_found("there is no such file").into_response(),
    }
}

/// Whether a client takes answers that are compressed.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let is_refused = |quality: &str| {
            let quality = quality.strip_prefix("q=");
            quality.and_then(|q| q.parse().ok()) == Some(0.0)
        };
        is_gzip && !parts.any(is_refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_only_for_those_who_take_it() {
        let takes = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            takes_gzip(&headers)
        };
        assert!(takes("gzip") && takes("br, GZIP;q=0.5") && takes("deflate,gzip;q=1"));
        assert!(!takes("br") && !takes("gzip;q=0") && !takes("x-gzip") && !takes("gzip; q=0.0"));
    }

    #[test]
    fn only_the_studio_is_open() {
        let open = |method: Method, uri: &str| is_open(&method, &uri.parse().unwrap());
        assert!(open(Method::GET, "/") && open(Method::HEAD, "/assets/index-1.js"));
        assert!(open(Method::GET, "/?token=abc"));
        for (method, uri) in [
            (Method::POST, "/"),
            (Method::GET, "/assets"),
            (Method::GET, "/api/v1/queues"),
            (Method::GET, "/registry/system/list"),
            (Method::GET, "//assets/x"),
        ] {
            assert!(!open(method, uri), "{uri}");
        }
    }

    #[test]
    fn what_is_compressed_is_the_same() {
        for served in SERVED.values() {
            assert!(served.file.path == "/" || served.file.path.starts_with(ASSETS));
            if let Some(gzip) = served.file.gzip {
                assert!(gzip.len() < served.file.bytes.len() && gzip.starts_with(&[0x1f, 0x8b]));
            }
        }
        assert!(SERVED.contains_key("/"));
    }
}
