//! What hyper calls for each request: counts it, hands it to the router, and sees to the answer.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use tower::Service;

use super::refusal::{Refusal, Refused};
use super::watched::{Switch, Watched, Where};

const REQUESTS_FULL: Refused = Refused::new(
    Refusal::RequestsFull,
    "as many requests are under way as this server takes: try again in a moment",
);
const BODY_BROKE_OFF: Refused = Refused::malformed("the body broke off");

/// The service of one connection.
pub(super) fn service(
    watched: Arc<Watched>,
    peer: SocketAddr,
    router: Router,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<AnswerBody>,
    Error = Infallible,
    Future: Send,
> + Send {
    // Calling a router needs it alone, and cloning it for each request would have all threads write to
    // one counter.
    let router = RefCell::new(router);
    service_fn(move |request: Request<Incoming>| {
        let under_way = UnderWay::begin(watched.clone());
        let method = (request.method() == Method::CONNECT).then_some(Method::CONNECT);
        let answering = under_way.has_room.then(|| {
            let mut request = with_limits(request, &watched);
            request.extensions_mut().insert(ConnectInfo(peer));
            router.borrow_mut().call(request)
        });
        async move {
            let response = match answering {
                Some(answering) => {
                    let Ok(response) = answering.await;
                    response
                }
                None => REQUESTS_FULL.response(),
            };
            Ok(under_way.answer(response, method))
        }
    })
}

/// The request with a body that keeps to the limits.
fn with_limits(request: Request<Incoming>, watched: &Arc<Watched>) -> Request<Body> {
    request.map(|incoming| match incoming.is_end_stream() {
        true => Body::empty(),
        false => Body::new(RequestBody {
            incoming,
            watched: watched.clone(),
            waits_since: None,
            waited_ms: 0,
        }),
    })
}

/// A request that is not wholly answered yet.
struct UnderWay {
    watched: Arc<Watched>,
    has_room: bool,
    is_last: bool,
    /// Which request of its connection it is.
    number: u64,
}

impl UnderWay {
    fn begin(watched: Arc<Watched>) -> Self {
        watched.called.add(1);
        let has_room = watched.edge.begin_request();
        if !has_room {
            watched.edge.count(Refusal::RequestsFull);
        }
        let number = watched.called.get();
        Self {
            is_last: number >= watched.edge.limits.requests_per_connection_max,
            watched,
            has_room,
            number,
        }
    }

    /// Takes the answer, which another one replaces if the body was refused meanwhile.
    fn answer(self, response: Response<Body>, connect: Option<Method>) -> Response<AnswerBody> {
        let mut response = match self.watched.refused() {
            Some((refused, Where::Body)) => refused.response(),
            _ => response,
        };
        if self.is_last {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        self.settle_switch(&response, connect.is_some());
        response.map(|body| AnswerBody {
            body,
            _under_way: self,
        })
    }

    /// Says whether the connection speaks another protocol now. The gate lets nothing through behind
    /// a request that may switch, so that one is the last that was let through.
    fn settle_switch(&self, response: &Response<Body>, is_connect: bool) {
        let watched = &self.watched;
        if self.number != watched.passed.get() || watched.switch() != Switch::Unknown {
            return;
        }
        let status = response.status();
        let switches =
            status == StatusCode::SWITCHING_PROTOCOLS || is_connect && status.is_success();
        watched.set_switch(match switches {
            true => Switch::Switched,
            false => Switch::Stayed,
        });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.watched.answered.add(1);
        if self.has_room {
            self.watched.edge.end_request();
        }
    }
}

/// The body of an answer. Once hyper is done with it, the request is not under way any more.
pub(super) struct AnswerBody {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request. Deadlines run only while somebody waits for more of it.
struct RequestBody {
    incoming: Incoming,
    watched: Arc<Watched>,
    waits_since: Option<u64>,
    waited_ms: u64,
}

impl RequestBody {
    fn wait(&mut self) {
        if self.waits_since.is_some() {
            return;
        }
        let edge = &self.watched.edge;
        let limits = &edge.limits;
        let left_ms = limits.body_timeout_ms.saturating_sub(self.waited_ms);
        let due = edge.in_ms(limits.body_gap_timeout_ms.min(left_ms));
        self.waits_since = Some(edge.now_ms());
        self.watched.await_body_until(due);
    }

    fn wait_no_more(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.waited_ms += self.watched.edge.now_ms() - since;
            self.watched.await_no_body();
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        match &polled {
            Poll::Pending => self.wait(),
            Poll::Ready(Some(Err(_))) => {
                self.wait_no_more();
                // Unless there is a better reason already.
                self.watched.refuse(BODY_BROKE_OFF, Where::Body);
            }
            Poll::Ready(_) => self.wait_no_more(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.wait_no_more();
    }
}
