//! Who follows the log of this node from elsewhere, and how much they get. Times come in as arguments.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::line::{Filter, Line};

/// Who follows says so again within this time.
pub(super) const RENEWED_EVERY: Duration = Duration::from_secs(2);
/// Who did not is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(7);
/// How many may follow.
const FOLLOWERS_MAX: usize = 200;

/// Somebody follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// Who, told from all others.
    pub follower: String,
    /// The node that is asked, which sees its own lines anyway.
    pub at: String,
    /// The only node that is followed, if not all are.
    pub node: Option<String>,
    pub filter: Filter,
}

/// Those who follow a node.
#[derive(Debug)]
pub(super) struct Followers {
    me: String,
    known: BTreeMap<String, (Wanted, Instant)>,
}

impl Followers {
    pub fn of(me: &str) -> Self {
        Self {
            me: me.to_owned(),
            known: BTreeMap::new(),
        }
    }

    /// Somebody says that it follows.
    pub fn heard(&mut self, wanted: Wanted, now: Instant) {
        self.forget(now);
        let is_elsewhere = wanted.at != self.me;
        let is_meant = wanted.node.as_ref().is_none_or(|node| *node == self.me);
        let has_room =
            self.known.len() < FOLLOWERS_MAX || self.known.contains_key(&wanted.follower);
        if is_elsewhere && is_meant && has_room {
            self.known.insert(wanted.follower.clone(), (wanted, now));
        }
    }

    /// Whether anybody follows.
    pub fn are_there(&mut self, now: Instant) -> bool {
        self.forget(now);
        !self.known.is_empty()
    }

    /// Whether anybody wants this line.
    pub fn want(&self, line: &Line) -> bool {
        self.known
            .values()
            .any(|(wanted, _)| wanted.filter.wants(line))
    }

    fn forget(&mut self, now: Instant) {
        let lives = |(_, heard_at): &(Wanted, Instant)| {
            now.saturating_duration_since(*heard_at) < FORGOTTEN_AFTER
        };
        self.known.retain(|_, known| lives(known));
    }
}

/// How many lines may still be sent in this second.
#[derive(Debug)]
pub(super) struct Budget {
    second_began: Instant,
    spent: u32,
}

impl Budget {
    pub fn new(now: Instant) -> Self {
        Self {
            second_began: now,
            spent: 0,
        }
    }

    /// Whether one more may be sent.
    pub fn take(&mut self, per_second_max: u32, now: Instant) -> bool {
        if now.saturating_duration_since(self.second_began) >= Duration::from_secs(1) {
            *self = Self::new(now);
        }
        let has_room = self.spent < per_second_max;
        self.spent += u32::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Level;

    fn wanted(follower: &str, at: &str, node: Option<&str>, level: Level) -> Wanted {
        Wanted {
            follower: follower.to_owned(),
            at: at.to_owned(),
            node: node.map(str::to_owned),
            filter: Filter {
                level: Some(level),
                ..Filter::default()
            },
        }
    }

    fn line(level: Level) -> Line {
        Line {
            id: 1,
            at_ms: 1,
            level,
            target: None,
            stage: None,
            worker: None,
            line: String::new(),
        }
    }

    #[test]
    fn lines_are_wanted_as_long_as_somebody_elsewhere_says_so() {
        let now = Instant::now();
        let mut followers = Followers::of("a");
        followers.heard(wanted("1", "a", None, Level::Trace), now);
        followers.heard(wanted("2", "b", Some("c"), Level::Trace), now);
        assert!(
            !followers.are_there(now),
            "its own and those of others do not count"
        );
        followers.heard(wanted("3", "b", Some("a"), Level::Warn), now);
        assert!(followers.want(&line(Level::Error)) && !followers.want(&line(Level::Info)));
        followers.heard(
            wanted("4", "b", None, Level::Debug),
            now + FORGOTTEN_AFTER / 2,
        );
        assert!(followers.want(&line(Level::Info)));
        assert!(followers.are_there(now + FORGOTTEN_AFTER));
        assert_eq!(followers.known.len(), 1);
        assert!(!followers.are_there(now + 2 * FORGOTTEN_AFTER));
    }

    #[test]
    fn followers_and_what_they_get_are_bounded() {
        let now = Instant::now();
        let mut followers = Followers::of("a");
        for number in 0..2 * FOLLOWERS_MAX {
            followers.heard(wanted(&number.to_string(), "b", None, Level::Info), now);
        }
        assert_eq!(followers.known.len(), FOLLOWERS_MAX);
        let mut budget = Budget::new(now);
        let taken = (0..10).filter(|_| budget.take(3, now)).count();
        assert_eq!(taken, 3);
        assert!(budget.take(3, now + Duration::from_secs(1)));
    }
}
