//! A feed of the CPU.

use core::ffi::c_void;
use core::hint::assert_unchecked;

use super::cpu_memory::prefetch;
use crate::Block;
use crate::args::{Extent, RowStats, Rows};
use crate::element::{Element, Pack, Params};
use crate::feed::{Direct, Feed};
use crate::memory::valid_lanes;

/// As [`Direct`], at any alignment: WHOLE for rows of whole packs, and FULL for rows of as many whole
/// packs as the block holds. Every pack is then there, which the compiler is told: its loops have no
/// branches.
pub struct CpuFeed<const T: usize, const C: usize, const WHOLE: bool, const FULL: bool> {
    direct: Direct<T, C, WHOLE>,
    /// The rows that this OS thread is to read after the present ones, if there are any.
    ahead: [*const Pack; T],
}

impl<const T: usize, const C: usize, const WHOLE: bool, const FULL: bool>
    CpuFeed<T, C, WHOLE, FULL>
{
    /// What holds of pack `pack`, which is about to be read. Its like ahead is fetched meanwhile: rows
    /// lie on pages of their own, which the processor's own prefetching stops at.
    #[inline(always)]
    fn reads<E: Element>(&self, matrix: usize, pack: usize) {
        self.knows::<E>(pack);
        prefetch(self.ahead[matrix].wrapping_add(pack));
    }

    #[inline(always)]
    fn knows<E: Element>(&self, pack: usize) {
        // SAFETY: a body asks for packs that its block holds, and rows have as many.
        unsafe {
            assert_unchecked(!FULL || valid_lanes::<E>(self.direct.extent.columns, pack) != 0)
        };
    }
}

impl<B, E, P, const T: usize, const C: usize, const WHOLE: bool, const FULL: bool>
    Feed<B, E, P, T, C> for CpuFeed<T, C, WHOLE, FULL>
where
    B: Block,
    E: Element,
    P: Params<E>,
{
    const WHOLE_PACKS: bool = WHOLE;
    const PLAIN_ONLY: bool = false;
    const ASK_FIRST: bool = false;

    #[inline(always)]
    unsafe fn open(
        block: &mut B,
        extent: Extent,
        rows_per_tile: usize,
        matrices: [Rows; T],
        vectors: [*const c_void; C],
        stats: *const c_void,
    ) -> Self {
        // SAFETY: the caller's promises.
        let direct = unsafe {
            <Direct<T, C, WHOLE> as Feed<B, E, P, T, C>>::open(
                block,
                extent,
                rows_per_tile,
                matrices,
                vectors,
                stats,
            )
        };
        CpuFeed { direct, ahead: [core::ptr::null(); T] }
    }

    #[inline(always)]
    fn next(&mut self, block: &mut B) -> Option<usize> {
        let first = Feed::<B, E, P, T, C>::next(&mut self.direct, block)?;
        // The block's next tile, or else the next block's first.
        let Direct { extent, rows_per_tile, matrices, .. } = self.direct;
        let next = [first + block.grid() * rows_per_tile, (block.index() + 1) * rows_per_tile];
        let row = next.into_iter().find(|row| *row < extent.rows).unwrap_or(first);
        // SAFETY: the row exists.
        self.ahead = matrices.map(|matrix| unsafe { matrix.row::<E>(row) }.cast());
        Some(first)
    }

    #[inline(always)]
    fn recycle(&mut self, _: &mut B) {}

    #[inline(always)]
    unsafe fn pack(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        self.reads::<E>(matrix, pack);
        // SAFETY: the caller's promises.
        unsafe { Feed::<B, E, P, T, C>::pack(&self.direct, matrix, r, pack) }
    }

    #[inline(always)]
    fn pack_or_zero(&self, matrix: usize, r: usize, pack: usize) -> Pack {
        self.reads::<E>(matrix, pack);
        Feed::<B, E, P, T, C>::pack_or_zero(&self.direct, matrix, r, pack)
    }

    #[inline(always)]
    fn vector(&self, vector: usize, pack: usize) -> E::Lanes {
        self.knows::<E>(pack);
        Feed::<B, E, P, T, C>::vector(&self.direct, vector, pack)
    }

    #[inline(always)]
    unsafe fn stats(&self, r: usize) -> RowStats<E::Real> {
        // SAFETY: the caller's promise.
        unsafe { Feed::<B, E, P, T, C>::stats(&self.direct, r) }
    }
}
