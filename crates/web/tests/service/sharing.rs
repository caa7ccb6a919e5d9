//! Handlers that take state run beside each other exactly as their parameters allow.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use web::shared::{Concurrent, Keyed};
use web::{Carried, Key, Path, PathId, Read, Service, Settings, Shared, Tick, Write, next_tick};

use crate::rig::{Gate, asking, build, get, post, until};

#[derive(Default)]
struct Count(u64);

/// So that requests meet, and nobody is refused because the machine is busy.
fn many_loops() -> Settings {
    Settings {
        loops: 4,
        park_timeout_ms: 600_000,
        ..Settings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost() {
    // Without the lock, reading and writing apart would lose some.
    fn add(mut count: Write<Count>) {
        let before = count.0;
        std::thread::yield_now();
        count.0 = before + 1;
    }
    fn read(count: Read<Count>) -> String {
        count.0.to_string()
    }
    let running = build(
        Service::new()
            .share(Count(0))
            .post("/", add)
            .get("/", read)
            .settings(many_loops()),
    );
    let asked: Vec<_> = (0..1000).map(|_| asking(&running, "POST", "/")).collect();
    for each in asked {
        assert_eq!(each.await.unwrap().status, 200);
    }
    assert_eq!(get(&running, "/").await.text, "1000");
}

#[tokio::test]
async fn readers_run_beside_each_other_and_writers_alone() {
    let (reading, wrote) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (gate, written) = (reading.clone(), Arc::clone(&wrote));
    let read = move |_: Read<Count>| gate.pass();
    let write = move |_: Write<Count>| {
        written.fetch_add(1, Ordering::SeqCst);
    };
    let hello = || "hello";
    let service = Service::new()
        .share(Count(0))
        .get("/", read)
        .post("/", write)
        .get("/hello", hello);
    let running = build(service.settings(many_loops()));
    let readers = [asking(&running, "GET", "/"), asking(&running, "GET", "/")];
    until("both read", || reading.came() == 2).await;
    let writer = asking(&running, "POST", "/");
    assert_eq!(
        get(&running, "/hello").await.text,
        "hello",
        "stateless requests wait for nobody"
    );
    assert_eq!(wrote.load(Ordering::SeqCst), 0, "the writer waits");
    // Readers that come after the writer wait behind it.
    let late = asking(&running, "GET", "/");
    get(&running, "/hello").await;
    assert_eq!(reading.came(), 2);
    reading.open();
    for each in readers.into_iter().chain([writer, late]) {
        assert_eq!(each.await.unwrap().status, 200);
    }
    assert_eq!((reading.came(), wrote.load(Ordering::SeqCst)), (3, 1));
}

#[tokio::test]
async fn who_waits_too_long_is_refused_and_leaves_the_queue() {
    let gate = Gate::default();
    let held = gate.clone();
    let hold = move |_: Write<Count>| held.pass();
    let settings = Settings {
        park_timeout_ms: 20,
        ..many_loops()
    };
    let running = build(
        Service::new()
            .share(Count(0))
            .post("/", hold)
            .settings(settings),
    );
    let first = asking(&running, "POST", "/");
    until("it is held", || gate.came() == 1).await;
    let refused = post(&running, "/").await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.headers["retry-after"], "1");
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(gate.came(), 1, "who was refused is never called");
    assert_eq!(post(&running, "/").await.status, 200);
}

#[tokio::test]
async fn no_more_wait_than_may() {
    let gate = Gate::default();
    let held = gate.clone();
    let hold = move |_: Write<Count>| held.pass();
    let settings = Settings {
        waiting_max: 0,
        ..many_loops()
    };
    let running = build(
        Service::new()
            .share(Count(0))
            .post("/", hold)
            .settings(settings),
    );
    let first = asking(&running, "POST", "/");
    until("it is held", || gate.came() == 1).await;
    assert_eq!(post(&running, "/").await.status, 503);
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(running.explain().overloaded, 1);
}

#[tokio::test]
async fn more_than_the_loops_can_queue_is_refused() {
    let gate = Gate::default();
    let held = gate.clone();
    let settings = Settings {
        loops: 1,
        queued_max: 1,
        long_max: 0,
        ..Settings::default()
    };
    let running = build(
        Service::new()
            .get("/", move || held.pass())
            .settings(settings),
    );
    let first = asking(&running, "GET", "/");
    until("it runs", || gate.came() == 1).await;
    let others: Vec<_> = (0..3).map(|_| asking(&running, "GET", "/")).collect();
    until("two are refused", || {
        others.iter().filter(|other| other.is_finished()).count() == 2
    })
    .await;
    gate.open();
    let mut statuses = vec![first.await.unwrap().status];
    for other in others {
        statuses.push(other.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 503, 503]);
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_is_forgotten() {
    let gate = Gate::default();
    let held = gate.clone();
    let hold = move |_: Write<Count>| held.pass();
    let running = build(
        Service::new()
            .share(Count(0))
            .post("/", hold)
            .settings(many_loops()),
    );
    let first = asking(&running, "POST", "/");
    until("it is held", || gate.came() == 1).await;
    let gone = asking(&running, "POST", "/");
    tokio::task::yield_now().await;
    gone.abort();
    assert!(gone.await.is_err());
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(post(&running, "/").await.status, 200);
    assert_eq!(gate.came(), 2);
}

/// A map of accounts, the simplest that can be locked key by key.
struct Accounts {
    all: HashMap<u64, parking_lot::Mutex<i64>>,
}

struct Account<'r> {
    balance: &'r parking_lot::Mutex<i64>,
}

impl Keyed for Accounts {
    type Key = u64;
    type Entry<'r> = Account<'r>;

    fn entry<'r>(&'r self, key: &'r u64) -> Account<'r> {
        Account {
            balance: &self.all[key],
        }
    }

    fn hash_of(key: &u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish()
    }
}

fn accounts() -> Accounts {
    Accounts {
        all: (0..10)
            .map(|id| (id, parking_lot::Mutex::new(100)))
            .collect(),
    }
}

struct From(u64);
struct To(u64);

impl web::Extract for From {
    fn extract(asked: &mut web::Asked) -> Result<Self, web::Problem> {
        Path::<(u64, u64)>::extract(asked).map(|path| Self(path.0.0))
    }
}

impl web::KeySource<u64> for From {
    fn into_key(self) -> u64 {
        self.0
    }
}

impl web::Extract for To {
    fn extract(asked: &mut web::Asked) -> Result<Self, web::Problem> {
        Path::<(u64, u64)>::extract(asked).map(|path| Self(path.0.1))
    }
}

impl web::KeySource<u64> for To {
    fn into_key(self) -> u64 {
        self.0
    }
}

#[tokio::test]
async fn keys_are_locked_one_by_one() {
    let gate = Gate::default();
    let held = gate.clone();
    let hold = move |_: Key<Write<Accounts>, PathId>| held.pass();
    let all = |accounts: Read<Accounts>| accounts.all.len().to_string();
    let running = build(
        Service::new()
            .share(accounts())
            .post("/{id}", hold)
            .get("/", all)
            .settings(many_loops()),
    );
    let keys = [
        asking(&running, "POST", "/1"),
        asking(&running, "POST", "/2"),
    ];
    until("both keys are held", || gate.came() == 2).await;
    let same = asking(&running, "POST", "/2");
    let whole = asking(&running, "GET", "/");
    tokio::task::yield_now().await;
    assert!(!same.is_finished() && !whole.is_finished());
    assert_eq!(gate.came(), 2, "the same key waits");
    gate.open();
    for each in keys.into_iter().chain([same, whole]) {
        assert_eq!(each.await.unwrap().status, 200);
    }
    assert_eq!(gate.came(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_keys_of_a_request_are_had_together() {
    fn transfer(from: Key<Write<Accounts>, From>, to: Key<Write<Accounts>, To>) {
        // Both are locked, so nothing comes between reading and writing.
        let (had, has) = (*from.balance.lock(), *to.balance.lock());
        std::thread::yield_now();
        *from.balance.lock() = had - 1;
        *to.balance.lock() = has + 1;
    }
    fn total(accounts: Read<Accounts>) -> String {
        accounts
            .all
            .values()
            .map(|balance| *balance.lock())
            .sum::<i64>()
            .to_string()
    }
    let service = Service::new()
        .share(accounts())
        .post("/{from}/{to}", transfer)
        .get("/", total);
    let running = build(service.settings(many_loops()));
    let mut asked = Vec::new();
    for number in 0..500_u64 {
        let (from, to) = (number % 10, (number * 7 + 1) % 10);
        if from != to {
            asked.push(asking(&running, "POST", &format!("/{from}/{to}")));
        }
    }
    for each in asked {
        assert_eq!(each.await.unwrap().status, 200);
    }
    assert_eq!(get(&running, "/").await.text, "1000");
    let same = post(&running, "/3/3").await;
    assert_eq!(
        same.status, 400,
        "one account cannot be had twice: {}",
        same.text
    );
}

struct Hits(AtomicUsize);

impl Concurrent for Hits {}

#[tokio::test]
async fn concurrent_state_needs_no_lock() {
    let gate = Gate::default();
    let held = gate.clone();
    let hit = move |hits: Shared<Hits>| {
        hits.0.fetch_add(1, Ordering::SeqCst);
        held.pass();
    };
    let running = build(
        Service::new()
            .share(Hits(AtomicUsize::new(0)))
            .post("/", hit)
            .settings(many_loops()),
    );
    let asked = [asking(&running, "POST", "/"), asking(&running, "POST", "/")];
    until("both are there", || gate.came() == 2).await;
    gate.open();
    for each in asked {
        assert_eq!(each.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn between_two_callbacks_others_run() {
    let (gate, between) = (Gate::default(), Gate::default());
    let (second_gate, first_came) = (gate.clone(), between.clone());
    first_came.open();
    let first = move |mut count: Write<Count>| {
        count.0 += 1;
        first_came.pass();
        Tick::next(count.0)
    };
    let second = move |Carried(seen): Carried<u64>, _: Read<Log>| {
        second_gate.pass();
        seen.to_string()
    };
    struct Log;
    let add = |mut count: Write<Count>| {
        count.0 += 10;
        count.0.to_string()
    };
    let service = Service::new().share(Count(0)).share(Log);
    let running = build(
        service
            .post("/both", next_tick(first, second))
            .post("/add", add)
            .settings(many_loops()),
    );
    let both = asking(&running, "POST", "/both");
    until("the second is called", || gate.came() == 1).await;
    assert_eq!(
        post(&running, "/add").await.text,
        "11",
        "the first lock is free again"
    );
    gate.open();
    assert_eq!(both.await.unwrap().text, "1");
}

#[tokio::test]
async fn an_answer_may_come_after_the_first_of_two() {
    fn first() -> Tick<u32> {
        Tick::reply("no")
    }
    fn second(_: Carried<u32>) -> &'static str {
        "yes"
    }
    let running = build(Service::new().get("/", next_tick(first, second)));
    assert_eq!(get(&running, "/").await.text, "no");
}

#[tokio::test]
async fn short_routes_run_on_io_threads_until_they_are_long() {
    let (slow, seen) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(parking_lot::Mutex::new(String::new())),
    );
    let (is_slow, thread) = (Arc::clone(&slow), Arc::clone(&seen));
    let handle = move |_: Read<Count>| {
        *thread.lock() = std::thread::current().name().unwrap_or("").to_owned();
        if is_slow.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    let running = build(Service::new().share(Count(0)).get("/", handle));
    get(&running, "/").await;
    assert!(
        seen.lock().starts_with("web"),
        "nothing is known yet: {}",
        seen.lock()
    );
    let is_inline = || running.explain().routes[0].live.as_ref().unwrap().is_inline;
    // A busy machine may make some calls long, so it can take more than 256 of them.
    for _ in 0..100_000 {
        if is_inline() {
            break;
        }
        get(&running, "/").await;
    }
    get(&running, "/").await;
    assert!(!seen.lock().starts_with("web"), "{}", seen.lock());
    slow.store(1, Ordering::SeqCst);
    get(&running, "/").await;
    assert!(!is_inline(), "one long call is enough");
    get(&running, "/").await;
    assert!(seen.lock().starts_with("web"));
}
