//! Servers that take their time. The limits are short, and what is expected is which of them was hit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crawl::fetch::{FetchError, FetchErrorKind, Phase};

use crate::rig::{Answer, failure, fetcher, get, serve, target, until, with_length};

fn phase(error: &FetchError) -> Phase {
    match error {
        FetchError::Timeout { phase, .. } => *phase,
        other => panic!("{other} is about no time limit"),
    }
}

#[tokio::test]
async fn each_kind_of_slowness_has_its_limit() {
    let server = serve(|_, head| {
        let answer = with_length("200 OK", "", "x".repeat(500));
        let head_only = answer[..answer.len() - 500].to_vec();
        match target(head) {
            "/silent" => Answer::Stall(Vec::new()),
            "/slow-head" => Answer::Drip(answer, Duration::from_millis(20)),
            "/stops" => Answer::Stall([&head_only[..], b"some"].concat()),
            "/drip" => {
                let drip = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 500]].concat();
                Answer::Drip(drip, Duration::from_millis(5))
            }
            _ => Answer::Stay(answer),
        }
    })
    .await;
    let strict = fetcher(|settings| {
        settings.first_byte_timeout_ms = 150;
        settings.between_bytes_timeout_ms = 150;
        settings.whole_timeout_ms = 10_000;
    });
    for (path, wanted) in [
        ("/silent", Phase::FirstByte),
        ("/slow-head", Phase::FirstByte),
        ("/stops", Phase::BetweenBytes),
    ] {
        let (kind, error) = failure(&strict, server.url(path)).await;
        assert_eq!(
            (kind, phase(&error)),
            (FetchErrorKind::Timeout, wanted),
            "{error}"
        );
        assert!(error.is_worth_retrying());
    }
    // A slow drip keeps to all limits but for that of the whole.
    let patient = fetcher(|settings| settings.whole_timeout_ms = 400);
    let (_, error) = failure(&patient, server.url("/drip")).await;
    assert_eq!(phase(&error), Phase::Whole);
    until("the connections are closed", || {
        strict.connections_open() == 0 && patient.connections_open() == 0
    })
    .await;
    // The control: the same bytes at once.
    assert_eq!(get(&strict, server.url("/")).await.unwrap().body.len(), 500);
}

#[tokio::test]
async fn a_drip_within_its_limits_is_waited_for() {
    let server = serve(|_, _| {
        Answer::Drip(
            with_length("200 OK", "", "x".repeat(20)),
            Duration::from_millis(2),
        )
    })
    .await;
    let fetched = get(&fetcher(|_| {}), server.url("/")).await.unwrap();
    assert_eq!(fetched.body.len(), 20);
}

#[tokio::test]
async fn waiting_for_a_free_connection_ends_too() {
    let server = serve(|_, _| Answer::Stall(Vec::new())).await;
    let fetcher = fetcher(|settings| {
        settings.connections_per_host_max = 1;
        settings.whole_timeout_ms = 200;
    });
    let fetches = (0..4).map(|_| {
        let (fetcher, url) = (fetcher.clone(), server.url("/"));
        tokio::spawn(async move { failure(&fetcher, url).await })
    });
    for fetch in fetches.collect::<Vec<_>>() {
        let (_, error) = fetch.await.unwrap();
        let is_expected = matches!(phase(&error), Phase::FreeConnection | Phase::Whole);
        assert!(is_expected, "{error}");
    }
    assert_eq!(server.open_most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_encrypted_connection_that_is_never_agreed_on_ends_in_time() {
    let server = serve(|_, _| Answer::Stall(Vec::new())).await;
    let fetcher = fetcher(|settings| settings.connect_timeout_ms = 100);
    let mut url = server.url("/");
    url.set_scheme("https").unwrap();
    let (_, error) = failure(&fetcher, url).await;
    assert_eq!(phase(&error), Phase::Connect);
    assert_eq!(fetcher.connections_open(), 0);
}
