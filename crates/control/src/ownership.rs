//! The part that one node has in one stage: what it takes, keeps and lets go.

use std::collections::BTreeMap;

use kernel::Timestamp;

use crate::claims::Claims;
use crate::heartbeat::StageBeat;
use crate::members::{Able, Members};
use crate::placement::{Place, places};

/// How the shares of a stage are given to nodes. All nodes get it from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The revision of the definition that says so.
    pub revision: u64,
    /// The change of [`crate::Definitions`] with which it came here.
    pub change: u64,
    /// The version of the code, for people.
    pub version: u32,
    /// How many shares there are: buckets of a keyed stage, workers of others. None if each node has all for itself.
    pub count: u32,
    /// This node has all of the stage for itself, and so may others.
    pub whole: bool,
    /// Nodes that were named as places; one that is there twice gets twice as much. If none was, all
    /// nodes share.
    pub on: Vec<String>,
    /// Shares that were moved to a node by hand.
    pub moved: BTreeMap<u32, String>,
    /// What was named for a node that is dead waits for it, instead of going elsewhere.
    pub strict: bool,
}

/// What a node has to do with one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareState {
    /// Nothing.
    Free,
    /// It raises the epoch and loads.
    Taking,
    /// It is the owner in this epoch.
    Held {
        /// The epoch.
        epoch: u64,
    },
    /// It finishes, commits and lets go.
    Releasing,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passed, or something was heard.
    Look,
    /// The stage is defined anew.
    Define(Share),
    /// A share was taken, in this epoch.
    Taken {
        /// Which one.
        share: u32,
        /// The epoch.
        epoch: u64,
    },
    /// A share could not be taken now.
    NotTaken {
        /// Which one.
        share: u32,
    },
    /// A share was let go; nothing of it is under way here any more.
    Released {
        /// Which one.
        share: u32,
    },
    /// A commit was refused: somebody else has taken the share.
    Fenced {
        /// Which one.
        share: u32,
    },
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Raise the epoch of this share, load, and begin to pull.
    Take(u32),
    /// Stop pulling for this share, finish the turn, commit, let go.
    Release(u32),
    /// Send a heartbeat now: others wait for what it says.
    Announce,
}

/// The part that one node has in one stage.
#[derive(Clone, Debug)]
pub struct Ownership {
    stage: String,
    rule: Share,
    shares: Vec<Held>,
    /// Where each share belongs among those who were able the last time; the same as long as they are.
    wanted: Option<(u64, Box<[Option<u32>]>)>,
}

#[derive(Clone, Debug)]
struct Held {
    state: ShareState,
    /// Since when it has waited for the owner of before to let go.
    waiting_since: Option<Timestamp>,
    /// It is not taken before.
    not_before: Timestamp,
    /// It was let go for another node, which has not claimed it yet, at this time.
    left_at: Option<Timestamp>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            state: ShareState::Free,
            waiting_since: None,
            not_before: Timestamp::default(),
            left_at: None,
        }
    }
}

impl Held {
    /// Whether others have to wait for it.
    fn is_ours(&self) -> bool {
        !matches!(self.state, ShareState::Free | ShareState::Taking)
    }
}

impl Ownership {
    /// The part in this stage of a node that has nothing of it yet.
    pub fn new(stage: &str, rule: Share) -> Self {
        let mut ownership = Self {
            stage: stage.to_owned(),
            rule: Share::default(),
            shares: Vec::new(),
            wanted: None,
        };
        ownership.define(rule);
        ownership
    }

    /// What the heartbeat says of this stage.
    pub fn beat(&self) -> StageBeat {
        let numbered = (0..).zip(&self.shares);
        let held = numbered.filter(|(_, held)| held.is_ours());
        // All of it is one share, of which every node has its own.
        let whole = self.rule.whole.then_some(0);
        StageBeat {
            revision: self.rule.revision,
            version: self.rule.version,
            holds: held.map(|(share, _)| share).chain(whole).collect(),
        }
    }

    /// Whether it holds anything, as the heartbeat says it.
    pub fn holds_any(&self) -> bool {
        self.rule.whole || self.has_to_give()
    }

    /// Whether it holds anything that others would have if it did not.
    pub fn has_to_give(&self) -> bool {
        self.shares.iter().any(Held::is_ours)
    }

    /// What this node has to do with a share.
    pub fn state(&self, share: u32) -> ShareState {
        let held = self.shares.get(share as usize);
        held.map_or(ShareState::Free, |held| held.state)
    }

    /// Whether this node has nothing to do with any share.
    pub fn is_free(&self) -> bool {
        let is_free = |held: &Held| held.state == ShareState::Free;
        self.shares.iter().all(is_free)
    }

    /// Where each share belongs among those who are able; none if nobody should have it.
    fn places(&self, able: &Able) -> Box<[Option<u32>]> {
        let place = |node: &str| able.place(node).map(|place| place as u32);
        let named = places(&self.stage, self.rule.count, &self.named_places());
        let named = |share: u32| {
            let moved = self.rule.moved.get(&share).map(String::as_str);
            moved.or_else(|| named.get(share as usize).copied())
        };
        let mut computed: Option<Vec<&str>> = None;
        let mut compute = |share: u32| {
            let computed = computed.get_or_insert_with(|| {
                let names = able.names.iter();
                let all: Vec<_> = names.map(|node| Place { node, number: 0 }).collect();
                places(&self.stage, self.rule.count, &all)
            });
            computed.get(share as usize).copied().and_then(place)
        };
        let wanted = (0..self.rule.count).map(|share| match named(share) {
            Some(node) if able.place(node).is_some() => place(node),
            Some(_) if self.rule.strict => None,
            _ => compute(share),
        });
        wanted.collect()
    }

    /// The node that should own each share, as seen from here; none if nobody should.
    pub fn wanted(&self, members: &Members, now: Timestamp) -> Vec<Option<String>> {
        let able = members.able_names(now);
        let name = |place: &Option<u32>| Some(able.names[(*place)? as usize].clone());
        self.places(&able).iter().map(name).collect()
    }

    fn named_places(&self) -> Vec<Place<'_>> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        let mut places = Vec::with_capacity(self.rule.on.len());
        for node in &self.rule.on {
            let number = counts.entry(node).or_default();
            places.push(Place {
                node,
                number: *number,
            });
            *number += 1;
        }
        places
    }

    /// Takes in what happened and says what is to be done.
    pub fn step(&mut self, event: Event, members: &Members, now: Timestamp) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Look => {}
            Event::Define(rule) => {
                self.define(rule);
                actions.push(Action::Announce);
            }
            Event::Taken { share, epoch } => {
                self.set(share, ShareState::Held { epoch });
                actions.push(Action::Announce);
            }
            Event::NotTaken { share } => self.yielded(share, members, now),
            Event::Released { share } => {
                self.set(share, ShareState::Free);
                if let Some(held) = self.shares.get_mut(share as usize) {
                    held.left_at = Some(now);
                }
                actions.push(Action::Announce);
            }
            Event::Fenced { share } => {
                self.yielded(share, members, now);
                actions.push(Action::Announce);
            }
        }
        self.look(members, now, &mut actions);
        actions
    }

    fn define(&mut self, rule: Share) {
        let count = rule.count as usize;
        // Shares that are no more are let go before they are forgotten.
        if self.shares.len() < count {
            self.shares.resize_with(count, Held::default);
        }
        self.rule = rule;
        self.wanted = None;
    }

    fn set(&mut self, share: u32, state: ShareState) {
        if let Some(held) = self.shares.get_mut(share as usize) {
            held.state = state;
            held.waiting_since = None;
        }
    }

    /// Somebody else was first, or it was not possible: wait until they had time to say so.
    fn yielded(&mut self, share: u32, members: &Members, now: Timestamp) {
        self.set(share, ShareState::Free);
        if let Some(held) = self.shares.get_mut(share as usize) {
            held.not_before = now + members.rules().heartbeat_every * 2;
        }
    }

    fn look(&mut self, members: &Members, now: Timestamp, actions: &mut Vec<Action>) {
        let is_cut_off = members.is_cut_off(now);
        let may_take = !is_cut_off && members.has_listened(now);
        let able = members.able_names(now);
        // Who belongs where stays the same as long as the same nodes are able.
        let wanted = match self.wanted.take() {
            Some((digest, places)) if digest == able.digest => places,
            _ => self.places(&able),
        };
        let others = self.others(members, now);
        let rules = members.rules();
        let mut under_way = self.under_way(&others, rules, now);
        for share in 0..self.shares.len() as u32 {
            let place = wanted.get(share as usize).copied().flatten();
            let wanted = place.map(|place| able.names[place as usize].as_str());
            let is_mine = wanted == Some(members.me());
            let held = &mut self.shares[share as usize];
            match held.state {
                ShareState::Held { .. } if is_cut_off => {
                    held.state = ShareState::Releasing;
                    actions.push(Action::Release(share));
                }
                ShareState::Held { .. } if !is_mine => {
                    let is_gone = share >= self.rule.count;
                    let goes = match wanted {
                        _ if is_gone => true,
                        None => self.rule.strict,
                        Some(node) => knows(members, node, &self.stage, &self.rule, now),
                    };
                    if goes && (is_gone || under_way < rules.moves_at_once) {
                        under_way += 1;
                        held.state = ShareState::Releasing;
                        actions.push(Action::Release(share));
                    }
                }
                ShareState::Free if is_mine && may_take && now >= held.not_before => {
                    let is_free = !others.holds(share) || {
                        let since = *held.waiting_since.get_or_insert(now);
                        now.since(since) >= rules.hand_over_max
                    };
                    if is_free {
                        held.state = ShareState::Taking;
                        held.waiting_since = None;
                        held.left_at = None;
                        actions.push(Action::Take(share));
                    }
                }
                ShareState::Free if !is_mine => held.waiting_since = None,
                _ => {}
            }
        }
        self.wanted = Some((able.digest, wanted));
    }

    /// How many shares are on their way from here to others.
    fn under_way(&mut self, others: &Others, rules: &crate::Rules, now: Timestamp) -> u32 {
        let mut count = 0;
        for (share, held) in (0..).zip(&mut self.shares) {
            let is_waited_for = held.left_at.is_some_and(|left_at| {
                !others.holds(share) && now.since(left_at) < rules.heartbeat_every * 2
            });
            if !is_waited_for {
                held.left_at = None;
            }
            count += u32::from(is_waited_for || held.state == ShareState::Releasing);
        }
        count
    }

    /// What the other nodes that live hold of this stage.
    fn others(&self, members: &Members, now: Timestamp) -> Others {
        let speakers = members.speakers(&self.stage, now);
        let mut held = Claims::default();
        for member in speakers.filter(|member| member.last.node != members.me()) {
            if let Some(beat) = member.last.stages.get(&self.stage) {
                for share in beat.holds.iter() {
                    held.insert(share);
                }
            }
        }
        Others { held }
    }
}

struct Others {
    held: Claims,
}

impl Others {
    fn holds(&self, share: u32) -> bool {
        self.held.contains(share)
    }
}

/// Whether a node goes by this definition, so that it knows what is its own and takes it.
fn knows(members: &Members, node: &str, stage: &str, rule: &Share, now: Timestamp) -> bool {
    members.find(node, now).is_some_and(|member| {
        !member.last.listens && member.knows(stage, rule.revision, rule.change)
    })
}
