//! A full disk and a disk that fails: publishes are refused and say why, reads go on, the broker
//! resumes by itself; after a failed sync nothing more is acknowledged. A disk that hangs holds up
//! nobody who does not need it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hivewire_tests::hive::Hive;
use hivewire_tests::lossy_fs::LossyFs;
use hivewire_tests::oracle::{Log, MessageId, Order, judge};
use hivewire_tests::poll::wait_until;
use hivewire_tests::small_disk::SmallDisk;
use hivewire_tests::stomp_client::{AckMode, Stomp, StompError, TIMEOUT};
use hivewire_tests::workload::drain;

const QUEUE: &str = "/queue/full";
const DISK_BYTES: u64 = 384 << 20;
/// What is left when the disk counts as nearly full.
const LEFT_BYTES: u64 = 4 << 20;
const BODY_BYTES: usize = 256 << 10;
const RESUME_TIMEOUT: Duration = Duration::from_secs(15);
const DRAINING_CONSUMER: u32 = 99;

/// Publishes numbered durable messages and writes down what became of each.
struct Publisher {
    address: SocketAddr,
    client: Option<Stomp>,
    log: Log,
    sequence: u64,
}

impl Publisher {
    fn new(address: SocketAddr) -> Self {
        Self {
            address,
            client: None,
            log: Log::default(),
            sequence: 0,
        }
    }

    /// Publishes one message; a refusal ends the connection, and the next publish opens another.
    fn publish(&mut self, body_bytes: usize) -> Result<(), StompError> {
        self.sequence += 1;
        let id = MessageId {
            sender: 1,
            sequence: self.sequence,
        };
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Stomp::connect(self.address)?,
        };
        self.log.sent(id);
        client.send_durable(QUEUE, &id.body(body_bytes))?;
        self.log.acknowledged(id);
        self.client = Some(client);
        Ok(())
    }

    /// Publishes until the broker refuses, at most this many bytes.
    fn publish_until_refused(&mut self, bytes_max: u64) -> Option<StompError> {
        let messages = bytes_max / BODY_BYTES as u64;
        (0..messages).find_map(|_| self.publish(BODY_BYTES).err())
    }
}

fn says_disk_full(error: &StompError) -> bool {
    let text = error.to_string().to_lowercase();
    matches!(error, StompError::Refused(_)) && (text.contains("full") || text.contains("space"))
}

#[test]
fn a_full_disk_refuses_publishes_serves_reads_and_resumes_by_itself() {
    let disk = SmallDisk::mount(DISK_BYTES).unwrap();
    eprintln!("the small disk is a {:?}", disk.kind());
    let hive = Hive::options()
        .data(disk.path().join("data"))
        .start()
        .unwrap();
    let mut publisher = Publisher::new(hive.stomp_address());
    publisher.publish(100).unwrap();
    disk.fill_leaving(LEFT_BYTES).unwrap();

    let refused = publisher.publish_until_refused(2 * DISK_BYTES);
    let refused = refused.expect("the disk is full and every publish was acknowledged");
    assert!(
        says_disk_full(&refused),
        "the refusal does not say why: {refused}"
    );
    let again = publisher.publish(BODY_BYTES).unwrap_err();
    assert!(
        says_disk_full(&again),
        "the second refusal does not say why: {again}"
    );

    assert!(hive.is_healthy() || http_still_answers(&hive));
    let mut consumer = Stomp::connect(hive.stomp_address()).unwrap();
    consumer
        .subscribe("reader", QUEUE, AckMode::ClientIndividual, &[])
        .unwrap();
    for _ in 0..5 {
        let message = consumer.next_message(TIMEOUT).unwrap();
        publisher
            .log
            .received_body(1, &message.body, message.is_redelivered());
        consumer.ack_confirmed(&message).unwrap();
    }
    consumer.disconnect().unwrap();

    disk.free().unwrap();
    let resumed = wait_until(RESUME_TIMEOUT, || publisher.publish(BODY_BYTES).is_ok());
    assert!(resumed, "the broker did not resume after space was freed");
    let mut log = publisher.log;
    restart_and_judge(hive, &mut log);
}

/// A broker with a full disk may call itself unwell, but it has to answer.
fn http_still_answers(hive: &Hive) -> bool {
    hivewire_tests::http::request(hive.http_address(), "GET", "/health", &[], b"").is_ok()
}

fn restart_and_judge(mut hive: Hive, log: &mut Log) {
    hive.kill9();
    hive.start_again().unwrap();
    drain(hive.stomp_address(), QUEUE, DRAINING_CONSUMER, log).unwrap();
    judge(log, &BTreeSet::new(), Order::Any).assert_clean("after the disk was full");
}

#[test]
fn control_on_a_disk_with_space_the_same_publishes_are_acknowledged() {
    let disk = SmallDisk::mount(4 * DISK_BYTES).unwrap();
    let hive = Hive::options()
        .data(disk.path().join("data"))
        .start()
        .unwrap();
    let mut publisher = Publisher::new(hive.stomp_address());
    let refused = publisher.publish_until_refused(DISK_BYTES / 4);
    assert!(refused.is_none(), "refused with space left: {refused:?}");
}

/// Its presence says that the journal has made all the segments that a short test needs.
const NEXT_SEGMENT: &str = "journal/00000002.journal";

/// Publishes, lets every sync fail for a while, publishes on, and crashes; says how many
/// messages were acknowledged once syncs had failed, and how many acknowledged ones are gone.
fn fail_syncs_then_crash(unsafe_sync: bool) -> (u64, usize) {
    let mut disk = LossyFs::mount().unwrap();
    let mut options = Hive::options().data(disk.path().join("data"));
    if unsafe_sync {
        options = options.variable("HIVEWIRE_UNSAFE_SYNC", "off");
    }
    let mut hive = options.start().unwrap();
    let mut publisher = Publisher::new(hive.stomp_address());
    for _ in 0..20 {
        publisher.publish(1000).unwrap();
    }
    // Otherwise it could be the making of a segment that fails, and not the sync of a message.
    let made = wait_until(TIMEOUT, || hive.data().join(NEXT_SEGMENT).exists());
    assert!(made, "the journal made no next segment");
    disk.fail_syncs(true);
    let mut late = u64::from(publisher.publish(1000).is_ok());
    // From now on syncs would say "done", but what failed before is gone for good.
    disk.fail_syncs(false);
    for _ in 0..20 {
        late += u64::from(publisher.publish(1000).is_ok());
    }
    hive.kill9();
    disk.crash_losing_all_unsynced().unwrap();
    let mut log = publisher.log;
    hive.start_again().unwrap();
    drain(hive.stomp_address(), QUEUE, DRAINING_CONSUMER, &mut log).unwrap();
    (late, judge(&log, &BTreeSet::new(), Order::Any).lost())
}

#[test]
fn after_a_failed_sync_nothing_more_is_acknowledged_until_a_restart() {
    let (late, lost) = fail_syncs_then_crash(false);
    assert_eq!(late, 0, "messages were acknowledged after a failed sync");
    assert_eq!(lost, 0);
}

#[test]
fn control_a_broker_that_does_not_sync_acknowledges_on_and_loses() {
    let (late, lost) = fail_syncs_then_crash(true);
    assert!(
        late > 0 && lost > 0,
        "{late} acknowledged late, {lost} lost"
    );
}

const MANY_BYTES: usize = 64 << 20;
/// No progress for so long means that the publisher is held up.
const HELD_UP_AFTER: Duration = Duration::from_millis(500);
const ROUND_TRIPS: usize = 200;

/// Sends durable messages without waiting for any receipt, so that the journal gets more than it
/// may hold; counts what the broker has taken from the socket. Ends by itself when the broker does.
fn publish_much(address: SocketAddr, sent_bytes: &AtomicUsize) {
    let mut client = Stomp::connect(address).unwrap();
    let body = vec![b'd'; BODY_BYTES];
    let headers = [("persistent", "true")];
    while sent_bytes.load(Ordering::Relaxed) < MANY_BYTES {
        if client.send("/queue/durable", &headers, &body).is_err() {
            return;
        }
        sent_bytes.fetch_add(BODY_BYTES, Ordering::Relaxed);
    }
}

#[test]
fn a_disk_that_hangs_holds_up_only_those_who_need_it() {
    let disk = LossyFs::mount().unwrap();
    let data = disk.path().join("data");
    let mut hive = Hive::options().data(data).start().unwrap();
    let address = hive.stomp_address();
    let mut other = Stomp::connect(address).unwrap();
    other
        .subscribe("o", "/queue/other", AckMode::Auto, &[])
        .unwrap();
    let sent_bytes = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let hanging = disk.hang_syncs();
        scope.spawn(|| publish_much(address, &sent_bytes));
        let held_up = wait_until(TIMEOUT, || {
            let before = sent_bytes.load(Ordering::Relaxed);
            std::thread::sleep(HELD_UP_AFTER);
            before > 0 && sent_bytes.load(Ordering::Relaxed) == before
        });
        let sent = sent_bytes.load(Ordering::Relaxed);
        let slowest = (0..ROUND_TRIPS).map(|_| round_trip(&mut other)).max();
        // Control: whoever does need the disk gets no receipt.
        let durable = Publisher::new(address).publish(100);
        drop(hanging);
        eprintln!("held up after {sent} bytes; slowest round trip beside it {slowest:?}");
        assert!(held_up && sent < MANY_BYTES, "{sent} bytes were taken in");
        assert!(durable.is_err_and(|error| error.is_timeout()));
        assert!(slowest < Some(HELD_UP_AFTER), "one took {slowest:?}");
        // It goes on by itself, or else is cut off when the broker ends.
        let goes_on = wait_until(RESUME_TIMEOUT, || {
            sent_bytes.load(Ordering::Relaxed) >= MANY_BYTES
        });
        hive.kill9();
        assert!(goes_on, "the publisher is held up for ever");
    });
}

fn round_trip(client: &mut Stomp) -> Duration {
    let start = Instant::now();
    client.send("/queue/other", &[], b"hello").unwrap();
    client.next_message(TIMEOUT).unwrap();
    start.elapsed()
}
