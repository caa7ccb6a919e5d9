//! What is found to be wrong before a service runs.

use web::{Carried, Read, Service, Shared, Tick, Write, next_tick};

#[derive(Default)]
struct Cache;

#[derive(Default)]
struct Hits;

#[derive(Default)]
struct Counter;

impl web::shared::Concurrent for Counter {}

fn mistakes(service: Service) -> String {
    match service.build() {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn taking_a_state_twice_in_conflict_names_both_parameters() {
    fn both(_: Read<Hits>, _: Write<Cache>, _: Read<Cache>) {}
    fn fine(_: Read<Hits>, _: Read<Cache>, _: Read<Cache>) {}

    let service = || Service::new().share(Cache).share(Hits);
    let wrong = mistakes(service().get("/both", both));
    assert!(
        wrong.contains("GET /both: parameter 2 (Write<Cache>) and parameter 3 (Read<Cache>) take the state Cache in conflict"),
        "{wrong}"
    );
    assert_eq!(mistakes(service().get("/fine", fine)), "none");
}

#[test]
fn a_state_that_nobody_shared_says_how_to_share_it() {
    fn lookup(_: Read<Cache>) {}

    let wrong = mistakes(Service::new().get("/", lookup));
    assert!(wrong.contains("parameter 1 (Read<Cache>)"), "{wrong}");
    assert!(wrong.contains(".share(Cache::default())"), "{wrong}");
    assert_eq!(
        mistakes(Service::new().get("/", lookup).share(Cache)),
        "none"
    );
}

#[test]
fn a_state_is_shared_once() {
    let wrong = mistakes(Service::new().share(Cache).share(Cache));
    assert!(wrong.contains("Cache is shared twice"), "{wrong}");
}

#[test]
fn a_state_without_a_lock_is_nowhere_written() {
    fn count(_: Shared<Counter>) {}
    fn reset(_: Write<Counter>) {}
    fn look(_: Read<Counter>) {}

    let service = || Service::new().share(Counter).get("/count", count);
    let wrong = mistakes(service().post("/reset", reset));
    assert!(
        wrong.contains("POST /reset: parameter 1 (Write<Counter>)"),
        "{wrong}"
    );
    assert!(
        wrong.contains("which GET /count uses without a lock"),
        "{wrong}"
    );
    assert_eq!(mistakes(service().get("/look", look)), "none");
}

#[test]
fn what_is_carried_must_be_given() {
    fn gives() -> Tick<u32> {
        Tick::next(1)
    }
    fn takes(_: Carried<u32>) {}
    fn takes_text(_: Carried<String>) {}
    fn answers() {}

    let with = |service: Service| mistakes(service);
    assert_eq!(
        with(Service::new().get("/", next_tick(gives, takes))),
        "none"
    );
    let wrong = with(Service::new().get("/", next_tick(gives, takes_text)));
    assert!(
        wrong.contains("takes Carried<String>, but the one before gives Tick<u32>"),
        "{wrong}"
    );
    let wrong = with(Service::new().get("/", takes));
    assert!(wrong.contains("none before it gives a Tick"), "{wrong}");
    let wrong = with(Service::new().get("/", gives));
    assert!(wrong.contains("nothing comes after it"), "{wrong}");
    let wrong = with(Service::new().get("/", next_tick(answers, answers)));
    assert!(wrong.contains("let it give a Tick"), "{wrong}");
}

#[test]
fn routes_that_do_not_fit_together_are_mistakes_and_no_panic() {
    fn hello() {}

    let wrong = mistakes(Service::new().get("/a", hello).get("/a", hello));
    assert!(
        wrong.contains("GET /a: there is a handler for this already"),
        "{wrong}"
    );
    assert!(mistakes(Service::new().get("a", hello)).contains("the routes cannot be built"));
    assert!(
        mistakes(Service::new().get("/{a}", hello).get("/{b}", hello))
            .contains("the routes cannot be built")
    );
    assert_eq!(
        mistakes(Service::new().get("/a", hello).post("/a", hello)),
        "none"
    );
}
