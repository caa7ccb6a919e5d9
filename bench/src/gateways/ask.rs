//! Requesters and suppliers: each requester has one question open, and the answer comes to it alone.

use std::ops::Range;

use super::cluster::Gateways;
use super::plan::{Plan, Role, Workers};
use crate::workers::{Result, WorkerError};

const PREFETCH: u32 = 64;

/// How many ask how many, and where.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// How many requesters there are, and as many suppliers.
    pub count: u32,
    /// The gateways of the requesters.
    pub requesters: Range<usize>,
    /// The gateways of the suppliers.
    pub suppliers: Range<usize>,
}

/// How it went.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// Answers in a second.
    pub rate: f64,
    /// How long an answer took on average.
    pub round_trip_ms: f64,
}

/// Asks so many times, in equal parts.
pub fn ask(gateways: &mut Gateways, pairs: &Pairs, asks: u32) -> Result<Answered> {
    let workers = |role, on: &Range<usize>| Workers {
        role,
        count: pairs.count,
        on: on.clone(),
    };
    gateways.run(&Plan {
        workers: vec![
            workers(Role::Requester, &pairs.requesters),
            workers(Role::Supplier, &pairs.suppliers),
        ],
        prefetch: PREFETCH,
    })?;
    let each = asks / pairs.count;
    let before = gateways.turns(Role::Requester)?;
    gateways.send(Role::Requester, |_, _| each.to_string())?;
    // The message that begins is a turn, too.
    let turns = (each + 1) * pairs.count;
    let rate = gateways.watch(Role::Requester, before, turns)?;
    Ok(Answered {
        rate,
        round_trip_ms: judge(gateways, each)?,
    })
}

/// Every requester must have got each answer once; how long one took on average.
fn judge(gateways: &Gateways, each: u32) -> Result<f64> {
    let answers = gateways.ask(Role::Requester)?;
    let messages = each * answers.len() as u32;
    let (mut wrong, mut micros) = (0, 0);
    for answer in &answers {
        let Some([done, not_due, took]) = numbers(answer) else {
            return Err(WorkerError::Wrong { wrong: 1, messages });
        };
        wrong += not_due + u64::from(each).abs_diff(done);
        micros += took;
    }
    match wrong {
        0 => Ok(micros as f64 / f64::from(messages) / 1_000.0),
        wrong => Err(WorkerError::Wrong {
            wrong: wrong as u32,
            messages,
        }),
    }
}

fn numbers(answer: &[u8]) -> Option<[u64; 3]> {
    let text = str::from_utf8(answer).ok()?;
    let numbers = text.split(' ').map(str::parse);
    let numbers: Vec<u64> = numbers.collect::<std::result::Result<_, _>>().ok()?;
    numbers.try_into().ok()
}
