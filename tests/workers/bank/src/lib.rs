//! Keeps a balance for each account, for a stage keyed by the header `account`. The body is an
//! amount, which may be negative; an account cannot go below zero. Replies with the balance. State
//! is all it has, so it does not matter which worker has which account.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Bank;

impl Worker for Bank {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let account = message
            .header("account")
            .ok_or("the header `account` is missing")?;
        let amount: i64 = message.text()?.parse()?;
        let key = format!("balance/{account}");
        let balance = context.state().get::<i64>(&key)?.unwrap_or(0) + amount;
        if balance < 0 {
            return Err(format!("account {account} lacks {}", -balance).into());
        }
        context.state().set(&key, &balance);
        match message.expects_reply {
            true => context.reply(message, balance.to_string()),
            false => Ok(()),
        }
    }
}

hivewire_sdk::worker!(Bank);
