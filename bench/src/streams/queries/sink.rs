//! Sums results up.

use std::marker::PhantomData;
use std::time::Instant;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use tokio::sync::mpsc;

use super::end::End;
use crate::streams::checksum::Summed;

/// When the end came, and the sum of all results until then.
pub type Said = (Instant, u64);

/// Sums results of one type up until the end comes.
pub struct Sink<R> {
    sum: u64,
    done: mpsc::UnboundedSender<Said>,
    results: PhantomData<fn(R)>,
}

impl<R> Sink<R> {
    pub fn new(done: mpsc::UnboundedSender<Said>) -> Self {
        Self {
            sum: 0,
            done,
            results: PhantomData,
        }
    }
}

#[async_trait]
impl<R: Value + Summed> Worker for Sink<R> {
    async fn receive(&mut self, message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        if let Some(result) = message.value::<R>() {
            self.sum = self.sum.wrapping_add(result.sum());
        } else if message.value::<End>().is_some() {
            // Whoever no longer waits has reported an error already.
            let _ = self.done.send((Instant::now(), self.sum));
        } else {
            return Err(Failure::new("this is neither a result nor the end"));
        }
        Ok(())
    }
}
