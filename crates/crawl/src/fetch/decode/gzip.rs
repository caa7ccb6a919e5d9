//! The format gzip: deflate with a head, a checksum and perhaps another member behind it.

use flate2::Crc;

use super::inflate::Inflate;
use super::{DecodeError, Output};

/// The longest head: it may hold a file name and a comment.
const HEAD_BYTES_MAX: usize = 64 << 10;
const TAIL_BYTES: usize = 8;

/// Decompresses gzip.
pub(super) struct Gzip {
    state: State,
    /// What has come of a head or a tail that is not whole.
    part: Vec<u8>,
    inflate: Inflate,
    check: Crc,
    /// How many members are whole.
    members: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Data,
    Tail,
    /// What comes now is no gzip any more. Some servers fill up with zeros; it does no harm.
    Rest,
}

impl Gzip {
    pub fn new() -> Self {
        Self {
            state: State::Head,
            part: Vec::new(),
            inflate: Inflate::new(false),
            check: Crc::new(),
            members: 0,
        }
    }

    pub fn is_whole(&self) -> bool {
        self.members > 0 && matches!(self.state, State::Head | State::Rest)
    }

    pub fn push(&mut self, mut input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
        while !input.is_empty() {
            input = match self.state {
                State::Head => self.head(input)?,
                State::Data => self.data(input, output)?,
                State::Tail => self.tail(input)?,
                State::Rest => &[],
            };
        }
        Ok(())
    }

    fn head<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], DecodeError> {
        let before = self.part.len();
        self.part.extend_from_slice(input);
        match head_len(&self.part) {
            Head::Whole(len) => {
                self.part.clear();
                self.state = State::Data;
                self.inflate = Inflate::new(false);
                self.check = Crc::new();
                Ok(&input[len - before..])
            }
            Head::Part if self.part.len() <= HEAD_BYTES_MAX => Ok(&[]),
            Head::Part => Err(DecodeError::broken("the head of its gzip data is too long")),
            Head::Wrong if self.members > 0 => {
                self.state = State::Rest;
                Ok(&[])
            }
            Head::Wrong => Err(DecodeError::broken("it is said to be gzip, but it is not")),
        }
    }

    fn data<'a>(&mut self, input: &'a [u8], output: &mut Output) -> Result<&'a [u8], DecodeError> {
        let used = self.inflate.push(input, output, Some(&mut self.check))?;
        match self.inflate.is_whole() {
            true => self.state = State::Tail,
            false if used < input.len() => {
                return Err(DecodeError::broken("its gzip data does not go on"));
            }
            false => {}
        }
        Ok(&input[used..])
    }

    fn tail<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], DecodeError> {
        let taken = input.len().min(TAIL_BYTES - self.part.len());
        self.part.extend_from_slice(&input[..taken]);
        if let Some((sum, len)) = self.part.split_first_chunk::<4>()
            && let Some((len, _)) = len.split_first_chunk::<4>()
        {
            let is_right = u32::from_le_bytes(*sum) == self.check.sum()
                && u32::from_le_bytes(*len) == self.check.amount();
            if !is_right {
                return Err(DecodeError::broken(
                    "the checksum of its gzip data is wrong",
                ));
            }
            self.part.clear();
            self.members += 1;
            self.state = State::Head;
        }
        Ok(&input[taken..])
    }
}

enum Head {
    /// It has this many bytes.
    Whole(usize),
    /// It goes on.
    Part,
    /// It is none.
    Wrong,
}

/// How long the head at the start of these bytes is.
fn head_len(bytes: &[u8]) -> Head {
    const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
    const FIXED: usize = 10;
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Head::Wrong;
    }
    if bytes.len() < FIXED {
        return Head::Part;
    }
    let flags = bytes[3];
    let mut len = FIXED;
    if flags & 4 != 0 {
        let Some(size) = bytes.get(len..len + 2) else {
            return Head::Part;
        };
        len += 2 + usize::from(u16::from_le_bytes([size[0], size[1]]));
    }
    // A file name, then a comment: each ends with a zero.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let rest = bytes.get(len..).unwrap_or_default();
            match memchr::memchr(0, rest) {
                Some(end) => len += end + 1,
                None => return Head::Part,
            }
        }
    }
    if flags & 2 != 0 {
        len += 2;
    }
    match len <= bytes.len() {
        true => Head::Whole(len),
        false => Head::Part,
    }
}
