//! Sums results up.

use std::marker::PhantomData;
use std::time::Instant;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Stretch, Turn, Value, Worker};
use tokio::sync::mpsc;

use super::end::End;
use super::keyed::Mark;
use crate::streams::checksum::Summed;

/// When the end came, and the sum of all results until then.
pub type Said = (Instant, u64);

/// Sums results of one type up until the end comes.
pub struct Sink<R> {
    sum: u64,
    /// How many ends have come.
    ended: u32,
    /// How many come: one from each source, or from each bucket if a keyed stage comes before.
    ends: u32,
    done: mpsc::UnboundedSender<Said>,
    results: PhantomData<fn(R)>,
}

impl<R> Sink<R> {
    pub fn new(ends: u32, done: mpsc::UnboundedSender<Said>) -> Self {
        Self {
            sum: 0,
            ended: 0,
            ends,
            done,
            results: PhantomData,
        }
    }
}

#[async_trait]
impl<R: Value + Clone + Summed> Worker for Sink<R> {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        messages.is::<Vec<R>>()
    }

    async fn handle_series(&mut self, series: &[Stretch], _turn: &mut Turn) -> Result<(), Failure> {
        for result in series.iter().filter_map(Stretch::values::<R>).flatten() {
            self.sum = self.sum.wrapping_add(result.sum());
        }
        Ok(())
    }

    async fn handle(&mut self, messages: &[Incoming], _turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            if let Some(result) = message.value::<R>() {
                self.sum = self.sum.wrapping_add(result.sum());
            } else if message.value::<End>().is_some() {
                self.count();
            } else if let Some(mark) = message.value::<Mark>() {
                if mark.is_end() {
                    self.count();
                }
            } else {
                return Err(Failure::new("this is neither a result nor the end"));
            }
        }
        Ok(())
    }
}

impl<R> Sink<R> {
    fn count(&mut self) {
        self.ended += 1;
        if self.ended == self.ends {
            // Whoever no longer waits has reported an error already.
            let _ = self.done.send((Instant::now(), self.sum));
        }
    }
}
