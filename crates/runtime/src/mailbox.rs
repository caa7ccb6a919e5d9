//! What waits for a worker in this process: messages, and what its stage wants it to do.

use std::collections::VecDeque;
use std::iter;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bus::{Receipt, Subscription, Tag};
use kernel::worker::{Incoming, Kind, Stretch};

use crate::control::Control;
use crate::key::BUCKETS;
use crate::messages::{Messages, Sorted};

/// A message on its way to a worker, with what has to be acknowledged once it is done.
pub(crate) struct Envelope {
    pub incoming: Incoming,
    pub source: Option<Source>,
    /// The bucket that it belongs to; zero for all in stages that are not keyed.
    pub bucket: u32,
}

/// Where a message came from.
pub(crate) struct Source {
    pub subscription: Arc<Pulled>,
    pub tag: Tag,
}

/// A subscription of a stage, and whether what came from it still counts.
///
/// After a commit that failed, what it was about comes again, and only then what was behind it may
/// follow. So everything else that came from the same subscription is given back unseen, which ends
/// the subscription, and the next one begins with what failed.
pub(crate) struct Pulled {
    subscription: Box<dyn Subscription>,
    is_stale: AtomicBool,
}

impl Pulled {
    pub fn new(subscription: Box<dyn Subscription>) -> Self {
        Self {
            subscription,
            is_stale: AtomicBool::new(false),
        }
    }

    pub fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire)
    }

    /// Nothing that came from it counts any more.
    pub fn make_stale(&self) {
        self.is_stale.store(true, Ordering::Release);
    }
}

impl Deref for Pulled {
    type Target = dyn Subscription;

    fn deref(&self) -> &Self::Target {
        &*self.subscription
    }
}

impl Source {
    pub fn receipt(&self) -> Receipt {
        self.tag.receipt
    }
}

impl Envelope {
    /// Whether it has to come again before it may be handled.
    pub fn is_stale(&self) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|source| source.subscription.is_stale())
    }

    /// Whether it is a timer that went off for this bucket, or an ask whose time is up.
    fn is_alarm_of(&self, bucket: u32) -> bool {
        let is_alarm = matches!(self.incoming.kind, Kind::Timer(_) | Kind::TimedOut(_));
        is_alarm && self.bucket == bucket
    }

    /// A message from within this process.
    pub fn local(incoming: Incoming, bucket: u32) -> Self {
        Self {
            incoming,
            source: None,
            bucket,
        }
    }

    fn split(self) -> (Incoming, Origin) {
        let origin = Origin {
            source: self.source,
            bucket: self.bucket,
        };
        (self.incoming, origin)
    }
}

/// Messages on their way to a worker, in order.
///
/// Where each came from is kept beside them, and not at all if all came from within this process
/// and belong to bucket zero: then they can be handled where they lie.
#[derive(Default)]
pub(crate) struct Envelopes {
    messages: Messages,
    /// As many as there are messages, or none.
    origins: VecDeque<Origin>,
}

#[derive(Default)]
struct Origin {
    source: Option<Source>,
    bucket: u32,
}

impl Envelopes {
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn capacity(&self) -> usize {
        self.messages.capacity()
    }

    pub fn push(&mut self, envelope: Envelope) {
        let (incoming, origin) = envelope.split();
        if self.keeps(&origin) {
            self.origins.push_back(origin);
        }
        self.messages.push(incoming);
    }

    fn push_front(&mut self, envelope: Envelope) {
        let (incoming, origin) = envelope.split();
        if self.keeps(&origin) {
            self.origins.push_front(origin);
        }
        self.messages.push_front(incoming);
    }

    /// Whether an origin has to be kept; if so, those of all others are kept from now on.
    fn keeps(&mut self, origin: &Origin) -> bool {
        let keeps = !self.origins.is_empty() || origin.source.is_some() || origin.bucket != 0;
        if keeps {
            self.keep_origins();
        }
        keeps
    }

    /// Keeps an origin of each message from now on; so each of a series is kept by itself.
    fn keep_origins(&mut self) {
        self.messages.unfold();
        let messages = self.messages.len();
        self.origins.resize_with(messages, Origin::default);
    }

    pub fn pop(&mut self) -> Option<Envelope> {
        let incoming = self.messages.pop()?;
        let origin = self.origins.pop_front().unwrap_or_default();
        Some(Envelope {
            incoming,
            source: origin.source,
            bucket: origin.bucket,
        })
    }

    /// Drops timers and time limits of asks of this bucket.
    pub fn drop_alarms(&mut self, bucket: u32) {
        let mut all = std::mem::take(self);
        while let Some(envelope) = all.pop() {
            if !envelope.is_alarm_of(bucket) {
                self.push(envelope);
            }
        }
    }

    /// The bucket of the first one.
    pub fn first_bucket(&self) -> Option<u32> {
        let is_any = !self.is_empty();
        is_any.then(|| self.origins.front().map_or(0, |origin| origin.bucket))
    }

    /// Brings those of one bucket together; their order stays.
    pub fn sort_by_bucket(&mut self) {
        if self.origins.iter().is_sorted_by_key(|origin| origin.bucket) {
            return;
        }
        let mut places = self.places_by_bucket();
        for at in 0..places.len() {
            while places[at] as usize != at {
                let to = places[at] as usize;
                self.messages.swap(at, to);
                self.origins.swap(at, to);
                places.swap(at, to);
            }
        }
    }

    /// Where each belongs, by counting: messages are large, so each is moved as rarely as possible.
    fn places_by_bucket(&self) -> Vec<u32> {
        let mut starts = [0_u32; BUCKETS as usize + 1];
        for origin in &self.origins {
            starts[origin.bucket as usize + 1] += 1;
        }
        for bucket in 0..BUCKETS as usize {
            starts[bucket + 1] += starts[bucket];
        }
        let place = |origin: &Origin| {
            let place = &mut starts[origin.bucket as usize];
            *place += 1;
            *place - 1
        };
        self.origins.iter().map(place).collect()
    }

    /// The messages alone, if they have the same place to come from, this process and bucket zero, and are no values.
    pub fn plain(&mut self) -> Option<&mut VecDeque<Incoming>> {
        match self.origins.is_empty() {
            true => self.messages.incomings(),
            false => None,
        }
    }

    /// Moves all messages to a list of stretches, if they are series and belong to bucket zero; otherwise none is moved, and it
    /// tells so.
    pub fn take_series(&mut self, stretches: &mut Vec<Stretch>) -> bool {
        if !self.origins.is_empty() {
            return false;
        }
        let Some(series) = self.messages.series() else {
            return false;
        };
        stretches.extend(series.drain());
        true
    }

    /// Moves the messages of the first bucket to a list of messages, if all are values; otherwise none is moved, and it
    /// tells so.
    pub fn take_values(&mut self, incomings: &mut VecDeque<Incoming>) -> bool {
        let Some(values) = self.messages.values() else {
            return false;
        };
        let count = match self.origins.front() {
            None => values.len(),
            Some(first) => {
                let bucket = first.bucket;
                let others = self
                    .origins
                    .iter()
                    .position(|origin| origin.bucket != bucket);
                others.unwrap_or(values.len())
            }
        };
        self.origins.drain(..count.min(self.origins.len()));
        self.messages.spread_to(incomings, count);
        true
    }
}

/// What a stage asks of a worker, in order.
#[derive(Default)]
struct Controls(VecDeque<Control>);

/// The waiting messages of one worker. It belongs to the cell and is locked for moments only.
#[derive(Default)]
pub(crate) struct Mailbox {
    messages: Envelopes,
    /// Almost always empty, so that an idle worker costs little.
    controls: Option<Box<Controls>>,
    /// How many messages are before the mark, if there is one.
    mark: Option<usize>,
    /// An activation runs or is on its way; it looks here again before it ends.
    pub active: bool,
    /// Messages wait although they could be handled: the worker is stopped or waits to restart.
    pub held: bool,
    /// The worker is gone for good: whoever still knows it has to find another way.
    pub gone: bool,
}

impl Mailbox {
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    pub fn push(&mut self, envelope: Envelope) {
        self.messages.push(envelope);
    }

    /// Moves up to `messages_max` messages of this process that belong to no bucket to the end.
    pub fn push_plain(&mut self, more: &mut Messages, messages_max: usize) {
        let envelopes = &mut self.messages;
        envelopes.messages.take_from(more, messages_max);
        if !envelopes.origins.is_empty() {
            envelopes.keep_origins();
        }
    }

    /// Moves up to `messages_max` messages of this process and their buckets to the end.
    pub fn push_sorted(&mut self, more: &mut Sorted, messages_max: usize) {
        self.messages.keep_origins();
        let Envelopes { messages, origins } = &mut self.messages;
        let taken = messages.take_from(&mut more.messages, messages_max);
        let origin = |bucket| Origin {
            source: None,
            bucket,
        };
        origins.extend(more.buckets.drain(..taken).map(origin));
    }

    pub fn push_control(&mut self, control: Control) {
        self.controls.get_or_insert_default().0.push_back(control);
    }

    pub fn take_control(&mut self) -> Option<Control> {
        let controls = self.controls.as_mut()?;
        let control = controls.0.pop_front();
        if controls.0.is_empty() {
            self.controls = None;
        }
        control
    }

    /// Moves up to `messages_max` messages into `batch`, which is empty. All of them are as cheap as
    /// one: whoever sends meanwhile waits for this.
    pub fn take_batch(&mut self, messages_max: usize, batch: &mut Envelopes) {
        let messages_max = self.pass_mark(messages_max);
        if self.messages.len() <= messages_max {
            std::mem::swap(&mut self.messages, batch);
            return;
        }
        let Envelopes { messages, origins } = &mut self.messages;
        batch.messages.take_from(messages, messages_max);
        let origins_max = messages_max.min(origins.len());
        batch.origins.extend(origins.drain(..origins_max));
    }

    /// Whether a message of this bucket waits.
    pub fn has_bucket(&self, bucket: u32) -> bool {
        let origins = &self.messages.origins;
        match origins.is_empty() {
            true => bucket == 0 && !self.messages.is_empty(),
            false => origins.iter().any(|origin| origin.bucket == bucket),
        }
    }

    /// Puts a mark behind everything that waits.
    pub fn set_mark(&mut self) {
        self.mark = Some(self.messages.len());
    }

    /// Whether the mark was set and everything before it has been taken; then it is gone.
    pub fn take_mark(&mut self) -> bool {
        self.mark.take_if(|before| *before == 0).is_some()
    }

    /// How many of so many messages can be taken without passing the mark; they are then no longer before it.
    fn pass_mark(&mut self, messages_max: usize) -> usize {
        match &mut self.mark {
            Some(before) if *before > 0 => {
                let taken = messages_max.min(*before);
                *before -= taken;
                taken
            }
            _ => messages_max,
        }
    }

    /// Takes out all messages of this bucket, in order, and tells how many of them were among the `first` ones.
    pub fn take_bucket(&mut self, bucket: u32, first: usize) -> (Vec<Envelope>, usize) {
        match self.has_bucket(bucket) {
            true => self.take_those(first, |envelope| envelope.bucket == bucket),
            false => (Vec::new(), 0),
        }
    }

    /// Drops timers and time limits of asks that wait for this bucket.
    pub fn drop_alarms(&mut self, bucket: u32) {
        if self.has_bucket(bucket) {
            self.take_those(0, |envelope| envelope.is_alarm_of(bucket));
        }
    }

    fn take_those(
        &mut self,
        first: usize,
        is_meant: impl Fn(&Envelope) -> bool,
    ) -> (Vec<Envelope>, usize) {
        let mut taken = Vec::new();
        let (mut of_first, mut taken_before) = (0, 0);
        let mut kept = Envelopes::default();
        for (index, envelope) in iter::from_fn(|| self.messages.pop()).enumerate() {
            if is_meant(&envelope) {
                of_first += usize::from(index < first);
                taken_before += usize::from(self.mark.is_some_and(|before| index < before));
                taken.push(envelope);
            } else {
                kept.push(envelope);
            }
        }
        self.messages = kept;
        if let Some(before) = &mut self.mark {
            *before -= taken_before;
        }
        (taken, of_first)
    }

    /// Gives back memory: what one rush needed should not be kept by a million idle workers.
    pub fn shrink(&mut self) {
        let Envelopes { messages, .. } = std::mem::take(&mut self.messages);
        messages.recycle();
    }

    /// Puts messages back to the front, in their order.
    pub fn put_back(&mut self, batch: impl DoubleEndedIterator<Item = Envelope>) {
        let before = self.messages.len();
        for envelope in batch.rev() {
            self.messages.push_front(envelope);
        }
        if let Some(mark) = &mut self.mark {
            *mark += self.messages.len() - before;
        }
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<Envelope> {
        // The worker comes to the mark when it looks the next time.
        self.mark = self.mark.map(|_| 0);
        iter::from_fn(|| self.messages.pop()).collect()
    }
}

#[cfg(test)]
mod tests {
    use kernel::Message;

    use super::*;

    fn message(number: u8) -> Incoming {
        Incoming::new(Message::new(vec![number]))
    }

    fn mailbox(buckets: &[u32]) -> Mailbox {
        let mut mailbox = Mailbox::default();
        for (number, bucket) in buckets.iter().enumerate() {
            mailbox.push(Envelope::local(message(number as u8), *bucket));
        }
        mailbox
    }

    /// Numbers and buckets, in order.
    fn pairs(envelopes: &mut Envelopes) -> Vec<(u8, u32)> {
        let pop = || {
            envelopes
                .pop()
                .map(|e| (e.incoming.message.body[0], e.bucket))
        };
        iter::from_fn(pop).collect()
    }

    #[test]
    fn messages_keep_their_order_and_buckets_however_they_are_taken() {
        let buckets = [0, 0, 7, 0, 3, 7, 0];
        let expected: Vec<(u8, u32)> = (0..).zip(buckets).collect();
        for taken in 0..=buckets.len() {
            let mut mailbox = mailbox(&buckets);
            let (mut first, mut second) = (Envelopes::default(), Envelopes::default());
            mailbox.take_batch(taken, &mut first);
            assert_eq!(first.len(), taken);
            mailbox.take_batch(usize::MAX, &mut second);
            let both = [pairs(&mut first), pairs(&mut second)].concat();
            assert_eq!(both, expected, "{taken} taken first");
            assert_eq!(mailbox.len(), 0);
        }
    }

    #[test]
    fn buckets_come_together_and_stay_in_order() {
        let mut batch = Envelopes::default();
        mailbox(&[0, 7, 3, 7, 0]).take_batch(usize::MAX, &mut batch);
        batch.sort_by_bucket();
        assert_eq!(pairs(&mut batch), [(0, 0), (4, 0), (2, 3), (1, 7), (3, 7)]);
    }

    #[test]
    fn what_is_put_back_comes_first() {
        let mut mailbox = mailbox(&[0, 0]);
        let back =
            [(8, 5), (9, 0)].map(|(number, bucket)| Envelope::local(message(number), bucket));
        mailbox.put_back(back.into_iter());
        let mut batch = Envelopes::default();
        mailbox.take_batch(usize::MAX, &mut batch);
        assert_eq!(pairs(&mut batch), [(8, 5), (9, 0), (0, 0), (1, 0)]);
    }

    #[test]
    fn a_bucket_is_taken_out_in_order_and_the_others_stay() {
        let mut mailbox = mailbox(&[0, 7, 3, 7, 0, 7]);
        let (taken, of_first) = mailbox.take_bucket(7, 2);
        let numbers = taken.iter().map(|e| e.incoming.message.body[0]);
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(of_first, 1);
        let mut batch = Envelopes::default();
        mailbox.take_batch(usize::MAX, &mut batch);
        assert_eq!(pairs(&mut batch), [(0, 0), (2, 3), (4, 0)]);
    }

    #[test]
    fn a_mark_is_reached_when_all_before_it_is_done_and_not_sooner() {
        let mut mailbox = mailbox(&[0, 7, 0]);
        mailbox.set_mark();
        mailbox.push(Envelope::local(message(3), 0));
        let mut batch = Envelopes::default();
        mailbox.take_batch(2, &mut batch);
        assert!(!mailbox.take_mark());
        mailbox.put_back(
            iter::from_fn(|| batch.pop())
                .collect::<Vec<_>>()
                .into_iter(),
        );
        assert_eq!(mailbox.take_bucket(7, 0).0.len(), 1);
        mailbox.take_batch(usize::MAX, &mut batch);
        assert_eq!(
            pairs(&mut batch),
            [(0, 0), (2, 0)],
            "what is behind it stays"
        );
        assert!(mailbox.take_mark());
        assert!(!mailbox.take_mark(), "it is gone");
        assert_eq!(mailbox.len(), 1);
    }

    #[test]
    fn only_plain_messages_are_handled_where_they_lie() {
        let mut batch = Envelopes::default();
        mailbox(&[0, 0, 0]).take_batch(usize::MAX, &mut batch);
        assert_eq!(batch.plain().map(|plain| plain.len()), Some(3));
        let mut batch = Envelopes::default();
        mailbox(&[0, 1, 0]).take_batch(usize::MAX, &mut batch);
        assert!(batch.plain().is_none());
    }
}
