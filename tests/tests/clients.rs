//! Client libraries that people use, and a plain gamq client, against the real binary.
//!
//! The checks stand in `tests/clients/`, one script per client. Each script is run a second time with
//! its expectations turned round: then every check has to fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hivewire_bench::peers::Certificate;
use hivewire_tests::hive::{Hive, free_address};

/// Shorter than by default, so that several heart-beats and the limit are seen in a short time, and
/// long enough that a machine with other things to do is not taken for a dead client. The scripts
/// know these numbers.
const CONFIG: &str = "[stomp]
heart_beat_send_ms = 1000
heart_beat_want_ms = 1000
subscriptions_max = 50
";

/// Fewer checks than this means that some are not found.
const CHECKS_MIN: usize = 20;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A program that `tests/tools/install test` provides.
fn installed(path: &str) -> PathBuf {
    let program = repository().join(path);
    assert!(
        program.exists(),
        "{} is missing: run tests/tools/install test",
        program.display()
    );
    program
}

/// How STOMP is spoken with the broker.
#[derive(Clone, Copy, PartialEq)]
enum Stomp {
    Plain,
    Encrypted,
}

fn run(program: &Path, script: &str, stomp: Stomp, more: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let certificate = Certificate::issue(directory.path()).unwrap();
    let encrypted = free_address().unwrap();
    let config = format!(
        "{CONFIG}tls_address = \"{encrypted}\"\ntls_certificate = {:?}\ntls_key = {:?}\n",
        certificate.certificate, certificate.key
    );
    let hive = Hive::options().config(config).start().unwrap();
    let stomp_port = match stomp {
        Stomp::Plain => hive.stomp_address().port(),
        Stomp::Encrypted => encrypted.port(),
    };
    let mut command = Command::new(program);
    command
        .arg(repository().join("tests/clients").join(script))
        .args(["--stomp", &stomp_port.to_string()])
        .args(["--http", &hive.http_address().port().to_string()])
        .args(more)
        .env("HIVEWIRE_TOKEN", hive.token().unwrap())
        // Nothing is to be left in the repository.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    if stomp == Stomp::Encrypted {
        command.arg("--authority").arg(&certificate.authority);
    }
    if script.starts_with("gamq") {
        command.args(["--gamq", &hive.gamq_address().port().to_string()]);
    }
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()));
    assert!(hive.is_healthy(), "the broker suffered");
    output
}

/// How many checks passed and failed, from the last line that a script prints.
fn counts(output: &Output) -> (usize, usize) {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    let words: Vec<&str> = line.split([' ', ',']).filter(|w| !w.is_empty()).collect();
    match words[..] {
        [passed, "passed", failed, "failed"] => (passed.parse().unwrap(), failed.parse().unwrap()),
        _ => panic!(
            "no result in:\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

fn check(program: &Path, script: &str, stomp: Stomp) {
    let output = run(program, script, stomp, &[]);
    let (passed, failed) = counts(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{script}: {passed} passed, {failed} failed");
    assert!(failed == 0 && output.status.success(), "{script}:\n{text}");
    assert!(passed >= CHECKS_MIN, "only {passed} checks in {script}");

    let flipped = run(program, script, stomp, &["--flip"]);
    let text = String::from_utf8_lossy(&flipped.stdout);
    assert_eq!(
        counts(&flipped),
        (0, passed),
        "with its expectations turned round, every check of {script} must fail:\n{text}"
    );
    assert!(!flipped.status.success());
}

#[test]
fn stomp_py_finds_what_it_expects() {
    check(
        &installed(".tools/venv/bin/python"),
        "stomp_py_checks.py",
        Stomp::Plain,
    );
}

#[test]
fn stomp_py_finds_the_same_when_it_speaks_encrypted() {
    let python = installed(".tools/venv/bin/python");
    check(&python, "stomp_py_checks.py", Stomp::Encrypted);
}

#[test]
fn stompit_finds_what_it_expects() {
    installed(".tools/node/node_modules/stompit");
    check(Path::new("node"), "stompit_checks.js", Stomp::Plain);
}

#[test]
fn a_plain_gamq_client_finds_every_byte_as_it_was() {
    check(Path::new("python3"), "gamq_checks.py", Stomp::Plain);
}
