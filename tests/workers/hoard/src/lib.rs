//! Keeps for each key, named by the header `key`, how many messages it got and, beside that, as many
//! bytes as the header `keep` asked for last. Emits to `out` `body:count:bytes`, with the bytes that it
//! had kept before.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Hoard;

/// How long a count is.
const COUNT_BYTES: usize = 8;

impl Worker for Hoard {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let key = message.header("key").ok_or("the header `key` is missing")?;
        let mut value = context.state().get_bytes(key).unwrap_or_default();
        let kept = value.len().saturating_sub(COUNT_BYTES);
        let count = value
            .first_chunk()
            .map_or(0, |count| u64::from_le_bytes(*count))
            + 1;
        let keep = match message.header("keep") {
            Some(keep) => keep.parse()?,
            None => kept,
        };
        value.resize(COUNT_BYTES + keep, b'.');
        value[..COUNT_BYTES].copy_from_slice(&count.to_le_bytes());
        context.state().set_bytes(key, &value);
        context.emit("out", format!("{}:{count}:{kept}", message.text()?));
        Ok(())
    }
}

hivewire_sdk::worker!(Hoard);
