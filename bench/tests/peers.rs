//! The peers start, carry messages, survive what they should, and leave nothing behind.

use std::path::Path;
use std::time::{Duration, Instant};

use hivewire_bench::drivers::load::{Load, publish, receive, throughput};
use hivewire_bench::drivers::nats::Nats as NatsClient;
use hivewire_bench::drivers::stomp::{Acknowledge, Stomp};
use hivewire_bench::drivers::{consumer, producer};
use hivewire_bench::peers::activemq::ActiveMq;
use hivewire_bench::peers::nats::Nats;
use hivewire_bench::peers::postgres::Postgres;
use hivewire_bench::peers::rabbitmq::RabbitMq;

/// How long RabbitMQ may take to write down that there is a queue.
const WRITTEN_TIMEOUT: Duration = Duration::from_secs(60);

fn load(destination: &str, window: Option<u32>) -> Load {
    Load {
        destination: destination.to_owned(),
        messages: 2_000,
        body_bytes: 128,
        window,
    }
}

fn is_alive(process_id: u32) -> bool {
    Path::new(&format!("/proc/{process_id}")).exists()
}

#[test]
fn nats_carries_messages_and_ends_on_drop() {
    let nats = Nats::start().expect("nats-server starts");
    throughput(&NatsClient, nats.address(), &load("q", None)).expect("all arrives");
    let process_id = nats.process_id();
    assert!(is_alive(process_id));
    drop(nats);
    assert!(!is_alive(process_id));
}

#[test]
fn postgres_comes_back_after_a_crash_and_ends_on_drop() {
    let mut postgres = Postgres::start().expect("postgres starts");
    let first = postgres.process_id().expect("it runs");
    postgres.kill();
    assert_eq!(postgres.process_id(), None);
    assert!(!is_alive(first));
    postgres.restart().expect("restarts on its data");
    let process_id = postgres.process_id().expect("it runs");
    drop(postgres);
    assert!(!is_alive(process_id));
}

/// One node serves all checks, since it takes seconds to start.
#[test]
fn rabbitmq_carries_keeps_and_ends() {
    let mut rabbitmq = RabbitMq::start().expect("rabbitmq-server starts");
    let address = rabbitmq.stomp_address();
    let individually = Stomp {
        acknowledge: Acknowledge::ClientIndividual {
            prefetch_count: 100,
        },
        persistent: false,
    };
    throughput(&Stomp::transient(), address, &load("a", None)).expect("transient");
    throughput(&Stomp::durable(), address, &load("b", Some(100))).expect("durable");
    throughput(&individually, address, &load("c", None)).expect("acknowledged individually");

    let kept = load("kept", Some(100));
    // Subscribing once declares the queue; what is sent later waits in it. Until the server has
    // noticed that the subscriber is gone it may hand it messages, so it must not take them for
    // acknowledged.
    let declares = Stomp {
        persistent: true,
        ..individually
    };
    drop(consumer(&declares, address, &kept.destination).expect("declared"));
    let deadline = Instant::now() + WRITTEN_TIMEOUT;
    while !rabbitmq.has_written_queue(&kept.destination).expect("read") {
        assert!(Instant::now() < deadline, "the queue was never written");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut sender = producer(&Stomp::durable(), address, true).expect("connected");
    publish(&Stomp::durable(), &mut sender, &kept).expect("confirmed");
    rabbitmq.kill();
    assert_eq!(rabbitmq.process_id(), None);
    rabbitmq.restart().expect("restarts on its data");
    let mut receiver = consumer(&Stomp::durable(), address, &kept.destination).expect("subscribed");
    receive(&Stomp::durable(), &mut receiver, &kept).expect("confirmed messages survive");

    let process_id = rabbitmq.process_id().expect("it runs");
    let directory = rabbitmq.directory().to_owned();
    drop(rabbitmq);
    assert!(!is_alive(process_id));
    assert!(!directory.exists());
}

/// One broker serves all checks, since it takes seconds to start.
#[test]
fn activemq_carries_keeps_and_ends() {
    let mut activemq = ActiveMq::start().expect("activemq starts");
    let address = activemq.stomp_address();
    throughput(&Stomp::transient(), address, &load("a", None)).expect("transient");

    // A receipt waits for the disk here.
    let kept = Load {
        messages: 100,
        ..load("kept", Some(100))
    };
    let mut sender = producer(&Stomp::durable(), address, true).expect("connected");
    publish(&Stomp::durable(), &mut sender, &kept).expect("confirmed");
    activemq.kill();
    assert_eq!(activemq.process_id(), None);
    activemq.restart().expect("restarts on its data");
    let mut receiver = consumer(&Stomp::durable(), address, &kept.destination).expect("subscribed");
    receive(&Stomp::durable(), &mut receiver, &kept).expect("confirmed messages survive");

    let process_id = activemq.process_id().expect("it runs");
    let directory = activemq.directory().to_owned();
    drop(activemq);
    assert!(!is_alive(process_id));
    assert!(!directory.exists());
}
