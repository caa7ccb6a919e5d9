//! Names, what they resolve to, and that nothing changes between the check and the connection.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use crawl::fetch::{FetchErrorKind, FetchSettings, Fetcher, Resolve};
use url::Url;

use crate::rig::{Answer, failure, get, serve, with_length};

/// Says something else each time.
struct Fickle {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Resolve for Fickle {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[at.min(self.answers.len() - 1)].clone())
    }
}

fn fickle(answers: &[&[&str]]) -> Arc<Fickle> {
    let parsed = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Arc::new(Fickle {
        answers: answers.iter().map(parsed).collect(),
        asked: AtomicUsize::new(0),
    })
}

/// The first address of loopback is taken for a public one.
fn settings() -> FetchSettings {
    FetchSettings {
        private_allowed: vec!["127.0.0.1".parse().unwrap()],
        ..FetchSettings::default()
    }
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    let server =
        serve(|_, _| Answer::Close(with_length("200 OK", "Connection: close\r\n", "x"))).await;
    let url = format!("http://rebinding.example:{}/", server.address.port());
    let url = Url::parse(&url).unwrap();
    let names = fickle(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let fetcher = Fetcher::with_resolver(settings(), names.clone()).unwrap();
    for _ in 0..3 {
        let fetched = get(&fetcher, url.clone()).await.unwrap();
        assert_eq!(fetched.remote, server.address);
    }
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    let host = format!("\r\nhost: rebinding.example:{}\r\n", server.address.port());
    assert!(server.requests.lock()[0].contains(&host));

    // Forgotten at once, it is looked up again, and what it is now is refused.
    let names = fickle(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let forgetful = FetchSettings {
        names_kept_ms: 0,
        ..settings()
    };
    let fetcher = Fetcher::with_resolver(forgetful, names).unwrap();
    get(&fetcher, url.clone()).await.unwrap();
    let (kind, error) = failure(&fetcher, url).await;
    assert_eq!(kind, FetchErrorKind::Private, "{error}");
}

#[tokio::test]
async fn names_that_lead_behind_the_firewall_are_refused() {
    let server = serve(|_, _| Answer::Stay(with_length("200 OK", "", "x"))).await;
    let url = format!("http://inside.example:{}/", server.address.port());
    let url = Url::parse(&url).unwrap();
    for inside in [
        "127.0.0.2",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
    ] {
        let fetcher = Fetcher::with_resolver(settings(), fickle(&[&[inside]])).unwrap();
        let (kind, error) = failure(&fetcher, url.clone()).await;
        assert_eq!(kind, FetchErrorKind::Private, "{error}");
        assert!(error.to_string().contains("allow_private"), "{error}");
        assert!(!error.is_worth_retrying());
    }
    assert_eq!(server.accepted(), 0);
    // Of several addresses only the allowed ones are used.
    let both = fickle(&[&["127.0.0.2", "127.0.0.1"]]);
    let fetcher = Fetcher::with_resolver(settings(), both).unwrap();
    assert_eq!(get(&fetcher, url).await.unwrap().remote, server.address);
}

#[tokio::test]
async fn localhost_is_refused_unless_it_is_allowed() {
    let server = serve(|_, _| Answer::Stay(with_length("200 OK", "", "x"))).await;
    let url = format!("http://localhost:{}/", server.address.port());
    let url = Url::parse(&url).unwrap();
    let usual = Fetcher::new(FetchSettings::default()).unwrap();
    let (kind, error) = failure(&usual, url.clone()).await;
    assert_eq!(kind, FetchErrorKind::Private, "{error}");
    assert_eq!(server.accepted(), 0);
    let open = crate::rig::fetcher(|_| {});
    assert_eq!(get(&open, url).await.unwrap().status, 200);
}
