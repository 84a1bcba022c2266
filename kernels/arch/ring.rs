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
use crate::block::WARP;
use crate::element::Lanes;
use crate::feed::{RingLayout, live, params};
use crate::lock::Gate;
use crate::{Block, Element, Feed, Pack, Params, Real, memory};

cuda_std::dynamic_shared!(dynamic, "ferronorm_ring");

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

    /// First row of the tile `tiles` after the present one.
    #[inline(always)]
    fn ahead(&self, grid: usize, tiles: u32) -> usize {
        // Opaque: a product that is computed where it is used takes no register elsewhere.
        let rows = thread::opaque(self.rows_per_tile);
        self.row.wrapping_add(tiles as usize * grid * rows)
    }

    /// Asks for the tile `tiles` after the present one, if there is one, into the slot whose turn it
    /// is. The first lanes of the warps share its rows out: one lane would ask for them one by one,
    /// and the others wait for it. (Copies may complete before the mbarrier is told to expect them:
    /// it completes no phase before that arrival.)
    #[inline(always)]
    fn ask(&self, block: &GpuBlock, tiles: u32) {
        // Opaque: what follows from it is needed here alone, and shall take no registers elsewhere.
        let thread = thread::opaque(thread::thread_idx_x() as usize) as u32;
        let warp = thread / WARP as u32;
        let first = self.ahead(block.grid(), tiles);
        if thread % WARP as u32 != 0 || first >= self.extent.rows {
            return;
        }
        let live = (self.extent.rows - first).min(self.rows_per_tile);
        let slot = self.slot + tiles;
        let slot = if slot < self.extent.depth { slot } else { slot - self.extent.depth };
        let (barrier, tile) = (self.barrier(slot), self.slots + slot * self.slot_bytes);
        let rows = self.rows_per_tile as u32;
        // SAFETY: the slot is free: it is new, or `recycle` says so. Sources are readable by the
        // promise of `open` (with the rest of a granule that a row ends in), and aligned, as are
        // sizes: rows are whole packs, or made whole.
        unsafe {
            if warp == 0 {
                let mut expected = T as u32 * live as u32 * self.row_bytes;
                if !WHOLE {
                    expected = 0;
                    for matrix in 0..T {
                        for r in 0..live {
                            expected += self.granules(matrix, first + r).1;
                        }
                    }
                }
                let stats_bytes = if self.stats.is_null() { 0 } else { 16 * live as u32 };
                bulk::arrive_expect(barrier, expected + stats_bytes);
                if stats_bytes != 0 {
                    let stats = self.stats.cast::<Pack>().add(first).cast();
                    bulk::copy(tile + T as u32 * rows * self.pitch(), stats, stats_bytes, barrier);
                }
            }
            let mut next = warp;
            while next < T as u32 * rows {
                let (matrix, r) = (next / rows, (next % rows) as usize);
                if r < live {
                    let matrix = if T == 2 && matrix == 1 { 1 } else { 0 };
                    let (source, bytes) = self.granules(matrix, first + r);
                    bulk::copy(tile + next * self.pitch(), source, bytes, barrier);
                }
                next += thread::block_dim_x() / WARP as u32;
            }
        }
    }

    /// The granules of row `row` of a matrix: where they start, and their size.
    #[inline(always)]
    fn granules(&self, matrix: usize, row: usize) -> (*const u8, u32) {
        // SAFETY: `open`'s caller said that the row exists.
        let start = unsafe { self.matrices[matrix].row::<E>(row) }.cast::<u8>();
        if WHOLE {
            return (start, self.row_bytes);
        }
        let before = start.addr() % 16;
        (start.wrapping_sub(before), (before as u32 + self.row_bytes).next_multiple_of(16))
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

    /// Where vector `i` lies, and its size.
    #[inline(always)]
    fn vector_at(&self, i: usize) -> (u32, u32) {
        let bytes = RingLayout::vector_bytes(self.row_bytes, P::PACKS);
        (self.vectors + i as u32 * bytes, bytes)
    }

    /// All threads fill absent vectors: with 1 an absent weight, with 0 an absent bias. If vectors
    /// are not whole packs, the others too.
    #[inline(always)]
    fn fill(&self, vectors: [*const c_void; C]) {
        for i in 0..C {
            if WHOLE && !vectors[i].is_null() {
                continue;
            }
            let lanes = if i == 0 { ones::<P>() } else { P::Lanes::ZERO };
            let (vector, bytes) = self.vector_at(i);
            let mut pack = thread::thread_idx_x();
            while 16 * pack < bytes {
                let mut value = P::pack(lanes);
                if !WHOLE && !vectors[i].is_null() {
                    let (vector, columns) = (vectors[i].cast::<P>(), self.extent.columns);
                    // SAFETY: the vector is readable, `open`'s caller said.
                    value = unsafe { memory::gather(false, vector, columns, pack as usize) };
                }
                // SAFETY: within the vector; nobody uses it before the barrier.
                unsafe { shared::store(vector + 16 * pack, value.0) };
                pack += thread::block_dim_x();
            }
        }
    }

    /// The first thread asks for the vectors that there are.
    #[inline(always)]
    fn ask_vectors(&self, block: &mut GpuBlock, vectors: [*const c_void; C]) {
        block.leader(|| {
            let present = vectors.iter().filter(|vector| !vector.is_null()).count() as u32;
            // SAFETY: as in `ask`.
            unsafe {
                bulk::arrive_expect(dynamic(), present * self.vector_at(0).1);
                for i in 0..C {
                    if !vectors[i].is_null() {
                        let (vector, bytes) = self.vector_at(i);
                        bulk::copy(vector, vectors[i].cast(), bytes, dynamic());
                    }
                }
            }
        });
    }

    /// Waits for the vectors.
    #[inline(always)]
    fn wait_for_vectors(&self) {
        if WHOLE && VECTORS {
            // SAFETY: initialised by `open`, which has asked for them.
            unsafe { bulk::wait(dynamic(), 0) };
        }
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
            row: first.wrapping_sub(block.grid() * rows_per_tile),
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
        });
        if WHOLE && VECTORS {
            ring.fill(vectors);
        }
        // SAFETY: `open` is reached by the whole block.
        unsafe { thread::sync_threads() };
        // What is used first is asked for first.
        if WHOLE && VECTORS && T > 1 {
            ring.ask_vectors(block, vectors);
        }
        for tiles in 1..=extent.depth - Self::LAG {
            ring.ask(block, tiles);
        }
        if !VECTORS {
            return ring;
        }
        if !WHOLE {
            ring.fill(vectors);
            // SAFETY: as above.
            unsafe { thread::sync_threads() };
        } else if T > 1 {
            ring.wait_for_vectors();
        } else {
            ring.ask_vectors(block, vectors);
        }
        ring
    }

    #[inline(always)]
    fn next(&mut self, block: &mut GpuBlock) -> Option<usize> {
        self.row = self.ahead(block.grid(), 1);
        self.slot += 1;
        if self.slot == self.extent.depth {
            self.slot = 0;
            self.parity ^= 1;
        }
        if self.row >= self.extent.rows {
            return None;
        }
        self.row_bytes = thread::opaque(self.row_bytes as usize) as u32;
        // SAFETY: initialised by `open`; the tile has been asked for.
        unsafe { bulk::wait(self.barrier(self.slot), self.parity) };
        Some(self.row)
    }

    #[inline(always)]
    fn recycle(&mut self, block: &mut GpuBlock) {
        self.ask(block, self.extent.depth - Self::LAG);
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
        if !VECTORS {
            let (global, columns) = (self.global[vector], self.extent.columns);
            if vector == 0 && global.is_null() {
                return ones::<E>();
            }
            // SAFETY: `open`'s caller said that the vectors are readable.
            return unsafe { params::<E, P>(WHOLE, global, columns, pack) };
        }
        let (vector, bytes) = self.vector_at(vector);
        let mut packs = [Pack::default(); 2];
        for i in 0..P::PACKS {
            let at = 16 * (pack * P::PACKS + i) as u32;
            // SAFETY: the vectors have been waited for.
            packs[i] = Pack(unsafe { shared::load_unless(at >= bytes, vector + at) });
        }
        P::widen(packs)
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

/// An absent weight.
#[inline(always)]
fn ones<E: Element>() -> E::Lanes {
    let mut lanes = E::Lanes::ZERO;
    for l in 0..E::LANES {
        lanes[l] = E::Real::ONE;
    }
    lanes
}
