//! Producers and consumers: messages go to whichever consumer takes them.

use std::ops::Range;

use super::census::Census;
use super::cluster::Gateways;
use super::plan::{Plan, Role, Workers};
use crate::relays;
use crate::workers::Result;

/// How many producers there are, and as many consumers.
pub const WORKERS: u32 = 8;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many messages.
    pub messages: u32,
    /// The length of each.
    pub bytes: usize,
    /// How many messages each consumer may have on their way.
    pub prefetch: u32,
}

fn workers(role: Role, on: Range<usize>) -> Workers {
    Workers {
        role,
        count: WORKERS,
        on,
    }
}

/// How many messages a gateway may have on their way, of so many.
fn prefetch(load: &Load, gateways: usize) -> u32 {
    load.prefetch * WORKERS.div_ceil(gateways as u32)
}

/// The consumers take what waits in their queue. How many messages a second.
pub fn consume(gateways: &mut Gateways, count: usize, load: &Load) -> Result<f64> {
    gateways.run(&Plan {
        workers: vec![workers(Role::Consumer, 0..count)],
        prefetch: prefetch(load, count),
    })?;
    gateways.pause()?;
    let (sender, queue) = (gateways.fresh_sender(), gateways.queue(Role::Consumer));
    let access = &gateways.access;
    access.fill(&queue, &sender, load.messages, load.bytes)?;
    let before = gateways.turns(Role::Consumer)?;
    gateways.resume()?;
    let rate = gateways.watch(Role::Consumer, before, load.messages)?;
    judge(gateways, load)?;
    Ok(rate)
}

/// The producers fill the consumers' queue. By how many messages a second it grows.
pub fn produce(gateways: &mut Gateways, count: usize, load: &Load) -> Result<f64> {
    gateways.run(&Plan {
        workers: vec![workers(Role::Producer, 0..count)],
        prefetch: prefetch(load, count),
    })?;
    begin(gateways, load)?;
    let (access, queue) = (&gateways.access, gateways.queue(Role::Consumer));
    let rate = relays::watch(load.messages, || access.length(&queue))?;
    access.drain(&queue, load.messages)?;
    Ok(rate)
}

/// Both at the same time: on one gateway, or on one each. How many messages a second are consumed.
pub fn both(gateways: &mut Gateways, count: usize, load: &Load) -> Result<f64> {
    gateways.run(&Plan {
        workers: vec![
            workers(Role::Producer, 0..1),
            workers(Role::Consumer, count - 1..count),
        ],
        prefetch: prefetch(load, 1),
    })?;
    let before = gateways.turns(Role::Consumer)?;
    begin(gateways, load)?;
    let rate = gateways.watch(Role::Consumer, before, load.messages)?;
    judge(gateways, load)?;
    Ok(rate)
}

/// Gives every producer its part of the numbers.
fn begin(gateways: &Gateways, load: &Load) -> Result<()> {
    let first = |number, of| u64::from(load.messages) * u64::from(number) / u64::from(of);
    gateways.send(Role::Producer, |number: u32, of: u32| {
        let (from, to) = (first(number, of), first(number + 1, of));
        format!("{from} {to} {}", load.bytes)
    })
}

/// Every message must have come to one consumer once.
fn judge(gateways: &Gateways, load: &Load) -> Result<()> {
    let mut census = Census::of(load.messages);
    for answer in gateways.ask(Role::Consumer)? {
        census.take_all(&answer);
    }
    census.judge()
}
