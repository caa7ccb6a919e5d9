//! `hivewire send` and `hivewire ask`

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use kernel::Address;
use serde_json::{Value, json};

use super::Global;
use super::output::{json_line, line};
use super::publish::{message, parse_header, read_whole};
use super::subscribe;
use crate::client::{ClientError, encode};
use crate::exit::Exit;

const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Beyond the time for the reply, so that it is the node that gives up.
const PATIENCE: Duration = Duration::from_secs(10);
const NO_REPLY: &str = "urn:hivewire:no-reply";

/// A message and where it goes.
#[derive(Debug, Args)]
struct Letter {
    /// Where to: flow/stage, flow/stage/3, queue:NAME or topic:NAME
    address: Address,
    /// The message; `-`, or nothing when something is piped in, takes all of standard input
    #[arg(value_name = "BODY")]
    body: Option<String>,
    /// Add a header; can be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
}

impl Letter {
    fn body(&self) -> anyhow::Result<Vec<u8>> {
        match self.body.as_deref() {
            Some("-") => read_whole(std::io::stdin()),
            Some(text) => Ok(text.as_bytes().to_vec()),
            None => {
                let stdin = std::io::stdin();
                ensure!(
                    !stdin.is_terminal(),
                    "there is nothing to send: add a message, or pipe something in"
                );
                read_whole(stdin)
            }
        }
    }

    /// The request: exactly one message.
    fn request(&self) -> anyhow::Result<Value> {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.clone().into()));
        let message = message(&self.body()?, &headers.collect());
        Ok(json!({ "messages": [message] }))
    }

    fn path(&self, kind: &str) -> String {
        format!("/api/v1/{kind}/{}", encode(&self.address.to_string()))
    }
}

#[derive(Debug, Args)]
pub(super) struct Send {
    #[command(flatten)]
    letter: Letter,
}

impl Send {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let (client, request) = (global.client()?, self.letter.request()?);
        let path = self.letter.path("messages");
        let answer = client.post_within(&path, &request, SEND_TIMEOUT)?;
        let address = &self.letter.address;
        match global.json {
            true => json_line(&answer)?,
            false => line(&format!("sent to {address}"))?,
        }
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(super) struct Ask {
    #[command(flatten)]
    letter: Letter,
    /// How long to wait for the reply, such as 5s or 200ms; if none comes, the exit code is 3
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    timeout: Duration,
}

impl Ask {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let (client, request) = (global.client()?, self.letter.request()?);
        let milliseconds = self.timeout.as_millis();
        let path = format!("{}?timeout_ms={milliseconds}", self.letter.path("asks"));
        let patience = self.timeout + PATIENCE;
        match client.post_within(&path, &request, patience) {
            Ok(reply) => {
                subscribe::print(reply.to_string().as_bytes(), global.json)?;
                Ok(Exit::Done)
            }
            Err(ClientError::Refused { kind, detail, .. }) if kind == NO_REPLY => {
                match global.json {
                    true => json_line(&json!({ "timed_out": true, "detail": detail }))?,
                    false => writeln!(std::io::stderr(), "hivewire: {detail}")?,
                }
                Ok(Exit::TimedOut)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Seconds, or a number with `ms`, `s` or `m`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1.0,
        "" | "s" => 1_000.0,
        "m" => 60_000.0,
        _ => return Err("give a time, such as 5s, 200ms or 1m".to_owned()),
    };
    match digits.parse::<f64>() {
        Ok(number) if (0.0..=300_000.0).contains(&(number * unit_ms)) => {
            Ok(Duration::from_millis((number * unit_ms).ceil() as u64))
        }
        _ => Err("give a time of at most five minutes, such as 5s or 200ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let millis = |text| parse_time(text).map(|time| time.as_millis());
        assert_eq!(millis("5s"), Ok(5_000));
        assert_eq!(millis("0.5"), Ok(500));
        assert_eq!(millis("200ms"), Ok(200));
        assert_eq!(millis("1m"), Ok(60_000));
        for text in ["", "s", "-1s", "6m", "5 s", "5h", "inf"] {
            assert!(millis(text).is_err(), "{text}");
        }
    }
}
