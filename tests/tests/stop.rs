//! Asked to end, the broker ends in good order and keeps what it acknowledged.

use std::collections::BTreeSet;

use hivewire_tests::hive::Hive;
use hivewire_tests::oracle::{Order, Verdict, judge};
use hivewire_tests::poll::wait_until;
use hivewire_tests::stomp_client::TIMEOUT;
use hivewire_tests::workload::{Durability, Production, Workload, drain};

const QUEUE: &str = "/queue/stop";
const MESSAGES: u64 = 200;
const DRAINING_CONSUMER: u32 = 99;

/// Publishes, ends the broker by SIGTERM, starts it again and asks the oracle.
fn stop_and_judge(durability: Durability) -> Verdict {
    let mut hive = Hive::start().unwrap();
    let mut workload = Workload::new(hive.stomp_address());
    workload.produce(Production {
        durability,
        messages_max: MESSAGES,
        ..Production::new(1, QUEUE)
    });
    assert!(wait_until(TIMEOUT, || workload.producers_are_done()));
    let mut log = workload.stop();
    let status = hive.terminate().unwrap();
    assert!(status.success(), "ended with {status}: {}", hive.log());
    hive.start_again().unwrap();
    drain(hive.stomp_address(), QUEUE, DRAINING_CONSUMER, &mut log).unwrap();
    judge(&log, &BTreeSet::new(), Order::PerSenderMarkedToo)
}

#[test]
fn sigterm_ends_with_exit_code_0_and_keeps_durable_messages() {
    let verdict = stop_and_judge(Durability::Durable);
    verdict.assert_clean("after SIGTERM");
    assert_eq!(verdict.acknowledged, MESSAGES as usize);
}

#[test]
fn control_transient_messages_end_with_the_process() {
    let verdict = stop_and_judge(Durability::Transient);
    assert!(verdict.lost() > 0, "{verdict}");
}
