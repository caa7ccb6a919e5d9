//! A service in Rust within a node, beside a stage that it asks.
//!
//! ```sh
//! cargo run --release -p hivewire --example service [DATA FOLDER]
//! ```

#![allow(elided_lifetimes_in_paths)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use hivewire::config::{ConfigFile, Overrides};
use hivewire::web::stages::Stages;
use hivewire::web::{Body, Carried, Read, Service, Tick, Write, next_tick};
use hivewire::{Config, Failure, Incoming, Message, Node, StageAddress, StageSpec, Turn, Worker};

/// Says what it hears in capitals.
struct Capitals;

#[hivewire::async_trait]
impl Worker for Capitals {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let said = str::from_utf8(&message.message.body)?.to_uppercase();
        turn.reply(message, Message::new(said))
    }
}

/// What was said so far.
#[derive(Default)]
struct Said(Vec<String>);

/// Asks the stage. Nothing is locked meanwhile.
async fn ask(stages: Stages, Body(words): Body) -> Tick<String> {
    let asking = stages.ask("demo/capitals", Message::new(words), Duration::from_secs(5));
    match asking.await {
        Ok(reply) => Tick::next(String::from_utf8_lossy(&reply.body).into_owned()),
        Err(problem) => Tick::reply(problem),
    }
}

/// Notes the reply: nobody else has the list meanwhile.
fn note(Carried(words): Carried<String>, mut said: Write<Said>) -> String {
    said.0.push(words.clone());
    words
}

fn all(said: Read<Said>) -> String {
    said.0.join(", ")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let overrides = Overrides {
        data: std::env::args_os().nth(1).map(Into::into),
        ..Overrides::default()
    };
    let mut config = Config::resolve(ConfigFile::default(), &overrides);
    config.http.address = "off".parse()?;
    config.listeners.stomp.address = "off".parse()?;
    config.listeners.gamq.address = "off".parse()?;
    config.services.address = "127.0.0.1:0".parse()?;
    let node = Node::start(config).await?;

    let stage = StageAddress::new("demo", "capitals")?;
    let code = hivewire::native("capitals", "1.0.0", |_| Capitals);
    node.runtime().deploy(StageSpec::new(stage), code).await?;

    let service = Service::new()
        .share(Said::default())
        .post("/say", next_tick(ask, note))
        .get("/said", all);
    println!("{}", service.explain());
    node.mount("/words", service)?;

    let address = node.services_address(Duration::from_secs(10)).await;
    let address = address.ok_or("services do not listen")?;
    let asking = tokio::task::spawn_blocking(move || -> std::io::Result<String> {
        say(address, "POST /words/say", "good")?;
        say(address, "POST /words/say", "morning")?;
        say(address, "GET /words/said", "")
    });
    println!("{}", asking.await??);

    node.drain(Duration::from_secs(5)).await?;
    Ok(())
}

/// The last line of the answer to a request.
fn say(address: std::net::SocketAddr, what: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "{what} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.lines().last().unwrap_or_default().to_owned())
}
