//! Server-sent events.

use axum::response::IntoResponse;
use axum::response::sse::{KeepAlive, Sse};
use tokio::sync::mpsc;

use super::Reply;
use super::streaming::{Gone, Received, why};

pub use axum::response::sse::Event;

/// An answer that goes on with events for as long as the client listens (`text/event-stream`).
pub struct Events {
    receiver: mpsc::Receiver<Event>,
}

impl Events {
    /// Events that are sent from anywhere. At most so many wait for a slow client.
    pub fn channel(waiting_max: usize) -> (EventSender, Self) {
        let (sender, receiver) = mpsc::channel(waiting_max.max(1));
        (EventSender { sender }, Self { receiver })
    }
}

impl IntoResponse for Events {
    fn into_response(self) -> Reply {
        let received = Received {
            receiver: self.receiver,
        };
        Sse::new(received)
            .keep_alive(KeepAlive::default())
            .into_response()
    }
}

/// Sends events to one client, who listens until this and all its copies are dropped.
#[derive(Clone, Debug)]
pub struct EventSender {
    sender: mpsc::Sender<Event>,
}

impl EventSender {
    /// Sends an event, if there is room for it.
    pub fn send(&self, event: Event) -> Result<(), Gone> {
        self.sender.try_send(event).map_err(why)
    }

    /// Sends text, if there is room for it.
    pub fn send_text(&self, text: &str) -> Result<(), Gone> {
        // Events end lines with line feeds only.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        self.send(Event::default().data(text))
    }

    /// Whether the client is gone.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}
