//! Redirects, and where they must not lead.

use std::sync::Arc;

use crawl::fetch::{FetchErrorKind, FetchRequest, FetchSettings, Fetcher};

use crate::rig::{Answer, failure, fetcher, get, page, redirect, serve, target, with_length};

#[tokio::test]
async fn redirects_are_followed_and_listed() {
    let server = serve(|_, head| match target(head) {
        "/1" => redirect("/dir/2?x"),
        "/dir/2?x" => redirect("3#part"),
        "/dir/3" => Answer::Stay(with_length("308 Moved", "Location: ../4 \r\n", "")),
        "/nowhere" => Answer::Stay(with_length("302 Found", "", "no location")),
        _ => page("here"),
    })
    .await;
    let fetcher = fetcher(|_| {});
    let fetched = get(&fetcher, server.url("/1")).await.unwrap();
    assert_eq!(fetched.final_url, server.url("/4"));
    assert_eq!(&fetched.body[..], b"here");
    let redirects = fetched.redirects.iter();
    let redirects: Vec<_> = redirects
        .map(|step| (step.from.as_str(), step.status))
        .collect();
    let of = |path| server.url(path).to_string();
    assert_eq!(
        redirects,
        [
            (of("/1").as_str(), 302),
            (of("/dir/2?x").as_str(), 302),
            (of("/dir/3#part").as_str(), 308)
        ]
    );
    assert_eq!(server.accepted(), 1, "bodies of redirects are read");
    // One that says not where to is an answer like any other.
    assert_eq!(
        get(&fetcher, server.url("/nowhere")).await.unwrap().status,
        302
    );
}

#[tokio::test]
async fn circles_and_long_ways_are_left() {
    let server = serve(|_, head| match target(head) {
        "/self" => redirect("/self#again"),
        "/a" => redirect("/b"),
        "/b" => redirect("/a"),
        "/wrong" => redirect("http://[broken/"),
        "/file" => redirect("file:///etc/passwd"),
        path => match path.trim_start_matches('/').parse::<u32>() {
            Ok(0) => page("here"),
            Ok(left) => redirect(&format!("/{}", left - 1)),
            Err(_) => redirect(&format!("{path}x")),
        },
    })
    .await;
    let usual = fetcher(|_| {});
    for (path, wanted) in [
        ("/self", FetchErrorKind::RedirectLoop),
        ("/a", FetchErrorKind::RedirectLoop),
        ("/6", FetchErrorKind::TooManyRedirects),
        ("/endless", FetchErrorKind::TooManyRedirects),
        ("/wrong", FetchErrorKind::RedirectWrong),
        ("/file", FetchErrorKind::Address),
    ] {
        let (kind, error) = failure(&usual, server.url(path)).await;
        assert_eq!(kind, wanted, "{path}: {error}");
        assert!(!error.is_worth_retrying());
    }
    // The control: as many as are followed.
    assert_eq!(
        get(&usual, server.url("/5")).await.unwrap().redirects.len(),
        5
    );
    let none = fetcher(|settings| settings.redirects_max = 0);
    let answer = get(&none, server.url("/5")).await.unwrap();
    assert_eq!(
        (answer.status, &answer.headers["location"]),
        (302, &"/4".parse().unwrap())
    );
}

#[tokio::test]
async fn whoever_asks_can_refuse_a_redirect() {
    let server = serve(|_, head| match target(head) {
        "/out" => redirect("/forbidden"),
        "/in" => redirect("/allowed"),
        _ => page("here"),
    })
    .await;
    let fetcher = fetcher(|_| {});
    let mut request = FetchRequest::new(server.url("/out"));
    request.redirect_check = Some(Arc::new(|url| match url.path() {
        "/forbidden" => Err("the rule says no".to_owned()),
        _ => Ok(()),
    }));
    let error = fetcher.fetch(&request).await.unwrap_err();
    assert_eq!(error.kind(), FetchErrorKind::RedirectRefused);
    assert!(error.to_string().contains("the rule says no"), "{error}");
    assert_eq!(server.request_count(), 1, "it was not even asked for");
    request.url = server.url("/in");
    assert_eq!(fetcher.fetch(&request).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused_although_the_first_step_was_allowed() {
    let server = serve(|_, head| match target(head) {
        "/literal" => redirect("http://127.0.0.2:1/secret"),
        "/odd" => redirect("http://0x7f.2:1/secret"),
        "/metadata" => redirect("//169.254.169.254/latest"),
        "/name" => redirect("http://localhost:1/secret"),
        _ => page("here"),
    })
    .await;
    let settings = FetchSettings {
        private_allowed: vec![server.address.ip()],
        ..FetchSettings::default()
    };
    let guarded = Fetcher::new(settings).unwrap();
    assert_eq!(get(&guarded, server.url("/")).await.unwrap().status, 200);
    for path in ["/literal", "/odd", "/metadata"] {
        let (kind, error) = failure(&guarded, server.url(path)).await;
        assert_eq!(kind, FetchErrorKind::Private, "{path}: {error}");
    }
    // The control: where it is allowed, the connection is tried.
    let open = fetcher(|_| {});
    for path in ["/literal", "/odd", "/name"] {
        let (kind, error) = failure(&open, server.url(path)).await;
        assert_eq!(kind, FetchErrorKind::Connect, "{path}: {error}");
    }
}
