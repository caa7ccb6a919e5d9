//! How files begin.

use memchr::memmem;

use crate::html::is_space;

/// Beginnings of files, and their types.
const FILES: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07", "application/x-rar-compressed"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"\0\0\x01\0", "image/x-icon"),
    (b"OggS\0", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
];

/// Tags that HTML begins with.
const TAGS: &[&[u8]] = &[
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<script",
    b"<iframe",
    b"<h1",
    b"<div",
    b"<font",
    b"<table",
    b"<a",
    b"<style",
    b"<title",
    b"<b",
    b"<body",
    b"<br",
    b"<p",
    b"<!--",
];

/// The type of a file that is not text.
pub(super) fn of_file(head: &[u8]) -> Option<&'static str> {
    let behind = |at: usize| head.get(at..at + 4);
    if head.starts_with(b"RIFF") {
        return match behind(8)? {
            b"WEBP" => Some("image/webp"),
            b"WAVE" => Some("audio/wave"),
            b"AVI " => Some("video/avi"),
            _ => None,
        };
    }
    if behind(4) == Some(b"ftyp") {
        return match behind(8)? {
            b"avif" | b"avis" => Some("image/avif"),
            _ => Some("video/mp4"),
        };
    }
    let file = FILES.iter().find(|(start, _)| head.starts_with(start));
    // Two letters alone could be a text.
    let is_text = |start: &[u8]| start.len() < 4 && start.is_ascii() && !super::is_binary(head);
    file.filter(|(start, _)| !is_text(start))
        .map(|(_, mime)| *mime)
}

/// Whether it begins as HTML or XML do.
pub(super) fn markup(head: &[u8]) -> Option<&'static str> {
    let head = content(head);
    let begins = |tag: &&&[u8]| {
        let start = head.get(..tag.len());
        let is_over = |byte: &u8| is_space(*byte) || *byte == b'>';
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag))
            && (**tag == b"<!--" || head.get(tag.len()).is_some_and(is_over))
    };
    if TAGS.iter().find(begins).is_some() {
        return Some("text/html");
    }
    head.starts_with(b"<?xml").then_some("text/xml")
}

/// The type of a feed.
pub(super) fn feed(head: &[u8]) -> Option<&'static str> {
    let root = root(head)?;
    let is = |name: &[u8]| {
        let ends = |byte: &u8| is_space(*byte) || *byte == b'>';
        root.strip_prefix(name)
            .is_some_and(|rest| rest.first().is_some_and(ends))
    };
    if is(b"rss") || is(b"rdf:RDF") && memmem::find(root, b"http://purl.org/rss/1.0/").is_some() {
        return Some("application/rss+xml");
    }
    is(b"feed").then_some("application/atom+xml")
}

/// Whether it is XML whose outermost element is that of HTML.
pub(super) fn is_xhtml(head: &[u8]) -> bool {
    root(head).is_some_and(|root| {
        root.starts_with(b"html") && memmem::find(root, b"http://www.w3.org/1999/xhtml").is_some()
    })
}

/// What follows the `<` of the outermost element: behind comments, declarations and instructions.
fn root(head: &[u8]) -> Option<&[u8]> {
    let mut rest = content(head);
    loop {
        rest = rest.trim_ascii_start().strip_prefix(b"<")?;
        let end: &[u8] = match rest {
            [b'!', b'-', b'-', ..] => b"-->",
            [b'!', ..] => b">",
            [b'?', ..] => b"?>",
            _ => return Some(rest),
        };
        rest = &rest[memmem::find(rest, end)? + end.len()..];
    }
}

/// Without the byte order mark and white space in front.
fn content(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start()
}
