//! What all WebSockets have in common.

use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use tokio::sync::watch;
use tokio::time::timeout;

use super::operation::{Asks, Operation};
use crate::http;

/// A blank line, or a ping, that often shows both sides that the other is still there.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Who neither answers nor takes anything for so long is gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Nothing is expected from the other side but pongs.
pub(super) const HEARD_BYTES_MAX: usize = 4 << 10;
pub(super) const BUFFER_BYTES: usize = 4 << 10;

impl Asks for Result<WebSocketUpgrade, WebSocketUpgradeRejection> {
    fn asks(_: &mut Operation) {}
}

/// Says that the node drains.
pub(super) async fn close(mut socket: WebSocket) {
    let close = CloseFrame {
        code: close_code::AWAY,
        reason: Utf8Bytes::from_static("the node drains"),
    };
    // The other side may be gone.
    let _ = timeout(CLOSE_TIMEOUT, socket.send(Message::Close(Some(close)))).await;
}

/// Whether the other side took it, before the node drains.
pub(super) async fn sent(
    socket: &mut WebSocket,
    message: Message,
    stop: &mut watch::Receiver<bool>,
) -> bool {
    tokio::select! {
        sent = timeout(SILENCE_MAX, socket.send(message)) => matches!(sent, Ok(Ok(()))),
        () = http::stopped(stop) => false,
    }
}
