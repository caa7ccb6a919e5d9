//! Plug-ins that meet the world outside.

use std::time::Duration;

use kernel::{Destination, Message, Name};
use serde_json::json;

use super::rig::{Rig, built_in, outside, run};
use super::samples::{environment, environment_with_bus};

#[test]
fn what_was_undone_does_not_stay_in_a_file() {
    run(async {
        let environment = environment();
        let path = environment
            .folder
            .clone()
            .unwrap()
            .join("output/once.jsonl");
        let parameters = r#"{"file": "output/once.jsonl", "file_bytes_max": 60, "files_max": 100}"#;
        let mut rig = built_in(&environment, "to-file", parameters).await;
        for n in 0..40 {
            let message = [outside(&json!({ "number": n }))];
            rig.undone(&message).await;
            if n % 3 == 0 {
                rig.crash().await;
            }
            rig.handle(&message).await.unwrap();
        }
        let mut lines = Vec::new();
        for number in 1.. {
            match std::fs::read_to_string(path.with_file_name(format!("once.jsonl.{number}"))) {
                Ok(text) => lines.extend(text.lines().map(str::to_owned)),
                Err(_) => break,
            }
        }
        lines.extend(
            std::fs::read_to_string(&path)
                .unwrap()
                .lines()
                .map(str::to_owned),
        );
        let expected: Vec<String> = (0..40).map(|n| format!("{{\"number\":{n}}}")).collect();
        assert_eq!(lines, expected);
    });
}

#[test]
fn two_workers_do_not_write_one_file() {
    run(async {
        let parameters = r#"{"file": "output/two.jsonl"}"#;
        let environment = environment();
        let mut one = built_in(&environment, "to-file", parameters).await;
        let mut two = built_in(&environment, "to-file", parameters).await;
        one.handle(&[outside(&json!(1))]).await.unwrap();
        let failure = two.handle(&[outside(&json!(2))]).await.unwrap_err();
        assert!(failure.reason.contains("one worker"), "{failure}");
    });
}

#[test]
fn files_outside_the_folder_are_refused() {
    let file_lines = flows::plugins::find("file-lines")
        .unwrap()
        .code(&environment());
    for file in ["/etc/passwd", "../x", "a/../../x", "", ".."] {
        let parameters = json!({ "file": file }).to_string();
        let failure = run(Rig::new(file_lines.clone(), &parameters))
            .err()
            .unwrap();
        assert!(
            failure.reason.contains("folder of flows"),
            "{file}: {failure}"
        );
    }
}

#[test]
fn a_file_is_followed_and_long_lines_are_told() {
    run(async {
        let environment = environment();
        let path = environment.folder.clone().unwrap().join("followed.txt");
        std::fs::write(&path, format!("one\n{}\ntw", "x".repeat(100))).unwrap();
        let mut rig = built_in(
            &environment,
            "file-lines",
            r#"{"file": "followed.txt", "follow": true, "line_bytes_max": 50}"#,
        )
        .await;
        rig.provide().await.unwrap();
        assert_eq!(rig.at("out"), [json!({ "line": 1, "text": "one" })]);
        assert_eq!(rig.at("refused")[0]["line"], 2);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("o\nthree\n");
        std::fs::write(&path, text).unwrap();
        rig.provide().await.unwrap();
        assert_eq!(
            rig.at("out")[1..],
            [
                json!({ "line": 3, "text": "two" }),
                json!({ "line": 4, "text": "three" })
            ]
        );
        std::fs::write(&path, "anew\n").unwrap();
        rig.provide().await.unwrap();
        assert_eq!(rig.at("out")[3], json!({ "line": 1, "text": "anew" }));
    });
}

#[test]
fn a_queue_is_acknowledged_after_the_commit() {
    run(async {
        let environment = environment_with_bus();
        let bus = environment.bus.clone().unwrap();
        let queue = Destination::Queue(Name::new("orders.new").unwrap());
        let second = Duration::from_secs(1);
        let mut messages: Vec<Message> = (0..10).map(|n| Message::new(n.to_string())).collect();
        bus.publish(&queue, &mut messages, second).await.unwrap();
        let code = flows::plugins::find("from-queue")
            .unwrap()
            .code(&environment);
        let mut rig = Rig::new(code, r#"{"queue": "orders.new"}"#).await.unwrap();
        // What is not committed is emitted again, and nothing was acknowledged.
        rig.provide_undone().await;
        rig.provide().await.unwrap();
        let expected: Vec<_> = (0..10).map(|n| json!(n)).collect();
        assert_eq!(rig.at("out"), expected);
        // The turn after the commit acknowledges: another subscriber gets nothing once this one is gone.
        rig.provide().await.unwrap();
        assert_eq!(rig.at("out"), expected);
        drop(rig);
        let other = bus.subscribe(&queue, 10, second).await.unwrap();
        assert!(
            other
                .next_batch(10, Duration::from_millis(50))
                .await
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn a_queue_gives_back_what_was_not_committed() {
    run(async {
        let environment = environment_with_bus();
        let bus = environment.bus.clone().unwrap();
        let queue = Destination::Queue(Name::new("orders.new").unwrap());
        let second = Duration::from_secs(1);
        bus.publish(&queue, &mut vec![Message::new("1")], second)
            .await
            .unwrap();
        let code = flows::plugins::find("from-queue")
            .unwrap()
            .code(&environment);
        let mut rig = Rig::new(code, r#"{"queue": "orders.new"}"#).await.unwrap();
        rig.provide_undone().await;
        drop(rig);
        let other = bus.subscribe(&queue, 10, second).await.unwrap();
        assert_eq!(other.next_batch(10, second).await.unwrap().len(), 1);
    });
}
