//! How rows reach a block.
//!
//! A block takes tiles of R rows: tile `block`, then `block + grid`, and so on, the seed's
//! interleaved assignment. A [`Feed`] gives it the packs of those rows. There are two:
//!
//! - [`Direct`] reads global memory where the body asks. It works on any architecture, is the only
//!   feed of the CPU, and comes in two kinds: for rows of whole packs that start on 16-byte
//!   boundaries, and for any rows.
//! - `Ring` (sm_90, `arch/ring.rs`) has the copy engine bring tiles into shared memory ahead of
//!   time, several at once, and costs no registers for it. Rows must be whole, aligned packs.
//!
//! The values are the same, so the results are too.

use crate::args::{Extent, Rows, valid_lanes};
use crate::{Block, Element, Pack, arch};

/// T matrices of E read tile by tile, and C vectors (N) of E that stay at hand.
///
/// Optionally each row comes with 16 bytes of its own ([`Feed::note`]): the saved statistics.
pub trait Feed<B: Block, E: Element, const T: usize, const C: usize>: Sized {
    /// Whether rows are whole packs on 16-byte boundaries: a pack is then all there or absent.
    const WHOLE_PACKS: bool;

    /// Opens the feed for this block; `notes` may be null.
    ///
    /// # Safety
    ///
    /// The matrices must be readable over `extent`, the vectors over its columns, `notes` (if not
    /// null) over its rows; nothing writes them during the launch. Every block opens one feed.
    unsafe fn open(
        block: &mut B,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows<E>; T],
        vectors: [*const E; C],
        notes: *const Pack,
    ) -> Self;

    /// Moves to the next tile and gives its first row; `None` after the block's last tile.
    fn next(&mut self, block: &mut B) -> Option<usize>;

    /// Lets the memory of the tile before the present one be filled again: called once in each
    /// tile, after a collective that follows the last reading of that one.
    fn recycle(&mut self, block: &mut B);

    /// Pack `pack` of row `r` of the tile, of matrix `matrix`. Lanes past the row's end are zero.
    ///
    /// # Safety
    ///
    /// Row `r` of the tile must exist.
    unsafe fn pack(&self, matrix: usize, r: usize, pack: usize) -> Pack;

    /// Pack `pack` of vector `vector`.
    fn vector(&self, vector: usize, pack: usize) -> Pack;

    /// The note of row `r` of the tile.
    ///
    /// # Safety
    ///
    /// Row `r` of the tile must exist, and the feed must have been opened with notes.
    unsafe fn note(&self, r: usize) -> Pack;
}

/// Where things lie in the dynamic shared memory of a block that reads through a ring. The planner
/// asks for as much, and the kernel uses it so:
///
/// ```text
/// [ one mbarrier per slot | vectors | slot 0 | slot 1 | … ]
/// slot = [ matrix 0: R rows | … | matrix T-1: R rows | notes: R x 16 bytes ]
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RingLayout {
    /// Offset of the first vector: before it is room for 16 mbarriers.
    pub vectors: u32,
    /// Offset of slot 0.
    pub slots: u32,
    /// Bytes of a slot, which holds a tile.
    pub slot_bytes: u32,
}

impl RingLayout {
    /// For tiles of R rows of `row_bytes`.
    #[inline(always)]
    pub const fn new(
        matrices: usize,
        vectors: usize,
        notes: bool,
        rows_per_tile: usize,
        row_bytes: u32,
    ) -> Self {
        let note_bytes = if notes { 16 } else { 0 };
        RingLayout {
            vectors: 128,
            slots: 128 + vectors as u32 * row_bytes,
            slot_bytes: rows_per_tile as u32 * (matrices as u32 * row_bytes + note_bytes),
        }
    }
}

/// Reads global memory where the body asks; WHOLE is [`Feed::WHOLE_PACKS`].
pub struct Direct<E, const T: usize, const C: usize, const WHOLE: bool> {
    extent: Extent,
    rows_per_tile: usize,
    /// First row of the present tile, and of the next.
    row: usize,
    next: usize,
    matrices: [Rows<E>; T],
    vectors: [*const E; C],
    notes: *const Pack,
}

impl<B: Block, E: Element, const T: usize, const C: usize, const WHOLE: bool> Feed<B, E, T, C>
    for Direct<E, T, C, WHOLE>
{
    const WHOLE_PACKS: bool = WHOLE;

    #[inline(always)]
    unsafe fn open(
        block: &mut B,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows<E>; T],
        vectors: [*const E; C],
        notes: *const Pack,
    ) -> Self {
        let next = block.index() * rows_per_tile;
        Direct { extent, rows_per_tile, row: next, next, matrices, vectors, notes }
    }

    #[inline(always)]
    fn next(&mut self, block: &mut B) -> Option<usize> {
        if self.next >= self.extent.rows {
            return None;
        }
        // Opaque: else each matrix's row pointer and its step would be kept in registers.
        self.row = arch::opaque(self.next);
        self.next += block.grid() * self.rows_per_tile;
        Some(self.row)
    }

    #[inline(always)]
    fn recycle(&mut self, _: &mut B) {}

    #[inline(always)]
    unsafe fn pack(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        // SAFETY: the row exists, and `open`'s caller said that it is readable.
        unsafe { load::<E, WHOLE>(self.matrices[matrix].row(self.row + r), self.extent, pack) }
    }

    #[inline(always)]
    fn vector(&self, vector: usize, pack: usize) -> Pack {
        // SAFETY: `open`'s caller said that the vectors are readable.
        unsafe { load::<E, WHOLE>(self.vectors[vector], self.extent, pack) }
    }

    #[inline(always)]
    unsafe fn note(&self, r: usize) -> Pack {
        // SAFETY: the row exists, and `open`'s caller said that its note is readable.
        unsafe { arch::load_pack_unless(false, self.notes.add(self.row + r)) }
    }
}

/// Pack `pack` of the row at `row`.
///
/// # Safety
///
/// The row must be readable over `extent.columns`; whole packs and 16-byte aligned if WHOLE.
#[inline(always)]
unsafe fn load<E: Element, const WHOLE: bool>(row: *const E, extent: Extent, pack: usize) -> Pack {
    let valid = valid_lanes::<E>(extent.columns, pack);
    // SAFETY: only valid lanes are read.
    unsafe {
        let at = row.add(pack * E::LANES);
        if WHOLE { arch::load_pack_unless(valid == 0, at.cast()) } else { arch::gather(at, valid) }
    }
}

/// Stores the lanes of `value` that lie in the row as pack `pack` of the row at `row`.
///
/// # Safety
///
/// The row must be writable over `extent.columns`, this pack by this thread alone; whole packs and
/// 16-byte aligned if `whole`.
#[inline(always)]
pub unsafe fn store<E: Element>(
    row: *mut E,
    extent: Extent,
    whole: bool,
    pack: usize,
    value: E::Lanes,
) {
    let valid = valid_lanes::<E>(extent.columns, pack);
    let value = E::pack(value);
    // SAFETY: only valid lanes are written.
    unsafe {
        let at = row.add(pack * E::LANES);
        if whole {
            arch::store_pack_unless(valid == 0, at.cast(), value);
        } else {
            arch::scatter(at, value, valid);
        }
    }
}
