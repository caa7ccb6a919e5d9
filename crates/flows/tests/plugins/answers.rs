//! The plug-in that answers whoever asks.

use kernel::worker::Incoming;
use kernel::{Headers, Message};
use serde_json::{Value, json};

use super::rig::{built, outside, run};

/// A question from somebody who wants the answer in a queue.
fn question(body: &str, headers: &[(&str, &str)]) -> Incoming {
    let to = [
        (Message::REPLY_TO, "queue:asker"),
        (Message::CORRELATION_ID, "7"),
    ];
    let headers = to.iter().chain(headers).copied();
    let headers = Headers::from_pairs(headers).unwrap();
    Incoming::new(Message::new(body.to_owned()).with_headers(headers))
}

/// What came of these events: the answers, and what was passed on and refused.
fn answered(parameters: &Value, messages: &[Incoming]) -> [Vec<Value>; 3] {
    run(async {
        let mut rig = built("answer", &parameters.to_string()).await;
        rig.handle(messages).await.unwrap();
        ["queue:asker", "out", "refused"].map(|output| rig.at(output))
    })
}

#[test]
fn who_asks_is_answered_and_events_pass_on() {
    let [answers, out, refused] = answered(
        &json!({ "with": "event.a + 1" }),
        &[question("{\"a\":1}", &[]), outside(&json!({ "a": 5 }))],
    );
    assert_eq!(answers, [json!(2)], "only one of them asks");
    assert_eq!(out, [json!({ "a": 1 }), json!({ "a": 5 })]);
    assert!(refused.is_empty());
}

#[test]
fn without_an_expression_the_event_is_the_answer() {
    let [answers, ..] = answered(
        &json!({}),
        &[question("{\"a\":1}", &[]), question("plain words", &[])],
    );
    assert_eq!(answers, [json!({ "a": 1 }), json!("plain words")]);
}

#[test]
fn an_answer_can_be_made_of_the_path() {
    let parameters = json!({ "with": "'hello ' + headers['http-param-name']" });
    let [answers, ..] = answered(&parameters, &[question("", &[("http-param-name", "Ada")])]);
    assert_eq!(answers, [json!("hello Ada")]);
}

#[test]
fn who_asks_is_told_why_there_is_no_answer() {
    for parameters in [
        json!({ "with": "event.missing" }),
        json!({ "status": "'fine'" }),
        json!({ "status": "99" }),
    ] {
        let [answers, out, refused] = answered(&parameters, &[question("{\"a\":1}", &[])]);
        assert_eq!(
            (answers.len(), out.len(), refused.len()),
            (1, 0, 1),
            "{parameters}"
        );
        assert_eq!(refused[0]["event"], json!({ "a": 1 }));
        assert_eq!(answers[0], refused[0]["reason"]);
    }
}

#[test]
fn it_may_fail_instead() {
    let parameters = json!({ "with": "event.missing", "on_error": "fail" });
    run(async {
        let mut rig = built("answer", &parameters.to_string()).await;
        let failed = rig.handle(&[question("{}", &[])]).await;
        assert!(failed.unwrap_err().reason.contains("missing"));
    });
}

#[test]
fn headers_have_to_be_names() {
    let answer = flows::plugins::find("answer").unwrap();
    let error = answer.check(br#"{"headers": {"X-A": "b"}}"#).unwrap_err();
    assert_eq!(error.field(), "headers.X-A");
    assert!(
        answer
            .check(br#"{"headers": {"x-a": "b", "content-type": "text/html"}}"#)
            .is_ok()
    );
}
