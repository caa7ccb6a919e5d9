//! Queries as dataflows of timely: two workers, each of which makes every other event. What is divided by key is
//! exchanged between them, and what they keep is in the memory of their operators.

mod keyed;
mod q0;
mod q1;
mod q2;
mod q3;
mod q4;
mod q5;
mod q7;
mod q8;
mod word_count;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use timely::dataflow::operators::{Inspect, Probe};
use timely::dataflow::{InputHandle, ProbeHandle, StreamVec};
use timely::worker::Worker;

use super::checksum::Summed;
use super::generator::event;
use super::lines::line;
use super::{Outcome, Query};
use crate::workers::{Result, refused};

const WORKERS: usize = 2;
/// How many events all workers together make before they look after the dataflow.
const STEP_EVENTS: usize = 2_048;

/// The sum of the results of one worker.
type Sum = Rc<Cell<u64>>;

/// Appends a query and the sum of its results to a stream.
type Build<D> = for<'scope> fn(StreamVec<'scope, u64, D>, Sum) -> ProbeHandle<u64>;

/// Runs a query over so many events.
pub fn run(query: Query, events: u32) -> Result<Outcome> {
    match query {
        Query::Q0 => execute(event, events, q0::build),
        Query::Q1 => execute(event, events, q1::build),
        Query::Q2 => execute(event, events, q2::build),
        Query::Q3 => execute(event, events, q3::build),
        Query::Q4 => execute(event, events, q4::build),
        Query::Q5 => execute(event, events, q5::build),
        Query::Q7 => execute(event, events, q7::build),
        Query::Q8 => execute(event, events, q8::build),
        Query::WordCount => execute(line, events, word_count::build),
    }
}

fn execute<D: Clone + 'static>(
    make: fn(u64) -> D,
    events: u32,
    build: Build<D>,
) -> Result<Outcome> {
    let began = Instant::now();
    let guards = timely::execute(timely::Config::process(WORKERS), move |worker| {
        work(worker, make, u64::from(events), build)
    });
    let guards = guards.map_err(refused("start timely"))?;
    let mut checksum = 0_u64;
    for sum in guards.join() {
        let sum = sum.map_err(refused("finish a worker of timely"))?;
        checksum = checksum.wrapping_add(sum);
    }
    Ok(Outcome {
        elapsed: began.elapsed(),
        checksum,
    })
}

/// What one worker does; the sum of its results.
fn work<D: Clone + 'static>(
    worker: &mut Worker,
    make: fn(u64) -> D,
    events: u64,
    build: Build<D>,
) -> u64 {
    let (index, peers) = (worker.index() as u64, worker.peers());
    let sum = Sum::default();
    let mut input = InputHandle::new();
    let probe = worker.dataflow(|scope| build(input.to_stream(scope), sum.clone()));
    for first in (0..events).step_by(STEP_EVENTS) {
        let end = events.min(first + STEP_EVENTS as u64);
        for number in (first + index..end).step_by(peers) {
            input.send(make(number));
        }
        input.advance_to(end);
        worker.step();
    }
    input.close();
    worker.step_while(|| !probe.done());
    sum.get()
}

/// Sums results up.
fn summed<R: Summed + 'static>(results: StreamVec<'_, u64, R>, sum: Sum) -> ProbeHandle<u64> {
    let add = move |result: &R| sum.set(sum.get().wrapping_add(result.sum()));
    Inspect::<u64, Vec<R>>::inspect(results, add).probe().0
}
