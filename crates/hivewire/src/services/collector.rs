//! Services as metrics.

use std::fmt;
use std::sync::Arc;

use kernel::metrics::encoding::{DescriptorEncoder, EncodeMetric};
use kernel::metrics::{Collector, ConstCounter, ConstGauge, duration_histogram};
use web::edge::{EdgeNumbers, Refusal};

use super::table::FlowRoute;
use super::{Listener, Services};

/// Reads how it goes with services.
pub(crate) struct ServiceCollector(pub Arc<Services>);

impl fmt::Debug for ServiceCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServiceCollector")
    }
}

impl Collector for ServiceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let services = &self.0;
        counter(
            &mut encoder,
            "services_requests_refused",
            "Requests to services refused because of the page or the name that they came from",
            services.refused.get(),
        )?;
        if let Some(numbers) = services.edge_numbers() {
            encode_edge(&mut encoder, &numbers)?;
        }
        let table = services.table();
        let routes = table.routes.iter().map(|listed| &*listed.route);
        let routes: Vec<&FlowRoute> = routes.collect();
        for family in ROUTE_FAMILIES {
            family.encode(&mut encoder, &routes)?;
        }
        encode_seconds(&mut encoder, &routes)
    }
}

impl Services {
    fn edge_numbers(&self) -> Option<EdgeNumbers> {
        match &*self.listener.lock() {
            Listener::At { edge, .. } => Some(edge.numbers()),
            Listener::Unneeded | Listener::Failed(_) => None,
        }
    }
}

fn counter(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

fn encode_edge(encoder: &mut DescriptorEncoder<'_>, numbers: &EdgeNumbers) -> fmt::Result {
    gauge(
        encoder,
        "services_connections",
        "Connections to services",
        numbers.connections,
    )?;
    let name = "services_refusals";
    let help = "What was refused before it came to a service, by the reason";
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for reason in Refusal::ALL {
        let labels = [("reason", reason.name())];
        let member = family.encode_family(&labels)?;
        ConstCounter::new(numbers.refused(reason)).encode(member)?;
    }
    Ok(())
}

/// One number of every route.
struct RouteFamily {
    name: &'static str,
    help: &'static str,
    is_counter: bool,
    value: fn(&FlowRoute) -> u64,
}

#[rustfmt::skip]
const ROUTE_FAMILIES: &[RouteFamily] = &[
    RouteFamily { name: "route_requests", help: "Requests that were answered for a stage", is_counter: true, value: |route| route.numbers.requests() },
    RouteFamily { name: "route_requests_failed", help: "Requests that were answered with a status of 500 or more", is_counter: true, value: |route| route.numbers.failed() },
    RouteFamily { name: "route_requests_under_way", help: "Requests that a stage has yet to answer", is_counter: false, value: |route| route.numbers.under_way() },
];

impl RouteFamily {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>, routes: &[&FlowRoute]) -> fmt::Result {
        let kind = match self.is_counter {
            true => ConstCounter::new(0_u64).metric_type(),
            false => ConstGauge::new(0_u64).metric_type(),
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for route in routes {
            let labels = labels_of(route);
            let member = family.encode_family(&labels)?;
            let value = (self.value)(route);
            match self.is_counter {
                true => ConstCounter::new(value).encode(member)?,
                false => ConstGauge::new(value).encode(member)?,
            }
        }
        Ok(())
    }
}

fn encode_seconds(encoder: &mut DescriptorEncoder<'_>, routes: &[&FlowRoute]) -> fmt::Result {
    let name = "route_request_seconds";
    let help = "How long requests took until they were answered for a stage";
    let kind = duration_histogram().metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for route in routes {
        let labels = labels_of(route);
        let member = family.encode_family(&labels)?;
        route.numbers.seconds.encode(member)?;
    }
    Ok(())
}

fn labels_of(route: &FlowRoute) -> [(&str, &str); 4] {
    [
        ("flow", route.stage.flow().as_str()),
        ("stage", route.stage.stage().as_str()),
        ("method", route.method.as_str()),
        ("path", route.path.as_str()),
    ]
}
