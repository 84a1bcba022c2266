//! The feed of sm_90: tiles come into shared memory by bulk copies, ahead of time.
//!
//! [`RingLayout`] says where they lie there.
//!
//! Tile number i of the block (0, 1, 2, …) goes to slot i mod depth; the slot's mbarrier completes
//! a phase when the tile is there, and the parity of i / depth tells the phases apart. While tile i
//! is in use, later ones are asked for: the next of them once a collective has shown that all are
//! done with a slot. That is tile i - 1's in backward, which reads its tile twice, and in forward,
//! which holds it in registers, that of tile i itself.

use core::ffi::c_void;
use core::marker::PhantomData;

use cuda_std::shift::shift;
use cuda_std::{bulk, shared, thread};

use super::nvptx::GpuBlock;
use crate::args::{Extent, RowStats, Rows};
use crate::feed::{RingLayout, Share, live};
use crate::lock::Gate;
use crate::{Element, Feed, Pack, Params};

cuda_std::dynamic_shared!(dynamic, "ferronorm_ring");

mod ask;
mod vectors;

/// Tiles in shared memory, filled ahead of the block by the copy engine. WHOLE is
/// [`Feed::WHOLE_PACKS`]; without it, a row comes with all 16-byte granules that it lies in, and each
/// pack is shifted out of two of them. Without VECTORS, those are read from global memory, and leave
/// their room to tiles.
pub struct Ring<E, P, const T: usize, const C: usize, const WHOLE: bool, const VECTORS: bool> {
    extent: Extent,
    rows_per_tile: usize,
    matrices: [Rows; T],
    stats: *const c_void,
    row_bytes: u32,
    /// The vectors in global memory, for a ring that leaves them there.
    global: [*const c_void; C],
    /// Shared addresses of the vectors, of the slots' mbarriers, of slot 0, and a slot's size.
    vectors: u32,
    barriers: u32,
    slots: u32,
    slot_bytes: u32,
    /// First row of the present tile.
    row: usize,
    /// Slot and parity of the present tile.
    slot: u32,
    parity: u32,
    types: PhantomData<(E, P)>,
}

impl<E, P, const T: usize, const C: usize, const WHOLE: bool, const VECTORS: bool>
    Ring<E, P, T, C, WHOLE, VECTORS>
where
    E: Element,
    P: Params<E>,
{
    /// Slots that are in use when `recycle` is called, and cannot be filled: one, but where the
    /// tile is held in registers.
    const LAG: u32 = if T == 1 { 0 } else { 1 };

    #[inline(always)]
    fn barrier(&self, slot: u32) -> u32 {
        self.barriers + 8 * slot
    }

    /// The tiles of this block. Backward has no late blocks: each would have dw and db of its own to
    /// merge.
    #[inline(always)]
    fn share(extent: &Extent, rows_per_tile: usize) -> Share {
        // Opaque, here and in `ahead`: what is computed where it is used takes no register elsewhere.
        let (block, grid) = (thread::opaque(thread::block_idx_x() as usize), thread::grid_dim_x());
        if T == 1 {
            return Share::new(block as u32, grid, rows_per_tile, extent.rows, extent.late);
        }
        Share { first: block * rows_per_tile, end: extent.rows, step: grid }
    }

    /// First row of the tile `tiles` after the present one, and the row before which the tiles end.
    #[inline(always)]
    fn ahead(&self, tiles: u32) -> (usize, usize) {
        let rows = thread::opaque(self.rows_per_tile);
        let Share { end, step, .. } = Self::share(&self.extent, rows);
        (self.row.wrapping_add(tiles as usize * step as usize * rows), end)
    }

    /// Bytes from one row in a slot to the next.
    #[inline(always)]
    fn pitch(&self) -> u32 {
        RingLayout::pitch(WHOLE, self.row_bytes)
    }

    /// Where row `r` of the present tile lies.
    #[inline(always)]
    fn row_at(&self, matrix: usize, r: usize) -> u32 {
        let row = (matrix * self.rows_per_tile + r) as u32;
        self.slots + self.slot * self.slot_bytes + row * self.pitch()
    }

    /// Pack `pack` of the row in the present slot at `row`, of which two granules have it.
    ///
    /// # Safety
    ///
    /// The row must be row `r` of the tile.
    #[inline(always)]
    unsafe fn shifted(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        let (row, at) = (self.row_at(matrix, r), 16 * pack as u32);
        let left = if live(self.extent, self.row, r) { self.row_bytes } else { 0 };
        let left = left.saturating_sub(at);
        // Of the address alone.
        let source = self.matrices[matrix];
        let elements = (self.row + r) as u32 * source.stride as u32;
        let bytes = (source.ptr.addr() as u32 + elements * size_of::<E>() as u32) % 16;
        // SAFETY: within the slot, since a row's pitch has room for one granule more.
        let (low, high) = unsafe {
            let low = shared::load_unless(left == 0, row + at);
            (low, shared::load_unless(left == 0, row + at + 16))
        };
        let words = shift::<E>(low, high, bytes);
        if left >= 16 {
            return Pack(words);
        }
        // What lies behind the row is not the row's.
        Pack(core::array::from_fn(|i| match left.saturating_sub(4 * i as u32) {
            0 => 0,
            2 => words[i] & 0xFFFF,
            _ => words[i],
        }))
    }
}

impl<E, P, const T: usize, const C: usize, const WHOLE: bool, const VECTORS: bool>
    Feed<GpuBlock, E, P, T, C> for Ring<E, P, T, C, WHOLE, VECTORS>
where
    E: Element<Real = f32>,
    P: Params<E>,
{
    const WHOLE_PACKS: bool = WHOLE;
    const PLAIN_ONLY: bool = true;
    const ASK_FIRST: bool = false;

    #[inline(always)]
    unsafe fn open(
        block: &mut GpuBlock,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows; T],
        vectors: [*const c_void; C],
        stats: *const c_void,
    ) -> Self {
        let Share { first, step, .. } = Self::share(&extent, rows_per_tile);
        let row_bytes = extent.columns as u32 * size_of::<E>() as u32;
        let vector_bytes = RingLayout::vector_bytes(row_bytes, P::PACKS);
        let pitch = RingLayout::pitch(WHOLE, row_bytes);
        let in_ring = if VECTORS { C } else { 0 };
        let layout =
            RingLayout::new(T, in_ring, !stats.is_null(), rows_per_tile, pitch, vector_bytes);
        let ring = Ring {
            extent,
            rows_per_tile,
            matrices,
            stats,
            row_bytes,
            global: vectors,
            vectors: dynamic() + RingLayout::VECTORS,
            barriers: dynamic() + 8,
            slots: dynamic() + layout.slots,
            slot_bytes: layout.slot_bytes,
            // The tile before the first: `next` moves on to slot 0, parity 0.
            row: first.wrapping_sub(step as usize * rows_per_tile),
            slot: extent.depth - 1,
            parity: 1,
            types: PhantomData,
        };
        block.leader(|| {
            // SAFETY: in the launch's dynamic shared memory; nobody uses it before the barrier.
            unsafe {
                bulk::init(dynamic(), 1);
                for slot in 0..extent.depth {
                    bulk::init(ring.barrier(slot), 1);
                }
            }
            bulk::fence_init();
            if T == 1 {
                // By itself, so as not to wait for the barrier. (us, M = 4096, N = 1024, H200: f16: 10.0,
                // 9.7; f32, whose tiles two warps had shared out: 13.3, 13.6. Backward, which has more to
                // ask for, loses too.)
                for tiles in 1..=extent.depth - Self::LAG {
                    ring.ask_share(tiles, 0, 1);
                }
            }
        });
        if VECTORS {
            ring.fill(vectors);
        }
        // SAFETY: `open` is reached by the whole block.
        unsafe { thread::sync_threads() };
        if VECTORS {
            ring.ask_vectors(block, vectors);
        }
        if T > 1 {
            for tiles in 1..=extent.depth - Self::LAG {
                ring.ask(tiles);
            }
            ring.wait_for_vectors();
        }
        ring
    }

    #[inline(always)]
    fn next(&mut self, _: &mut GpuBlock) -> Option<usize> {
        let end;
        (self.row, end) = self.ahead(1);
        self.slot += 1;
        if self.slot == self.extent.depth {
            self.slot = 0;
            self.parity ^= 1;
        }
        if self.row >= end {
            return None;
        }
        self.row_bytes = thread::opaque(self.row_bytes as usize) as u32;
        // SAFETY: initialised by `open`; the tile has been asked for.
        unsafe { bulk::wait(self.barrier(self.slot), self.parity) };
        Some(self.row)
    }

    #[inline(always)]
    fn recycle(&mut self, _: &mut GpuBlock) {
        self.ask(self.extent.depth - Self::LAG);
        if T == 1 {
            self.wait_for_vectors();
        }
    }

    #[inline(always)]
    unsafe fn pack(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        // SAFETY: within the present slot, which `next` has waited for.
        unsafe {
            if WHOLE {
                Pack(shared::load(self.row_at(matrix, r) + 16 * pack as u32))
            } else {
                self.shifted(matrix, r, pack)
            }
        }
    }

    #[inline(always)]
    fn pack_or_zero(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        if !WHOLE {
            // SAFETY: as above.
            return unsafe { self.shifted(matrix, r, pack) };
        }
        let at = 16 * pack as u32;
        let end = if live(self.extent, self.row, r) { self.row_bytes } else { 0 };
        // SAFETY: as above.
        Pack(unsafe { shared::load_unless(at >= end, self.row_at(matrix, r) + at) })
    }

    #[inline(always)]
    fn vector(&self, vector: usize, pack: usize) -> E::Lanes {
        self.vector_pack(vector, pack)
    }

    #[inline(always)]
    unsafe fn stats(&self, r: usize) -> RowStats<f32> {
        let tile = self.slots + self.slot * self.slot_bytes;
        let stats = tile + (T * self.rows_per_tile) as u32 * self.pitch();
        let skip = !live(self.extent, self.row, r);
        // SAFETY: within the present slot, which `next` has waited for.
        let words = unsafe { shared::load_unless(skip, stats + 16 * r as u32) };
        let [mean, mean_lo, rstd, rstd_lo] = words.map(f32::from_bits);
        RowStats { mean, mean_lo, rstd, rstd_lo }
    }
}
