//! Who holds a state, in one number that is changed in one atomic step.
//!
//! ```text
//!   63        44 43       30 29       16 15       2     1        0
//!  | how often  | key       | key       | whole   | queued | writer |
//!  | taken      | writers   | readers   | readers |        |        |
//! ```
//!
//! The word never holds an address, so a value that comes back means what it meant before (there is no ABA problem), and
//! nothing has to be kept for readers that are late. How often it was taken stands in the highest bits, so that counting
//! costs nothing: what goes over the edge is lost to the word and told to the caller, who adds it up elsewhere.

/// One holds the whole for writing.
const WRITER: u64 = 1;
/// Somebody waits; then nobody takes it but by having its turn.
pub(super) const QUEUED: u64 = 1 << 1;

const READER: u64 = 1 << 2;
const KEY_READER: u64 = 1 << 16;
const KEY_WRITER: u64 = 1 << 30;
/// How many of one kind may hold a state at a time. More wait, as if it were written.
const HOLDERS_MAX: u64 = (1 << 14) - 1;
const READERS: u64 = HOLDERS_MAX * READER;
const KEY_READERS: u64 = HOLDERS_MAX * KEY_READER;
const KEY_WRITERS: u64 = HOLDERS_MAX * KEY_WRITER;

const COUNT_SHIFT: u32 = 44;
/// It was taken without waiting once more.
pub(super) const COUNT_ONE: u64 = 1 << COUNT_SHIFT;
/// How often it has to be taken for the count to begin anew.
pub(super) const COUNT_WRAPS: u64 = 1 << (64 - COUNT_SHIFT);

/// How a state as a whole is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// All of it is read.
    Read,
    /// All of it is written.
    Write,
    /// Some of its keys are read.
    KeyRead,
    /// Some of its keys are written, and others perhaps read.
    KeyWrite,
}

impl Kind {
    pub fn to_bits(self) -> u32 {
        self as u32
    }

    /// The kind in the two lowest bits.
    #[inline]
    pub fn from_bits(bits: u32) -> Self {
        match bits & 0b11 {
            0 => Kind::Read,
            1 => Kind::Write,
            2 => Kind::KeyRead,
            _ => Kind::KeyWrite,
        }
    }

    /// What one holder of this kind adds to the word.
    #[inline]
    pub fn unit(self) -> u64 {
        match self {
            Kind::Read => READER,
            Kind::Write => WRITER,
            Kind::KeyRead => KEY_READER,
            Kind::KeyWrite => KEY_WRITER,
        }
    }

    /// Which other holders it cannot stand.
    #[inline]
    fn conflicts(self) -> u64 {
        match self {
            Kind::Read => WRITER | KEY_WRITERS,
            Kind::Write => WRITER | READERS | KEY_READERS | KEY_WRITERS,
            Kind::KeyRead => WRITER,
            Kind::KeyWrite => WRITER | READERS,
        }
    }

    /// Where its holders are counted.
    #[inline]
    fn field(self) -> u64 {
        match self {
            Kind::Read => READERS,
            Kind::Write => WRITER,
            Kind::KeyRead => KEY_READERS,
            Kind::KeyWrite => KEY_WRITERS,
        }
    }
}

/// Whether one more of this kind may hold it, whoever waits.
#[inline]
pub(super) fn is_open(word: u64, kind: Kind) -> bool {
    let field = kind.field();
    word & kind.conflicts() == 0 && word & field != field
}

/// Whether one more of this kind may take it who has not waited.
#[inline]
pub(super) fn is_free(word: u64, kind: Kind) -> bool {
    word & QUEUED == 0 && is_open(word, kind)
}

/// How often it was taken, since the count began anew.
#[inline]
pub(super) fn count(word: u64) -> u64 {
    word >> COUNT_SHIFT
}

/// Whether anybody holds it.
pub(super) fn is_held(word: u64) -> bool {
    word & Kind::Write.conflicts() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 4] = [Kind::Read, Kind::Write, Kind::KeyRead, Kind::KeyWrite];

    /// Which kinds may hold a state together.
    fn may_be_together(one: Kind, other: Kind) -> bool {
        use Kind::*;
        matches!(
            (one, other),
            (Read | KeyRead, Read | KeyRead) | (KeyRead | KeyWrite, KeyWrite) | (KeyWrite, KeyRead)
        )
    }

    #[test]
    fn kinds_conflict_as_they_should() {
        for held in KINDS {
            for wanted in KINDS {
                let word = held.unit();
                assert_eq!(
                    is_open(word, wanted),
                    may_be_together(held, wanted),
                    "{wanted:?} beside {held:?}"
                );
            }
        }
    }

    #[test]
    fn kinds_come_back_from_their_bits() {
        for kind in KINDS {
            assert_eq!(Kind::from_bits(0b1100 | kind.to_bits()), kind);
        }
    }

    #[test]
    fn nobody_barges_in() {
        for kind in KINDS {
            assert!(is_free(0, kind));
            assert!(!is_free(QUEUED, kind));
            assert!(is_open(QUEUED, kind));
        }
    }

    #[test]
    fn a_full_count_is_busy_and_never_runs_over() {
        for kind in [Kind::Read, Kind::KeyRead, Kind::KeyWrite] {
            let mut word = 0;
            for _ in 0..HOLDERS_MAX {
                assert!(is_open(word, kind));
                word += kind.unit();
            }
            assert!(!is_open(word, kind));
            assert_eq!(word, kind.field());
        }
    }
}
