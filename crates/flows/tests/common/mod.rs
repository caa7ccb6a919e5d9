//! Documents as they come.

use std::collections::BTreeMap;

use flows::document::{
    Document, HttpRoute, Limits, OneOrMany, Period, Place, Position, Promise, Scale, Stage,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Few names, so that documents share some.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f-1", "g_2"];

const ROUTES: [&str; 4] = [
    "GET /",
    "POST /orders",
    "GET /orders/{id}",
    "PUT /files/{*rest}",
];

pub fn documents() -> impl Strategy<Value = Document> {
    let stages = btree_map(names(), stages(), 0..6);
    let all = (text(), promises(), stages, routes());
    all.prop_map(|(description, delivery, stages, http)| Document {
        description,
        delivery,
        stages,
        http,
        ..Document::new("flow")
    })
}

/// Routes of which the rest is always the same, so that a name tells them apart.
fn routes() -> impl Strategy<Value = Vec<HttpRoute>> {
    let routes = btree_map(prop::sample::select(ROUTES.as_slice()), names(), 0..3);
    let route = |(route, stage): (&str, String)| HttpRoute {
        route: route.to_owned(),
        stage,
        reply: !route.starts_with("PUT"),
        timeout: route.starts_with("POST").then(|| Period::from_millis(700)),
        headers: vec!["accept".to_owned(); usize::from(route.starts_with("GET"))],
    };
    routes.prop_map(move |routes| routes.into_iter().map(route).collect())
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(NAMES.as_slice()).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[ -~äß\n\t\"'\\\\]{0,20}"]
}

fn promises() -> impl Strategy<Value = Promise> {
    prop_oneof![
        Just(Promise::AtMostOnce),
        Just(Promise::AtLeastOnce),
        Just(Promise::StateOnce)
    ]
}

fn stages() -> impl Strategy<Value = Stage> {
    let plugins = prop::sample::select(vec![
        "map",
        "filter@1.2.0",
        "shop/x",
        "./w.wasm",
        "https://x.org/w.wasm",
    ]);
    let way = (
        option::of(prop::sample::select(vec!["body", "json:/a~1b", "header:h"])),
        option::of(prop::sample::select(vec!["random", "broadcast", "/r.wasm"])),
    );
    let size = (option::of(1u32..5), option::of(scales()));
    let rest = (
        option::of(promises()),
        limits(),
        rules(),
        text(),
        option::of((-9i32..9, -9i32..9)),
        vec(names(), 0..2),
    );
    (plugins, parameters(), outputs(), way, size, rest).prop_map(
        |(plugin, parameters, outputs, (key, router), (workers, scale), rest)| {
            let (delivery, limits, supervision, description, position, on) = rest;
            let mut stage: Stage =
                serde_json::from_value(json!({ "plugin": plugin, "supervision": supervision }))
                    .unwrap();
            stage.parameters = parameters;
            stage.outputs = outputs;
            stage.key = key.map(|key| key.parse().unwrap());
            stage.router = router.map(|router| router.to_owned().try_into().unwrap());
            stage.workers = workers;
            stage.scale = scale;
            stage.delivery = delivery;
            stage.limits = limits;
            stage.description = description;
            stage.position = position.map(|(x, y)| Position {
                x: x.into(),
                y: y.into(),
            });
            stage.on = on;
            stage
        },
    )
}

fn parameters() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9f64..1e9).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let nested = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("[a-z. ä]{0,6}", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    prop_oneof![Just(Value::Null), nested]
}

fn outputs() -> impl Strategy<Value = BTreeMap<String, OneOrMany<Place>>> {
    let place = prop_oneof![
        names(),
        Just("queue:q".to_owned()),
        Just("topic:t.x".to_owned()),
        Just("other/s".to_owned()),
        Just("flow/a/3".to_owned()),
    ];
    let places = btree_set(place, 1..3).prop_map(|places| {
        OneOrMany(
            places
                .into_iter()
                .map(|place| place.parse().unwrap())
                .collect(),
        )
    });
    btree_map(
        prop_oneof![Just("out".to_owned()), "[a-z.-]{1,5}"],
        places,
        0..3,
    )
}

fn scales() -> impl Strategy<Value = Scale> {
    (
        option::of(1u32..3),
        option::of(3u32..9),
        option::of(1u64..100_000),
        option::of(0.0f64..1.0),
    )
        .prop_map(|(min, max, latency, low_watermark)| Scale {
            min,
            max,
            latency: latency.map(Period::from_millis),
            low_watermark,
            ..Scale::default()
        })
}

fn limits() -> impl Strategy<Value = Limits> {
    (option::of(1u32..9), option::of(1u64..9)).prop_map(|(batch_messages_max, batch_ms)| Limits {
        batch_messages_max,
        batch_ms,
        ..Limits::default()
    })
}

fn rules() -> impl Strategy<Value = Option<Value>> {
    option::of((1u32..5).prop_map(|tries| json!({ "tries_max": tries })))
}
