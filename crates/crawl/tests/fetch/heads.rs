//! What is asked, and what the heads of answers say.

use std::time::Duration;

use crawl::fetch::{Cookies, FetchErrorKind, FetchRequest, HttpVersion};

use crate::rig::{Answer, failure, fetcher, get, page, serve, target, with_length};

#[tokio::test]
async fn a_page_comes_with_all_that_is_known_about_it() {
    let server = serve(|_, _| {
        let headers = "Content-Type: Text/HTML; charset=\"ISO-8859-1\"\r\nX-Some: thing\r\n";
        Answer::Stay(with_length("200 OK", headers, "<p>hello</p>"))
    })
    .await;
    let fetcher = fetcher(|settings| {
        settings.contact = Some("crawl@example.com".to_owned());
        settings.accept_language = Some("de".to_owned());
        settings.headers.insert("X-Mine".to_owned(), "1".to_owned());
    });
    let url = server.url("/a?b=c#d");
    let mut request = FetchRequest::new(url.clone());
    request.referer = Some(server.url("/from"));
    let fetched = fetcher.fetch(&request).await.unwrap();
    assert_eq!(fetched.status, 200);
    assert_eq!(fetched.final_url, url);
    assert_eq!(&fetched.body[..], b"<p>hello</p>");
    assert_eq!(fetched.wire_bytes, 12);
    assert_eq!(fetched.mime.as_deref(), Some("text/html"));
    assert_eq!(fetched.charset.as_deref(), Some("iso-8859-1"));
    assert_eq!(fetched.headers["x-some"], "thing");
    assert_eq!(fetched.version, HttpVersion::One1);
    assert_eq!(fetched.remote, server.address);
    assert!(fetched.redirects.is_empty() && fetched.retry_after.is_none());
    let timings = fetched.timings;
    assert!(
        timings
            .connect
            .is_some_and(|connect| connect > Duration::ZERO)
    );
    assert!(timings.whole >= timings.first_byte && timings.first_byte > Duration::ZERO);

    let head = server.requests.lock()[0].to_lowercase();
    assert!(head.starts_with("get /a?b=c http/1.1\r\n"), "{head}");
    for line in [
        format!("host: {}", server.address),
        "user-agent: hivewirebot/0.1 (+crawl@example.com)".to_owned(),
        "accept-encoding: gzip, deflate, br, zstd".to_owned(),
        "accept-language: de".to_owned(),
        "x-mine: 1".to_owned(),
        format!("referer: {}", server.url("/from")),
    ] {
        assert!(
            head.contains(&format!("\r\n{line}\r\n")),
            "{line} in {head}"
        );
    }
}

#[tokio::test]
async fn names_and_passwords_in_urls_are_not_sent() {
    let server = serve(|_, _| page("x")).await;
    let mut url = server.url("/");
    url.set_username("name").unwrap();
    url.set_password(Some("planted")).unwrap();
    let fetched = get(&fetcher(|_| {}), url).await.unwrap();
    assert_eq!(fetched.final_url, server.url("/"));
    let head = server.requests.lock()[0].to_lowercase();
    assert!(
        !head.contains("planted") && !head.contains("authorization"),
        "{head}"
    );
}

#[tokio::test]
async fn what_is_known_already_is_not_sent_again() {
    let server = serve(|_, head| {
        let head = head.to_lowercase();
        let is_known = head.contains("if-none-match: \"one\"\r\n")
            || head.contains("if-modified-since: sat, 01 jan 2022 00:00:00 gmt\r\n");
        match (is_known, target(&head)) {
            (_, "/moved") => crate::rig::redirect("/there"),
            (true, _) => Answer::Stay(
                b"HTTP/1.1 304 Not Modified\r\nETag: \"one\"\r\nContent-Encoding: gzip\r\n\r\n"
                    .to_vec(),
            ),
            (false, _) => page("new"),
        }
    })
    .await;
    let fetcher = fetcher(|_| {});
    let mut request = FetchRequest::new(server.url("/"));
    assert_eq!(fetcher.fetch(&request).await.unwrap().status, 200);
    request.etag = Some("\"one\"".to_owned());
    let known = fetcher.fetch(&request).await.unwrap();
    assert_eq!((known.status, known.body.len()), (304, 0));
    request.etag = None;
    request.last_modified = Some("Sat, 01 Jan 2022 00:00:00 GMT".to_owned());
    assert_eq!(fetcher.fetch(&request).await.unwrap().status, 304);
    // It is a version of that page: the one behind a redirect is asked for anew.
    request.url = server.url("/moved");
    assert_eq!(fetcher.fetch(&request).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_server_may_say_when_to_come_back() {
    let server = serve(|_, head| match target(head) {
        "/busy" => Answer::Stay(with_length("429 Too Many", "Retry-After: 120\r\n", "")),
        _ => {
            let date = "Retry-After:  Fri, 31 Dec 1999 23:59:59 GMT \r\n";
            Answer::Stay(with_length("503 Down", date, "down"))
        }
    })
    .await;
    let fetcher = fetcher(|_| {});
    let busy = get(&fetcher, server.url("/busy")).await.unwrap();
    assert_eq!(
        (busy.status, busy.retry_after.as_deref()),
        (429, Some("120"))
    );
    let down = get(&fetcher, server.url("/down")).await.unwrap();
    assert_eq!(down.status, 503);
    assert_eq!(
        down.retry_after.as_deref(),
        Some("Fri, 31 Dec 1999 23:59:59 GMT")
    );
    assert_eq!(&down.body[..], b"down");
}

#[tokio::test]
async fn heads_have_a_limit() {
    let server = serve(|_, head| match target(head) {
        "/endless" => Answer::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-A: yes\r\n".to_vec()),
        "/line" => Answer::Endless(b"HTTP/1.1 200 OK\r\nX-A: ".to_vec(), vec![b'a'; 1_000]),
        _ => {
            let headers = format!("X-Long: {}\r\n", "a".repeat(10_000));
            Answer::Stay(with_length("200 OK", &headers, "long"))
        }
    })
    .await;
    let fetcher = fetcher(|settings| settings.header_bytes_max = 20_000);
    for path in ["/endless", "/line"] {
        let (kind, error) = failure(&fetcher, server.url(path)).await;
        assert_eq!(kind, FetchErrorKind::TooLarge, "{error}");
        assert!(!error.is_worth_retrying());
    }
    // The control: a head within the limit.
    assert_eq!(get(&fetcher, server.url("/")).await.unwrap().status, 200);
}

#[tokio::test]
async fn what_is_no_http_is_said_to_be_none() {
    let server = serve(|_, head| {
        Answer::Close(match target(head) {
            "/ssh" => b"SSH-2.0-Server\r\n\r\n".to_vec(),
            "/lengths" => {
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nabcdefg".to_vec()
            }
            "/nothing" => Vec::new(),
            _ => b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(),
        })
    })
    .await;
    let fetcher = fetcher(|_| {});
    for path in ["/ssh", "/lengths"] {
        let (kind, error) = failure(&fetcher, server.url(path)).await;
        assert_eq!(kind, FetchErrorKind::Protocol, "{error}");
    }
    let (kind, error) = failure(&fetcher, server.url("/nothing")).await;
    assert_eq!(kind, FetchErrorKind::Closed, "{error}");
    assert!(error.is_worth_retrying());
    assert_eq!(
        &get(&fetcher, server.url("/")).await.unwrap().body[..],
        b"ok"
    );
}

#[tokio::test]
async fn cookies_are_sent_back_only_if_they_are_kept() {
    let server = serve(|_, head| {
        let is_known = head.to_lowercase().contains("\r\ncookie: id=7\r\n");
        match (target(head), is_known) {
            ("/private", false) => {
                let headers = "Set-Cookie: id=7; Path=/\r\nLocation: /private\r\n";
                Answer::Stay(with_length("302 Found", headers, ""))
            }
            (_, is_known) => page(if is_known { "known" } else { "stranger" }),
        }
    })
    .await;
    let keeping = fetcher(|settings| settings.cookies = Cookies::PerSite);
    // The page leads back to itself once, with a cookie: that is no loop.
    let fetched = get(&keeping, server.url("/private")).await.unwrap();
    assert_eq!(
        (&fetched.body[..], fetched.redirects.len()),
        (&b"known"[..], 1)
    );
    let other = get(&keeping, server.url("/other")).await.unwrap();
    assert_eq!(&other.body[..], b"known");
    let (kind, _) = failure(&fetcher(|_| {}), server.url("/private")).await;
    assert_eq!(kind, FetchErrorKind::RedirectLoop);
}
