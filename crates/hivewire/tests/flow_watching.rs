//! What the flows of the real binary show of themselves: metrics that they record, and that they stand still.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::time::{Duration, Instant};

use common::{Hive, stderr, stdout};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(30);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes or changes a flow.
fn apply(hive: &Hive, document: &Value) {
    let refused = try_apply(hive, document);
    assert_eq!(refused, None, "{document}");
}

/// Makes or changes a flow; otherwise why not.
fn try_apply(hive: &Hive, document: &Value) -> Option<String> {
    let path = format!("/api/v1/documents/{}", document["flow"].as_str().unwrap());
    let answer = hive.rest("PUT", &path, &document.to_string());
    (answer.status >= 300).then_some(answer.body)
}

fn publish(hive: &Hive, queue: &str, event: &Value) {
    let published = hive.run(&["pub", queue, &event.to_string()]);
    assert!(published.status.success(), "{}", stderr(&published));
}

fn metrics(hive: &Hive) -> String {
    hive.rest("GET", "/metrics", "").body
}

fn shows(hive: &Hive, line: &str) {
    let mut text = String::new();
    let end = Instant::now() + TIMEOUT;
    while !text.lines().any(|shown| shown == line) {
        assert!(Instant::now() < end, "{line} is not there:\n{text}");
        std::thread::sleep(Duration::from_millis(20));
        text = metrics(hive);
    }
}

fn shop(flow: &str, parameters: Value) -> Value {
    json!({ "flow": flow, "stages": { "measure": {
        "plugin": "to-prometheus", "workers": 2, "parameters": parameters,
    }}})
}

#[test]
fn flows_record_metrics_beside_those_of_the_node() {
    let mut hive = Hive::start();
    let sales = json!({
        "metric": "shop_sales", "help": "What was sold.", "kind": "counter",
        "value": "event.price", "labels": { "shop": "event.shop" },
    });
    let stock = json!({
        "metric": "shop_stock", "help": "What is left.", "kind": "gauge", "value": "event.left",
    });
    let prices = json!({
        "metric": "shop_prices", "help": "Prices.", "kind": "histogram", "value": "event.price",
        "bounds": [1, 10],
    });
    let flows = [("a", &sales), ("b", &sales), ("c", &stock), ("d", &prices)];
    for (flow, parameters) in flows {
        apply(&hive, &shop(flow, parameters.clone()));
    }
    for (shop, price) in [("x", 1.5), ("y", 4.0), ("x", 20.0)] {
        let event = json!({ "shop": shop, "price": price, "left": 7 });
        for (flow, _) in flows {
            publish(&hive, &format!("{flow}.measure"), &event);
        }
    }
    shows(&hive, "# TYPE shop_sales counter");
    shows(&hive, "# HELP shop_sales What was sold.");
    // Two flows with two workers each have counted it.
    shows(&hive, "shop_sales_total{shop=\"x\"} 43.0");
    shows(&hive, "shop_sales_total{shop=\"y\"} 8.0");
    shows(&hive, "shop_stock 7.0");
    shows(&hive, "shop_prices_bucket{le=\"10.0\"} 2");
    shows(&hive, "shop_prices_count 3");
    let text = metrics(&hive);
    assert!(text.contains("\nhivewire_stage_turns_total{"), "{text}");
    assert_eq!(text.matches("# EOF").count(), 1);

    let mut gauge = sales.clone();
    gauge["kind"] = json!("gauge");
    let refused = try_apply(&hive, &shop("e", gauge)).expect("the same name is another metric");
    assert!(
        refused.contains("a/measure records shop_sales with the kind counter"),
        "{refused}"
    );
    let mut reserved = sales.clone();
    reserved["metric"] = json!("hivewire_queues");
    let refused = try_apply(&hive, &shop("e", reserved)).expect("the name is ours");
    assert!(refused.contains("hivewire_"), "{refused}");

    // One of two that record it goes, and then the other.
    let remove = |hive: &Hive, flow: &str| {
        let removed = hive.run(&["stop", flow]);
        assert!(removed.status.success(), "{}", stderr(&removed));
    };
    remove(&hive, "a/measure");
    assert!(metrics(&hive).contains("shop_sales_total{shop=\"x\"} 43.0"));
    remove(&hive, "b/measure");
    assert!(!metrics(&hive).contains("shop_sales"), "{}", metrics(&hive));
    hive.restart();
    publish(&hive, "c.measure", &json!({ "left": 3 }));
    shows(&hive, "shop_stock 3.0");
}

/// A cycle that makes two events of each until their number is 0, in memory.
fn growing(spill_messages_max: u32) -> Value {
    let limits = json!({ "mailbox_messages_max": 8, "spill_messages_max": spill_messages_max });
    let twice = "event.n == 0 ? [] : [{'n': event.n - 1}, {'n': event.n - 1}]";
    json!({ "flow": "grow", "delivery": "at-most-once", "stages": {
        "double": { "plugin": "flat-map", "parameters": { "to": twice }, "to": "pass", "limits": limits },
        "pass": { "plugin": "map", "parameters": { "to": "event" }, "to": "double", "limits": limits },
    }})
}

fn turns(hive: &Hive) -> u64 {
    let flow = hive.rest("GET", "/api/v1/flows/grow", "").json();
    let stages = flow["stages"].as_array().unwrap().iter();
    stages.map(|stage| stage["turns"].as_u64().unwrap()).sum()
}

fn standing(hive: &Hive) -> Vec<Value> {
    let alerts = hive.rest("GET", "/api/v1/alerts", "").json();
    let alerts = alerts["alerts"].as_array().unwrap().iter();
    let standing = alerts.filter(|alert| alert["rule"] == "stage-stands");
    standing.cloned().collect()
}

#[test]
fn a_cycle_that_stands_still_is_told_and_goes_on_with_more_room() {
    let hive = Hive::with_config(
        "[alerts]\nlook_every_ms = 100\n[workers.runtime]\nsend_timeout_ms = 200\n",
    );
    // The control: with room enough nobody is told anything.
    apply(&hive, &growing(100_000));
    let each = 2 * ((1 << 12) - 1) - 1;
    publish(&hive, "grow.double", &json!({ "n": 11 }));
    until("all is done", || (turns(&hive) == each).then_some(()));
    assert_eq!(standing(&hive), [] as [Value; 0]);

    apply(&hive, &growing(100));
    publish(&hive, "grow.double", &json!({ "n": 11 }));
    let alerts = until("it is told", || {
        let found = standing(&hive);
        (!found.is_empty()).then_some(found)
    });
    let detail = alerts[0]["detail"].as_str().unwrap();
    assert!(detail.contains("raise its spill_messages_max"), "{detail}");
    let shown = stdout(&hive.run(&["ps", "grow"]));
    assert!(shown.contains("stands"), "{shown}");

    apply(&hive, &growing(100_000));
    until("all is done", || (turns(&hive) == 2 * each).then_some(()));
    until("that is over", || standing(&hive).is_empty().then_some(()));
    let shown = stdout(&hive.run(&["ps", "grow"]));
    assert!(!shown.contains("stands"), "{shown}");
}
