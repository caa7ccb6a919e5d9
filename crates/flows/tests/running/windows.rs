//! Windows of event time in the real runtime, beside a simple model.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::rig::{Middle, Rig, assert_same, counted, results};

const EVENTS: u64 = 1_500;
const KEYS: u64 = 8;

/// Times come out of order, by at most 80 ms, and there is a pause after each hundred events.
fn time_of(n: u64) -> i64 {
    (1_000_000 + n * 10 + n / 100 * 1_000 - n % 5 * 20) as i64
}

fn flow(cut: &str, delivery: &str, workers: u32) -> String {
    format!(
        r#"
        flow = "timed"
        delivery = "{delivery}"
        [stages.numbers]
        plugin = "generator"
        to = "windows"
        [stages.numbers.parameters]
        count = {EVENTS}
        per_second = 1000
        event = "{{'key': 'k' + string(n % {KEYS}), 'n': n, 'at': 1000000 + n * 10 + n / 100 * 1000 - n % 5 * 20}}"
        [stages.windows]
        plugin = "window"
        key = "json:/key"
        workers = {workers}
        to = "queue:windows"
        outputs = {{ late = "queue:late", refused = "queue:late" }}
        [stages.windows.parameters]
        cut = {cut}
        time = "event.at"
        by = "event.key"
        out_of_order = "100ms"
        idle = "4s"
        compute = {{ count = "count", total = {{ sum = "event.n" }} }}
        "#
    )
}

type Spans = BTreeMap<(i64, i64), Vec<u64>>;

fn fixed(numbers: &[u64], size: i64, every: i64) -> Spans {
    let mut spans = Spans::new();
    for &n in numbers {
        let time = time_of(n);
        let first = (time - size).div_euclid(every) + 1;
        for start in (first..=time.div_euclid(every)).map(|index| index * every) {
            spans.entry((start, start + size)).or_default().push(n);
        }
    }
    spans
}

fn sessions(numbers: &[u64], gap: i64) -> Spans {
    let mut sorted = numbers.to_vec();
    sorted.sort_by_key(|n| time_of(*n));
    let mut spans: Vec<((i64, i64), Vec<u64>)> = Vec::new();
    for n in sorted {
        let time = time_of(n);
        match spans.last_mut() {
            Some(((_, end), events)) if time < *end => {
                *end = time + gap;
                events.push(n);
            }
            _ => spans.push(((time, time + gap), vec![n])),
        }
    }
    spans.into_iter().collect()
}

fn expected(cut: impl Fn(&[u64]) -> Spans) -> Vec<Value> {
    let mut windows = Vec::new();
    for key in 0..KEYS {
        let numbers: Vec<u64> = (0..EVENTS).filter(|n| n % KEYS == key).collect();
        for ((start, end), events) in cut(&numbers) {
            let total: u64 = events.iter().sum();
            windows.push(json!({
                "key": format!("k{key}"), "start": start, "end": end, "count": events.len(), "total": total,
            }));
        }
    }
    windows
}

fn cuts() -> [(&'static str, Vec<Value>); 3] {
    [
        (
            r#"{ tumbling = "500ms" }"#,
            expected(|numbers| fixed(numbers, 500, 500)),
        ),
        (
            r#"{ sliding = { size = "1s", every = "250ms" } }"#,
            expected(|numbers| fixed(numbers, 1_000, 250)),
        ),
        (
            r#"{ session = "600ms" }"#,
            expected(|numbers| sessions(numbers, 600)),
        ),
    ]
}

async fn check(delivery: &'static str, middle: Middle, workers: u32) {
    let run = |(cut, expected): (&'static str, Vec<Value>)| async move {
        let what = format!("{cut}, {delivery}, {middle:?}, {workers} workers");
        let document = flow(cut, delivery, workers);
        let sizes = (10, expected.len());
        let (rig, found) = results(Rig::new(), &document, "windows", sizes, middle).await;
        assert_same(&what, found, expected);
        let late = rig.take("late", 0).await;
        assert!(late.is_empty(), "{what}: {late:?}");
    };
    let runs: JoinSet<()> = cuts().into_iter().map(run).collect();
    runs.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_in_memory_are_those_of_the_model() {
    check("at-most-once", Middle::Nothing, 1).await;
    check("at-most-once", Middle::Nothing, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_are_the_same_while_the_stage_grows_and_shrinks() {
    check("at-most-once", Middle::Scale("timed/windows"), 1).await;
    check("state-once", Middle::Scale("timed/windows"), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_are_the_same_across_a_restart() {
    check("state-once", Middle::Nothing, 2).await;
    check("state-once", Middle::Restart, 2).await;
}

/// The control: what is in memory only begins anew, and windows come out again.
#[tokio::test(flavor = "multi_thread")]
async fn windows_in_memory_show_a_restart() {
    let [(cut, expected), ..] = cuts();
    let document = flow(cut, "at-most-once", 2);
    let sizes = (10, expected.len());
    let (_, found) = results(Rig::new(), &document, "windows", sizes, Middle::Restart).await;
    assert_ne!(counted(found), counted(expected));
}
