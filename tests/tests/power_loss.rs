//! An acknowledged durable message survives loss of power, at whatever operation on the disk it
//! comes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hivewire_tests::hive::{Hive, HiveError};
use hivewire_tests::lossy_fs::{Loss, LossyFs};
use hivewire_tests::oracle::{Log, Order, Verdict, judge};
use hivewire_tests::poll::wait_until;
use hivewire_tests::workload::{Production, Workload, drain};
use parking_lot::Mutex;

/// Consumed while it is filled.
const FLOWING: &str = "/queue/flowing";
/// Consumed only after the power is back.
const STORED: &str = "/queue/stored";
const POINTS: u64 = 200;
const POINTS_CONTROL: u64 = 12;
/// What each producer sends.
const MESSAGES: u64 = 40;
const DRAINING_CONSUMER: u32 = 99;
const START_TIMEOUT: Duration = Duration::from_secs(5);
const RUN_TIMEOUT: Duration = Duration::from_secs(10);
/// Each on its own disk; more than the cores that small machines have would only get in the way.
const WORKERS: usize = 2;

/// Two tests at once would be more workers than that.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Whether the broker syncs as it should, or is told not to.
#[derive(Clone, Copy)]
enum Sync {
    On,
    Off,
}

/// What came of one loss of power.
struct Outcome {
    verdict: Verdict,
    loss: Loss,
    /// Operations on the disk until the power went, or until all was done.
    operations: u64,
}

/// Publishes and consumes until the power goes at this operation, restarts on what the disk
/// still holds, and asks the oracle.
fn lose_power_at(point: Point, sync: Sync) -> Outcome {
    let mut disk = LossyFs::mount().unwrap();
    let mut options = Hive::options().data(disk.path().join("data"));
    if let Sync::Off = sync {
        options = options.variable("HIVEWIRE_UNSAFE_SYNC", "off");
    }
    let mut hive = options.prepare().unwrap();
    disk.cut_power_at(point.operation);
    let mut log = run_until_cut(&mut hive, &disk);
    hive.kill9();
    let operations = disk.operations();
    let loss = disk.crash(point.seed).unwrap();
    if let Err(error) = hive.start_again() {
        let files = disk.files();
        panic!("no restart after {point:?}: {error}\n{files:?}");
    }
    for queue in [FLOWING, STORED] {
        drain(hive.stomp_address(), queue, DRAINING_CONSUMER, &mut log).unwrap();
    }
    hive.kill9();
    Outcome {
        verdict: judge(&log, &BTreeSet::new(), Order::PerSender),
        loss,
        operations,
    }
}

fn run_until_cut(hive: &mut Hive, disk: &LossyFs) -> Log {
    hive.spawn().unwrap();
    match hive.wait_healthy(START_TIMEOUT) {
        Ok(()) => {}
        // A broker that meets the cut while starting has promised nothing to anybody.
        Err(HiveError::Ended { .. } | HiveError::NotHealthy { .. }) if disk.power_is_cut() => {
            return Log::default();
        }
        Err(error) => panic!("{error}"),
    }
    let mut workload = Workload::new(hive.stomp_address());
    for (sender, queue) in [(1, FLOWING), (2, STORED)] {
        workload.produce(Production {
            window: 2,
            body_bytes_max: 3000,
            messages_max: MESSAGES,
            ..Production::new(sender, queue)
        });
    }
    workload.consume(1, FLOWING);
    let ended = wait_until(RUN_TIMEOUT, || {
        disk.power_is_cut() || (workload.producers_are_done() && workload.received() >= MESSAGES)
    });
    assert!(
        ended,
        "the run did not end; the broker said:\n{}",
        hive.log()
    );
    workload.stop()
}

/// Runs these points, spread over two workers, and gives each outcome to `check`.
fn run_points(points: &[Point], sync: Sync, check: impl Fn(Point, Outcome) + std::marker::Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    check(*point, lose_power_at(*point, sync));
                }
            });
        }
    });
}

/// Where the power goes, and which of the possible losses follows.
#[derive(Clone, Copy, Debug)]
struct Point {
    operation: u64,
    seed: u64,
}

/// Points from the first operation to a little past the last one of an undisturbed run.
fn points(count: u64, sync: Sync) -> Vec<Point> {
    let undisturbed = Point {
        operation: u64::MAX,
        seed: 0,
    };
    let whole = lose_power_at(undisturbed, sync).operations;
    let last = whole + whole / 20;
    let point = |index| Point {
        operation: 1 + index * last / count,
        seed: index,
    };
    (0..count).map(point).collect()
}

#[test]
fn no_acknowledged_message_is_lost_wherever_the_power_goes() {
    let _alone = ONE_AT_A_TIME.lock();
    let start = Instant::now();
    let points = points(POINTS, Sync::On);
    let (acknowledged, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
    run_points(&points, Sync::On, |point, outcome| {
        outcome.verdict.assert_clean(&format!("{point:?}"));
        acknowledged.fetch_add(outcome.verdict.acknowledged as u64, Ordering::Relaxed);
        let lost = outcome.loss.sectors + outcome.loss.names;
        dropped.fetch_add(lost, Ordering::Relaxed);
    });
    let (acknowledged, dropped) = (acknowledged.into_inner(), dropped.into_inner());
    eprintln!(
        "{POINTS} points up to operation {:?} in {:?}: {acknowledged} acknowledged, 0 lost, while \
         the disk dropped {dropped} sectors and names",
        points.last().map(|point| point.operation),
        start.elapsed()
    );
    assert!(
        acknowledged > POINTS,
        "the runs acknowledged next to nothing"
    );
    assert!(
        dropped > 0,
        "the disk never dropped anything: nothing was tested"
    );
}

#[test]
fn control_without_syncing_the_oracle_finds_loss() {
    let _alone = ONE_AT_A_TIME.lock();
    let points = points(POINTS_CONTROL, Sync::Off);
    let lost = AtomicU64::new(0);
    run_points(&points, Sync::Off, |_, outcome| {
        lost.fetch_add(outcome.verdict.lost() as u64, Ordering::Relaxed);
    });
    let lost = lost.into_inner();
    eprintln!("without syncing {lost} acknowledged messages were lost");
    assert!(lost > 0, "nothing was lost although nothing was synced");
}
