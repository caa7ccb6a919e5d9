//! The moves of buckets, event by event.

use super::*;

const BUCKET: u32 = 5;

/// Two workers that share the buckets; who has the bucket, and who has not.
fn two() -> (Moves<u32>, u32, u32, Instant) {
    let moves = Moves::new(Table::new(2), 2);
    let from = moves.table().owner(BUCKET);
    (moves, from, 1 - from, Instant::now())
}

fn want(moves: &mut Moves<u32>, to: u32, now: Instant) -> Vec<Action<u32>> {
    let (bucket, waiting) = (BUCKET, 0);
    let wanted = Event::Wanted {
        bucket,
        to,
        waiting,
    };
    moves.step(wanted, now)
}

/// Begins a move.
fn begin(moves: &mut Moves<u32>, to: u32, now: Instant) -> MoveId {
    match want(moves, to, now)[..] {
        [Action::Ask { id, .. }] => id,
        ref other => panic!("{other:?}"),
    }
}

fn hold(moves: &Moves<u32>, messages: &[u32]) {
    match moves.place(BUCKET) {
        Place::Held(held) => held.extend(messages.iter().copied()),
        Place::Worker(worker) => panic!("it is with {worker}"),
    }
}

fn is_with(moves: &Moves<u32>, worker: u32) -> bool {
    matches!(moves.place(BUCKET), Place::Worker(owner) if owner == worker)
}

fn refused(actions: &[Action<u32>]) -> Option<Why> {
    actions.iter().find_map(|action| match action {
        Action::Stays { why, .. } => Some(*why),
        _ => None,
    })
}

#[test]
fn what_was_held_comes_behind_what_was_given() {
    let (mut moves, from, to, now) = two();
    assert!(is_with(&moves, from));
    let id = begin(&mut moves, to, now);
    hold(&moves, &[3, 4]);
    assert_eq!(moves.held_messages(), 2);
    let later = now + Duration::from_millis(7);
    let given = vec![1, 2];
    let push = Action::Push {
        worker: to,
        messages: vec![1, 2, 3, 4],
    };
    let paused = Duration::from_millis(7);
    let actions = moves.step(Event::Gave { id, given }, later);
    assert_eq!(actions, [push, Action::Moved { paused }]);
    assert!(is_with(&moves, to) && moves.held_messages() == 0);
    assert_eq!(moves.table().version, 2);
}

#[test]
fn a_worker_that_is_too_slow_keeps_the_bucket_and_what_it_gives_late() {
    let (mut moves, from, to, now) = two();
    let id = begin(&mut moves, to, now);
    hold(&moves, &[3]);
    let nearly = now + GIVE_MAX - Duration::from_millis(1);
    assert_eq!(moves.step(Event::Waited { id }, nearly), []);
    let actions = moves.step(Event::Waited { id }, now + GIVE_MAX);
    let push = Action::Push {
        worker: from,
        messages: vec![3],
    };
    assert_eq!(actions[0], push);
    assert_eq!(refused(&actions), Some(Why::Busy(GIVE_MAX)));
    assert!(is_with(&moves, from));
    // Somebody wants it again, and then the late answer comes: it is not the answer to that.
    let again = begin(&mut moves, to, now + GIVE_MAX);
    let late = Event::Gave { id, given: vec![1] };
    let messages = vec![1];
    assert_eq!(moves.step(late, now), [Action::PutBack { messages }]);
    assert_eq!(moves.step(Event::Gone { id }, now), []);
    assert_eq!(moves.on_their_way(), [BUCKET]);
    let given = vec![1, 3];
    moves.step(Event::Gave { id: again, given }, now);
    assert!(is_with(&moves, to));
}

#[test]
fn what_cannot_move_stays() {
    let (mut moves, from, to, now) = two();
    assert_eq!(want(&mut moves, from, now), [], "it is there");
    assert_eq!(refused(&want(&mut moves, 2, now)), Some(Why::NoWorker(2)));
    let id = begin(&mut moves, to, now);
    let again = want(&mut moves, to, now);
    assert_eq!(refused(&again), Some(Why::OnItsWay(to)));
    let gone = moves.step(Event::Gone { id }, now);
    assert_eq!(refused(&gone), Some(Why::Gone));
    assert!(is_with(&moves, from));
    moves.step(Event::Stopping, now);
    assert_eq!(refused(&want(&mut moves, to, now)), Some(Why::Stopping));
}

#[test]
fn a_worker_goes_when_it_has_nothing_and_nothing_is_on_its_way_to_it() {
    let mut moves: Moves<u32> = Moves::new(Table::new(1), 1);
    let now = Instant::now();
    moves.step(Event::Added { workers: 2 }, now);
    let remove = |moves: &mut Moves<u32>| moves.step(Event::Removed { workers: 1 }, now);
    let id = begin(&mut moves, 1, now);
    assert_eq!(refused(&remove(&mut moves)), Some(Why::OnItsWay(1)));
    let given = Vec::new();
    moves.step(Event::Gave { id, given }, now);
    assert_eq!(refused(&remove(&mut moves)), Some(Why::Owned));
    assert_eq!(moves.moves_for(1), [(BUCKET, 0)]);
    let id = begin(&mut moves, 0, now);
    let given = Vec::new();
    moves.step(Event::Gave { id, given }, now);
    assert_eq!(remove(&mut moves), [Action::Dismiss { workers: 1 }]);
    assert_eq!(refused(&want(&mut moves, 1, now)), Some(Why::NoWorker(1)));
}

#[test]
fn at_the_end_everything_that_is_held_or_given_late_is_let_go() {
    let (mut moves, from, to, now) = two();
    let id = begin(&mut moves, to, now);
    hold(&moves, &[3, 4]);
    let messages = vec![3, 4];
    let dismiss = Action::Dismiss { workers: 0 };
    let ended = moves.step(Event::Ended, now);
    assert_eq!(ended, [dismiss, Action::LetGo { messages }]);
    assert!(is_with(&moves, from), "nothing is held any more");
    let messages = vec![1];
    let late = Event::Gave { id, given: vec![1] };
    assert_eq!(moves.step(late, now), [Action::LetGo { messages }]);
    assert_eq!(refused(&want(&mut moves, to, now)), Some(Why::Stopping));
}

#[test]
fn what_waits_before_a_move_counts_as_held() {
    let held = Held::behind(2);
    assert_eq!(held.try_push(7, 3), Ok(()));
    assert_eq!(held.try_push(8, 3), Err(8));
    held.extend([9].into_iter());
    assert_eq!(held.len(), 2, "what has a bound of its own is held always");
    assert_eq!(held.into_messages(), [7, 9]);
}
