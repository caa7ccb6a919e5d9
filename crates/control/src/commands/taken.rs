//! Which commands this node does: each once, none that was meant for an earlier start of it, and not too
//! many at a time.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many commands are done at a time.
const DOING_MAX: usize = 32;
/// How many are remembered, so that one that comes again is not done again.
const REMEMBERED_MAX: usize = 1_024;

/// A command as it travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Command {
    pub id: String,
    /// The node that waits for the answer.
    pub from: String,
    /// The start of the node that it is meant for.
    pub start: u64,
    pub command: Value,
}

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is done; [`Taken::done`] has to follow.
    Do,
    /// It came before.
    Drop,
    /// It was meant for an earlier start of this node: whoever asked may have given up long ago.
    Stale,
    /// Too many are being done.
    Busy,
}

/// The commands of one node.
#[derive(Debug)]
pub(super) struct Taken {
    start: u64,
    doing: usize,
    remembered: VecDeque<String>,
}

impl Taken {
    /// Nothing has come yet to this start of the node.
    pub fn new(start: u64) -> Self {
        Self {
            start,
            doing: 0,
            remembered: VecDeque::new(),
        }
    }

    /// A command came.
    pub fn came(&mut self, command: &Command) -> Verdict {
        if self.remembered.contains(&command.id) {
            return Verdict::Drop;
        }
        if self.remembered.len() == REMEMBERED_MAX {
            self.remembered.pop_front();
        }
        self.remembered.push_back(command.id.clone());
        if command.start != self.start {
            return Verdict::Stale;
        }
        if self.doing == DOING_MAX {
            return Verdict::Busy;
        }
        self.doing += 1;
        Verdict::Do
    }

    /// One that was to be done is done.
    pub fn done(&mut self) {
        self.doing = self.doing.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(id: usize, start: u64) -> Command {
        Command {
            id: id.to_string(),
            from: "a".to_owned(),
            start,
            command: Value::Null,
        }
    }

    #[test]
    fn each_is_done_once_and_none_of_an_earlier_start() {
        let mut taken = Taken::new(7);
        assert_eq!(taken.came(&command(1, 7)), Verdict::Do);
        assert_eq!(taken.came(&command(1, 7)), Verdict::Drop);
        assert_eq!(taken.came(&command(2, 6)), Verdict::Stale);
        assert_eq!(taken.came(&command(2, 6)), Verdict::Drop);
    }

    #[test]
    fn only_so_many_are_done_at_a_time() {
        let mut taken = Taken::new(7);
        for id in 0..DOING_MAX {
            assert_eq!(taken.came(&command(id, 7)), Verdict::Do);
        }
        assert_eq!(taken.came(&command(1_000, 7)), Verdict::Busy);
        taken.done();
        assert_eq!(taken.came(&command(1_001, 7)), Verdict::Do);
        for id in 0..2 * REMEMBERED_MAX {
            taken.came(&command(10_000 + id, 6));
        }
        assert_eq!(taken.remembered.len(), REMEMBERED_MAX);
    }
}
