//! What services are asked.

use std::net::SocketAddr;
use std::time::Duration;

use super::calibration::HEAVY_NUMBER;
use super::kernels::{Kernel, digits};
use super::load::{Load, Request, Result};
use super::outcome::Outcome;
use super::schedule::{Arrivals, Schedule, rare};

/// What a light request asks for.
pub const LIGHT_NUMBER: u32 = 20;
/// Requests in a second of the Fibonacci mix, as the source has it.
pub const MIX_PER_SECOND: f64 = 100.0;
/// The kind of the light requests of a mix.
pub const LIGHT: usize = 0;
/// The kind of the heavy ones.
pub const HEAVY: usize = 1;
/// What clients do not wait for longer than, as the source has it.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Different inputs of each kernel.
const SEEDS: u32 = 20;
const WARM_UP: Duration = Duration::from_secs(2);
const CLOSED_CONNECTIONS: usize = 32;
const PLAIN_CONNECTIONS: usize = 64;

/// How the state is used by requests that run a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stateful {
    /// Exclusive requests among those that read: the source's SciMarkSf1.
    Sf1,
    /// Exclusive requests among stateless ones: the source's SciMarkSf2.
    Sf2,
    /// As the first, but storing is all that is done exclusively.
    Then,
}

/// What a service is asked. Percents are those of heavy or exclusive requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Light Fibonacci numbers and heavy ones, in an open loop.
    Fibonacci(usize),
    /// Kernels without state, in a closed loop.
    Stateless,
    /// Kernels without state, so many a second in an open loop.
    StatelessAt(u32),
    /// Kernels with state, in a closed loop.
    Stateful(Stateful, usize),
    /// Plain text, in a closed loop.
    Plain,
}

impl Workload {
    /// Asks a service for so many seconds. A heavy request takes so many rounds; the seed draws the order.
    pub fn run(
        self,
        address: SocketAddr,
        seconds: f64,
        heavy_rounds: u32,
        seed: u64,
    ) -> Result<Outcome> {
        let counted = Duration::from_secs_f64(seconds);
        let warm_up = WARM_UP.min(counted);
        let load = Load {
            address,
            requests: self.requests(heavy_rounds),
            connections: match self {
                Self::Fibonacci(_) | Self::StatelessAt(_) | Self::Plain => PLAIN_CONNECTIONS,
                Self::Stateless | Self::Stateful(..) => CLOSED_CONNECTIONS,
            },
            connections_max: 1_024,
            timeout: TIMEOUT,
        };
        let Some(per_second) = self.per_second() else {
            return load.closed(&self.circle(&load.requests, seed), warm_up, counted);
        };
        let count = (per_second * (warm_up + counted).as_secs_f64()) as usize + 2;
        let order = self.order(&load.requests, count, seed);
        let arrivals = Arrivals::Even;
        load.open(&Schedule::new(
            arrivals,
            per_second,
            (warm_up, counted),
            seed,
            |number| order[number],
        ))
    }

    fn per_second(self) -> Option<f64> {
        match self {
            Self::Fibonacci(_) => Some(MIX_PER_SECOND),
            Self::StatelessAt(per_second) => Some(f64::from(per_second)),
            _ => None,
        }
    }

    fn requests(self, heavy_rounds: u32) -> Vec<Request> {
        match self {
            Self::Fibonacci(_) => vec![
                Request::new("GET", &format!("/fib/{LIGHT_NUMBER}"), "6765", LIGHT),
                Request::new(
                    "GET",
                    &format!("/fib/{HEAVY_NUMBER}?rounds={heavy_rounds}"),
                    "832040",
                    HEAVY,
                ),
            ],
            Self::Plain => vec![Request::new("GET", "/plain", "Hello, World!", LIGHT)],
            Self::Stateless | Self::StatelessAt(_) => kernels("GET", "scimark", LIGHT),
            Self::Stateful(how, _) => {
                let (other, exclusive) = match how {
                    Stateful::Sf1 => ("sf1", "sf1"),
                    Stateful::Sf2 => ("sf2", "sf2"),
                    Stateful::Then => ("sf1", "then"),
                };
                let mut requests = kernels("GET", other, LIGHT);
                requests.extend(kernels("POST", exclusive, HEAVY));
                requests
            }
        }
    }

    /// So many requests in the order in which they are sent.
    fn order(self, requests: &[Request], count: usize, seed: u64) -> Vec<usize> {
        let percent = match self {
            Self::Fibonacci(percent) | Self::Stateful(_, percent) => percent,
            _ => 0,
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let of = |kind| {
            let places = 0..requests.len();
            let found: Vec<usize> = places.filter(|at| requests[*at].kind == kind).collect();
            found
        };
        let (light, heavy) = (of(LIGHT), of(HEAVY));
        rare(count, percent, seed)
            .into_iter()
            .map(|is_rare| {
                let among = if is_rare { &heavy } else { &light };
                among[random.usize(..among.len())]
            })
            .collect()
    }

    fn circle(self, requests: &[Request], seed: u64) -> Vec<usize> {
        self.order(requests, 10_000, seed)
    }
}

/// Each kernel with each of its inputs, with the right answers.
fn kernels(method: &str, route: &str, kind: usize) -> Vec<Request> {
    let each = Kernel::ALL
        .into_iter()
        .flat_map(|kernel| (1..=SEEDS).map(move |seed| (kernel, 2 * seed + 1)));
    each.map(|(kernel, seed)| {
        let path = format!("/{route}/{}?seed={seed}", kernel.name());
        Request::new(method, &path, digits(kernel.run(seed)), kind)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_exclusive_requests_are_as_asked() {
        let workload = Workload::Stateful(Stateful::Sf2, 25);
        let requests = workload.requests(1);
        assert_eq!(requests.len(), 200);
        let circle = workload.circle(&requests, 3);
        let exclusive = circle.iter().filter(|at| requests[**at].kind == HEAVY);
        assert_eq!(exclusive.count(), circle.len() / 4);
        assert!(
            requests[0]
                .bytes
                .starts_with(b"GET /sf2/fft?seed=3 HTTP/1.1\r\n")
        );
        assert!(
            requests[199]
                .bytes
                .starts_with(b"POST /sf2/lu?seed=41 HTTP/1.1\r\n")
        );
    }

    #[test]
    fn all_requests_of_a_workload_have_answers() {
        for workload in [
            Workload::Fibonacci(5),
            Workload::Stateless,
            Workload::StatelessAt(10),
            Workload::Stateful(Stateful::Then, 1),
            Workload::Plain,
        ] {
            let requests = workload.requests(7);
            assert!(requests.iter().all(|request| !request.expected.is_empty()));
            let order = workload.order(&requests, 500, 1);
            assert!(order.len() == 500 && order.iter().all(|at| *at < requests.len()));
        }
    }
}
