//! What handlers get out of requests, and what happens if it does not fit.

use axum::body::Body as HttpBody;
use serde::{Deserialize, Serialize};
use web::{Body, Extension, Form, Headers, Json, Method, Path, Problem, Query, Service, Settings};

use crate::rig::{Answer, ask, build, get, post_json, request};

#[derive(Deserialize, Serialize)]
struct Order {
    name: String,
    count: u32,
}

fn assert_problem(answer: &Answer, status: u16, field: Option<&str>) {
    assert_eq!(answer.status, status, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    assert_eq!(
        problem.get("field").and_then(|field| field.as_str()),
        field,
        "{problem}"
    );
}

#[tokio::test]
async fn paths_are_typed() {
    fn one(Path(n): Path<u32>) -> String {
        n.to_string()
    }
    fn two(Path((name, n)): Path<(String, u8)>) -> String {
        format!("{name} {n}")
    }
    let running = build(
        Service::new()
            .get("/one/{n}", one)
            .get("/two/{name}/{n}", two),
    );
    assert_eq!(get(&running, "/one/7").await.text, "7");
    assert_eq!(get(&running, "/two/a%20b/7").await.text, "a b 7");
    assert_problem(&get(&running, "/one/x").await, 400, Some("n"));
    assert_eq!(get(&running, "/two/a/256").await.status, 400);
    assert_problem(&get(&running, "/three").await, 404, None);
}

#[tokio::test]
async fn queries_and_forms_name_the_field_that_is_wrong() {
    fn query(Query(order): Query<Order>) -> String {
        format!("{} {}", order.name, order.count)
    }
    fn form(Form(order): Form<Order>) -> String {
        format!("{} {}", order.name, order.count)
    }
    let running = build(Service::new().get("/", query).post("/", form));
    assert_eq!(get(&running, "/?name=a%20b&count=2").await.text, "a b 2");
    assert_problem(&get(&running, "/?name=a&count=x").await, 400, Some("count"));
    assert_problem(&get(&running, "/?name=a").await, 400, None);

    let form = |kind: &str, text: &'static str| {
        request("POST", "/")
            .header("content-type", kind)
            .body(HttpBody::from(text))
            .unwrap()
    };
    let kind = "application/x-www-form-urlencoded";
    assert_eq!(
        ask(&running, form(kind, "name=a&count=3")).await.text,
        "a 3"
    );
    assert_problem(
        &ask(&running, form(kind, "name=a&count=-3")).await,
        422,
        Some("count"),
    );
    assert_problem(
        &ask(&running, form("text/plain", "")).await,
        415,
        Some("content-type"),
    );
}

#[tokio::test]
async fn json_is_checked() {
    fn order(Json(order): Json<Order>) -> Json<Order> {
        Json(order)
    }
    let running = build(Service::new().post("/", order));
    let answer = post_json(&running, "/", r#"{"name": "a", "count": 3}"#).await;
    assert_eq!(answer.json(), serde_json::json!({"name": "a", "count": 3}));
    assert_problem(
        &post_json(&running, "/", r#"{"name": "a", "count": "3"}"#).await,
        422,
        Some("count"),
    );
    assert_problem(
        &post_json(&running, "/", r#"{"name": "a""#).await,
        400,
        None,
    );
    assert_problem(
        &post_json(&running, "/", r#"{"name": "a", "count": 3} x"#).await,
        400,
        None,
    );
    // Large enough to be read on an event loop.
    let name = "a".repeat(100_000);
    let answer = post_json(
        &running,
        "/",
        &format!(r#"{{"name": "{name}", "count": 3}}"#),
    )
    .await;
    assert_eq!(answer.json()["name"], name);
    assert_problem(&get(&running, "/").await, 405, None);
}

#[tokio::test]
async fn bodies_have_a_limit() {
    fn length(body: Body) -> String {
        body.len().to_string()
    }
    let settings = Settings {
        body_bytes_max: 1000,
        ..Settings::default()
    };
    let running = build(Service::new().post("/", length).settings(settings));
    let with = |bytes: usize| {
        request("POST", "/")
            .body(HttpBody::from(vec![b'x'; bytes]))
            .unwrap()
    };
    assert_eq!(ask(&running, with(1000)).await.text, "1000");
    assert_problem(&ask(&running, with(1001)).await, 413, None);
}

#[tokio::test]
async fn bodies_that_never_end_are_refused() {
    fn length(body: Body) -> String {
        body.len().to_string()
    }
    let settings = Settings {
        body_timeout_ms: 20,
        ..Settings::default()
    };
    let running = build(Service::new().post("/", length).settings(settings));
    let (_sender, endless) = web::Streaming::channel(1);
    let body = axum::response::IntoResponse::into_response(endless).into_body();
    assert_problem(
        &ask(&running, request("POST", "/").body(body).unwrap()).await,
        408,
        None,
    );
}

#[tokio::test]
async fn heads_and_extensions_are_there() {
    fn head(headers: Headers, method: Method, user: Extension<&'static str>) -> String {
        format!(
            "{method} {} {}",
            headers.text("x-name").unwrap_or("-"),
            *user
        )
    }
    let layer = axum::Extension("ann");
    let complete = build(Service::new().get("/", head).layer(layer));
    let asked = || {
        request("GET", "/")
            .header("x-name", "n")
            .body(HttpBody::empty())
            .unwrap()
    };
    assert_eq!(ask(&complete, asked()).await.text, "GET n ann");
    let bare = build(Service::new().get("/", head));
    assert_problem(&ask(&bare, asked()).await, 500, None);
}

#[tokio::test]
async fn a_handler_may_deal_with_wrong_input_itself() {
    fn lenient(n: Result<Path<u32>, Problem>) -> String {
        n.map_or_else(|problem| problem.status().to_string(), |n| n.to_string())
    }
    let running = build(Service::new().get("/{n}", lenient));
    assert_eq!(get(&running, "/7").await.text, "7");
    assert_eq!(get(&running, "/x").await.text, "400");
}

#[tokio::test]
async fn async_handlers_take_what_is_theirs() {
    async fn later(Path(n): Path<u32>) -> String {
        tokio::task::yield_now().await;
        n.to_string()
    }
    async fn panics() {
        tokio::task::yield_now().await;
        panic!("as it should");
    }
    let running = build(Service::new().get("/{n}", later).get("/panics", panics));
    assert_eq!(get(&running, "/7").await.text, "7");
    assert_problem(&get(&running, "/panics").await, 500, None);
}
