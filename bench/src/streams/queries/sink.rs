//! Sums results up.

use std::marker::PhantomData;
use std::time::Instant;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use runtime::BUCKETS;
use tokio::sync::mpsc;

use super::end::End;
use super::keyed::Mark;
use crate::streams::checksum::Summed;

/// When the end came, and the sum of all results until then.
pub type Said = (Instant, u64);

/// Sums results of one type up until the end comes.
pub struct Sink<R> {
    sum: u64,
    /// How many buckets have ended, if a keyed stage comes before.
    ended: u32,
    done: mpsc::UnboundedSender<Said>,
    results: PhantomData<fn(R)>,
}

impl<R> Sink<R> {
    pub fn new(done: mpsc::UnboundedSender<Said>) -> Self {
        Self {
            sum: 0,
            ended: 0,
            done,
            results: PhantomData,
        }
    }
}

#[async_trait]
impl<R: Value + Summed> Worker for Sink<R> {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], _turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            if let Some(result) = message.value::<R>() {
                self.sum = self.sum.wrapping_add(result.sum());
            } else if message.value::<End>().is_some() {
                self.finish();
            } else if let Some(mark) = message.value::<Mark>() {
                self.count(mark);
            } else {
                return Err(Failure::new("this is neither a result nor the end"));
            }
        }
        Ok(())
    }
}

impl<R> Sink<R> {
    fn count(&mut self, mark: &Mark) {
        self.ended += u32::from(mark.is_end());
        if mark.is_end() && self.ended == BUCKETS {
            self.finish();
        }
    }

    fn finish(&self) {
        // Whoever no longer waits has reported an error already.
        let _ = self.done.send((Instant::now(), self.sum));
    }
}
