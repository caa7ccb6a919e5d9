//! Commits: one step or none, and only for the owner.

use anyhow::{Context, Result, ensure};
use bus::{BusError, Commit, Consumed, Delivery, Given, Owner, Receipt, StateWrite};
use kernel::{Destination, Name};

use crate::suite::{Guarantee, STEP, Subscriber, World, guarantee, message, texts};

pub const ALL: &[Guarantee] = &[
    guarantee!(
        Nothing,
        "what is not supported is refused clearly",
        refused_clearly
    ),
    guarantee!(Commit, "a commit does all of it", does_all),
    guarantee!(Commit, "an older epoch is refused", older_epoch),
    guarantee!(Commit, "raising the epoch fences a running owner", fences),
    guarantee!(Commit, "sends of a refused commit never appear", no_sends),
    guarantee!(
        Commit,
        "a refused commit's input comes again",
        input_comes_again
    ),
    guarantee!(
        Commit,
        "a commit of what is not held does nothing",
        not_held
    ),
    guarantee!(Commit, "state is read back in order", scan),
    guarantee!(
        CommitAndRestart,
        "state and epochs survive a crash",
        survives
    ),
    guarantee!(
        DiskThatCrashes,
        "a crash at any point leaves all or nothing",
        crash_points
    ),
];

fn set(key: &str, value: &str) -> StateWrite {
    StateWrite::Set {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
    }
}

fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
    deliveries.iter().map(|d| d.receipt).collect()
}

/// A turn: an input in hand, a bucket that is owned, and an output to send to.
struct Turn {
    bucket: Name,
    epoch: u64,
    input: Destination,
    output: Destination,
    subscriber: Subscriber,
    deliveries: Vec<Delivery>,
}

impl Turn {
    async fn begin(world: &World) -> Result<Self> {
        let bucket = world.name();
        let epoch = world.bus.raise_epoch(&bucket, STEP).await?;
        let input = world.queue();
        world.send(&input, &["input 1", "input 2"]).await?;
        let subscriber = world.subscribe(&input, 10).await?;
        let deliveries = subscriber.receive(2).await?;
        Ok(Self {
            bucket,
            epoch,
            input,
            output: world.queue(),
            subscriber,
            deliveries,
        })
    }

    fn commit(&self, epoch: u64) -> Commit<'_> {
        Commit {
            owner: Some(Owner {
                bucket: self.bucket.clone(),
                epoch,
            }),
            consumed: vec![Consumed {
                subscription: self.subscriber.subscription.as_ref(),
                receipts: receipts(&self.deliveries),
            }],
            writes: vec![set("key", "value"), set("other", "2")],
            sends: vec![
                (self.output.clone(), message("output 1")),
                (self.output.clone(), message("output 2")),
            ],
        }
    }

    /// Commits with the epoch of before the last raise, which must be refused.
    async fn commit_too_late(&self, world: &World) -> Result<BusError> {
        let current = world.bus.raise_epoch(&self.bucket, STEP).await?;
        ensure!(current > self.epoch, "the epoch did not rise");
        let outcome = world.bus.commit(&self.commit(self.epoch), STEP).await;
        outcome
            .err()
            .context("a commit of an older epoch was taken")
    }
}

async fn value(world: &World, bucket: &Name) -> Result<Option<String>> {
    let value = world.bus.state(bucket, b"key", STEP).await?;
    Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

async fn refused_clearly(world: &World) -> Result<()> {
    if world.bus.capabilities().commit == Given::Yes {
        return Ok(());
    }
    let bucket = world.name();
    let errors = [
        world.bus.commit(&Commit::default(), STEP).await.err(),
        world.bus.raise_epoch(&bucket, STEP).await.err(),
        world.bus.state(&bucket, b"key", STEP).await.err(),
        world.bus.scan(&bucket, None, 1, STEP).await.err(),
    ];
    for error in errors {
        ensure!(
            matches!(&error, Some(e @ BusError::Unsupported { .. }) if !e.can_retry()),
            "got {error:?}"
        );
    }
    Ok(())
}

async fn does_all(world: &World) -> Result<()> {
    let turn = Turn::begin(world).await?;
    let level = world.bus.commit(&turn.commit(turn.epoch), STEP).await?;
    let promised = world.bus.capabilities().durable_level;
    ensure!(level == promised, "it was worth {level}, not {promised}");
    ensure!(
        value(world, &turn.bucket).await?.as_deref() == Some("value"),
        "no state"
    );
    let output = world.subscribe(&turn.output, 10).await?;
    let sent = output.receive(2).await?;
    ensure!(
        texts(&sent) == ["output 1", "output 2"],
        "sent {:?}",
        texts(&sent)
    );
    drop(turn.subscriber);
    world.expect_empty(&turn.input).await?;

    // The next one of the same owner, with nothing but state.
    let owner = Owner {
        bucket: turn.bucket.clone(),
        epoch: turn.epoch,
    };
    let key = "key".into();
    let remove = Commit {
        owner: Some(owner),
        writes: vec![StateWrite::Remove { key }],
        ..Commit::default()
    };
    world.bus.commit(&remove, STEP).await?;
    ensure!(
        value(world, &turn.bucket).await?.is_none(),
        "the key was not removed"
    );
    Ok(())
}

async fn older_epoch(world: &World) -> Result<()> {
    let turn = Turn::begin(world).await?;
    let error = turn.commit_too_late(world).await?;
    let expected = BusError::Fenced {
        bucket: turn.bucket.clone(),
        given: turn.epoch,
        current: turn.epoch + 1,
    };
    ensure!(error == expected, "the error was {error:?}");
    ensure!(
        value(world, &turn.bucket).await?.is_none(),
        "state was written"
    );
    let future = world.bus.commit(&turn.commit(turn.epoch + 2), STEP).await;
    ensure!(future.is_err(), "an epoch that nobody was given was taken");
    Ok(())
}

async fn fences(world: &World) -> Result<()> {
    let bucket = world.name();
    let old = world.bus.raise_epoch(&bucket, STEP).await?;
    let commit = |epoch, value: String| {
        let owner = Some(Owner {
            bucket: bucket.clone(),
            epoch,
        });
        async move {
            let writes = vec![set("key", &value)];
            let commit = Commit {
                owner,
                writes,
                ..Commit::default()
            };
            world.bus.commit(&commit, STEP).await
        }
    };
    // The old owner commits on and on while the new one takes over.
    let made = tokio::sync::watch::Sender::new(0);
    let owner = async {
        for round in 0_u64.. {
            match commit(old, format!("old {round}")).await {
                Ok(_) => {
                    made.send_replace(round + 1);
                }
                Err(error) => return (round, error),
            }
            if round > 10_000 {
                break;
            }
        }
        let reason = "it was never fenced".into();
        (0, BusError::Refused { reason })
    };
    let new_owner = async {
        let mut commits = made.subscribe();
        tokio::time::timeout(STEP, commits.wait_for(|commits| *commits >= 3)).await??;
        let epoch = world.bus.raise_epoch(&bucket, STEP).await?;
        commit(epoch, "new".into()).await?;
        anyhow::Ok(())
    };
    let ((rounds, error), taken_over) = tokio::join!(owner, new_owner);
    taken_over?;
    ensure!(
        matches!(error, BusError::Fenced { .. }),
        "the old owner got {error:?}"
    );
    ensure!(
        rounds > 0,
        "the old owner never committed: this proves nothing"
    );
    let last = value(world, &bucket).await?;
    ensure!(
        last.as_deref() == Some("new"),
        "the old owner wrote {last:?} afterwards"
    );
    Ok(())
}

async fn no_sends(world: &World) -> Result<()> {
    let turn = Turn::begin(world).await?;
    turn.commit_too_late(world).await?;
    world.expect_empty(&turn.output).await
}

async fn input_comes_again(world: &World) -> Result<()> {
    let turn = Turn::begin(world).await?;
    turn.commit_too_late(world).await?;
    drop(turn.subscriber);
    let next = world.subscribe(&turn.input, 10).await?;
    let again = next.receive(2).await?;
    ensure!(
        texts(&again) == ["input 1", "input 2"],
        "got {:?}",
        texts(&again)
    );
    ensure!(again.iter().all(|d| d.redelivered), "it was not marked");
    next.acknowledge(&again).await
}

async fn not_held(world: &World) -> Result<()> {
    let turn = Turn::begin(world).await?;
    turn.subscriber.acknowledge(&turn.deliveries[..1]).await?;
    let outcome = world.bus.commit(&turn.commit(turn.epoch), STEP).await;
    ensure!(
        matches!(outcome, Err(BusError::NotHeld { .. })),
        "got {outcome:?}"
    );
    ensure!(
        value(world, &turn.bucket).await?.is_none(),
        "state was written"
    );
    world.expect_empty(&turn.output).await?;
    drop(turn.subscriber);
    let next = world.subscribe(&turn.input, 10).await?;
    let again = next.receive(1).await?;
    ensure!(texts(&again) == ["input 2"], "got {:?}", texts(&again));
    Ok(())
}

async fn scan(world: &World) -> Result<()> {
    let bucket = world.name();
    let epoch = world.bus.raise_epoch(&bucket, STEP).await?;
    let keys = ["b", "a", "c", "aa"];
    let commit = Commit {
        owner: Some(Owner {
            bucket: bucket.clone(),
            epoch,
        }),
        writes: keys.iter().map(|key| set(key, "x")).collect(),
        ..Commit::default()
    };
    world.bus.commit(&commit, STEP).await?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    loop {
        let after = found.last().map(Vec::as_slice);
        let page = world.bus.scan(&bucket, after, 2, STEP).await?;
        if page.is_empty() {
            break;
        }
        found.extend(page.into_iter().map(|(key, _)| key.to_vec()));
    }
    let expected: [&[u8]; 4] = [b"a", b"aa", b"b", b"c"];
    ensure!(found == expected, "found {found:?}");
    let elsewhere = world.bus.scan(&world.name(), None, 10, STEP).await?;
    ensure!(elsewhere.is_empty(), "another bucket has the same state");
    Ok(())
}

async fn survives(world: &World) -> Result<()> {
    let turn = Turn::begin(world).await?;
    world.bus.commit(&turn.commit(turn.epoch), STEP).await?;
    let current = world.bus.raise_epoch(&turn.bucket, STEP).await?;
    // It would connect again and take what is meant for others.
    drop(turn.subscriber);
    let world = world.restarted().await?;
    ensure!(
        value(&world, &turn.bucket).await?.as_deref() == Some("value"),
        "no state"
    );
    let owner = |epoch| Commit {
        owner: Some(Owner {
            bucket: turn.bucket.clone(),
            epoch,
        }),
        writes: vec![set("key", "after")],
        ..Commit::default()
    };
    let fenced = world.bus.commit(&owner(turn.epoch), STEP).await;
    ensure!(
        matches!(fenced, Err(BusError::Fenced { .. })),
        "got {fenced:?}"
    );
    world.bus.commit(&owner(current), STEP).await?;
    let next = world.bus.raise_epoch(&turn.bucket, STEP).await?;
    ensure!(next > current, "an epoch was given twice");
    world.expect_empty(&turn.input).await
}

/// Crashes the disk at every operation during a commit, looks what is there afterwards, and goes on
/// with the next operation until the commit gets through.
async fn crash_points(world: &World) -> Result<()> {
    const ROUNDS: usize = 16;
    const POINTS_MAX: u64 = 64;
    let mut world = World::new(world.fixture.clone()).await?;
    let (mut crashes, mut done, mut undone) = (0, 0, 0);
    for _ in 0..ROUNDS {
        for operations in 0..POINTS_MAX {
            let turn = Turn::begin(&world).await?;
            ensure!(
                world.fixture.crash_after(operations),
                "this disk cannot crash"
            );
            let outcome = world.bus.commit(&turn.commit(turn.epoch), STEP).await;
            let has_crashed = world.fixture.has_crashed();
            world = world.restarted().await?;
            let is_done = all_or_nothing(&world, &turn).await?;
            ensure!(
                is_done || outcome.is_err(),
                "a commit that was promised is gone"
            );
            if !has_crashed {
                break;
            }
            crashes += 1;
            done += usize::from(is_done);
            undone += usize::from(!is_done);
        }
    }
    ensure!(
        crashes >= ROUNDS,
        "it crashed only {crashes} times: this proves nothing"
    );
    ensure!(
        undone > 0,
        "no crash came before the commit was done ({done} after)"
    );
    Ok(())
}

/// Whether all of a turn's commit happened; fails if a part of it did.
async fn all_or_nothing(world: &World, turn: &Turn) -> Result<bool> {
    let has_state = value(world, &turn.bucket).await?.is_some();
    world.send(&turn.output, &["end"]).await?;
    world.send(&turn.input, &["end"]).await?;
    let ends = |d: &Delivery| d.message.body == "end";
    let output = world.subscribe(&turn.output, 10).await?;
    let sent = output.receive_until(ends).await?.len() - 1;
    let input = world.subscribe(&turn.input, 10).await?;
    let left = input.receive_until(ends).await?.len() - 1;
    match (has_state, sent, left) {
        (true, 2, 0) => Ok(true),
        (false, 0, 2) => Ok(false),
        (state, sent, left) => anyhow::bail!(
            "a part of it happened: state {state}, {sent} of 2 sends, {left} of 2 inputs left"
        ),
    }
}
