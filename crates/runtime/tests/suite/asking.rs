//! Workers that ask, forward replies and set timers, also through restarts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Code, Failure, Incoming, Kind, Turn, Worker, native};
use kernel::{Address, Message};
use runtime::Delivery;

use crate::rig::*;

/// Asks `to` whatever it is asked, and answers with the answer. It keeps who asked in its state.
struct Between {
    to: Address,
    timeout: Duration,
}

#[async_trait]
impl Worker for Between {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let body = incoming.message.body.clone();
        match &incoming.kind {
            Kind::Message => {
                let ticket = turn.ask(self.to.clone(), Message::new(body), self.timeout)?;
                let asker = incoming.reply_address().unwrap_or_default();
                let id = incoming.message.headers.get(Message::CORRELATION_ID);
                let kept = format!("{asker} {}", id.unwrap_or_default());
                turn.set_state(ticket.to_string(), kept)?;
            }
            Kind::Reply(ticket) => self.answer(turn, *ticket, body).await?,
            Kind::TimedOut(ticket) => self.answer(turn, *ticket, "nobody".into()).await?,
            Kind::Timer(_) | Kind::ChildEnded(_) | Kind::Woken => {}
        }
        Ok(())
    }
}

impl Between {
    async fn answer(&self, turn: &mut Turn, ticket: u64, body: Bytes) -> Result<(), Failure> {
        let key = ticket.to_string();
        let kept = turn
            .state(key.as_bytes())
            .await?
            .ok_or_else(|| Failure::new("not asked"))?;
        let kept = String::from_utf8(kept.to_vec())?;
        let (asker, id) = kept.split_once(' ').unwrap();
        let asker: Address = asker.parse()?;
        let headers = kernel::Headers::from_pairs([(Message::CORRELATION_ID, id)])?;
        turn.send(asker, Message::new(body).with_headers(headers))?;
        turn.remove_state(key)
    }
}

fn between(to: &str, timeout: Duration) -> Arc<dyn Code> {
    let to: Address = to.parse().unwrap();
    native("between", "1", move |_| Between {
        to: to.clone(),
        timeout,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_back_to_the_worker_that_asked() {
    let rig = Rig::new();
    for delivery in [Delivery::Durable, Delivery::Memory] {
        rig.deploy(spec("a/echo").delivery(delivery), echo()).await;
        for asker in [Delivery::Durable, Delivery::Memory] {
            let spec = spec("a/between").delivery(asker).workers(3);
            rig.deploy(spec, between("a/echo", PATIENCE)).await;
            for n in 0..10 {
                let body = format!("{delivery:?} {asker:?} {n}");
                assert_eq!(rig.ask("a/between", &body).await, body);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ask_that_nobody_answers_times_out_as_a_message() {
    let rig = Rig::new();
    for delivery in [Delivery::Durable, Delivery::Memory] {
        let spec = spec("a/between").delivery(delivery);
        rig.deploy(spec, between("a/nowhere", Duration::from_millis(50)))
            .await;
        assert_eq!(rig.ask("a/between", "x").await, "nobody");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_ask_survives_restart_and_replacement() {
    let rig = Rig::new();
    rig.deploy(spec("a/between"), between("a/later", PATIENCE))
        .await;
    let reply_to =
        kernel::Headers::from_pairs([("reply-to", "queue:answers"), ("correlation-id", "7")]);
    let question = Message::new("still there?").with_headers(reply_to.unwrap());
    let between_address: Address = "a/between".parse().unwrap();
    rig.runtime.send(&between_address, question).await.unwrap();
    until("the question waits for its receiver", || async {
        let queues = rig.broker.queues();
        queues
            .iter()
            .any(|(name, stats)| name.as_str() == "a.later" && stats.waiting == 1)
    })
    .await;
    let rig = rig.restarted().await;
    rig.deploy(spec("a/between"), between("a/later", PATIENCE))
        .await;
    rig.runtime
        .restart(&stage("a/between"), None, false)
        .await
        .unwrap();
    rig.deploy(spec("a/later"), echo()).await;
    let answers = rig.take("answers", 1).await;
    assert_eq!(text(&answers[0].message), "still there?");
    assert_eq!(answers[0].message.headers.get("correlation-id"), Some("7"));
}

/// Sets a timer at each message, which emits when it goes off.
fn alarm_clock(after: Duration) -> Arc<dyn Code> {
    does("1", move |incoming, turn| match &incoming.kind {
        Kind::Message => turn.set_timer("alarm", after, incoming.message.body.clone()),
        Kind::Timer(name) => {
            let text = format!("{name} {}", String::from_utf8_lossy(&incoming.message.body));
            turn.emit("out", Message::new(text))
        }
        _ => Ok(()),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_goes_off_once_and_survives_a_restart() {
    let rig = Rig::new();
    let out: Address = "queue:rang".parse().unwrap();
    let with_output = spec("a/alarm").output("out", out);
    rig.deploy(with_output.clone(), alarm_clock(Duration::from_millis(600)))
        .await;
    rig.send("a/alarm", "first").await;
    rig.send("a/alarm", "second").await;
    let bucket = kernel::Name::new("a.alarm.0").unwrap();
    until("the timer is set", || async {
        let set = rig.bus.state(&bucket, b"talarm", PATIENCE).await.unwrap();
        set.is_some_and(|value| value.ends_with(b"second"))
    })
    .await;
    let rig = rig.restarted().await;
    rig.deploy(with_output, alarm_clock(Duration::from_secs(600)))
        .await;
    let rang = rig.take("rang", 1).await;
    assert_eq!(text(&rang[0].message), "alarm second");
    let bucket = kernel::Name::new("a.alarm.0").unwrap();
    until("the timer is forgotten", || async {
        rig.bus
            .state(&bucket, b"talarm", PATIENCE)
            .await
            .unwrap()
            .is_none()
    })
    .await;
}
