//! How tiles are asked for.

use cuda_std::{bulk, thread};

use super::Ring;
use crate::block::WARP;
use crate::{Element, Pack, Params};

impl<E, P, const T: usize, const C: usize, const WHOLE: bool, const VECTORS: bool>
    Ring<E, P, T, C, WHOLE, VECTORS>
where
    E: Element,
    P: Params<E>,
{
    /// Asks for the tile `tiles` after the present one. The first lanes of the warps share its rows
    /// out: one lane would ask for them one by one, and the others wait for it. (Copies may complete
    /// before the mbarrier is told to expect them: it completes no phase before that arrival.)
    #[inline(always)]
    pub(super) fn ask(&self, tiles: u32) {
        // Opaque: what follows from it is needed here alone, and shall take no registers elsewhere.
        let thread = thread::opaque(thread::thread_idx_x() as usize) as u32;
        if thread % WARP as u32 == 0 {
            self.ask_share(tiles, thread / WARP as u32, thread::block_dim_x() / WARP as u32);
        }
    }

    /// What the first lane of warp `warp` of `warps` asks for of the tile `tiles` after the present
    /// one, if there is such a tile, into the slot whose turn it is.
    #[inline(always)]
    pub(super) fn ask_share(&self, tiles: u32, warp: u32, warps: u32) {
        let (first, end) = self.ahead(tiles);
        if first >= end {
            return;
        }
        let live = (end - first).min(self.rows_per_tile);
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
                next += warps;
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
}
