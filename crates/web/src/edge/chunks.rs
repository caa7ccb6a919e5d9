//! Finds the end of a body that comes in chunks, and refuses whatever is not in chunks.

use super::head::BODY_TOO_LARGE;
use super::refusal::{Refusal, Refused};

/// What a line with the size of a chunk may have behind the size.
const EXTENSION_BYTES_MAX: usize = 256;
/// Sixteen digits are as much as fits into 64 bits.
const SIZE_DIGITS_MAX: usize = 16;

/// Where in a body of chunks a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Size {
        digits: usize,
    },
    Extension {
        bytes: usize,
    },
    SizeEnd,
    Data {
        left: u64,
    },
    DataEnd,
    DataEndEnd,
    /// At the beginning of a line behind the last chunk.
    Trailer,
    InTrailer,
    TrailerEnd,
    LastEnd,
    End,
}

/// Walks through a body of chunks, however it is cut into reads.
#[derive(Debug)]
pub(super) struct Chunks {
    place: Place,
    size: u64,
    body_bytes_left: u64,
    trailer_bytes_left: usize,
}

/// What came of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Walked {
    /// The body ends after so many bytes.
    End(usize),
    /// All bytes belong to the body, and there is more of it.
    All,
    /// It is wrong after so many bytes.
    Refused(usize, Refused),
}

impl Chunks {
    pub fn new(body_bytes_max: u64, trailer_bytes_max: usize) -> Self {
        Self {
            place: Place::Size { digits: 0 },
            size: 0,
            body_bytes_left: body_bytes_max,
            trailer_bytes_left: trailer_bytes_max,
        }
    }

    /// Walks on through what has come.
    pub fn walk(&mut self, bytes: &[u8]) -> Walked {
        let mut at = 0;
        while at < bytes.len() {
            if let Place::Data { left } = self.place {
                let taken = left.min((bytes.len() - at) as u64);
                at += taken as usize;
                self.place = match left - taken {
                    0 => Place::DataEnd,
                    left => Place::Data { left },
                };
                continue;
            }
            match self.step(bytes[at]) {
                Ok(Place::End) => return Walked::End(at + 1),
                Ok(place) => self.place = place,
                Err(refused) => return Walked::Refused(at, refused),
            }
            at += 1;
        }
        Walked::All
    }

    /// Takes one byte that is not data.
    fn step(&mut self, byte: u8) -> Result<Place, Refused> {
        match (self.place, byte) {
            (Place::Size { digits }, _) if byte.is_ascii_hexdigit() => self.digit(digits, byte),
            (Place::Size { digits: 1.. }, b'\r') => Ok(Place::SizeEnd),
            (Place::Size { digits: 1.. }, b';') => Ok(Place::Extension { bytes: 1 }),
            (Place::Extension { .. }, b'\r') => Ok(Place::SizeEnd),
            (Place::Extension { bytes }, b'\t' | b' '..=b'~' | 0x80..) => match bytes {
                EXTENSION_BYTES_MAX.. => Err(BAD_CHUNK),
                bytes => Ok(Place::Extension { bytes: bytes + 1 }),
            },
            (Place::SizeEnd, b'\n') => self.begin_chunk(),
            (Place::DataEnd, b'\r') => Ok(Place::DataEndEnd),
            (Place::DataEndEnd, b'\n') => {
                self.size = 0;
                Ok(Place::Size { digits: 0 })
            }
            (Place::Trailer, b'\r') => Ok(Place::LastEnd),
            (Place::LastEnd, b'\n') => Ok(Place::End),
            (Place::Trailer | Place::InTrailer, _) => self.trailer(byte),
            (Place::TrailerEnd, b'\n') => Ok(Place::Trailer),
            _ => Err(BAD_CHUNK),
        }
    }

    fn digit(&mut self, digits: usize, byte: u8) -> Result<Place, Refused> {
        if digits == SIZE_DIGITS_MAX {
            return Err(BAD_CHUNK);
        }
        let digit = char::from(byte).to_digit(16).unwrap_or_default();
        self.size = self.size << 4 | u64::from(digit);
        Ok(Place::Size { digits: digits + 1 })
    }

    fn begin_chunk(&mut self) -> Result<Place, Refused> {
        if self.size == 0 {
            return Ok(Place::Trailer);
        }
        let left = self.body_bytes_left.checked_sub(self.size);
        self.body_bytes_left = left.ok_or(BODY_TOO_LARGE)?;
        Ok(Place::Data { left: self.size })
    }

    fn trailer(&mut self, byte: u8) -> Result<Place, Refused> {
        let left = self.trailer_bytes_left.checked_sub(1);
        self.trailer_bytes_left = left.ok_or(TRAILERS_TOO_LARGE)?;
        match byte {
            b'\r' => Ok(Place::TrailerEnd),
            b'\t' | b' '..=b'~' | 0x80.. => Ok(Place::InTrailer),
            _ => Err(BAD_CHUNK),
        }
    }
}

const BAD_CHUNK: Refused =
    Refused::malformed("the body says that it comes in chunks, and it does not");
const TRAILERS_TOO_LARGE: Refused = Refused::new(
    Refusal::HeadersTooLarge,
    "what follows the last chunk is larger than this server takes",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8]) -> Walked {
        Chunks::new(1_000, 40).walk(bytes)
    }

    fn reason(bytes: &[u8]) -> Refusal {
        match walk(bytes) {
            Walked::Refused(_, refused) => refused.reason,
            other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(bytes)),
        }
    }

    const WHOLE: &[u8] = b"5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nA: b\r\n\r\n";

    #[test]
    fn the_end_is_found_however_the_body_is_cut() {
        let mut bytes = WHOLE.to_vec();
        bytes.extend_from_slice(b"GET");
        assert_eq!(walk(&bytes), Walked::End(WHOLE.len()));
        assert_eq!(walk(b"0\r\n\r\n"), Walked::End(5));
        for first in 0..WHOLE.len() {
            for second in first..WHOLE.len() {
                let mut chunks = Chunks::new(1_000, 40);
                assert_eq!(chunks.walk(&WHOLE[..first]), Walked::All);
                assert_eq!(chunks.walk(&WHOLE[first..second]), Walked::All);
                assert_eq!(
                    chunks.walk(&WHOLE[second..]),
                    Walked::End(WHOLE.len() - second)
                );
            }
        }
    }

    #[test]
    fn garbage_is_refused() {
        let garbage: [&[u8]; 14] = [
            b"x\r\n",
            b"\r\n",
            b"-5\r\nhello\r\n",
            b"+5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b" 5\r\nhello\r\n",
            b"5 \r\nhello\r\n",
            b"5\nhello\r\n",
            b"5\r\nhello\n",
            b"5\r\nhelloo\r\n",
            b"5\r\nhello\r\r",
            b"5\rhello",
            b"00000000000000001\r\na\r\n",
            b"0\r\nA: b\n\r\n",
        ];
        for bytes in garbage {
            assert_eq!(
                reason(bytes),
                Refusal::Malformed,
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn sizes_are_limited() {
        assert_eq!(reason(b"3e9\r\n"), Refusal::BodyTooLarge);
        assert_eq!(walk(b"3e8\r\n"), Walked::All);
        assert_eq!(reason(b"ffffffffffffffff\r\n"), Refusal::BodyTooLarge);
        let mut two = Chunks::new(8, 40);
        assert_eq!(two.walk(b"5\r\nhello\r\n"), Walked::All);
        assert_eq!(two.walk(b"4\r\n"), Walked::Refused(2, BODY_TOO_LARGE));
        let long = format!("5;{}", "x".repeat(300));
        assert_eq!(reason(long.as_bytes()), Refusal::Malformed);
        let trailers = format!("0\r\nA: {}\r\n\r\n", "b".repeat(50));
        assert_eq!(reason(trailers.as_bytes()), Refusal::HeadersTooLarge);
    }
}
