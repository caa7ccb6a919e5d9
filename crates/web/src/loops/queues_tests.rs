//! The queues, one step after another, without threads.

use super::lane::{State, remaining_ns};
use super::queues::{Found, Queues, Refusal, Rules};

const MS: u64 = 1_000_000;

fn queues(lanes: usize, queued_max: usize) -> Queues<u32> {
    Queues::new(Rules {
        lanes,
        queued_max,
        hold_max_ns: 3 * MS,
        search_rounds: 0,
    })
}

fn submit(queues: &Queues<u32>, expected_ns: u64, job: u32) -> Result<(), (Refusal, u32)> {
    queues.submit(expected_ns, job, 0, || 0)
}

/// What this lane gets now; there must be something, or it would sleep.
fn next(queues: &Queues<u32>, lane: usize) -> Found<u32> {
    let found = queues.next(lane, &mut 0);
    found.expect("it is not closed")
}

#[test]
fn jobs_of_one_queue_are_run_in_order_and_each_once() {
    let queues = queues(1, 10);
    for job in 0..5 {
        submit(&queues, 0, job).expect("there is room");
    }
    let jobs: Vec<u32> = (0..5).map(|_| next(&queues, 0).queued.job).collect();
    assert_eq!(jobs, [0, 1, 2, 3, 4]);
    assert_eq!(queues.queued(), 0);
}

#[test]
fn a_full_queue_gives_the_job_back_and_has_room_again_when_one_was_taken() {
    let queues = queues(2, 2);
    submit(&queues, 0, 1).expect("there is room");
    submit(&queues, 0, 2).expect("there is room");
    assert_eq!(submit(&queues, 0, 3), Err((Refusal::Full, 3)));
    next(&queues, 0);
    assert_eq!(submit(&queues, 0, 4), Ok(()));
}

#[test]
fn a_job_joins_where_it_begins_first() {
    let queues = queues(2, 10);
    // The first lane has 2 ms to do, the second takes three short jobs before it is as busy.
    submit(&queues, 2 * MS, 0).expect("there is room");
    for job in 1..4 {
        submit(&queues, MS / 2, job).expect("there is room");
    }
    let jobs: Vec<u32> = (0..3).map(|_| next(&queues, 1).queued.job).collect();
    assert_eq!(jobs, [1, 2, 3]);
    assert_eq!(next(&queues, 0).queued.job, 0);
    // Now the first lane runs something, and the second does not.
    let found = Found {
        queued: super::lane::Queued {
            hold_ns: MS,
            job: 9,
        },
        searched: false,
    };
    queues.begin(0, &found, 0);
    submit(&queues, 0, 4).expect("there is room");
    submit(&queues, 0, 5).expect("there is room");
    assert_eq!(next(&queues, 1).queued.job, 4);
    assert_eq!(next(&queues, 1).queued.job, 5);
    let stolen: u64 = queues.counts(0).map(|counts| counts.stolen).sum();
    assert_eq!(stolen, 0);
}

#[test]
fn what_takes_longer_than_expected_is_taken_to_be_half_done() {
    assert_eq!(remaining_ns(MS, 10 * MS, u64::MAX), 9 * MS);
    assert_eq!(remaining_ns(10 * MS, MS, u64::MAX), 10 * MS);
    // Another thread takes the lane soon …
    assert_eq!(remaining_ns(MS, 10 * MS, 3 * MS), 2 * MS);
    // … or would have, if there were one.
    assert_eq!(remaining_ns(10 * MS, MS, 3 * MS), 10 * MS);
}

#[test]
fn one_who_has_nothing_takes_from_the_others() {
    let queues = queues(2, 10);
    submit(&queues, 0, 7).expect("there is room");
    assert_eq!(next(&queues, 1).queued.job, 7);
    let stolen: u64 = queues.counts(0).map(|counts| counts.stolen).sum();
    assert_eq!(stolen, 1);
}

/// How many jobs the second lane takes from its own queue, which is never empty, until it takes the one in the first lane's.
fn taken_before_the_others(take: impl Fn(&Queues<u32>, &mut u32) -> u32) -> Option<usize> {
    let queues = queues(2, 100);
    submit(&queues, 0, 1_000).expect("there is room");
    // The first lane has the job and has a long one before it.
    let stuck = Found {
        queued: super::lane::Queued {
            hold_ns: 3 * MS,
            job: 0,
        },
        searched: false,
    };
    queues.begin(0, &stuck, 0);
    let mut taken = 0;
    submit(&queues, 0, 0).expect("there is room");
    (0..100).find(|_| {
        submit(&queues, 0, 1).expect("there is room");
        take(&queues, &mut taken) == 1_000
    })
}

#[test]
fn a_queue_whose_thread_is_stuck_is_served_by_the_others() {
    let fair = taken_before_the_others(|queues, taken| {
        let found = queues.next(1, taken).expect("it is not closed");
        found.queued.job
    });
    assert!(fair.is_some_and(|jobs| jobs <= 16), "{fair:?}");
    // The control never lets the count grow, so it is never the others' turn.
    let unfair = taken_before_the_others(|queues, _| next(queues, 1).queued.job);
    assert_eq!(unfair, None);
}

#[test]
fn a_lane_that_is_taken_is_lost_to_its_thread_and_keeps_its_queue() {
    let queues = queues(1, 10);
    submit(&queues, 0, 1).expect("there is room");
    submit(&queues, 0, 2).expect("there is room");
    let found = next(&queues, 0);
    let run = queues.begin(0, &found, 5);
    assert_eq!(queues.running(0), Some((run, 5)));
    assert!(queues.relieve(0, run));
    assert!(!queues.relieve(0, run), "only once");
    // The new thread runs the next job; the old one ends meanwhile, and after it.
    let second = next(&queues, 0);
    assert_eq!(second.queued.job, 2);
    assert!(!queues.finish(0, run, 1));
    let second_run = queues.begin(0, &second, 6);
    assert!(!queues.finish(0, run, 1));
    assert!(queues.finish(0, second_run, 1));
    assert!(!queues.relieve(0, second_run), "it has ended");
}

#[test]
fn nobody_is_woken_for_nothing() {
    let queues = queues(2, 10);
    std::thread::scope(|scope| {
        // The first lane's thread sleeps.
        let sleeper = scope.spawn(|| queues.next(0, &mut 0).map(|found| found.queued.job));
        while queues.state(0) != State::Asleep {
            std::thread::yield_now();
        }
        assert_eq!(queues.woken(), 0);
        submit(&queues, 0, 1).expect("there is room");
        assert_eq!(sleeper.join().ok(), Some(Some(1)));
        assert_eq!(queues.woken(), 1);
    });
    // Its thread is awake, and still counts as one that searches: it begins only below.
    submit(&queues, 0, 2).expect("there is room");
    submit(&queues, 0, 3).expect("there is room");
    assert_eq!(queues.woken(), 1);
}

#[test]
fn after_the_end_nothing_is_taken_and_nothing_found() {
    let queues = queues(2, 10);
    submit(&queues, 0, 1).expect("there is room");
    queues.seal();
    assert_eq!(submit(&queues, 0, 2), Err((Refusal::Sealed, 2)));
    assert_eq!(queues.queued(), 1, "what is there stays");
    assert_eq!(queues.close(), [1]);
    assert_eq!(queues.close(), [] as [u32; 0]);
    assert!(queues.next(0, &mut 0).is_none());
    assert_eq!(queues.queued(), 0);
}
