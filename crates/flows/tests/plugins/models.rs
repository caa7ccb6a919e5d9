//! Windows, aggregates, deduplication and joins beside simple models of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kernel::worker::Incoming;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::rig::{Rig, built, inside, run};

/// Time, key and number of an event.
type Sample = (i64, u8, i64);

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    prop::collection::vec((0_i64..2_000, 0_u8..4, -50_i64..50), 1..120)
}

fn event(&(time, key, number): &Sample) -> Value {
    json!({ "at": time, "key": key, "number": number })
}

fn fed(id: &str, parameters: &Value, events: &[Value], batch: usize) -> Rig {
    run(async {
        let mut rig = built(id, &parameters.to_string()).await;
        let messages: Vec<Incoming> = events.iter().map(inside).collect();
        for batch in messages.chunks(batch) {
            rig.handle(batch).await.unwrap();
        }
        rig
    })
}

fn idle(mut rig: Rig) -> Rig {
    run(rig.advance(Duration::from_secs(3_600)));
    rig
}

/// Windows that neither merge nor move, with everything looked through each time.
fn windows(
    samples: &[Sample],
    size: i64,
    every: i64,
    out_of_order: i64,
    lateness: i64,
) -> (Vec<Value>, usize) {
    struct Open {
        end: i64,
        key: u8,
        numbers: Vec<i64>,
        fired: bool,
    }
    let shown = |open: &Open, update: bool| {
        let mut shown = json!({
            "start": open.end - size, "end": open.end, "key": open.key,
            "count": open.numbers.len(), "sum": open.numbers.iter().sum::<i64>(),
            "max": open.numbers.iter().max(),
        });
        if update {
            shown["update"] = json!(true);
        }
        shown
    };
    let (mut open, mut out, mut late, mut watermark): (Vec<Open>, _, _, _) =
        (Vec::new(), Vec::new(), 0, i64::MIN);
    for &(time, key, number) in samples {
        let mut is_late = true;
        for end in (time - size..=time)
            .map(|start| start + size)
            .filter(|end| (end - size).rem_euclid(every) == 0)
        {
            if end <= time || end + lateness <= watermark {
                continue;
            }
            is_late = false;
            if !open.iter().any(|open| open.end == end && open.key == key) {
                open.push(Open {
                    end,
                    key,
                    numbers: Vec::new(),
                    fired: false,
                });
            }
            let found = open
                .iter_mut()
                .find(|open| open.end == end && open.key == key)
                .unwrap();
            found.numbers.push(number);
            if end <= watermark {
                out.push(shown(found, found.fired));
                found.fired = true;
            }
        }
        late += usize::from(is_late);
        watermark = watermark.max(time - out_of_order);
        open.sort_by_key(|open| (open.end, open.key));
        for open in open
            .iter_mut()
            .filter(|open| !open.fired && open.end <= watermark)
        {
            out.push(shown(open, false));
            open.fired = true;
        }
        open.retain(|open| open.end + lateness > watermark);
    }
    for open in open.iter().filter(|open| !open.fired) {
        out.push(shown(open, false));
    }
    (out, late)
}

/// Sessions of all events at once.
fn sessions(samples: &[Sample], gap: i64) -> Vec<Value> {
    let mut by_key: BTreeMap<u8, Vec<(i64, i64)>> = BTreeMap::new();
    for &(time, key, number) in samples {
        by_key.entry(key).or_default().push((time, number));
    }
    let mut out = Vec::new();
    for (key, mut events) in by_key {
        events.sort();
        for session in events.chunk_by(|a, b| b.0 - a.0 < gap) {
            let sum: i64 = session.iter().map(|(_, number)| number).sum();
            let max = session.iter().map(|(_, number)| number).max();
            let (start, end) = (session[0].0, session[session.len() - 1].0 + gap);
            out.push(json!({ "start": start, "end": end, "key": key, "count": session.len(), "sum": sum, "max": max }));
        }
    }
    out.sort_by_key(|session| (session["end"].as_i64(), session["key"].as_i64()));
    out
}

fn window_parameters(cut: Value, out_of_order: i64, lateness: i64) -> Value {
    json!({
        "cut": cut, "time": "event.at", "by": "event.key",
        "out_of_order": format!("{out_of_order}ms"), "lateness": format!("{lateness}ms"),
        "compute": { "count": "count", "sum": { "sum": "event.number" }, "max": { "max": "event.number" } },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn windows_are_those_of_the_model(
        samples in samples(), size in 1_i64..300, every in 1_i64..300,
        out_of_order in 0_i64..400, lateness in 0_i64..400, batch in 1_usize..50, tumbling: bool,
    ) {
        let every = if tumbling { size } else { every.min(size).max(size / 20 + 1) };
        let cut = match tumbling {
            true => json!({ "tumbling": format!("{size}ms") }),
            false => json!({ "sliding": { "size": format!("{size}ms"), "every": format!("{every}ms") } }),
        };
        let events: Vec<Value> = samples.iter().map(event).collect();
        let rig = idle(fed("window", &window_parameters(cut, out_of_order, lateness), &events, batch));
        let (out, late) = windows(&samples, size, every, out_of_order, lateness);
        prop_assert_eq!(rig.at("late").len(), late);
        prop_assert_eq!(rig.at("out"), out);
    }

    #[test]
    fn sessions_are_those_of_the_model_if_nothing_is_late(samples in samples(), gap in 1_i64..200, batch in 1_usize..50) {
        let events: Vec<Value> = samples.iter().map(event).collect();
        let parameters = window_parameters(json!({ "session": format!("{gap}ms") }), 2_000, 0);
        let rig = idle(fed("window", &parameters, &events, batch));
        prop_assert_eq!(rig.at("late").len(), 0);
        prop_assert_eq!(rig.at("out"), sessions(&samples, gap));
        prop_assert_eq!(rig.store.state.lock().len(), 1, "only how far time has come is kept");
    }

    #[test]
    fn late_events_are_counted_once_or_told(samples in samples(), gap in 1_i64..200, out_of_order in 0_i64..400) {
        let events: Vec<Value> = samples.iter().map(event).collect();
        let parameters = window_parameters(json!({ "session": format!("{gap}ms") }), out_of_order, 0);
        let rig = idle(fed("window", &parameters, &events, 7));
        let counted: u64 = rig.at("out").iter().map(|out| out["count"].as_u64().unwrap()).sum();
        prop_assert_eq!(counted as usize + rig.at("late").len(), samples.len());
    }

    #[test]
    fn aggregates_are_those_of_the_model(samples in samples(), batch in 1_usize..50) {
        let events: Vec<Value> = samples.iter().map(event).collect();
        let parameters = json!({
            "by": "event.key",
            "compute": {
                "count": "count", "sum": { "sum": "event.number" }, "min": { "min": "event.number" }, "max": { "max": "event.number" },
                "average": { "average": "event.number" }, "distinct": { "distinct": "event.number" },
                "top": { "top": { "of": "event.number", "k": 2 } }, "first": { "collect": { "of": "event.number", "max": 3 } },
            },
        });
        let rig = fed("aggregate", &parameters, &events, batch);
        let mut so_far: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        let mut expected = Vec::new();
        for &(_, key, number) in &samples {
            let numbers = so_far.entry(key).or_default();
            numbers.push(number);
            let sum: i64 = numbers.iter().sum();
            let distinct: BTreeSet<&i64> = numbers.iter().collect();
            let mut frequent: Vec<(usize, String)> = distinct.iter()
                .map(|one| (numbers.iter().filter(|number| **number == **one).count(), one.to_string()))
                .collect();
            frequent.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            let top: Vec<Value> = frequent.iter().take(2).map(|(count, value)| json!({ "value": value, "count": count })).collect();
            expected.push(json!({
                "key": key, "count": numbers.len(), "sum": sum, "min": numbers.iter().min(), "max": numbers.iter().max(),
                "average": sum as f64 / numbers.len() as f64, "distinct": distinct.len(), "top": top,
                "first": &numbers[..numbers.len().min(3)],
            }));
        }
        prop_assert_eq!(rig.at("out"), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn duplicates_are_those_of_the_model(samples in samples(), within in 1_i64..500, keys_max in 1_usize..12, batch in 1_usize..50) {
        let events: Vec<Value> = samples.iter().map(|(time, _, number)| json!({ "at": time, "id": number % 10 })).collect();
        let parameters = json!({ "by": "event.id", "time": "event.at", "within": format!("{within}ms"), "keys_max": keys_max });
        let rig = fed("deduplicate", &parameters, &events, batch);
        let (mut seen, mut latest): (Vec<(i64, String)>, i64) = (Vec::new(), 0);
        let mut expected = Vec::new();
        for (event, &(time, _, number)) in events.iter().zip(&samples) {
            latest = latest.max(time);
            let id = (number % 10).to_string();
            if seen.iter().any(|(at, known)| *known == id && at + within > latest) {
                expected.push(("duplicates".to_owned(), event.clone()));
                continue;
            }
            expected.push(("out".to_owned(), event.clone()));
            seen.retain(|(at, known)| *known != id && at + within > latest);
            seen.push((time, id));
            seen.sort();
            if seen.len() > keys_max {
                seen.remove(0);
            }
        }
        prop_assert_eq!(&rig.out, &expected);
        prop_assert!(rig.store.state.lock().len() <= 2 * keys_max + 1);
    }

    #[test]
    fn pairs_are_those_of_the_model(
        samples in samples(), within in 0_i64..300, out_of_order in 0_i64..500, keep_left: bool, batch in 1_usize..50,
    ) {
        let events: Vec<Value> = samples.iter().enumerate()
            .map(|(n, (time, key, number))| json!({ "at": time, "key": key, "left": number % 2 == 0, "n": n }))
            .collect();
        let parameters = json!({
            "left": "event.left", "by": "event.key", "time": "event.at", "within": format!("{within}ms"),
            "out_of_order": format!("{out_of_order}ms"), "keep_left": keep_left,
        });
        let rig = idle(fed("join", &parameters, &events, batch));
        let (mut taken, mut late, mut watermark): (Vec<&Value>, _, _) = (Vec::new(), Vec::new(), i64::MIN);
        for event in &events {
            let at = event["at"].as_i64().unwrap();
            if at < watermark { late.push(event.clone()) } else { taken.push(event) }
            watermark = watermark.max(at - out_of_order);
        }
        // Whatever was in time meets everything of the other side that is near enough.
        let mut expected = Vec::new();
        for left in taken.iter().filter(|event| event["left"] == true) {
            let near = |right: &&&Value| right["left"] == false && right["key"] == left["key"]
                && (right["at"].as_i64().unwrap() - left["at"].as_i64().unwrap()).abs() <= within;
            let rights: Vec<&&Value> = taken.iter().filter(near).collect();
            if rights.is_empty() && keep_left {
                expected.push(json!({ "key": left["key"], "left": left, "right": null }));
            }
            expected.extend(rights.iter().map(|right| json!({ "key": left["key"], "left": left, "right": right })));
        }
        let mut out = rig.at("out");
        out.sort_by_key(Value::to_string);
        expected.sort_by_key(Value::to_string);
        prop_assert_eq!(rig.at("late"), late);
        prop_assert_eq!(out, expected);
        prop_assert_eq!(rig.store.state.lock().len(), 1, "nothing waits in the end");
    }
}

#[test]
fn the_model_of_windows_finds_what_is_wrong() {
    let samples = [(10, 0, 1), (95, 0, 2), (130, 0, 3), (20, 0, 4)];
    let (right, late) = windows(&samples, 100, 100, 0, 50);
    assert_eq!(
        (right.len(), late),
        (3, 0),
        "complete, updated, and the last one"
    );
    let (other, late) = windows(&samples, 100, 100, 0, 0);
    assert_eq!((other.len(), late), (2, 1));
    assert_ne!(right, other);
}

/// What an event of the future does among others: what came out where, of a plug-in with these parameters.
fn with_event_ahead(id: &str, parameters: &Value, ahead_ms: u64) -> Rig {
    use super::rig::START_MS;
    let event =
        |n: u64, at: u64| json!({ "at": at, "key": 1, "number": n, "left": n.is_multiple_of(2) });
    let now = START_MS - 10_000;
    let mut events: Vec<Value> = (0..10).map(|n| event(n, now + n * 100)).collect();
    events.push(event(10, START_MS + ahead_ms));
    events.extend((11..20).map(|n| event(n, now + n * 100)));
    fed(id, parameters, &events, 7)
}

#[test]
fn an_event_far_ahead_of_the_clock_is_refused_and_moves_nothing() {
    const HOUR_MS: u64 = 3_600_000;
    let window = json!({
        "cut": { "tumbling": "1s" }, "time": "event.at", "by": "event.key", "compute": { "count": "count" },
    });
    let join =
        json!({ "left": "event.left", "by": "event.key", "time": "event.at", "within": "100ms" });
    let deduplicate = json!({ "by": "event.number % 5", "time": "event.at", "within": "1h" });
    for (id, parameters, suffers) in [
        ("window", window, "late"),
        ("join", join, "late"),
        ("deduplicate", deduplicate, "out"),
    ] {
        let guarded = with_event_ahead(id, &parameters, HOUR_MS + 1);
        let refused = guarded.at("refused");
        assert_eq!(refused.len(), 1, "{id}");
        assert_eq!(refused[0]["event"]["number"], 10);
        let reason = refused[0]["reason"].as_str().unwrap();
        assert!(
            reason.contains("3600001ms ahead of the clock") && reason.contains("ahead_max"),
            "{reason}"
        );
        assert!(guarded.at("late").is_empty(), "{id}");
        // The control: with a bound that lets it pass, it moves time, and those after it suffer.
        let mut wide = parameters.clone();
        wide["ahead_max"] = json!("1d");
        let unguarded = with_event_ahead(id, &wide, HOUR_MS + 1);
        assert!(unguarded.at("refused").is_empty(), "{id}");
        assert!(
            unguarded.at(suffers).len() > guarded.at(suffers).len(),
            "{id}"
        );
        // Within the bound nothing is refused.
        assert!(
            with_event_ahead(id, &parameters, HOUR_MS)
                .at("refused")
                .is_empty(),
            "{id}"
        );
    }
}
