//! The feed of sm_90: tiles come into shared memory by bulk copies, ahead of time.
//!
//! [`RingLayout`] says where they lie there.
//!
//! Tile number i of the block (0, 1, 2, …) goes to slot i mod depth; the slot's mbarrier completes
//! a phase when the tile is there, and the parity of i / depth tells the phases apart. Thread 0
//! asks for tiles; all threads wait for them. While tile i is in use, tiles up to i + depth - 1 are
//! asked for: the last of them once a collective has shown that all are done with tile i - 1, whose
//! slot it takes.

use cuda_std::{bulk, shared, thread};

use crate::arch::GpuBlock;
use crate::args::{Extent, Rows};
use crate::feed::RingLayout;
use crate::lock::Gate;
use crate::{Block, Element, Feed, Pack};

cuda_std::dynamic_shared!(dynamic, "ferronorm_ring");

/// Tiles in shared memory, filled ahead of the block by the copy engine.
pub struct Ring<E, const T: usize, const C: usize> {
    extent: Extent,
    rows_per_tile: usize,
    matrices: [Rows<E>; T],
    notes: *const Pack,
    row_bytes: u32,
    /// Shared addresses of the vectors and of slot 0, and a slot's size.
    vectors: u32,
    slots: u32,
    slot_bytes: u32,
    /// First row of the next tile to use, of the present one, and of the next to ask for.
    next: usize,
    row: usize,
    ask: usize,
    /// Slot and parity of the present tile; slot of the next to ask for.
    slot: u32,
    parity: u32,
    ask_slot: u32,
}

impl<E: Element, const T: usize, const C: usize> Ring<E, T, C> {
    #[inline(always)]
    fn barrier(slot: u32) -> u32 {
        dynamic() + 8 * slot
    }

    /// Thread 0 asks for the next tile, if there is one, into the next slot. `vectors` come along.
    #[inline(always)]
    fn ask(&mut self, block: &mut GpuBlock, vectors: Option<[*const E; C]>) {
        if self.ask < self.extent.rows {
            let live = (self.extent.rows - self.ask).min(self.rows_per_tile) as u32;
            let barrier = Self::barrier(self.ask_slot);
            let mut target = self.slots + self.ask_slot * self.slot_bytes;
            let step = self.rows_per_tile as u32 * self.row_bytes;
            block.leader(|| {
                let note_bytes = if self.notes.is_null() { 0 } else { 16 * live };
                let vector_bytes = if vectors.is_some() { C as u32 * self.row_bytes } else { 0 };
                let bytes = T as u32 * live * self.row_bytes + note_bytes + vector_bytes;
                // SAFETY: the slot is free: it is new, or `recycle` says so. Sources are readable
                // by the promise of `open`, and aligned, as are sizes, since rows are whole packs.
                unsafe {
                    bulk::arrive_expect(barrier, bytes);
                    for matrix in 0..T {
                        for r in 0..live {
                            let row = self.matrices[matrix].row(self.ask + r as usize).cast();
                            bulk::copy(target + r * self.row_bytes, row, self.row_bytes, barrier);
                        }
                        target += step;
                    }
                    if note_bytes != 0 {
                        let notes = self.notes.add(self.ask).cast();
                        bulk::copy(target, notes, note_bytes, barrier);
                    }
                    if let Some(vectors) = vectors {
                        for i in 0..C {
                            let target = self.vectors + i as u32 * self.row_bytes;
                            bulk::copy(target, vectors[i].cast(), self.row_bytes, barrier);
                        }
                    }
                }
            });
            self.ask += block.grid() * self.rows_per_tile;
            self.ask_slot =
                if self.ask_slot + 1 == self.extent.depth { 0 } else { self.ask_slot + 1 };
        }
    }
}

impl<E: Element, const T: usize, const C: usize> Feed<GpuBlock, E, T, C> for Ring<E, T, C> {
    const WHOLE_PACKS: bool = true;

    #[inline(always)]
    unsafe fn open(
        block: &mut GpuBlock,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows<E>; T],
        vectors: [*const E; C],
        notes: *const Pack,
    ) -> Self {
        let first = block.index() * rows_per_tile;
        let row_bytes = extent.columns / E::LANES as u32 * 16;
        let layout = RingLayout::new(T, C, !notes.is_null(), rows_per_tile, row_bytes);
        let mut ring = Ring {
            extent,
            rows_per_tile,
            matrices,
            notes,
            row_bytes,
            vectors: dynamic() + layout.vectors,
            slots: dynamic() + layout.slots,
            slot_bytes: layout.slot_bytes,
            next: first,
            row: first,
            ask: first,
            // The first `next` moves on to slot 0, parity 0.
            slot: extent.depth - 1,
            parity: 1,
            ask_slot: 0,
        };
        block.leader(|| {
            for slot in 0..extent.depth {
                // SAFETY: in the launch's dynamic shared memory; nobody uses it before the barrier.
                unsafe { bulk::init(Self::barrier(slot), 1) };
            }
            bulk::fence_init();
        });
        // SAFETY: `open` is reached by the whole block.
        unsafe { thread::sync_threads() };
        ring.ask(block, Some(vectors));
        // One slot stays free: `recycle` asks for a tile before the present one is done with.
        for _ in 2..extent.depth {
            ring.ask(block, None);
        }
        ring
    }

    #[inline(always)]
    fn next(&mut self, block: &mut GpuBlock) -> Option<usize> {
        if self.next >= self.extent.rows {
            return None;
        }
        self.slot += 1;
        if self.slot == self.extent.depth {
            self.slot = 0;
            self.parity ^= 1;
        }
        self.row = self.next;
        self.row_bytes = thread::opaque(self.row_bytes as usize) as u32;
        self.next += block.grid() * self.rows_per_tile;
        // SAFETY: initialised by `open`; the tile has been asked for.
        unsafe { bulk::wait(Self::barrier(self.slot), self.parity) };
        Some(self.row)
    }

    #[inline(always)]
    fn recycle(&mut self, block: &mut GpuBlock) {
        self.ask(block, None);
    }

    #[inline(always)]
    unsafe fn pack(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        let row = (matrix * self.rows_per_tile + r) as u32;
        let tile = self.slots + self.slot * self.slot_bytes;
        let at = 16 * pack as u32;
        // SAFETY: within the present slot, which `next` has waited for.
        unsafe { Pack(shared::load_unless(at >= self.row_bytes, tile + row * self.row_bytes + at)) }
    }

    #[inline(always)]
    fn vector(&self, vector: usize, pack: usize) -> Pack {
        let row = self.vectors + vector as u32 * self.row_bytes;
        let at = 16 * pack as u32;
        // SAFETY: the vectors came with the block's first tile.
        unsafe { Pack(shared::load_unless(at >= self.row_bytes, row + at)) }
    }

    #[inline(always)]
    unsafe fn note(&self, r: usize) -> Pack {
        let tile = self.slots + self.slot * self.slot_bytes;
        let notes = tile + (T * self.rows_per_tile) as u32 * self.row_bytes;
        // SAFETY: within the present slot, which `next` has waited for.
        Pack(unsafe { shared::load(notes + 16 * r as u32) })
    }
}
