//! What listeners count, for each protocol.

use kernel::metrics::{Counter, Gauge, Registry};

/// Counters of one protocol.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub connections: Gauge,
    pub connections_opened: Counter,
    pub connections_refused: Counter,
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub messages_in: Counter,
    pub messages_out: Counter,
    pub messages_refused: Counter,
    pub protocol_errors: Counter,
    pub datagrams_lost: Counter,
}

impl Counters {
    pub fn register(&self, protocol: &'static str, registry: &mut Registry) {
        let registry = registry.sub_registry_with_label(("protocol".into(), protocol.into()));
        registry.register(
            "connections",
            "Connections that are open",
            self.connections.clone(),
        );
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter(
            "connections_opened",
            "Connections that were accepted",
            &self.connections_opened,
        );
        counter(
            "connections_refused",
            "Connections that were refused at the limit",
            &self.connections_refused,
        );
        counter("bytes_in", "Bytes received", &self.bytes_in);
        counter("bytes_out", "Bytes sent", &self.bytes_out);
        counter("messages_in", "Messages received", &self.messages_in);
        counter("messages_out", "Messages sent", &self.messages_out);
        counter(
            "messages_refused",
            "Messages that were refused",
            &self.messages_refused,
        );
        counter(
            "protocol_errors",
            "Connections ended because of malformed input",
            &self.protocol_errors,
        );
        counter(
            "datagrams_lost",
            "Deliveries that could not be sent as datagrams",
            &self.datagrams_lost,
        );
    }
}
