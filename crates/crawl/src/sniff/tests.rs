use super::*;

fn check(header: Option<&str>, body: &[u8], mime: &str, kind: Kind) {
    let sniffed = sniff(header, body);
    assert_eq!(
        (&*sniffed.mime, sniffed.kind),
        (mime, kind),
        "{header:?} {body:?}"
    );
}

#[test]
fn what_is_declared_is_believed() {
    check(Some("text/html"), b"whatever", "text/html", Kind::Html);
    check(
        Some(" Application/XHTML+XML ; q=1"),
        b"",
        "application/xhtml+xml",
        Kind::Xhtml,
    );
    check(
        Some("application/xml"),
        b"<urlset>",
        "application/xml",
        Kind::Xml,
    );
    check(
        Some("application/rss+xml"),
        b"",
        "application/rss+xml",
        Kind::Xml,
    );
    check(Some("text/plain"), b"<html>", "text/plain", Kind::Text);
    check(
        Some("image/svg+xml"),
        b"<svg>",
        "image/svg+xml",
        Kind::Other,
    );
    check(
        Some("application/ld+json"),
        b"{}",
        "application/ld+json",
        Kind::Text,
    );
}

#[test]
fn what_cannot_be_is_not() {
    check(
        Some("text/html"),
        b"%PDF-1.4",
        "application/pdf",
        Kind::Other,
    );
    check(
        Some("text/html"),
        b"\x1f\x8b\x08\0",
        "application/gzip",
        Kind::Other,
    );
    check(
        Some("text/html"),
        b"BM is a company",
        "text/html",
        Kind::Html,
    );
    check(
        Some("text/html"),
        b"<?xml version='1.0'?><!-- x --><rss version='2.0'>",
        "application/rss+xml",
        Kind::Xml,
    );
    check(
        Some("text/plain"),
        b"a\0b",
        "application/octet-stream",
        Kind::Other,
    );
    check(
        Some("text/xml"),
        b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='http://www.w3.org/1999/xhtml'>",
        "text/xml",
        Kind::Xhtml,
    );
}

#[test]
fn bytes_tell_what_headers_do_not() {
    check(None, b"\xef\xbb\xbf \n<HTML>", "text/html", Kind::Html);
    check(Some(""), b"<p>x", "text/html", Kind::Html);
    check(Some("nonsense"), b"<!--x", "text/html", Kind::Html);
    check(None, b"<pre>", "text/plain", Kind::Text);
    check(None, b"<?xml version='1.0'?><x/>", "text/xml", Kind::Xml);
    check(None, b"<feed xmlns='x'>", "application/atom+xml", Kind::Xml);
    check(None, b"RIFF....WEBPVP8 ", "image/webp", Kind::Other);
    check(None, b"\0\0\0\x20ftypisom", "video/mp4", Kind::Other);
    check(None, b"plain words", "text/plain", Kind::Text);
    check(None, b"\xff\xfea\0", "text/plain", Kind::Text);
    check(None, b"\x01\x02", "application/octet-stream", Kind::Other);
    check(None, b"", "text/plain", Kind::Text);
}

#[test]
fn charsets_are_read() {
    let charset = |header| sniff(Some(header), b"").charset;
    assert_eq!(
        charset("text/html; Charset=\"utf-8\"").as_deref(),
        Some("utf-8")
    );
    assert_eq!(
        charset("text/html;a=b;charset=big5;x").as_deref(),
        Some("big5")
    );
    assert_eq!(charset("text/html; charset="), None);
}

#[test]
fn lists_of_what_is_wanted_are_matched() {
    let allowed = Allowed::parse(&["html", "Application/PDF", "image/*"]).expect("a list");
    let fits = |header| allowed.fits(&sniff(Some(header), b""));
    assert!(fits("text/html") && fits("application/pdf") && fits("image/png"));
    assert!(!fits("application/zip") && !fits("text/plain"));
    let everything = Allowed::parse(&["*/*"]).expect("a list");
    assert!(everything.fits(&sniff(None, b"")));
    assert_eq!(
        Allowed::parse(&["htm"]).map_err(|error| error.text),
        Err("htm".to_owned())
    );
}
