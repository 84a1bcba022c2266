//! How rows reach a block.
//!
//! A block takes tiles of R rows: tile `block`, then `block + grid`, and so on, the seed's
//! interleaved assignment. ([`Share`]: in forward through a ring, the last blocks of the grid so share
//! the last tiles.) A [`Feed`] gives it the packs of those rows. There are two:
//!
//! - [`Direct`] reads global memory where the body asks. It works on any architecture, is within the
//!   only feed of the CPU (`arch/cpu_feed.rs`), and comes in two kinds: for rows of whole packs that
//!   start on 16-byte boundaries, and for any rows.
//! - `Ring` (sm_90, `arch/ring.rs`) has the copy engine bring tiles into shared memory ahead of
//!   time, several at once, and costs no registers for it. It comes in the same two kinds; the work
//!   must be plain ([`Feed::PLAIN_ONLY`]).
//!
//! The values are the same, so the results are too.

use core::ffi::c_void;

use crate::args::{Extent, Late, RowStats, Rows};
use crate::element::{Element, Lanes, Pack, Params};
use crate::real::Real;
use crate::{Block, arch, memory};

/// T matrices of E read tile by tile, and C vectors (N) of P that stay at hand.
///
/// Optionally each row comes with its saved statistics ([`Feed::stats`]).
pub trait Feed<B: Block, E: Element, P: Params<E>, const T: usize, const C: usize>: Sized {
    /// Whether rows are whole packs on 16-byte boundaries: a pack is then all there or absent.
    const WHOLE_PACKS: bool;
    /// Whether it feeds plain work alone: no residual, no weight offset; dx asked for, and added to
    /// nothing. What options take is then not compiled at all, and vector 0, the weight, is given as
    /// ones if it is null.
    const PLAIN_ONLY: bool;
    /// Whether a tile's packs are far away, in a GPU's global memory: a body then asks for all of them
    /// before it waits for any.
    const ASK_FIRST: bool;

    /// Opens the feed for this block; `vectors` and `stats` may be null.
    ///
    /// # Safety
    ///
    /// The matrices must be readable over `extent`, the vectors (those not null) over its columns,
    /// `stats` (if not null) over its rows; of what is read, the launch overwrites a matrix's rows
    /// alone, each after its last reading. Every block opens one feed.
    unsafe fn open(
        block: &mut B,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows; T],
        vectors: [*const c_void; C],
        stats: *const c_void,
    ) -> Self;

    /// Moves to the next tile and gives its first row; `None` after the block's last tile.
    fn next(&mut self, block: &mut B) -> Option<usize>;

    /// Lets memory be filled again: called once in each tile, after a collective that follows the
    /// last reading of the tile before, and of the present one where there is but one matrix.
    fn recycle(&mut self, block: &mut B);

    /// Pack `pack` of row `r` of the tile, of matrix `matrix`; lanes past the row's end are zero.
    ///
    /// # Safety
    ///
    /// Row `r` of the tile must exist, and some lane of the pack.
    unsafe fn pack(&self, matrix: usize, r: usize, pack: usize) -> Pack;

    /// As [`Feed::pack`], or zeros where there is none, without a branch: what a body does with one
    /// row can be mixed with what it does with the next.
    fn pack_or_zero(&self, matrix: usize, r: usize, pack: usize) -> Pack;

    /// The part of vector `vector` that belongs to pack `pack`; if it is null, zeros, or what
    /// [`Feed::PLAIN_ONLY`] says. Where there is but one matrix, only to be asked after
    /// [`Feed::recycle`], so that the first tile does not wait for the vectors.
    fn vector(&self, vector: usize, pack: usize) -> E::Lanes;

    /// The statistics of row `r` of the tile; zeros past the last row.
    ///
    /// # Safety
    ///
    /// The feed must have been opened with statistics.
    unsafe fn stats(&self, r: usize) -> RowStats<E::Real>;
}

/// Where things lie in the dynamic shared memory of a block that reads through a ring. The planner
/// asks for as much, and the kernel uses it so:
///
/// ```text
/// [ mbarriers: the vectors', one per slot | vectors | slot 0 | slot 1 | … ]
/// slot = [ matrix 0: R rows | … | matrix T-1: R rows | statistics: R x 16 bytes ]
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RingLayout {
    /// Offset of slot 0.
    pub slots: u32,
    /// Bytes of a slot, which holds a tile.
    pub slot_bytes: u32,
}

impl RingLayout {
    /// Offset of the first vector: before it is room for 16 mbarriers.
    pub const VECTORS: u32 = 128;

    /// For tiles of R rows, one each `pitch` bytes, and vectors of `vector_bytes`.
    #[inline(always)]
    pub const fn new(
        matrices: usize,
        vectors: usize,
        stats: bool,
        rows_per_tile: usize,
        pitch: u32,
        vector_bytes: u32,
    ) -> Self {
        let stats_bytes = if stats { 16 } else { 0 };
        RingLayout {
            slots: Self::VECTORS + vectors as u32 * vector_bytes,
            slot_bytes: rows_per_tile as u32 * (matrices as u32 * pitch + stats_bytes),
        }
    }

    /// Bytes from one row of `row_bytes` in a slot to the next. Rows that are not whole, aligned packs
    /// may lie in one 16-byte granule more than they have packs.
    #[inline(always)]
    pub const fn pitch(whole: bool, row_bytes: u32) -> u32 {
        if whole { row_bytes } else { row_bytes.next_multiple_of(16) + 16 }
    }

    /// Bytes of a vector of P beside rows of `row_bytes`, in whole packs.
    #[inline(always)]
    pub const fn vector_bytes(row_bytes: u32, packs: usize) -> u32 {
        row_bytes.next_multiple_of(16) * packs as u32
    }
}

/// Reads global memory where the body asks; WHOLE is [`Feed::WHOLE_PACKS`].
pub struct Direct<const T: usize, const C: usize, const WHOLE: bool> {
    pub(crate) extent: Extent,
    pub(crate) rows_per_tile: usize,
    /// First row of the present tile, and of the next.
    row: usize,
    next: usize,
    pub(crate) matrices: [Rows; T],
    vectors: [*const c_void; C],
    stats: *const c_void,
}

impl<B, E, P, const T: usize, const C: usize, const WHOLE: bool> Feed<B, E, P, T, C>
    for Direct<T, C, WHOLE>
where
    B: Block,
    E: Element,
    P: Params<E>,
{
    const WHOLE_PACKS: bool = WHOLE;
    const PLAIN_ONLY: bool = false;
    // Not tried for rows of any kind.
    const ASK_FIRST: bool = WHOLE;

    #[inline(always)]
    unsafe fn open(
        block: &mut B,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows; T],
        vectors: [*const c_void; C],
        stats: *const c_void,
    ) -> Self {
        let next = block.index() * rows_per_tile;
        Direct { extent, rows_per_tile, row: next, next, matrices, vectors, stats }
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
        unsafe {
            let row = self.matrices[matrix].row::<E>(self.row + r);
            memory::load(WHOLE, row, self.extent.columns, pack)
        }
    }

    #[inline(always)]
    fn pack_or_zero(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        // No columns, no access.
        let (row, columns) = match live(self.extent, self.row, r) {
            true => (self.row + r, self.extent.columns),
            false => (self.row, 0),
        };
        // SAFETY: the row exists, and `open`'s caller said that it is readable.
        unsafe { memory::load(WHOLE, self.matrices[matrix].row::<E>(row), columns, pack) }
    }

    #[inline(always)]
    fn vector(&self, vector: usize, pack: usize) -> E::Lanes {
        let (at, columns) = (self.vectors[vector], self.extent.columns);
        // SAFETY: `open`'s caller said that the vectors are readable.
        unsafe { params::<E, P>(WHOLE, at, columns, pack) }
    }

    #[inline(always)]
    unsafe fn stats(&self, r: usize) -> RowStats<E::Real> {
        if !live(self.extent, self.row, r) {
            return RowStats::default();
        }
        // SAFETY: the row exists, and `open`'s caller said that its statistics are readable.
        unsafe { RowStats::load(self.stats, self.row + r) }
    }
}

/// The tiles of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// First row of the first tile.
    pub first: usize,
    /// The rows end before this one.
    pub end: usize,
    /// From one tile to the next.
    pub step: u32,
}

impl Share {
    /// Of block `block` of `grid`: a share of the late rows, if it is one of the late blocks, or else
    /// of those before them.
    #[inline(always)]
    pub fn new(block: u32, grid: u32, rows_per_tile: usize, rows: usize, late: Late) -> Self {
        let early = grid - late.blocks;
        let (start, number, end, step) = if block < early {
            (0, block, rows.min(late.first_row), early)
        } else {
            (late.first_row, block - early, rows, late.blocks)
        };
        Share { first: start + number as usize * rows_per_tile, end, step }
    }
}

/// Whether row `r` of the tile that begins with row `first` exists. The first of a tile does.
#[inline(always)]
pub fn live(extent: Extent, first: usize, r: usize) -> bool {
    r == 0 || first + r < extent.rows
}

/// An absent weight, where work is plain ([`Feed::PLAIN_ONLY`]).
#[inline(always)]
pub fn ones<E: Element>() -> E::Lanes {
    let mut lanes = E::Lanes::ZERO;
    for l in 0..E::LANES {
        lanes[l] = E::Real::ONE;
    }
    lanes
}

/// The part of a vector of P that belongs to pack `pack` of a row of E; zeros if it is null.
///
/// # Safety
///
/// The vector must be null or readable over `columns`; 16-byte aligned if `whole`.
#[inline(always)]
pub unsafe fn params<E: Element, P: Params<E>>(
    whole: bool,
    vector: *const c_void,
    columns: usize,
    pack: usize,
) -> E::Lanes {
    // SAFETY: the caller's promise.
    P::widen(unsafe { param_packs::<E, P>(whole, vector, columns, pack) })
}

/// As [`params`], before they are widened: in fewer registers.
///
/// # Safety
///
/// As for [`params`].
#[inline(always)]
pub unsafe fn param_packs<E: Element, P: Params<E>>(
    whole: bool,
    vector: *const c_void,
    columns: usize,
    pack: usize,
) -> [Pack; 2] {
    // No columns, no access: a predicate on the loads, and no branch around them.
    let columns = if vector.is_null() { 0 } else { columns };
    let mut packs = [Pack::default(); 2];
    for i in 0..P::PACKS {
        // SAFETY: the caller's promise.
        packs[i] =
            unsafe { memory::gather::<P>(whole, vector.cast(), columns, pack * P::PACKS + i) };
    }
    packs
}
