//! An acknowledged durable message survives kill -9.

use std::collections::BTreeSet;
use std::time::Duration;

use hivewire_tests::hive::Hive;
use hivewire_tests::oracle::{Order, Verdict, judge};
use hivewire_tests::poll::wait_until;
use hivewire_tests::soak;
use hivewire_tests::workload::{Durability, Production, Workload, drain};
use parking_lot::Mutex;

/// Consumed all the time.
const FLOWING: &str = "/queue/flowing";
/// Consumed only in the end, so that its messages live through many kills.
const STORED: &str = "/queue/stored";
const STORED_MESSAGES_MAX: u64 = 20_000;
const KILLS: u64 = 30;
const BACK_WITHIN: Duration = Duration::from_secs(2);
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time between two kills; the shortest is nothing.
const LIFE_MS_MAX: u64 = 300;
const DRAINING_CONSUMER: u32 = 99;

/// Two tests at once would slow each other's brokers down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Kills the broker again and again under load; says what the oracle found and how long the
/// slowest start took.
fn kill_under_load(kills: u64, durability: Durability) -> (Verdict, Duration) {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut hive = Hive::start().unwrap();
    let mut workload = Workload::new(hive.stomp_address());
    for (sender, queue, messages_max) in [
        (1, FLOWING, u64::MAX),
        (2, FLOWING, u64::MAX),
        (3, STORED, STORED_MESSAGES_MAX),
    ] {
        workload.produce(Production {
            durability,
            messages_max,
            ..Production::new(sender, queue)
        });
    }
    workload.consume(1, FLOWING);
    let mut slowest = Duration::ZERO;
    for kill in 1..=kills {
        wait_for_progress(&workload, kill);
        std::thread::sleep(Duration::from_millis(rng.u64(..LIFE_MS_MAX)));
        hive.kill9();
        slowest = slowest.max(hive.start_again().unwrap());
    }
    wait_for_progress(&workload, kills);
    // The last kill ends every connection, so that nothing is out with a consumer any more.
    hive.kill9();
    let mut log = workload.stop();
    hive.start_again().unwrap();
    for queue in [FLOWING, STORED] {
        drain(hive.stomp_address(), queue, DRAINING_CONSUMER, &mut log).unwrap();
    }
    (
        judge(&log, &BTreeSet::new(), Order::PerSenderMarkedToo),
        slowest,
    )
}

/// A kill tests something only if messages flowed since the last one.
fn wait_for_progress(workload: &Workload, kill: u64) {
    let (acknowledged, received) = (workload.acknowledged(), workload.received());
    let flowing = wait_until(PROGRESS_TIMEOUT, || {
        workload.acknowledged() > acknowledged + 20 && workload.received() > received
    });
    assert!(flowing, "no messages flowed before kill {kill}");
}

#[test]
fn thirty_kills_under_load_lose_nothing_and_the_broker_is_back_within_two_seconds() {
    let _alone = ONE_AT_A_TIME.lock();
    let kills = soak::times(KILLS);
    let (verdict, slowest) = kill_under_load(kills, Durability::Durable);
    eprintln!("{verdict}; slowest start {slowest:?}");
    verdict.assert_clean(&format!("after {kills} kills"));
    assert!(verdict.acknowledged as u64 > kills * 20);
    assert!(slowest <= BACK_WITHIN, "a start took {slowest:?}");
}

#[test]
fn control_transient_messages_are_lost_and_the_oracle_finds_it() {
    let _alone = ONE_AT_A_TIME.lock();
    let (verdict, _) = kill_under_load(5, Durability::Transient);
    eprintln!("{verdict}");
    assert!(verdict.lost() > 0, "transient messages survived: {verdict}");
}
