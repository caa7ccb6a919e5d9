//! Who is alive, as far as this node has heard.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kernel::Timestamp;

use crate::definitions::Definitions;
use crate::heartbeat::{Heartbeat, NodeState, StageBeat};

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
    /// The last change of definitions here that it is known to know.
    agreed: Option<u64>,
}

impl Member {
    /// Whether it goes by this revision of a stage at least, which came here with that change.
    pub fn knows(&self, stage: &str, revision: u64, change: u64) -> bool {
        if let Some(beat) = self.last.stages.get(stage) {
            return beat.revision >= revision;
        }
        let Some(defined) = &self.last.defined else {
            return false;
        };
        let lacks = defined.lacks.iter().any(|lacked| lacked == stage);
        !lacks && self.agreed.is_some_and(|agreed| agreed >= change)
    }
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
    /// What this node goes by.
    definitions: Definitions,
    /// Who says something of a stage.
    speakers: HashMap<String, BTreeSet<String>>,
    /// Counts what may change who is able.
    changes: u64,
    able: Option<(u64, Timestamp, Arc<Able>)>,
}

/// Those that shares are given to, in the order of their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Able {
    /// Their names.
    pub names: Vec<String>,
    /// Tells one such set from another.
    pub digest: u64,
}

impl Able {
    fn new(names: Vec<String>) -> Self {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        for name in &names {
            hasher.update(name.as_bytes());
            hasher.update(&[0]);
        }
        let digest = hasher.digest();
        Self { names, digest }
    }

    /// Where a node stands among them.
    pub fn place(&self, node: &str) -> Option<usize> {
        let found = self.names.binary_search_by(|name| name.as_str().cmp(node));
        found.ok()
    }
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
            definitions: Definitions::default(),
            speakers: HashMap::new(),
            changes: 0,
            able: None,
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
        self.changes += 1;
        let dead_after = self.rules.dead_after;
        let agreed = beat.defined.as_ref();
        let agreed = agreed.and_then(|defined| self.definitions.agrees(defined.digest));
        let Some(member) = self.members.get_mut(&beat.node) else {
            let member = Member {
                last: beat,
                heard_at: now,
                steady_since: now,
                flaps: 0,
                has_been_away: false,
                agreed,
            };
            speak(
                &mut self.speakers,
                &member.last.node,
                None,
                &member.last.stages,
            );
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
            told(last) == told(&beat)
                && last.stages == beat.stages
                && last.labels == beat.labels
                && last.defined == beat.defined
        };
        member.agreed = match beat.start == member.last.start {
            true => member.agreed.max(agreed),
            false => agreed,
        };
        let before = &member.last.stages;
        speak(&mut self.speakers, &beat.node, Some(before), &beat.stages);
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

    /// Their names, which are looked at for every stage.
    pub fn able_names(&self, now: Timestamp) -> Arc<Able> {
        match &self.able {
            Some((changes, at, able)) if (*changes, *at) == (self.changes, now) => able.clone(),
            _ => {
                let names = self.able(now).map(|member| member.last.node.clone());
                Arc::new(Able::new(names.collect()))
            }
        }
    }

    /// Remembers who is able at this time, for many stages that are looked at together.
    pub fn prepare(&mut self, now: Timestamp) {
        let able = self.able_names(now);
        self.able = Some((self.changes, now, able));
    }

    /// Those of the living who say something of a stage.
    pub fn speakers(&self, stage: &str, now: Timestamp) -> impl Iterator<Item = &Member> {
        let speakers = self.speakers.get(stage).into_iter().flatten();
        speakers.filter_map(move |node| self.find(node, now))
    }

    /// What this node goes by.
    pub fn definitions(&mut self) -> &mut Definitions {
        &mut self.definitions
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
        let speakers = &mut self.speakers;
        self.members.retain(|node, member| {
            let stays = now.since(member.heard_at) < gone;
            if !stays {
                speak(speakers, node, Some(&member.last.stages), &BTreeMap::new());
            }
            stays
        });
        self.changes += 1;
    }
}

/// Notes of which stages a node speaks now.
fn speak(
    speakers: &mut HashMap<String, BTreeSet<String>>,
    node: &str,
    before: Option<&BTreeMap<String, StageBeat>>,
    now: &BTreeMap<String, StageBeat>,
) {
    let before = before.into_iter().flat_map(BTreeMap::keys);
    let was: Vec<&String> = before.filter(|stage| !now.contains_key(*stage)).collect();
    for stage in was {
        if let Some(nodes) = speakers.get_mut(stage) {
            nodes.remove(node);
            if nodes.is_empty() {
                speakers.remove(stage);
            }
        }
    }
    for stage in now.keys() {
        if !speakers.contains_key(stage) {
            speakers.insert(stage.clone(), BTreeSet::new());
        }
        if let Some(nodes) = speakers.get_mut(stage)
            && !nodes.contains(node)
        {
            nodes.insert(node.to_owned());
        }
    }
}
