//! Rows too long for a block to hold: a row is split into chunks, and each step of forward and
//! backward is a launch of its own.
//!
//! ```text
//! forward:   sums -> mean -> spread -> stats -> normalise
//! backward:  dots -> means -> apply                          (then stage 2, as for other rows)
//! ```
//!
//! A block of `sums`, `spread`, `normalise` and `dots` takes (row, chunk) pairs in turn; a block of
//! `mean`, `stats` and `means` takes rows, and adds up their chunks. So all of a device works on
//! however few rows. The chunk is a function of the storage type alone, and a row's chunks are
//! added up in one order: a row's results have the same bits in any batch and on any device.

use core::ffi::c_void;

use crate::args::{BackwardArgs, Extent};
use crate::element::{Element, Pack, Params};
use crate::real::{Real, two_sum};
use crate::{Block, arch, feed, memory};

pub mod backward;
pub mod forward;

/// Packs of a chunk per thread.
pub const CHUNK_PACKS: usize = 4;

/// A piece of a row.
#[derive(Clone, Copy)]
struct Chunk {
    row: usize,
    /// Its number among all chunks of all rows.
    index: usize,
    /// Its first column, and how many it has.
    start: usize,
    columns: usize,
}

impl Chunk {
    /// Chunk `index`, of chunks of `most` columns.
    #[inline(always)]
    fn new(extent: &Extent, index: usize, most: usize) -> Self {
        let (row, chunk) = (index / extent.chunks, index % extent.chunks);
        let start = chunk * most;
        Chunk { row, index, start, columns: extent.columns.saturating_sub(start).min(most) }
    }

    /// Runs `work` for each chunk of this block's share.
    #[inline(always)]
    fn each<B: Block, E: Element>(
        block: &mut B,
        extent: &Extent,
        mut work: impl FnMut(&mut B, Chunk),
    ) {
        let most = CHUNK_PACKS * block.threads() * E::LANES;
        each_piece(block, extent.rows * extent.chunks.get(), |block, index| {
            work(block, Chunk::new(extent, index, most));
        });
    }

    /// Whether the chunk of the row at `row` is whole packs on 16-byte boundaries.
    #[inline(always)]
    fn whole<E: Element>(self, row: *const E) -> bool {
        // Chunks before this one are whole.
        row.addr().is_multiple_of(16) && self.columns.is_multiple_of(E::LANES)
    }

    /// Packs `pack(0)` to `pack(CHUNK_PACKS - 1)` of the chunk of the row at `row`.
    ///
    /// # Safety
    ///
    /// The row must be readable over the chunk.
    #[inline(always)]
    unsafe fn load<E: Element>(
        self,
        row: *const E,
        pack: impl Fn(usize) -> usize,
    ) -> [Pack; CHUNK_PACKS] {
        let load = |whole| {
            // SAFETY: the caller's promise.
            arch::from_fn(|v| unsafe {
                memory::load(whole, row.add(self.start), self.columns, pack(v))
            })
        };
        if self.whole(row) { load(true) } else { load(false) }
    }

    /// Pack `pack` of the chunk of x and of dy, of row `row`.
    ///
    /// # Safety
    ///
    /// The chunk and the row must exist in `args`.
    #[inline(always)]
    unsafe fn rows<E: Element>(self, args: &BackwardArgs, row: usize, pack: usize) -> (Pack, Pack) {
        // SAFETY: the caller's promise.
        unsafe {
            let (x, dy) = (args.x.row::<E>(row), args.dy.row::<E>(row));
            let load = |row: *const E| {
                memory::load(self.whole(row), row.add(self.start), self.columns, pack)
            };
            (load(x), load(dy))
        }
    }

    /// The part of a vector that belongs to pack `pack` of the chunk; zeros if it is null.
    ///
    /// # Safety
    ///
    /// The vector must be null or readable over the chunk.
    #[inline(always)]
    unsafe fn params<E: Element, P: Params<E>>(
        self,
        vector: *const c_void,
        pack: usize,
    ) -> E::Lanes {
        let start = if vector.is_null() { 0 } else { self.start };
        // SAFETY: the caller's promise.
        unsafe {
            let vector = vector.cast::<P>().add(start).cast();
            feed::params::<E, P>(false, vector, self.columns, pack)
        }
    }
}

/// Runs `work` for each of this block's share of `count` pieces.
#[inline(always)]
fn each_piece<B: Block>(block: &mut B, count: usize, mut work: impl FnMut(&mut B, usize)) {
    let mut index = block.index();
    while index < count {
        work(block, index);
        index += block.grid();
    }
}

/// Adds up the numbers that the chunks of row `row` have left in `parts`, each of the four by
/// itself: thread t takes chunks t, t + threads, …, and carries along what rounding leaves (Knuth's
/// two-sum), as there may be many.
///
/// # Safety
///
/// `parts` must hold four numbers for every chunk of the row, from an earlier launch.
#[inline(always)]
unsafe fn gather_row<B: Block, T: Real>(
    block: &mut B,
    extent: &Extent,
    parts: *const T,
    row: usize,
) -> [T; 4] {
    let (threads, chunks) = (block.threads(), extent.chunks.get());
    let mut none = block.state(|_| ());
    let [sums, rests] = block.sum(&mut none, |thread, _| {
        let (mut sums, mut rests) = ([T::ZERO; 4], [T::ZERO; 4]);
        let mut chunk = thread;
        while chunk < chunks {
            // SAFETY: the caller's promise.
            let four = unsafe { memory::load_four(parts, row * chunks + chunk) };
            for i in 0..4 {
                let (sum, lost) = two_sum(sums[i], four[i]);
                sums[i] = sum;
                rests[i] += lost;
            }
            chunk += threads;
        }
        [sums, rests]
    });
    let mut total = sums;
    for i in 0..4 {
        // A sum that is not finite has no rest.
        if sums[i].finite() {
            total[i] += rests[i];
        }
    }
    total
}
