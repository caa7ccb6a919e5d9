//! An acknowledged durable message survives loss of power, at whatever operation on the disk it
//! comes: while messages flow, while segments of the journal are made, emptied and deleted, and
//! while the broker starts again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hivewire_tests::hive::Hive;
use hivewire_tests::lossy_fs::{Loss, LossyFs, Operation};
use hivewire_tests::oracle::{Log, Order, Verdict, judge};
use hivewire_tests::poll::wait_until;
use hivewire_tests::soak;
use hivewire_tests::workload::{Production, Workload, drain};
use parking_lot::Mutex;

/// Consumed while it is filled.
const FLOWING: &str = "/queue/flowing";
/// Consumed only after the power is back.
const STORED: &str = "/queue/stored";
/// The smallest segments there are, so that a short run goes through many.
const CONFIG: &str = "[journal]\nsegment_bytes = 16384\n";
const FIRST_SEGMENT: &str = "data/journal/00000001.journal";
const POINTS_FLOWING: u64 = 300;
const POINTS_COMPACTING: u64 = 100;
const POINTS_CONTROL: u64 = 12;
/// How often the control goes over its points, with other seeds, before it has found nothing.
const ROUNDS_CONTROL: u64 = 5;
/// At every so many points the power goes once more while the broker starts again.
const TWICE_EVERY: u64 = 3;
/// A start after a loss takes about so many operations.
const START_OPERATIONS: u64 = 12;
/// At every so many points nothing unsynced is left at all.
const LOSE_ALL_EVERY: u64 = 5;
const DRAINING_CONSUMER: u32 = 99;
const START_TIMEOUT: Duration = Duration::from_secs(10);
const RUN_TIMEOUT: Duration = Duration::from_secs(20);
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

/// What the broker is busy with.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// Messages come, are consumed, and segments go; then others come and stay.
    Flowing,
    /// A few messages stay at the front while many flow past them, until the broker writes them
    /// again to be rid of the first segment.
    Compacting,
}

/// Where the power goes, and which of the possible losses follows.
#[derive(Clone, Copy, Debug)]
struct Point {
    plan: Plan,
    operation: u64,
    seed: u64,
}

/// What came of one loss of power.
struct Outcome {
    verdict: Verdict,
    loss: Loss,
    /// The broker found its journal damaged, and did not start again.
    refused: bool,
}

/// What happens on the disk when nothing goes wrong.
struct Undisturbed {
    /// Operations until the messages have flowed.
    flowed: u64,
    /// Operations in all.
    operations: u64,
}

fn prepare(disk: &LossyFs, sync: Sync) -> Hive {
    let data = disk.path().join("data");
    let mut options = Hive::options().data(data).config(CONFIG);
    if let Sync::Off = sync {
        options = options.variable("HIVEWIRE_UNSAFE_SYNC", "off");
    }
    options.prepare().unwrap()
}

/// Publishes and consumes until the power goes, restarts on what the disk still holds, and asks
/// the oracle.
fn lose_power_at(point: Point, sync: Sync) -> Outcome {
    let mut disk = LossyFs::mount().unwrap();
    let mut hive = prepare(&disk, sync);
    disk.cut_power_at(point.operation);
    let mut log = Log::default();
    if start_unless_cut(&mut hive, &disk) {
        let workload = run_until_cut(point.plan, &hive, &disk);
        log = workload.stop();
    }
    hive.kill9();
    let mut loss = crash(&mut disk, point);
    if let Sync::On = sync
        && point.seed % TWICE_EVERY == TWICE_EVERY - 1
    {
        disk.cut_power_at(1 + point.seed / TWICE_EVERY % START_OPERATIONS);
        start_unless_cut(&mut hive, &disk);
        hive.kill9();
        let again = crash(&mut disk, point);
        loss.sectors += again.sectors;
        loss.names += again.names;
    }
    let refused = match (hive.start_again(), sync) {
        (Ok(_), _) => false,
        (Err(_), Sync::Off) => true,
        (Err(error), Sync::On) => {
            panic!("no restart after {point:?}: {error}\n{:?}", disk.files())
        }
    };
    if !refused {
        for queue in [FLOWING, STORED] {
            drain(hive.stomp_address(), queue, DRAINING_CONSUMER, &mut log).unwrap();
        }
    }
    Outcome {
        verdict: judge(&log, &BTreeSet::new(), Order::PerSenderMarkedToo),
        loss,
        refused,
    }
}

fn crash(disk: &mut LossyFs, point: Point) -> Loss {
    if point.seed.is_multiple_of(LOSE_ALL_EVERY) {
        disk.crash_losing_all_unsynced().unwrap()
    } else {
        disk.crash(point.seed).unwrap()
    }
}

/// Whether the broker is there. One that meets the cut while starting has promised nothing.
fn start_unless_cut(hive: &mut Hive, disk: &LossyFs) -> bool {
    hive.spawn().unwrap();
    let mut healthy = false;
    wait_until(START_TIMEOUT, || {
        healthy = hive.is_healthy();
        healthy || disk.power_is_cut() || hive.exit_status().is_some()
    });
    let explained = healthy || disk.power_is_cut();
    assert!(explained, "no start; the broker said:\n{}", hive.log());
    healthy
}

/// Lets messages flow until everything of the plan has happened, or the power goes.
fn run_until_cut(plan: Plan, hive: &Hive, disk: &LossyFs) -> Workload {
    let mut workload = Workload::new(hive.stomp_address());
    flow(plan, &mut workload, hive, disk);
    if let Plan::Compacting = plan {
        wait(hive, "the first segment is there for ever", || {
            disk.power_is_cut() || !disk.path().join(FIRST_SEGMENT).exists()
        });
    }
    workload
}

fn flow(plan: Plan, workload: &mut Workload, hive: &Hive, disk: &LossyFs) {
    let produce = |workload: &mut Workload, sender, queue, messages_max| {
        workload.produce(Production {
            window: 2,
            body_bytes_max: 3000,
            messages_max,
            ..Production::new(sender, queue)
        });
        wait(hive, "the producer does not get on", || {
            disk.power_is_cut() || workload.producers_are_done()
        });
    };
    match plan {
        Plan::Flowing => {
            workload.consume(1, FLOWING);
            produce(workload, 1, FLOWING, 40);
            produce(workload, 2, STORED, 30);
        }
        Plan::Compacting => {
            produce(workload, 1, STORED, 5);
            workload.consume(1, FLOWING);
            produce(workload, 2, FLOWING, 60);
        }
    }
}

fn wait(hive: &Hive, problem: &str, condition: impl FnMut() -> bool) {
    let ended = wait_until(RUN_TIMEOUT, condition);
    assert!(ended, "{problem}; the broker said:\n{}", hive.log());
}

/// A run without loss of power, which must go through everything that the points are to meet.
fn undisturbed(plan: Plan, sync: Sync) -> Undisturbed {
    let disk = LossyFs::mount().unwrap();
    let mut hive = prepare(&disk, sync);
    assert!(start_unless_cut(&mut hive, &disk));
    let mut workload = Workload::new(hive.stomp_address());
    flow(plan, &mut workload, &hive, &disk);
    let flowed = disk.operations();
    wait(&hive, "no segment was ever deleted", || {
        !disk.path().join(FIRST_SEGMENT).exists()
    });
    drop(workload);
    let counts = disk.operation_counts();
    let operations = disk.operations();
    eprintln!(
        "{plan:?}: {operations} operations, {flowed} of them until all had flowed; {counts:?}"
    );
    let (made, deleted) = (counts[&Operation::Rename], counts[&Operation::Remove]);
    assert!(made >= 5, "only {made} segments were made");
    assert!(deleted >= 1, "no segment was deleted");
    Undisturbed { flowed, operations }
}

/// Points spread evenly over a range of operations.
fn spread(plan: Plan, count: u64, from: u64, to: u64) -> Vec<Point> {
    let point = |index| Point {
        plan,
        operation: from + index * (to - from) / count,
        seed: index,
    };
    (0..count).map(point).collect()
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

#[test]
fn no_acknowledged_message_is_lost_wherever_the_power_goes() {
    let _alone = ONE_AT_A_TIME.lock();
    let start = Instant::now();
    let flowing = undisturbed(Plan::Flowing, Sync::On).operations;
    let count = soak::times(POINTS_FLOWING);
    let mut points = spread(Plan::Flowing, count, 1, flowing + flowing / 20);
    let compacting = undisturbed(Plan::Compacting, Sync::On);
    points.extend(spread(
        Plan::Compacting,
        soak::times(POINTS_COMPACTING),
        compacting.flowed - compacting.flowed / 10,
        compacting.operations + 5,
    ));
    let (acknowledged, dropped) = (AtomicU64::new(0), AtomicU64::new(0));
    run_points(&points, Sync::On, |point, outcome| {
        outcome.verdict.assert_clean(&format!("{point:?}"));
        acknowledged.fetch_add(outcome.verdict.acknowledged as u64, Ordering::Relaxed);
        let lost = outcome.loss.sectors + outcome.loss.names;
        dropped.fetch_add(lost, Ordering::Relaxed);
    });
    let (acknowledged, dropped) = (acknowledged.into_inner(), dropped.into_inner());
    eprintln!(
        "{} points in {:?}: {acknowledged} acknowledged, 0 lost, while the disk dropped {dropped} \
         sectors and names",
        points.len(),
        start.elapsed()
    );
    assert!(
        acknowledged > points.len() as u64,
        "the runs acknowledged next to nothing"
    );
    assert!(
        dropped > points.len() as u64,
        "the disk dropped next to nothing: little was tested"
    );
}

#[test]
fn control_without_syncing_the_oracle_finds_loss() {
    let _alone = ONE_AT_A_TIME.lock();
    let operations = undisturbed(Plan::Flowing, Sync::Off).operations;
    let (lost, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut points = 0;
    // Most journals are found damaged, and which ones is chance: there may be few without a word.
    for round in 0..ROUNDS_CONTROL {
        let mut round_points = spread(Plan::Flowing, POINTS_CONTROL, 1, operations);
        for point in &mut round_points {
            point.seed += round * POINTS_CONTROL;
        }
        run_points(&round_points, Sync::Off, |_, outcome| {
            // A broker that finds its journal damaged says so, and serves nothing.
            refused.fetch_add(u64::from(outcome.refused), Ordering::Relaxed);
            if !outcome.refused {
                lost.fetch_add(outcome.verdict.lost() as u64, Ordering::Relaxed);
            }
        });
        points += round_points.len();
        if lost.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    let (lost, refused) = (lost.into_inner(), refused.into_inner());
    eprintln!(
        "without syncing {lost} acknowledged messages were lost without a word, and {refused} of \
         {points} journals were found damaged"
    );
    assert!(lost > 0, "nothing was lost although nothing was synced");
}
