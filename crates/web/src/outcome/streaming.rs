//! Answers that are made while they are written.

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_core::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

use super::Reply;

/// An answer that is made piece by piece while it is written.
pub struct Streaming {
    body: Body,
}

impl Streaming {
    /// Whatever comes out of a stream. An error cuts the answer off.
    pub fn new<S, B, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<B, E>> + Send + 'static,
        B: Into<Bytes> + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        Self {
            body: Body::from_stream(stream),
        }
    }

    /// Whatever is sent. At most so many pieces wait for a slow client.
    pub fn channel(waiting_max: usize) -> (StreamSender, Self) {
        let (sender, receiver) = mpsc::channel(waiting_max.max(1));
        let pieces = Received { receiver };
        (StreamSender { sender }, Self::new(pieces))
    }
}

impl IntoResponse for Streaming {
    fn into_response(self) -> Reply {
        self.body.into_response()
    }
}

/// The client is gone, or does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// The client is gone.
    #[error("the client is gone")]
    Closed,
    /// As much waits for the client as may.
    #[error("the client does not keep up")]
    Full,
}

/// Sends pieces of an answer. The answer ends when it and all its copies are dropped.
#[derive(Clone, Debug)]
pub struct StreamSender {
    sender: mpsc::Sender<Bytes>,
}

impl StreamSender {
    /// Sends this, if there is room for it.
    pub fn send(&self, piece: impl Into<Bytes>) -> Result<(), Gone> {
        self.sender.try_send(piece.into()).map_err(why)
    }

    /// Sends this as soon as there is room for it.
    pub async fn send_when_ready(&self, piece: impl Into<Bytes>) -> Result<(), Gone> {
        let sent = self.sender.send(piece.into()).await;
        sent.map_err(|_| Gone::Closed)
    }

    /// Whether the client is gone.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

pub(super) fn why<T>(error: mpsc::error::TrySendError<T>) -> Gone {
    match error {
        mpsc::error::TrySendError::Full(_) => Gone::Full,
        mpsc::error::TrySendError::Closed(_) => Gone::Closed,
    }
}

/// What was sent, as a stream.
pub(super) struct Received<T> {
    pub(super) receiver: mpsc::Receiver<T>,
}

impl<T> Stream for Received<T> {
    type Item = Result<T, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver
            .poll_recv(context)
            .map(|next| next.map(Ok::<T, Infallible>))
    }
}
