//! The heap of a worker.
//!
//! The allocator of the standard library for this target asks the host for memory before its first
//! allocation. That changes the mapping of every new instance, which costs more than all else at
//! its start. Here the same allocator begins with a region that is part of the instance from the
//! start, and asks only when that is used up.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::ptr;

use dlmalloc::{Allocator, Dlmalloc};

/// The page of WebAssembly, and what the allocator asks for at least.
const PAGE_BYTES: usize = 64 << 10;

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new_with_allocator(Memory {
    first_is_used: Cell::new(false),
})));

static FIRST: FirstPage = FirstPage(UnsafeCell::new([0; PAGE_BYTES]));

#[repr(align(16))]
struct FirstPage(UnsafeCell<[u8; PAGE_BYTES]>);

struct Heap(UnsafeCell<Dlmalloc<Memory>>);

// SAFETY: an instance of a component has one thread; the module is built for that target only,
// without the feature `atomics`.
unsafe impl Sync for FirstPage {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

// SAFETY: every function hands its contract on to the allocator, which never calls back here, so
// that no second reference to it exists meanwhile.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { (*self.0.get()).calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { (*self.0.get()).free(pointer, layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        unsafe { (*self.0.get()).realloc(pointer, layout.size(), layout.align(), bytes) }
    }
}

/// Where the allocator gets its memory from: the first page, then the host.
struct Memory {
    first_is_used: Cell<bool>,
}

// SAFETY: a region is given out once and never taken back: the first page because of the flag,
// others because growing the memory gives new addresses each time.
unsafe impl Allocator for Memory {
    fn alloc(&self, bytes: usize) -> (*mut u8, usize, u32) {
        if bytes <= PAGE_BYTES && !self.first_is_used.replace(true) {
            return (FIRST.0.get().cast(), PAGE_BYTES, 0);
        }
        let pages = bytes.div_ceil(PAGE_BYTES);
        match core::arch::wasm32::memory_grow(0, pages) {
            usize::MAX => (ptr::null_mut(), 0, 0),
            page => (
                ptr::without_provenance_mut(page * PAGE_BYTES),
                // No pointer may wrap around at the end of all addresses.
                pages * PAGE_BYTES - usize::from(page + pages == 1 << 16) * 16,
                0,
            ),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE_BYTES
    }
}
