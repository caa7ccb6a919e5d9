//! `hivewire up` from start to end, as a process of its own.

// Each test file uses a part of it.
#[allow(dead_code)]
mod common;

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Hive, binary, stderr};
use rustix::process::Signal;

fn wait_for(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `hivewire up` in a folder, where it must fail, and gives the exit code and the reason.
fn refused(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = binary();
    command.current_dir(folder).arg("up").args(arguments);
    for listener in ["--http", "--stomp", "--gamq"] {
        if !arguments.contains(&listener) {
            command.args([listener, "127.0.0.1:0"]);
        }
    }
    let output = command.output().unwrap();
    (output.status.code(), stderr(&output))
}

#[test]
fn it_says_what_listens_and_health_agrees() {
    let mut hive = Hive::start();
    assert_eq!(hive.ready["status"], "ready");
    assert_eq!(
        hive.ready["studio"].as_str().unwrap(),
        format!("http://{}/#token={}", hive.address("http"), hive.token())
    );
    let health = hive.http("GET", "/health", &[], "");
    assert_eq!(
        (health.status, &health.json()["status"]),
        (200, &"ready".into())
    );
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(hive.data()), 0o700);
    assert_eq!(mode(hive.data().join("token")), 0o600);
    assert_eq!(hive.terminate(), Some(0));
}

#[test]
fn in_plain_words_too() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("hivewire.toml"),
        "[stomp]\naddress = \"off\"\n",
    )
    .unwrap();
    let out = fs::File::create(folder.path().join("out")).unwrap();
    let mut child = binary()
        .current_dir(folder.path())
        .args(["up", "--http", "127.0.0.1:0", "--gamq", "127.0.0.1:0"])
        .stdout(out)
        .spawn()
        .unwrap();
    let printed = || fs::read_to_string(folder.path().join("out")).unwrap();
    wait_for(|| printed().ends_with("ready\n"));
    let text = printed();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(text.contains("http  on tcp 127.0.0.1:"), "{text}");
    assert!(
        text.contains("gamq  on tcp") && text.contains("gamq  on udp"),
        "{text}"
    );
    assert!(!text.contains("stomp"), "{text}");
    assert!(
        text.contains("studio at http://127.0.0.1:") && text.contains("/#token="),
        "{text}"
    );
}

#[test]
fn a_second_start_on_the_same_data_is_refused() {
    let hive = Hive::start();
    let (code, reason) = refused(hive.folder.path(), &[]);
    assert_eq!(code, Some(1));
    assert!(
        reason.contains(&format!("process {}", hive.pid())),
        "{reason}"
    );
    assert!(reason.contains("hivewire-data"), "{reason}");
    assert_eq!(hive.http("GET", "/health", &[], "").status, 200);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for option in ["--http", "--stomp", "--gamq"] {
        let (code, reason) = refused(folder.path(), &[option, &address]);
        assert_eq!(code, Some(1), "{option}");
        assert!(
            reason.contains(&address) && reason.contains("in use"),
            "{option}: {reason}"
        );
    }
}

#[test]
fn an_address_that_others_can_reach_is_refused_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--http", "--stomp", "--gamq"] {
        let (code, reason) = refused(folder.path(), &[option, "0.0.0.0:0"]);
        assert_eq!(code, Some(1), "{option}");
        assert!(
            reason.contains("0.0.0.0:0") && reason.contains("allow_remote"),
            "{reason}"
        );
    }
}

#[test]
fn a_wrong_configuration_names_the_line_and_the_nearest_key() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("hivewire.toml"),
        "data = \"d\"\n[stomp]\nadress = \"off\"\n",
    )
    .unwrap();
    let (code, reason) = refused(folder.path(), &[]);
    assert_eq!(code, Some(2));
    assert!(reason.contains("hivewire.toml, line 3"), "{reason}");
    assert!(reason.contains("`stomp.address`"), "{reason}");
    let (code, reason) = refused(folder.path(), &["--config", "missing.toml"]);
    assert_eq!(code, Some(2));
    assert!(reason.contains("missing.toml"), "{reason}");
}

#[test]
fn what_is_durable_survives_a_restart_and_the_rest_does_not() {
    let mut hive = Hive::start();
    hive.json(&["pub", "orders", "stored"]);
    hive.json(&["pub", "orders", "fleeting", "--transient"]);
    hive.restart();
    let output = hive.run(&["sub", "orders", "--timeout", "0.2"]);
    assert_eq!(common::stdout(&output), "stored\n");
    assert!(hive.log().contains("clean_shutdown=true"));
}

#[test]
fn a_damaged_journal_is_reported_not_served() {
    let mut hive = Hive::start();
    hive.json(&["pub", "orders", "stored"]);
    assert_eq!(hive.terminate(), Some(0));
    let journal = hive.data().join("journal");
    let files = fs::read_dir(&journal).unwrap().map(|e| e.unwrap().path());
    let mut hits = files.filter_map(|path| {
        let bytes = fs::read(&path).unwrap();
        let place = bytes.windows(6).position(|six| six == b"stored")?;
        Some((path, bytes, place))
    });
    let (segment, mut bytes, place) = hits.next().unwrap();
    bytes[place] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let (code, reason) = refused(hive.folder.path(), &[]);
    assert_eq!(code, Some(1));
    assert!(
        reason.contains("damaged") && reason.contains("hivewire-data"),
        "{reason}"
    );
}

#[test]
fn ctrl_c_drains_as_well_and_open_streams_end() {
    let mut hive = Hive::start();
    let mut sub = hive.command(&["sub", "orders"]);
    let mut sub = sub.stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_for(|| hive.json(&["queues"])["queues"][1]["consumers"] == 1);
    hive.signal(Signal::INT);
    assert_eq!(hive.exit_code(), Some(0));
    assert_eq!(sub.wait().unwrap().code(), Some(1));
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut hive = Hive::start();
    let address = hive.address("http");
    // A request whose body never ends keeps the node from draining.
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/v1/queues/q/messages HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Length: 10\r\n\r\nhalf",
        hive.token()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Accepted in order: when this later one is answered, the first is being served.
    assert_eq!(hive.http("GET", "/health", &[], "").status, 200);
    hive.signal(Signal::TERM);
    wait_for(|| hive.log().contains("draining"));
    hive.signal(Signal::TERM);
    assert_eq!(hive.exit_code(), Some(130));
}
