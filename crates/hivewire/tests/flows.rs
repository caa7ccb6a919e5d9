//! Flow documents and the real binary: checked, run, changed while events flow, exported, and there after a restart.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use common::{Hive, binary, stderr, stdout};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/flows")
        .join(file)
}

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

/// Writes a document beside the node, and gives its path.
fn write(hive: &Hive, name: &str, text: &str) -> String {
    let path = hive.folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(hive: &Hive, arguments: &[&str]) -> String {
    let output = hive.run(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

fn check(file: &Path) -> Output {
    let nowhere = [
        "--server",
        "http://127.0.0.1:1",
        "--token",
        "0123456789abcdef",
    ];
    binary()
        .arg("check")
        .arg(file)
        .args(nowhere)
        .output()
        .unwrap()
}

/// The versions of all stages of a flow.
fn versions(hive: &Hive, flow: &str) -> BTreeMap<String, u64> {
    let flow = hive
        .rest("GET", &format!("/api/v1/flows/{flow}"), "")
        .json();
    let stages = flow["stages"].as_array().unwrap().iter();
    let version = |stage: &Value| {
        let address = stage["spec"]["address"].as_str().unwrap().to_owned();
        (address, stage["version"].as_u64().unwrap())
    };
    stages.map(version).collect()
}

/// Takes messages off a queue, each of which is JSON.
fn take(hive: &Hive, queue: &str, count: usize) -> Vec<Value> {
    let count = count.to_string();
    let taken = hive.run(&["sub", queue, "--count", &count, "--timeout", "30"]);
    let taken = stdout(&taken);
    taken
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn waiting(hive: &Hive, queue: &str) -> u64 {
    let shown = hive.rest("GET", &format!("/api/v1/queues/{queue}"), "");
    match shown.status {
        200 => shown.json()["waiting"].as_u64().unwrap_or_default(),
        _ => 0,
    }
}

#[test]
fn a_document_is_checked_without_a_node_and_mistakes_have_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let sound = std::fs::read_to_string(example("word-count/flow.toml")).unwrap();
    let checked = check(&example("word-count/flow.toml"));
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(stdout(&checked).contains("word-count is sound: 3 stages"));

    let file = folder.path().join("flow.toml");
    let line_of = |part: &str| 1 + sound.lines().position(|line| line.contains(part)).unwrap();
    for (part, by, line_with, expected) in [
        (
            "workers = 2",
            "wrokers = 2",
            "workers",
            "did you mean \"workers\"?",
        ),
        (
            "to = \"count\"",
            "to = \"cuont\"",
            "to = \"count\"",
            "did you mean \"count\"?",
        ),
        (
            "\"aggregate\"",
            "\"agregate\"",
            "\"aggregate\"",
            "did you mean \"aggregate\"?",
        ),
        ("event.text.lower()", "event.text.lower(", "event.text", ""),
        ("{ file =", "{ fiel =", "{ file", "fiel"),
        ("flow = \"word-count\"", "flow = ", "flow = ", "TOML"),
    ] {
        std::fs::write(&file, sound.replace(part, by)).unwrap();
        let checked = check(&file);
        assert_eq!(checked.status.code(), Some(1), "{by}: {}", stdout(&checked));
        let place = format!("{}:{}:", file.display(), line_of(line_with));
        let told = stderr(&checked);
        let fits = |line: &str| line.starts_with(&place) && line.contains(expected);
        assert!(
            told.lines().any(fits),
            "{by}: expected {place} …{expected}… but got\n{told}"
        );
    }
}

#[test]
fn words_are_counted_and_a_restart_keeps_the_flow() {
    let mut hive = Hive::start();
    let files = hive.data().join("files");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::copy(example("word-count/text.txt"), files.join("text.txt")).unwrap();
    let file = example("word-count/flow.toml");
    let file = file.to_str().unwrap();
    let shown = run(&hive, &["run", file]);
    assert!(shown.contains("word-count has version 1 now"), "{shown}");
    assert!(shown.contains("running"), "{shown}");

    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for event in take(&hive, "word-counts", 26) {
        let word = event["key"].as_str().unwrap().to_owned();
        let count = event["count"].as_u64().unwrap();
        let before = counts.insert(word, count).unwrap_or_default();
        assert_eq!(count, before + 1, "{event}");
    }
    assert_eq!((counts["the"], counts["bees"], counts["rains"]), (4, 3, 1));
    assert_eq!(counts.values().sum::<u64>(), 26);

    assert!(run(&hive, &["diff", file]).contains("is the same"));
    let exported = run(&hive, &["export", "word-count"]);
    let copy = write(&hive, "copy.toml", &exported);
    assert!(run(&hive, &["diff", &copy]).contains("is the same"));
    assert!(run(&hive, &["apply", &copy]).contains("nothing is to be done"));
    let before = versions(&hive, "word-count");

    hive.restart();
    assert_eq!(versions(&hive, "word-count"), before);
    assert_eq!(run(&hive, &["export", "word-count"]), exported);
    assert!(run(&hive, &["apply", &copy]).contains("nothing is to be done"));
    assert_eq!(waiting(&hive, "word-counts"), 0, "nothing is counted twice");
    std::fs::write(files.join("more.txt"), "bees").unwrap();
    let more = write(
        &hive,
        "more.toml",
        &exported.replace("text.txt", "more.txt"),
    );
    run(&hive, &["apply", &more, "--yes"]);
    let unknown = hive.run(&["export", "word-cuont"]);
    assert_eq!(unknown.status.code(), Some(1));
}

const EVENTS: usize = 6_000;

fn numbers(step: &str, more: &str) -> String {
    format!(
        r#"
flow = "numbers"
[stages.source]
plugin = "generator"
parameters = {{ count = {EVENTS}, per_second = 1500.0 }}
to = "middle"
[stages.middle]
plugin = "map"
parameters = {{ to = "{{'n': event.n, 'by': '{step}'}}" }}
{more}
[stages.end]
plugin = "map"
parameters = {{ to = "event" }}
to = "queue:results"
"#
    )
}

/// Whether each number came once.
fn is_whole(numbers: &[u64]) -> Result<(), String> {
    let mut seen = vec![0u32; EVENTS];
    for number in numbers {
        let seen = seen
            .get_mut(*number as usize)
            .ok_or(format!("{number} was never sent"))?;
        *seen += 1;
    }
    match seen.iter().position(|count| *count != 1) {
        Some(number) => Err(format!("{number} came {} times", seen[number])),
        None => Ok(()),
    }
}

#[test]
fn a_flow_changes_while_events_pass_and_none_is_lost_or_doubled() {
    let hive = Hive::start();
    let first = write(&hive, "first.toml", &numbers("first", "to = \"end\""));
    run(&hive, &["run", &first]);
    let before = versions(&hive, "numbers");
    until("the first events have come", || {
        (waiting(&hive, "results") > 200).then_some(())
    });

    // Another expression and a new stage in between, while events flow.
    let second = numbers(
        "second",
        "to = \"between\"\n[stages.between]\nplugin = \"map\"\nparameters = { to = \"{'n': event.n, 'by': event.by, 'through': true}\" }\nto = \"end\"",
    );
    let second = write(&hive, "second.toml", &second);
    let planned = run(&hive, &["apply", &second, "--plan"]);
    let expected = [
        "1. add between, which runs map",
        "2. change middle: its parameters; new edge out -> between, no edge out -> end",
    ];
    assert_eq!(planned.lines().collect::<Vec<_>>(), expected);
    assert_eq!(versions(&hive, "numbers"), before, "a plan changes nothing");
    run(&hive, &["apply", &second, "--yes"]);
    let between = versions(&hive, "numbers");
    assert_eq!(between["numbers/source"], before["numbers/source"]);
    assert_eq!(between["numbers/end"], before["numbers/end"]);
    assert_eq!(between["numbers/middle"], before["numbers/middle"] + 1);
    let there = waiting(&hive, "results");
    until("events have come the new way", || {
        (waiting(&hive, "results") > there + 200).then_some(())
    });

    // And the new stage goes again.
    let third = write(&hive, "third.toml", &numbers("third", "to = \"end\""));
    let applied = hive.json(&["apply", &third, "--yes"]);
    let last = &applied["steps"].as_array().unwrap().last().unwrap()["sentence"];
    assert_eq!(last, "remove between once nothing waits there");
    assert!(!versions(&hive, "numbers").contains_key("numbers/between"));
    assert_eq!(
        versions(&hive, "numbers")["numbers/source"],
        before["numbers/source"]
    );

    let results = take(&hive, "results", EVENTS);
    let came: Vec<u64> = results
        .iter()
        .map(|event| event["n"].as_u64().unwrap())
        .collect();
    is_whole(&came).unwrap();
    let count = |by: &str| results.iter().filter(|event| event["by"] == by).count();
    assert!(count("first") > 0 && count("second") > 0 && count("third") > 0);
    let through = results
        .iter()
        .filter(|event| event["through"] == true)
        .count();
    assert_eq!(
        through,
        count("second"),
        "what went the new way went through the new stage"
    );
    assert_eq!(waiting(&hive, "results"), 0);
    let kept = hive
        .rest("GET", "/api/v1/documents/numbers/versions", "")
        .json();
    let kept: Vec<u64> = kept["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kept| kept["version"].as_u64().unwrap())
        .collect();
    assert_eq!(kept, [3, 2, 1]);
}

#[test]
fn the_oracle_sees_what_is_lost_and_what_is_doubled() {
    let all: Vec<u64> = (0..EVENTS as u64).collect();
    is_whole(&all).unwrap();
    assert!(is_whole(&all[1..]).is_err());
    let doubled: Vec<u64> = all.iter().copied().chain([7]).collect();
    assert!(is_whole(&doubled).is_err());
}

#[test]
fn a_bad_change_is_refused_and_nothing_is_changed() {
    let hive = Hive::start();
    let sound = numbers("first", "to = \"end\"").replace("1500.0", "50.0");
    let file = write(&hive, "flow.toml", &sound);
    run(&hive, &["run", &file]);
    let before = versions(&hive, "numbers");
    let exported = run(&hive, &["export", "numbers"]);

    // One that makes no sense.
    let wrong = write(
        &hive,
        "wrong.toml",
        &sound.replace("{'n': event.n", "{'n': event.n + "),
    );
    let refused = hive.run(&["apply", &wrong, "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("wrong.toml:9:"),
        "{}",
        stderr(&refused)
    );
    let asked = hive.rest(
        "PUT",
        "/api/v1/documents/numbers",
        r#"{"flow": "numbers", "stages": {}}"#,
    );
    let problem = asked.problem(422);
    assert_eq!(problem["type"], "urn:hivewire:not-sound");
    assert_eq!(problem["problems"][0]["severity"], "error");

    // One of which a component is no component: it is found before anything is touched.
    write(&hive, "none.wasm", "\0asm\x0d\0\x01\0");
    let text = sound.replace("'first'", "'other'")
        + "[stages.extra]\nplugin = \"./none.wasm\"\nfrom = \"end\"\n";
    let unfit = write(&hive, "unfit.toml", &text);
    let refused = hive.run(&["apply", &unfit, "--yes"]);
    assert!(
        stderr(&refused).contains("nothing was touched"),
        "{}",
        stderr(&refused)
    );

    // One whose new stage does not start: what was done before it is undone.
    let broken = build::test_worker("broken-init").unwrap_or_else(|error| panic!("{error}"));
    let text = sound.replace("to = \"event\"", "to = \"{'n': event.n}\"")
        + &format!(
            "[stages.extra]\nplugin = \"{}\"\nto = \"middle\"\n",
            broken.display()
        );
    let broken = write(&hive, "broken.toml", &text);
    let planned = run(&hive, &["apply", &broken, "--plan"]);
    assert!(planned.starts_with("1. change end"), "{planned}");
    let refused = hive.run(&["apply", &broken, "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    let told = stderr(&refused);
    assert!(told.contains("the steps before were undone"), "{told}");

    assert_eq!(run(&hive, &["export", "numbers"]), exported);
    let after = versions(&hive, "numbers");
    assert_eq!(
        after.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    for untouched in ["numbers/source", "numbers/middle"] {
        assert_eq!(after[untouched], before[untouched]);
    }
    let end = hive.rest("GET", "/api/v1/flows/numbers/end", "").json();
    assert_eq!(
        end["spec"]["args"],
        json!(r#"{"to":"event"}"#),
        "it is as it was"
    );
    assert!(run(&hive, &["apply", &file, "--yes"]).contains("nothing is to be done"));
}

#[test]
fn a_document_is_guarded_and_kept_as_toml_and_json() {
    let hive = Hive::start();
    let text = "flow = \"f\"\n[stages.a]\nplugin = \"map\"\nparameters = { to = \"event\" }\nto = \"queue:q\"\n";
    let token = format!("Authorization: Bearer {}", hive.token());
    let toml = [token.as_str(), "Content-Type: application/toml"];
    let put = hive.http("PUT", "/api/v1/documents/f?plan=true", &toml, text);
    assert_eq!(
        (put.status, &put.json()["etag"]),
        (200, &Value::Null),
        "{put:?}"
    );
    let put = hive.http("PUT", "/api/v1/documents/f", &toml, text).json();
    assert_eq!(
        (&put["version"], &put["changed"]),
        (&json!(1), &json!(true))
    );
    let etag = put["etag"].as_str().unwrap().to_owned();
    let other = hive.http("PUT", "/api/v1/documents/g", &toml, text);
    other.problem(400);

    let accept = [token.as_str(), "Accept: application/toml"];
    let shown = hive.http("GET", "/api/v1/documents/f", &accept, "");
    assert!(
        shown.head.contains("content-type: application/toml"),
        "{shown:?}"
    );
    assert!(shown.head.contains(&format!("etag: {etag}")), "{shown:?}");
    assert!(shown.body.contains("[stages.a]"), "{shown:?}");
    let json = hive.rest("GET", "/api/v1/documents/f", "").json();
    assert_eq!(json["stages"]["a"]["plugin"], "map");

    let if_match = format!("If-Match: {etag}");
    let guarded = [
        token.as_str(),
        "Content-Type: application/toml",
        if_match.as_str(),
    ];
    let changed = text.replace("queue:q", "queue:r");
    let put = hive.http("PUT", "/api/v1/documents/f", &guarded, &changed);
    assert_eq!(put.json()["version"], 2, "{put:?}");
    let again = text.replace("queue:q", "queue:s");
    let late = hive.http("PUT", "/api/v1/documents/f", &guarded, &again);
    late.problem(412);
    let first = hive
        .rest("GET", "/api/v1/documents/f/versions/1", "")
        .json();
    assert_eq!(first["stages"]["a"]["outputs"]["out"], "queue:q");
    hive.rest("GET", "/api/v1/documents/f/versions/7", "")
        .problem(404);
    hive.rest("GET", "/api/v1/documents/g", "").problem(404);

    // What was stopped by hand begins again.
    run(&hive, &["stop", "f"]);
    let applied = hive
        .http("PUT", "/api/v1/documents/f", &toml, &changed)
        .json();
    assert_eq!(applied["steps"][0]["sentence"], "add a, which runs map");
    let plugins = hive.json(&["plugins"]);
    let map = plugins["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .find(|plugin| plugin["id"] == "map");
    assert_eq!(map.unwrap()["repository"], "built-in");
    let deployed = hive.json(&[
        "deploy",
        "builtin:filter",
        "--as",
        "f/b",
        "--args",
        r#"{"where":"event.n > 1"}"#,
    ]);
    assert_eq!(deployed["version"], 1);
}

/// A stage whose events fail again and again holds the step that is to remove it; the node dies meanwhile.
#[test]
fn what_a_dying_node_left_half_done_is_done_by_the_next_apply() {
    let mut hive = Hive::start();
    let flow = |expression: &str| {
        format!(
            "flow = \"f\"\n[stages.first]\nplugin = \"map\"\nparameters = {{ to = \"event\" }}\nto = \"stuck\"\n\
             [stages.stuck]\nplugin = \"map\"\nparameters = {{ to = \"{expression}\" }}\nto = \"queue:results\"\n\
             supervision = {{ tries_max = 1000000, restarts_max = 1000000, backoff_ms_min = 500 }}\n"
        )
    };
    let first = write(&hive, "first.toml", &flow("event.nothing.of.that"));
    run(&hive, &["run", &first]);
    hive.json(&["send", "f/first", r#"{"n":7}"#]);
    until("the event has failed", || {
        let stage = hive.rest("GET", "/api/v1/flows/f/stuck", "").json();
        (stage["failures"].as_u64()? > 0).then_some(())
    });
    let before = versions(&hive, "f");
    let without = "flow = \"f\"\n[stages.first]\nplugin = \"map\"\nparameters = { to = \"event\" }\nto = \"queue:aside\"\n";
    let without = write(&hive, "without.toml", without);
    let mut applying = hive.command(&["apply", &without, "--yes"]).spawn().unwrap();
    until("the first step is done", || {
        let first = hive.rest("GET", "/api/v1/flows/f/first", "").json();
        (first["version"].as_u64()? > before["f/first"]).then_some(())
    });
    hive.signal(rustix::process::Signal::KILL);
    hive.exit_code();
    assert!(!applying.wait().unwrap().success());
    hive.start_again();

    let mended = write(&hive, "mended.toml", &flow("{'n': event.n}"));
    run(&hive, &["apply", &mended, "--yes"]);
    assert_eq!(take(&hive, "results", 1), [json!({ "n": 7 })]);
    assert!(run(&hive, &["diff", &mended]).contains("is the same"));
    assert!(run(&hive, &["apply", &mended]).contains("nothing is to be done"));
    let version = versions(&hive, "f")["f/stuck"];
    run(&hive, &["apply", &without, "--yes"]);
    assert_eq!(versions(&hive, "f").len(), 1, "it was version {version}");
}

/// Two nodes on one bus.
fn two_nodes() -> (Hive, Hive) {
    let first = Hive::with_config("[node]\nname = \"a\"\n");
    let bus = format!("stomp://{}", first.address("stomp"));
    let user = format!("[node]\nname = \"b\"\nbus = [\"{bus}\"]\n");
    (first, Hive::with_config(&user))
}

#[test]
fn nodes_share_a_flow_of_built_in_plugins() {
    let (first, second) = two_nodes();
    until("the nodes know each other", || {
        let nodes = first.json(&["nodes"]);
        (nodes["nodes"].as_array()?.len() == 2).then_some(())
    });
    let text = |expression: &str| {
        format!(
            "flow = \"f\"\n[stages.each]\nplugin = \"map\"\nworkers = 4\nparameters = {{ to = \"{expression}\" }}\nto = \"queue:results\"\n"
        )
    };
    let one = write(&second, "one.toml", &text("{'by': 1}"));
    run(&second, &["run", &one]);
    until("both nodes have workers", || {
        let stage = first.rest("GET", "/api/v1/flows/f/each", "").json();
        let parts = |node: &str| stage["nodes"][node].as_u64().unwrap_or_default();
        (parts("a") + parts("b") == 4 && parts("a") > 0 && parts("b") > 0).then_some(())
    });
    assert_eq!(
        run(&first, &["export", "f"]),
        run(&second, &["export", "f"])
    );
    let two = write(&first, "two.toml", &text("{'by': 2}"));
    run(&first, &["apply", &two, "--yes"]);
    assert!(run(&second, &["diff", &two]).contains("is the same"));
    for _ in 0..8 {
        first.json(&["send", "f/each", "{}"]);
    }
    let results = take(&first, "results", 8);
    assert_eq!(results, vec![json!({ "by": 2 }); 8]);
    // What several nodes share cannot become keyed while it runs.
    let keyed = text("{'by': 2}").replace("workers", "key = \"body\"\nworkers");
    let refused = first.run(&["apply", &write(&first, "keyed.toml", &keyed), "--yes"]);
    assert!(
        stderr(&refused).contains("nothing was touched"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn each_node_has_a_stage_in_memory_for_itself() {
    let (first, second) = two_nodes();
    until("the nodes know each other", || {
        let nodes = first.json(&["nodes"]);
        (nodes["nodes"].as_array()?.len() == 2).then_some(())
    });
    let text = |expression: &str, on: &str| {
        format!(
            "flow = \"g\"\ndelivery = \"at-most-once\"\n[stages.each]\nplugin = \"map\"\nworkers = 4\n{on}\n\
             parameters = {{ to = \"{expression}\" }}\nto = \"queue:results\"\n"
        )
    };
    let shown = |hive: &Hive| hive.rest("GET", "/api/v1/flows/g/each", "").json();
    let until_on = |nodes: Value| {
        until("the right nodes have it", || {
            let both = [shown(&first), shown(&second)];
            let has = |stage: &Value| {
                let nodes = nodes.as_object().into_iter().flatten();
                let mut named = nodes.map(|(node, parts)| stage["nodes"][node] == *parts);
                named.all(|named| named) && stage["parts"] == 1
            };
            both.iter().all(has).then_some(())
        });
    };
    run(
        &second,
        &["run", &write(&second, "one.toml", &text("{'by': 1}", ""))],
    );
    until_on(json!({ "a": 1, "b": 1 }));
    assert_eq!(shown(&first)["workers_count"], 4);
    assert_eq!(shown(&second)["workers_count"], 4);
    let send = |count: usize| {
        for number in 0..count {
            let hive = if number % 2 == 0 { &first } else { &second };
            hive.json(&["send", "g/each", "{}"]);
        }
    };
    send(8);
    assert_eq!(take(&first, "results", 8), vec![json!({ "by": 1 }); 8]);
    // A change reaches both.
    let two = write(&first, "two.toml", &text("{'by': 2}", ""));
    run(&first, &["apply", &two, "--yes"]);
    send(8);
    assert_eq!(take(&first, "results", 8), vec![json!({ "by": 2 }); 8]);
    // If one node is named, the other has nothing of it, but can send to it.
    let only = write(&first, "only.toml", &text("{'by': 2}", "on = [\"b\"]"));
    run(&first, &["apply", &only, "--yes"]);
    until_on(json!({ "a": 0, "b": 1 }));
    assert_eq!(shown(&first)["workers_count"], 0);
    send(8);
    assert_eq!(take(&first, "results", 8), vec![json!({ "by": 2 }); 8]);
    run(&first, &["stop", "g"]);
    until("it is gone", || {
        let gone = |hive: &Hive| hive.rest("GET", "/api/v1/flows/g/each", "").status == 404;
        (gone(&first) && gone(&second)).then_some(())
    });
}

#[test]
fn a_stage_of_another_kind_gets_what_waited_for_the_one_before() {
    let hive = Hive::start();
    let flow = |key: &str, expression: &str| {
        format!(
            "flow = \"f\"\n[stages.each]\nplugin = \"map\"\n{key}\nparameters = {{ to = \"{expression}\" }}\nto = \"queue:results\"\n\
             supervision = {{ tries_max = 1000000, restarts_max = 1000000, backoff_ms_min = 500 }}\n"
        )
    };
    // Nothing can be handled, so events wait in the queues of their buckets.
    let keyed = write(
        &hive,
        "keyed.toml",
        &flow("key = \"json:/n\"", "event.nothing.of.that"),
    );
    run(&hive, &["run", &keyed]);
    for n in 0..20 {
        hive.json(&["send", "f/each", &format!(r#"{{"n":{n}}}"#)]);
    }
    until("events wait in buckets", || {
        let queues = hive.rest("GET", "/api/v1/queues?q=f.each.b", "").json();
        let queues = queues["queues"].as_array()?.clone();
        let count = |queue: &Value| {
            queue["waiting"].as_u64().unwrap_or_default()
                + queue["unacknowledged"].as_u64().unwrap_or_default()
        };
        (queues.iter().map(count).sum::<u64>() == 20).then_some(())
    });
    let pool = write(&hive, "pool.toml", &flow("", "{'n': event.n}"));
    let done = run(&hive, &["apply", &pool, "--yes"]);
    assert!(done.contains("stop each and begin it anew"), "{done}");
    let mut came: Vec<u64> = take(&hive, "results", 20)
        .iter()
        .map(|event| event["n"].as_u64().unwrap())
        .collect();
    came.sort_unstable();
    assert_eq!(came, (0..20).collect::<Vec<u64>>());
}
