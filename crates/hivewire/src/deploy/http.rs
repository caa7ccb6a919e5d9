//! HTTP for built-in plug-ins, with the same guard against private addresses that components are fetched with.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flows::plugins::{Answer, Http, Request};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use ureq::http;

use super::fetch::{self, Fetcher};

/// How many requests are under way at a time; each has a thread.
const REQUESTS_AT_ONCE: usize = 64;

/// Asks over HTTP.
pub(super) struct NodeHttp {
    fetcher: Fetcher,
    permits: Arc<Semaphore>,
}

impl NodeHttp {
    pub fn new(fetcher: Fetcher) -> Self {
        Self {
            fetcher,
            permits: Arc::new(Semaphore::new(REQUESTS_AT_ONCE)),
        }
    }
}

#[async_trait]
impl Http for NodeHttp {
    async fn ask(&self, request: Request) -> Result<Answer, String> {
        fetch::check(&request.url).map_err(str::to_owned)?;
        let patience = request.timeout;
        let asking = async {
            let permit = self.permits.clone().acquire_owned().await;
            let fetcher = self.fetcher.clone();
            let asking = tokio::task::spawn_blocking(move || {
                // Whoever asked may be gone; the thread is there until the request has ended.
                let _permit = permit;
                ask(&fetcher, request, patience)
            });
            asking.await.map_err(|error| error.to_string())?
        };
        match timeout(patience, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer came within {patience:?}")),
        }
    }
}

/// Blocks.
fn ask(fetcher: &Fetcher, request: Request, patience: Duration) -> Result<Answer, String> {
    let mut builder = http::Request::builder()
        .method(request.method)
        .uri(request.url.as_str());
    for (name, value) in &request.headers {
        builder = builder.header(name, value);
    }
    let asked = builder.body(request.body.to_vec());
    let asked = asked.map_err(|error| error.to_string())?;
    let agent = fetcher.agent();
    let asked = agent
        .configure_request(asked)
        .timeout_global(Some(patience))
        .build();
    let answer = agent.run(asked).map_err(|error| error.to_string())?;
    let (parts, mut body) = answer.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let bytes_max = request.answer_bytes_max;
    // The limit of the library has to be above what is allowed, not at it.
    let limited = body.with_config().limit(bytes_max as u64 + 1);
    let read = limited.read_to_vec().map_err(|error| error.to_string())?;
    if read.len() > bytes_max {
        return Err(format!("the answer has more than {bytes_max} bytes"));
    }
    Ok(Answer {
        status: parts.status.as_u16(),
        headers: parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: Bytes::from(read),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::deploy::DeploySettings;

    fn http(allow_private_sources: bool) -> NodeHttp {
        NodeHttp::new(Fetcher::new(DeploySettings {
            allow_private_sources,
            ..DeploySettings::default()
        }))
    }

    fn request(address: std::net::SocketAddr) -> Request {
        Request {
            method: "POST",
            url: format!("http://{address}/path").parse().unwrap(),
            headers: vec![("x-one".to_owned(), "1".to_owned())],
            body: Bytes::from_static(b"question"),
            timeout: Duration::from_secs(20),
            answer_bytes_max: 6,
        }
    }

    #[tokio::test]
    async fn what_is_asked_is_answered_within_limits() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for body in ["answer", "answers"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                let mut some = [0; 1_024];
                while !head.ends_with(b"question") {
                    let read = stream.read(&mut some).unwrap();
                    head.extend_from_slice(&some[..read]);
                }
                assert!(head.starts_with(b"POST /path HTTP/1.1"));
                let answer = format!(
                    "HTTP/1.1 418 Teapot\r\nX-Two: 2\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let answer = http(true).ask(request(address)).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (418, &b"answer"[..]));
        assert!(
            answer
                .headers
                .contains(&("x-two".to_owned(), "2".to_owned()))
        );
        assert!(
            http(true).ask(request(address)).await.is_err(),
            "it is too long"
        );
        let refused = http(false).ask(request(address)).await.unwrap_err();
        assert!(refused.contains("no public address"), "{refused}");
    }
}
