//! Certificates, and HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use crawl::fetch::{FetchErrorKind, FetchSettings, Fetcher, HttpVersion, Resolve};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use crate::rig::{Answer, Server, failure, fetcher, get, local, page, serve_through, until};

/// Somebody who makes certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn acceptor(&self, name: &str, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Serves under this name.
    pub async fn serve(
        &self,
        name: &str,
        answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static,
    ) -> Server {
        let acceptor = self.acceptor(name, &["http/1.1"]);
        serve_through(answer, move |stream| {
            let accepting = acceptor.accept(stream);
            async move { accepting.await.ok() }
        })
        .await
    }
}

/// Every name is this machine.
struct Everything;

#[async_trait::async_trait]
impl Resolve for Everything {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

fn trusting(authority: &Authority, change: impl FnOnce(&mut FetchSettings)) -> Arc<Fetcher> {
    let mut settings = local();
    settings.certificates_trusted = vec![authority.pem()];
    change(&mut settings);
    Fetcher::with_resolver(settings, Arc::new(Everything)).unwrap()
}

fn url(name: &str, port: u16) -> Url {
    Url::parse(&format!("https://{name}:{port}/")).unwrap()
}

#[tokio::test]
async fn certificates_must_be_valid_unless_told_otherwise() {
    let authority = Authority::new();
    let server = authority.serve("safe.example", |_, _| page("safe")).await;
    let at = |name| url(name, server.address.port());
    let trusting = trusting(&authority, |_| {});
    let fetched = get(&trusting, at("safe.example")).await.unwrap();
    assert_eq!(
        (&fetched.body[..], fetched.version),
        (&b"safe"[..], HttpVersion::One1)
    );
    get(&trusting, at("safe.example")).await.unwrap();
    assert_eq!(server.accepted(), 1);

    // It is the certificate of somebody else.
    let (kind, error) = failure(&trusting, at("other.example")).await;
    assert_eq!(kind, FetchErrorKind::Tls, "{error}");
    assert!(!error.is_worth_retrying());
    // Nobody knows who made it.
    let (kind, error) = failure(&fetcher(|_| {}), at("127.0.0.1")).await;
    assert_eq!(kind, FetchErrorKind::Tls, "{error}");
    assert!(!error.is_worth_retrying());
    assert_eq!(server.request_count(), 2, "nothing was asked for");
    let careless = fetcher(|settings| settings.verify_certificates = false);
    assert_eq!(
        &get(&careless, at("127.0.0.1")).await.unwrap().body[..],
        b"safe"
    );
}

#[tokio::test]
async fn a_server_without_encryption_is_not_mistaken_for_one_with() {
    let server = crate::rig::serve(|_, _| page("plain")).await;
    let at = url("127.0.0.1", server.address.port());
    let careless = fetcher(|settings| {
        settings.verify_certificates = false;
        settings.connect_timeout_ms = 2_000;
    });
    let (kind, _) = failure(&careless, at).await;
    let is_expected = matches!(kind, FetchErrorKind::Tls | FetchErrorKind::Timeout);
    assert!(is_expected, "{kind:?}");
}

/// A server that speaks HTTP/2 and closes each connection after so many requests.
async fn serve_two(authority: &Authority, requests_max: usize) -> (u16, Arc<AtomicUsize>) {
    let acceptor = authority.acceptor("two.example", &["h2"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = accepted.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let accepting = acceptor.accept(stream);
            tokio::spawn(async move {
                let Ok(stream) = accepting.await else { return };
                let served = Arc::new(AtomicUsize::new(0));
                let counting = served.clone();
                let service = service_fn(move |request| answer_two(request, counting.clone()));
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                let mut serving = std::pin::pin!(serving);
                let enough = until("enough was served", || {
                    served.load(Ordering::SeqCst) >= requests_max
                });
                tokio::select! {
                    _ = serving.as_mut() => return,
                    () = enough, if requests_max < usize::MAX => {}
                }
                serving.as_mut().graceful_shutdown();
                let _ = serving.await;
            });
        }
    });
    (port, accepted)
}

async fn answer_two(
    request: Request<hyper::body::Incoming>,
    served: Arc<AtomicUsize>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.uri().host(), Some("two.example"));
    let body = match request.uri().path() {
        "/long" => "x".repeat(300_000),
        path => format!("page {path}"),
    };
    served.fetch_add(1, Ordering::SeqCst);
    let response = Response::builder().header("content-type", "text/plain");
    Ok(response.body(Full::new(body.into())).unwrap())
}

#[tokio::test]
async fn http2_carries_many_requests_over_one_connection() {
    let authority = Authority::new();
    let (port, accepted) = serve_two(&authority, usize::MAX).await;
    let fetcher = trusting(&authority, |settings| settings.connections_per_host_max = 4);
    let fetches = (0..40).map(|number| {
        let fetcher = fetcher.clone();
        let mut url = url("two.example", port);
        url.set_path(&format!("/{number}"));
        tokio::spawn(async move { get(&fetcher, url).await.unwrap() })
    });
    for (number, fetch) in fetches.collect::<Vec<_>>().into_iter().enumerate() {
        let fetched = fetch.await.unwrap();
        assert_eq!(fetched.body, format!("page /{number}"));
        assert_eq!(fetched.version, HttpVersion::Two);
        assert_eq!(fetched.mime.as_deref(), Some("text/plain"));
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
    // Whoever does not want it speaks as before, or not at all with a server that knows nothing else.
    let old = trusting(&authority, |settings| settings.http2 = false);
    let (kind, error) = failure(&old, url("two.example", port)).await;
    assert_eq!(kind, FetchErrorKind::Tls, "{error}");
}

#[tokio::test]
async fn limits_hold_for_http2_too() {
    let authority = Authority::new();
    let (port, _) = serve_two(&authority, usize::MAX).await;
    let mut long = url("two.example", port);
    long.set_path("/long");
    let strict = trusting(&authority, |settings| settings.body_bytes_max = 200_000);
    let (kind, _) = failure(&strict, long.clone()).await;
    assert_eq!(kind, FetchErrorKind::TooLarge);
    let wide = trusting(&authority, |settings| settings.idle_timeout_ms = 50);
    assert_eq!(get(&wide, long).await.unwrap().body.len(), 300_000);
    until("it is closed", || wide.connections_open() == 0).await;
}

#[tokio::test]
async fn a_server_that_closes_its_http2_connection_is_connected_to_again() {
    let authority = Authority::new();
    let (port, accepted) = serve_two(&authority, 3).await;
    let fetcher = trusting(&authority, |_| {});
    for _ in 0..12 {
        let fetched = get(&fetcher, url("two.example", port)).await.unwrap();
        assert_eq!(fetched.status, 200);
    }
    let accepted = accepted.load(Ordering::SeqCst);
    assert!((2..=5).contains(&accepted), "{accepted}");
}
