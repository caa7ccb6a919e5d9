//! Computing without the lock, and committing with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use web::{Path, Problem, Read, Running, Service, Settings, Then, Write};

use crate::rig::{Gate, asking, build, get, post, until};

type Cache = HashMap<u32, u64>;

/// A service that computes squares at a gate.
fn squares(gate: &Gate, settings: Settings) -> (Running, Arc<AtomicUsize>) {
    let (gate, computed) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&computed);
    let square = move |cache: Read<Cache>, Path(n): Path<u32>| {
        if let Some(value) = cache.get(&n) {
            return Then::now(*value);
        }
        let (gate, counted) = (gate.clone(), Arc::clone(&counted));
        let compute = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            gate.pass();
            u64::from(n) * u64::from(n)
        };
        cache
            .compute(n, compute)
            .commit(move |cache: &mut Cache, value| {
                cache.insert(n, *value);
            })
    };
    let clear = |mut cache: Write<Cache>| cache.clear();
    let service = Service::new()
        .share(Cache::new())
        .get("/{n}", square)
        .post("/clear", clear);
    (
        build(service.settings(Settings {
            loops: 4,
            ..settings
        })),
        computed,
    )
}

#[tokio::test]
async fn one_computation_serves_all_who_ask_meanwhile() {
    let gate = Gate::default();
    let (running, computed) = squares(&gate, Settings::default());
    let asked: Vec<_> = (0..20).map(|_| asking(&running, "GET", "/7")).collect();
    let waiting = || {
        running.explain().routes[0]
            .live
            .as_ref()
            .unwrap()
            .waiting_for_computations
    };
    until("all wait", || waiting() == 20).await;
    gate.open();
    for each in asked {
        assert_eq!(each.await.unwrap().text, "49");
    }
    assert_eq!(computed.load(Ordering::SeqCst), 1);
    assert_eq!(get(&running, "/7").await.text, "49");
    assert_eq!(computed.load(Ordering::SeqCst), 1, "it was committed");
    assert_eq!(get(&running, "/8").await.text, "64");
    assert_eq!(
        computed.load(Ordering::SeqCst),
        2,
        "another key is another computation"
    );
}

#[tokio::test]
async fn nobody_waits_for_the_state_while_something_is_computed() {
    let gate = Gate::default();
    let (running, _) = squares(&gate, Settings::default());
    let computing = asking(&running, "GET", "/7");
    until("it is computed", || gate.came() == 1).await;
    assert_eq!(
        post(&running, "/clear").await.status,
        200,
        "the state can be written"
    );
    gate.open();
    assert_eq!(computing.await.unwrap().text, "49");
}

#[tokio::test]
async fn a_computation_goes_on_if_who_began_it_is_gone() {
    let gate = Gate::default();
    let (running, computed) = squares(&gate, Settings::default());
    let first = asking(&running, "GET", "/7");
    until("it is computed", || gate.came() == 1).await;
    let second = asking(&running, "GET", "/7");
    let waiting = || {
        running.explain().routes[0]
            .live
            .as_ref()
            .unwrap()
            .waiting_for_computations
    };
    until("both wait", || waiting() == 2).await;
    first.abort();
    gate.open();
    assert_eq!(second.await.unwrap().text, "49");
    assert_eq!(computed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn not_more_wait_for_a_computation_than_may() {
    let gate = Gate::default();
    let settings = Settings {
        computing_waiting_max: 1,
        ..Settings::default()
    };
    let (running, _) = squares(&gate, settings);
    let first = asking(&running, "GET", "/7");
    until("it is computed", || gate.came() == 1).await;
    assert_eq!(get(&running, "/7").await.status, 503);
    gate.open();
    assert_eq!(first.await.unwrap().text, "49");
}

#[tokio::test]
async fn a_computation_that_panics_fails_for_all_and_harms_no_state() {
    let compute = |cache: Read<Cache>, Path(n): Path<u32>| {
        if n == 0 {
            return Then::reply(Problem::new(404, "No such number"));
        }
        cache
            .compute(n, move || match n {
                1 => panic!("as it should"),
                _ => u64::from(n),
            })
            .commit(move |_: &mut Cache, _| assert!(n != 2, "as it should"))
    };
    let read = |cache: Read<Cache>| cache.len().to_string();
    let running = build(
        Service::new()
            .share(Cache::new())
            .get("/{n}", compute)
            .get("/", read),
    );
    assert_eq!(get(&running, "/0").await.status, 404);
    assert_eq!(get(&running, "/1").await.status, 500);
    assert_eq!(get(&running, "/").await.status, 200, "nobody wrote");
    assert_eq!(get(&running, "/3").await.text, "3");
    assert_eq!(get(&running, "/2").await.status, 500);
    assert_eq!(
        get(&running, "/").await.status,
        503,
        "the commit left it half-written"
    );
    assert!(running.release::<Cache>());
    assert_eq!(get(&running, "/").await.status, 200);
}
