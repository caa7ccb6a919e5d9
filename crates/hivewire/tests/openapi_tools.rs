//! What others make of the OpenAPI document: schemathesis tries everything that it allows, and a client that
//! was generated from it compiles and works.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Hive, stderr, stdout};
use serde_json::json;

/// Few enough to take some seconds, and the same every time.
const EXAMPLES_MAX: &str = "10";
const SEED: &str = "1";
/// Everything that schemathesis checks in single requests, but that all that fits a schema is accepted: a queue of
/// any name fits, and most are not there.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,negative_data_rejection,\
                      missing_required_header,unsupported_method,ignored_auth";

fn tool(path: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tool = repository.canonicalize().unwrap().join(".tools").join(path);
    assert!(
        tool.exists(),
        "{} is missing: run tests/tools/install test",
        tool.display()
    );
    tool
}

fn node(name: &str) -> Hive {
    Hive::with_config(&format!("[node]\nname = {name:?}\n"))
}

fn succeeded(what: &str, output: &Output) {
    let (out, err) = (stdout(output), stderr(output));
    assert!(output.status.success(), "{what}:\n{out}\n{err}");
}

/// A node that has a stage, a queue and a plug-in. Nobody guesses its name, so nobody tells it to stop.
fn node_with_something() -> Hive {
    let hive = node("not-to-be-guessed-5b1f");
    let worker = build::test_worker("counter").unwrap_or_else(|error| panic!("{error}"));
    let worker = worker.to_str().unwrap();
    let deployment = json!({ "as": "shop/counter", "source": worker });
    let deployed = hive.rest("POST", "/api/v1/deployments", &deployment.to_string());
    assert_eq!(deployed.status, 200, "{deployed:?}");
    let published = hive.rest(
        "POST",
        "/api/v1/queues/orders/messages",
        r#"{"messages":[{"body":"x"}]}"#,
    );
    assert_eq!(published.status, 200, "{published:?}");
    hive.json(&["plugins", "push", worker]);
    hive
}

/// Runs schemathesis with one of the configurations beside this file.
fn schemathesis(hive: &Hive, config: &str, filters: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis");
    let server = format!("http://{}", hive.address("http"));
    let output = Command::new(tool("venv/bin/schemathesis"))
        .current_dir(hive.folder.path())
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .arg("--config-file")
        .arg(folder.join(config))
        .args(["run", &format!("{server}/api/v1/openapi.json")])
        .args(["--url", &server])
        .args([
            "--header",
            &format!("Authorization: Bearer {}", hive.token()),
        ])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args([
            "--max-examples",
            EXAMPLES_MAX,
            "--seed",
            SEED,
            "--generation-database",
            "none",
        ])
        .args(["--checks", CHECKS])
        .args(["--request-timeout", "20", "--warnings", "off"])
        .args(["--suppress-health-check", "all"])
        .args(filters)
        .output()
        .unwrap();
    succeeded("schemathesis", &output);
    let health = hive.rest("GET", "/health", "");
    assert_eq!(health.status, 200, "{health:?}");
}

#[test]
fn schemathesis_finds_nothing() {
    let hive = node_with_something();
    // Answers that do not end by themselves, or only after a long time, are left out.
    let streams = "/(stream|logs|events|live|profile)$";
    schemathesis(&hive, "anything.toml", &["--exclude-path-regex", streams]);
}

#[test]
fn schemathesis_finds_nothing_behind_names_that_are_there() {
    let hive = node_with_something();
    // Besides: a stage can have two million workers, and what is deleted is not there for the others.
    let left_out = "/(stream|logs|profile|scale)$";
    let filters = [
        "--include-path-regex",
        r"\{",
        "--exclude-path-regex",
        left_out,
        "--exclude-method",
        "DELETE",
    ];
    schemathesis(&hive, "there.toml", &filters);
}

#[test]
fn a_client_that_was_generated_compiles_and_works() {
    let hive = node("typed");
    let folder = hive.folder.path().join("client");
    fs::create_dir(&folder).unwrap();
    let document = hive.rest("GET", "/api/v1/openapi.json", "");
    fs::write(folder.join("openapi.json"), &document.body).unwrap();
    fs::write(folder.join("package.json"), r#"{ "type": "module" }"#).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated_client");
    for file in ["main.ts", "tsconfig.json"] {
        fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    std::os::unix::fs::symlink(tool("node/node_modules"), folder.join("node_modules")).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new("node")
            .current_dir(&folder)
            .arg(program)
            .args(arguments)
            .env(
                "HIVEWIRE_SERVER",
                format!("http://{}", hive.address("http")),
            )
            .env("HIVEWIRE_TOKEN", hive.token())
            .output()
            .unwrap();
        succeeded(program, &output);
        stdout(&output)
    };
    run(
        "node_modules/openapi-typescript/bin/cli.js",
        &["openapi.json", "--output", "schema.ts"],
    );
    run("node_modules/typescript/bin/tsc", &["--project", "."]);
    assert!(run("out/main.js", &[]).contains("all is well"));
}
