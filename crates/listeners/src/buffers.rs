//! Buffers that connections borrow for a moment, so that an idle connection needs none.

use std::cell::RefCell;

/// How much is read or written at a time.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;

/// How many unused buffers a thread keeps.
const KEPT_MAX: usize = 4;

thread_local! {
    static READ: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static WRITE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of [`BUFFER_BYTES`] bytes to read into. It goes back to the thread that drops it.
pub(crate) struct ReadBuffer(Vec<u8>);

impl ReadBuffer {
    pub fn borrow() -> Self {
        let kept = READ.with_borrow_mut(Vec::pop);
        Self(kept.unwrap_or_else(|| vec![0; BUFFER_BYTES]))
    }
}

impl std::ops::Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for ReadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        READ.with_borrow_mut(|kept| keep(kept, std::mem::take(&mut self.0)));
    }
}

/// An empty buffer to write into. It goes back to the thread that drops it.
pub(crate) struct WriteBuffer(Vec<u8>);

impl WriteBuffer {
    pub fn borrow() -> Self {
        let kept = WRITE.with_borrow_mut(Vec::pop);
        Self(kept.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES)))
    }

    pub fn as_vec(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        // A message larger than the rest must not make a buffer large for ever.
        if buffer.capacity() <= 2 * BUFFER_BYTES {
            buffer.clear();
            WRITE.with_borrow_mut(|kept| keep(kept, buffer));
        }
    }
}

fn keep(kept: &mut Vec<Vec<u8>>, buffer: Vec<u8>) {
    if kept.len() < KEPT_MAX {
        kept.push(buffer);
    }
}
