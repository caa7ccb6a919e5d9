//! Ten thousand idle connections: none is dropped, and each costs little memory.

use std::io;
use std::time::Duration;

use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::stomp_client::{Stomp, StompError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CONNECTIONS: usize = 10_000;
/// With those that the test and the broker need besides.
const FILES_NEEDED: u64 = 10_500;
const BYTES_EACH_MAX: u64 = 20 * 1024;
const IDLE_TIME: Duration = Duration::from_secs(5);
const GONE_TIMEOUT: Duration = Duration::from_secs(5);

/// Raises the limit of open files, which the broker inherits.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.map(|maximum| maximum.max(FILES_NEEDED));
    let raised = Rlimit {
        current: maximum.or(Some(FILES_NEEDED)),
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        panic!(
            "{FILES_NEEDED} open files are needed, and the limit {limit:?} cannot be raised: \
             {error}; run as root, or raise the hard limit (ulimit -Hn)"
        );
    }
}

fn connect(hive: &Hive, count: usize) -> Vec<Stomp> {
    let client = |index| {
        Stomp::connect_with(hive.stomp_address(), &[("heart-beat", "0,0")])
            .unwrap_or_else(|error| panic!("connection {index} of {count}: {error}"))
    };
    (1..=count).map(client).collect()
}

/// How many connections the broker has closed.
fn dropped(clients: &[Stomp]) -> usize {
    clients.iter().filter(|client| is_closed(client)).count()
}

fn is_closed(client: &Stomp) -> bool {
    let stream = client.stream();
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0; 1]);
    stream.set_nonblocking(false).unwrap();
    match seen {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

fn works(client: &mut Stomp) -> Result<(), StompError> {
    let receipt = client.send_with_receipt("/queue/many", &[], b"still here")?;
    client.wait_receipt(&receipt, GONE_TIMEOUT)
}

#[test]
fn ten_thousand_idle_connections_are_kept_and_cost_at_most_20_kib_each() {
    allow_many_files();
    let count = CONNECTIONS;
    let mut hive = Hive::start().unwrap();
    // Whatever the first clients make the broker allocate once is not the price of each.
    drop(connect(&hive, 100));
    let before = hive.memory_bytes().unwrap();
    let mut clients = connect(&hive, count);
    let after = hive.memory_bytes().unwrap();
    let each = after.saturating_sub(before) / count as u64;
    eprintln!("{count} connections, {each} bytes each");
    assert!(each <= BYTES_EACH_MAX, "{each} bytes for each of {count}");

    let any_dropped = wait_until(IDLE_TIME, || dropped(&clients) > 0);
    assert!(!any_dropped, "{} were dropped", dropped(&clients));
    for (index, client) in clients.iter_mut().enumerate() {
        works(client).unwrap_or_else(|error| panic!("connection {index}: {error}"));
    }

    // Control: connections that are gone are seen to be gone.
    hive.kill9();
    let all_gone = wait_until(GONE_TIMEOUT, || dropped(&clients) == count);
    assert!(all_gone, "only {} are seen to be gone", dropped(&clients));
}
