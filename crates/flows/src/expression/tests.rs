use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::check::FUNCTIONS;
use super::*;
use crate::event::Event;

fn evaluated(text: &str, event: serde_json::Value) -> Result<Data, ExpressionError> {
    let event = Event::parse(event.to_string().as_bytes()).unwrap();
    Expression::compile(text)?.evaluate(&Variables::of(event.data()))
}

fn gives(text: &str, event: serde_json::Value, expected: serde_json::Value) {
    let data = evaluated(text, event).unwrap();
    assert_eq!(serde_json::to_value(&data).unwrap(), expected, "{text}");
}

#[test]
fn fields_lists_and_records_are_looked_into() {
    let event = json!({ "a": { "b": [1, 2.5, "x"] }, "n": 3, "t": "Ein Text", "none": null });
    gives("event.a.b[2]", event.clone(), json!("x"));
    gives("event.a.b.size() + event.n", event.clone(), json!(6));
    gives(
        "event.a.b.map(x, string(x))",
        event.clone(),
        json!(["1", "2.5", "x"]),
    );
    gives(
        "event.map(k, k)",
        event.clone(),
        json!(["a", "n", "none", "t"]),
    );
    gives(
        "{'t': event.t, 'l': [event.n, event.none]}",
        event.clone(),
        json!({ "l": [3, null], "t": "Ein Text" }),
    );
    gives("has(event.x) || has(event.a.b)", event.clone(), json!(true));
    gives("event.?x.orValue('-')", event.clone(), json!("-"));
    gives("event.a.b + [4]", event.clone(), json!([1, 2.5, "x", 4]));
    gives(
        "event.n in event.a.b || 'x' in event.a.b",
        event.clone(),
        json!(true),
    );
    gives("'n' in event", event.clone(), json!(true));
    gives("event", event.clone(), event);
}

#[test]
fn what_events_hold_equals_what_expressions_make() {
    let event = json!({ "l": [1, "a"], "r": { "x": [1] } });
    for text in [
        "event.l == [1, 'a']",
        "[1, 'a'] == event.l",
        "event.r == {'x': [1]}",
        "{'x': [1]} == event.r",
        "event.r == event.r",
        "'1 a'.split(' ') != event.l",
        "event.l != [1]",
    ] {
        gives(text, event.clone(), json!(true));
    }
}

#[test]
fn texts_and_times_have_functions() {
    gives(
        "event.lower().words()",
        json!("Die Öde, öde WELT!"),
        json!(["die", "öde", "öde", "welt"]),
    );
    gives(
        "event.upper().replace('A', 'o').split('-').join('+')",
        json!("a-b"),
        json!("o+B"),
    );
    gives("event.trim().substring(1)", json!(" abc "), json!("bc"));
    gives("event.matches('^a+$')", json!("aaaa"), json!(true));
    gives(
        "timestamp(event).getFullYear()",
        json!("2026-01-31T12:00:00Z"),
        json!(2026),
    );
    gives(
        "'%s: %d'.format([event.a, event.b])",
        json!({ "a": "x", "b": 2 }),
        json!("x: 2"),
    );
    gives("math.greatest(event)", json!([3, 9, 2]), json!(9));
}

#[test]
fn times_are_milliseconds_or_text() {
    let time = |event: serde_json::Value| {
        let event = Event::parse(event.to_string().as_bytes()).unwrap();
        Expression::compile("event")
            .unwrap()
            .time_ms(&Variables::of(event.data()))
    };
    assert_eq!(time(json!(1_500)).unwrap(), 1_500);
    assert_eq!(time(json!("1970-01-01T00:00:01.5Z")).unwrap(), 1_500);
    for wrong in [
        json!("yesterday"),
        json!(null),
        json!(-1),
        json!(1e300),
        json!({}),
    ] {
        assert!(
            time(wrong.clone())
                .unwrap_err()
                .to_string()
                .contains("milliseconds since 1970"),
            "{wrong}"
        );
    }
}

#[test]
fn what_is_wrong_is_told_with_its_position() {
    for (text, line, column, reason) in [
        ("event.a >", 1, 10, ""),
        ("event.a + evnt.b", 1, 11, "no variable evnt"),
        ("1 +\n  later", 2, 3, "no variable later"),
        ("event.shout()", 1, 0, "no function shout"),
        ("lists.range(1000000000)", 1, 0, "no function range"),
        (
            "[1].map(a, [1].map(b, [1].map(c, [1].map(d, 1))))",
            1,
            0,
            "nested",
        ),
        ("x.y.Z{a: 1}", 1, 0, "no type"),
    ] {
        let error = Expression::compile(text).unwrap_err();
        let ExpressionError::Syntax {
            line: at_line,
            column: at_column,
            reason: because,
            ..
        } = &error
        else {
            panic!("{text}: {error}");
        };
        assert!(because.contains(reason), "{text}: {error}");
        assert_eq!(*at_line, line, "{text}: {error}");
        assert!(column == 0 || *at_column == column, "{text}: {error}");
    }
    assert!(matches!(
        Expression::compile(&" ".repeat(5_000)),
        Err(ExpressionError::TooLong { .. })
    ));
}

#[test]
fn what_cannot_be_evaluated_is_told() {
    for (text, reason) in [
        ("event.missing", "missing"),
        ("event.n / 0", "zero"),
        ("event.n + 'a'", "add"),
        ("1.0 / 0.0", "JSON"),
        ("b'bytes'", "bytes"),
        ("{1: 2}", "strings"),
    ] {
        let error = evaluated(text, json!({ "n": 1 })).unwrap_err().to_string();
        assert!(
            error.contains(reason) && error.contains(text),
            "{text}: {error}"
        );
    }
    let expression = Expression::compile("event").unwrap();
    let error = expression
        .is_true(&Variables::of(&Data::from(1_i64)))
        .unwrap_err();
    assert!(error.to_string().contains("true or false"), "{error}");
}

#[test]
fn events_cannot_become_endlessly_deep() {
    let mut data = Data::Null;
    let wrap = Expression::compile("[event]").unwrap();
    let error = loop {
        match wrap.evaluate(&Variables::of(&data)) {
            Ok(deeper) => data = deeper,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("deep"), "{error}");
}

#[test]
fn headers_are_a_record() {
    let headers = Headers::from_pairs([("source", "shop"), ("source", "later")]).unwrap();
    let variables = Variables::of(&Data::Null).with_headers(&headers);
    let expression = Expression::compile("headers.source + string(size(headers))").unwrap();
    assert_eq!(
        expression.evaluate(&variables).unwrap().as_text(),
        Some("later1")
    );
    assert!(
        !Expression::compile("has(headers.none)")
            .unwrap()
            .is_true(&Variables::of(&Data::Null))
            .unwrap()
    );
}

#[test]
fn functions_are_listed_once() {
    let names: BTreeSet<&&str> = FUNCTIONS.iter().collect();
    assert_eq!(names.len(), FUNCTIONS.len());
}

/// Values on which the quick way and the interpreter might disagree.
fn values() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|value| json!(value)),
        (-3_i64..4).prop_map(|value| json!(value)),
        Just(json!(i64::MAX)),
        Just(json!(i64::MIN)),
        Just(json!(u64::MAX)),
        Just(json!(9_007_199_254_740_993_i64)),
        Just(json!(0.0)),
        Just(json!(2.0)),
        Just(json!(-1.5)),
        Just(json!("")),
        Just(json!("a")),
        Just(json!("b")),
        Just(json!([1])),
        Just(json!({ "x": 1 })),
    ]
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("event.a".to_owned()),
        Just("event.b".to_owned()),
        Just("event.a.x".to_owned()),
        Just("event.none".to_owned()),
        Just("has(event.a)".to_owned()),
        Just("has(event.a.x)".to_owned()),
        Just("1".to_owned()),
        Just("1u".to_owned()),
        Just("2.0".to_owned()),
        Just("'a'".to_owned()),
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("size(event)".to_owned()),
    ];
    leaf.prop_recursive(3, 20, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            inner.clone().prop_map(|a| format!("!({a})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{'y': {a}, 'x': [{b}]}}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_quick_way_gives_what_the_interpreter_gives(text in expressions(), a in values(), b in values()) {
        let event = Event::parse(json!({ "a": a, "b": b }).to_string().as_bytes()).unwrap();
        let variables = Variables::of(event.data());
        let expression = Expression::compile(&text).unwrap();
        let slow = expression.with_value(&variables, data_of);
        if let Some(quick) = expression.quick.evaluate(&variables) {
            prop_assert_eq!(Ok(quick.into_owned()), slow, "{}", text);
        }
    }
}
