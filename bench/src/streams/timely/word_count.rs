//! Word count: how often each word comes in lines of words.

use timely::dataflow::operators::vec::Map;
use timely::dataflow::{ProbeHandle, StreamVec};

use super::keyed::keyed;
use super::{Sum, summed};
use crate::streams::checksum::{mix, text};
use crate::streams::lines::words;
use crate::streams::queries::word_count::Counts;

pub(super) fn build(lines: StreamVec<'_, u64, String>, sum: Sum) -> ProbeHandle<u64> {
    let words = lines.flat_map(|line| {
        let words = words(&line).map(str::to_owned);
        words.collect::<Vec<_>>()
    });
    let counts = keyed::<Counts, _>(words, |word: &String| mix(&[text(word)]));
    summed(counts, sum)
}
