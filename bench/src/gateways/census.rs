//! Whether every number came once.

use crate::workers::{Result, WorkerError};

const NUMBER_BYTES: usize = 4;

/// A body of this number and length.
pub(super) fn body(number: u32, bytes: usize) -> Vec<u8> {
    let mut body = vec![b'x'; bytes.max(NUMBER_BYTES)];
    body[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
    body
}

/// Counts the numbers that came.
pub(super) struct Census {
    seen: Vec<bool>,
    wrong: u32,
}

impl Census {
    pub fn of(messages: u32) -> Self {
        Self {
            seen: vec![false; messages as usize],
            wrong: 0,
        }
    }

    /// A body came.
    pub fn take(&mut self, body: &[u8]) {
        match body.first_chunk() {
            Some(number) => self.count(u32::from_le_bytes(*number) as usize),
            None => self.wrong += 1,
        }
    }

    /// What a consumer answers: how many came again, and one bit for each number that came.
    pub fn take_all(&mut self, answer: &[u8]) {
        let Some((doubled, bits)) = answer.split_first_chunk() else {
            self.wrong += 1;
            return;
        };
        self.wrong += u32::from_le_bytes(*doubled);
        for (place, byte) in bits.iter().enumerate() {
            for bit in (0..8).filter(|bit| byte & (1 << bit) != 0) {
                self.count(place * 8 + bit);
            }
        }
    }

    fn count(&mut self, number: usize) {
        let is_new = match self.seen.get_mut(number) {
            Some(seen) => !std::mem::replace(seen, true),
            None => false,
        };
        self.wrong += u32::from(!is_new);
    }

    /// Fails if anything was lost, doubled or never sent.
    pub fn judge(&self) -> Result<()> {
        let lost = self.seen.iter().filter(|seen| !**seen).count() as u32;
        match self.wrong + lost {
            0 => Ok(()),
            wrong => Err(WorkerError::Wrong {
                wrong,
                messages: self.seen.len() as u32,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(answers: &[&[u8]]) -> bool {
        let mut census = Census::of(10);
        answers.iter().for_each(|answer| census.take_all(answer));
        census.judge().is_ok()
    }

    #[test]
    fn whatever_is_lost_doubled_or_never_sent_is_found() {
        assert!(judged(&[&[0, 0, 0, 0, 0xf0], &[0, 0, 0, 0, 0x0f, 3]]));
        assert!(!judged(&[&[0, 0, 0, 0, 0xf0, 3]]));
        assert!(!judged(&[&[0, 0, 0, 0, 0xff, 3], &[0, 0, 0, 0, 1]]));
        assert!(!judged(&[&[1, 0, 0, 0, 0xff, 3]]));
        assert!(!judged(&[&[0, 0, 0, 0, 0xff, 7]]));
        assert!(!judged(&[&[0, 0]]));
        let mut census = Census::of(1);
        census.take(&body(0, 64));
        assert!(census.judge().is_ok());
        census.take(b"");
        assert!(census.judge().is_err());
    }
}
