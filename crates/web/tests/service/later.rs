//! `async` handlers, which ask somebody and leave the rest to a handler that takes state.

use axum::http::StatusCode;
use web::{Carried, Path, Read, Service, Tick, Write, next_tick};

use crate::rig::{build, get, post};

#[derive(Default)]
struct Total(u64);

/// Finds out something elsewhere.
async fn price(Path(n): Path<u64>) -> Tick<u64> {
    tokio::task::yield_now().await;
    match n {
        0 => Tick::reply((StatusCode::CONFLICT, "sold out")),
        13 => panic!("as it should"),
        n => Tick::next(n * 10),
    }
}

fn add(Carried(price): Carried<u64>, mut total: Write<Total>) -> Tick<String> {
    total.0 += price;
    Tick::next(format!("{} in all", total.0))
}

/// A third step needs no state again.
fn tell(Carried(text): Carried<String>) -> String {
    text + "."
}

fn total(total: Read<Total>) -> String {
    total.0.to_string()
}

#[tokio::test]
async fn the_first_asks_and_the_second_commits() {
    let service = Service::new().share(Total::default());
    let running = build(
        service
            .post("/{n}", next_tick(price, next_tick(add, tell)))
            .get("/", total),
    );
    assert_eq!(post(&running, "/2").await.text, "20 in all.");
    assert_eq!(post(&running, "/3").await.text, "50 in all.");
    let sold_out = post(&running, "/0").await;
    assert_eq!((sold_out.status, sold_out.text.as_str()), (409, "sold out"));
    assert_eq!(post(&running, "/13").await.status, 500, "it panicked");
    assert_eq!(post(&running, "/x").await.status, 400);
    assert_eq!(get(&running, "/").await.text, "50");
    let live = running.explain().routes[0].live.clone().unwrap();
    assert_eq!(live.calls, 4);
    assert_eq!(live.taking.count, 4, "what it awaited is measured");
}

#[tokio::test]
async fn what_an_async_handler_gives_is_any_outcome() {
    async fn status() -> Result<&'static str, StatusCode> {
        Err(StatusCode::IM_A_TEAPOT)
    }
    let running = build(Service::new().get("/", status));
    assert_eq!(get(&running, "/").await.status, 418);
}

#[test]
fn what_is_given_must_be_taken() {
    fn other(_: Carried<String>) {}
    let wrong = |service: Service| service.build().err().unwrap().to_string();
    let error = wrong(Service::new().get("/{n}", price));
    assert!(
        error.contains("a callback gives Tick<u64>, but nothing comes after it"),
        "{error}"
    );
    let error = wrong(Service::new().get("/{n}", next_tick(price, other)));
    assert!(error.contains("the one before gives Tick<u64>"), "{error}");
}
