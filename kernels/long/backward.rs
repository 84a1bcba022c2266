//! Stage 1 of backward of split rows. The formulae, and the promises of the callers, are those of
//! [`crate::backward`]; rows may be of any alignment and any number of columns.

use super::{CHUNK_PACKS as V, Chunk, each_piece, gather_row};
use crate::args::{BackwardArgs, RowStats, Rows};
use crate::backward::{Gradient, Terms, dots as dots_of, gradient_to_group};
use crate::element::{Element, Params};
use crate::moments::Hat;
use crate::real::Real;
use crate::{Block, arch, memory};

/// The sums of c1 and c2 over each chunk.
///
/// # Safety
///
/// As for [`crate::backward::rows`], and `args.parts` is writable as [`BackwardArgs`] says, with
/// chunks of [`super::CHUNK_PACKS`] packs a thread.
#[inline(always)]
pub unsafe fn dots<B: Block, E: Element, P: Params<E>>(block: &mut B, args: &BackwardArgs) {
    let terms = Terms::<E::Real>::new::<E>(args);
    let parts = args.parts.cast::<E::Real>();
    Chunk::each::<B, E>(block, &args.extent, |block, chunk| {
        // SAFETY: the row exists.
        let hat = Hat::new(unsafe { RowStats::load(args.stats, chunk.row) });
        let threads = block.threads();
        let mut none = block.state(|_| ());
        let [[c1, c2]] = block.sum(&mut none, |thread, _| {
            let pack = |v| v * threads + thread;
            // SAFETY: the chunk exists.
            let read = |_, pack| unsafe { chunk.rows::<E>(args, chunk.row, pack) };
            // SAFETY: as above.
            let w = |v| unsafe { chunk.params::<E, P>(args.w, pack(v)) };
            dots_of::<E, V, 1>(chunk.columns, |_| true, pack, read, w, [hat], &terms)
        });
        let four = [c1, c2, E::Real::ZERO, E::Real::ZERO];
        // SAFETY: this chunk's numbers, stored by this block alone.
        block.leader(|| unsafe { memory::store_four(parts, chunk.index, four) });
    });
}

/// Each row's c1 and c2, behind the numbers of all chunks.
///
/// # Safety
///
/// As for [`dots`], which has been launched before.
#[inline(always)]
pub unsafe fn means<B: Block, T: Real>(block: &mut B, args: &BackwardArgs) {
    let terms = Terms::<T>::new::<T>(args);
    let (parts, extent) = (args.parts.cast::<T>(), &args.extent);
    each_piece(block, extent.rows, |block, row| {
        // SAFETY: `dots` has been launched.
        let [c1, c2, ..] = unsafe { gather_row(block, extent, parts, row) };
        let [c1, c2] = terms.means([c1, c2]);
        let index = extent.rows * extent.chunks.get() + row;
        // SAFETY: this row's numbers, stored by this block alone.
        block.leader(|| unsafe { memory::store_four(parts, index, [c1, c2, T::ZERO, T::ZERO]) });
    });
}

/// dx, and the blocks' shares of dw and db. A block stays with a chunk, the number of the block
/// modulo the number of chunks, and goes over rows.
///
/// # Safety
///
/// As for [`crate::backward::rows`], with `chunks` chunks. The grid is a multiple of `chunks`.
/// [`dots`] and [`means`] have been launched before, if dx is asked for.
#[inline(always)]
pub unsafe fn apply<B: Block, E: Element, P: Params<E>>(block: &mut B, args: &BackwardArgs) {
    let terms = Terms::<E::Real>::new::<E>(args);
    let extent = args.extent;
    let (parts, chunks) = (args.parts.cast::<E::Real>(), extent.chunks);
    let (first, step) = (block.index() / chunks, block.grid() / chunks);
    let most = V * block.threads() * E::LANES;
    let chunk = Chunk::new(&extent, block.index() % chunks, most);
    // What is added and written, as if the chunk were all of the row.
    let mut piece = *args;
    piece.extent.columns = chunk.columns;
    for add in &mut piece.add {
        if !add.ptr.is_null() {
            add.ptr = add.ptr.cast::<E>().wrapping_add(chunk.start).cast();
        }
    }
    if terms.want_dx {
        piece.dx.ptr = piece.dx.ptr.cast::<E>().wrapping_add(chunk.start).cast();
    }
    let mut gradient = block.state(|_| Gradient::<E, V, 0>::ZERO);

    let mut row = first;
    while row < extent.rows {
        // SAFETY: the row exists.
        let hat = Hat::new(unsafe { RowStats::load(args.stats, row) });
        let [mut c1, mut c2] = [E::Real::ZERO; 2];
        if terms.want_dx {
            let index = extent.rows * chunks.get() + row;
            // SAFETY: `means` has been launched.
            [c1, c2, ..] = unsafe { memory::load_four(parts, index) };
        }
        // SAFETY: the row exists in what there is.
        let is_whole =
            |rows: Rows| rows.ptr.is_null() || chunk.whole(unsafe { rows.row::<E>(row) });
        let dx = Rows { ptr: piece.dx.ptr, stride: piece.dx.stride };
        let whole = is_whole(dx) && piece.add.into_iter().all(is_whole);
        let threads = block.threads();
        block.each(&mut gradient, |thread, gradient| {
            let pack = |v| v * threads + thread;
            // SAFETY: the chunk exists, and the row.
            let read = |_, pack| unsafe { chunk.rows::<E>(args, row, pack) };
            // SAFETY: as above.
            let w = |v| unsafe { chunk.params::<E, P>(args.w, pack(v)) };
            // SAFETY: as above; each thread stores its own packs.
            unsafe {
                let c = [[c1, c2]];
                gradient.rows(whole, &piece, row, |_| true, pack, read, w, [hat], c, &terms);
            }
        });
        row += step;
    }

    arch::let_next_start();
    let group = first as u32 % args.partials.groups;
    let slot = group as usize * chunks.get() + block.index() % chunks;
    // SAFETY: the caller's promises on the partials.
    unsafe { gradient_to_group(block, &mut gradient, args, slot) };
}
