//! Worker projects: made and built by the real binary, in three languages, and at work in a node.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use build::Language;
use common::{Hive, binary, stderr, stdout};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(30);

fn run(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command: Command = binary();
    command
        .current_dir(folder)
        .env_remove("HIVEWIRE_TOOLS")
        .args(arguments)
        .output()
        .unwrap()
}

/// What a worker answers.
fn ask(hive: &Hive, address: &str, body: &str) -> String {
    let output = hive.run(&["ask", address, body, "--timeout", "20s"]);
    assert!(output.status.success(), "{body}: {}", stderr(&output));
    stdout(&output).trim_end().to_owned()
}

fn ask_until(hive: &Hive, address: &str, body: &str, wanted: &str) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let answer = ask(hive, address, body);
        if answer == wanted {
            return;
        }
        assert!(Instant::now() < end, "{body}: {answer:?} is not {wanted:?}");
    }
}

#[test]
fn a_new_project_names_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    for (language, tool) in [
        (
            "js",
            "npm install --save-dev @bytecodealliance/componentize-js",
        ),
        ("python", "pip install componentize-py"),
    ] {
        let made = run(
            folder.path(),
            &["new", "worker", language, "--lang", language],
        );
        assert!(made.status.success(), "{}", stderr(&made));
        assert!(stdout(&made).contains(&format!("hivewire build {language}")));
        let failed = run(folder.path(), &["build", language]);
        assert_eq!(failed.status.code(), Some(1));
        assert!(stderr(&failed).contains(tool), "{}", stderr(&failed));
    }
}

#[test]
fn what_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["new", "worker", "greeter", "--json"]);
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(made["folder"], "greeter");
    let again = run(folder.path(), &["new", "worker", "greeter"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("not empty"), "{}", stderr(&again));
    let nothing = run(folder.path(), &["build"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(stderr(&nothing).contains("hivewire new worker"));
}

/// The binary builds a project, and says what came of it.
#[test]
fn a_project_is_built_by_the_command() {
    // It has the tools at hand afterwards.
    build::test_example(Language::Rust).unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = repository.join("target/workers").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["new", "worker", "greeter"]);
    let project = folder.path().join("greeter");
    std::os::unix::fs::symlink(target, project.join("target")).unwrap();
    let built = run(&project, &["build", "--json"]);
    assert!(built.status.success(), "{}", stderr(&built));
    let built: Value = serde_json::from_slice(&built.stdout).unwrap();
    let path = project.canonicalize().unwrap().join("build/greeter.wasm");
    assert_eq!(built["path"], path.to_str().unwrap());
    assert_eq!(built["bytes"], fs::metadata(&path).unwrap().len());
    assert_eq!(built["descriptor"]["name"], "greeter");
    let shown = stdout(&run(&project, &["build", "--out", "other.wasm"]));
    assert!(shown.starts_with("other.wasm ("), "{shown}");
    assert!(shown.contains("greeter 0.1.0 in rust\noutputs: counts\ncapabilities: none"));
}

#[test]
fn workers_in_three_languages_count() {
    let hive = Hive::start();
    for language in [Language::Rust, Language::Js, Language::Python] {
        let component = build::test_example(language).unwrap();
        let stage = format!("examples/{}", language.name());
        let component = component.to_str().unwrap();
        hive.json(&["deploy", component, "--as", &stage]);
        assert_eq!(ask(&hive, &stage, "hi"), "1");
        assert_eq!(ask(&hive, &stage, "hi"), "2");
        hive.json(&["restart", &stage]);
        assert_eq!(ask(&hive, &stage, "hi"), "3");
    }
}

/// Every function that the SDKs of JavaScript and Python offer.
fn probe(language: Language) {
    let hive = Hive::start();
    let component = build::test_probe(language).unwrap();
    let component = component.to_str().unwrap();
    let deploy = ["deploy", component, "--as", "t/probe", "--args", "hello"];
    // It answers some questions in a later turn, at an address that is not of its flow.
    let grant = ["--grant", "send:queue:*"];
    hive.json(&[&deploy[..], &grant].concat());
    let echo = build::test_worker("echo").unwrap();
    hive.json(&["deploy", echo.to_str().unwrap(), "--as", "t/echo"]);

    assert_eq!(ask(&hive, "t/probe", "args"), "hello");
    assert_eq!(ask(&hive, "t/probe", r#"json {"deep": [1]}"#), "[1]");
    assert_eq!(ask(&hive, "t/probe", "scan"), "s/1=S/1 s/3=S/3");
    assert_eq!(ask(&hive, "t/probe", "surroundings"), "fine");
    let logs = stdout(&hive.run(&["logs", "t/probe"]));
    assert!(logs.contains("a line from the probe"), "{logs}");
    assert!(logs.contains("printed"), "{logs}");

    let reply = hive.json(&["ask", "t/probe", "headers", "--header", "colour=red"]);
    assert_eq!(reply["body"], "red");
    assert_eq!(reply["headers"]["shade"], "dark", "{reply}");

    assert_eq!(ask(&hive, "t/probe", "send t/echo"), "sent");
    let refused = ask(&hive, "t/probe", "send no-address");
    assert!(refused.starts_with("refused: "), "{refused}");

    assert_eq!(
        ask(&hive, "t/probe", "ask t/echo 5000 hi you"),
        "reply:hi you"
    );
    let timed_out = ask(&hive, "t/probe", "ask t/nobody 50 hi");
    assert!(timed_out.starts_with("timed-out:"), "{timed_out}");

    assert_eq!(ask(&hive, "t/probe", "timer tick"), "set");
    ask_until(&hive, "t/probe", "get timer", "tick:tock");

    let child = ask(&hive, "t/probe", "spawn kid");
    assert_eq!(child, "t/probe/0/kid");
    assert_eq!(ask(&hive, &child, "args"), "child");
    assert_eq!(ask(&hive, &child, "end"), "ends");
    ask_until(&hive, "t/probe", "get ended", "kid");

    let before: u64 = ask(&hive, "t/probe", "memory").parse().unwrap();
    hive.json(&["deploy", component, "--as", "t/probe", "--args", "again"]);
    let after: u64 = ask(&hive, "t/probe", "memory").parse().unwrap();
    assert_eq!(after, before + 1, "what was saved was loaded");
    assert_eq!(ask(&hive, "t/probe", "args"), "again");
    fails_with_its_reason(&hive);
}

fn fails_with_its_reason(hive: &Hive) {
    hive.json(&["send", "t/probe", "fail"]);
    let end = Instant::now() + TIMEOUT;
    loop {
        let letters = hive.json(&["dead", "list"]);
        if letters.to_string().contains("it was told to fail") {
            return;
        }
        assert!(Instant::now() < end, "no dead letter: {letters}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn javascript_workers_can_do_everything() {
    probe(Language::Js);
}

#[test]
fn python_workers_can_do_everything() {
    probe(Language::Python);
}
