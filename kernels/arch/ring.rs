//! The feed of sm_90: tiles come into shared memory by bulk copies, ahead of time.
//!
//! [`RingLayout`] says where they lie there.
//!
//! Tile number i of the block (0, 1, 2, …) goes to slot i mod depth; the slot's mbarrier completes
//! a phase when the tile is there, and the parity of i / depth tells the phases apart. Thread 0
//! asks for tiles; all threads wait for them. While tile i is in use, tiles up to i + depth - 1 are
//! asked for: the last of them once a collective has shown that all are done with tile i - 1, whose
//! slot it takes.

use core::ffi::c_void;
use core::marker::PhantomData;

use cuda_std::{bulk, shared, thread};

use crate::arch::GpuBlock;
use crate::args::{Extent, RowStats, Rows};
use crate::element::Lanes;
use crate::feed::RingLayout;
use crate::lock::Gate;
use crate::{Block, Element, Feed, Pack, Params};

cuda_std::dynamic_shared!(dynamic, "ferronorm_ring");

/// Tiles in shared memory, filled ahead of the block by the copy engine.
pub struct Ring<E, P, const T: usize, const C: usize> {
    extent: Extent,
    rows_per_tile: usize,
    matrices: [Rows; T],
    stats: *const c_void,
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
    types: PhantomData<(E, P)>,
}

impl<E: Element, P: Params<E>, const T: usize, const C: usize> Ring<E, P, T, C> {
    #[inline(always)]
    fn barrier(slot: u32) -> u32 {
        dynamic() + 8 * slot
    }

    /// Thread 0 asks for the next tile, if there is one, into the next slot. `vectors` come along.
    #[inline(always)]
    fn ask(&mut self, block: &mut GpuBlock, vectors: Option<[*const c_void; C]>) {
        if self.ask < self.extent.rows {
            let live = (self.extent.rows - self.ask).min(self.rows_per_tile) as u32;
            let barrier = Self::barrier(self.ask_slot);
            let mut target = self.slots + self.ask_slot * self.slot_bytes;
            let step = self.rows_per_tile as u32 * self.row_bytes;
            block.leader(|| {
                let stats_bytes = if self.stats.is_null() { 0 } else { 16 * live };
                let mut bytes = T as u32 * live * self.row_bytes + stats_bytes;
                if let Some(vectors) = vectors {
                    for i in 0..C {
                        let absent = vectors[i].is_null();
                        bytes += if absent { 0 } else { P::PACKS as u32 * self.row_bytes };
                    }
                }
                // SAFETY: the slot is free: it is new, or `recycle` says so. Sources are readable
                // by the promise of `open`, and aligned, as are sizes, since rows are whole packs.
                unsafe {
                    bulk::arrive_expect(barrier, bytes);
                    for matrix in 0..T {
                        for r in 0..live {
                            let row = self.matrices[matrix].row::<E>(self.ask + r as usize).cast();
                            bulk::copy(target + r * self.row_bytes, row, self.row_bytes, barrier);
                        }
                        target += step;
                    }
                    if stats_bytes != 0 {
                        let stats = self.stats.cast::<Pack>().add(self.ask).cast();
                        bulk::copy(target, stats, stats_bytes, barrier);
                    }
                    if let Some(vectors) = vectors {
                        for i in 0..C {
                            if !vectors[i].is_null() {
                                let bytes = P::PACKS as u32 * self.row_bytes;
                                let target = self.vectors + i as u32 * bytes;
                                bulk::copy(target, vectors[i].cast(), bytes, barrier);
                            }
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

impl<E, P, const T: usize, const C: usize> Feed<GpuBlock, E, P, T, C> for Ring<E, P, T, C>
where
    E: Element<Real = f32>,
    P: Params<E>,
{
    const WHOLE_PACKS: bool = true;
    const PLAIN_ONLY: bool = true;

    #[inline(always)]
    unsafe fn open(
        block: &mut GpuBlock,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows; T],
        vectors: [*const c_void; C],
        stats: *const c_void,
    ) -> Self {
        let first = block.index() * rows_per_tile;
        let row_bytes = (extent.columns / E::LANES) as u32 * 16;
        let vector_bytes = P::PACKS as u32 * row_bytes;
        let layout =
            RingLayout::new(T, C, !stats.is_null(), rows_per_tile, row_bytes, vector_bytes);
        let mut ring = Ring {
            extent,
            rows_per_tile,
            matrices,
            stats,
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
            types: PhantomData,
        };
        for i in 0..C {
            if vectors[i].is_null() {
                // An absent weight is 1, an absent bias 0.
                let mut lanes = P::Lanes::ZERO;
                for l in 0..P::LANES {
                    lanes[l] = if i == 0 { 1.0 } else { 0.0 };
                }
                let mut at = 16 * thread::thread_idx_x();
                while at < vector_bytes {
                    let address = ring.vectors + i as u32 * vector_bytes + at;
                    // SAFETY: within the vector; nobody uses it before the barrier.
                    unsafe { shared::store(address, P::pack(lanes).0) };
                    at += 16 * thread::block_dim_x();
                }
            }
        }
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
    fn vector(&self, vector: usize, pack: usize) -> E::Lanes {
        let bytes = P::PACKS as u32 * self.row_bytes;
        let mut packs = [Pack::default(); 2];
        for i in 0..P::PACKS {
            let at = 16 * (pack * P::PACKS + i) as u32;
            let address = self.vectors + vector as u32 * bytes + at;
            // SAFETY: the vectors came with the block's first tile, or are filled.
            packs[i] = Pack(unsafe { shared::load_unless(at >= bytes, address) });
        }
        P::widen(packs)
    }

    #[inline(always)]
    unsafe fn stats(&self, r: usize) -> RowStats<f32> {
        let tile = self.slots + self.slot * self.slot_bytes;
        let stats = tile + (T * self.rows_per_tile) as u32 * self.row_bytes;
        // SAFETY: within the present slot, which `next` has waited for.
        let words = unsafe { shared::load(stats + 16 * r as u32) };
        let [mean, mean_lo, rstd, pad] = words.map(f32::from_bits);
        RowStats { mean, mean_lo, rstd, pad }
    }
}
