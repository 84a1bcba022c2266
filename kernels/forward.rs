//! Forward: one row to its mean, its rstd and y.
//!
//! ```text
//! mean = sum(x) / N
//! var  = sum((x - mean)^2) / N
//! rstd = 1 / sqrt(var + eps)
//! y    = (x - mean) * rstd * w + b
//! ```
//!
//! For each tile of R rows, held in registers as V packs per thread and row:
//!
//! ```text
//! pass 1:  load x;  m  = sum(x) / N
//! pass 2:  d = x - m;  sd = sum(d), sdd = sum(d * d)            (one collective)
//!          lo = sd / N;  var = (sdd - sd * lo) / N;  mean + mean_lo = m + lo
//! pass 3:  y = fma(fma(x - mean, rstd, -mean_lo * rstd), w, b)
//! ```
//!
//! Departures from the formulae:
//!
//! 1. `m` is a rounded f32, so `d` still has a mean, `lo`. Pass 2 measures it at no further
//!    reduction, and both the variance and x_hat are corrected by it: a row of mean 1e4 and spread
//!    1e-3 is right to 1e-6, where one f32 mean alone is wrong by 9e-2. (The corrected two-pass
//!    algorithm of Chan, Golub and LeVeque 1983, extended to the mean.)
//! 2. The pair is renormalised so that `mean` is the f32 nearest to the mean: `x - mean` is then
//!    exact for x near it, and a constant row gives x_hat = 0 exactly.
//! 3. The mean is never folded into the bias: `x * rstd + (b - mean * rstd)` would cancel.

use crate::args::{ForwardArgs, RowStats, valid_lanes};
use crate::element::{Element, Lanes, Pack};
use crate::mean::Count;
use crate::{Block, Feed, arch, feed};

/// The forward kernel: V packs per thread and row, R rows per tile.
///
/// # Safety
///
/// - `args.x` readable and `args.y` writable over (rows, columns); `w`, `b` readable over columns;
///   `stats` writable over rows. What is written overlaps nothing that is read.
/// - `columns` >= 1 and at most V * `block.threads()` packs; rows as F asks.
/// - Every block of the grid runs this with the same arguments.
#[inline(always)]
pub unsafe fn rows<B: Block, F: Feed<B, E, 1, 2>, E: Element, const V: usize, const R: usize>(
    block: &mut B,
    args: &ForwardArgs<E>,
) {
    let extent = args.extent;
    let count = Count::new(extent);
    // SAFETY: the caller's promises on x, w and b.
    let mut feed =
        unsafe { F::open(block, extent, R, [args.x], [args.w, args.b], core::ptr::null()) };
    let mut tile = block.state(|_| [[Pack::default(); V]; R]);

    while let Some(first) = feed.next(block) {
        let live = (extent.rows - first).min(R);

        let threads = block.threads();
        let sums = block.sum(&mut tile, |thread, x| {
            let mut sums = [[0.0]; R];
            for r in 0..R {
                if r < live {
                    let mut sum = E::Lanes::ZERO;
                    for v in 0..V {
                        // SAFETY: row r is live.
                        x[r][v] = unsafe { feed.pack(0, r, v * threads + thread) };
                        let x = E::unpack(x[r][v]);
                        for l in 0..E::LANES {
                            sum[l] += x[l];
                        }
                    }
                    sums[r] = [sum.tree_sum()];
                }
            }
            sums
        });
        feed.recycle(block);
        let rough = sums.map(|[sum]| count.mean(sum));

        let threads = block.threads();
        let sums = block.sum(&mut tile, |thread, x| {
            let mut sums = [[0.0; 2]; R];
            for r in 0..R {
                if r < live {
                    let (mut sd, mut sdd) = (E::Lanes::ZERO, E::Lanes::ZERO);
                    for v in 0..V {
                        let valid = valid_lanes::<E>(extent.columns, v * threads + thread);
                        let x = E::unpack(x[r][v]);
                        if valid == E::LANES {
                            for l in 0..E::LANES {
                                let d = x[l] - rough[r];
                                sd[l] += d;
                                sdd[l] = arch::fma(d, d, sdd[l]);
                            }
                        } else if !F::WHOLE_PACKS {
                            // Past the row's end x is 0 and d would be -mean.
                            for l in 0..E::LANES {
                                let d = if l < valid { x[l] - rough[r] } else { 0.0 };
                                sd[l] += d;
                                sdd[l] = arch::fma(d, d, sdd[l]);
                            }
                        }
                    }
                    sums[r] = [sd.tree_sum(), sdd.tree_sum()];
                }
            }
            sums
        });
        let mut stats = [RowStats::default(); R];
        for (r, stats) in stats.iter_mut().enumerate() {
            *stats = statistics(rough[r], sums[r], count, args.eps);
        }

        let threads = block.threads();
        block.each(&mut tile, |thread, x| {
            for v in 0..V {
                let pack = v * threads + thread;
                let w = E::unpack(feed.vector(0, pack));
                let b = E::unpack(feed.vector(1, pack));
                for r in 0..R {
                    if r < live {
                        let hat = Normalise::new(stats[r]);
                        let x = E::unpack(x[r][v]);
                        let mut y = E::Lanes::ZERO;
                        for l in 0..E::LANES {
                            y[l] = arch::fma(hat.of(x[l]), w[l], b[l]);
                        }
                        // SAFETY: row first + r is live; each thread stores its own packs.
                        unsafe {
                            let row = args.y.row(first + r);
                            feed::store::<E>(row, extent, F::WHOLE_PACKS, pack, y);
                        }
                    }
                }
            }
        });
        block.leader(|| {
            for (r, stats) in stats.into_iter().enumerate().take(live) {
                // SAFETY: row first + r is live, and this block's alone.
                unsafe { arch::store_stats(args.stats.add(first + r), stats) };
            }
        });
    }
}

/// The statistics of a row from its rough mean and the sums of d and d * d, d = x - rough.
#[inline(always)]
fn statistics(rough: f32, [sd, sdd]: [f32; 2], count: Count, eps: f32) -> RowStats {
    let lo = count.mean(sd);
    let var = count.mean(arch::fma(-sd, lo, sdd));
    // Rounding may leave a constant row a variance just below zero. (NaN stays NaN.)
    let var = if var < 0.0 { 0.0 } else { var };
    let mean = rough + lo;
    RowStats {
        mean,
        // What the sum above rounded off: exact where |lo| <= |rough| (Dekker's fast two-sum).
        mean_lo: lo - (mean - rough),
        rstd: 1.0 / arch::sqrt(var + eps),
        pad: 0.0,
    }
}

/// x_hat = (x - mean - mean_lo) * rstd, in two operations per element.
#[derive(Clone, Copy)]
pub(crate) struct Normalise {
    mean: f32,
    pub(crate) rstd: f32,
    shift: f32,
}

impl Normalise {
    #[inline(always)]
    pub(crate) fn new(stats: RowStats) -> Self {
        let RowStats { mean, mean_lo, rstd, .. } = stats;
        Normalise { mean, rstd, shift: -(mean_lo * rstd) }
    }

    #[inline(always)]
    pub(crate) fn of(self, x: f32) -> f32 {
        arch::fma(x - self.mean, self.rstd, self.shift)
    }
}
