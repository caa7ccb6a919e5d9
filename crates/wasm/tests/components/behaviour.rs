//! Components do what the contract of a worker says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{HOST, Running, bodies, code, component, now, text};
use bytes::Bytes;
use kernel::worker::{
    Answer, Bodies, Code, FailureKind, Incoming, InstanceLimits, Kind, LogLevel, ReplyTo, Row,
    Stretch, Target, Value,
};
use kernel::{Headers, Message};

#[derive(Clone, Debug)]
struct Number;

impl Value for Number {
    fn encode(&self) -> Bytes {
        Bytes::new()
    }

    fn len_bytes(&self) -> usize {
        0
    }
}

/// A message that asks for an answer at this address.
fn question(body: &str, reply_to: &str) -> Incoming {
    let pairs = [
        (Message::REPLY_TO, reply_to),
        (Message::CORRELATION_ID, "7"),
    ];
    let headers = Headers::from_pairs(pairs).unwrap();
    Incoming::new(Message::new(body.to_owned()).with_headers(headers))
}

#[test]
fn echo_emits_and_replies_to_each_of_a_batch() {
    let mut echo = Running::start(&*code("echo"), b"");
    let batch = [text("one"), question("two", "queue:answers"), text("three")];
    let effects = echo.handle(&batch).unwrap();
    assert_eq!(bodies(&effects), ["one", "two", "two", "three"]);
    let Target::Output(output) = effects.sends[0].to else {
        panic!("{:?}", effects.sends[0]);
    };
    assert_eq!(effects.output_name(output), "out");
    let reply = &effects.sends[2];
    assert!(matches!(&reply.to, Target::Address(to) if to.to_string() == "queue:answers"));
    assert_eq!(
        reply.message.headers.get(Message::CORRELATION_ID),
        Some("7")
    );
}

#[test]
fn who_waits_in_this_process_gets_the_reply() {
    #[derive(Default)]
    struct Waiting(Mutex<Option<Message>>);

    impl Answer for Waiting {
        fn answer(&self, message: Message) {
            *self.0.lock().unwrap() = Some(message);
        }

        fn address(self: Arc<Self>) -> String {
            "queue:waiting".to_owned()
        }
    }

    let mut echo = Running::start(&*code("echo"), b"");
    let mut message = text("hello");
    message.reply_to = ReplyTo::Waiting(Arc::new(Waiting::default()));
    let effects = echo.handle(&[message]).unwrap();
    assert!(matches!(effects.sends[1].to, Target::Waiting(_)));
}

#[test]
fn large_and_many_messages_arrive_whole() {
    let mut echo = Running::start(&*code("echo"), b"");
    let large = "x".repeat(5 << 20);
    assert_eq!(bodies(&echo.tell(&large).unwrap()), [large]);
    let many: Vec<Incoming> = (0..5_000).map(|n| text(&n.to_string())).collect();
    let effects = echo.handle(&many).unwrap();
    assert_eq!(effects.sends.len(), 5_000);
    assert_eq!(&effects.sends[4_999].message.body[..], b"4999");
}

/// What it emits when it is given these messages at once.
fn emitted(running: &mut Running, messages: &[Stretch]) -> Vec<Stretch> {
    now(running.worker.handle_series(messages, &mut running.turn)).unwrap();
    let mut stretches = Vec::new();
    running
        .turn
        .take_effects()
        .take_emitted()
        .drain(|_, row| match row {
            Row::Stretch(stretch) => stretches.push(stretch),
            Row::Values(_) => panic!("a component has no values"),
        });
    stretches
}

#[test]
fn bodies_come_and_go_together() {
    let mut echo = Running::start(&*code("echo"), b"");
    let mut given = Bodies::default();
    (0..5_000).for_each(|n: u32| given.push(n.to_string().as_bytes()));
    let mut rest = Stretch::from(given.clone());
    assert!(echo.worker.takes_series(&rest));
    let first = rest.take_front(7);
    let stretches = emitted(&mut echo, &[first, rest]);
    assert!(stretches.len() < 10, "{} calls", stretches.len());
    let mut got = Bodies::default();
    for (part, range) in stretches.iter().map(|s| s.part_of::<Bodies>().unwrap()) {
        got.extend_from(part, range);
    }
    assert_eq!(got, given);
    let values = Stretch::from(Vec::<Number>::new());
    assert!(!echo.worker.takes_series(&values));
    let mut long = Bodies::default();
    long.push(&vec![b'x'; 1 << 20]);
    assert!(!echo.worker.takes_series(&long.into()));
}

#[test]
fn bodies_of_which_one_fails_leave_nothing_behind() {
    let mut worker = Running::start(&*code("hostile"), b"fail");
    let bodies = |all: &[&str]| {
        let mut bodies = Bodies::default();
        all.iter().for_each(|body| bodies.push(body.as_bytes()));
        [Stretch::from(bodies)]
    };
    let given = bodies(&["a", "fail", "b"]);
    let failure = now(worker.worker.handle_series(&given, &mut worker.turn)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Error);
    assert!(worker.turn.take_effects().is_empty());
    now(worker
        .worker
        .handle_series(&bodies(&["a"]), &mut worker.turn))
    .unwrap();
}

#[test]
fn state_is_read_and_written_through_the_turn() {
    let mut counter = Running::start(&*code("counter"), b"");
    for count in 1..=3 {
        let asked = question("+", "queue:answers");
        let (first, second) = (count * 2 - 1, count * 2);
        let effects = counter.handle(&[asked.clone(), asked]).unwrap();
        let expected = [format!("{first}/{first}"), format!("{second}/{second}")];
        assert_eq!(bodies(&effects), expected);
        counter.commit(&effects);
    }
}

#[test]
fn what_one_version_saves_the_next_one_loads() {
    let mut first = Running::start(&*code("counter"), b"");
    first.tell("+").unwrap();
    first.tell("+").unwrap();
    let saved = now(first.worker.save()).unwrap();
    assert!(!saved.is_empty());
    let mut second = Running::start(&*code("counter-v2"), b"");
    now(second.worker.load(saved.clone())).unwrap();
    let effects = second.handle(&[question("+", "queue:answers")]).unwrap();
    assert_eq!(bodies(&effects), ["v2:3/1"]);

    let mut broken = Running::start(&*code("broken-load"), b"");
    let refused = now(broken.worker.load(saved)).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Error);
    assert!(refused.reason.contains("not known here"), "{refused}");
}

#[test]
fn an_answer_is_asked_for_and_handed_on() {
    let mut asker = Running::start(&*code("asker"), b"shop/stock 250");
    let effects = asker.tell_message(question("how many?", "queue:answers"));
    let [ask] = &effects.asks[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(ask.to.to_string(), "shop/stock");
    assert_eq!(ask.timeout, Duration::from_millis(250));
    let mut reply = text("twelve");
    reply.kind = Kind::Reply(ask.ticket);
    let effects = asker.tell_message(reply);
    assert_eq!(bodies(&effects), ["twelve"]);

    let effects = asker.tell_message(question("and now?", "queue:answers"));
    let mut silence = text("");
    silence.kind = Kind::TimedOut(effects.asks[0].ticket);
    assert_eq!(bodies(&asker.tell_message(silence)), ["timed out"]);
}

#[test]
fn timers_are_set_in_init_and_set_anew() {
    let mut ticker = Running::start(&*code("ticker"), b"40");
    let set = ticker.turn.take_effects().timers;
    assert_eq!(&*set[0].name, "tick");
    assert_eq!(
        set[0].set,
        Some((Duration::from_millis(40), Bytes::from_static(b"tick")))
    );
    let effects = ticker.tell("stop").unwrap();
    assert_eq!(effects.timers[0].set, None);
}

#[test]
fn children_are_started_and_ended() {
    let mut parent = Running::start(&*code("parent"), b"");
    assert_eq!(parent.tell("spawn anna").unwrap().children.len(), 1);
    let effects = parent.tell("work anna hello").unwrap();
    assert!(
        matches!(&effects.sends[0].to, Target::Address(to) if to.to_string() == "shop/orders/3/anna")
    );
    assert_eq!(parent.tell("stop anna").unwrap().children.len(), 1);
    let mut child = Running::start(&*code("parent"), b"anna");
    assert!(child.tell("end").unwrap().ends);
}

#[test]
fn the_heap_of_the_sdk_keeps_what_is_put_there() {
    let limits = InstanceLimits {
        call_ms_max: 60_000,
        ..InstanceLimits::default()
    };
    let mut heap = Running::start_with(&*code("heap"), b"", limits);
    for seed in 1..=5 {
        let effects = heap.handle(&[question(&seed.to_string(), "queue:answers")]);
        assert_eq!(bodies(&effects.unwrap()), ["20000"]);
    }
}

#[test]
fn an_error_leaves_the_instance_sound() {
    let mut hostile = Running::start(&*code("hostile"), b"fail");
    let failure = hostile.tell("fail").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Error);
    assert_eq!(failure.reason, "this message cannot be handled");
    hostile.tell("all right").unwrap();
    now(hostile.worker.stop(&mut hostile.turn)).unwrap();
    let lines = hostile.memory.lines.lock().unwrap();
    assert_eq!(*lines, [(LogLevel::Info, "stopped".to_owned())]);
}

#[test]
fn what_is_not_granted_ends_the_turn() {
    let mut capability = Running::start(&*code("capability"), b"queue:forbidden");
    let failure = capability.tell("x").unwrap_err();
    assert_eq!(failure.kind, FailureKind::Denied);
    assert_eq!(failure.reason, "grant send:queue:forbidden");
    assert_eq!(code("capability").info().capabilities, ["send:queue:audit"]);

    let mut ticker = Running::start(&*code("ticker"), b"");
    let mut timer = text("tick");
    timer.kind = Kind::Timer("tick".into());
    let failure = ticker.handle(&[timer]).unwrap_err();
    assert_eq!(failure.reason, "there is no output ticks");
    assert!(!failure.leaves_instance_sound());
}

#[test]
fn the_same_component_is_loaded_once_and_described() {
    let first = code("echo");
    assert!(Arc::ptr_eq(&first, &code("echo")));
    let info = first.info();
    assert_eq!((&*info.name, &*info.version), ("echo", "1.0.0"));
    assert_eq!((info.digest.len(), info.native), (64, false));
    assert_eq!(info.outputs, ["out"]);
}

#[test]
fn a_component_without_descriptor_is_named_after_its_digest() {
    let plain = without_descriptor(&component("echo"));
    let code = HOST.load(&plain).unwrap();
    let info = code.info();
    assert_eq!(info.name, "worker");
    assert_eq!(info.version, info.digest[..12]);
    assert!(info.outputs.is_empty());
}

/// The component up to its descriptor, which is the last section.
fn without_descriptor(component: &[u8]) -> Vec<u8> {
    let name = kernel::descriptor::SECTION.as_bytes();
    let found = component.windows(name.len()).rposition(|part| part == name);
    let mut cut = found.unwrap();
    while kernel::descriptor::read(&component[..cut]).is_err() {
        cut -= 1;
    }
    component[..cut].to_vec()
}

#[test]
fn instances_share_nothing_and_their_places_are_used_again() {
    let code = code("counter");
    for _ in 0..3 {
        let mut running: Vec<Running> = (0..100).map(|_| Running::start(&*code, b"")).collect();
        for counter in &mut running {
            let effects = counter.handle(&[question("+", "queue:answers")]).unwrap();
            assert_eq!(bodies(&effects), ["1/1"]);
        }
    }
}

/// A runtime that polls workers from within tokio is no obstacle.
#[test]
fn calls_work_within_a_tokio_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut counter = Running::start(&*code("counter"), b"");
    let message = [text("+")];
    runtime
        .block_on(counter.worker.handle(&message, &mut counter.turn))
        .unwrap();
    assert_eq!(counter.turn.effects().writes.len(), 1);
}
