//! Chains of stages: what goes in at one end comes out at the other, each event once.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::rig::{Middle, Rig, assert_same, counted, results};

const EVENTS: u64 = 3_000;
const KEYS: u64 = 20;

/// generator -> map -> filter -> keyed aggregate -> to-queue.
fn chain(delivery: &str, workers: u32) -> String {
    format!(
        r#"
        flow = "chain"
        delivery = "{delivery}"
        [stages.numbers]
        plugin = "generator"
        parameters = {{ count = {EVENTS}, per_second = 2000 }}
        to = "halves"
        [stages.halves]
        plugin = "map"
        workers = {workers}
        parameters = {{ to = "{{'n': event.n, 'key': 'k' + string(event.n % {KEYS})}}" }}
        to = "some"
        [stages.some]
        plugin = "filter"
        workers = {workers}
        parameters = {{ where = "event.n % 3 != 0" }}
        to = "totals"
        [stages.totals]
        plugin = "aggregate"
        key = "json:/key"
        workers = {workers}
        parameters = {{ by = "event.key", compute = {{ count = "count", last = {{ max = "event.n" }} }} }}
        to = "out"
        [stages.out]
        plugin = "to-queue"
        grants = ["send:queue:*"]
        parameters = {{ queue = "totals" }}
        "#
    )
}

/// Each key is counted up one by one, so a lost or doubled event shows.
fn expected() -> Vec<Value> {
    let mut counts = [0; KEYS as usize];
    let passed = (0..EVENTS).filter(|n| n % 3 != 0);
    let count = |n: u64| {
        let count = &mut counts[(n % KEYS) as usize];
        *count += 1;
        json!({ "key": format!("k{}", n % KEYS), "count": *count })
    };
    passed.map(count).collect()
}

fn without_last(mut values: Vec<Value>) -> Vec<Value> {
    for value in &mut values {
        value.as_object_mut().unwrap().remove("last");
    }
    values
}

fn lasts(values: &[Value]) -> Vec<u64> {
    (0..KEYS)
        .map(|key| {
            let of_key = values
                .iter()
                .filter(|value| value["key"] == format!("k{key}"));
            of_key
                .map(|value| value["last"].as_f64().unwrap() as u64)
                .max()
                .unwrap()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_counts_each_event_once_whatever_happens_in_the_middle() {
    let disturbances = [
        ("at-most-once", Middle::Nothing),
        ("at-most-once", Middle::Scale("chain/totals")),
        ("at-most-once", Middle::Scale("chain/some")),
        ("state-once", Middle::Nothing),
        ("state-once", Middle::Scale("chain/totals")),
        ("state-once", Middle::Scale("chain/halves")),
        ("state-once", Middle::Restart),
    ];
    let mut runs = JoinSet::new();
    for (delivery, middle) in disturbances {
        for workers in [1, 3] {
            runs.spawn(check(delivery, middle, workers));
        }
    }
    runs.join_all().await;
}

async fn check(delivery: &str, middle: Middle, workers: u32) {
    let what = format!("{delivery}, {middle:?}, {workers} workers");
    let expected = expected();
    let sizes = (100, expected.len());
    let document = chain(delivery, workers);
    let (_, found) = results(Rig::new(), &document, "totals", sizes, middle).await;
    let last = |key| {
        (0..EVENTS)
            .rfind(|n| n % 3 != 0 && n % KEYS == key)
            .unwrap()
    };
    let lasts_expected: Vec<u64> = (0..KEYS).map(last).collect();
    assert_eq!(lasts(&found), lasts_expected, "{what}");
    assert_same(&what, without_last(found), expected);
}

/// The control: in memory a restart begins anew, and the check sees that.
#[tokio::test(flavor = "multi_thread")]
async fn in_memory_a_restart_shows() {
    let expected = expected();
    let document = chain("at-most-once", 1);
    let sizes = (100, expected.len());
    let (_, found) = results(Rig::new(), &document, "totals", sizes, Middle::Restart).await;
    assert_ne!(counted(without_last(found)), counted(expected));
}

const LINES: usize = 3_000;

fn words(delivery: &str) -> String {
    format!(
        r#"
        flow = "words"
        delivery = "{delivery}"
        [stages.lines]
        plugin = "file-lines"
        parameters = {{ file = "text.txt" }}
        to = "words"
        [stages.words]
        plugin = "flat-map"
        workers = 2
        parameters = {{ to = "event.text.lower().words().map(w, {{'word': w}})" }}
        to = "count"
        [stages.count]
        plugin = "aggregate"
        key = "json:/word"
        workers = 2
        parameters = {{ by = "event.word", compute = {{ count = "count" }} }}
        to = "queue:words"
        "#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn words_of_a_file_are_counted_once() {
    let text: String = (0..LINES)
        .map(|n| format!("The w{} and, the W{}!\n", n % 7, n % 3))
        .collect();
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    let mut expected = Vec::new();
    let lower = text.to_lowercase();
    for word in lower.split(|letter: char| !letter.is_alphanumeric()) {
        if !word.is_empty() {
            let count = counts.entry(word.to_owned()).or_default();
            *count += 1;
            expected.push(json!({ "key": word, "count": *count }));
        }
    }
    let disturbances = [
        ("at-most-once", Middle::Nothing),
        ("at-most-once", Middle::Scale("words/count")),
        ("state-once", Middle::Scale("words/count")),
        ("state-once", Middle::Restart),
    ];
    for (delivery, middle) in disturbances {
        let rig = Rig::new();
        rig.file("text.txt", &text);
        let sizes = (1, expected.len());
        let (_, found) = results(rig, &words(delivery), "words", sizes, middle).await;
        assert_same(&format!("{delivery}, {middle:?}"), found, expected.clone());
    }
}
