//! What the heartbeat of this node says of stages.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::{StageAddress, Timestamp};

use super::{Stage, State};
use crate::claims::Claims;
use crate::heartbeat::{Defined, NodeState, StageBeat};

/// A heartbeat names all stages if they are no more.
const STAGES_NAMED_MAX: usize = 200;
/// What has changed is named for so long.
const NEWS_FOR: Duration = Duration::from_secs(10);

impl State {
    /// What the node is ready for.
    pub(super) fn ready_for(&self) -> NodeState {
        match self.leaves {
            true => NodeState::Draining,
            false => self.order.state,
        }
    }
}

impl State {
    /// What the heartbeat says of stages: everything while they are few. Otherwise what others have to
    /// know by name, and something by which they can tell whether they go by the same.
    pub(super) fn named_stages(
        &mut self,
        now: Timestamp,
    ) -> (BTreeMap<String, StageBeat>, Option<Defined>) {
        let leaves = self.ready_for() == NodeState::Draining;
        let named = |address: &StageAddress, stage: &Stage| {
            let mut beat = stage.ownership.beat();
            if leaves && !stage.ownership.has_to_give() {
                // What it has for itself is not waited for.
                beat.holds = Claims::default();
            }
            (address.to_string(), beat)
        };
        if self.stages.len() <= STAGES_NAMED_MAX {
            let all = self.stages.iter();
            return (
                all.map(|(address, stage)| named(address, stage)).collect(),
                None,
            );
        }
        while let Some((at, _)) = self.changed.front()
            && now.since(*at) > NEWS_FOR
        {
            self.changed.pop_front();
        }
        let held = self.stages.iter();
        let held = held.filter(|(_, stage)| stage.ownership.holds_any());
        let news = self.changed.iter().filter_map(|(_, address)| {
            let stage = self.stages.get(address)?;
            Some((address, stage))
        });
        let stages = held.chain(news);
        let stages = stages
            .map(|(address, stage)| named(address, stage))
            .collect();
        let lacks = self.lacks.keys().map(StageAddress::to_string);
        let defined = Defined {
            digest: self.members.definitions().digest(),
            lacks: lacks.take(STAGES_NAMED_MAX).collect(),
        };
        // Who lacks that much knows nothing that others could rely on.
        let is_whole = self.lacks.len() <= STAGES_NAMED_MAX;
        (stages, is_whole.then_some(defined))
    }

    /// This node goes by another revision of a stage, or cannot. Gives the number of the change.
    pub(super) fn goes_by(&mut self, address: &StageAddress, revision: u64, now: Timestamp) -> u64 {
        let known = self.stages.get(address).map(|stage| stage.revision);
        let was = self.lacks.remove(address).or(known);
        if self.changed.len() == STAGES_NAMED_MAX {
            self.changed.pop_front();
        }
        self.changed.push_back((now, address.clone()));
        let definitions = self.members.definitions();
        definitions.change(&address.to_string(), was, Some(revision))
    }

    /// A stage is no more.
    pub(super) fn forget(&mut self, address: &StageAddress) {
        let known = self.stages.remove(address).map(|stage| stage.revision);
        let was = self.lacks.remove(address).or(known);
        let definitions = self.members.definitions();
        definitions.change(&address.to_string(), was, None);
    }
}
