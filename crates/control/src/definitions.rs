//! Which definitions this node goes by, so that nodes with many stages can tell whether they agree
//! without naming all of them.

use std::collections::VecDeque;

/// So many states of before are remembered: a heartbeat may have been on its way while something
/// changed here.
const STATES_MAX: usize = 64;

/// What this node goes by. Each change has a number, which only this node understands.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    digest: u64,
    changes: u64,
    /// Digests of before, each with the number of the change that led to it.
    states: VecDeque<(u64, u64)>,
}

impl Definitions {
    /// A stage is gone by in another revision from now on; none: it was not known, or is no more. Gives
    /// the number of the change.
    pub fn change(&mut self, stage: &str, was: Option<u64>, is: Option<u64>) -> u64 {
        for revision in [was, is].into_iter().flatten() {
            self.digest ^= mark(stage, revision);
        }
        self.changes += 1;
        if self.states.len() == STATES_MAX {
            self.states.pop_front();
        }
        self.states.push_back((self.digest, self.changes));
        self.changes
    }

    /// Stands for all stages and their revisions.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The last change here that a node knows which has this digest; none if the two do not agree.
    pub fn agrees(&self, digest: u64) -> Option<u64> {
        let states = self.states.iter().rev();
        let mut same = states.filter(|(state, _)| *state == digest);
        same.next().map(|(_, change)| *change)
    }
}

/// It never changes: nodes of different versions must agree.
fn mark(stage: &str, revision: u64) -> u64 {
    let mut text = Vec::with_capacity(stage.len() + 9);
    text.extend_from_slice(stage.as_bytes());
    text.push(0);
    text.extend_from_slice(&revision.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_the_same_agrees_in_whatever_order_it_came() {
        let (mut here, mut there) = (Definitions::default(), Definitions::default());
        assert_eq!(here.change("f/a", None, Some(1)), 1);
        here.change("f/b", None, Some(1));
        there.change("f/b", None, Some(1));
        assert_eq!(there.agrees(here.digest()), None);
        there.change("f/a", None, Some(1));
        assert_eq!(here.agrees(there.digest()), Some(2));
        here.change("f/a", Some(1), Some(2));
        assert_eq!(
            here.agrees(there.digest()),
            Some(2),
            "it knows what was before"
        );
        there.change("f/a", Some(1), Some(2));
        assert_eq!(here.agrees(there.digest()), Some(3));
        here.change("f/b", Some(1), None);
        here.change("f/a", Some(2), None);
        assert_eq!(here.digest(), Definitions::default().digest());
    }
}
