//! The windows of one key: which are open, which are complete, and what comes out of them.

use kernel::worker::{Failure, Turn};
use serde::{Deserialize, Serialize};

use super::super::worker::{OUT, emit};
use super::Window;
use crate::event::Data;
use crate::window::compute::Accumulators;
use crate::window::spans::Span;

/// One window of one key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pane {
    #[serde(rename = "s")]
    start: i64,
    #[serde(rename = "e")]
    end: i64,
    /// Whether it came out already.
    #[serde(rename = "f")]
    fired: bool,
    #[serde(rename = "a")]
    pub accumulators: Accumulators,
}

/// The windows of one key, the earliest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Group {
    #[serde(rename = "k")]
    pub key: Data,
    #[serde(rename = "p")]
    pub panes: Vec<Pane>,
    /// When something has to be done about them, as it is stored.
    #[serde(skip)]
    pub due_stored: Option<i64>,
}

impl Window {
    /// Adds an event to windows of its key; false if it is too late for all of them.
    pub(super) fn add_to_group(
        &self,
        time: i64,
        inputs: &[Data],
        watermark: i64,
        group: &mut Group,
        turn: &mut Turn,
    ) -> Result<bool, Failure> {
        let mut is_in_time = false;
        for span in self.0.cut.spans(time) {
            let Some(at) = self.pane(span, watermark, group) else {
                continue;
            };
            is_in_time = true;
            let pane = &mut group.panes[at];
            self.0.compute.add(&mut pane.accumulators, inputs);
            // A session that was extended is no longer complete.
            pane.fired &= pane.end <= watermark;
            if pane.end <= watermark {
                let update = std::mem::replace(&mut pane.fired, true);
                emit(turn, OUT, self.result(&group.key, &group.panes[at], update))?;
            }
        }
        Ok(is_in_time)
    }

    /// Where the window for this span is, which is made if need be; none if it is too late for it.
    fn pane(&self, span: Span, watermark: i64, group: &mut Group) -> Option<usize> {
        if !self.0.cut.merges() {
            if self.is_over(span.end, watermark) {
                return None;
            }
            let found = group
                .panes
                .binary_search_by_key(&span.start, |pane| pane.start);
            return Some(found.unwrap_or_else(|at| {
                group.panes.insert(at, self.new_pane(span));
                at
            }));
        }
        let meets = |pane: &Pane| span.meets(pane.span());
        let joined = group.panes.iter().filter(|pane| meets(pane));
        let joined = joined.fold(span, |joined, pane| joined.with(pane.span()));
        if self.is_over(joined.end, watermark) {
            return None;
        }
        let mut merged = self.new_pane(joined);
        for pane in group.panes.extract_if(.., |pane| meets(pane)) {
            self.0
                .compute
                .merge(&mut merged.accumulators, &pane.accumulators);
            merged.fired |= pane.fired;
        }
        let at = group
            .panes
            .partition_point(|pane| pane.start < merged.start);
        group.panes.insert(at, merged);
        Some(at)
    }

    fn new_pane(&self, span: Span) -> Pane {
        Pane {
            start: span.start,
            end: span.end,
            fired: false,
            accumulators: self.0.compute.start(),
        }
    }

    /// Whether a window that ends then is forgotten.
    fn is_over(&self, end: i64, watermark: i64) -> bool {
        end.saturating_add(self.0.lateness.as_millis()) <= watermark
    }

    /// When something has to be done about these windows.
    pub(super) fn due(&self, group: &Group) -> Option<i64> {
        group.panes.iter().map(|pane| self.due_of(pane)).min()
    }

    fn due_of(&self, pane: &Pane) -> i64 {
        match pane.fired {
            true => pane.end.saturating_add(self.0.lateness.as_millis()),
            false => pane.end,
        }
    }

    /// Lets windows come out that are complete by then, and forgets those that nothing can change any more.
    pub(super) fn fire_group(
        &self,
        due: i64,
        group: &mut Group,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        for pane in &mut group.panes {
            if !pane.fired && pane.end <= due {
                pane.fired = true;
                emit(turn, OUT, self.result(&group.key, pane, false))?;
            }
        }
        group
            .panes
            .retain(|pane| !(pane.fired && self.due_of(pane) <= due));
        Ok(())
    }

    fn result(&self, key: &Data, pane: &Pane, update: bool) -> Data {
        let mut fields = vec![("start", pane.start.into()), ("end", pane.end.into())];
        fields.extend(self.0.by.as_ref().map(|_| ("key", key.clone())));
        fields.extend(update.then(|| ("update", true.into())));
        self.0.compute.results(&pane.accumulators, fields).into()
    }
}

impl Pane {
    fn span(&self) -> Span {
        Span {
            start: self.start,
            end: self.end,
        }
    }
}
