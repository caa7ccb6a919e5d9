//! Children: started, worked with, ended.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::Message;
use kernel::worker::{Code, Failure, Incoming, Kind, Turn, Worker, native};
use runtime::Delivery;

use crate::rig::*;

/// As a parent: starts a child per message and passes the work on. As a child: does it and ends.
struct Family {
    address: String,
    prefix: Option<String>,
}

#[async_trait]
impl Worker for Family {
    async fn init(&mut self, args: &[u8], _turn: &mut Turn) -> Result<(), Failure> {
        if !args.is_empty() {
            self.prefix = Some(String::from_utf8(args.to_vec())?);
        }
        Ok(())
    }

    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let body = String::from_utf8(incoming.message.body.to_vec())?;
        match (&self.prefix, &incoming.kind) {
            (Some(prefix), Kind::Message) => {
                turn.emit("out", Message::new(format!("{prefix} did {body}")))?;
                turn.end();
            }
            (None, Kind::Message) => {
                turn.spawn(&body, Bytes::from(format!("child {body}")))?;
                let child: kernel::Address = format!("{}/{body}", self.address).parse()?;
                turn.send(child, incoming.message.clone())?;
            }
            (None, Kind::ChildEnded(name)) => {
                turn.emit("ended", Message::new(format!("{name}: {body}")))?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn family() -> Arc<dyn Code> {
    native("family", "1", |start| Family {
        address: start.address.to_string(),
        prefix: None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn children_do_their_task_and_end_and_the_parent_hears_of_it() {
    for delivery in [Delivery::Durable, Delivery::Memory] {
        let rig = Rig::new();
        let queue = |name: &str| -> kernel::Address { format!("queue:{name}").parse().unwrap() };
        let spec = spec("a/family")
            .delivery(delivery)
            .output("out", queue("done"))
            .output("ended", queue("ended"));
        rig.deploy(spec, family()).await;
        for name in ["wash", "dry"] {
            rig.send("a/family", name).await;
        }
        let bodies = |taken: Vec<bus::Delivery>| {
            let mut bodies: Vec<String> = taken.iter().map(|d| text(&d.message)).collect();
            bodies.sort();
            bodies
        };
        let done = bodies(rig.take("done", 2).await);
        assert_eq!(done, ["child dry did dry", "child wash did wash"]);
        let ended = bodies(rig.take("ended", 2).await);
        assert_eq!(ended, ["dry: its task was done", "wash: its task was done"]);
        let workers = rig.runtime.workers(&stage("a/family"), 0, 10).unwrap();
        assert!(workers[0].children.is_empty());
    }
}
