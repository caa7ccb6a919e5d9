//! Misbehaves as its argument says, at every message, or only at those whose body is that word:
//!
//! - `loop` never returns.
//! - `memory` takes more and more memory.
//! - `recursion` calls itself without end.
//! - `storm` calls the host without end.
//! - `flood` emits without end.
//! - `trap` panics.
//! - `poison` panics at the body `poison` and echoes all others.
//! - `fail` fails with an error at the body `fail` and echoes all others.
//! - `slow MS` computes for so long and then echoes.
//!
//! Without an argument it does what the body says, and echoes if that is none of these.

use std::hint::black_box;
use std::time::Duration;

use hivewire_sdk::{Context, Level, Message, Result, Worker};

#[derive(Default)]
struct Hostile {
    habit: String,
}

impl Worker for Hostile {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        self.habit = String::from_utf8(args.to_vec())?;
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let body = String::from_utf8_lossy(&message.body);
        let order = match self.habit.as_str() {
            "" | "poison" | "fail" => &*body,
            habit => habit,
        };
        let (habit, number) = order.split_once(' ').unwrap_or((order, "0"));
        match habit {
            "loop" => work_for_ever(),
            "memory" => take_all_memory(),
            "recursion" => {
                black_box(call_itself(black_box(1)));
            }
            "storm" => loop {
                black_box(context.now());
            },
            "flood" => loop {
                context.emit("out", &message.body);
            },
            "trap" | "poison" => panic!("this message is poison"),
            "fail" => return Err("this message cannot be handled".into()),
            "slow" => work_for(Duration::from_millis(number.parse()?), context),
            _ => {}
        }
        match message.expects_reply {
            true => context.reply(message, &message.body),
            false => Ok(()),
        }
    }

    fn stop(&mut self, context: &mut Context) {
        context.log(Level::Info, "stopped");
    }
}

fn work_for_ever() {
    let mut number = 0u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

/// Looks at the clock seldom, for that is a call of the host.
fn work_for(duration: Duration, context: &Context) {
    let end = context.now() + duration;
    while context.now() < end {
        for number in 0..100_000u64 {
            black_box(number);
        }
    }
}

fn take_all_memory() {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(black_box(vec![1; 1 << 20]));
    }
}

#[expect(unconditional_recursion)]
fn call_itself(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    call_itself(black_box(depth + 1)) + frame[(depth % 16) as usize]
}

hivewire_sdk::worker!(Hostile);
