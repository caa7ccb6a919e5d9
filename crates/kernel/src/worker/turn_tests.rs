//! The order of what a turn does.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::turn::{Effects, Host, LogLevel, Outgoing, Target, Turn, TurnLimits};
use super::{Bodies, Failure, Ticket, Value};
use crate::{Address, Message, Timestamp};

struct AnyHost;

#[async_trait]
impl Host for AnyHost {
    async fn state(&self, _: &[u8]) -> Result<Option<Bytes>, Failure> {
        Ok(None)
    }

    async fn scan(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        _: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        Ok(Vec::new())
    }

    fn may_send(&self, _: &Address) -> Result<(), Failure> {
        Ok(())
    }

    fn may_emit(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn next_ticket(&self) -> Ticket {
        1
    }

    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

#[derive(Clone, Debug)]
struct Number(u32);

impl Value for Number {
    fn encode(&self) -> Bytes {
        self.0.to_string().into()
    }

    fn len_bytes(&self) -> usize {
        4
    }
}

fn turn(sends_max: usize) -> Turn {
    let limits = TurnLimits {
        sends_max,
        ..TurnLimits::default()
    };
    Turn::new(Arc::new(AnyHost), limits)
}

fn emit(turn: &mut Turn, output: &str, number: u32) {
    turn.emit_value(output, Arc::new(Number(number))).unwrap();
}

/// Where each message goes and what it holds, in order.
fn told(effects: Effects) -> Vec<(String, String)> {
    let effects = effects.spread();
    let one = |sent: &Outgoing| {
        let to = match &sent.to {
            Target::Output(output) => effects.output_name(*output).to_owned(),
            Target::Address(address) => address.to_string(),
            Target::Waiting(_) => "waiting".to_owned(),
        };
        let body = match &sent.value {
            Some(value) => value.encode(),
            None => sent.message.body.clone(),
        };
        (to, String::from_utf8(body.to_vec()).unwrap())
    };
    effects.sends.iter().map(one).collect()
}

#[test]
fn values_and_messages_keep_their_order() {
    let mut turn = turn(100);
    emit(&mut turn, "out", 1);
    emit(&mut turn, "late", 2);
    emit(&mut turn, "out", 3);
    let address: Address = "shop/orders".parse().unwrap();
    turn.send(address, Message::new("4")).unwrap();
    emit(&mut turn, "out", 5);
    turn.emit("late", Message::new("6")).unwrap();
    emit(&mut turn, "out", 7);
    turn.emit_series("out", vec![Number(8), Number(9)]).unwrap();
    emit(&mut turn, "out", 10);
    let mut bodies = Bodies::default();
    bodies.push(b"11");
    turn.emit_series("late", bodies).unwrap();
    assert_eq!(turn.effects().sends_count(), 11);
    let expected = [
        ("out", "1"),
        ("late", "2"),
        ("out", "3"),
        ("shop/orders", "4"),
        ("out", "5"),
        ("late", "6"),
        ("out", "7"),
        ("out", "8"),
        ("out", "9"),
        ("out", "10"),
        ("late", "11"),
    ];
    let expected = expected.map(|(to, body)| (to.to_owned(), body.to_owned()));
    assert_eq!(told(turn.take_effects()), expected);
    assert!(turn.effects().is_empty());
}

#[test]
fn values_count_as_sends_and_are_undone() {
    let mut turn = turn(2);
    emit(&mut turn, "out", 1);
    emit(&mut turn, "out", 2);
    let failure = turn.emit_value("out", Arc::new(Number(3))).unwrap_err();
    assert!(failure.reason.contains("2 messages"), "{failure}");
    assert!(turn.take_answers().is_none());
    assert!(!turn.effects().is_empty());
    turn.clear();
    assert!(turn.effects().is_empty());
    let three = vec![Number(1), Number(2), Number(3)];
    assert!(turn.emit_series("out", three).is_err());
    turn.emit_series("out", Vec::<Number>::new()).unwrap();
    assert!(turn.effects().is_empty());
    turn.emit_series("out", vec![Number(1)]).unwrap();
    assert!(turn.take_answers().is_none());
    assert!(!turn.effects().is_empty());
}
