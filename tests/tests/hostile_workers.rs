//! Workers that loop, eat memory, recurse, storm the host or trap: each is stopped, its message ends
//! in the dead letters with the reason, and its neighbours do not notice.

use std::time::Duration;

use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::soak;
use hivewire_tests::workers::{Asker, component, dead_reasons, must_deploy, stage};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);
/// What a call of the hostile worker may take.
const CALL_MS_MAX: u64 = 200;
const QUESTIONS: usize = 300;
/// Below this nobody notices, and the scheduler of the system decides more than we do.
const NOTICED: Duration = Duration::from_millis(20);

/// Others on this machine disturb us too. What a worker does to its neighbours shows each time.
const ATTEMPTS: usize = 3;

/// What a worker does, and what the dead letter says about it.
const HABITS: [(&str, &str); 6] = [
    ("loop", "200 ms"),
    ("memory", "memory"),
    ("recursion", "stack"),
    ("storm", "call the host"),
    ("flood", "messages"),
    ("trap", "this message is poison"),
];

fn start() -> Hive {
    let hive = Hive::start().unwrap();
    let hostile = json!({
        "instance_limits": { "call_ms_max": CALL_MS_MAX },
        "supervision": { "restarts_max": 1_000, "tries_max": 2, "backoff_ms_max": 20 },
        "outputs": { "out": ["queue:flooded"] },
    });
    must_deploy(&hive, &component("hostile"), "bad/hostile", &hostile).unwrap();
    let memory = json!({ "delivery": "memory" });
    must_deploy(&hive, &component("echo"), "good/echo", &memory).unwrap();
    hive
}

fn send(hive: &Hive, body: &str) {
    let message = json!({ "messages": [{ "body": body }] }).to_string();
    let path = "/api/v1/messages/bad%2Fhostile";
    let sent = hive.rest("POST", path, message.as_bytes()).unwrap();
    assert!(sent.status < 300, "{}", sent.text());
}

fn p99(asker: &mut Asker) -> Duration {
    let mut took: Vec<Duration> = (0..QUESTIONS)
        .map(|number| asker.ask(format!("question {number}").as_bytes()).unwrap())
        .collect();
    took.sort();
    took[QUESTIONS * 99 / 100]
}

/// How long a neighbour's answers take while a worker follows its habit, which ends in the dead
/// letters.
fn beside(hive: &Hive, habit: &str, asker: &mut Asker) -> Duration {
    let before = dead_reasons(hive).unwrap().len();
    send(hive, habit);
    let took = p99(asker);
    assert!(
        wait_until(PATIENCE, || dead_reasons(hive).unwrap().len() > before),
        "`{habit}` did not end in the dead letters: {}",
        hive.log()
    );
    took
}

#[test]
fn each_is_stopped_with_its_reason_and_neighbours_do_not_notice() {
    let hive = start();
    let mut asker = Asker::new(&hive, "good.echo", "answers").unwrap();
    p99(&mut asker);
    let quiet = p99(&mut asker);
    let allowed = (quiet * 2).max(NOTICED);
    for round in 0..soak::times(1) {
        for (habit, expected) in HABITS {
            let beside = (0..ATTEMPTS).map(|_| beside(&hive, habit, &mut asker));
            let beside: Vec<Duration> = beside.take_while(|took| *took > allowed).collect();
            assert!(
                beside.len() < ATTEMPTS,
                "round {round}: beside `{habit}` a neighbour's answers took {beside:?}, without it {quiet:?}"
            );
            let reasons = dead_reasons(&hive).unwrap();
            assert!(
                reasons.iter().any(|reason| reason.contains(expected)),
                "no reason of {reasons:?} speaks of {expected}"
            );
        }
    }
    // The worker itself is well again.
    let mut asker = Asker::new(&hive, "bad.hostile", "hostile-answers").unwrap();
    asker.ask(b"hello").unwrap();
    assert_eq!(stage(&hive, "bad/hostile").unwrap()["state"], "running");
}

#[test]
fn control_what_ends_a_long_call_is_its_deadline() {
    let hive = start();
    // Within its deadline a long call is nobody's business.
    send(&hive, "slow 100");
    let turns = || {
        stage(&hive, "bad/hostile").unwrap()["turns"]
            .as_u64()
            .unwrap()
    };
    assert!(wait_until(PATIENCE, || turns() == 1));
    assert!(dead_reasons(&hive).unwrap().is_empty());
    // The same code for longer than that is stopped.
    send(&hive, "slow 5000");
    assert!(wait_until(PATIENCE, || !dead_reasons(&hive)
        .unwrap()
        .is_empty()));
    assert_eq!(turns(), 1);
}
