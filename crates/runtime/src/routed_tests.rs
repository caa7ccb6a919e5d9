use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use futures_lite::future::block_on;
use kernel::worker::{Answer, Effects, Host, Outgoing, ReplyTo, Target, TurnLimits};
use kernel::{Clock, Headers, ManualClock, Timestamp};
use parking_lot::Mutex;

use super::*;

/// Keeps state, and lets nobody send but to the stage itself.
#[derive(Default)]
struct FakeHost {
    state: Mutex<BTreeMap<Bytes, Bytes>>,
    tickets: AtomicU64,
    clock: ManualClock,
    lines: Mutex<Vec<String>>,
}

#[async_trait]
impl Host for FakeHost {
    async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        Ok(self.state.lock().get(key).cloned())
    }

    async fn scan(
        &self,
        _prefix: &[u8],
        _after: Option<&[u8]>,
        _pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        Ok(Vec::new())
    }

    fn may_send(&self, to: &Address) -> Result<(), Failure> {
        match to {
            Address::Worker(worker) if *worker.stage() == stage() => Ok(()),
            _ => Err(Failure::of(FailureKind::Denied, to.to_string())),
        }
    }

    fn may_emit(&self, output: &str) -> Result<(), Failure> {
        Err(Failure::of(FailureKind::Denied, output))
    }

    fn next_ticket(&self) -> Ticket {
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn log(&self, _level: LogLevel, line: &str) {
        self.lines.lock().push(line.to_owned());
    }
}

struct Count(AtomicU32);

impl Workers for Count {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn waiting(&self, _worker: u32) -> u32 {
        0
    }

    fn has_room(&self, _worker: u32) -> bool {
        true
    }
}

/// Somebody who waits in this process.
struct Waiting;

impl Answer for Waiting {
    fn answer(&self, _message: Message) {}

    fn address(self: Arc<Self>) -> String {
        "queue:hivewire.waiting.7".to_owned()
    }
}

fn stage() -> StageAddress {
    StageAddress::new("shop", "prices").unwrap()
}

/// A stage with its owner, of which every turn is committed.
struct Rig {
    host: Arc<FakeHost>,
    workers: Arc<Count>,
    kind: RouterKind,
    router: Arc<dyn Router>,
    limits: RoutedLimits,
    owner: RouterWorker,
}

impl Rig {
    fn new(kind: RouterKind, workers: u32) -> Self {
        let limits = RoutedLimits::default();
        Self::with(kind, kind.router().unwrap(), workers, limits)
    }

    fn with(kind: RouterKind, router: Arc<dyn Router>, workers: u32, limits: RoutedLimits) -> Self {
        let workers = Arc::new(Count(AtomicU32::new(workers)));
        let owner = RouterWorker::new(
            stage(),
            kind,
            router.clone(),
            workers.clone(),
            limits.clone(),
        );
        Self {
            host: Arc::default(),
            workers,
            kind,
            router,
            limits,
            owner,
        }
    }

    /// As after a crash: another instance with the same state.
    fn restart(&mut self) {
        let (router, workers) = (self.router.clone(), self.workers.clone());
        self.owner = RouterWorker::new(stage(), self.kind, router, workers, self.limits.clone());
    }

    fn try_receive(&mut self, incoming: &Incoming) -> Result<Effects, Failure> {
        let mut turn = Turn::new(self.host.clone(), TurnLimits::default());
        block_on(self.owner.receive(incoming, &mut turn))?;
        let effects = turn.take_effects();
        let mut state = self.host.state.lock();
        for (key, value) in &effects.writes {
            match value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
        }
        Ok(effects)
    }

    fn receive(&mut self, incoming: &Incoming) -> Effects {
        self.try_receive(incoming).unwrap()
    }

    fn of_kind(&mut self, kind: Kind, body: &'static str) -> Effects {
        let mut incoming = Incoming::new(message(body, &[("correlation-id", "our-own")]));
        incoming.kind = kind;
        self.receive(&incoming)
    }

    fn reply(&mut self, ticket: Ticket, body: &'static str) -> Effects {
        self.of_kind(Kind::Reply(ticket), body)
    }

    fn timer(&mut self, id: Ticket) -> Effects {
        self.of_kind(Kind::Timer(format!("tail/{id}").into()), "")
    }

    fn assert_nothing_kept(&self) {
        let state = self.host.state.lock();
        assert!(state.is_empty(), "{:?}", state.keys());
    }

    fn last_line(&self) -> String {
        self.host.lines.lock().last().cloned().unwrap_or_default()
    }
}

fn message(body: &'static str, headers: &[(&str, &str)]) -> Message {
    Message::new(body).with_headers(Headers::from_pairs(headers.iter().copied()).unwrap())
}

fn plain() -> Incoming {
    Incoming::new(message("hello", &[("colour", "red")]))
}

fn question() -> Incoming {
    Incoming::new(message(
        "how much?",
        &[
            ("reply-to", "/queue/answers"),
            ("correlation-id", "q1"),
            ("colour", "red"),
        ],
    ))
}

fn address_of(outgoing: &Outgoing) -> String {
    match &outgoing.to {
        Target::Address(address) => address.to_string(),
        other => panic!("{other:?}"),
    }
}

fn sent_to(effects: &Effects) -> Vec<String> {
    effects.sends.iter().map(address_of).collect()
}

fn asked(effects: &Effects) -> Vec<String> {
    effects.asks.iter().map(|ask| ask.to.to_string()).collect()
}

fn worker_names(count: u32) -> Vec<String> {
    (0..count).map(|n| stage().worker(n).to_string()).collect()
}

/// The one answer that reaches the asker of [`question`].
fn assert_answered(effects: &Effects, body: &str) {
    assert_eq!(sent_to(effects), ["queue:answers"]);
    let answer = &effects.sends[0].message;
    assert_eq!(answer.body, body);
    assert_eq!(answer.headers.get("correlation-id"), Some("q1"));
}

#[test]
fn broadcast_sends_each_a_copy_that_can_be_answered() {
    let mut rig = Rig::new(RouterKind::Broadcast, 3);
    let effects = rig.receive(&question());
    assert_eq!(sent_to(&effects), worker_names(3));
    for sent in &effects.sends {
        assert_eq!(sent.message, question().message);
    }
    assert_eq!(sent_to(&rig.receive(&plain())), worker_names(3));
    rig.assert_nothing_kept();
}

#[test]
fn whoever_waits_in_this_process_gets_an_address_in_the_copies() {
    let mut rig = Rig::new(RouterKind::Broadcast, 2);
    let mut incoming = plain();
    incoming.reply_to = ReplyTo::Waiting(Arc::new(Waiting));
    let effects = rig.receive(&incoming);
    for sent in &effects.sends {
        let headers = &sent.message.headers;
        assert_eq!(headers.get("reply-to"), Some("queue:hivewire.waiting.7"));
        assert_eq!(headers.get("colour"), Some("red"));
    }
}

#[test]
fn a_router_of_ones_own_chooses_and_is_checked() {
    struct Fixed(Vec<u32>);
    impl Router for Fixed {
        fn select(
            &self,
            _message: &Message,
            _workers: &dyn Workers,
            chosen: &mut Vec<u32>,
        ) -> Result<(), Failure> {
            chosen.extend(&self.0);
            Ok(())
        }
    }
    let rig = |chosen: &[u32]| {
        let router = Arc::new(Fixed(chosen.to_vec()));
        Rig::with(RouterKind::Own, router, 3, RoutedLimits::default()).try_receive(&question())
    };
    let effects = rig(&[2, 0]).unwrap();
    assert_eq!(sent_to(&effects), ["shop/prices/2", "shop/prices/0"]);
    let wrong = rig(&[3]).unwrap_err();
    assert!(wrong.reason.contains("worker 3"), "{wrong}");
    assert_eq!(rig(&[]).unwrap_err().kind, FailureKind::Host);
}

#[test]
fn scatter_gather_passes_on_the_first_answer_only() {
    let mut rig = Rig::new(RouterKind::ScatterGather, 3);
    let effects = rig.receive(&question());
    assert_eq!(asked(&effects), worker_names(3));
    for ask in &effects.asks {
        assert_eq!(ask.timeout, Duration::from_secs(5));
        assert_eq!(ask.message, message("how much?", &[("colour", "red")]));
    }
    rig.restart();
    assert_answered(&rig.reply(2, "17"), "17");
    assert!(sent_to(&rig.reply(1, "18")).is_empty());
    assert!(rig.last_line().contains("1 answers so far"));
    rig.restart();
    assert!(sent_to(&rig.of_kind(Kind::TimedOut(3), "")).is_empty());
    rig.assert_nothing_kept();
}

#[test]
fn questions_do_not_get_mixed_up() {
    let mut rig = Rig::new(RouterKind::ScatterGather, 2);
    let second = message("2?", &[("reply-to", "queue:b")]);
    rig.receive(&question());
    rig.receive(&Incoming::new(second));
    let effects = rig.reply(4, "to the second");
    assert_eq!(sent_to(&effects), ["queue:b"]);
    // It had no id, and must not get that of our own ask.
    assert_eq!(effects.sends[0].message.headers.get("correlation-id"), None);
    assert_answered(&rig.reply(1, "to the first"), "to the first");
    rig.reply(2, "late");
    rig.reply(3, "late");
    rig.assert_nothing_kept();
}

#[test]
fn scatter_gather_without_an_asker_is_a_broadcast() {
    let mut rig = Rig::new(RouterKind::ScatterGather, 3);
    let effects = rig.receive(&plain());
    assert_eq!(sent_to(&effects), worker_names(3));
    assert!(effects.asks.is_empty());
    rig.assert_nothing_kept();
}

#[test]
fn when_nobody_answers_the_asker_gets_nothing_and_the_log_says_so() {
    let mut rig = Rig::new(RouterKind::ScatterGather, 2);
    rig.receive(&question());
    assert!(rig.of_kind(Kind::TimedOut(1), "").sends.is_empty());
    assert_eq!(rig.last_line(), "");
    assert!(rig.of_kind(Kind::TimedOut(2), "").sends.is_empty());
    assert!(rig.last_line().contains("within 5000 ms"));
    rig.assert_nothing_kept();
}

#[test]
fn tail_chopping_asks_one_after_another_until_one_answers() {
    let mut rig = Rig::new(RouterKind::TailChopping, 4);
    let effects = rig.receive(&question());
    let mut all = asked(&effects);
    assert_eq!(all.len(), 1);
    let timer = &effects.timers[0];
    assert_eq!(&*timer.name, "tail/1");
    let after = timer.set.as_ref().map(|(after, _)| *after);
    assert_eq!(after, Some(Duration::from_millis(50)));
    for _ in 0..2 {
        rig.host.clock.advance(Duration::from_millis(50));
        rig.restart();
        let effects = rig.timer(1);
        assert_eq!(effects.asks[0].message.body, "how much?");
        assert_eq!(effects.asks[0].message.headers.get("colour"), Some("red"));
        assert_eq!(effects.timers.len(), 1);
        all.extend(asked(&effects));
    }
    let effects = rig.reply(2, "17");
    assert_answered(&effects, "17");
    assert_eq!(&*effects.timers[0].name, "tail/1");
    assert_eq!(effects.timers[0].set, None);
    // The timer may have gone off already.
    assert!(rig.timer(1).is_empty());
    rig.reply(1, "late");
    rig.of_kind(Kind::TimedOut(3), "");
    rig.assert_nothing_kept();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3, "each is asked once");
}

#[test]
fn the_last_of_the_tail_sets_no_timer_and_all_end_together() {
    let mut rig = Rig::new(RouterKind::TailChopping, 2);
    rig.receive(&question());
    rig.host.clock.advance(Duration::from_millis(60));
    let effects = rig.timer(1);
    assert_eq!(effects.asks[0].timeout, Duration::from_millis(4_940));
    assert!(effects.timers.is_empty());
    rig.of_kind(Kind::TimedOut(1), "");
    rig.of_kind(Kind::TimedOut(2), "");
    assert!(
        rig.last_line()
            .contains("no worker of shop/prices answered")
    );
    rig.assert_nothing_kept();
}

#[test]
fn the_tail_ends_with_the_time_and_with_the_workers() {
    let mut rig = Rig::new(RouterKind::TailChopping, 3);
    rig.receive(&question());
    rig.host.clock.advance(Duration::from_secs(6));
    assert!(rig.timer(1).asks.is_empty(), "too late to ask anybody");
    rig.receive(&question());
    rig.workers.0.store(0, Ordering::Relaxed);
    assert!(rig.timer(2).asks.is_empty(), "nobody is left");
    rig.of_kind(Kind::TimedOut(1), "");
    rig.of_kind(Kind::TimedOut(2), "");
    rig.assert_nothing_kept();
}

#[test]
fn tail_chopping_with_one_worker_needs_no_timer() {
    let mut rig = Rig::new(RouterKind::TailChopping, 1);
    assert!(rig.receive(&question()).timers.is_empty());
    assert_answered(&rig.reply(1, "17"), "17");
    rig.assert_nothing_kept();
}

#[test]
fn too_many_questions_go_to_one_worker_each() {
    for kind in [RouterKind::ScatterGather, RouterKind::TailChopping] {
        let limits = RoutedLimits {
            questions_max: 2,
            ..RoutedLimits::default()
        };
        let mut rig = Rig::with(kind, kind.router().unwrap(), 1, limits);
        rig.receive(&question());
        rig.receive(&question());
        let effects = rig.receive(&question());
        assert!(effects.asks.is_empty());
        assert_eq!(sent_to(&effects), ["shop/prices/0"]);
        assert_eq!(effects.sends[0].message, question().message);
        assert!(rig.last_line().contains("2 questions are open"));
        rig.reply(1, "one is done");
        assert_eq!(rig.receive(&question()).asks.len(), 1);
    }
}

#[test]
fn an_address_that_is_none_harms_nobody() {
    for kind in [RouterKind::Broadcast, RouterKind::ScatterGather] {
        let mut rig = Rig::new(kind, 2);
        let effects = rig.receive(&Incoming::new(message("x", &[("reply-to", "nowhere")])));
        assert_eq!(sent_to(&effects), worker_names(2));
        assert_eq!(effects.sends[0].message.headers.get("reply-to"), None);
        assert!(rig.last_line().contains("nowhere"));
    }
}

#[test]
fn damaged_state_is_not_blamed_on_the_message() {
    let mut rig = Rig::new(RouterKind::ScatterGather, 1);
    rig.receive(&question());
    let mut state = rig.host.state.lock();
    state.insert("question/1".into(), "{".into());
    drop(state);
    let mut reply = Incoming::new(Message::new("17"));
    reply.kind = Kind::Reply(1);
    let failure = rig.try_receive(&reply).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Host);
}
