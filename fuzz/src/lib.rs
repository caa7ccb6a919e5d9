//! What the targets share: input cut into pieces, and a count of the memory that reading it takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first byte says how long pieces are, the rest is what they are cut from.
///
/// The length of a piece depends on the bytes before it, so that cuts fall on different places.
pub struct Pieces<'a> {
    longest: usize,
    /// Everything, uncut.
    pub all: &'a [u8],
    end: usize,
}

impl<'a> Pieces<'a> {
    /// Cuts `data`; `None` if there is nothing to cut.
    pub fn new(data: &'a [u8]) -> Option<Self> {
        let (longest, all) = data.split_first()?;
        let longest = usize::from(*longest).max(1);
        let end = 0;
        Some(Self { longest, all, end })
    }
}

impl Iterator for Pieces<'_> {
    /// Where a piece ends.
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.end == self.all.len() {
            return None;
        }
        let mixed = self.end.wrapping_mul(0x9e37_79b9) >> 7;
        let length = 1 + mixed % self.longest;
        self.end = (self.end + length).min(self.all.len());
        Some(self.end)
    }
}

/// Counts what is allocated; each target reads its input on one thread.
pub struct CountingAllocator;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps to the rules of `alloc`, which are the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above, thus from the system.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Runs `work` and panics if it holds more than `bytes_max` bytes at any moment.
pub fn within_bytes<T>(bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let before = HELD_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let result = work();
    let held = PEAK_BYTES.load(Ordering::Relaxed) - before;
    assert!(held <= bytes_max, "{held} bytes held, {bytes_max} allowed");
    result
}
