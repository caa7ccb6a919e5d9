//! Lists of the real binary: pages, filters and ETags, and that the command line sees all of them.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use common::{Answer, Hive};
use serde_json::{Value, json};

fn publish(hive: &Hive, queue: &str, count: usize) {
    let messages: Vec<Value> = (0..count)
        .map(|n| json!({ "body": n.to_string() }))
        .collect();
    let body = json!({ "messages": messages }).to_string();
    let answer = hive.rest("POST", &format!("/api/v1/queues/{queue}/messages"), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn deploy(hive: &Hive, stage: &str, workers: u32) -> Value {
    let worker = build::test_worker("counter").unwrap_or_else(|error| panic!("{error}"));
    let deployment = json!({ "as": stage, "source": worker.to_str().unwrap(), "workers": workers });
    let answer = hive.rest("POST", "/api/v1/deployments", &deployment.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Parts are taken after a deployment, and each has a queue: lists are compared when no more come.
fn has_all_parts(hive: &Hive, stage: &str, parts: u32) {
    let end = Instant::now() + Duration::from_secs(60);
    while get(hive, &format!("/api/v1/flows/{stage}"))["nodes"]["a"] != parts {
        assert!(Instant::now() < end, "{stage} did not get all its parts");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn get(hive: &Hive, path: &str) -> Value {
    let answer = hive.rest("GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

/// All items of a list, read in pages of this size, each as `key` names it.
fn paged(
    hive: &Hive,
    path: &str,
    list: &str,
    limit: usize,
    key: impl Fn(&Value) -> Value,
) -> Vec<Value> {
    let mark = if path.contains('?') { '&' } else { '?' };
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = get(hive, &format!("{path}{mark}limit={limit}{after}"));
        let items = page[list].as_array().unwrap();
        assert!(items.len() <= limit, "{page}");
        all.extend(items.iter().map(&key));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('/', "%2F")),
            None => return all,
        }
        assert_eq!(items.len(), limit, "only the last page is shorter");
    }
}

/// The list in small pages is the list in one page.
fn is_paged(hive: &Hive, path: &str, list: &str, key: &str) -> usize {
    let whole = get(hive, path);
    assert_eq!(whole["next"], Value::Null, "{whole}");
    let whole: Vec<Value> = whole[list]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i[key].clone())
        .collect();
    for limit in [1, 2, whole.len().max(1)] {
        let pages = paged(hive, path, list, limit, |item| item[key].clone());
        assert_eq!(pages, whole, "{path} in pages of {limit}");
    }
    whole.len()
}

#[test]
fn every_list_comes_in_pages() {
    // How full the disk of the machine is does not matter here.
    let hive = Hive::with_config("[node]\nname = \"a\"\n[alerts]\nbuilt_in = false\n");
    for name in ["orders.1", "orders.2", "orders.3", "other"] {
        publish(&hive, name, 3);
        let path = format!("/api/v1/topics/{name}/messages");
        hive.rest("POST", &path, r#"{"messages":[{"body":"x"}]}"#);
    }
    for stage in ["a-b/c", "a/one", "a/two", "b/one"] {
        deploy(&hive, stage, 5);
        has_all_parts(&hive, stage, 5);
    }
    assert!(is_paged(&hive, "/api/v1/queues", "queues", "name") >= 4);
    assert_eq!(
        is_paged(&hive, "/api/v1/queues?q=orders.", "queues", "name"),
        3
    );
    assert_eq!(
        is_paged(&hive, "/api/v1/topics?q=orders.", "topics", "name"),
        3
    );
    assert_eq!(
        is_paged(&hive, "/api/v1/queues/other/messages", "messages", "id"),
        3
    );
    assert_eq!(
        is_paged(&hive, "/api/v1/flows/a/one/workers", "workers", "address"),
        5
    );
    assert_eq!(is_paged(&hive, "/api/v1/nodes", "nodes", "name"), 1);
    assert_eq!(is_paged(&hive, "/api/v1/flows/a", "stages", "spec"), 2);
    assert!(is_paged(&hive, "/api/v1/history", "history", "stage") >= 4);
    assert_eq!(
        is_paged(&hive, "/api/v1/history?flow=a", "history", "stage"),
        2
    );
    assert_eq!(is_paged(&hive, "/api/v1/alerts", "alerts", "rule"), 0);
    assert_eq!(
        is_paged(&hive, "/api/v1/plugins", "plugins", "id"),
        flows::plugins::BUILT_IN.len() + crawl::PLUGINS.len()
    );
    let noted = is_paged(&hive, "/api/v1/requests", "requests", "id");
    assert!(noted >= 12, "{noted}");

    let stages = |path: &str, limit| {
        let pages = paged_flows(&hive, path, limit);
        pages
            .into_iter()
            .map(|stage| stage.to_string())
            .collect::<Vec<_>>()
    };
    let whole = stages("/api/v1/flows", 1_000);
    assert_eq!(whole.len(), 4);
    for limit in 1..4 {
        assert_eq!(stages("/api/v1/flows", limit), whole);
    }
    assert_eq!(stages("/api/v1/flows?q=a/", 1).len(), 2);
    assert_eq!(stages("/api/v1/flows?state=failed", 1).len(), 0);
    assert_eq!(stages("/api/v1/flows?node=none", 1).len(), 0);
    hive.rest("GET", "/api/v1/flows?after=nonsense", "")
        .problem(400);
    hive.rest("GET", "/api/v1/history?after=nonsense", "")
        .problem(400);
    hive.rest("GET", "/api/v1/queues?limit=10001", "")
        .problem(400);
}

/// The addresses of stages, in pages of so many stages.
fn paged_flows(hive: &Hive, path: &str, limit: usize) -> Vec<Value> {
    let mark = if path.contains('?') { '&' } else { '?' };
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let page = get(hive, &format!("{path}{mark}limit={limit}{after}"));
        let flows = page["flows"].as_array().unwrap().iter();
        let stages = flows.flat_map(|flow| flow["stages"].as_array().unwrap());
        all.extend(stages.map(|stage| stage["spec"]["address"].clone()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('/', "%2F")),
            None => return all,
        }
    }
}

#[test]
fn dead_letters_come_in_pages() {
    let rule = "[[broker.queues]]\nname = \"small\"\nmessages_max = 1\nwhen_full = \"oldest-to-dead-letters\"\n";
    let hive = Hive::with_config(rule);
    publish(&hive, "small", 6);
    assert_eq!(is_paged(&hive, "/api/v1/dead", "letters", "id"), 5);
    assert_eq!(
        is_paged(&hive, "/api/v1/dead?from=small", "letters", "id"),
        5
    );
    assert_eq!(
        is_paged(&hive, "/api/v1/dead?from=other", "letters", "id"),
        0
    );
}

#[test]
fn the_command_line_sees_everything() {
    let hive = Hive::start();
    // More than a page has without being asked for.
    let count = 1_020;
    for number in 0..count {
        let name = format!("queue:many.{number:04}");
        let path = format!("/api/v1/messages/{}", name.replace(':', "%3A"));
        let answer = hive.rest(
            "POST",
            &path,
            r#"{"messages":[{"body":"x","durable":false}]}"#,
        );
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(
        get(&hive, "/api/v1/queues")["queues"]
            .as_array()
            .unwrap()
            .len(),
        1_000
    );
    let seen = hive.json(&["queues"]);
    let queues = seen["queues"].as_array().unwrap().iter();
    let names: BTreeSet<&str> = queues
        .map(|queue| queue["name"].as_str().unwrap())
        .collect();
    let many = names
        .iter()
        .filter(|name| name.starts_with("many."))
        .count();
    assert_eq!(many, count);
}

fn header(answer: &Answer, name: &str) -> Option<String> {
    let mut lines = answer.head.lines();
    let line = lines.find(|line| line.starts_with(&format!("{name}:")))?;
    Some(line.split_once(':').unwrap().1.trim().to_owned())
}

fn ask_with(hive: &Hive, method: &str, path: &str, line: &str, body: &str) -> Answer {
    let token = format!("Authorization: Bearer {}", hive.token());
    hive.http(
        method,
        path,
        &[&token, "Content-Type: application/json", line],
        body,
    )
}

#[test]
fn what_is_known_is_not_sent_again() {
    let hive = Hive::start();
    deploy(&hive, "shop/counter", 1);
    for path in [
        "/api/v1/alerts/rules",
        "/api/v1/history",
        "/api/v1/plugins",
        "/api/v1/openapi.json",
        "/api/v1/flows/shop/counter/definition",
        "/api/v1/flows/shop/counter/versions",
    ] {
        let first = hive.rest("GET", path, "");
        let etag = header(&first, "etag").unwrap_or_else(|| panic!("{path}: {first:?}"));
        let known =
            |tags: &str| ask_with(&hive, "GET", path, &format!("If-None-Match: {tags}"), "");
        let again = known(&format!("\"x\", W/{etag}"));
        assert_eq!((again.status, again.body.as_str()), (304, ""), "{path}");
        assert_eq!(header(&again, "etag"), Some(etag));
        assert_eq!(known("*").status, 304);
        assert_eq!(known("\"x\"").status, 200);
    }
    let path = "/api/v1/history";
    let etag = header(&hive.rest("GET", path, ""), "etag").unwrap();
    deploy(&hive, "shop/other", 1);
    let changed = ask_with(&hive, "GET", path, &format!("If-None-Match: {etag}"), "");
    assert_eq!(changed.status, 200);
}

/// A stage changes only if it is as the request says.
fn changes_are_guarded(hive: &Hive) {
    deploy(hive, "shop/counter", 1);
    let definition = "/api/v1/flows/shop/counter/definition";
    let etag = || header(&hive.rest("GET", definition, ""), "etag").unwrap();
    let scale = |workers: u32, tag: &str| {
        let path = format!("/api/v1/flows/shop/counter/scale?workers={workers}");
        ask_with(hive, "POST", &path, &format!("If-Match: {tag}"), "")
    };
    let first = etag();
    assert_eq!(scale(2, &format!("\"x\", {first}")).status, 200);
    let second = etag();
    assert_ne!(first, second);
    // Somebody else was faster.
    let late = scale(3, &first).problem(412);
    assert_eq!(late["type"], "urn:hivewire:changed");
    assert_eq!(get(hive, definition)["spec"]["workers"], 2);
    let worker = build::test_worker("counter-v2").unwrap();
    let deployment =
        json!({ "as": "shop/counter", "source": worker.to_str().unwrap() }).to_string();
    let deploy_if = |tag: &str| {
        let line = format!("If-Match: {tag}");
        ask_with(hive, "POST", "/api/v1/deployments", &line, &deployment)
    };
    deploy_if(&first).problem(412);
    assert_eq!(deploy_if(&second).status, 200);
    let stop_if = |tag: &str| {
        let line = format!("If-Match: {tag}");
        ask_with(hive, "DELETE", "/api/v1/flows/shop/counter", &line, "")
    };
    stop_if(&second).problem(412);
    assert_eq!(stop_if(&etag()).status, 200);
    // It must be there.
    deploy_if("*").problem(412);
    hive.rest("GET", definition, "").problem(404);
    let refusals = get(hive, "/api/v1/history?event=refused");
    assert_eq!(refusals["history"], json!([]), "nothing was tried");
}

#[test]
fn a_stage_changes_only_if_it_is_as_expected() {
    changes_are_guarded(&Hive::start());
}

#[test]
fn a_shared_stage_changes_only_if_it_is_as_expected() {
    changes_are_guarded(&Hive::with_config("[node]\nname = \"a\"\n"));
}
