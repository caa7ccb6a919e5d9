//! Hivewire within one's own program: a worker in Rust, linked in, that anybody can send to and ask.
//!
//! ```sh
//! cargo run --release -p hivewire --example embedded [DATA FOLDER]
//! ```

use std::time::Duration;

use hivewire::config::{ConfigFile, Overrides};
use hivewire::{Config, Failure, Incoming, Message, Node, StageAddress, StageSpec, Turn, Worker};

/// Counts what it gets. The count is in its state, so it survives restarts of the program.
struct Counter;

#[hivewire::async_trait]
impl Worker for Counter {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let before: u64 = match turn.state(b"count").await? {
            Some(count) => str::from_utf8(&count)?.parse()?,
            None => 0,
        };
        let count = (before + 1).to_string();
        turn.set_state("count", count.clone())?;
        match message.expects_reply() {
            true => turn.reply(message, Message::new(count + " messages")),
            false => Ok(()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let overrides = Overrides {
        data: std::env::args_os().nth(1).map(Into::into),
        ..Overrides::default()
    };
    let mut config = Config::resolve(ConfigFile::default(), &overrides);
    // Nobody talks to this one over the network.
    config.http.address = "off".parse()?;
    config.listeners.stomp.address = "off".parse()?;
    config.listeners.gamq.address = "off".parse()?;
    let node = Node::start(config).await?;

    let stage = StageAddress::new("shop", "counter")?;
    let code = hivewire::native("counter", "1.0.0", |_| Counter);
    node.runtime()
        .deploy(StageSpec::new(stage.clone()), code)
        .await?;

    let counter = stage.into();
    node.runtime()
        .send(&counter, Message::new("one coffee"))
        .await?;
    let question = Message::new("how many?");
    let reply = node
        .runtime()
        .ask(&counter, question, Duration::from_secs(5))
        .await?;
    println!("{}", str::from_utf8(&reply.body)?);

    node.drain(Duration::from_secs(5)).await?;
    Ok(())
}
