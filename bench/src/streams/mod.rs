//! Streams of events through stages in memory on one node, ours and those of other engines.
//!
//! [`chain`] sends small events through three stages and checks that every one comes out in order. The others
//! run queries of Nexmark over the same events ([`generator`]), or count the words of the same lines ([`lines`]):
//! [`queries`] with our stages, [`timely`] and [`bytewax`] with those engines. The results of a query make one
//! checksum, which must be the same for all.

pub mod bytewax;
pub mod chain;
pub mod checksum;
mod code;
mod dice;
pub mod events;
pub mod generator;
pub mod lines;
pub mod queries;
mod state;
pub mod timely;

use std::time::Duration;

use crate::workers::{Result, WorkerError};

/// What is measured: queries of Nexmark, and word count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Every event as it came.
    Q0,
    /// Every bid with its price in another currency.
    Q1,
    /// The prices of bids on a few auctions.
    Q2,
    /// Who sells things of one category in three states.
    Q3,
    /// For how much things of each category are sold on average.
    Q4,
    /// The auctions with most bids in the last ten seconds, every two seconds.
    Q5,
    /// The highest bid of each second.
    Q7,
    /// Who joined and sold something within the same second.
    Q8,
    /// How often each word comes; its events are lines of words.
    WordCount,
}

impl Query {
    fn name(self) -> &'static str {
        match self {
            Self::Q0 => "q0",
            Self::Q1 => "q1",
            Self::Q2 => "q2",
            Self::Q3 => "q3",
            Self::Q4 => "q4",
            Self::Q5 => "q5",
            Self::Q7 => "q7",
            Self::Q8 => "q8",
            Self::WordCount => "word_count",
        }
    }
}

/// How a query went.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// How long it took, until the last result.
    pub elapsed: Duration,
    /// One number for all results.
    pub checksum: u64,
}

/// Runs a query with one of the engines. Other results than those that are due are an error.
pub fn checked(
    query: Query,
    events: u32,
    engine: fn(Query, u32) -> Result<Outcome>,
) -> Result<Duration> {
    let outcome = engine(query, events)?;
    let expected = queries::expected(query, events);
    if outcome.checksum == expected {
        return Ok(outcome.elapsed);
    }
    Err(WorkerError::Refused {
        action: format!("run {} over {events} events", query.name()),
        reason: format!(
            "the checksum of the results is {:x} and not {expected:x}",
            outcome.checksum
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as let windows of ten seconds pass.
    const EVENTS: u32 = 150_000;
    const QUERIES: [Query; 9] = [
        Query::Q0,
        Query::Q1,
        Query::Q2,
        Query::Q3,
        Query::Q4,
        Query::Q5,
        Query::Q7,
        Query::Q8,
        Query::WordCount,
    ];

    #[test]
    fn ours_and_timely_come_to_the_same_results() {
        for query in QUERIES {
            checked(query, EVENTS, queries::run).expect("ours is right");
            checked(query, EVENTS, timely::run).expect("timely is right");
        }
    }

    /// As many events as lead to fewer results.
    fn fewer(query: Query) -> u32 {
        let all = queries::expected(query, EVENTS);
        let differs = |events: &u32| queries::expected(query, *events) != all;
        let mut fewer = (0..17).map(|shift| EVENTS - (1 << shift));
        fewer.find(differs).expect("some event leads to a result")
    }

    #[test]
    fn one_lost_result_is_found() {
        for query in QUERIES {
            let loses_one: fn(Query, u32) -> _ = |query, _| queries::run(query, fewer(query));
            let error = checked(query, EVENTS, loses_one).unwrap_err();
            assert!(error.to_string().contains("checksum"), "{error}");
        }
    }
}
