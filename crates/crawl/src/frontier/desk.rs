//! What all workers of a node share of frontiers: buckets between two turns, and visits that have ended.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kernel::StageAddress;
use kernel::worker::Wake;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::{Bucket, HostView, Numbers};
use crate::visit::{Ended, Endings};

/// How long visits that have ended wait for others before the frontier is told.
const GATHER: Duration = Duration::from_millis(5);
/// A bucket that had no turn for so long belongs to somebody else by now.
const FORGET_AFTER: Duration = Duration::from_secs(20);

/// The frontiers of a node.
#[derive(Default)]
pub struct Frontiers(Mutex<HashMap<StageAddress, Arc<StageFrontier>>>);

/// The buckets of one stage that this node has.
#[derive(Default)]
pub(crate) struct StageFrontier {
    slots: Mutex<HashMap<u64, Arc<Slot>>>,
    /// How often somebody found no room.
    hungers: AtomicU64,
}

/// One bucket between two turns. It survives the worker, which may be replaced at any time.
pub(crate) struct Slot {
    kept: Mutex<Kept>,
    pub endings: Arc<BucketEndings>,
}

struct Kept {
    bucket: Option<(u64, Box<Bucket>)>,
    numbers: Numbers,
    last_turn: std::time::Instant,
    alarm: Option<(u64, AbortHandle)>,
    /// Since when, among others, it could hand out more if there were room, and how it is told that there is.
    hungry: Option<(u64, Arc<dyn Wake>)>,
}

/// What a frontier has, as numbers, and its hosts.
#[derive(Clone, Debug, Default)]
pub struct FrontierView {
    /// URLs that wait or are under way.
    pub waiting: u64,
    /// Of these, how many are under way.
    pub under_way: u64,
    /// Requests that were answered.
    pub fetched: u64,
    /// Requests that failed for good.
    pub failed: u64,
    /// Hosts in memory, those with most waiting first.
    pub hosts: Vec<HostView>,
}

impl Frontiers {
    /// That of a stage.
    pub(crate) fn stage(&self, stage: &StageAddress) -> Arc<StageFrontier> {
        self.0.lock().entry(stage.clone()).or_default().clone()
    }

    /// What a stage has on this node, with at most so many hosts; none if it never had anything.
    pub fn view(&self, stage: &StageAddress, hosts_max: usize) -> Option<FrontierView> {
        let stage = self.0.lock().get(stage)?.clone();
        let numbers = stage.numbers();
        let mut hosts = stage.hosts();
        hosts.sort_by_key(|host| std::cmp::Reverse((host.waiting, host.fetched)));
        hosts.truncate(hosts_max);
        Some(FrontierView {
            waiting: numbers.waiting,
            under_way: numbers.under_way,
            fetched: numbers.fetched,
            failed: numbers.failed,
            hosts,
        })
    }
}

impl StageFrontier {
    /// The slot of a bucket.
    pub fn slot(&self, id: u64) -> Arc<Slot> {
        let new = || {
            Arc::new(Slot {
                kept: Mutex::new(Kept {
                    bucket: None,
                    numbers: Numbers::default(),
                    last_turn: std::time::Instant::now(),
                    alarm: None,
                    hungry: None,
                }),
                endings: Arc::default(),
            })
        };
        self.slots.lock().entry(id).or_insert_with(new).clone()
    }

    /// The numbers of all buckets together.
    pub fn numbers(&self) -> Numbers {
        let mut slots = self.slots.lock();
        slots.retain(|_, slot| slot.kept.lock().last_turn.elapsed() < FORGET_AFTER);
        let mut all = Numbers::default();
        for slot in slots.values() {
            let numbers = slot.kept.lock().numbers;
            all.waiting += numbers.waiting;
            all.under_way += numbers.under_way;
            all.fetched += numbers.fetched;
            all.failed += numbers.failed;
        }
        all
    }

    /// How many of so many a bucket may hand out, if all buckets together may have so many under way, and so many under way and answered.
    /// While others find no room it has an equal share at most, and room that it leaves is theirs.
    pub fn reserve(
        &self,
        slot: &Arc<Slot>,
        own: Numbers,
        most: usize,
        (under_way_max, pages_max): (u64, u64),
    ) -> usize {
        let slots = self.slots.lock();
        let (mut under_way, mut fetched) = (own.under_way, own.fetched);
        let mut of_hungry = own.under_way;
        let mut hungry: Vec<(u64, Arc<dyn Wake>)> = Vec::new();
        for other in slots.values().filter(|other| !Arc::ptr_eq(other, slot)) {
            let kept = other.kept.lock();
            under_way += kept.numbers.under_way;
            fetched += kept.numbers.fetched;
            if let Some(other) = &kept.hungry {
                of_hungry += kept.numbers.under_way;
                hungry.push(other.clone());
            }
        }
        let room = under_way_max.saturating_sub(under_way);
        let left = pages_max.saturating_sub(under_way + fetched);
        let mut granted = (most as u64).min(room).min(left);
        if !hungry.is_empty() {
            let shared = under_way_max.saturating_sub(under_way - of_hungry);
            let share = shared.div_ceil(hungry.len() as u64 + 1).max(1);
            granted = granted.min(share.saturating_sub(own.under_way));
        }
        let mut kept = slot.kept.lock();
        kept.numbers = Numbers {
            under_way: own.under_way + granted,
            ..own
        };
        kept.hungry = None;
        drop(kept);
        // Those who have waited longest come first.
        hungry.sort_by_key(|(since, _)| *since);
        let offered = hungry.iter().take((room.min(left) - granted) as usize);
        offered.for_each(|(_, waker)| waker.wake());
        granted as usize
    }

    /// A bucket could hand out more, but there is no room: it is told as soon as there is.
    pub fn hunger(&self, slot: &Arc<Slot>, waker: Arc<dyn Wake>) {
        let since = self.hungers.fetch_add(1, Ordering::Relaxed);
        slot.kept.lock().hungry = Some((since, waker));
    }

    fn hosts(&self) -> Vec<HostView> {
        let slots: Vec<_> = self.slots.lock().values().cloned().collect();
        let mut hosts = Vec::new();
        for slot in slots {
            if let Some((_, bucket)) = &slot.kept.lock().bucket {
                hosts.extend(bucket.hosts());
            }
        }
        hosts
    }
}

impl Slot {
    /// The bucket as it was after the turn that committed this version. Whoever takes it puts it back; a turn that fails does not,
    /// and the next one reads everything anew.
    pub fn take(&self, version: u64) -> Option<Box<Bucket>> {
        let (kept, bucket) = self.kept.lock().bucket.take()?;
        (kept == version).then_some(bucket)
    }

    /// Puts a bucket back.
    pub fn put(&self, version: u64, bucket: Box<Bucket>) {
        let mut kept = self.kept.lock();
        kept.numbers = bucket.numbers();
        kept.last_turn = std::time::Instant::now();
        kept.bucket = Some((version, bucket));
    }

    /// Wakes the worker at this time, or earlier if that was asked for before.
    pub fn wake_at(self: &Arc<Self>, due_ms: u64, now_ms: u64, waker: Arc<dyn Wake>) {
        let mut kept = self.kept.lock();
        if kept
            .alarm
            .as_ref()
            .is_some_and(|(set, alarm)| !alarm.is_finished() && (now_ms..=due_ms).contains(set))
        {
            return;
        }
        if let Some((_, alarm)) = kept.alarm.take() {
            alarm.abort();
        }
        if due_ms <= now_ms {
            waker.wake();
            return;
        }
        let after = Duration::from_millis(due_ms - now_ms);
        let sleeping = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            waker.wake();
        });
        kept.alarm = Some((due_ms, sleeping.abort_handle()));
    }
}

/// Visits of one bucket that have ended, until its next turn.
#[derive(Default)]
pub(crate) struct BucketEndings(Mutex<Gathered>);

#[derive(Default)]
struct Gathered {
    ended: Vec<Ended>,
    /// How the worker is woken.
    way: Option<(Arc<dyn Wake>, Handle)>,
    /// It is woken as soon as there are so many.
    enough: usize,
    is_told: bool,
    /// Whether somebody wakes it in a moment.
    is_waited_for: bool,
}

impl BucketEndings {
    /// Those that have ended. From now on this waker is used, as soon as so many have ended, or a moment after the first.
    pub fn take(&self, waker: Arc<dyn Wake>, enough: usize) -> Vec<Ended> {
        let mut gathered = self.0.lock();
        gathered.way = Some((waker, Handle::current()));
        gathered.enough = enough;
        gathered.is_told = false;
        std::mem::take(&mut gathered.ended)
    }

    /// Sets how many are enough.
    pub fn expect(&self, enough: usize) {
        self.0.lock().enough = enough;
    }

    fn tell(&self) {
        let mut gathered = self.0.lock();
        gathered.is_waited_for = false;
        if gathered.is_told || gathered.ended.is_empty() {
            return;
        }
        gathered.is_told = true;
        if let Some((waker, _)) = &gathered.way {
            waker.wake();
        }
    }
}

/// Whom visits tell, as long as there is somebody.
pub(crate) struct Teller(pub Weak<BucketEndings>);

impl Endings for Teller {
    fn ended(&self, ended: Ended) {
        let Some(endings) = self.0.upgrade() else {
            return;
        };
        let mut gathered = endings.0.lock();
        gathered.ended.push(ended);
        if gathered.is_told {
            return;
        }
        let is_enough = gathered.ended.len() >= gathered.enough;
        let Some((waker, tokio)) = &gathered.way else {
            return;
        };
        if is_enough {
            waker.wake();
            gathered.is_told = true;
        } else if !gathered.is_waited_for {
            let later = endings.clone();
            tokio.spawn(async move {
                tokio::time::sleep(GATHER).await;
                later.tell();
            });
            gathered.is_waited_for = true;
        }
    }
}
