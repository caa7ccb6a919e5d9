//! Live numbers of all nodes together, for those who watch.
//!
//! A node looks at itself only while somebody watches, here or elsewhere, and as often as the most impatient wants. Who watches
//! says so on the topic `hivewire.live.wanted` again and again; while somebody does, each node tells on `hivewire.live` what has
//! changed. Whoever shows numbers puts together what all nodes have told last.

mod look;
mod numbers;
mod sharing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bus::Bus;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use self::look::Looks;
pub(crate) use self::numbers::{EdgeNumbers, Numbers, QueueNumbers, StageNumbers};
use self::sharing::{Sharing, Told, Wanted};
use crate::http;
use crate::rest::Running;

/// Nobody gets numbers more often.
pub(crate) const PERIOD_MIN: Duration = Duration::from_millis(100);
pub(crate) const PERIOD_MAX: Duration = Duration::from_secs(60);
/// How many may watch at a time.
const WATCHERS_MAX: usize = 200;
/// Whoever watches elsewhere says so again within this time.
const RENEWED_EVERY: Duration = Duration::from_secs(3);
/// Who did not is forgotten.
const LEASE: Duration = Duration::from_secs(10);
/// A node that tells nothing for so long is forgotten, too.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// A node says at least so often that nothing has changed.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// And everything at least so often: what it told before may have been lost.
const ALL_EVERY: Duration = Duration::from_secs(5);
/// How many nodes elsewhere are known to watch.
const LEASES_MAX: usize = 1_000;

/// Too many watch already.
#[derive(Debug, thiserror::Error)]
#[error(
    "{WATCHERS_MAX} watch the live numbers of this node already: try again later, or at another node"
)]
pub(crate) struct Full;

/// Live numbers.
pub(crate) struct Live {
    node: String,
    /// None if the node stands alone.
    sharing: Option<Sharing>,
    state: Mutex<State>,
    /// Somebody begins to watch, or stops.
    changed: Notify,
    /// Told whenever there are new numbers.
    looked: watch::Sender<u64>,
    watchers: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// How often those want numbers who watch here, by who it is.
    watchers: BTreeMap<u64, Duration>,
    next_watcher: u64,
    /// Until when nodes elsewhere want numbers, and how often.
    leases: BTreeMap<String, (Instant, Duration)>,
    /// Somebody elsewhere is new and knows nothing yet.
    is_anew: bool,
    own: Option<Numbers>,
    others: BTreeMap<String, Other>,
}

/// What another node has told.
struct Other {
    run: u64,
    numbers: Numbers,
    heard_at: Instant,
}

impl State {
    fn period(&mut self, now: Instant) -> Option<Duration> {
        self.leases.retain(|_, (until, _)| *until > now);
        let elsewhere = self.leases.values().map(|(_, period)| period);
        self.watchers.values().chain(elsewhere).min().copied()
    }

    fn all(&mut self, now: Instant) -> Option<Numbers> {
        let lives = |other: &Other| now.duration_since(other.heard_at) < SILENCE_MAX;
        self.others.retain(|_, other| lives(other));
        let mut all = self.own.clone()?;
        for other in self.others.values() {
            all.merge(&other.numbers);
        }
        Some(all)
    }

    fn wanted(&mut self, wanted: Wanted, now: Instant) {
        let is_new = !self.leases.contains_key(&wanted.node);
        if is_new && self.leases.len() >= LEASES_MAX {
            return;
        }
        let period = Duration::from_millis(wanted.period_ms).clamp(PERIOD_MIN, PERIOD_MAX);
        self.is_anew |= is_new;
        self.leases.insert(wanted.node, (now + LEASE, period));
    }

    fn told(&mut self, told: Told, now: Instant) {
        let known = self.others.get(&told.node);
        let is_known = known.is_some_and(|known| known.run == told.run);
        if !told.complete && !is_known {
            // The beginning was missed; all comes again soon.
            return;
        }
        let other = self.others.entry(told.node).or_insert_with(|| Other {
            run: told.run,
            numbers: Numbers::default(),
            heard_at: now,
        });
        if told.complete {
            other.run = told.run;
            other.numbers = Numbers::default();
        }
        other.heard_at = now;
        other.numbers.apply(told.changes);
    }
}

impl Live {
    /// Live numbers of a node, and of others if it shares this bus with them.
    pub fn new(node: &str, bus: Option<Arc<dyn Bus>>) -> Arc<Self> {
        Arc::new(Self {
            node: node.to_owned(),
            sharing: bus.map(Sharing::over),
            state: Mutex::default(),
            changed: Notify::new(),
            looked: watch::Sender::new(0),
            watchers: AtomicUsize::new(0),
        })
    }

    /// Begins to watch.
    pub fn watch(self: &Arc<Self>, period: Duration) -> Result<Watching, Full> {
        if self.watchers.fetch_add(1, Ordering::SeqCst) >= WATCHERS_MAX {
            self.watchers.fetch_sub(1, Ordering::SeqCst);
            return Err(Full);
        }
        let period = period.clamp(PERIOD_MIN, PERIOD_MAX);
        let mut state = self.state.lock();
        state.next_watcher += 1;
        let number = state.next_watcher;
        state.watchers.insert(number, period);
        drop(state);
        self.changed.notify_waiters();
        Ok(Watching {
            looked: self.looked.subscribe(),
            live: self.clone(),
            number,
            period,
            due: Instant::now(),
        })
    }

    /// Looks at this node whenever somebody wants that, until it stops.
    pub async fn run(self: Arc<Self>, running: Arc<Running>, mut stopped: watch::Receiver<bool>) {
        let looking = self.look_again_and_again(&running);
        let (hearing_wanted, hearing_told) = (self.hear_wanted(), self.hear_told());
        let asking = self.ask();
        tokio::select! {
            () = looking => {}
            () = hearing_wanted => {}
            () = hearing_told => {}
            () = asking => {}
            () = http::stopped(&mut stopped) => {}
        }
    }

    async fn look_again_and_again(&self, running: &Arc<Running>) {
        let mut looks = Looks::default();
        let mut telling = Telling::default();
        loop {
            let changed = self.changed.notified();
            let period = self.state.lock().period(Instant::now());
            let Some(period) = period else {
                looks.forget();
                telling = Telling::default();
                self.state.lock().own = None;
                changed.await;
                continue;
            };
            let began = Instant::now();
            let (of, mut taken) = (running.clone(), looks);
            let look = tokio::task::spawn_blocking(move || {
                let numbers = taken.take(&of, Instant::now());
                (taken, numbers)
            });
            match look.await {
                Ok((kept, numbers)) => {
                    looks = kept;
                    if looks.has_rates() {
                        self.looked(&numbers, &mut telling).await;
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "looking at stages broke off");
                    looks = Looks::default();
                }
            }
            // The second look comes soon, for there are no rates before it.
            let pause = match looks.has_rates() {
                // Others have to hear that this node lives.
                true => period.min(TOLD_EVERY),
                false => PERIOD_MIN,
            };
            tokio::select! {
                () = sleep(pause.saturating_sub(began.elapsed())) => {}
                // Whoever is new need not wait for the others.
                () = changed => sleep(PERIOD_MIN.saturating_sub(began.elapsed())).await,
            }
        }
    }

    async fn looked(&self, numbers: &Numbers, telling: &mut Telling) {
        let now = Instant::now();
        let (is_wanted, is_anew) = {
            let mut state = self.state.lock();
            state.own = Some(numbers.clone());
            let is_anew = std::mem::take(&mut state.is_anew);
            (!state.leases.is_empty(), is_anew)
        };
        self.looked.send_modify(|count| *count += 1);
        let Some(sharing) = self.sharing.as_ref().filter(|_| is_wanted) else {
            return;
        };
        for told in telling.next(&self.node, numbers, is_anew, now) {
            if let Err(error) = sharing.tell(&told).await {
                tracing::debug!(%error, "other nodes could not be told live numbers");
                telling.all_at = None;
                return;
            }
        }
    }

    /// Tells the other nodes that somebody watches here, as long as somebody does.
    async fn ask(&self) {
        let Some(sharing) = &self.sharing else {
            return std::future::pending().await;
        };
        loop {
            let changed = self.changed.notified();
            let period = {
                let state = self.state.lock();
                state.watchers.values().min().copied()
            };
            let Some(period) = period else {
                changed.await;
                continue;
            };
            let wanted = Wanted {
                node: self.node.clone(),
                period_ms: period.as_millis() as u64,
            };
            if let Err(error) = sharing.want(&wanted).await {
                tracing::debug!(%error, "other nodes could not be told that somebody watches; trying again");
            }
            tokio::select! {
                () = sleep(RENEWED_EVERY) => {}
                () = changed => sleep(PERIOD_MIN).await,
            }
        }
    }

    async fn hear_wanted(&self) {
        let Some(sharing) = &self.sharing else {
            return std::future::pending().await;
        };
        let heard = |wanted: Wanted| {
            if wanted.node != self.node {
                self.state.lock().wanted(wanted, Instant::now());
                self.changed.notify_waiters();
            }
        };
        sharing.hear_wanted(heard).await;
    }

    /// Hears what other nodes tell, as long as somebody watches here.
    async fn hear_told(&self) {
        let Some(sharing) = &self.sharing else {
            return std::future::pending().await;
        };
        loop {
            let changed = self.changed.notified();
            if self.state.lock().watchers.is_empty() {
                changed.await;
                continue;
            }
            drop(changed);
            let heard = |told: Told| {
                if told.node != self.node {
                    self.state.lock().told(told, Instant::now());
                }
            };
            tokio::select! {
                () = sharing.hear_told(heard) => {}
                () = self.nobody_watches() => self.state.lock().others.clear(),
            }
        }
    }

    async fn nobody_watches(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().watchers.is_empty() {
                return;
            }
            changed.await;
        }
    }
}

/// What the other nodes know of this one.
#[derive(Default)]
struct Telling {
    run: u64,
    told: Numbers,
    told_at: Option<Instant>,
    all_at: Option<Instant>,
}

impl Telling {
    /// What is to be told now.
    fn next(&mut self, node: &str, now: &Numbers, is_anew: bool, at: Instant) -> Vec<Told> {
        let is_over = |since: Option<Instant>, after: Duration| {
            since.is_none_or(|since| at.duration_since(since) >= after)
        };
        let complete = is_anew || is_over(self.all_at, ALL_EVERY);
        if complete {
            self.run = fastrand::u64(1..1 << 53);
            self.all_at = Some(at);
            self.told = Numbers::default();
        }
        let changes = now.since(&self.told);
        if changes.is_empty() && !complete && !is_over(self.told_at, TOLD_EVERY) {
            return Vec::new();
        }
        self.told_at = Some(at);
        self.told = now.clone();
        let parts = changes.split(sharing::ENTRIES_MAX).into_iter();
        let told = parts.enumerate().map(|(number, changes)| Told {
            node: node.to_owned(),
            run: self.run,
            complete: complete && number == 0,
            changes,
        });
        told.collect()
    }
}

/// Somebody watches until this is dropped.
pub(crate) struct Watching {
    live: Arc<Live>,
    looked: watch::Receiver<u64>,
    number: u64,
    period: Duration,
    due: Instant,
}

impl Watching {
    /// The next numbers, after the period at the earliest. Those that came meanwhile are left out. Nothing is lost if this is
    /// given up.
    pub async fn next(&mut self) -> Numbers {
        loop {
            let now = Instant::now();
            if self.due > now {
                tokio::time::sleep_until(self.due.into()).await;
            }
            // The sender lives as long as this.
            let _ = self.looked.changed().await;
            let all = self.live.state.lock().all(Instant::now());
            if let Some(all) = all {
                // The next look is some time after this one, so not quite the whole period has to pass.
                self.due = Instant::now() + self.period.mul_f64(0.8);
                return all;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.live.state.lock().watchers.remove(&self.number);
        self.live.watchers.fetch_sub(1, Ordering::SeqCst);
        self.live.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(node: &str, period_ms: u64) -> Wanted {
        Wanted {
            node: node.to_owned(),
            period_ms,
        }
    }

    fn numbers(waiting: u64) -> Numbers {
        let queue = QueueNumbers {
            waiting,
            in_rate: 0.0,
            out_rate: 0.0,
            oldest_ms: None,
        };
        let mut numbers = Numbers::default();
        numbers.queues.insert("orders".to_owned(), queue);
        numbers
    }

    #[test]
    fn the_most_impatient_decides_and_leases_end() {
        let mut state = State::default();
        let now = Instant::now();
        assert_eq!(state.period(now), None);
        state.wanted(wanted("b", 1), now);
        assert_eq!(state.period(now), Some(PERIOD_MIN), "not more often");
        state.wanted(wanted("c", 500), now + LEASE / 2);
        state.watchers.insert(1, Duration::from_secs(1));
        assert_eq!(state.period(now), Some(PERIOD_MIN));
        assert_eq!(state.period(now + LEASE), Some(Duration::from_millis(500)));
        assert_eq!(state.period(now + 2 * LEASE), Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_a_node_tells_is_what_another_one_knows() {
        let (mut telling, mut state) = (Telling::default(), State::default());
        let now = Instant::now();
        state.own = Some(numbers(1));
        let waiting = |state: &mut State, at| state.all(at).unwrap().queues["orders"].waiting;
        let mut hear = |state: &mut State, count, is_anew, at| {
            let told = telling.next("b", &numbers(count), is_anew, at);
            let told: Vec<Told> = told
                .iter()
                .map(|told| serde_json::from_slice(&serde_json::to_vec(told).unwrap()).unwrap())
                .collect();
            let count = told.len();
            told.into_iter().for_each(|told| state.told(told, at));
            count
        };
        assert_eq!(hear(&mut state, 5, false, now), 1);
        assert_eq!(waiting(&mut state, now), 6);
        assert_eq!(hear(&mut state, 5, false, now), 0, "nothing has changed");
        assert_eq!(hear(&mut state, 7, false, now), 1);
        assert_eq!(waiting(&mut state, now), 8);
        assert_eq!(hear(&mut state, 7, false, now + TOLD_EVERY), 1, "it lives");
        let later = now + TOLD_EVERY + SILENCE_MAX;
        assert_eq!(waiting(&mut state, later), 1, "it is gone");
        let told = Told {
            node: "b".to_owned(),
            run: 1,
            complete: false,
            changes: numbers(9).since(&Numbers::default()),
        };
        state.told(told, later);
        assert_eq!(waiting(&mut state, later), 1, "its beginning was missed");
        assert_eq!(hear(&mut state, 2, true, later), 1);
        assert_eq!(waiting(&mut state, later), 3);
    }
}
