//! `hivewire pub`

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kernel::limits::BODY_BYTES_MAX;
use serde_json::{Map, Value, json};

use super::Global;
use super::output::{json_line, line};
use crate::client::{Client, ClientError, encode};
use crate::exit::Exit;

/// A batch that is sent at once. More would not be faster; less waits for the disk more often.
const BATCH_MESSAGES_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Lines that were read and not yet sent.
const LINES_AHEAD_MAX: usize = 256;
/// Text longer than this goes in base64: escapes could make it much longer in JSON.
const TEXT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct Publish {
    /// The queue, or the topic with --topic; `queue:NAME` and `topic:NAME` say which by themselves
    name: String,
    /// Messages; without any, they come from a file or standard input
    #[arg(value_name = "MESSAGE", conflicts_with_all = ["file", "stdin_lines", "whole"])]
    messages: Vec<String>,
    /// Read this file, each line a message
    #[arg(long, value_name = "FILE", conflicts_with = "stdin_lines")]
    file: Option<PathBuf>,
    /// Read standard input, each line a message: what happens anyway when it is no terminal
    #[arg(long)]
    stdin_lines: bool,
    /// Take all of the file or standard input as one message
    #[arg(long, conflicts_with = "stdin_lines")]
    whole: bool,
    /// Publish to a topic instead of a queue
    #[arg(long)]
    topic: bool,
    /// Do not store: the messages do not survive a restart
    #[arg(long)]
    transient: bool,
    /// Add a header; can be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
}

/// What kind of place is meant, and its name. Flows write places with their kind before them.
pub(super) fn place(name: &str, is_topic: bool) -> (&'static str, &str) {
    let kinds = [("queue", "queue:"), ("topic", "topic:")].into_iter();
    let mut said = kinds.filter_map(|(kind, prefix)| Some((kind, name.strip_prefix(prefix)?)));
    let otherwise = match is_topic {
        true => ("topic", name),
        false => ("queue", name),
    };
    said.next().unwrap_or(otherwise)
}

pub(super) fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write it as NAME=VALUE".into()),
    }
}

impl Publish {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let mut publisher = Publisher {
            client,
            path: format!(
                "/api/v1/{}s/{}/messages",
                self.place().0,
                encode(self.place().1)
            ),
            headers: self
                .headers
                .iter()
                .map(|(n, v)| (n.clone(), v.clone().into()))
                .collect(),
            durable: !self.transient,
            accepted: 0,
            ack_level: None,
        };
        if let Err(error) = self.send_all(&mut publisher) {
            let accepted = publisher.accepted;
            return Err(match accepted {
                0 => error,
                _ => error.context(format!("only {accepted} messages were published")),
            });
        }
        self.report(global, &publisher)?;
        Ok(Exit::Done)
    }

    fn place(&self) -> (&'static str, &str) {
        place(&self.name, self.topic)
    }

    fn send_all(&self, publisher: &mut Publisher) -> anyhow::Result<()> {
        if !self.messages.is_empty() {
            let bodies: Vec<Vec<u8>> = self.messages.iter().map(|m| m.clone().into()).collect();
            return bodies
                .chunks(BATCH_MESSAGES_MAX)
                .try_for_each(|bodies| publisher.send(bodies));
        }
        let input: Box<dyn Read + Send> = match &self.file {
            Some(path) => {
                let file = File::open(path);
                Box::new(file.with_context(|| format!("cannot open {}", path.display()))?)
            }
            None => self.standard_input()?,
        };
        if self.whole {
            return publisher.send(&[read_whole(input)?]);
        }
        publisher.send_lines(&read_lines(input))
    }

    fn standard_input(&self) -> anyhow::Result<Box<dyn Read + Send>> {
        let stdin = std::io::stdin();
        ensure!(
            !stdin.is_terminal() || self.stdin_lines || self.whole,
            "there is nothing to publish: add messages, --file FILE, or pipe something in"
        );
        Ok(Box::new(stdin))
    }

    fn report(&self, global: &Global, publisher: &Publisher) -> anyhow::Result<()> {
        let accepted = publisher.accepted;
        let level = publisher.ack_level.as_deref();
        if global.json {
            return json_line(&json!({ "accepted": accepted, "ack_level": level }));
        }
        let level = level.map(|level| format!(" ({level})")).unwrap_or_default();
        let plural = if accepted == 1 { "" } else { "s" };
        line(&format!(
            "{accepted} message{plural} to {} {}{level}",
            self.place().0,
            self.place().1
        ))
    }
}

pub(super) fn read_whole(input: impl Read) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    input
        .take(BODY_BYTES_MAX as u64 + 1)
        .read_to_end(&mut body)?;
    check_length(&body)?;
    Ok(body)
}

fn check_length(body: &[u8]) -> anyhow::Result<()> {
    ensure!(
        body.len() <= BODY_BYTES_MAX,
        "a message has at most {BODY_BYTES_MAX} bytes, and this one is longer"
    );
    Ok(())
}

/// Reads lines on a thread of their own, so that what is there is sent while more is awaited.
fn read_lines(input: Box<dyn Read + Send>) -> Receiver<anyhow::Result<Vec<u8>>> {
    let (sender, lines) = sync_channel(LINES_AHEAD_MAX);
    thread::spawn(move || {
        let mut input = BufReader::new(input);
        while let Some(line) = read_line(&mut input).transpose() {
            let failed = line.is_err();
            if sender.send(line).is_err() || failed {
                return;
            }
        }
    });
    lines
}

fn read_line(input: &mut impl BufRead) -> anyhow::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    // One more than a body may have, and its line end.
    let mut limited = input.take(BODY_BYTES_MAX as u64 + 2);
    if limited.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    check_length(&line)?;
    Ok(Some(line))
}

struct Publisher {
    client: Client,
    path: String,
    headers: Map<String, Value>,
    durable: bool,
    accepted: u64,
    ack_level: Option<String>,
}

impl Publisher {
    fn send_lines(&mut self, lines: &Receiver<anyhow::Result<Vec<u8>>>) -> anyhow::Result<()> {
        while let Ok(first) = lines.recv() {
            let mut batch = vec![first?];
            let mut bytes = batch[0].len();
            while batch.len() < BATCH_MESSAGES_MAX && bytes < BATCH_BYTES_MAX {
                let Ok(line) = lines.try_recv() else {
                    break;
                };
                match line {
                    Ok(line) => {
                        bytes += line.len();
                        batch.push(line);
                    }
                    // What came before the line that cannot be read is sent first.
                    Err(error) => {
                        self.send(&batch)?;
                        return Err(error);
                    }
                }
            }
            self.send(&batch)?;
        }
        Ok(())
    }

    fn send(&mut self, bodies: &[Vec<u8>]) -> anyhow::Result<()> {
        let messages: Vec<Value> = bodies.iter().map(|body| self.message(body)).collect();
        match self
            .client
            .post(&self.path, &json!({ "messages": messages }))
        {
            Ok(answer) => {
                self.accepted += answer["accepted"].as_u64().unwrap_or_default();
                self.ack_level = answer["ack_level"].as_str().map(str::to_owned);
                Ok(())
            }
            Err(error) => {
                if let ClientError::Refused { accepted, .. } = &error {
                    self.accepted += accepted;
                }
                bail!(error)
            }
        }
    }

    fn message(&self, body: &[u8]) -> Value {
        let mut message = message(body, &self.headers);
        message.insert("durable".into(), self.durable.into());
        message.into()
    }
}

/// A message as the node reads it: the body as text if it is short text, else in base64.
pub(super) fn message(body: &[u8], headers: &Map<String, Value>) -> Map<String, Value> {
    let mut message = Map::new();
    match str::from_utf8(body) {
        Ok(text) if text.len() <= TEXT_BYTES_MAX => message.insert("body".into(), text.into()),
        _ => message.insert("body_base64".into(), STANDARD.encode(body).into()),
    };
    message.insert("headers".into(), headers.clone().into());
    message
}
