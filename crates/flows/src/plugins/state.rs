//! State of built-in plug-ins: JSON under short keys.

use bytes::Bytes;
use kernel::worker::{Failure, FailureKind, Turn};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Formula;
use crate::event::Data;
use crate::expression::Variables;

/// How long the text of a key may be.
pub const KEY_BYTES_MAX: usize = 1_024;

/// What is stored under this key.
pub async fn load<T: DeserializeOwned>(turn: &Turn, key: &[u8]) -> Result<Option<T>, Failure> {
    let stored = turn.state(key).await?;
    stored.map(|stored| read(&stored)).transpose()
}

/// Reads what was stored.
pub fn read<T: DeserializeOwned>(stored: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(stored).map_err(|error| {
        let reason = format!(
            "the state does not fit these parameters: {error}; put them back, or remove the stage and add it anew"
        );
        Failure::new(reason)
    })
}

/// Stores this under this key.
pub fn store<T: Serialize>(turn: &mut Turn, key: Vec<u8>, value: &T) -> Result<(), Failure> {
    let value = serde_json::to_vec(value)?;
    turn.set_state(key, Bytes::from(value))
}

/// The state key of a text.
pub fn key_of(prefix: u8, text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() + 1);
    key.push(prefix);
    key.extend_from_slice(text.as_bytes());
    key
}

/// The state key of a text at a time: sorted by time.
pub fn key_at(prefix: u8, time: i64, text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() + 9);
    key.push(prefix);
    // With the sign turned over, numbers are sorted as their bytes.
    key.extend_from_slice(&((time as u64) ^ (1 << 63)).to_be_bytes());
    key.extend_from_slice(text.as_bytes());
    key
}

/// The time and text of a key that [`key_at`] made.
pub fn time_and_text(key: &[u8]) -> Result<(i64, &str), Failure> {
    let broken = || Failure::of(FailureKind::Host, "a key of the state is broken");
    let (time, text) = key
        .get(1..)
        .and_then(|rest| rest.split_first_chunk::<8>())
        .ok_or_else(broken)?;
    let time = (u64::from_be_bytes(*time) ^ (1 << 63)) as i64;
    Ok((time, str::from_utf8(text).map_err(|_| broken())?))
}

/// The key that groups an event: what the expression gives, and as text. Without an expression all have the same.
pub fn group_of(
    by: Option<&Formula>,
    variables: &Variables<'_>,
) -> Result<(Data, String), Failure> {
    let Some(by) = by else {
        return Ok((Data::Null, String::new()));
    };
    let key = by.evaluate(variables)?;
    if key == Data::Null {
        return Err(Failure::new(format!(
            "the event has no key: {:?} gives null",
            by.text()
        )));
    }
    let text = key.key_text().into_owned();
    match text.len() <= KEY_BYTES_MAX {
        true => Ok((key, text)),
        false => Err(Failure::new(format!(
            "a key has at most {KEY_BYTES_MAX} bytes, this one has {}",
            text.len()
        ))),
    }
}
