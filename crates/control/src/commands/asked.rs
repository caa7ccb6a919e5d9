//! What this node has asked others, until the answers are whole or nobody waits any more.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// How many questions may wait at a time.
const WAITING_MAX: usize = 256;
/// How long an answer may be.
pub(super) const ANSWER_BYTES_MAX: usize = 32 << 20;
/// How much of an answer one message carries.
pub(super) const PIECE_BYTES: usize = 128 << 10;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// The question.
    pub id: String,
    /// Its place, from zero.
    pub piece: usize,
    /// How many there are.
    pub pieces: usize,
    pub text: String,
}

/// Cuts an answer into pieces.
pub(super) fn cut(id: &str, answer: &str) -> Vec<Piece> {
    let mut texts = Vec::new();
    let mut rest = answer;
    while !rest.is_empty() || texts.is_empty() {
        let (text, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        texts.push(text.to_owned());
        rest = after;
    }
    let pieces = texts.len();
    let piece = |(piece, text)| Piece {
        id: id.to_owned(),
        piece,
        pieces,
        text,
    };
    texts.into_iter().enumerate().map(piece).collect()
}

/// Questions that wait.
#[derive(Debug, Default)]
pub(super) struct Asked {
    waiting: HashMap<String, Vec<Option<String>>>,
}

impl Asked {
    /// Somebody waits for the answer to this question. False if too many do.
    pub fn ask(&mut self, id: &str) -> bool {
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        self.waiting.insert(id.to_owned(), Vec::new());
        true
    }

    /// Nobody waits any more.
    pub fn forget(&mut self, id: &str) {
        self.waiting.remove(id);
    }

    /// A piece came. Gives the question and the answer when that is whole. Pieces may come twice and in
    /// any order; those that nobody waits for are dropped.
    pub fn came(&mut self, piece: Piece) -> Option<(String, String)> {
        let pieces = self.waiting.get_mut(&piece.id)?;
        let pieces_max = ANSWER_BYTES_MAX / PIECE_BYTES + 1;
        if piece.pieces > pieces_max || piece.piece >= piece.pieces {
            return None;
        }
        if pieces.is_empty() {
            pieces.resize(piece.pieces, None);
        }
        if let Some(place) = pieces.get_mut(piece.piece) {
            *place = Some(piece.text);
        }
        if pieces.iter().any(Option::is_none) {
            return None;
        }
        let pieces = self.waiting.remove(&piece.id)?;
        Some((piece.id, pieces.into_iter().flatten().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_all_pieces_have_come_in_any_order() {
        let answer = "…".repeat(PIECE_BYTES);
        let mut pieces = cut("1", &answer);
        assert!(pieces.len() > 2 && pieces.iter().all(|piece| piece.text.len() <= PIECE_BYTES));
        let mut asked = Asked::default();
        assert!(asked.ask("1"));
        pieces.reverse();
        let last = pieces.pop().unwrap();
        for piece in pieces {
            assert_eq!(asked.came(piece.clone()), None);
            assert_eq!(asked.came(piece), None, "twice is no more than once");
        }
        assert_eq!(asked.came(last.clone()), Some(("1".to_owned(), answer)));
        assert_eq!(asked.came(last), None, "nobody waits any more");
        assert_eq!(cut("2", "").len(), 1);
    }

    #[test]
    fn what_nobody_asked_for_and_what_makes_no_sense_is_dropped() {
        let piece = |piece, pieces| Piece {
            id: "1".to_owned(),
            piece,
            pieces,
            text: "x".to_owned(),
        };
        let mut asked = Asked::default();
        assert_eq!(asked.came(piece(0, 1)), None);
        assert!(asked.ask("1"));
        assert_eq!(asked.came(piece(0, usize::MAX)), None);
        assert_eq!(asked.came(piece(7, 3)), None);
        asked.forget("1");
        assert_eq!(asked.came(piece(0, 1)), None);
        for id in 0..WAITING_MAX {
            assert!(asked.ask(&id.to_string()));
        }
        assert!(!asked.ask("one more"));
    }
}
