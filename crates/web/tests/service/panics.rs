//! What becomes of states when handlers panic.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use web::shared::Keyed;
use web::{Key, OnPanic, Path, PathId, Read, Running, Service, Write};

use crate::rig::{build, get, post};

#[derive(Clone, Default)]
struct Count(u64);

/// A service that adds to a count, and panics in the middle of adding 13.
fn service(on_panic: OnPanic<Count>) -> Running {
    fn add(mut count: Write<Count>, Path(n): Path<u64>) {
        count.0 += n;
        assert!(n != 13, "as it should");
    }
    fn read(count: Read<Count>) -> String {
        count.0.to_string()
    }
    fn panics(_: Read<Count>) {
        panic!("as it should");
    }
    let service = Service::new().share_with(Count(1), on_panic);
    build(
        service
            .post("/{n}", add)
            .get("/", read)
            .get("/panics", panics),
    )
}

#[tokio::test]
async fn a_state_that_was_only_read_is_as_it_was() {
    let running = service(OnPanic::Quarantine);
    assert_eq!(get(&running, "/panics").await.status, 500);
    assert_eq!(get(&running, "/").await.text, "1");
}

#[tokio::test]
async fn quarantine_keeps_a_state_from_requests_until_it_is_released() {
    let running = service(OnPanic::Quarantine);
    assert_eq!(post(&running, "/13").await.status, 500);
    let refused = get(&running, "/").await;
    assert_eq!(refused.status, 503);
    assert!(
        refused
            .text
            .contains("POST /{n} panicked while it wrote Count"),
        "{}",
        refused.text
    );
    assert!(running.explain().states[0].quarantine.is_some());
    assert!(running.release::<Count>());
    assert!(!running.release::<Count>());
    assert_eq!(get(&running, "/").await.text, "14");
}

#[tokio::test]
async fn a_state_can_be_made_anew() {
    let running = service(OnPanic::reset(|| Count(100)));
    post(&running, "/1").await;
    assert_eq!(post(&running, "/13").await.status, 500);
    assert_eq!(get(&running, "/").await.text, "100");
}

#[tokio::test]
async fn a_state_can_be_rolled_back() {
    let running = service(OnPanic::roll_back());
    post(&running, "/1").await;
    assert_eq!(post(&running, "/13").await.status, 500);
    assert_eq!(get(&running, "/").await.text, "2");
    post(&running, "/1").await;
    assert_eq!(get(&running, "/").await.text, "3");
}

#[tokio::test]
async fn snapshots_may_be_taken_now_and_then() {
    let running = service(OnPanic::roll_back_every(3, Duration::MAX));
    for _ in 0..4 {
        post(&running, "/1").await;
    }
    // A snapshot was taken before the first and before the fourth write.
    assert_eq!(post(&running, "/13").await.status, 500);
    assert_eq!(get(&running, "/").await.text, "4");
}

#[tokio::test]
async fn what_cannot_be_made_anew_goes_into_quarantine() {
    let running = service(OnPanic::reset(|| panic!("as it should")));
    assert_eq!(post(&running, "/13").await.status, 500);
    assert_eq!(get(&running, "/").await.status, 503);
}

struct Names(HashMap<u64, String>);

impl Keyed for Names {
    type Key = u64;
    type Entry<'r> = &'r str;

    fn entry<'r>(&'r self, key: &'r u64) -> &'r str {
        self.0.get(key).map_or("", String::as_str)
    }

    fn hash_of(key: &u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish()
    }
}

fn names(on_panic: OnPanic<Names>) -> Running {
    fn rename(name: Key<Write<Names>, PathId>) {
        assert!(*name.key() != 13, "as it should");
    }
    fn count(names: Read<Names>) -> String {
        names.0.len().to_string()
    }
    let service = Service::new().share_with(Names(HashMap::new()), on_panic);
    build(service.post("/{id}", rename).get("/", count))
}

#[tokio::test]
async fn panics_of_those_who_hold_a_key_concern_the_whole_state() {
    let running = names(OnPanic::Quarantine);
    assert_eq!(post(&running, "/1").await.status, 200);
    assert_eq!(post(&running, "/13").await.status, 500);
    assert_eq!(post(&running, "/1").await.status, 503);

    let running = names(OnPanic::reset(|| {
        Names(HashMap::from([(1, "one".to_owned())]))
    }));
    assert_eq!(post(&running, "/13").await.status, 500);
    assert_eq!(get(&running, "/").await.text, "1");
}

#[test]
fn there_are_no_snapshots_of_keys() {
    #[derive(Clone)]
    struct Empty;
    impl Keyed for Empty {
        type Key = u64;
        type Entry<'r> = ();
        fn entry<'r>(&'r self, _: &'r u64) {}
        fn hash_of(key: &u64) -> u64 {
            *key
        }
    }
    fn write(_: Key<Write<Empty>, PathId>) {}
    let service = Service::new()
        .share_with(Empty, OnPanic::roll_back())
        .post("/{id}", write);
    let wrong = service.build().err().unwrap().to_string();
    assert!(
        wrong.contains("snapshots are taken of whole states only"),
        "{wrong}"
    );
}
