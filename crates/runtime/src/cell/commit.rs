//! From what a turn did to one commit: all of it, or nothing.

use std::cell::{Cell as StdCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bus::{BusError, Commit, Consumed, Owner, StateWrite, Submitted};
use bytes::{BufMut, Bytes, BytesMut};
use kernel::worker::{
    Ask, ChildChange, Effects, Failure, FailureKind, Incoming, Kind, Outgoing, ReplyTo, Row,
    Stretch, Target, TimerChange, Turn, Value,
};
use kernel::{Address, Destination, Headers, Message, Timestamp};

use super::Cell;
use super::run::{ASK_PREFIX, Run};
use crate::alarm_clock::What;
use crate::mailbox::{Pulled, Source};
use crate::outgoing::{LocalTarget, Locals, Route, Way, answer_of};
use crate::outputs::{EdgeCount, Sampler, Taken};
use crate::scope::{Scope, keys};
use crate::stage::Stage;
use crate::turn_threads;

/// How long to wait before a commit that found no room is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What a commit does, sorted by who does it.
#[derive(Default)]
pub(super) struct Plan {
    pub writes: Vec<StateWrite>,
    pub sends: Vec<(Destination, Message)>,
    pub local: Locals,
    alarms: Vec<AlarmChange>,
    children: Vec<ChildChange>,
    ends: bool,
}

/// Where an output leads.
#[derive(Default)]
struct Edges<'a> {
    edges: Vec<Edge<'a>>,
    /// Set if somebody wants to see what leaves there.
    sample: Option<(&'a Arc<Sampler>, RefCell<Taken>)>,
}

/// One of the places that an output leads to.
struct Edge<'a> {
    to: To<'a>,
    count: &'a Arc<EdgeCount>,
    /// How many messages of the turn go there.
    sent: StdCell<u64>,
}

enum To<'a> {
    /// Straight to workers of this process.
    Local { stage: Arc<Stage>, way: Way },
    /// Elsewhere.
    Other(&'a Address),
}

/// Where an edge of a stage leads now.
fn to<'a>(from: &Stage, address: &'a Address) -> To<'a> {
    let Address::Stage(to) = address else {
        return To::Other(address);
    };
    match from.runtime.stage(to) {
        Some(stage) if stage.is_memory() => To::Local {
            way: match from.is_in_cycle_with(&stage) {
                true => Way::Inside,
                false => Way::Edge,
            },
            stage,
        },
        _ => To::Other(address),
    }
}

impl Edge<'_> {
    fn note(&self, messages: usize) {
        self.sent.set(self.sent.get() + messages as u64);
    }
}

impl Edges<'_> {
    fn sample(&self, message: &Message, value: Option<&Arc<dyn Value>>) {
        if let Some((_, taken)) = &self.sample {
            taken.borrow_mut().take(message, value);
        }
    }

    /// What was sent counts once it has arrived.
    fn leave(self, plan: &mut Plan) {
        for edge in self.edges {
            if edge.sent.get() > 0 {
                plan.local.count(edge.count, edge.sent.get());
            }
        }
        if let Some((sampler, taken)) = self.sample {
            plan.local.sample(sampler, taken.into_inner());
        }
    }
}

struct AlarmChange {
    what: What,
    /// When it goes off and with what; none takes it back.
    set: Option<(Timestamp, Bytes)>,
}

impl Run {
    /// Commits the turn with the messages at hand. Afterwards they are done; after a failure they
    /// are still at hand, unless they belong to somebody else by now.
    pub async fn commit(&mut self, scope: &Scope) -> Result<(), Failure> {
        if self.is_local() && self.turn(scope).effects().is_empty() {
            self.desk.forget_messages();
            return Ok(());
        }
        if self.answer_at_once(scope) {
            return Ok(());
        }
        let mut effects = self.turn(scope).take_effects();
        let plan = self.plan(scope, &mut effects)?;
        self.turn(scope).give_memory(effects);
        // What quick turns do not need would make every activation larger.
        Box::pin(self.carry_out(scope, plan)).await
    }

    /// If there is nothing to commit but answers to those who wait in this process, they get them.
    fn answer_at_once(&mut self, scope: &Scope) -> bool {
        let extras = self.body.extras.as_ref();
        let completions = extras.and_then(|extras| extras.completions.as_ref());
        if !self.is_local() || completions.is_some_and(|completions| !completions.is_empty()) {
            return false;
        }
        self.turn(scope);
        let desk = &mut *self.desk;
        let turn = desk.turn.as_mut().map(|(_, turn)| turn);
        let Some(answers) = turn.and_then(Turn::take_answers) else {
            return false;
        };
        desk.incomings.clear();
        desk.stretches.clear();
        for (to, message) in answers {
            if let ReplyTo::Waiting(answer) = to {
                answer.answer(message);
                turn_threads::note_answer();
            }
        }
        true
    }

    /// Commits effects that belong to no message, such as those of `init`.
    pub async fn commit_effects(
        &mut self,
        scope: &Scope,
        mut effects: Effects,
    ) -> Result<(), Failure> {
        if effects.is_empty() {
            return Ok(());
        }
        // The messages at hand are not part of it.
        let incomings = std::mem::take(&mut self.desk.incomings);
        let stretches = std::mem::take(&mut self.desk.stretches);
        let sources = std::mem::take(&mut self.desk.sources);
        let outcome = match self.plan(scope, &mut effects) {
            Ok(plan) => Box::pin(self.carry_out(scope, plan)).await,
            Err(failure) => Err(failure),
        };
        self.desk.incomings = incomings;
        self.desk.stretches = stretches;
        self.desk.sources = sources;
        outcome
    }

    /// Whether the messages at hand were never on the bus, and nothing waits for them in the state.
    fn is_local(&self) -> bool {
        self.desk.discarded.is_empty()
            && self.desk.sources.is_empty()
            && self
                .desk
                .incomings
                .iter()
                .all(|i| matches!(i.kind, Kind::Message | Kind::Woken))
    }

    pub fn plan(&self, scope: &Scope, effects: &mut Effects) -> Result<Plan, Failure> {
        let mut plan = Plan {
            ends: effects.ends,
            ..Plan::default()
        };
        for incoming in &self.desk.incomings {
            self.plan_settled(scope, incoming, &mut plan);
        }
        for (key, value) in std::mem::take(&mut effects.writes) {
            plan.writes.push(write(keys::user(&key), value));
        }
        for ask in std::mem::take(&mut effects.asks) {
            self.plan_ask(scope, ask, &mut plan)?;
        }
        self.plan_sends(effects, &mut plan);
        for change in effects.timers.drain(..) {
            self.plan_timer(change, &mut plan);
        }
        for change in &effects.children {
            plan_child(change, &mut plan);
        }
        plan.children = std::mem::take(&mut effects.children);
        Ok(plan)
    }

    /// What a message stood for is no longer pending.
    fn plan_settled(&self, scope: &Scope, incoming: &Incoming, plan: &mut Plan) {
        match &incoming.kind {
            Kind::Reply(ticket) | Kind::TimedOut(ticket) => {
                plan.writes.push(write(keys::ask(*ticket), None));
            }
            Kind::Timer(name) => {
                let (stage, what) = (&self.cell.stage, What::Timer(name.clone()));
                // It may have been set anew before it was handled.
                if !stage.runtime.alarms.is_set(stage, scope, &what) {
                    plan.writes.push(write(keys::timer(name), None));
                }
            }
            Kind::Message | Kind::ChildEnded(_) | Kind::Woken => {}
        }
    }

    fn plan_ask(&self, scope: &Scope, ask: Ask, plan: &mut Plan) -> Result<(), Failure> {
        let stage = &self.cell.stage;
        let id = format!("{ASK_PREFIX}{}", ask.ticket);
        let reply_to = scope.reply_address(&stage.address).to_string();
        let pairs = [
            (Message::REPLY_TO, reply_to.as_str()),
            (Message::CORRELATION_ID, id.as_str()),
        ];
        let headers = match ask.message.headers.is_empty() {
            true => Headers::from_pairs(pairs)?,
            false => ask.message.headers.with(pairs)?,
        };
        let message = Message {
            headers,
            ..ask.message
        };
        let at = stage.runtime.clock.now() + ask.timeout;
        plan.writes
            .push(write(keys::ask(ask.ticket), Some(alarm_value(at, &[]))));
        plan.alarms.push(AlarmChange {
            what: What::Ask(ask.ticket),
            set: Some((at, Bytes::new())),
        });
        stage.listen_for(&self.cell);
        self.plan_message(&ask.to, message, None, plan);
        Ok(())
    }

    /// Messages sent, emitted and replied. Where outputs lead is found out once for all of them.
    fn plan_sends(&self, effects: &mut Effects, plan: &mut Plan) {
        let mut sends = std::mem::take(&mut effects.sends);
        let edges: Vec<Edges<'_>> = effects
            .output_names()
            .map(|name| self.edges(name))
            .collect();
        for outgoing in sends.drain(..) {
            let Outgoing { to, message, value } = outgoing;
            match to {
                Target::Address(address) => self.plan_message(&address, message, value, plan),
                Target::Waiting(reply_to) => {
                    if let Some(answer) = answer_of(&reply_to) {
                        let to = LocalTarget::Answer(answer);
                        plan.local.push(to, incoming(message, value));
                    }
                }
                Target::Output(output) => {
                    self.plan_emit(&edges[output as usize], message, value, plan);
                }
            }
        }
        // Its memory serves the next turn.
        effects.sends = sends;
        self.plan_emitted(effects, &edges, plan);
        edges.into_iter().for_each(|edges| edges.leave(plan));
    }

    /// Values and series, which were emitted after all others. Most go to one stage of this process, as they are.
    fn plan_emitted(&self, effects: &mut Effects, edges: &[Edges<'_>], plan: &mut Plan) {
        let mut emitted = effects.take_emitted();
        emitted.drain(|output, row| {
            let edges = &edges[output as usize];
            match row {
                Row::Values(values) => match &edges.edges[..] {
                    [
                        Edge {
                            to: To::Local { stage, way },
                            sent,
                            ..
                        },
                    ] if edges.sample.is_none() => {
                        let batch = plan.local.batch(stage, *way);
                        let before = batch.len();
                        batch.extend_values(values);
                        sent.set(sent.get() + (batch.len() - before) as u64);
                    }
                    _ => {
                        for value in values {
                            self.plan_emit(edges, Message::default(), Some(value), plan);
                        }
                    }
                },
                Row::Stretch(stretch) => self.plan_stretch(edges, stretch, plan),
            }
        });
        effects.give_emitted(emitted);
    }

    fn plan_stretch(&self, edges: &Edges<'_>, stretch: Stretch, plan: &mut Plan) {
        if let Some((_, taken)) = &edges.sample {
            taken.borrow_mut().take_stretch(&stretch);
        }
        if edges.edges.is_empty() {
            let counters = &self.cell.stage.counters;
            let messages = stretch.len() as u64;
            counters.unconnected.fetch_add(messages, Ordering::Relaxed);
        }
        for edge in &edges.edges {
            edge.note(stretch.len());
            match &edge.to {
                To::Local { stage, way } => {
                    plan.local.batch(stage, *way).push_stretch(stretch.clone());
                }
                To::Other(address) => {
                    for item in stretch.items() {
                        let Incoming { message, value, .. } = item.into();
                        self.plan_message(address, message, value, plan);
                    }
                }
            }
        }
    }

    /// Where an output leads.
    fn edges(&self, output: &str) -> Edges<'_> {
        let Some(output) = self.version().outputs.get(output) else {
            return Edges::default();
        };
        let stage = &self.cell.stage;
        let edges = output.edges.iter().map(|(address, count)| Edge {
            to: to(stage, address),
            count,
            sent: StdCell::new(0),
        });
        let sampler = &output.sampler;
        Edges {
            edges: edges.collect(),
            sample: sampler.is_armed().then(|| (sampler, RefCell::default())),
        }
    }

    fn plan_emit(
        &self,
        edges: &Edges<'_>,
        message: Message,
        value: Option<Arc<dyn Value>>,
        plan: &mut Plan,
    ) {
        edges.sample(&message, value.as_ref());
        let Some((last, others)) = edges.edges.split_last() else {
            let counters = &self.cell.stage.counters;
            counters.unconnected.fetch_add(1, Ordering::Relaxed);
            return;
        };
        for edge in others {
            self.plan_edge(edge, message.clone(), value.clone(), plan);
        }
        self.plan_edge(last, message, value, plan);
    }

    fn plan_edge(
        &self,
        edge: &Edge<'_>,
        message: Message,
        value: Option<Arc<dyn Value>>,
        plan: &mut Plan,
    ) {
        edge.note(1);
        match &edge.to {
            To::Local { stage, way } => {
                let incoming = incoming(message, value);
                plan.local.batch(stage, *way).push(incoming);
            }
            To::Other(address) => self.plan_message(address, message, value, plan),
        }
    }

    /// A message for an address. What may leave the process holds a body.
    fn plan_message(
        &self,
        to: &Address,
        message: Message,
        value: Option<Arc<dyn Value>>,
        plan: &mut Plan,
    ) {
        let mut incoming = incoming(message, value);
        incoming.encode_value();
        match self.cell.stage.runtime.route(to, &incoming.message) {
            Route::Bus(destination) => plan.sends.push((destination, incoming.message)),
            Route::Local(to) => plan.local.push(to, incoming),
            Route::Gone => {
                let counters = &self.cell.stage.counters;
                counters.late_replies.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn plan_timer(&self, change: TimerChange, plan: &mut Plan) {
        let key = keys::timer(&change.name);
        let set = change.set.map(|(after, body)| {
            let at = self.cell.stage.runtime.clock.now() + after;
            (at, body)
        });
        let value = set.as_ref().map(|(at, body)| alarm_value(*at, body));
        plan.writes.push(write(key, value));
        plan.alarms.push(AlarmChange {
            what: What::Timer(change.name),
            set,
        });
    }

    async fn carry_out(&mut self, scope: &Scope, mut plan: Plan) -> Result<(), Failure> {
        let stage = self.cell.stage.clone();
        if stage.store.is_memory() {
            stage
                .store
                .write_memory(scope, std::mem::take(&mut plan.writes));
        }
        let has_sources = !self.desk.discarded.is_empty() || !self.desk.sources.is_empty();
        let goes_to_bus = has_sources || !plan.writes.is_empty() || !plan.sends.is_empty();
        let began = goes_to_bus.then(Instant::now);
        let submitted = match goes_to_bus {
            true => self.submit(scope, &mut plan).await?,
            false => Submitted::Done(bus::AckLevel::Memory),
        };
        self.desk.forget_messages();
        self.desk.sources.clear();
        self.desk.discarded.clear();
        apply(&self.cell, scope, &mut plan);
        self.release(submitted, plan.local).await;
        if let Some(began) = began {
            self.desk.waited += began.elapsed();
        }
        Ok(())
    }

    /// Submits until the engine takes it, or says that it never will.
    async fn submit(&mut self, scope: &Scope, plan: &mut Plan) -> Result<Submitted, Failure> {
        let stage = self.cell.stage.clone();
        let timeout = Duration::from_millis(stage.runtime.settings.commit_timeout_ms);
        let commit = Commit {
            owner: self.owner_of(scope, plan).await?,
            consumed: consumed(&self.desk.sources, &self.desk.discarded),
            writes: std::mem::take(&mut plan.writes),
            sends: std::mem::take(&mut plan.sends),
        };
        let error = match submit(&stage, &commit, timeout).await {
            Ok(submitted) => return Ok(submitted),
            Err(error) => error,
        };
        drop(commit);
        match is_passing(&error) {
            true => Err(Failure::of(FailureKind::Host, error.to_string())),
            false => Err(self.not_committed(scope, &error).await),
        }
    }

    /// Who commits. Where several nodes share a stage, nothing is done by one that no longer owns its
    /// part; otherwise only state needs an owner.
    pub async fn owner_of(&mut self, scope: &Scope, plan: &Plan) -> Result<Option<Owner>, Failure> {
        if plan.writes.is_empty() && !self.cell.stage.is_shared() {
            return Ok(None);
        }
        let timeout = self.cell.stage.runtime.settings.commit_timeout_ms;
        let owner = self.own(scope, Duration::from_millis(timeout)).await?;
        Ok(Some(owner))
    }

    /// What a refused commit means for the worker.
    pub(super) async fn not_committed(&mut self, scope: &Scope, error: &BusError) -> Failure {
        let kind = match error {
            BusError::Refused { .. } => FailureKind::Limit,
            _ => FailureKind::Host,
        };
        if let BusError::Fenced { .. } = error {
            self.cell.stage.lose(scope);
        }
        if kind == FailureKind::Host {
            // Others have the messages now, or they come again: nothing of them may be kept, and
            // nothing that is behind them may come first.
            let sources = self.desk.sources.iter().flatten();
            for source in sources.chain(&self.desk.discarded) {
                source.subscription.make_stale();
            }
            self.wake_again(scope);
            let is_memory = self.cell.stage.store.is_memory();
            if is_memory {
                self.set_timers_again(scope);
            }
            let others = self.desk.events + self.desk.pulled;
            let lost = (self.desk.messages() as u64).saturating_sub(others);
            if lost > 0 {
                self.note_dropped(lost);
            }
            self.desk.forget_messages();
            self.desk.sources.clear();
            self.desk.discarded.clear();
            if let Some(extras) = &mut self.body.extras {
                extras.epochs.remove(scope);
            }
            if !is_memory {
                let is_in_doubt = matches!(error, BusError::InDoubt { .. });
                Box::pin(self.catch_up(scope, is_in_doubt)).await;
            }
            self.cell.stage.resubscribe();
        }
        Failure::of(kind, format!("the turn was not committed: {error}"))
    }

    /// Who was woken is woken again: nothing else brings that back, unlike messages from the bus.
    fn wake_again(&self, scope: &Scope) {
        let stage = &self.cell.stage;
        let is_woken = |incoming: &Incoming| incoming.kind == Kind::Woken;
        if stage.holds_scope(scope) && self.desk.incomings.iter().any(is_woken) {
            stage.wake(scope);
        }
    }

    /// Timers at hand go off again; what is in memory does not say that they were set.
    fn set_timers_again(&self, scope: &Scope) {
        let stage = &self.cell.stage;
        for incoming in &self.desk.incomings {
            let what = match &incoming.kind {
                Kind::Timer(name) => What::Timer(name.clone()),
                Kind::TimedOut(ticket) => What::Ask(*ticket),
                Kind::Message | Kind::Reply(_) | Kind::ChildEnded(_) | Kind::Woken => continue,
            };
            if !stage.runtime.alarms.is_set(stage, scope, &what) {
                let (now, body) = (stage.runtime.clock.now(), incoming.message.body.clone());
                stage.runtime.alarms.set(stage, scope, what, now, body);
            }
        }
    }

    /// Sets timers, and the time limits of asks, as the state has them. Those at hand have gone off, and may not be settled; and if a
    /// commit in doubt has happened, nothing but the state knows what it set, for its messages do not come again. Without its
    /// state the worker could do nothing, so it waits for it.
    async fn catch_up(&mut self, scope: &Scope, is_in_doubt: bool) {
        let stage = self.cell.stage.clone();
        let mut is_told = false;
        while stage.holds_scope(scope) && !stage.is_stopping() {
            let Err(reason) = self.read_again(scope, is_in_doubt).await else {
                return;
            };
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!(worker = %self.cell.address(), reason, "what a commit that failed has set cannot be read; trying again");
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    async fn read_again(&mut self, scope: &Scope, is_in_doubt: bool) -> Result<(), String> {
        let stage = self.cell.stage.clone();
        let timeout = Duration::from_millis(stage.runtime.settings.commit_timeout_ms);
        if is_in_doubt {
            // Only then it cannot happen any more.
            let raised = stage.raise_again(scope, timeout).await;
            raised.map_err(|error| error.to_string())?;
            let owner = self.own(scope, timeout).await;
            owner.map_err(|failure| failure.reason)?;
        }
        // Those that went off and wait are in the state, too.
        stage.runtime.alarms.cancel_all(&stage, scope);
        self.drop_alarms(scope);
        let restored = stage.restore_again(scope).await;
        restored.map_err(|error| error.to_string())
    }

    /// The owner of the scope: this worker. The first time it raises the epoch.
    pub async fn own(&mut self, scope: &Scope, timeout: Duration) -> Result<Owner, Failure> {
        let stage = self.cell.stage.clone();
        if let Some(owner) = stage.shared_owner(scope) {
            return owner.map_err(crate::store::host_failure);
        }
        let bucket = scope.bucket(&stage.address);
        if let Some(epoch) = self.body.extras().epochs.get(scope) {
            return Ok(Owner {
                bucket,
                epoch: *epoch,
            });
        }
        let raised = stage.runtime.bus.raise_epoch(&bucket, timeout).await;
        let epoch = raised.map_err(crate::store::host_failure)?;
        self.body.extras().epochs.insert(scope.clone(), epoch);
        Ok(Owner { bucket, epoch })
    }

    /// Lets go what stays in this process, as soon as the commit is permanent and in order.
    async fn release(&mut self, submitted: Submitted, local: Locals) {
        let earlier = self
            .body
            .extras
            .as_ref()
            .and_then(|e| e.completions.clone());
        let nothing_before = earlier.as_ref().is_none_or(|c| c.is_empty());
        if let (Submitted::Done(_), true) = (&submitted, nothing_before) {
            self.deliver(local).await;
            return;
        }
        let completions = self
            .body
            .extras()
            .completions
            .get_or_insert_default()
            .clone();
        completions.push(&self.cell, submitted, local).await;
    }

    /// Hands over what stays in this process. The time that this waits for room does not count as work.
    async fn deliver(&mut self, local: Locals) {
        let mut delivered = std::pin::pin!(local.deliver(&self.cell.stage.runtime));
        let at_once = futures_lite::future::poll_once(&mut delivered).await;
        if at_once.is_none() {
            let began = Instant::now();
            delivered.await;
            self.desk.blocked += began.elapsed();
        }
    }

    /// Waits until everything committed is permanent.
    pub async fn flush(&mut self) {
        let extras = self.body.extras.as_ref();
        if let Some(completions) = extras.and_then(|extras| extras.completions.clone()) {
            completions.flush().await;
        }
    }
}

/// Submits until the engine takes it, says that it never will, or the stage stops.
pub(super) async fn submit(
    stage: &Arc<Stage>,
    commit: &Commit<'_>,
    timeout: Duration,
) -> Result<Submitted, BusError> {
    let patience = Duration::from_millis(stage.runtime.settings.send_timeout_ms);
    let (mut began, mut stands) = (None, None);
    loop {
        match stage.runtime.bus.submit(commit, timeout).await {
            Err(error) if is_passing(&error) => {
                let began = began.get_or_insert_with(|| {
                    stage.note_blocked(&error);
                    Instant::now()
                });
                if matches!(error, BusError::Full { .. }) && began.elapsed() >= patience {
                    stands.get_or_insert_with(|| stage.standing.begin(error.to_string()));
                }
                tokio::time::sleep(RETRY_AFTER).await;
                if stage.is_stopping() {
                    return Err(error);
                }
            }
            outcome => return outcome,
        }
    }
}

/// Whether nothing happened, and the same commit may succeed a little later.
fn is_passing(error: &BusError) -> bool {
    matches!(error, BusError::Timeout { .. } | BusError::Full { .. })
}

/// What follows from a commit in this process.
pub(super) fn apply(cell: &Arc<Cell>, scope: &Scope, plan: &mut Plan) {
    let stage = &cell.stage;
    for change in plan.alarms.drain(..) {
        match change.set {
            Some((at, body)) => stage
                .runtime
                .alarms
                .set(stage, scope, change.what, at, body),
            None => {
                stage.runtime.alarms.cancel(stage, scope, &change.what);
            }
        }
    }
    for change in plan.children.drain(..) {
        stage.change_child(cell, change);
    }
    if plan.ends {
        stage.end(cell);
    }
}

fn plan_child(change: &ChildChange, plan: &mut Plan) {
    plan.writes.push(match change {
        ChildChange::Spawn { name, args } => write(keys::child(name), Some(args.clone())),
        ChildChange::Stop { name } => write(keys::child(name), None),
    });
}

fn incoming(message: Message, value: Option<Arc<dyn Value>>) -> Incoming {
    Incoming {
        value,
        ..Incoming::new(message)
    }
}

fn write(key: Bytes, value: Option<Bytes>) -> StateWrite {
    match value {
        Some(value) => StateWrite::Set { key, value },
        None => StateWrite::Remove { key },
    }
}

/// When an alarm goes off, and with which body.
fn alarm_value(at: Timestamp, body: &[u8]) -> Bytes {
    let mut value = BytesMut::with_capacity(8 + body.len());
    value.put_u64(at.as_micros());
    value.put_slice(body);
    value.freeze()
}

/// What is consumed, subscription by subscription.
pub(super) fn consumed<'a>(
    sources: &'a [Option<Source>],
    discarded: &'a [Source],
) -> Vec<Consumed<'a>> {
    let mut parts: Vec<(&Arc<Pulled>, Consumed<'a>)> = Vec::new();
    for source in discarded.iter().chain(sources.iter().flatten()) {
        let same =
            |part: &&mut (&Arc<Pulled>, Consumed<'a>)| Arc::ptr_eq(part.0, &source.subscription);
        match parts.iter_mut().rev().find(same) {
            Some((_, part)) => part.receipts.push(source.receipt()),
            None => parts.push((
                &source.subscription,
                Consumed {
                    subscription: &**source.subscription,
                    receipts: vec![source.receipt()],
                },
            )),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}
