//! Whole clusters from a seed: nodes crash, pause, lose the network and come back, heartbeats are late
//! or lost, and clocks differ. The store is the only one who decides.

use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use control::{
    Action, Defined, Event, Heard, Heartbeat, Members, NodeState, Ownership, Rules, Share,
    ShareState, StageBeat,
};
use fastrand::Rng;
use kernel::Timestamp;

const SEEDS: u64 = 500;
const STAGE: &str = "flow/stage";
const SHARES: u32 = 32;
/// When nothing bad happens any more.
const CALM_AFTER_MS: u64 = 60_000;
/// So much later the cluster must be whole.
const WHOLE_AFTER_MS: u64 = 40_000;
/// How often every node looks.
const TICK_MS: u64 = 100;

/// What the store knows of a share.
#[derive(Clone, Default)]
struct Stored {
    epoch: u64,
    /// Who raised it to that.
    owner: usize,
    commits: u64,
}

/// Something that happens later.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Later {
    at_ms: std::cmp::Reverse<u64>,
    /// Keeps apart what happens at the same time, in order.
    number: std::cmp::Reverse<u64>,
    what: What,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Tick(usize),
    Beat {
        to: usize,
        beat: usize,
    },
    Raised {
        node: usize,
        life: u64,
        share: u32,
    },
    Released {
        node: usize,
        life: u64,
        share: u32,
    },
    Commit {
        node: usize,
        life: u64,
        share: u32,
        epoch: u64,
    },
    Harm,
}

struct Node {
    name: String,
    /// How far its clock is off.
    offset_ms: u64,
    life: u64,
    alive: bool,
    paused_until_ms: u64,
    cut_off_until_ms: u64,
    number: u64,
    beat_at_ms: u64,
    members: Members,
    ownership: Ownership,
    /// What the process itself believes to own, as its workers do.
    owned: BTreeMap<u32, u64>,
    /// It has so many stages that it names only those of which it holds something.
    names_little: bool,
}

impl Node {
    fn named_stages(&self) -> BTreeMap<String, StageBeat> {
        let is_named = !self.names_little || self.ownership.holds_any();
        let stage = is_named.then(|| (STAGE.to_owned(), self.ownership.beat()));
        stage.into_iter().collect()
    }
}

/// Members of a node that goes by the one definition.
fn members(name: &str, life: u64, now: Timestamp) -> Members {
    let mut members = Members::new(name, life, Rules::default(), now);
    members.definitions().change(STAGE, None, Some(1));
    members
}

struct World {
    rng: Rng,
    now_ms: u64,
    nodes: Vec<Node>,
    stored: Vec<Stored>,
    later: BinaryHeap<Later>,
    numbers: u64,
    beats: Vec<Heartbeat>,
    trace: u64,
    fences: bool,
    refused: u64,
    /// Commits of a node that was not the last owner: with fencing there are none.
    wrong: u64,
    takes: u64,
}

fn rule() -> Share {
    Share {
        revision: 1,
        change: 1,
        version: 1,
        count: SHARES,
        ..Share::default()
    }
}

impl World {
    fn new(seed: u64, nodes: usize, fences: bool) -> Self {
        let mut world = Self {
            rng: Rng::with_seed(seed),
            now_ms: 0,
            nodes: Vec::new(),
            stored: vec![Stored::default(); SHARES as usize],
            later: BinaryHeap::new(),
            numbers: 0,
            beats: Vec::new(),
            trace: 0,
            fences,
            refused: 0,
            wrong: 0,
            takes: 0,
        };
        for number in 0..nodes {
            let name = format!("node-{number}");
            let offset_ms = 1_000_000 + world.rng.u64(0..5_000);
            let now = Timestamp::from_micros(offset_ms * 1_000);
            world.nodes.push(Node {
                members: members(&name, 1, now),
                ownership: Ownership::new(STAGE, rule()),
                name,
                offset_ms,
                life: 1,
                alive: true,
                paused_until_ms: 0,
                cut_off_until_ms: 0,
                number: 0,
                beat_at_ms: 0,
                owned: BTreeMap::new(),
                names_little: seed % 2 == 1,
            });
            let at_ms = world.rng.u64(0..3_000);
            world.at(at_ms, What::Tick(number));
        }
        world.at(5_000, What::Harm);
        world
    }

    fn at(&mut self, at_ms: u64, what: What) {
        self.numbers += 1;
        self.later.push(Later {
            at_ms: std::cmp::Reverse(at_ms),
            number: std::cmp::Reverse(self.numbers),
            what,
        });
    }

    fn after(&mut self, least_ms: u64, most_ms: u64, what: What) {
        let delay = self.rng.u64(least_ms..=most_ms);
        self.at(self.now_ms + delay, what);
    }

    fn note(&mut self, value: u64) {
        self.trace = (self.trace ^ value)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(7);
    }

    fn run(&mut self, until_ms: u64) {
        while let Some(next) = self.later.peek() {
            if next.at_ms.0 > until_ms {
                break;
            }
            let Later { at_ms, what, .. } = self.later.pop().expect("it was just there");
            self.now_ms = at_ms.0;
            self.happen(what);
        }
        self.now_ms = until_ms;
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Tick(node) => self.tick(node),
            What::Beat { to, beat } => self.hear(to, beat),
            What::Raised { node, life, share } => self.raised(node, life, share),
            What::Released { node, life, share } => {
                if let Some(at_ms) = self.postponed(node, life) {
                    return self.at(at_ms, What::Released { node, life, share });
                }
                if self.nodes[node].alive && self.nodes[node].life == life {
                    self.nodes[node].owned.remove(&share);
                    self.step(node, Event::Released { share });
                }
            }
            What::Commit {
                node,
                life,
                share,
                epoch,
            } => self.commit(node, life, share, epoch),
            What::Harm => self.harm(),
        }
    }

    /// When a paused or cut-off node goes on, if it is one.
    fn postponed(&self, node: usize, life: u64) -> Option<u64> {
        let node = &self.nodes[node];
        let until = node.paused_until_ms.max(node.cut_off_until_ms);
        (node.alive && node.life == life && until > self.now_ms).then_some(until + 1)
    }

    fn time(&self, node: usize) -> Timestamp {
        Timestamp::from_micros((self.now_ms + self.nodes[node].offset_ms) * 1_000)
    }

    fn tick(&mut self, node: usize) {
        self.at(self.now_ms + TICK_MS, What::Tick(node));
        let now_ms = self.now_ms;
        if !self.nodes[node].alive || self.nodes[node].paused_until_ms > now_ms {
            return;
        }
        if now_ms >= self.nodes[node].beat_at_ms {
            self.announce(node);
        }
        self.step(node, Event::Look);
        // Its workers are busy.
        let owned: Vec<(u32, u64)> = self.nodes[node]
            .owned
            .iter()
            .map(|(s, e)| (*s, *e))
            .collect();
        let life = self.nodes[node].life;
        for (share, epoch) in owned {
            if self.rng.u32(0..10) == 0 {
                self.after(
                    0,
                    300,
                    What::Commit {
                        node,
                        life,
                        share,
                        epoch,
                    },
                );
            }
        }
    }

    fn announce(&mut self, node: usize) {
        let (now_ms, now) = (self.now_ms, self.time(node));
        let sender = &mut self.nodes[node];
        sender.number += 1;
        sender.beat_at_ms = now_ms + 1_000;
        if sender.cut_off_until_ms > now_ms {
            return;
        }
        let beat = Heartbeat {
            node: sender.name.clone(),
            start: sender.life,
            number: sender.number,
            state: NodeState::Running,
            listens: !sender.members.has_listened(now),
            labels: BTreeMap::new(),
            address: None,
            load: 0,
            stages: sender.named_stages(),
            defined: sender.names_little.then(|| Defined {
                digest: sender.members.definitions().digest(),
                lacks: Vec::new(),
            }),
        };
        self.beats.push(beat);
        let beat = self.beats.len() - 1;
        for to in 0..self.nodes.len() {
            let is_lost = self.now_ms < CALM_AFTER_MS && self.rng.u32(0..20) == 0;
            if !is_lost {
                self.after(1, 150, What::Beat { to, beat });
            }
        }
    }

    fn hear(&mut self, to: usize, beat: usize) {
        let now_ms = self.now_ms;
        let node = &self.nodes[to];
        if !node.alive || node.cut_off_until_ms > now_ms {
            return;
        }
        if node.paused_until_ms > now_ms {
            // It waits in a socket.
            let until = node.paused_until_ms + 1;
            return self.at(until, What::Beat { to, beat });
        }
        let now = self.time(to);
        let beat = self.beats[beat].clone();
        let heard = self.nodes[to].members.heard(beat, now);
        assert_ne!(heard, Heard::NameTaken, "names are different here");
        self.step(to, Event::Look);
    }

    fn step(&mut self, node: usize, event: Event) {
        let now = self.time(node);
        let actor = &mut self.nodes[node];
        let actions = actor.ownership.step(event, &actor.members, now);
        let life = actor.life;
        let mut announces = false;
        for action in actions {
            match action {
                Action::Take(share) => {
                    self.takes += 1;
                    self.note(1 + u64::from(share) * 8 + node as u64 * 1_024 + self.now_ms);
                    self.after(5, 200, What::Raised { node, life, share });
                }
                Action::Release(share) => {
                    self.note(2 + u64::from(share) * 8 + node as u64 * 1_024 + self.now_ms);
                    self.after(5, 200, What::Released { node, life, share });
                }
                Action::Announce => announces = true,
            }
        }
        if announces {
            self.announce(node);
        }
    }

    fn raised(&mut self, node: usize, life: u64, share: u32) {
        if let Some(at_ms) = self.postponed(node, life) {
            return self.at(at_ms, What::Raised { node, life, share });
        }
        if !self.nodes[node].alive || self.nodes[node].life != life {
            return;
        }
        let stored = &mut self.stored[share as usize];
        stored.epoch += 1;
        stored.owner = node;
        let epoch = stored.epoch;
        self.nodes[node].owned.insert(share, epoch);
        self.step(node, Event::Taken { share, epoch });
    }

    fn commit(&mut self, node: usize, life: u64, share: u32, epoch: u64) {
        if let Some(at_ms) = self.postponed(node, life) {
            return self.at(
                at_ms,
                What::Commit {
                    node,
                    life,
                    share,
                    epoch,
                },
            );
        }
        let is_owner = self.nodes[node].owned.get(&share) == Some(&epoch);
        if !self.nodes[node].alive || self.nodes[node].life != life || !is_owner {
            return;
        }
        let stored = &mut self.stored[share as usize];
        if stored.epoch != epoch {
            if self.fences {
                self.refused += 1;
                self.nodes[node].owned.remove(&share);
                return self.step(node, Event::Fenced { share });
            }
            self.wrong += 1;
        }
        self.stored[share as usize].commits += 1;
        self.note(3 + u64::from(share) * 8 + epoch);
    }

    /// Something bad happens, and later something else.
    fn harm(&mut self) {
        if self.now_ms >= CALM_AFTER_MS {
            for node in 0..self.nodes.len() {
                if !self.nodes[node].alive {
                    self.revive(node);
                }
            }
            return;
        }
        let node = self.rng.usize(0..self.nodes.len());
        let for_ms = self.rng.u64(200..12_000);
        let until = (self.now_ms + for_ms).min(CALM_AFTER_MS);
        match self.rng.u32(0..4) {
            0 if self.nodes[node].alive => {
                self.nodes[node].alive = false;
                self.nodes[node].owned.clear();
            }
            0 | 1 if !self.nodes[node].alive => self.revive(node),
            2 => self.nodes[node].paused_until_ms = until,
            _ => self.nodes[node].cut_off_until_ms = until,
        }
        let next = self.rng.u64(500..4_000);
        self.at(
            (self.now_ms + next).min(CALM_AFTER_MS.max(self.now_ms + 1)),
            What::Harm,
        );
    }

    fn revive(&mut self, node: usize) {
        let now = self.time(node);
        let back = &mut self.nodes[node];
        back.life += 1;
        back.alive = true;
        back.number = 0;
        back.beat_at_ms = 0;
        back.members = members(&back.name, back.life, now);
        back.ownership = Ownership::new(STAGE, rule());
        back.owned.clear();
    }

    /// The node that owns each share by its own account, if it is one and the last to have taken it.
    fn owners(&self) -> Vec<Option<usize>> {
        let owner = |share: u32| {
            let holds = |node: &usize| {
                let node = &self.nodes[*node];
                node.alive && matches!(node.ownership.state(share), ShareState::Held { .. })
            };
            let mut holders = (0..self.nodes.len()).filter(holds);
            let owner = holders.next()?;
            let is_last = self.stored[share as usize].owner == owner;
            (holders.next().is_none() && is_last).then_some(owner)
        };
        (0..SHARES).map(owner).collect()
    }
}

/// How many seeds are tried; `HIVEWIRE_SOAK` multiplies them.
fn seeds() -> u64 {
    let soak = std::env::var("HIVEWIRE_SOAK").ok();
    SEEDS * soak.and_then(|times| times.parse().ok()).unwrap_or(1)
}

fn nodes_of(seed: u64) -> usize {
    2 + (seed % 4) as usize
}

/// Runs one seed twice: how many were too late, and how many shares were taken.
fn run_seed(seed: u64) -> (u64, u64) {
    let run = || {
        let mut world = World::new(seed, nodes_of(seed), true);
        world.run(CALM_AFTER_MS + WHOLE_AFTER_MS);
        world
    };
    let world = run();
    assert_eq!(world.wrong, 0, "seed {seed}");
    let owners = world.owners();
    assert!(
        owners.iter().all(Option::is_some),
        "seed {seed} with {} nodes: {owners:?}",
        world.nodes.len()
    );
    // Everybody has the share that is due, and nobody waits.
    let node = &world.nodes[0];
    let wanted = node.ownership.wanted(&node.members, world.time(0));
    for (share, owner) in owners.iter().enumerate() {
        let owner = owner.map(|owner| world.nodes[owner].name.as_str());
        assert_eq!(
            owner,
            wanted[share].as_deref(),
            "seed {seed}, share {share}"
        );
    }
    assert_eq!(
        world.trace,
        run().trace,
        "seed {seed} was not the same twice"
    );
    (world.refused, world.takes)
}

#[test]
fn every_seed_ends_whole_and_no_two_owners_commit() {
    let seeds = seeds();
    let next = AtomicU64::new(0);
    let run_some = || {
        let (mut refused, mut takes) = (0, 0);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return (refused, takes);
            }
            let (late, taken) = run_seed(seed);
            refused += late;
            takes += taken;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (refused, takes) = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads).map(|_| scope.spawn(run_some)).collect();
        let done = runs
            .into_iter()
            .map(|run| run.join().expect("no seed failed"));
        done.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    });
    assert!(
        refused > seeds / 5,
        "nobody was ever too late: this proves nothing ({refused})"
    );
    assert!(
        takes > seeds * u64::from(SHARES),
        "{takes} shares were taken"
    );
}

#[test]
fn without_fencing_two_owners_commit() {
    let wrong: u64 = (0..50)
        .map(|seed| {
            let mut world = World::new(seed, nodes_of(seed), false);
            world.run(CALM_AFTER_MS);
            world.wrong
        })
        .sum();
    assert!(wrong > 0, "the control found nothing");
}

/// A quiet cluster of three.
fn quiet() -> World {
    let mut world = World::new(7, 3, true);
    world.later.retain(|later| later.what != What::Harm);
    world.run(20_000);
    assert!(world.owners().iter().all(Option::is_some), "not whole");
    world
}

#[test]
fn the_share_of_a_dead_node_is_taken_within_ten_seconds() {
    let mut world = quiet();
    world.nodes[1].alive = false;
    let until = world.now_ms + 10_000;
    world.run(until);
    let owners = world.owners();
    assert!(
        owners.iter().all(|owner| matches!(owner, Some(0 | 2))),
        "{owners:?}"
    );
}

#[test]
fn a_node_that_comes_back_takes_its_share_and_nothing_else_moves() {
    let mut world = quiet();
    world.nodes[1].alive = false;
    world.run(world.now_ms + 15_000);
    let before = world.owners();
    let takes = world.takes;
    world.revive(1);
    world.run(world.now_ms + 30_000);
    let after = world.owners();
    let share = after.iter().filter(|owner| **owner == Some(1)).count() as u64;
    assert!(share > 0, "it got nothing");
    let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count() as u64;
    assert!(moved <= u64::from(SHARES) * 45 / 100, "{moved} moved");
    assert_eq!(world.takes - takes, moved, "shares moved more than once");
}

#[test]
fn what_goes_to_a_node_that_joins_is_never_left_alone_for_long() {
    let mut world = World::new(7, 3, true);
    world.later.retain(|later| later.what != What::Harm);
    world.nodes[2].alive = false;
    world.run(CALM_AFTER_MS);
    world.revive(2);
    let mut alone_ms = [0_u64; SHARES as usize];
    for _ in 0..1_000 {
        world.run(world.now_ms + 10);
        for (share, owner) in world.owners().iter().enumerate() {
            alone_ms[share] = owner.map_or(alone_ms[share] + 10, |_| 0);
            // To let go, to say so and to take: each lasts up to 0.2 s here.
            assert!(alone_ms[share] < 700, "share {share} was left alone");
        }
    }
    assert!(world.owners().contains(&Some(2)), "it got nothing");
}

#[test]
fn a_quiet_cluster_never_moves_anything() {
    let mut world = quiet();
    let takes = world.takes;
    world.run(world.now_ms + Duration::from_secs(600).as_millis() as u64);
    assert_eq!(world.takes, takes);
    assert_eq!(world.refused, 0);
}
