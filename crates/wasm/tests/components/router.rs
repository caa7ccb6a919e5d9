//! Components that choose workers.

use crate::support::{HOST, component, text};
use kernel::Headers;
use kernel::worker::{FailureKind, Incoming};
use wasm::Candidate;

fn to(worker: &str) -> Incoming {
    let mut message = text("x");
    message.message.headers = Headers::from_pairs([("to", worker)]).unwrap();
    message
}

#[test]
fn a_router_chooses_among_the_workers() {
    let router = HOST.load_router(&component("first-router")).unwrap();
    assert_eq!(router.info().name, "first-router");
    let workers = [(4, 7), (5, 2), (9, 3)].map(|(worker, waiting)| Candidate { worker, waiting });
    assert_eq!(router.select(&text("x"), &workers).unwrap(), [1]);
    assert_eq!(router.select(&to("9"), &workers).unwrap(), [2]);
    assert_eq!(router.select(&to("all"), &workers).unwrap(), [0, 1, 2]);
    let failure = router.select(&to("8"), &workers).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Error);
    assert_eq!(failure.reason, "there is no worker 8");
    assert!(router.select(&text("x"), &[]).is_err());
    assert_eq!(router.select(&to("4"), &workers).unwrap(), [0]);
}
