//! Word count: how often each word comes in lines of words.

use std::collections::{BTreeMap, HashMap};
use std::mem::size_of;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, KeyAt, Stretch, Turn, Value, Worker};
use serde::Serialize;

use super::bucketed::Bucketed;
use super::key::Key;
use super::keyed::{Given, HasKey, Marks};
use super::rig::{self, Step};
use crate::streams::Outcome;
use crate::streams::checksum::{Summed, mix, text};
use crate::streams::events::json;
use crate::streams::lines::{line, words};
use crate::streams::state::{END_MS, State};
use crate::workers;

/// A line of words.
#[derive(Debug, Clone, Serialize)]
struct Line(String);

impl Value for Line {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }
}

/// A word, which is its own key.
#[derive(Debug, Serialize)]
struct Word {
    key: Key,
}

impl Value for Word {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn key_at(&self, _: &[Box<str>]) -> KeyAt<'_> {
        KeyAt::Text(self.key.as_str().into())
    }
}

impl HasKey for Word {
    type Event = str;

    fn key(&self) -> &str {
        self.key.as_str()
    }

    fn event(&self) -> &str {
        self.key.as_str()
    }
}

/// How often a word came.
#[derive(Debug, Clone, Serialize)]
pub struct Count {
    word: String,
    count: u64,
}

impl Summed for Count {
    fn sum(&self) -> u64 {
        mix(&[text(&self.word), self.count])
    }
}

/// Divides lines into words.
struct Split(Marks);

#[async_trait]
impl Worker for Split {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            match message.value::<Line>() {
                Some(line) => split(line, turn)?,
                None => {
                    for mark in self.0.at(END_MS) {
                        turn.emit_value("out", Arc::new(mark))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        messages.is::<Vec<Line>>()
    }

    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        for line in series.iter().filter_map(Stretch::values).flatten() {
            split(line, turn)?;
        }
        Ok(())
    }
}

fn split(line: &Line, turn: &mut Turn) -> Result<(), Failure> {
    for word in words(&line.0) {
        let key = Key::of_text(word);
        turn.emit_value("out", Arc::new(Word { key }))?;
    }
    Ok(())
}

/// How often words came.
#[derive(Default)]
pub struct Counts(HashMap<String, u64>);

impl State for Counts {
    type Input = str;
    type Output = Count;

    fn take(&mut self, word: &str, _: impl FnMut(Count)) {
        match self.0.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(word.to_owned(), 1);
            }
        }
    }

    fn pass(&mut self, time_ms: u64, give: impl FnMut(Count)) {
        if time_ms == END_MS {
            let counts = std::mem::take(&mut self.0).into_iter();
            counts
                .map(|(word, count)| Count { word, count })
                .for_each(give);
        }
    }
}

pub fn run(lines: u32) -> workers::Result<Outcome> {
    let steps = vec![
        Step::single("split", || Split(Marks::new())),
        Step::keyed("count", Bucketed::<Word, Counts>::new),
    ];
    rig::run::<_, Given<Count>>(|number| Line(line(number)), lines, steps)
}

/// The checksum that is due.
pub fn expected(lines: u32) -> u64 {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in (0..u64::from(lines)).map(line) {
        for word in words(&line) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    let sums = counts
        .iter()
        .map(|(word, count)| mix(&[text(word), *count]));
    sums.fold(0, u64::wrapping_add)
}
