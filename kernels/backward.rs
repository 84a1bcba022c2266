//! Backward, stage 1: dx, and this block's share of dw and db.
//!
//! ```text
//! x_hat = (x - mean) * rstd          wdy = w * dy
//! c1    = sum(x_hat * wdy) / N       c2  = sum(wdy) / N
//! dx    = (wdy - (x_hat * c1 + c2)) * rstd
//! dw    = sum over rows of dy * x_hat         db = sum over rows of dy
//! ```
//!
//! One block:
//!
//! ```text
//! dw = db = 0                                      V packs a thread, f32, in registers
//! for each tile of R rows of this block:
//!     phase 1: from x, dy, w: c1, c2 of R rows                               (one collective)
//!     phase 2: from x, dy, w again: dx; dw += dy * x_hat, db += dy
//! under the lock of group (block mod groups): store dw, db as the group's sums, or add them
//! ```
//!
//! Departures from the seed:
//!
//! 1. Blocks are persistent: a block gathers dw and db over all its rows and takes the lock once,
//!    where the seed takes it once a row. With a grid of M blocks and the seed's number of groups
//!    the same body is the seed's algorithm to the letter.
//! 2. Partial sums are f32 whatever the type of w, and lie in memory in the order in which the
//!    threads hold them: a pack of 8 lanes as two float4, each beside the neighbour thread's.
//! 3. x, dy and w are read twice from where the feed has them rather than held: the registers are
//!    needed for dw and db.

use crate::args::{BackwardArgs, Partials, RowStats, valid_lanes};
use crate::element::{Element, Lanes, Pack};
use crate::forward::Normalise;
use crate::mean::Count;
use crate::{Block, Feed, arch, feed, lock};

/// A thread's share of dw and db.
struct Gradient<L, const V: usize> {
    dw: [L; V],
    db: [L; V],
}

/// Stage 1 of the backward kernels: V packs per thread and row, R rows per tile.
///
/// # Safety
///
/// - `args.x`, `args.dy` readable and `args.dx` writable over (rows, columns), `w` over columns,
///   `stats` over rows. What is written overlaps nothing that is read.
/// - `args.partials.sums` is writable over (groups, 2, packs, lanes), 16-byte aligned, with
///   `partials.packs` = V * `block.threads()`; `locks` over 2 * groups words, all zero.
///   Both are used by nothing else during the launch.
/// - `columns` >= 1 and at most V * `block.threads()` packs; rows as F asks.
/// - Every block of the grid runs this with the same arguments. (They may start in any order: a
///   block waits for a lock's holder alone.)
#[inline(always)]
pub unsafe fn rows<B: Block, F: Feed<B, E, 2, 1>, E: Element, const V: usize, const R: usize>(
    block: &mut B,
    args: &BackwardArgs<E>,
) {
    let extent = args.extent;
    let count = Count::new(extent);
    // SAFETY: the caller's promises on x, dy, w and stats.
    let mut feed =
        unsafe { F::open(block, extent, R, [args.x, args.dy], [args.w], args.stats.cast()) };
    let mut gradient =
        block.state(|_| Gradient { dw: [E::Lanes::ZERO; V], db: [E::Lanes::ZERO; V] });

    // Long rows: a branch per pack keeps ptxas from putting off one pack's sums to the next, and so
    // running out of registers.
    let skip = |pack| V >= 8 && valid_lanes::<E>(extent.columns, pack) == 0;

    while let Some(first) = feed.next(block) {
        let live = (extent.rows - first).min(R);
        let mut hat = [Normalise::new(RowStats::default()); R];
        for (r, hat) in hat.iter_mut().enumerate() {
            if r < live {
                // SAFETY: row r is live, and the feed was opened with notes.
                *hat = Normalise::new(stats(unsafe { feed.note(r) }));
            }
        }

        let threads = block.threads();
        let sums = block.sum(&mut gradient, |thread, _| {
            let mut sums = [[0.0; 2]; R];
            for r in 0..R {
                if r < live {
                    // Four lanes are enough to hide an add's latency, and leave registers.
                    let (mut c1, mut c2) = ([0.0; 4], [0.0; 4]);
                    for v in 0..V {
                        let pack = v * threads + thread;
                        if skip(pack) {
                            continue;
                        }
                        // SAFETY: row r is live.
                        let (x, dy) = unsafe { (feed.pack(0, r, pack), feed.pack(1, r, pack)) };
                        let (x, dy) = (E::unpack(x), E::unpack(dy));
                        let w = E::unpack(feed.vector(0, pack));
                        // Past the row's end dy and w are 0, and so is what is added.
                        for l in 0..E::LANES {
                            let x_hat = hat[r].of(x[l]);
                            let wdy = w[l] * dy[l];
                            c1[l % 4] = arch::fma(x_hat, wdy, c1[l % 4]);
                            c2[l % 4] += wdy;
                        }
                    }
                    sums[r] = [c1.tree_sum(), c2.tree_sum()];
                }
            }
            sums
        });
        feed.recycle(block);
        let c = sums.map(|[c1, c2]| [count.mean(c1), count.mean(c2)]);

        let threads = block.threads();
        block.each(&mut gradient, |thread, gradient| {
            for r in 0..R {
                if r < live {
                    let [c1, c2] = c[r];
                    for v in 0..V {
                        let pack = v * threads + thread;
                        if skip(pack) {
                            continue;
                        }
                        // SAFETY: row r is live.
                        let (x, dy) = unsafe { (feed.pack(0, r, pack), feed.pack(1, r, pack)) };
                        let (x, dy) = (E::unpack(x), E::unpack(dy));
                        let w = E::unpack(feed.vector(0, pack));
                        let mut dx = E::Lanes::ZERO;
                        for l in 0..E::LANES {
                            let x_hat = hat[r].of(x[l]);
                            let wdy = w[l] * dy[l];
                            gradient.dw[v][l] = arch::fma(dy[l], x_hat, gradient.dw[v][l]);
                            gradient.db[v][l] += dy[l];
                            dx[l] = (wdy - arch::fma(x_hat, c1, c2)) * hat[r].rstd;
                        }
                        // SAFETY: row first + r is live; each thread stores its own packs.
                        unsafe {
                            let row = args.dx.row(first + r);
                            feed::store::<E>(row, extent, F::WHOLE_PACKS, pack, dx);
                        }
                    }
                }
            }
        });
    }

    // Stage 2 may start where there is room, and wait: its launch then costs nothing.
    arch::let_next_start();
    let Partials { locks, groups, .. } = args.partials;
    let group = block.index() as u32 % groups;
    // SAFETY: the caller's promises on the locks.
    unsafe {
        lock::with_lock(block, locks, groups.get(), group, |block, first| {
            merge::<B, E, V>(block, &mut gradient, args.partials, group, first);
        });
    }
}

/// Stores the block's dw and db as the sums of `group` (`first`), or adds them.
///
/// # Safety
///
/// This block holds the group's lock; `partials` as [`rows`] asks.
#[inline(always)]
unsafe fn merge<B: Block, E: Element, const V: usize>(
    block: &mut B,
    gradient: &mut B::State<Gradient<E::Lanes, V>>,
    partials: Partials,
    group: u32,
    first: bool,
) {
    let threads = block.threads();
    let columns = partials.packs.get() * E::LANES;
    // SAFETY: the group's row of sums, dw then db, lies in the caller's array.
    let (dw, db) = unsafe {
        let dw = partials.sums.add(group as usize * 2 * columns);
        (dw, dw.add(columns))
    };
    // Each thread's own four sums at `at`, in the order that `columns` undoes.
    let put = |sums: *mut f32, at: usize, lanes: &E::Lanes, quarter: usize| {
        // SAFETY: within the group's row, and this thread's alone; the lock orders this after the
        // stores of the block that held it before.
        unsafe {
            let mut sum = arch::load_shared_f32_unless(first, sums.add(at));
            for l in 0..4 {
                sum[l] += lanes[4 * quarter + l];
            }
            arch::store_shared_f32(sums.add(at), sum);
        }
    };
    block.each(gradient, |thread, gradient| {
        for v in 0..V {
            for quarter in 0..E::LANES / 4 {
                let at = 4 * ((quarter * V + v) * threads + thread);
                put(dw, at, &gradient.dw[v], quarter);
                put(db, at, &gradient.db[v], quarter);
            }
        }
    });
}

/// The saved statistics in a note.
#[inline(always)]
fn stats(note: Pack) -> RowStats {
    let [mean, mean_lo, rstd, pad] = note.0.map(f32::from_bits);
    RowStats { mean, mean_lo, rstd, pad }
}
