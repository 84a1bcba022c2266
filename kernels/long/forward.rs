//! Forward of split rows. The formulae, and the promises of the callers, are those of
//! [`crate::forward`]; rows may be of any alignment and any number of columns.

use super::{CHUNK_PACKS as V, Chunk, each_piece, gather_row};
use crate::Block;
use crate::args::{ForwardArgs, RowStats};
use crate::element::{Element, Pack, Params};
use crate::forward::{add_packs, normalise_pack, spread_of, total, weights};
use crate::memory::{self, valid_lanes};
use crate::moments::Moments;
use crate::real::Real;

/// Where the chunks leave their sums: those of [`sums`], and those of [`spread`].
#[inline(always)]
fn parts<T>(args: &ForwardArgs) -> [*mut T; 2] {
    let first = args.parts.cast::<T>();
    [first, first.wrapping_add(4 * args.extent.rows * args.extent.chunks.get())]
}

/// Sums x over each chunk, after adding (and storing) the residual if there is one.
///
/// # Safety
///
/// As for [`crate::forward::rows`], and `args.parts` is writable as [`ForwardArgs`] says, with
/// chunks of [`super::CHUNK_PACKS`] packs a thread.
#[inline(always)]
pub unsafe fn sums<B: Block, E: Element>(block: &mut B, args: &ForwardArgs) {
    let [parts, _] = parts::<E::Real>(args);
    Chunk::each::<B, E>(block, &args.extent, |block, chunk| {
        let threads = block.threads();
        let mut none = block.state(|_| ());
        let [[sum]] = block.sum(&mut none, |thread, _| {
            let pack = |v| v * threads + thread;
            // SAFETY: the chunk exists; each thread stores its own packs.
            unsafe {
                let mut x = chunk.load(args.x.row::<E>(chunk.row), pack);
                if !args.residual.ptr.is_null() {
                    let residual = chunk.load(args.residual.row::<E>(chunk.row), pack);
                    let sum = args.sum.row::<E>(chunk.row);
                    let (whole, sum) = (chunk.whole(sum), sum.add(chunk.start));
                    for v in 0..V {
                        x[v] = add_packs::<E>(x[v], residual[v]);
                        memory::store(whole, sum, chunk.columns, pack(v), x[v]);
                    }
                }
                [[total::<E, V>(&x)]]
            }
        });
        let four = [sum, E::Real::ZERO, E::Real::ZERO, E::Real::ZERO];
        // SAFETY: this chunk's numbers, stored by this block alone.
        block.leader(|| unsafe { memory::store_four(parts, chunk.index, four) });
    });
}

/// Each row's rough mean, into its statistics.
///
/// # Safety
///
/// As for [`sums`], which has been launched before.
#[inline(always)]
pub unsafe fn mean<B: Block, T: Real>(block: &mut B, args: &ForwardArgs) {
    let moments = Moments::<T>::new(args);
    let [parts, _] = parts::<T>(args);
    each_piece(block, args.extent.rows, |block, row| {
        // SAFETY: `sums` has been launched.
        let [sum, ..] = unsafe { gather_row(block, &args.extent, parts, row) };
        let stats = RowStats { mean: moments.mean(sum), ..RowStats::default() };
        // SAFETY: the row is this block's alone.
        block.leader(|| unsafe { stats.store(args.stats, row) });
    });
}

/// The sums of the distances to the rough mean, and of their squares, over each chunk: as they are,
/// and scaled, for rows whose squares overflow.
///
/// # Safety
///
/// As for [`sums`]; it and [`mean`] have been launched before.
#[inline(always)]
pub unsafe fn spread<B: Block, E: Element>(block: &mut B, args: &ForwardArgs) {
    let [_, parts] = parts::<E::Real>(args);
    Chunk::each::<B, E>(block, &args.extent, |block, chunk| {
        let threads = block.threads();
        // SAFETY: `mean` has been launched.
        let rough = unsafe { RowStats::<E::Real>::load(args.stats, chunk.row).mean };
        let mut none = block.state(|_| ());
        let [four] = block.sum(&mut none, |thread, _| {
            let pack = |v| v * threads + thread;
            // SAFETY: the chunk exists.
            let x = unsafe { chunk.load(normalised::<E>(args, chunk.row), pack) };
            let valid = |v| valid_lanes::<E>(chunk.columns, pack(v));
            let [sd, sdd] = spread_of::<E, V>(&x, valid, false, rough, E::Real::ONE);
            let [small_sd, small_sdd] = spread_of::<E, V>(&x, valid, false, rough, E::Real::SMALL);
            [[sd, sdd, small_sd, small_sdd]]
        });
        // SAFETY: this chunk's numbers, stored by this block alone.
        block.leader(|| unsafe { memory::store_four(parts, chunk.index, four) });
    });
}

/// Each row's statistics.
///
/// # Safety
///
/// As for [`sums`]; it, [`mean`] and [`spread`] have been launched before.
#[inline(always)]
pub unsafe fn stats<B: Block, T: Real>(block: &mut B, args: &ForwardArgs) {
    let moments = Moments::<T>::new(args);
    let [_, parts] = parts::<T>(args);
    each_piece(block, args.extent.rows, |block, row| {
        // SAFETY: `spread` has been launched.
        let [sd, sdd, small_sd, small_sdd] = unsafe { gather_row(block, &args.extent, parts, row) };
        block.leader(|| {
            // SAFETY: `mean` has been launched; the row is this block's alone, and thread 0 is the
            // one that reads and writes it.
            unsafe {
                let rough = RowStats::<T>::load(args.stats, row).mean;
                let stats = if sdd.finite() {
                    moments.stats(rough, [sd, sdd], T::ONE, true)
                } else {
                    moments.stats(rough, [small_sd, small_sdd], T::SMALL, true)
                };
                stats.store(args.stats, row);
            }
        });
    });
}

/// y.
///
/// # Safety
///
/// As for [`sums`]; it and all between have been launched before.
#[inline(always)]
pub unsafe fn normalise<B: Block, E: Element, P: Params<E>>(block: &mut B, args: &ForwardArgs) {
    let weight_offset = E::Real::of(args.weight_offset);
    Chunk::each::<B, E>(block, &args.extent, |block, chunk| {
        // SAFETY: `stats` has been launched.
        let stats = unsafe { RowStats::load(args.stats, chunk.row) };
        let threads = block.threads();
        let mut none = block.state(|_| ());
        block.each(&mut none, |thread, _| {
            let pack = |v| v * threads + thread;
            // SAFETY: the chunk exists; each thread stores its own packs.
            unsafe {
                let x: [Pack; V] = chunk.load(normalised::<E>(args, chunk.row), pack);
                let y = args.y.row::<E>(chunk.row);
                let (whole, y) = (chunk.whole(y), y.add(chunk.start));
                for v in 0..V {
                    let w = weights::<E>(chunk.params::<E, P>(args.w, pack(v)), weight_offset);
                    let b = chunk.params::<E, P>(args.b, pack(v));
                    let value = normalise_pack::<E>(x[v], stats, w, b);
                    memory::store(whole, y, chunk.columns, pack(v), value);
                }
            }
        });
    });
}

/// Row `row` of what is normalised: of the stored sum, where there is a residual.
///
/// # Safety
///
/// The row must exist.
#[inline(always)]
unsafe fn normalised<E>(args: &ForwardArgs, row: usize) -> *const E {
    // SAFETY: the caller's promise.
    unsafe { if args.sum.ptr.is_null() { args.x.row(row) } else { args.sum.row(row) } }
}
