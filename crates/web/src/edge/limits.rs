//! What clients may take: sizes, numbers and times.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// hyper keeps this many headers on its stack; more would cost it an allocation for each request.
const HEADERS_MOST: usize = 100;
/// What hyper can take as a URI.
const URI_BYTES_MOST: usize = 65_534;
/// What hyper needs at least for its buffers.
const BUFFER_BYTES_LEAST: usize = 64 << 10;
/// Deadlines are looked after at least that often, and not more often than the second.
const TICK_MOST: Duration = Duration::from_millis(250);
const TICK_LEAST: Duration = Duration::from_millis(5);

/// What clients may take of a server. Each limit has a default that serves most services.
///
/// Times are measured by a clock that stands still while the server itself does not get to run, so
/// that nobody is cut off for what is not his fault. A time limit strikes at most half a second
/// late, or half of the limit if that is less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EdgeLimits {
    /// Connections at a time. More are answered with 503 and closed.
    pub connections_max: usize,
    /// Connections at a time from one client address; of IPv6, from one /64 network. More are
    /// answered with 503 and closed.
    pub connections_per_address_max: usize,
    /// Bytes of a request before its body: 431 beyond that.
    pub header_bytes_max: usize,
    /// Headers of a request, at most 100: 431 beyond that.
    pub headers_max: usize,
    /// Bytes of a URI, at most 65,534: 414 beyond that.
    pub uri_bytes_max: usize,
    /// From the first byte of a request to the end of its headers, and from the beginning of a
    /// connection to the end of its first headers: 408 after that.
    pub header_timeout_ms: u64,
    /// How long a connection may wait for its next request.
    pub keep_alive_timeout_ms: u64,
    /// Requests that come over one connection, one after another.
    pub requests_per_connection_max: u64,
    /// Bytes of a body: 413 beyond that.
    pub body_bytes_max: u64,
    /// How long a handler that reads a body waits for more of it: 408 after that.
    pub body_gap_timeout_ms: u64,
    /// How long a handler waits for a body in all: 408 after that.
    pub body_timeout_ms: u64,
    /// How long a client may leave an answer lying. Who takes less is cut off.
    pub write_timeout_ms: u64,
    /// How much of a large answer a client must take in a second on the whole, or be cut off.
    pub write_bytes_per_second_min: u64,
    /// Requests that are read and not answered yet. More are answered with 503 at once.
    pub requests_under_way_max: usize,
    /// What is under way when the server ends gets that long.
    pub ending_timeout_ms: u64,
}

impl Default for EdgeLimits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            connections_per_address_max: 1_000,
            header_bytes_max: 16 << 10,
            headers_max: HEADERS_MOST,
            uri_bytes_max: 8 << 10,
            header_timeout_ms: 8_000,
            keep_alive_timeout_ms: 30_000,
            requests_per_connection_max: 100_000,
            body_bytes_max: 2 << 20,
            body_gap_timeout_ms: 10_000,
            body_timeout_ms: 60_000,
            write_timeout_ms: 20_000,
            write_bytes_per_second_min: 1_024,
            requests_under_way_max: 4_096,
            ending_timeout_ms: 10_000,
        }
    }
}

impl EdgeLimits {
    /// The same, with what cannot be served brought to what can.
    pub(super) fn resolved(mut self) -> Self {
        self.headers_max = self.headers_max.clamp(1, HEADERS_MOST);
        self.uri_bytes_max = self.uri_bytes_max.clamp(1, URI_BYTES_MOST);
        self.requests_per_connection_max = self.requests_per_connection_max.max(1);
        self.write_bytes_per_second_min = self.write_bytes_per_second_min.max(1);
        self
    }

    /// How much of a connection hyper may hold in memory, each way.
    pub(super) fn buffer_bytes_max(&self) -> usize {
        BUFFER_BYTES_LEAST.max(self.header_bytes_max + (8 << 10))
    }

    /// How often deadlines are looked after.
    pub(super) fn tick(&self) -> Duration {
        let shortest = [
            self.header_timeout_ms,
            self.keep_alive_timeout_ms,
            self.body_gap_timeout_ms,
            self.body_timeout_ms,
            self.write_timeout_ms,
        ];
        let shortest = shortest.into_iter().min().unwrap_or_default();
        Duration::from_millis(shortest / 4).clamp(TICK_LEAST, TICK_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_served_is_brought_to_what_can() {
        let limits = EdgeLimits {
            headers_max: 5_000,
            uri_bytes_max: 1 << 20,
            write_bytes_per_second_min: 0,
            header_bytes_max: 1 << 20,
            ..EdgeLimits::default()
        };
        let limits = limits.resolved();
        assert_eq!(limits.headers_max, 100);
        assert_eq!(limits.uri_bytes_max, 65_534);
        assert_eq!(limits.write_bytes_per_second_min, 1);
        assert!(limits.buffer_bytes_max() > 1 << 20);
    }

    #[test]
    fn the_defaults_can_be_served_as_they_are() {
        let limits = EdgeLimits::default();
        assert_eq!(limits.clone().resolved(), limits);
    }

    #[test]
    fn short_limits_are_looked_after_more_often() {
        let of = |header_timeout_ms| EdgeLimits {
            header_timeout_ms,
            ..EdgeLimits::default()
        };
        assert_eq!(of(8_000).tick(), TICK_MOST);
        assert_eq!(of(100).tick(), Duration::from_millis(25));
        assert_eq!(of(0).tick(), TICK_LEAST);
    }
}
