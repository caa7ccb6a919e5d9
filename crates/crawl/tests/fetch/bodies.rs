//! Bodies: honest, broken, endless, and those that grow.

use std::io::Write;

use crawl::fetch::FetchErrorKind;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use crate::rig::{Answer, failure, fetcher, get, page, serve, target, until, with_length};

/// 64 MiB of zeros, as the usual compressor writes them.
const BROTLI_ZEROS: [u8; 102] = [
    203, 255, 255, 63, 0, 36, 0, 226, 177, 64, 114, 239, 255, 248, 255, 255, 7, 128, 4, 64, 28, 22,
    128, 238, 253, 31, 255, 255, 255, 0, 144, 0, 136, 195, 2, 208, 189, 255, 227, 255, 255, 31, 0,
    18, 0, 113, 88, 0, 186, 247, 127, 252, 255, 255, 3, 64, 2, 32, 14, 11, 64, 247, 254, 143, 255,
    255, 127, 0, 72, 0, 196, 97, 1, 232, 222, 255, 241, 255, 255, 15, 0, 9, 128, 56, 44, 0, 221,
    251, 63, 254, 255, 255, 1, 32, 1, 16, 135, 5, 160, 123, 255, 55,
];

/// `<p>hello brotli</p>` 50 times, as the usual compressor writes it.
const BROTLI_HELLO: [u8; 38] = [
    27, 181, 3, 248, 29, 135, 233, 54, 120, 182, 201, 234, 94, 250, 154, 7, 78, 142, 78, 250, 188,
    136, 101, 26, 219, 91, 109, 82, 96, 137, 32, 14, 244, 73, 215, 251, 144, 0,
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn encoded(name: &str, body: Vec<u8>) -> Answer {
    let headers = format!("Content-Encoding: {name}\r\n");
    Answer::Stay(with_length("200 OK", &headers, body))
}

#[tokio::test]
async fn compressed_bodies_are_decompressed() {
    let text = "<p>hello brotli</p>".repeat(50);
    let wanted = text.clone();
    let server = serve(move |_, head| {
        let text = text.as_bytes();
        match target(head) {
            "/gzip" => encoded("gzip", gzip(text)),
            "/deflate" => encoded("deflate", zlib(text)),
            "/br" => encoded("br", BROTLI_HELLO.to_vec()),
            "/zstd" => encoded("zstd", zstd::encode_all(text, 3).unwrap()),
            "/unknown" => encoded("utf-8", text.to_vec()),
            _ => page(text),
        }
    })
    .await;
    let fetcher = fetcher(|_| {});
    for path in ["/gzip", "/deflate", "/br", "/zstd", "/unknown", "/plain"] {
        let fetched = get(&fetcher, server.url(path)).await.unwrap();
        assert_eq!(fetched.body, wanted.as_bytes(), "{path}");
        let is_shorter = fetched.wire_bytes < wanted.len();
        assert_eq!(is_shorter, !matches!(path, "/unknown" | "/plain"), "{path}");
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn bombs_are_named_and_given_up() {
    let server = serve(|_, head| {
        let zeros = vec![0; 32 << 20];
        match target(head) {
            "/gzip" => encoded("gzip", gzip(&zeros)),
            "/br" => encoded("br", BROTLI_ZEROS.to_vec()),
            "/zstd" => encoded("zstd", zstd::encode_all(&zeros[..], 3).unwrap()),
            _ => encoded("gzip", gzip(&zeros[..1 << 20])),
        }
    })
    .await;
    let fetcher = fetcher(|_| {});
    for path in ["/gzip", "/br", "/zstd"] {
        let (kind, error) = failure(&fetcher, server.url(path)).await;
        assert_eq!(kind, FetchErrorKind::Bomb, "{path}: {error}");
        assert!(!error.is_worth_retrying());
    }
    // The control: as many zeros as a page may have without anybody wondering.
    let fetched = get(&fetcher, server.url("/small")).await.unwrap();
    assert_eq!(fetched.body.len(), 1 << 20);
}

#[tokio::test]
async fn endless_and_long_bodies_are_cut_off() {
    let server = serve(|_, head| match target(head) {
        "/endless" => Answer::Endless(
            b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            b"<a href=more>".repeat(100),
        ),
        "/chunks" => Answer::Endless(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            b"5\r\nhello\r\n".to_vec(),
        ),
        "/said" => Answer::Stall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n".to_vec()),
        _ => page("x".repeat(100_000)),
    })
    .await;
    let fetcher = fetcher(|settings| settings.body_bytes_max = 100_000);
    for path in ["/endless", "/chunks", "/said"] {
        let (kind, error) = failure(&fetcher, server.url(path)).await;
        assert_eq!(kind, FetchErrorKind::TooLarge, "{path}: {error}");
    }
    until("their connections are closed", || {
        server.open() == 0 && fetcher.connections_open() == 0
    })
    .await;
    // The control: exactly as long as it may be.
    assert_eq!(
        get(&fetcher, server.url("/")).await.unwrap().body.len(),
        100_000
    );
}

#[tokio::test]
async fn what_comes_has_a_limit_of_its_own() {
    let mut noise = vec![0; 200_000];
    fastrand::Rng::with_seed(1).fill(&mut noise);
    let wire = gzip(&noise);
    let server = serve(move |_, _| encoded("gzip", wire.clone())).await;
    let narrow = fetcher(|settings| settings.wire_bytes_max = 100_000);
    let (kind, _) = failure(&narrow, server.url("/")).await;
    assert_eq!(kind, FetchErrorKind::TooLarge);
    let wide = fetcher(|_| {});
    assert_eq!(
        get(&wide, server.url("/")).await.unwrap().body.len(),
        200_000
    );
}

#[tokio::test]
async fn bodies_that_end_too_early_are_broken_and_worth_another_try() {
    let server = serve(|_, head| {
        let close = |text: &str| Answer::Close(text.as_bytes().to_vec());
        match target(head) {
            "/short" => close("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort"),
            "/chunk" => close("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
            "/garbage" => close(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz!\r\nmore",
            ),
            "/gzip" => {
                let mut wire = gzip(&b"some text ".repeat(100));
                wire.truncate(wire.len() / 2);
                encoded("gzip", wire)
            }
            "/html" => encoded("gzip", b"<html>".to_vec()),
            _ => close("HTTP/1.0 200 OK\r\n\r\nup to the end"),
        }
    })
    .await;
    let fetcher = fetcher(|_| {});
    for path in ["/short", "/chunk", "/garbage", "/gzip", "/html"] {
        let (kind, error) = failure(&fetcher, server.url(path)).await;
        assert_eq!(kind, FetchErrorKind::BrokenBody, "{path}: {error}");
        assert!(error.is_worth_retrying());
    }
    let old = get(&fetcher, server.url("/old")).await.unwrap();
    assert_eq!(&old.body[..], b"up to the end");
    assert_eq!(old.version.as_str(), "HTTP/1.0");
}

#[tokio::test]
async fn more_than_was_said_belongs_to_no_page() {
    let server = serve(|_, _| {
        let mut bytes = with_length("200 OK", "", "right");
        bytes.extend_from_slice(b"and something else that nobody asked for");
        Answer::Stay(bytes)
    })
    .await;
    let fetcher = fetcher(|_| {});
    for _ in 0..3 {
        let fetched = get(&fetcher, server.url("/")).await.unwrap();
        assert_eq!(&fetched.body[..], b"right");
    }
}
