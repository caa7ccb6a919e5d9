//! Counters and histograms.
//!
//! Each crate declares its own in one struct and registers them in one function; the binary
//! exports them. Counting costs one relaxed atomic addition.

pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding;
pub use prometheus_client::metrics::counter::{ConstCounter, Counter};
pub use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
pub use prometheus_client::metrics::histogram::Histogram;
pub use prometheus_client::registry::Registry;

/// A histogram of durations in seconds, from 10 µs to 10 s.
pub fn duration_histogram() -> Histogram {
    Histogram::new([
        0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01,
        0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ])
}

/// The registry as text in the format that Prometheus reads.
pub fn to_text(registry: &Registry) -> String {
    let mut text = String::new();
    encoding::text::encode(&mut text, registry).expect("writing to a string cannot fail");
    text
}
