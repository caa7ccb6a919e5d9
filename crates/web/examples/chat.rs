//! A chat room. Open http://localhost:8080 in two windows.
//!
//! What is said is posted; all who listen get it as server-sent events.

#![allow(elided_lifetimes_in_paths)]

use std::collections::VecDeque;
use std::error::Error;

use axum::response::Html;
use serde::Deserialize;
use tokio::net::TcpListener;
use web::{EventSender, Events, Gone, Json, Problem, Read, Service, Write};

const LISTENERS_MAX: usize = 1_000;
const REMEMBERED_MAX: usize = 50;
const SAID_BYTES_MAX: usize = 1_000;

#[derive(Default)]
struct Room {
    listeners: Vec<EventSender>,
    remembered: VecDeque<String>,
}

#[derive(Deserialize)]
struct Said {
    name: String,
    text: String,
}

/// Listens: first to what was said before, then to what comes.
fn listen(mut room: Write<Room>) -> Result<Events, Problem> {
    room.listeners.retain(|listener| !listener.is_closed());
    if room.listeners.len() >= LISTENERS_MAX {
        return Err(Problem::new(503, "The room is full"));
    }
    let (sender, events) = Events::channel(2 * REMEMBERED_MAX);
    for said in &room.remembered {
        // There is room for all that is remembered.
        let _ = sender.send_text(said);
    }
    room.listeners.push(sender);
    Ok(events)
}

/// Says something to all. Who does not keep up is put out of the room and comes back by itself.
fn say(mut room: Write<Room>, Json(said): Json<Said>) -> Result<(), Problem> {
    if said.name.len() + said.text.len() > SAID_BYTES_MAX {
        return Err(Problem::new(413, "That is too long").field("text"));
    }
    let said = format!("{}: {}", said.name, said.text);
    room.listeners
        .retain(|listener| match listener.send_text(&said) {
            Ok(()) => true,
            Err(Gone::Closed | Gone::Full) => false,
        });
    if room.remembered.len() == REMEMBERED_MAX {
        room.remembered.pop_front();
    }
    room.remembered.push_back(said);
    Ok(())
}

fn who(room: Read<Room>) -> String {
    let there = room
        .listeners
        .iter()
        .filter(|listener| !listener.is_closed());
    format!("{} listen", there.count())
}

fn page() -> Html<&'static str> {
    Html(
        r#"<!doctype html>
<title>A chat room</title>
<form><input name="name" placeholder="your name" required> <input name="text" placeholder="say something" required> <button>Say</button></form>
<ol></ol>
<script>
  new EventSource("/events").onmessage = event => {
    const line = document.createElement("li");
    line.textContent = event.data;
    document.querySelector("ol").append(line);
  };
  document.querySelector("form").onsubmit = async event => {
    event.preventDefault();
    const { name, text } = event.target;
    const body = JSON.stringify({ name: name.value, text: text.value });
    await fetch("/say", { method: "POST", headers: { "content-type": "application/json" }, body });
    text.value = "";
  };
</script>
"#,
    )
}

/// The service, before it runs.
pub fn service() -> Service {
    Service::new()
        .share(Room::default())
        .get("/", page)
        .get("/events", listen)
        .post("/say", say)
        .get("/who", who)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let running = service().build()?;
    println!("{}", running.explain());
    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:8080".to_owned());
    running.serve(TcpListener::bind(address).await?).await?;
    Ok(())
}
