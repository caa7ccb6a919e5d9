//! Through a proxy: as it is for http, through a tunnel for https.

use std::sync::Arc;

use crawl::fetch::{FetchErrorKind, FetchSettings, Fetcher, Proxy};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::encrypted::Authority;
use crate::rig::{Answer, failure, get, page, read_head, serve, with_length};

/// A proxy that leads every tunnel to one server, whatever its name is. Gives its address and the heads it saw.
async fn tunnels_to(port: u16, says: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                let Some(head) = read_head(&mut client).await else {
                    return;
                };
                seen.lock().push(head);
                let _ = client.write_all(says.as_bytes()).await;
                if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    (address, heads)
}

fn through(proxy: &str) -> FetchSettings {
    FetchSettings {
        proxy: Some(Proxy::new(format!("http://name:planted@{proxy}"))),
        ..FetchSettings::default()
    }
}

#[tokio::test]
async fn http_is_sent_to_the_proxy_as_it_is() {
    // What the proxy resolves is its business, and its own address is that of whoever set it up.
    let proxy = serve(|_, _| page("through")).await;
    let fetcher = Fetcher::new(through(&proxy.address.to_string())).unwrap();
    for host in ["one.example", "two.example"] {
        let url = Url::parse(&format!("http://{host}/a?b")).unwrap();
        let fetched = get(&fetcher, url).await.unwrap();
        assert_eq!(&fetched.body[..], b"through");
    }
    let heads = proxy.requests.lock().clone();
    assert!(
        heads[0].starts_with("GET http://one.example/a?b HTTP/1.1\r\n"),
        "{heads:?}"
    );
    assert!(heads[1].contains("\r\nhost: two.example\r\n"), "{heads:?}");
    assert!(heads[1].contains("proxy-authorization: Basic bmFtZTpwbGFudGVk\r\n"));
    assert_eq!(proxy.accepted(), 1, "one connection serves all hosts");
    let private = Url::parse("http://127.0.0.1/").unwrap();
    let (kind, _) = failure(&fetcher, private).await;
    assert_eq!(kind, FetchErrorKind::Private);
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let authority = Authority::new();
    let server = authority.serve("safe.example", |_, _| page("safe")).await;
    let port = server.address.port();
    let (proxy, heads) = tunnels_to(port, "HTTP/1.1 200 Connection established\r\n\r\n").await;
    let mut settings = through(&proxy);
    settings.certificates_trusted = vec![authority.pem()];
    let fetcher = Fetcher::new(settings).unwrap();
    let url = Url::parse("https://safe.example:8443/a").unwrap();
    for _ in 0..2 {
        assert_eq!(&get(&fetcher, url.clone()).await.unwrap().body[..], b"safe");
    }
    let heads = heads.lock().clone();
    assert_eq!(heads.len(), 1);
    assert!(
        heads[0].starts_with("CONNECT safe.example:8443 HTTP/1.1\r\n"),
        "{heads:?}"
    );
    assert!(heads[0].contains("Basic bmFtZTpwbGFudGVk"));
    // The server hears nothing of what is meant for the proxy.
    let head = server.requests.lock()[0].to_lowercase();
    assert!(
        head.starts_with("get /a http/1.1\r\n") && !head.contains("proxy"),
        "{head}"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let no = "HTTP/1.1 403 Forbidden\r\n\r\n";
    let (proxy, _) = tunnels_to(1, no).await;
    let fetcher = Fetcher::new(through(&proxy)).unwrap();
    let url = Url::parse("https://safe.example/").unwrap();
    let (kind, error) = failure(&fetcher, url.clone()).await;
    assert_eq!(kind, FetchErrorKind::Proxy);
    let text = format!("{error} {error:?} {:?}", fetcher.settings());
    assert!(
        text.contains("403 Forbidden") && text.contains(&proxy),
        "{text}"
    );
    assert!(!text.contains("planted"), "{text}");
    let silent = serve(|_, _| Answer::Close(with_length("", "", ""))).await;
    let fetcher = Fetcher::new(through(&silent.address.to_string())).unwrap();
    let (kind, _) = failure(&fetcher, url).await;
    assert_eq!(kind, FetchErrorKind::Proxy);
}
