//! Metrics of services, read off them when somebody asks.

use std::collections::HashSet;
use std::fmt;

use kernel::metrics::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use kernel::metrics::{Collector, ConstCounter, ConstGauge};

use crate::edge::{EdgeNumbers, Refusal};
use crate::locks::{Histogram, LockNumbers};
use crate::loops::LoopNumbers;

use super::running::Running;

/// Times are shown by so many powers of two of a nanosecond, from 1 µs to 17 s; closer together where most of them are.
const BOUNDS: [u32; 19] = [
    10, 12, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 32, 34,
];

type Services = dyn Fn() -> Vec<(String, Running)> + Send + Sync;

/// Reads the numbers of services, each with its name as the label `service`. One of these is enough for all services of a process;
/// two in one registry would show each family twice, which readers refuse.
pub struct ServicesCollector {
    services: Box<Services>,
}

impl ServicesCollector {
    /// Reads the services that are there whenever somebody asks, which have names of their own.
    pub fn new(services: impl Fn() -> Vec<(String, Running)> + Send + Sync + 'static) -> Self {
        Self {
            services: Box::new(services),
        }
    }
}

impl fmt::Debug for ServicesCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServicesCollector")
    }
}

impl Collector for ServicesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let services = (self.services)();
        let seen: Vec<_> = services.iter().map(|(name, it)| seen(name, it)).collect();
        encode_all(&mut encoder, SERVICE_FAMILIES, || seen.iter())?;
        encode_all(&mut encoder, ROUTE_FAMILIES, || {
            seen.iter().flat_map(|one| &one.routes)
        })?;
        encode_all(&mut encoder, STATE_FAMILIES, || {
            seen.iter().flat_map(|one| &one.states)
        })?;
        encode_all(&mut encoder, REFUSED_FAMILIES, || {
            seen.iter().flat_map(|one| &one.refused)
        })
    }
}

/// The numbers of a service.
struct ServiceSeen {
    name: String,
    routes: Vec<RouteSeen>,
    states: Vec<StateSeen>,
    refused: Vec<RefusedSeen>,
    loops: LoopNumbers,
    overloaded: u64,
    edge: EdgeNumbers,
}

/// The numbers of a route.
struct RouteSeen {
    service: String,
    method: String,
    path: String,
    calls: u64,
    taking: Histogram,
    computing: Histogram,
    waiting_for_computations: u64,
}

/// The numbers of a state.
struct StateSeen {
    service: String,
    name: String,
    lock: LockNumbers,
    is_in_quarantine: bool,
}

/// How often the edge of a service refused something for one reason.
struct RefusedSeen {
    service: String,
    reason: &'static str,
    count: u64,
}

fn seen(service: &str, running: &Running) -> ServiceSeen {
    let inner = &*running.inner;
    let routes = inner.explanation.routes.iter().zip(&inner.routes);
    let routes = routes.map(|(explained, route)| RouteSeen {
        service: service.to_owned(),
        method: explained.method.clone(),
        path: explained.path.clone(),
        calls: route.steps[0].pace.calls(),
        taking: route.steps[0].pace.times(),
        computing: route.computing.times(),
        waiting_for_computations: route.flights.waiting() as u64,
    });
    let mut names = HashSet::new();
    let states = inner.explanation.states.iter().zip(inner.states.all());
    let states = states.map(|(explained, cell)| StateSeen {
        service: service.to_owned(),
        name: alone(&mut names, &explained.name),
        lock: inner.states.locks().numbers(cell.lock()),
        is_in_quarantine: cell.quarantine().is_some(),
    });
    let edge = inner.edges.total();
    let refused = Refusal::ALL.iter().map(|reason| RefusedSeen {
        service: service.to_owned(),
        reason: reason.name(),
        count: edge.refused(*reason),
    });
    ServiceSeen {
        name: service.to_owned(),
        routes: routes.collect(),
        states: states.collect(),
        refused: refused.collect(),
        loops: inner.engine.loops.numbers(),
        overloaded: inner.engine.overloaded(),
        edge,
    }
}

/// Types of different modules may have the same name, but labels must tell them apart.
fn alone(names: &mut HashSet<String>, name: &str) -> String {
    let mut numbered = (2..).map(|number| format!("{name} {number}"));
    let mut alone = name.to_owned();
    while !names.insert(alone.clone()) {
        alone = numbered.next().expect("there is always another number");
    }
    alone
}

/// A number of something.
enum Value<'a> {
    Counter(u64),
    Seconds(f64),
    Gauge(u64),
    Times(&'a Histogram),
}

/// Something that has numbers, told apart by labels.
trait Labelled {
    fn labels(&self) -> Vec<(&'static str, &str)>;
}

impl Labelled for ServiceSeen {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("service", &self.name)]
    }
}

impl Labelled for RouteSeen {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        let Self {
            service,
            method,
            path,
            ..
        } = self;
        vec![("service", service), ("method", method), ("path", path)]
    }
}

impl Labelled for StateSeen {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("service", &self.service), ("state", &self.name)]
    }
}

impl Labelled for RefusedSeen {
    fn labels(&self) -> Vec<(&'static str, &str)> {
        vec![("service", &self.service), ("reason", self.reason)]
    }
}

/// One number of all that are of a kind: its name, what it is, and how it is read.
type Family<T> = (&'static str, &'static str, for<'a> fn(&'a T) -> Value<'a>);

#[rustfmt::skip]
const SERVICE_FAMILIES: &[Family<ServiceSeen>] = &[
    ("service_overloaded", "Requests answered with 503 because too many waited or for too long", |it| Value::Counter(it.overloaded)),
    ("service_loops", "Event loops", |it| Value::Gauge(it.loops.loops as u64)),
    ("service_threads", "Threads that run handlers or watch them", |it| Value::Gauge(it.loops.threads as u64)),
    ("service_long_calls", "Long calls that have a thread of their own", |it| Value::Gauge(it.loops.long_now as u64)),
    ("service_queued_calls", "Calls that wait for an event loop", |it| Value::Gauge(it.loops.queued as u64)),
    ("service_loop_calls", "Calls done on event loops", |it| Value::Counter(it.loops.done)),
    ("service_loop_refused", "Calls refused because too many waited for an event loop", |it| Value::Counter(it.loops.refused)),
    ("service_loop_busy_seconds", "Time that calls took on event loops", |it| Value::Seconds(it.loops.busy_ns as f64 / 1e9)),
    ("service_connections", "Connections there are", |it| Value::Gauge(it.edge.connections)),
    ("service_connections_accepted", "Connections that were let in", |it| Value::Counter(it.edge.connections_accepted)),
    ("service_edge_requests", "Requests that came over connections", |it| Value::Counter(it.edge.requests)),
    ("service_edge_requests_under_way", "Requests whose answer is not wholly written yet", |it| Value::Gauge(it.edge.requests_under_way)),
    ("service_edge_read_bytes", "Bytes read from connections", |it| Value::Counter(it.edge.bytes_read)),
    ("service_edge_written_bytes", "Bytes written to connections", |it| Value::Counter(it.edge.bytes_written)),
];

#[rustfmt::skip]
const ROUTE_FAMILIES: &[Family<RouteSeen>] = &[
    ("service_requests", "Requests that a handler was called for", |it| Value::Counter(it.calls)),
    ("service_handling_seconds", "Time that the first handler of a route takes, estimated from samples where it is short", |it| Value::Times(&it.taking)),
    ("service_computing_seconds", "Time that computations without locks take", |it| Value::Times(&it.computing)),
    ("service_computing_waiting", "Requests that wait for a computation", |it| Value::Gauge(it.waiting_for_computations)),
];

#[rustfmt::skip]
const STATE_FAMILIES: &[Family<StateSeen>] = &[
    ("service_state_taken", "Times that a state was taken without waiting", |it| Value::Counter(it.lock.taken_at_once)),
    ("service_state_parked", "Times that a request had to wait for a state", |it| Value::Counter(it.lock.parked)),
    ("service_state_refused", "Requests refused because too many waited", |it| Value::Counter(it.lock.refused)),
    ("service_state_cancelled", "Requests that gave up waiting", |it| Value::Counter(it.lock.cancelled)),
    ("service_state_waiting", "Requests that wait for a state", |it| Value::Gauge(it.lock.waiting_now)),
    ("service_state_quarantine", "1 if no request gets the state after a panic", |it| Value::Gauge(u64::from(it.is_in_quarantine))),
    ("service_state_waiting_seconds", "Time that requests waited for a state, if they had to", |it| Value::Times(&it.lock.waiting)),
    ("service_state_holding_seconds", "Time that a state was held, estimated from samples", |it| Value::Times(&it.lock.holding)),
];

const REFUSED_FAMILIES: &[Family<RefusedSeen>] = &[(
    "service_edge_refused",
    "Connections and requests that were refused or cut off",
    |it| Value::Counter(it.count),
)];

fn encode_all<'a, T: Labelled + 'a, I: Iterator<Item = &'a T>>(
    encoder: &mut DescriptorEncoder<'_>,
    families: &[Family<T>],
    members: impl Fn() -> I,
) -> fmt::Result {
    for (name, help, value) in families {
        let Some(first) = members().next() else {
            return Ok(());
        };
        let kind = match value(first) {
            Value::Counter(_) | Value::Seconds(_) => ConstCounter::new(0_u64).metric_type(),
            Value::Gauge(_) => ConstGauge::new(0_u64).metric_type(),
            Value::Times(_) => kernel::metrics::Histogram::new([]).metric_type(),
        };
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for member in members() {
            let labels = member.labels();
            value(member).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

impl Value<'_> {
    fn encode(self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(value) => ConstCounter::new(value).encode(encoder),
            Self::Seconds(value) => ConstCounter::new(value).encode(encoder),
            Self::Gauge(value) => ConstGauge::new(value).encode(encoder),
            Self::Times(times) => {
                let seconds = times.sum_ns as f64 / 1e9;
                encoder.encode_histogram::<NoLabelSet>(
                    seconds,
                    times.count(),
                    &buckets(times),
                    None,
                )
            }
        }
    }
}

/// How many times lie between one bound and the next, in seconds.
fn buckets(times: &Histogram) -> Vec<(f64, u64)> {
    let mut from = 0;
    let mut buckets = Vec::with_capacity(BOUNDS.len() + 1);
    for bound in BOUNDS {
        // The last bucket below a bound is the one that ends with it.
        let count = times.buckets[from..bound as usize].iter().sum();
        buckets.push(((1_u64 << bound) as f64 / 1e9, count));
        from = bound as usize;
    }
    buckets.push((f64::INFINITY, times.buckets[from..].iter().sum()));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::BUCKETS;

    #[test]
    fn each_time_is_in_one_bucket() {
        let times = Histogram {
            buckets: [1; BUCKETS],
            sum_ns: 0,
        };
        let buckets = buckets(&times);
        assert_eq!(buckets.len(), 20);
        assert_eq!(
            buckets.iter().map(|(_, count)| count).sum::<u64>(),
            BUCKETS as u64
        );
        // Up to 1.024 µs: what took less than 2¹⁰ ns.
        assert_eq!(buckets[0], (1.024e-6, 10));
        assert_eq!(buckets[1], (4.096e-6, 2));
        assert_eq!(buckets[19], (f64::INFINITY, 6));
        assert!(buckets.is_sorted_by(|one, two| one.0 < two.0));
    }

    #[test]
    fn states_of_the_same_name_are_told_apart() {
        let mut names = HashSet::new();
        let names = ["Cache", "Hits", "Cache", "Cache"].map(|name| alone(&mut names, name));
        assert_eq!(names, ["Cache", "Hits", "Cache 2", "Cache 3"]);
    }
}
