//! Who is alive, as far as this node has heard.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::Timestamp;

use crate::heartbeat::{Heartbeat, NodeState};

/// How long things take at most. Times are those of this node's clock alone: clocks of other nodes
/// may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How often a node says that it lives.
    pub heartbeat_every: Duration,
    /// Who was not heard for so long is dead.
    pub dead_after: Duration,
    /// A node that does not hear itself for so long lets go of everything; before the others count it
    /// as dead.
    pub cut_off_after: Duration,
    /// How long a node listens before it takes anything, so that it knows who holds what.
    pub listen_for: Duration,
    /// A node that comes back counts after it was heard for so long, doubled each time it went away
    /// again soon, up to eight times.
    pub steady_after: Duration,
    /// How long the owner of before may take to let go. Afterwards the new one takes over all the same:
    /// the store refuses the other's commits from then on.
    pub hand_over_max: Duration,
    /// How many shares of one stage are on their way at a time.
    pub moves_at_once: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            heartbeat_every: Duration::from_secs(1),
            dead_after: Duration::from_secs(5),
            cut_off_after: Duration::from_secs(4),
            listen_for: Duration::from_millis(2_500),
            steady_after: Duration::from_secs(3),
            hand_over_max: Duration::from_secs(10),
            moves_at_once: 16,
        }
    }
}

/// A node that was heard of.
#[derive(Clone, Debug)]
pub struct Member {
    /// What it said last.
    pub last: Heartbeat,
    /// When that was.
    pub heard_at: Timestamp,
    /// Since when it has been heard without a gap.
    pub steady_since: Timestamp,
    /// How often it went away of late.
    pub flaps: u32,
    /// Whether it was counted as dead since it was first heard.
    has_been_away: bool,
}

/// What a heartbeat told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A node lives that was not known, or had been away.
    Joined,
    /// Something about a node changed.
    Changed,
    /// Nothing new.
    Same,
    /// Another node that started later has this node's name: this one has to stop.
    NameTaken,
    /// It is older than what was heard before.
    Old,
}

/// Who is alive, as far as this node has heard.
#[derive(Clone, Debug)]
pub struct Members {
    me: String,
    start: u64,
    rules: Rules,
    began: Timestamp,
    members: BTreeMap<String, Member>,
}

/// How many flaps are counted.
const FLAPS_MAX: u32 = 4;
/// So many times `dead_after` without a flap and one is forgiven.
const FORGIVEN_AFTER: u32 = 12;
/// Nodes that have been gone for so many times `dead_after` are forgotten.
const FORGOTTEN_AFTER: u32 = 720;

impl Members {
    /// Nobody was heard yet.
    pub fn new(me: &str, start: u64, rules: Rules, now: Timestamp) -> Self {
        Self {
            me: me.to_owned(),
            start,
            rules,
            began: now,
            members: BTreeMap::new(),
        }
    }

    /// The name of this node.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// How long things take.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A heartbeat came, perhaps this node's own.
    pub fn heard(&mut self, beat: Heartbeat, now: Timestamp) -> Heard {
        if beat.node == self.me && beat.start != self.start {
            return match beat.start > self.start {
                true => Heard::NameTaken,
                false => Heard::Old,
            };
        }
        let dead_after = self.rules.dead_after;
        let Some(member) = self.members.get_mut(&beat.node) else {
            let member = Member {
                last: beat,
                heard_at: now,
                steady_since: now,
                flaps: 0,
                has_been_away: false,
            };
            self.members.insert(member.last.node.clone(), member);
            return Heard::Joined;
        };
        let order = |beat: &Heartbeat| (beat.start, beat.number);
        if order(&beat) <= order(&member.last) {
            return Heard::Old;
        }
        let gap = now.since(member.heard_at);
        let was_away = gap >= dead_after || beat.start != member.last.start;
        if was_away {
            member.flaps = (member.flaps + 1).min(FLAPS_MAX);
            member.steady_since = now;
            member.has_been_away = true;
        } else if now.since(member.steady_since) > dead_after * FORGIVEN_AFTER {
            member.flaps = 0;
        }
        let is_same = {
            let told = |beat: &Heartbeat| (beat.state, beat.listens);
            let last = &member.last;
            told(last) == told(&beat) && last.stages == beat.stages && last.labels == beat.labels
        };
        member.last = beat;
        member.heard_at = now;
        match (was_away, is_same) {
            (true, _) => Heard::Joined,
            (false, true) => Heard::Same,
            (false, false) => Heard::Changed,
        }
    }

    /// All that were heard of late enough.
    pub fn alive(&self, now: Timestamp) -> impl Iterator<Item = &Member> {
        let dead_after = self.rules.dead_after;
        let lives = move |member: &&Member| now.since(member.heard_at) < dead_after;
        self.members.values().filter(lives)
    }

    /// All that were heard of, and whether they live.
    pub fn known(&self, now: Timestamp) -> impl Iterator<Item = (&Member, bool)> {
        let dead_after = self.rules.dead_after;
        let lives = move |member: &Member| now.since(member.heard_at) < dead_after;
        self.members
            .values()
            .map(move |member| (member, lives(member)))
    }

    /// A node that lives.
    pub fn find(&self, node: &str, now: Timestamp) -> Option<&Member> {
        let member = self.members.get(node)?;
        (now.since(member.heard_at) < self.rules.dead_after).then_some(member)
    }

    /// Those that shares are given to: alive, ready for them, and not just back from the dead.
    pub fn able(&self, now: Timestamp) -> impl Iterator<Item = &Member> {
        let steady_after = self.rules.steady_after;
        self.alive(now).filter(move |member| {
            let needed = match member.has_been_away {
                true => steady_after * 2_u32.pow(member.flaps.saturating_sub(1)),
                false => Duration::ZERO,
            };
            member.last.state != NodeState::Draining && now.since(member.steady_since) >= needed
        })
    }

    /// Whether this node has listened long enough to know who holds what.
    pub fn has_listened(&self, now: Timestamp) -> bool {
        now.since(self.began) >= self.rules.listen_for
    }

    /// Whether this node no longer hears itself, so that nobody else does either.
    pub fn is_cut_off(&self, now: Timestamp) -> bool {
        let last = self.members.get(&self.me).map(|member| member.heard_at);
        now.since(last.unwrap_or(self.began)) >= self.rules.cut_off_after
    }

    /// Forgets those who have been gone for long.
    pub fn forget(&mut self, now: Timestamp) {
        let gone = self.rules.dead_after * FORGOTTEN_AFTER;
        self.members
            .retain(|_, member| now.since(member.heard_at) < gone);
    }
}
