//! Starts children, gives them work and ends them. Messages to the parent:
//!
//! - `spawn NAME` starts a child.
//! - `work NAME TEXT` sends TEXT to it; the child answers whoever asked with `NAME:TEXT`.
//! - `stop NAME` ends it from outside.
//!
//! A child panics at `panic` and ends itself at `end`. When one has ended, the parent emits its name
//! and why to the output `ended`.

use hivewire_sdk::{Context, Kind, Message, Outgoing, Result, Worker};

const CORRELATION_ID: &str = "correlation-id";

/// A parent has no name; a child got one as its argument.
#[derive(Default)]
struct Parent {
    name: Option<String>,
}

impl Worker for Parent {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        if !args.is_empty() {
            self.name = Some(String::from_utf8(args.to_vec())?);
        }
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        if let Kind::ChildEnded(name) = &message.kind {
            let reason = String::from_utf8_lossy(&message.body);
            context.emit("ended", format!("{name}: {reason}"));
            return Ok(());
        }
        match &self.name {
            Some(name) => work(name, message, context),
            None => lead(message, context),
        }
    }
}

fn lead(message: &Message, context: &mut Context) -> Result {
    let mut words = message.text()?.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some("spawn"), Some(name), None) => context.spawn(name, name)?,
        (Some("stop"), Some(name), None) => context.stop_child(name),
        (Some("work"), Some(name), Some(text)) => return forward(name, text, message, context),
        _ => return Err("write spawn NAME, work NAME TEXT or stop NAME".into()),
    }
    match message.expects_reply {
        true => context.reply(message, "done"),
        false => Ok(()),
    }
}

/// Hands the work to a child, which answers in place of this worker.
fn forward(name: &str, text: &str, message: &Message, context: &mut Context) -> Result {
    let mut work = Outgoing::new(text);
    if let Some(address) = context.reply_address(message) {
        work = work.header("reply-to", address);
    }
    if let Some(id) = message.header(CORRELATION_ID) {
        work = work.header(CORRELATION_ID, id);
    }
    let child = format!("{}/{name}", context.address());
    context.send(&child, work)
}

fn work(name: &str, message: &Message, context: &mut Context) -> Result {
    let text = message.text()?;
    match text {
        "panic" => panic!("{name} was told to panic"),
        "end" => context.end(),
        _ => {}
    }
    match message.expects_reply {
        true => context.reply(message, format!("{name}:{text}")),
        false => Ok(()),
    }
}

hivewire_sdk::worker!(Parent);
