//! What a service says about itself.

use std::collections::HashMap;

use web::service::Conflict;
use web::{Carried, Class, Path, Read, Service, Then, Tick, Write, next_tick};

use crate::rig::{build, get};

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
    let explained = running.explain();
    assert_eq!(explained.routes[1].live.as_ref().unwrap().calls, 3);
    assert_eq!(explained.routes[0].live.as_ref().unwrap().calls, 0);
    assert!(explained.states[0].live.is_some());
}
