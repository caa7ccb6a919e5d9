//! Handlers that send to stages of flows and ask them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::http::StatusCode;
use axum::routing;
use broker::{Broker, SystemClock};
use bus::Bus;
use bus::engines::EmbeddedBus;
use journal::{Options, testing::MemoryStorage};
use kernel::worker::{Failure, Incoming, Turn, Worker, native};
use kernel::{Destination, Name, StageAddress};
use runtime::{Runtime, StageSpec};
use web::stages::{Message, Stages};
use web::{Body, Carried, Path, Problem, Service, Tick, Write, next_tick};

use crate::rig::{PATIENCE, ask, build, get, post, request, until};

/// Gives back what it is asked, but for some words.
struct Echo;

#[async_trait]
impl Worker for Echo {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let body = message.message.body.clone();
        match &body[..] {
            b"nothing" => Ok(()),
            b"empty" => turn.reply(message, Message::new("")),
            _ => turn.reply(message, Message::new(body)),
        }
    }
}

struct Rig {
    bus: Arc<dyn Bus>,
    runtime: Arc<Runtime>,
}

impl Rig {
    /// A runtime over a broker in memory, with the stage `greetings/echo`.
    async fn new() -> Self {
        let options = Options {
            segment_bytes: 8 << 20,
            record_bytes_max: 4 << 20,
            ..Options::default()
        };
        let storage = Arc::new(MemoryStorage::new(1));
        let settings = broker::Settings::default();
        let (broker, _) = Broker::start(storage, options, settings, Arc::new(SystemClock)).unwrap();
        let bus: Arc<dyn Bus> = Arc::new(EmbeddedBus::new(broker));
        let settings = runtime::Settings::default();
        let runtime = Runtime::start(bus.clone(), settings, Arc::new(SystemClock));
        let stage = StageAddress::new("greetings", "echo").unwrap();
        let code = native("echo", "1.0.0", |_| Echo);
        runtime.deploy(StageSpec::new(stage), code).await.unwrap();
        Self { bus, runtime }
    }

    fn stages(&self) -> Stages {
        Stages::new(self.runtime.clone())
    }
}

async fn echo(stages: Stages, Body(question): Body) -> Result<Vec<u8>, Problem> {
    let answer = stages
        .ask("greetings/echo", Message::new(question), PATIENCE)
        .await?;
    Ok(answer.body.to_vec())
}

async fn send(stages: Stages, Path(to): Path<String>) -> Result<(), Problem> {
    stages
        .send(&to.replace('.', "/"), Message::new("nothing"))
        .await
}

async fn post_text(running: &web::Running, path: &str, text: &'static str) -> (u16, String) {
    let request = request("POST", path).body(axum::body::Body::from(text));
    let answer = ask(running, request.unwrap()).await;
    (answer.status, answer.text)
}

#[tokio::test]
async fn a_stage_is_asked_and_answers() {
    let rig = Rig::new().await;
    let service = Service::new().post("/echo", echo).stages(rig.stages());
    // Routes that are added later have them too.
    let running = build(service.post("/later", echo));
    assert_eq!(
        post_text(&running, "/echo", "hello").await,
        (200, "hello".to_owned())
    );
    assert_eq!(
        post_text(&running, "/later", "again").await,
        (200, "again".to_owned())
    );
}

#[tokio::test]
async fn who_does_not_answer_in_time_is_given_up() {
    async fn impatient(stages: Stages) -> Result<(), Problem> {
        let time = Duration::from_millis(20);
        stages
            .ask("greetings/echo", Message::new("nothing"), time)
            .await?;
        Ok(())
    }
    let rig = Rig::new().await;
    let running = build(Service::new().get("/", impatient).stages(rig.stages()));
    let answer = get(&running, "/").await;
    assert_eq!(
        (answer.status, answer.json()["title"].as_str()),
        (504, Some("No reply"))
    );
}

#[tokio::test]
async fn messages_go_to_queues_and_stages_and_nowhere_else() {
    let rig = Rig::new().await;
    let running = build(Service::new().post("/{to}", send).stages(rig.stages()));
    assert_eq!(post(&running, "/queue:orders").await.status, 200);
    let from = Destination::Queue(Name::new("orders").unwrap());
    let subscription = rig.bus.subscribe(&from, 10, PATIENCE).await.unwrap();
    let batch = subscription.next_batch(10, PATIENCE).await.unwrap();
    assert_eq!(&batch[0].message.body[..], b"nothing");

    assert_eq!(post(&running, "/greetings.echo").await.status, 200);
    let stage = StageAddress::new("greetings", "echo").unwrap();
    until("it has come", || {
        rig.runtime.stage(&stage).unwrap().turns == 1
    })
    .await;

    let unknown = post(&running, "/greetings.nobody").await;
    assert_eq!(unknown.status, 503);
    assert!(
        unknown.text.contains("there is no stage greetings/nobody"),
        "{}",
        unknown.text
    );
    assert!(unknown.headers.contains_key("retry-after"));
    let none = post(&running, "/nowhere").await;
    assert_eq!(none.status, 500);
    assert!(none.text.contains("nowhere"), "{}", none.text);
}

#[tokio::test]
async fn others_may_know_of_stages() {
    let rig = Rig::new().await;
    let stages = rig
        .stages()
        .known_by(|stage| stage.flow().as_str() == "elsewhere");
    let running = build(Service::new().post("/{to}", send).stages(stages));
    assert_eq!(post(&running, "/elsewhere.some").await.status, 200);
    assert_eq!(post(&running, "/greetings.echo").await.status, 503);
}

#[tokio::test]
async fn what_a_stage_answered_is_committed() {
    #[derive(Default)]
    struct Heard(Vec<String>);

    async fn ask_it(stages: Stages, Path(word): Path<String>) -> Tick<String> {
        let answer = stages
            .ask("greetings/echo", Message::new(word), PATIENCE)
            .await;
        match answer {
            Ok(answer) if answer.body.is_empty() => Tick::reply(StatusCode::BAD_GATEWAY),
            Ok(answer) => Tick::next(String::from_utf8_lossy(&answer.body).into_owned()),
            Err(problem) => Tick::reply(problem),
        }
    }
    fn note(Carried(word): Carried<String>, mut heard: Write<Heard>) -> String {
        heard.0.push(word);
        heard.0.join(" ")
    }
    let rig = Rig::new().await;
    let service = Service::new().share(Heard::default()).stages(rig.stages());
    let running = build(service.post("/{word}", next_tick(ask_it, note)));
    post(&running, "/one").await;
    assert_eq!(post(&running, "/two").await.text, "one two");
    assert_eq!(post(&running, "/empty").await.status, 502);
    assert_eq!(post(&running, "/three").await.text, "one two three");
}

#[tokio::test]
async fn a_service_without_stages_says_what_is_missing() {
    let running = build(Service::new().post("/", echo));
    let (status, text) = post_text(&running, "/", "hello").await;
    assert_eq!(status, 500);
    assert!(text.contains("The service is not complete"), "{text}");
    assert!(text.contains(".stages(Stages::new(runtime))"), "{text}");
}

/// An ordinary handler can pass them on, and so can those of axum.
#[tokio::test]
async fn all_that_belongs_to_a_service_has_its_stages() {
    fn pass_on(stages: Stages) -> web::Streaming {
        let (sender, streaming) = web::Streaming::channel(1);
        tokio::spawn(async move {
            let answer = stages
                .ask("greetings/echo", Message::new("later"), PATIENCE)
                .await;
            sender.send_when_ready(answer.unwrap().body).await.unwrap();
        });
        streaming
    }
    async fn plain(axum::Extension(stages): axum::Extension<Stages>) -> Vec<u8> {
        let answer = stages
            .ask("greetings/echo", Message::new("axum"), PATIENCE)
            .await;
        answer.unwrap().body.to_vec()
    }
    let rig = Rig::new().await;
    let nobody = rig.stages().known_by(|_| false);
    let service = Service::new()
        .get("/", pass_on)
        .mount("/axum", Router::new().route("/", routing::get(plain)))
        .nest("/same", Service::new().post("/", echo))
        .nest("/other", Service::new().post("/", echo).stages(nobody))
        .stages(rig.stages());
    let running = build(service);
    assert_eq!(get(&running, "/").await.text, "later");
    assert_eq!(get(&running, "/axum").await.text, "axum");
    assert_eq!(post_text(&running, "/same", "hello").await.0, 200);
    assert_eq!(
        post_text(&running, "/other", "hello").await.0,
        503,
        "its own come first"
    );
}
