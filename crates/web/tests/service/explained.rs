//! What a service says about itself.

use std::collections::HashMap;

use web::service::Conflict;
use web::{Carried, Class, Path, Read, Service, Settings, Then, Tick, Write, next_tick};

use crate::rig::{Gate, asking, build, get, post, until};

type Cache = HashMap<u32, u64>;

#[derive(Default)]
struct Hits;

fn hello() -> &'static str {
    "hello"
}

fn lookup(_: Read<Cache>) {}

fn store(_: Write<Cache>, _: Write<Hits>) {}

fn hits(_: Read<Hits>) {}

fn fib(cache: Read<Cache>, Path(n): Path<u32>) -> Then<u64> {
    cache.compute(n, || 1).commit(|_: &mut Cache, _| ())
}

fn first(_: Read<Hits>) -> Tick<u32> {
    Tick::next(1)
}

fn second(_: Carried<u32>, _: Write<Cache>) {}

fn service() -> Service {
    Service::new()
        .share(Cache::new())
        .share(Hits)
        .get("/hello", hello)
        .get("/lookup", lookup)
        .post("/store", store)
        .get("/hits", hits)
        .get("/fib/{n}", fib)
        .post("/both", next_tick(first, second))
}

#[test]
fn classes_come_from_parameters_and_results() {
    let explained = service().explain();
    let classes: Vec<Class> = explained.routes.iter().map(|route| route.class).collect();
    use Class::{Exclusive, Shared, Stateless};
    assert_eq!(
        classes,
        [Stateless, Shared, Exclusive, Shared, Exclusive, Exclusive]
    );
}

#[test]
fn conflicts_are_those_of_states() {
    use Conflict::{Always as X, None as O};
    let expected = [
        [O, O, O, O, O, O],
        [O, O, X, O, X, X],
        [O, X, X, X, X, X],
        [O, O, X, O, O, O],
        [O, X, X, O, X, X],
        [O, X, X, O, X, X],
    ];
    assert_eq!(service().explain().conflicts, expected);
}

#[test]
fn it_can_be_read() {
    let text = service().explain().to_string();
    assert!(
        text.contains("GET   /fib/{n}  exclusive  Read<HashMap<u32, u64>> and commits"),
        "{text}"
    );
    assert!(
        text.contains("POST  /store    exclusive  Write<HashMap<u32, u64>>, Write<Hits>"),
        "{text}"
    );
}

#[tokio::test]
async fn what_happened_is_counted() {
    let running = build(service());
    for _ in 0..3 {
        get(&running, "/lookup").await;
    }
    let done = || running.explain().loops.unwrap().done;
    until("all calls have ended", || done() == 3).await;
    let explained = running.explain();
    let (hello, lookup) = (&explained.routes[0], &explained.routes[1]);
    let live = lookup.live.as_ref().unwrap();
    assert_eq!((live.calls, live.taking.count), (3, 3));
    assert!(live.taking.p50_ns > 0 && live.taking.p50_ns <= live.taking.p99_ns);
    let live = hello.live.as_ref().unwrap();
    assert_eq!(
        (live.calls, live.taking.count, live.taking.p99_ns),
        (0, 0, 0)
    );
    let cache = explained.states[0].live.as_ref().unwrap();
    assert_eq!(
        (cache.taken_at_once, cache.parked, cache.held_now),
        (3, 0, false)
    );
    let loops = explained.loops.as_ref().unwrap();
    assert_eq!(loops.queued, 0);
    assert!(loops.loops >= 1 && loops.threads > loops.loops && loops.busy_ns > 0);
}

#[tokio::test]
async fn waiting_for_a_state_is_told_in_numbers_and_words() {
    let gate = Gate::default();
    let held = gate.clone();
    let hold = move |_: Write<Hits>| held.pass();
    let settings = Settings {
        loops: 2,
        ..Settings::default()
    };
    let service = Service::new()
        .share(Hits)
        .post("/", hold)
        .settings(settings);
    let running = build(service);
    let first = asking(&running, "POST", "/");
    until("it is held", || gate.came() == 1).await;
    let second = asking(&running, "POST", "/");
    let state = || running.explain().states[0].live.unwrap();
    until("one waits", || state().waiting_now == 1).await;
    assert!(state().held_now);
    gate.open();
    assert_eq!(
        (first.await.unwrap().status, second.await.unwrap().status),
        (200, 200)
    );
    until("all is over", || !state().held_now).await;
    let state = state();
    assert_eq!(
        (state.taken_at_once, state.parked, state.waiting_now),
        (1, 1, 0)
    );
    assert_eq!((state.refused, state.cancelled), (0, 0));
    assert_eq!(state.waiting.count, 1);
    assert!(state.waiting.p50_ns > 0 && state.holding.count >= 1);
    let text = running.explain().to_string();
    assert!(
        text.contains("taken at once 1, after waiting 1 (p50 "),
        "{text}"
    );
    assert!(text.contains(", held p50 "), "{text}");
}

#[tokio::test]
async fn it_is_the_same_for_programs() {
    let running = build(service());
    post(&running, "/store").await;
    let done = || running.explain().loops.unwrap().done;
    until("the call has ended", || done() == 1).await;
    let told = serde_json::to_value(running.explain()).unwrap();
    assert_eq!(told["routes"][2]["live"]["calls"], 1);
    assert_eq!(told["states"][0]["live"]["taken_at_once"], 1);
    assert_eq!(told["loops"]["done"], 1);
    let schema = schemars::schema_for!(web::Explanation).to_value();
    let described = |kind: &str, part: &str| {
        let part = &schema["$defs"][kind]["properties"][part];
        part["description"].is_string()
    };
    assert!(described("StateLive", "waiting_now"), "{schema}");
    assert!(described("TimesExplained", "p99_ns"), "{schema}");
    assert!(
        schema["$defs"]["Taken"]["properties"]["scope"].is_null(),
        "{schema}"
    );
}
