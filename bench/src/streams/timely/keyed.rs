//! An operator that keeps a state in each worker.

use std::borrow::Borrow;

use timely::ExchangeData;
use timely::dataflow::StreamVec;
use timely::dataflow::channels::pact::{Exchange, ParallelizationContract, Pipeline};
use timely::dataflow::operators::generic::Operator;

use crate::streams::generator::time_ms;
use crate::streams::state::{END_MS, State};

/// Each goes to the worker that its key says.
pub(super) fn keyed<'scope, S, D>(
    events: StreamVec<'scope, u64, D>,
    key: fn(&D) -> u64,
) -> StreamVec<'scope, u64, S::Output>
where
    S: State,
    S::Output: 'static,
    D: ExchangeData + Borrow<S::Input>,
{
    stateful::<S, D, _>(events, Exchange::new(key))
}

/// Each stays with its worker.
pub(super) fn local<'scope, S, D>(
    events: StreamVec<'scope, u64, D>,
) -> StreamVec<'scope, u64, S::Output>
where
    S: State,
    S::Output: 'static,
    D: Borrow<S::Input> + 'static,
{
    stateful::<S, D, _>(events, Pipeline)
}

fn stateful<'scope, S, D, P>(
    events: StreamVec<'scope, u64, D>,
    pact: P,
) -> StreamVec<'scope, u64, S::Output>
where
    S: State,
    S::Output: 'static,
    D: Borrow<S::Input> + 'static,
    P: ParallelizationContract<u64, Vec<D>>,
{
    events.unary_frontier(pact, "State", |capability, _| {
        let mut state = S::default();
        let mut capability = Some(capability);
        move |(input, frontier), output| {
            let Some(held) = &mut capability else {
                return;
            };
            let mut session = output.session(&*held);
            input.for_each_time(|_, batches| {
                for event in batches.flat_map(|batch| batch.drain(..)) {
                    state.take(event.borrow(), |given| session.give(given));
                }
            });
            // The frontier is the number of the first event that may still come.
            let next = frontier.frontier().first().copied();
            if next.is_none_or(|next| next > *held.time()) {
                let passed_ms = next.map_or(END_MS, time_ms);
                state.pass(passed_ms, |given| session.give(given));
            }
            drop(session);
            match next {
                Some(next) => held.downgrade(&next),
                None => capability = None,
            }
        }
    })
}
