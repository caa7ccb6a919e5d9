//! What the node logs about itself, on its way from `tracing` to the files.
//!
//! Logging starts before there is a data folder, so the first lines wait here until a node takes them.

use std::fmt::{self, Write};
use std::mem;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::line::Level;
use super::queue::{Event, Queue, Written};

/// How many lines wait for a node.
const EARLY_MAX: usize = 1_000;
/// A line that is longer is cut and says so.
const LINE_BYTES_MAX: usize = 8 << 10;

static TAP: Mutex<Tap> = Mutex::new(Tap::Early(Vec::new()));

enum Tap {
    Early(Vec<Event>),
    Node(Arc<Queue>),
    Nobody,
}

/// From now on the node's own log goes there, with what was logged before.
pub(super) fn attach(queue: &Arc<Queue>) {
    let before = mem::replace(&mut *TAP.lock(), Tap::Node(queue.clone()));
    if let Tap::Early(events) = before {
        for event in events {
            queue.put(Written::Node(event));
        }
    }
}

/// The node that had it has ended.
pub(super) fn detach(queue: &Arc<Queue>) {
    let mut tap = TAP.lock();
    if matches!(&*tap, Tap::Node(attached) if Arc::ptr_eq(attached, queue)) {
        *tap = Tap::Nobody;
    }
}

/// Hands on everything that is logged.
pub(crate) struct TapLayer;

impl<S: Subscriber> Layer<S> for TapLayer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let event = Event {
            at_ms: since.map_or(0, |since| since.as_millis() as u64),
            level: Level::from(*event.metadata().level()),
            target: event.metadata().target(),
            text: text.whole(),
        };
        let queue = match &mut *TAP.lock() {
            Tap::Node(queue) => queue.clone(),
            Tap::Early(events) if events.len() < EARLY_MAX => return events.push(event),
            Tap::Early(_) | Tap::Nobody => return,
        };
        queue.put(Written::Node(event));
    }
}

/// The message, and behind it the fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn whole(mut self) -> String {
        self.message.push_str(&self.fields);
        let length = self.message.len();
        if length > LINE_BYTES_MAX {
            let end = self.message.floor_char_boundary(LINE_BYTES_MAX);
            self.message.truncate(end);
            let _ = write!(self.message, " [cut from {length} bytes]");
        }
        self.message
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
