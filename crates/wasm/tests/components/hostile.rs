//! Code that misbehaves is stopped in time, with a failure that says how, and harms nobody else.

use std::time::{Duration, Instant};

use crate::support::{Running, bodies, code, in_time, text};
use kernel::Headers;
use kernel::worker::{Failure, FailureKind, InstanceLimits};

const CALL_MS_MAX: u64 = 200;
/// A call ends at most 100 ms after its deadline.
const LIMIT: Duration = Duration::from_millis(CALL_MS_MAX + 100);

fn limits() -> InstanceLimits {
    InstanceLimits {
        memory_bytes_max: 16 << 20,
        call_ms_max: CALL_MS_MAX,
        host_calls_max: 10_000,
    }
}

/// What comes of a message to a worker with this habit, and that it came in time.
fn stopped(habit: &str) -> Failure {
    let code = code("hostile");
    let (mut hostile, failure) = in_time(habit, LIMIT, || {
        let mut hostile = Running::start_with(&*code, habit.as_bytes(), limits());
        let failure = hostile.tell("x").unwrap_err();
        (hostile, failure)
    });
    assert!(!failure.reason.contains('\n'), "{}", failure.reason);
    assert!(!failure.leaves_instance_sound());
    let again = hostile.tell("x").unwrap_err();
    assert!(
        again.reason.starts_with("the instance ended before: "),
        "{again}"
    );
    failure
}

#[test]
fn an_endless_loop_meets_its_deadline() {
    let failure = stopped("loop");
    assert_eq!(failure.kind, FailureKind::Deadline);
    assert!(failure.reason.contains("longer than 200 ms"), "{failure}");
}

#[test]
fn endless_memory_meets_its_limit() {
    let failure = stopped("memory");
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(
        failure.reason.contains("16777216 bytes of memory"),
        "{failure}"
    );
}

#[test]
fn endless_recursion_meets_the_end_of_the_stack() {
    let failure = stopped("recursion");
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(failure.reason.contains("the stack grew"), "{failure}");
    let backtrace = failure.backtrace.unwrap();
    assert!(backtrace.contains("call_itself"), "{backtrace}");
    assert!(backtrace.lines().count() < 50, "{backtrace}");
}

#[test]
fn a_storm_of_host_calls_meets_its_limit() {
    let failure = stopped("storm");
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(
        failure.reason.contains("call the host 10000 times"),
        "{failure}"
    );
}

#[test]
fn a_flood_of_messages_meets_its_limit() {
    let failure = stopped("flood");
    assert_eq!(failure.kind, FailureKind::Limit);
}

#[test]
fn a_panic_is_told_with_its_text_and_place() {
    let failure = stopped("trap");
    assert_eq!(failure.kind, FailureKind::Trap);
    assert!(
        failure.reason.contains("this message is poison"),
        "{failure}"
    );
    assert!(failure.reason.contains("lib.rs"), "{failure}");
    let backtrace = failure.backtrace.unwrap();
    assert!(backtrace.contains("handle"), "{backtrace}");
}

#[test]
fn a_read_that_never_ends_meets_the_deadline_and_is_not_blamed_on_the_worker() {
    let mut message = text("1");
    message.message.headers = Headers::from_pairs([("account", "never")]).unwrap();
    let code = code("bank");
    let failure = in_time("the read", LIMIT, || {
        let mut bank = Running::start_with(&*code, b"", limits());
        bank.handle(std::slice::from_ref(&message)).unwrap_err()
    });
    assert_eq!(failure.kind, FailureKind::Host, "{failure}");
}

/// The control: what needs less than its limits is left alone.
#[test]
fn slow_but_decent_code_goes_on() {
    let limits = InstanceLimits {
        call_ms_max: 5_000,
        host_calls_max: u32::MAX,
        ..limits()
    };
    let mut slow = Running::start_with(&*code("hostile"), b"", limits);
    slow.handle(&[text("hello")]).unwrap();
}

#[test]
fn neighbours_go_on_while_others_are_stopped() {
    let neighbours = std::thread::spawn(|| {
        let mut echo = Running::start(&*code("echo"), b"");
        let mut handled = 0;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            assert_eq!(bodies(&echo.tell("hello").unwrap()), ["hello"]);
            handled += 1;
        }
        handled
    });
    for habit in ["loop", "memory", "recursion", "trap"] {
        stopped(habit);
    }
    assert!(neighbours.join().unwrap() > 0);
}
