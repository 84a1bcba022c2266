//! Forward: one row to its mean, its rstd and y.
//!
//! ```text
//! mean = sum(x) / N                     (RMSNorm: 0)
//! var  = sum((x - mean)^2) / N
//! rstd = 1 / sqrt(var + eps)
//! y    = (x - mean) * rstd * (w + weight_offset) + b
//! ```
//!
//! For each tile of R rows, held in registers as V packs per thread:
//!
//! ```text
//! m = the mean of the row's first 8 or 16 elements
//! pass 1:  load x (and add the residual);  d = x - m;  sd = sum(d), sdd = sum(d * d)
//!          lo = sd / N;  var = (sdd - sd * lo) / N;  mean + mean_lo = m + lo     (one collective)
//! again, if the row needs it: from a better m, or scaled
//! pass 2:  y = fma(x_hat, w, b), x_hat = (x - mean - mean_lo) * (rstd + rstd_lo)
//! ```
//!
//! Departures from the formulae:
//!
//! 1. Deviations are taken from `m`, which needs no collective, and the variance and the mean are
//!    corrected by what it is off (the shifted data algorithm of Chan, Golub and LeVeque 1983).
//!    `sdd` then loses a factor of 1 + (m - mean)^2 / var of its accuracy; a row where that is more
//!    than 1 + [`crate::moments::FAR`] is gone over again from the mean that the first time found. (Then it is
//!    their corrected two-pass algorithm.)
//! 2. mean is kept in two parts, and x_hat has no error from it: an f32 row of mean 1e4 and spread
//!    1e-3 is right to 1e-6, where one f32 mean alone is wrong by 9e-2. `mean` is the number nearest
//!    to the mean: `x - mean` is exact for x near it, and a constant row gives x_hat = 0 exactly.
//!    rstd is kept in two parts too: rows that are alike would else all be off the same way, and
//!    their dw with them. (f32 and f64: the rounding of 16-bit results hides it.)
//! 3. The mean is never folded into the bias: `x * rstd + (b - mean * rstd)` would cancel.
//! 4. Where the squares of a row overflow, it is gone over again scaled by a power of two; the
//!    other rows of its tile get the same sums again.
//! 5. x + residual is rounded to the storage type, stored, and that is normalised: the same bits
//!    as an addition in a kernel of its own.

pub mod row;

use crate::arch::{self, Number};
use crate::args::{Extent, ForwardArgs, RowStats};
use crate::element::{Element, Lanes, Pack, Params};
use crate::feed::live;
use crate::memory::{self, none_to_store, valid_lanes};
use crate::moments::{Hat, Moments, fine};
use crate::real::Real;
use crate::{Block, Feed};

/// The forward kernel: V packs per thread and row, R rows per tile.
///
/// # Safety
///
/// - `args.x`, `args.residual` readable and `args.y`, `args.sum` writable over (rows, columns);
///   `w`, `b` readable over columns; `stats` writable over rows; each may be null where
///   [`ForwardArgs`] says that it is optional. x and what is written are of E, w and b of P.
/// - What is written overlaps nothing else, except that `y` or `sum` may be `x` or `residual`
///   itself: the same pointer and stride.
/// - 1 <= `columns`, at most V * `block.threads()` packs; rows and work as F asks, `chunks` = 1.
/// - Every block of the grid runs this with the same arguments.
#[inline(always)]
pub unsafe fn rows<B, F, E, P, const V: usize, const R: usize>(block: &mut B, args: &ForwardArgs)
where
    B: Block,
    F: Feed<B, E, P, 1, 2>,
    E: Element,
    P: Params<E>,
{
    let extent = args.extent;
    let moments = Moments::<E::Real>::new(args);
    // SAFETY: the caller's promises on x, w and b.
    let mut feed =
        unsafe { F::open(block, extent, R, [args.x], [args.w, args.b], core::ptr::null()) };
    let mut tile = block.state(|_| [[Pack::default(); V]; R]);

    while let Some(first) = feed.next(block) {
        let live = |r| live(extent, first, r);
        let plain = F::PLAIN_ONLY || args.residual.ptr.is_null();

        if F::ASK_FIRST {
            let threads = block.threads();
            block.each(&mut tile, |thread, x| {
                for r in 0..R {
                    let pack = |v| v * threads + thread;
                    x[r] = arch::from_fn(|v| feed.pack_or_zero(0, r, pack(v)));
                    if !plain && live(r) {
                        // SAFETY: row first + r is live.
                        let more: [_; V] = arch::from_fn(|v| unsafe {
                            residual::<E>(F::WHOLE_PACKS, args, first + r, pack(v))
                        });
                        x[r] = arch::from_fn(|v| add_packs::<E>(x[r][v], more[v]));
                    }
                }
            });
        }
        let last = last_whole_pack::<E>(extent.columns);
        let mut rough: [_; R] = arch::from_fn(|r| {
            moments.rough::<E>(|pack| {
                let pack = pack.min(last);
                let mut x = feed.pack_or_zero(0, r, pack);
                if !plain && live(r) {
                    // SAFETY: row first + r is live.
                    let more = unsafe { residual::<E>(F::WHOLE_PACKS, args, first + r, pack) };
                    x = add_packs::<E>(x, more);
                }
                x
            })
        });
        if !plain {
            // All have read the first packs before the sums are stored, which may be over them.
            block.barrier();
        }
        let mut scale = [E::Real::ONE; R];
        let valid = |pack| valid_lanes::<E>(extent.columns, pack);
        let spread = |thread: usize, threads: usize, x: &mut [Pack; V], rough, scale| {
            let valid = |v| valid(v * threads + thread);
            let sums = spread_of::<E, V>(x, valid, F::WHOLE_PACKS, rough, scale);
            if F::ASK_FIRST {
                *x = arch::from_fn(|v| arch::opaque_pack(x[v]));
            }
            sums
        };

        let threads = block.threads();
        let mut sums = block.sum(&mut tile, |thread, x| {
            let pack = |v| v * threads + thread;
            let mut sums = [[E::Real::ZERO; 2]; R];
            for r in 0..R {
                for v in if F::ASK_FIRST { V } else { 0 }..V {
                    // Here too a branch per pack, where one is loaded in two parts.
                    let branch = V == 8 && !F::WHOLE_PACKS && !F::PLAIN_ONLY;
                    x[r][v] = if branch && none_to_store::<E>(false, extent.columns, pack(v)) {
                        Pack::default()
                    } else {
                        feed.pack_or_zero(0, r, pack(v))
                    };
                }
                if !plain && live(r) {
                    // SAFETY: row first + r is live; each thread stores its own packs.
                    unsafe {
                        if F::ASK_FIRST {
                            let sum = args.sum.row::<E>(first + r);
                            for v in 0..V {
                                memory::store(
                                    F::WHOLE_PACKS,
                                    sum,
                                    extent.columns,
                                    pack(v),
                                    x[r][v],
                                );
                            }
                        } else {
                            add::<E, V>(F::WHOLE_PACKS, args, first + r, &mut x[r], pack);
                        }
                    }
                }
                sums[r] = spread(thread, threads, &mut x[r], rough[r], scale[r]);
            }
            sums
        });
        feed.recycle(block);
        // Opaque: one copy of the loop's body is enough.
        let mut passes = arch::opaque(MAX_PASSES);
        while passes > 1 && moments.again(&mut rough, &mut scale, &sums) {
            let threads = block.threads();
            sums = block.sum(&mut tile, |thread, x| {
                let mut sums = [[E::Real::ZERO; 2]; R];
                for r in 0..R {
                    sums[r] = spread(thread, threads, &mut x[r], rough[r], scale[r]);
                }
                sums
            });
            passes -= 1;
        }
        let mut stats = [RowStats::default(); R];
        for r in 0..R {
            stats[r] = moments.stats(rough[r], sums[r], scale[r], fine::<E>());
        }

        let threads = block.threads();
        block.each(&mut tile, |thread, x| {
            let store = |offset: E::Real| {
                for v in 0..V {
                    let pack = v * threads + thread;
                    // A branch per pack keeps ptxas from loading w and b of all at once, for which
                    // there are no registers.
                    if !F::PLAIN_ONLY
                        && V == 8
                        && none_to_store::<E>(F::WHOLE_PACKS, extent.columns, pack)
                    {
                        continue;
                    }
                    let (w, b) = (feed.vector(0, pack), feed.vector(1, pack));
                    let w = weights::<E>(w, offset);
                    for r in 0..R {
                        let y = normalise_pack::<E>(x[r][v], stats[r], w, b);
                        // SAFETY: each thread stores its own packs of live rows.
                        unsafe {
                            let (row, columns) = row_to_store(extent, first, r);
                            memory::store(F::WHOLE_PACKS, args.y.row::<E>(row), columns, pack, y);
                        }
                    }
                }
            };
            // Compiled once more for no offset: a branch in the inner loop would cost more.
            let offset = moments.weight_offset;
            if F::PLAIN_ONLY || F::WHOLE_PACKS && offset == E::Real::ZERO {
                store(E::Real::ZERO);
            } else {
                store(offset);
            }
        });
        block.leader(|| {
            for r in 0..R {
                if live(r) {
                    // SAFETY: row first + r is live, and this block's alone.
                    unsafe { stats[r].store(args.stats, first + r) };
                }
            }
        });
    }
}

/// The last of a row's packs that has all its lanes, or else the first.
#[inline(always)]
fn last_whole_pack<E: Element>(columns: usize) -> usize {
    (columns / E::LANES).saturating_sub(1)
}

/// Where row `r` of a tile is to be stored, and how many columns of it: none past the last row.
#[inline(always)]
pub(crate) fn row_to_store(extent: Extent, first: usize, r: usize) -> (usize, usize) {
    if live(extent, first, r) { (first + r, extent.columns) } else { (first, 0) }
}

/// A row is gone over so often at most: from a better mean, and scaled.
const MAX_PASSES: usize = 3;

/// Adds the residual to a thread's packs of row `row` of x, and stores their sums.
///
/// # Safety
///
/// The row must exist in `args`, whole and aligned if `whole`, and its packs `pack(0)` to
/// `pack(V - 1)` be this thread's.
#[inline(always)]
unsafe fn add<E: Element, const V: usize>(
    whole: bool,
    args: &ForwardArgs,
    row: usize,
    x: &mut [Pack; V],
    pack: impl Fn(usize) -> usize,
) {
    let columns = args.extent.columns;
    // SAFETY: the row exists.
    let sum = unsafe { args.sum.row::<E>(row) };
    // Loads two at a time, so that their latencies overlap: more would take registers from all.
    for first in (0..V).step_by(2) {
        let mut more = [Pack::default(); 2];
        for i in 0..2.min(V - first) {
            // SAFETY: the caller's promise.
            more[i] = unsafe { residual::<E>(whole, args, row, pack(first + i)) };
        }
        for i in 0..2.min(V - first) {
            let v = first + i;
            x[v] = add_packs::<E>(x[v], more[i]);
            // SAFETY: the caller's promise.
            unsafe { memory::store(whole, sum, columns, pack(v), x[v]) };
        }
    }
}

/// Pack `pack` of row `row` of the residual.
///
/// # Safety
///
/// The row must exist in `args`, whole and aligned if `whole`.
#[inline(always)]
unsafe fn residual<E: Element>(whole: bool, args: &ForwardArgs, row: usize, pack: usize) -> Pack {
    // SAFETY: the caller's promise.
    unsafe { memory::load(whole, args.residual.row::<E>(row), args.extent.columns, pack) }
}

/// The sums of two packs' lanes, rounded to E.
#[inline(always)]
pub(crate) fn add_packs<E: Element>(a: Pack, b: Pack) -> Pack {
    let (mut sum, b) = (E::unpack(a), E::unpack(b));
    for l in 0..E::LANES {
        sum[l] += b[l];
    }
    E::pack(sum)
}

/// The sum of a thread's packs.
#[inline(always)]
pub(crate) fn total<E: Element, const V: usize>(x: &[Pack; V]) -> E::Real {
    let mut sum = E::unpack(x[0]);
    for v in 1..V {
        let x = E::unpack(x[v]);
        for l in 0..E::LANES {
            sum[l] += x[l];
        }
    }
    sum.tree_sum()
}

/// The sums of d and d * d over a thread's packs, d = (x - rough) * scale. Of pack v the first
/// `valid(v)` lanes count: all or none if `whole`.
#[inline(always)]
pub(crate) fn spread_of<E: Element, const V: usize>(
    x: &[Pack; V],
    valid: impl Fn(usize) -> usize,
    whole: bool,
    rough: E::Real,
    scale: E::Real,
) -> [E::Real; 2] {
    let (mut sd, mut sdd) = (E::Lanes::ZERO, E::Lanes::ZERO);
    // A power of two, so that for a scale of 1 the fma below is x - rough, rounded once.
    let shift = -(rough * scale);
    for v in 0..V {
        let valid = valid(v);
        let x = E::unpack(x[v]);
        let mut add = |l: usize, d: E::Real| {
            (sd[l], sdd[l]) = if v == 0 { (d, d * d) } else { (sd[l] + d, d.fma(d, sdd[l])) };
        };
        if whole || valid == E::LANES {
            // Past the row's end x is 0, and d shall be.
            let shift = if valid == 0 { E::Real::ZERO } else { shift };
            for l in 0..E::LANES {
                add(l, x[l].fma(scale, shift));
            }
        } else {
            for l in 0..E::LANES {
                add(l, if l < valid { x[l].fma(scale, shift) } else { E::Real::ZERO });
            }
        }
    }
    [sd.tree_sum(), sdd.tree_sum()]
}

/// w + offset.
#[inline(always)]
pub(crate) fn weights<E: Element>(mut w: E::Lanes, offset: E::Real) -> E::Lanes {
    // A branch costs less than additions, where there is nothing to add.
    if offset != E::Real::ZERO {
        for l in 0..E::LANES {
            w[l] += offset;
        }
    }
    w
}

/// A pack of y.
#[inline(always)]
pub(crate) fn normalise_pack<E: Element>(
    x: Pack,
    stats: RowStats<E::Real>,
    w: E::Lanes,
    b: E::Lanes,
) -> Pack {
    let hat = Hat::new(stats);
    let x = E::unpack(x);
    let mut y = E::Lanes::ZERO;
    for l in 0..E::LANES {
        y[l] = hat.of::<E>(x[l]).fma(w[l], b[l]);
    }
    E::pack(y)
}
