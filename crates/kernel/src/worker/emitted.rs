//! What a turn emitted in the quick ways: values and series.

use std::iter::Take;
use std::sync::Arc;
use std::vec::Drain;

use super::{Stretch, Value};

/// Values and series that were emitted, in order. Most turns of native workers emit nothing else, and all to one output.
#[derive(Clone, Debug, Default)]
pub struct Emitted {
    values: Vec<Arc<dyn Value>>,
    /// What goes to the output of which number, in order.
    rows: Vec<(u32, RowOf)>,
    /// How many messages that is.
    count: usize,
}

#[derive(Clone, Debug)]
enum RowOf {
    /// So many of the values.
    Values(usize),
    Stretch(Stretch),
}

/// Messages in a row that go to the same output.
#[derive(Debug)]
pub enum Row<'a, 'b> {
    /// Values, each by itself.
    Values(Take<&'a mut Drain<'b, Arc<dyn Value>>>),
    /// Messages that were emitted together.
    Stretch(Stretch),
}

impl Emitted {
    pub(super) fn push(&mut self, output: u32, value: Arc<dyn Value>) {
        self.values.push(value);
        self.count += 1;
        match self.rows.last_mut() {
            Some((last, RowOf::Values(count))) if *last == output => *count += 1,
            _ => self.rows.push((output, RowOf::Values(1))),
        }
    }

    pub(super) fn push_stretch(&mut self, output: u32, stretch: Stretch) {
        self.count += stretch.len();
        self.rows.push((output, RowOf::Stretch(stretch)));
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes all of them out: those in a row that go to the same output together, with its number.
    pub fn drain(&mut self, mut take: impl FnMut(u32, Row<'_, '_>)) {
        self.count = 0;
        let mut values = self.values.drain(..);
        for (output, row) in self.rows.drain(..) {
            match row {
                RowOf::Values(count) => take(output, Row::Values(values.by_ref().take(count))),
                RowOf::Stretch(stretch) => take(output, Row::Stretch(stretch)),
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.rows.clear();
        self.count = 0;
    }
}
