//! WebSockets.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;

use crate::extract::{Asked, Extract, Problem};

use super::Reply;

pub use axum::extract::ws::{Message, WebSocket};

/// A request to go on as a WebSocket.
///
/// The function that has it may take state as any other, to decide. What it then runs has the socket and none of that.
pub struct Upgrade {
    upgrade: WebSocketUpgrade,
}

impl Upgrade {
    /// How large a message may be.
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.upgrade = self.upgrade.max_message_size(bytes);
        self
    }

    /// Answers that it goes on as a WebSocket, and runs this with it.
    pub fn run<F>(self, run: impl FnOnce(WebSocket) -> F + Send + 'static) -> Reply
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.upgrade.on_upgrade(run)
    }
}

impl Extract for Upgrade {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        let found = pin!(WebSocketUpgrade::from_request_parts(asked.parts_mut(), &()));
        match found.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(upgrade)) => Ok(Self {
                upgrade: upgrade.max_message_size(MESSAGE_BYTES_MAX),
            }),
            Poll::Ready(Err(rejection)) => Err(Problem::new(
                rejection.status().as_u16(),
                "A WebSocket is wanted",
            )
            .detail(rejection.body_text())),
            Poll::Pending => Err(Problem::new(500, "The request cannot be upgraded")),
        }
    }
}

/// How large a message may be unless something else is said.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
