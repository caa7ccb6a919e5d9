//! What happened to stages, as far as it is remembered.

use std::collections::VecDeque;

use kernel::StageAddress;
use parking_lot::Mutex;

use crate::logs::cut;
use crate::views::HistoryEntry;

/// How many entries a runtime remembers.
pub const HISTORY_ENTRIES_MAX: usize = 1_000;

/// How long the detail of one entry may be; the rest is cut off.
const DETAIL_BYTES_MAX: usize = 8 << 10;

/// The latest things that happened; older ones are forgotten.
#[derive(Debug)]
pub struct History {
    entries: Mutex<VecDeque<HistoryEntry>>,
    entries_max: usize,
}

impl Default for History {
    fn default() -> Self {
        Self::new(HISTORY_ENTRIES_MAX)
    }
}

impl History {
    /// A history of that many entries at most.
    pub fn new(entries_max: usize) -> Self {
        Self {
            entries: Mutex::default(),
            entries_max,
        }
    }

    /// Remembers one more.
    pub fn push(&self, mut entry: HistoryEntry) {
        if entry.detail.len() > DETAIL_BYTES_MAX {
            entry.detail = cut(&entry.detail, DETAIL_BYTES_MAX);
        }
        let mut entries = self.entries.lock();
        entries.push_back(entry);
        while entries.len() > self.entries_max {
            entries.pop_front();
        }
    }

    /// All entries, or those of one stage, the oldest first.
    pub fn list(&self, stage: Option<&StageAddress>) -> Vec<HistoryEntry> {
        let entries = self.entries.lock();
        let wanted = |entry: &&HistoryEntry| stage.is_none_or(|stage| entry.stage == *stage);
        entries.iter().filter(wanted).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::HistoryEvent;

    fn entry(stage: &str, version: u32) -> HistoryEntry {
        HistoryEntry {
            at_ms: u64::from(version),
            stage: StageAddress::new("shop", stage).unwrap(),
            event: HistoryEvent::Deployed,
            version,
            digest: String::new(),
            detail: "x".repeat(10_000),
        }
    }

    #[test]
    fn the_latest_are_remembered_in_order() {
        let history = History::new(3);
        for version in 1..=5 {
            let stage = if version == 4 { "bills" } else { "orders" };
            history.push(entry(stage, version));
        }
        let versions = |stage: Option<&StageAddress>| {
            let entries = history.list(stage);
            entries.iter().map(|e| e.version).collect::<Vec<_>>()
        };
        assert_eq!(versions(None), [3, 4, 5]);
        let bills = StageAddress::new("shop", "bills").unwrap();
        assert_eq!(versions(Some(&bills)), [4]);
        let detail = &history.list(None)[0].detail;
        assert!(detail.len() <= DETAIL_BYTES_MAX && detail.ends_with("10000 bytes]"));
    }
}
