//! What happened to stages, over restarts of the node.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::StageAddress;
use runtime::HistoryEntry;

/// How many entries of one stage are kept.
const ENTRIES_MAX: usize = 100;
/// What happened to a stage that is gone is kept that long.
pub(super) const GONE_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Entries by stage, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Histories(BTreeMap<StageAddress, Vec<HistoryEntry>>);

impl Histories {
    pub fn restore(&mut self, stage: StageAddress, entries: Vec<HistoryEntry>) {
        self.0.insert(stage, entries);
    }

    /// Adds an entry and gives all of its stage, to be stored.
    pub fn push(&mut self, entry: HistoryEntry) -> Vec<HistoryEntry> {
        let entries = self.0.entry(entry.stage.clone()).or_default();
        entries.push(entry);
        let too_many = entries.len().saturating_sub(ENTRIES_MAX);
        entries.drain(..too_many);
        entries.clone()
    }

    pub fn remove(&mut self, stage: &StageAddress) {
        self.0.remove(stage);
    }

    /// The number of the last version of a stage; zero if there was none.
    pub fn last_version(&self, stage: &StageAddress) -> u32 {
        let entries = self.0.get(stage).into_iter().flatten();
        entries.map(|entry| entry.version).max().unwrap_or_default()
    }

    /// When something happened to each stage last.
    pub fn last_times(&self) -> impl Iterator<Item = (&StageAddress, u64)> {
        self.0
            .iter()
            .map(|(stage, entries)| (stage, entries.last().map_or(0, |entry| entry.at_ms)))
    }

    /// All entries, or those of one stage, the oldest first.
    pub fn list(&self, stage: Option<&StageAddress>) -> Vec<HistoryEntry> {
        match stage {
            Some(stage) => self.0.get(stage).cloned().unwrap_or_default(),
            None => {
                let mut all: Vec<HistoryEntry> = self.0.values().flatten().cloned().collect();
                all.sort_by_key(|entry| entry.at_ms);
                all
            }
        }
    }
}

/// What was added to a list that grows at its end and forgets at its beginning.
pub(super) fn added<'a>(old: &[HistoryEntry], new: &'a [HistoryEntry]) -> &'a [HistoryEntry] {
    let kept = (0..=old.len()).find(|forgotten| new.starts_with(&old[*forgotten..]));
    let kept = kept.map_or(0, |forgotten| old.len() - forgotten);
    &new[kept..]
}

#[cfg(test)]
mod tests {
    use runtime::HistoryEvent;

    use super::*;

    fn entry(at_ms: u64) -> HistoryEntry {
        HistoryEntry {
            at_ms,
            stage: "a/b".parse().unwrap(),
            event: HistoryEvent::Deployed,
            version: at_ms as u32,
            digest: String::new(),
            detail: String::new(),
        }
    }

    #[test]
    fn what_is_new_is_found_though_the_old_is_forgotten() {
        let all: Vec<_> = (0..10).map(entry).collect();
        assert_eq!(added(&[], &all), &all[..]);
        assert_eq!(added(&all[..7], &all[3..]), &all[7..]);
        assert_eq!(added(&all, &all), &[]);
        assert_eq!(added(&all[..2], &all[5..]), &all[5..]);
    }

    #[test]
    fn each_stage_keeps_its_latest_entries() {
        let mut histories = Histories::default();
        for at_ms in 1..=150 {
            histories.push(entry(at_ms));
        }
        let stage = "a/b".parse().unwrap();
        let entries = histories.list(Some(&stage));
        assert_eq!((entries.len(), entries[0].at_ms), (100, 51));
        assert_eq!(histories.last_version(&stage), 150);
    }
}
