//! Several changes as one step: messages consumed, messages sent, state written. All of it stands
//! in one record of the journal, or none of it happens.

use std::sync::Arc;

use journal::{AppendError, Position};
use kernel::{Destination, Name};
use parking_lot::MutexGuard;

use crate::broker::{Broker, Subscription};
use crate::delivery::Entry;
use crate::documents;
use crate::error::{CommitError, PublishError};
use crate::queue::{Core, Place, Publication, Queue};
use crate::records::{RecordWriter, publish_bytes};
use crate::shared::HeldTopic;
use crate::state::{Bucket, Plan, StateWrite};
use crate::topic::Topic;

/// What is to happen in one step.
#[derive(Default)]
pub struct Commit<'a> {
    /// The state it writes, with the epoch of the writer.
    pub state: Option<StateCommit>,
    /// The messages it consumes.
    pub consumed: Vec<Consumed<'a>>,
    /// The messages it sends. They leave when all of it is permanent.
    pub sends: Vec<(Destination, Publication)>,
}

/// State that a commit writes.
#[derive(Clone, Debug)]
pub struct StateCommit {
    /// The bucket.
    pub bucket: Name,
    /// The epoch in which the writer became its owner.
    pub epoch: u64,
    /// The changes, in order.
    pub writes: Vec<StateWrite>,
}

/// A message that a commit consumes.
pub struct Consumed<'a> {
    /// The subscription that holds it.
    pub subscription: &'a Subscription,
    /// Its id.
    pub id: u64,
    /// Whether all delivered before it are meant too.
    pub through: bool,
}

type CoreGuard<'a> = MutexGuard<'a, Core>;

/// Where a send goes.
enum Target {
    Queue(Arc<Queue>),
    Topic(Arc<Topic>),
}

/// The queues of a commit, locked in the order of their ranks.
struct Locked<'a> {
    queues: &'a [Arc<Queue>],
    cores: Vec<CoreGuard<'a>>,
}

impl<'a> Locked<'a> {
    fn new(queues: &'a [Arc<Queue>]) -> Self {
        let cores = queues.iter().map(|queue| queue.core.lock()).collect();
        Self { queues, cores }
    }

    fn index(&self, queue: &Arc<Queue>) -> usize {
        self.queues
            .binary_search_by_key(&queue.rank, |other| other.rank)
            .expect("every queue of the commit is locked")
    }

    fn core(&mut self, queue: &Arc<Queue>) -> &mut Core {
        let index = self.index(queue);
        &mut self.cores[index]
    }

    fn dispatch(mut self) {
        let served: Vec<_> = self
            .queues
            .iter()
            .zip(&mut self.cores)
            .map(|(queue, core)| (queue, queue.serve(core)))
            .collect();
        // What follows may lock a queue again, so all locks must be gone: otherwise two commits
        // could wait for each other.
        drop(self.cores);
        for (queue, follow_up) in served {
            queue.follow_up(follow_up);
        }
    }
}

/// What a commit sends to one queue, added up.
#[derive(Clone, Copy, Default)]
struct SendTotal {
    messages: usize,
    bytes: usize,
    /// One of them waits on disk, so those behind it have to as well.
    on_disk: bool,
}

/// A send to a queue, as decided before anything is written.
struct QueueSend {
    queue: Arc<Queue>,
    place: Place,
    entry: Entry,
}

impl QueueSend {
    fn is_stored(&self) -> bool {
        self.entry.durable || self.place == Place::Disk
    }
}

impl Broker {
    /// Does all of it or nothing. It is permanent once the journal is synced up to the position
    /// given back; without one it concerns memory only and is done.
    pub fn commit(&self, commit: Commit<'_>) -> Result<Option<Position>, CommitError> {
        if let Some(state) = &commit.state {
            documents::check_not_reserved(&state.bucket)?;
        }
        self.commit_to_any_bucket(commit)
    }

    /// The same, also for buckets that are not for everybody.
    pub(crate) fn commit_to_any_bucket(
        &self,
        commit: Commit<'_>,
    ) -> Result<Option<Position>, CommitError> {
        let bucket = match &commit.state {
            Some(state) => Some(self.bucket(&state.bucket)?),
            None => None,
        };
        let mut bucket = bucket.as_ref().map(|bucket| bucket.lock());
        let plan = match (&commit.state, &bucket) {
            (Some(state), Some(bucket)) => Some(self.check_state(state, bucket)?),
            _ => None,
        };
        let targets = self.targets(&commit)?;
        let queues = queues_by_rank(&commit, &targets);
        make_room(&commit, &targets, &queues)?;
        let mut locked = Locked::new(&queues);
        check_consumed(&commit, &mut locked)?;
        let sends = self.plan_sends(&commit, &targets, &mut locked)?;

        let keepers = plan.as_ref().map_or(0, |plan| plan.keepers);
        let stored = self.write_commit(&commit, &mut locked, &sends, keepers)?;

        for consumed in &commit.consumed {
            self.apply_consumed(consumed, &mut locked);
        }
        apply_sends(sends, &mut locked, stored);
        if let (Some(state), Some(plan), Some(bucket), Some(stored)) =
            (&commit.state, &plan, &mut bucket, stored)
        {
            self.apply_state(state, plan, bucket, stored);
        }
        locked.dispatch();
        drop(bucket);
        self.send_to_topics(commit.sends, targets, stored);
        self.shared.counters.commits.inc();
        Ok(stored)
    }

    /// What the commit makes of its bucket, if it is the owner's and fits.
    fn check_state(&self, state: &StateCommit, bucket: &Bucket) -> Result<Plan, CommitError> {
        if state.epoch != bucket.epoch {
            self.shared.counters.fenced.inc();
            return Err(CommitError::Fenced {
                bucket: state.bucket.clone(),
                given: state.epoch,
                current: bucket.epoch,
            });
        }
        let is_bounded = !documents::is_reserved(&state.bucket);
        if is_bounded && !state.writes.is_empty() && self.shared.state.is_full() {
            return Err(AppendError::NotReady.into());
        }
        let plan = bucket.plan(&state.writes)?;
        let bytes_max = self.shared.bucket_bytes_max();
        if plan.bytes > bytes_max {
            return Err(CommitError::StateTooLarge {
                bucket: state.bucket.clone(),
                bytes: plan.bytes,
                bytes_max,
            });
        }
        Ok(plan)
    }

    fn apply_state(&self, state: &StateCommit, plan: &Plan, bucket: &mut Bucket, stored: Position) {
        let before = bucket.memory_bytes();
        bucket.apply(&state.writes, plan, stored, |unneeded| {
            self.shared.journal.release(unneeded, 1);
        });
        if !documents::is_reserved(&state.bucket) {
            self.shared.state.changed(before, bucket.memory_bytes());
        }
    }

    /// Where each send goes.
    fn targets(&self, commit: &Commit<'_>) -> Result<Vec<Target>, CommitError> {
        let target = |destination: &Destination| {
            Ok(match destination {
                Destination::Queue(name) => Target::Queue(self.queue(name)?),
                Destination::Topic(name) => Target::Topic(self.topic(name)?),
            })
        };
        commit.sends.iter().map(|(to, _)| target(to)).collect()
    }

    /// Decides where each send to a queue will wait, or that one does not fit.
    fn plan_sends(
        &self,
        commit: &Commit<'_>,
        targets: &[Target],
        locked: &mut Locked<'_>,
    ) -> Result<Vec<QueueSend>, CommitError> {
        let mut sends: Vec<QueueSend> = Vec::new();
        let mut totals = vec![SendTotal::default(); locked.queues.len()];
        for (queue, publication) in queue_sends(commit, targets) {
            let total = &mut totals[locked.index(queue)];
            total.messages += 1;
            total.bytes += publication.size_bytes();
            let core = locked.core(queue);
            core.check_limits(total.messages, total.bytes)
                .map_err(|full| PublishError::full(queue.name(), full))?;
            let memory_is_short = total.on_disk || self.shared.memory_is_short(total.bytes);
            let place = core.place(total.bytes, memory_is_short);
            total.on_disk = place == Place::Disk;
            let durable = core.settings.is_durable(publication.durable);
            sends.push(QueueSend {
                queue: queue.clone(),
                place,
                entry: Entry::new(core.take_id(), publication.message.clone(), durable),
            });
        }
        Ok(sends)
    }

    /// Writes the one record, if anything in the commit has to be stored.
    fn write_commit(
        &self,
        commit: &Commit<'_>,
        locked: &mut Locked<'_>,
        sends: &[QueueSend],
        kept_writes: u32,
    ) -> Result<Option<Position>, CommitError> {
        let settles = durable_consumed(commit, locked);
        let writes = commit.state.iter().flat_map(|state| &state.writes);
        let stored_sends = || sends.iter().filter(|send| send.is_stored());
        let keepers = kept_writes + stored_sends().count() as u32;
        if settles.is_empty() && writes.clone().next().is_none() && stored_sends().next().is_none()
        {
            return Ok(None);
        }
        let hint = settles
            .iter()
            .map(|(_, ids)| 300 + ids.len() * 8)
            .sum::<usize>()
            + stored_sends()
                .map(|send| publish_bytes(send.queue.name(), &send.entry.message))
                .sum::<usize>()
            + writes.clone().map(|w| 300 + w.len_bytes()).sum::<usize>();
        let write = |writer: &mut RecordWriter<'_>| {
            for (queue, ids) in &settles {
                writer.settle(queue, ids.iter().copied());
            }
            for send in stored_sends() {
                let entry = &send.entry;
                writer.publish(
                    send.queue.name(),
                    entry.id,
                    entry.durable,
                    0,
                    &entry.message,
                );
            }
            if let Some(state) = &commit.state {
                for write in &state.writes {
                    write.write(&state.bucket, writer);
                }
            }
        };
        let stored = self.shared.journal.append_many(|appender| {
            if keepers > 0 {
                appender.check_ready()?;
            }
            appender.append_with(hint, keepers, |buffer| write(&mut RecordWriter(buffer)))
        })??;
        Ok(Some(stored))
    }

    fn apply_consumed(&self, consumed: &Consumed<'_>, locked: &mut Locked<'_>) {
        match consumed.subscription {
            Subscription::Queue(subscription) => {
                let core = locked.core(subscription.queue());
                let mut taken = core.spare();
                let (id, through) = (consumed.id, consumed.through);
                core.acknowledge(subscription.index(), id, through, &mut taken);
                for position in taken.iter().filter_map(|entry| entry.stored) {
                    self.shared.journal.release(position, 1);
                }
                core.put_spare(taken);
            }
            Subscription::Topic(subscription) => {
                subscription.acknowledge(consumed.id, consumed.through);
            }
        }
    }

    /// Topics store nothing, so what goes there waits here until the commit is permanent.
    fn send_to_topics(
        &self,
        sends: Vec<(Destination, Publication)>,
        targets: Vec<Target>,
        stored: Option<Position>,
    ) {
        for ((_, publication), target) in sends.into_iter().zip(targets) {
            if let Target::Topic(topic) = target {
                self.shared.publish_when_synced(HeldTopic {
                    topic,
                    publication,
                    until: stored.unwrap_or(Position::ZERO),
                });
            }
        }
    }
}

/// The sends to queues, in their order.
fn queue_sends<'a>(
    commit: &'a Commit<'_>,
    targets: &'a [Target],
) -> impl Iterator<Item = (&'a Arc<Queue>, &'a Publication)> {
    let sends = commit.sends.iter().zip(targets);
    sends.filter_map(|((_, publication), target)| match target {
        Target::Queue(queue) => Some((queue, publication)),
        Target::Topic(_) => None,
    })
}

/// All queues of a commit in the order in which they are locked.
fn queues_by_rank(commit: &Commit<'_>, targets: &[Target]) -> Vec<Arc<Queue>> {
    let consumed = commit.consumed.iter().filter_map(|c| match c.subscription {
        Subscription::Queue(subscription) => Some(subscription.queue()),
        Subscription::Topic(_) => None,
    });
    let sent_to = queue_sends(commit, targets).map(|(queue, _)| queue);
    let mut queues: Vec<Arc<Queue>> = consumed.chain(sent_to).cloned().collect();
    queues.sort_by_key(|queue| queue.rank);
    queues.dedup_by_key(|queue| queue.rank);
    queues
}

/// Makes room where the oldest has to go for the new. Done before all queues are locked, since
/// what goes needs the dead letters, which may be among them.
fn make_room(
    commit: &Commit<'_>,
    targets: &[Target],
    queues: &[Arc<Queue>],
) -> Result<(), CommitError> {
    for queue in queues {
        let mut core = queue.core.lock();
        if core.makes_room() {
            let sends = queue_sends(commit, targets).filter(|(other, _)| Arc::ptr_eq(other, queue));
            let (messages, bytes) = sends.fold((0, 0), |(messages, bytes), (_, publication)| {
                (messages + 1, bytes + publication.size_bytes())
            });
            queue.make_room(&mut core, messages, bytes)?;
        }
    }
    Ok(())
}

/// Puts what a commit sends into its queues, to leave when the commit is permanent.
fn apply_sends(sends: Vec<QueueSend>, locked: &mut Locked<'_>, stored: Option<Position>) {
    for mut send in sends {
        if send.is_stored() {
            send.entry.stored = stored;
        }
        send.entry.held_until = stored.unwrap_or(Position::ZERO);
        let core = locked.core(&send.queue);
        send.queue.insert(core, send.place, send.entry);
    }
}

fn check_consumed(commit: &Commit<'_>, locked: &mut Locked<'_>) -> Result<(), CommitError> {
    for consumed in &commit.consumed {
        let held = match consumed.subscription {
            Subscription::Queue(subscription) => locked
                .core(subscription.queue())
                .subscriber(subscription.index())
                .is_some_and(|s| s.covers(consumed.id, consumed.through).next().is_some()),
            Subscription::Topic(subscription) => subscription.holds(consumed.id, consumed.through),
        };
        if !held {
            return Err(CommitError::NotHeld {
                queue: consumed.subscription.name().clone(),
                id: consumed.id,
            });
        }
    }
    Ok(())
}

/// The ids of stored messages that a commit consumes, by queue.
fn durable_consumed(commit: &Commit<'_>, locked: &mut Locked<'_>) -> Vec<(Name, Vec<u64>)> {
    let mut settles: Vec<(Name, Vec<u64>)> = Vec::new();
    for consumed in &commit.consumed {
        let Subscription::Queue(subscription) = consumed.subscription else {
            continue;
        };
        let core = locked.core(subscription.queue());
        let Some(subscriber) = core.subscriber(subscription.index()) else {
            continue;
        };
        let ids = subscriber
            .covers(consumed.id, consumed.through)
            .filter(|entry| entry.durable)
            .map(|entry| entry.id);
        let name = subscription.queue().name();
        match settles.iter_mut().find(|(queue, _)| queue == name) {
            Some((_, list)) => list.extend(ids),
            None => settles.push((name.clone(), ids.collect())),
        }
    }
    settles.retain(|(_, ids)| !ids.is_empty());
    settles
}
