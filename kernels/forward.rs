//! Forward: one row to its mean, its rstd and y.
//!
//! ```text
//! mean = sum(x) / N                     (RMSNorm: 0)
//! var  = sum((x - mean)^2) / N
//! rstd = 1 / sqrt(var + eps)
//! y    = (x - mean) * rstd * (w + weight_offset) + b
//! ```
//!
//! For each tile of R rows, held in registers as V packs per thread and row:
//!
//! ```text
//! pass 1:  load x (and add the residual);  m  = sum(x) / N
//! pass 2:  d = x - m;  sd = sum(d), sdd = sum(d * d)            (one collective)
//!          lo = sd / N;  var = (sdd - sd * lo) / N;  mean + mean_lo = m + lo
//! pass 3:  y = fma(fma(x - mean, rstd, -mean_lo * rstd), w, b)
//! ```
//!
//! Departures from the formulae:
//!
//! 1. `m` is a rounded number, so `d` still has a mean, `lo`. Pass 2 measures it at no further
//!    reduction, and both the variance and x_hat are corrected by it: an f32 row of mean 1e4 and
//!    spread 1e-3 is right to 1e-6, where one f32 mean alone is wrong by 9e-2. (The corrected
//!    two-pass algorithm of Chan, Golub and LeVeque 1983, extended to the mean.)
//! 2. The pair is renormalised so that `mean` is the number nearest to the mean: `x - mean` is then
//!    exact for x near it, and a constant row gives x_hat = 0 exactly.
//! 3. The mean is never folded into the bias: `x * rstd + (b - mean * rstd)` would cancel.
//! 4. Where the squares of a row overflow, pass 2 runs once more on that row scaled by a power of
//!    two; the other rows of its tile get the same sums again.
//! 5. x + residual is rounded to the storage type, stored, and that is normalised: the same bits
//!    as an addition in a kernel of its own.

use crate::arch::Number;
use crate::args::{ForwardArgs, RowStats};
use crate::element::{Element, Lanes, Pack, Params};
use crate::mean::Count;
use crate::memory::{self, valid_lanes};
use crate::real::Real;
use crate::{Block, Feed};

/// The forward kernel: V packs per thread and row, R rows per tile.
///
/// # Safety
///
/// - `args.x`, `args.residual` readable and `args.y`, `args.sum` writable over (rows, columns);
///   `w`, `b` readable over columns; `stats` writable over rows; each may be null where [`ForwardArgs`] says
///   that it is optional. x and what is written are of E, w and b of P.
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
        let live = (extent.rows - first).min(R);

        let threads = block.threads();
        let sums = block.sum(&mut tile, |thread, x| {
            let mut sums = [[E::Real::ZERO]; R];
            for r in 0..R {
                if r < live {
                    for v in 0..V {
                        // SAFETY: row r is live.
                        x[r][v] = unsafe { feed.pack(0, r, v * threads + thread) };
                    }
                    if !F::PLAIN_ONLY && !args.residual.ptr.is_null() {
                        let pack = |v| v * threads + thread;
                        // SAFETY: row first + r is live; each thread stores its own packs.
                        unsafe { add::<E, V>(F::WHOLE_PACKS, args, first + r, &mut x[r], pack) };
                    }
                    sums[r] = [total::<E, V>(&x[r])];
                }
            }
            sums
        });
        feed.recycle(block);
        let rough = sums.map(|[sum]| moments.rough(sum));

        let mut spread = |block: &mut B, scale: [E::Real; R]| {
            let threads = block.threads();
            block.sum(&mut tile, |thread, x| {
                let mut sums = [[E::Real::ZERO; 2]; R];
                for r in 0..R {
                    if r < live {
                        let valid = |v| valid_lanes::<E>(extent.columns, v * threads + thread);
                        let whole = F::WHOLE_PACKS;
                        sums[r] = spread_of::<E, V>(&x[r], valid, whole, rough[r], scale[r]);
                    }
                }
                sums
            })
        };
        let mut scale = [E::Real::ONE; R];
        let mut sums = spread(block, scale);
        let mut overflow = false;
        for r in 0..R {
            if !sums[r][1].finite() {
                scale[r] = E::Real::SMALL;
                overflow = true;
            }
        }
        if overflow {
            sums = spread(block, scale);
        }
        let mut stats = [RowStats::default(); R];
        for r in 0..R {
            stats[r] = moments.stats(rough[r], sums[r], scale[r]);
        }

        let threads = block.threads();
        block.each(&mut tile, |thread, x| {
            let store = |offset: E::Real| {
                for v in 0..V {
                    let pack = v * threads + thread;
                    let (w, b) = (feed.vector(0, pack), feed.vector(1, pack));
                    let w = weights::<E>(w, offset);
                    for r in 0..R {
                        if r < live {
                            let y = normalise_pack::<E>(x[r][v], stats[r], w, b);
                            // SAFETY: row first + r is live; each thread stores its own packs.
                            unsafe {
                                let row = args.y.row::<E>(first + r);
                                memory::store(F::WHOLE_PACKS, row, extent.columns, pack, y);
                            }
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
                if r < live {
                    // SAFETY: row first + r is live, and this block's alone.
                    unsafe { stats[r].store(args.stats, first + r) };
                }
            }
        });
    }
}

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
    let (residual, sum) = unsafe { (args.residual.row::<E>(row), args.sum.row::<E>(row)) };
    // Loads two at a time, so that their latencies overlap: more would take registers from all.
    for first in (0..V).step_by(2) {
        let mut more = [Pack::default(); 2];
        for i in 0..2.min(V - first) {
            // SAFETY: the caller's promise.
            more[i] = unsafe { memory::load(whole, residual, columns, pack(first + i)) };
        }
        for i in 0..2.min(V - first) {
            let v = first + i;
            x[v] = add_packs::<E>(x[v], more[i]);
            // SAFETY: the caller's promise.
            unsafe { memory::store(whole, sum, columns, pack(v), x[v]) };
        }
    }
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
    let mut sum = E::Lanes::ZERO;
    for v in 0..V {
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
        if valid == E::LANES {
            for l in 0..E::LANES {
                let d = x[l].fma(scale, shift);
                sd[l] += d;
                sdd[l] = d.fma(d, sdd[l]);
            }
        } else if !whole {
            // Past the row's end x is 0 and d would be -mean.
            for l in 0..E::LANES {
                let d = if l < valid { x[l].fma(scale, shift) } else { E::Real::ZERO };
                sd[l] += d;
                sdd[l] = d.fma(d, sdd[l]);
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
        y[l] = hat.of(x[l]).fma(w[l], b[l]);
    }
    E::pack(y)
}

/// What makes statistics of a row's sums.
#[derive(Clone, Copy)]
pub(crate) struct Moments<T> {
    count: Count<T>,
    eps: T,
    rms: bool,
    pub(crate) weight_offset: T,
}

impl<T: Real> Moments<T> {
    #[inline(always)]
    pub(crate) fn new(args: &ForwardArgs) -> Self {
        Moments {
            count: Count::new(&args.extent),
            eps: T::of(args.eps),
            rms: args.rms,
            weight_offset: T::of(args.weight_offset),
        }
    }

    /// The rough mean, from the row's sum.
    #[inline(always)]
    pub(crate) fn rough(self, sum: T) -> T {
        if self.rms { T::ZERO } else { self.count.mean(sum) }
    }

    /// The statistics, from the rough mean and what [`spread_of`] gives for the row at this scale.
    #[inline(always)]
    pub(crate) fn stats(self, rough: T, [sd, sdd]: [T; 2], scale: T) -> RowStats<T> {
        let sd = if self.rms { T::ZERO } else { sd };
        let lo = self.count.mean(sd);
        let var = self.count.mean((-sd).fma(lo, sdd));
        // Rounding may leave a constant row a variance just below zero. (NaN stays NaN.)
        let var = if var < T::ZERO { T::ZERO } else { var };
        let lo = if scale == T::ONE { lo } else { lo * T::LARGE };
        let mean = rough + lo;
        RowStats {
            mean,
            // What the sum above rounded off: exact where |lo| <= |rough| (Dekker's fast two-sum).
            mean_lo: lo - (mean - rough),
            rstd: scale / (var + self.eps * scale * scale).sqrt(),
            pad: T::ZERO,
        }
    }
}

/// x_hat = (x - mean - mean_lo) * rstd, in two operations per element.
#[derive(Clone, Copy)]
pub(crate) struct Hat<T> {
    mean: T,
    pub(crate) rstd: T,
    shift: T,
}

impl<T: Real> Hat<T> {
    #[inline(always)]
    pub(crate) fn new(stats: RowStats<T>) -> Self {
        let RowStats { mean, mean_lo, rstd, .. } = stats;
        Hat { mean, rstd, shift: -(mean_lo * rstd) }
    }

    #[inline(always)]
    pub(crate) fn of(self, x: T) -> T {
        (x - self.mean).fma(self.rstd, self.shift)
    }
}
