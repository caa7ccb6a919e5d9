use proptest::prelude::*;
use runtime::JsonPointer;
use serde_json::{Value as Json, json};

use super::*;

fn parse(json: &Json) -> Event {
    Event::parse(json.to_string().as_bytes()).unwrap()
}

#[test]
fn text_becomes_text_and_other_bytes_are_refused() {
    assert_eq!(
        Event::parse(b"plain text").unwrap().data().as_text(),
        Some("plain text")
    );
    assert_eq!(Event::parse(b"").unwrap().data().as_text(), Some(""));
    assert_eq!(
        Event::parse(b"{\"a\":").unwrap().data().as_text(),
        Some("{\"a\":")
    );
    assert_eq!(Event::parse(b"42").unwrap().data().as_int(), Some(42));
    assert_eq!(
        Event::parse(b"ab\xff").unwrap_err(),
        EventError::NotText { at: 2 }
    );
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    assert_eq!(
        Event::parse(deep.as_bytes()).unwrap_err(),
        EventError::TooDeep
    );
    let fits = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(
        Event::parse(fits.as_bytes())
            .unwrap()
            .data()
            .check_depth()
            .is_ok()
    );
    let endless = "[".repeat(1_000_000);
    assert_eq!(
        Event::parse(endless.as_bytes()).unwrap_err(),
        EventError::TooDeep
    );
    let large = vec![b' '; BODY_BYTES_MAX + 1];
    assert!(matches!(
        Event::parse(&large),
        Err(EventError::TooLarge { .. })
    ));
}

#[test]
fn the_last_field_of_a_name_counts_and_names_are_sorted() {
    let event = Event::parse(br#"{"b":1,"a":2,"b":3,"c":"\u00e9\n"}"#).unwrap();
    assert_eq!(
        &event.encode()[..],
        "{\"a\":2,\"b\":3,\"c\":\"é\\n\"}".as_bytes()
    );
    let many: Json = (0..50)
        .map(|n| (format!("f{n}"), json!(n)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(
        parse(&many).data().get("f37").and_then(Data::as_int),
        Some(37)
    );
    let mut record = Record::default();
    record.set("b", true.into());
    record.set("a", Data::Null);
    record.set("b", "x".into());
    assert_eq!(
        Data::from(record),
        Data::record([("a", Data::Null), ("b", "x".into())])
    );
}

fn json_values() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Json::from),
        (-1_000_i32..1_000).prop_map(|number| json!(f64::from(number))),
        "[a-c\"\\\\\u{0}-\u{1f}é/~]{0,4}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec(("[abc/~]{0,2}", inner), 0..4).prop_map(|fields| Json::from(
                fields.into_iter().collect::<serde_json::Map<_, _>>()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn events_are_read_and_written_alike(json in json_values()) {
        let event = parse(&json);
        let body = event.encode();
        prop_assert_eq!(serde_json::from_slice::<Json>(&body).unwrap(), json);
        prop_assert_eq!(&Event::parse(&body).unwrap().encode(), &body);
        let stored = serde_json::to_vec(event.data()).unwrap();
        prop_assert_eq!(&serde_json::from_slice::<Data>(&stored).unwrap(), event.data());
    }

    #[test]
    fn keys_are_those_that_are_found_in_the_body(json in json_values(), pointer in "(/[abc012]{0,2}|/~1|/~0){0,3}") {
        let event = parse(&json);
        let pointer = JsonPointer::parse(&pointer).unwrap();
        let body = event.encode();
        let expected = pointer.find(&body).unwrap();
        match event.key_at(pointer.parts()) {
            KeyAt::Text(text) => prop_assert_eq!(Some(text), expected),
            KeyAt::Nothing => prop_assert_eq!(None, expected),
            KeyAt::Unknown => prop_assert!(false, "an event always knows"),
        }
    }
}
