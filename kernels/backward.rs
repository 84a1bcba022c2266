//! Backward, stage 1: dx, and this block's share of dw and db.
//!
//! ```text
//! x_hat = (x - mean) * rstd          wdy = (w + weight_offset) * dy
//! c1    = sum(x_hat * wdy) / N       c2  = sum(wdy) / N          (RMSNorm: c2 = 0)
//! dx    = (wdy - (x_hat * c1 + c2)) * rstd
//! dw    = sum over rows of dy * x_hat         db = sum over rows of dy
//! ```
//!
//! One block:
//!
//! ```text
//! dw = db = 0                                      V packs a thread, in registers
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
//! 2. Partial sums are f32 (f64 for f64) whatever the type of w, and lie in memory in the order in
//!    which the threads hold them: a pack of 8 lanes as two float4, each beside the neighbour
//!    thread's.
//! 3. x, dy and w are read twice from where the feed has them rather than held: the registers are
//!    needed for dw and db.

use crate::arch::{self, Number};
use crate::args::BackwardArgs;
use crate::element::{Element, Lanes, Pack, Params};
use crate::feed::live;
use crate::forward::weights;
use crate::mean::Count;
use crate::memory::{self, none_to_store, valid_lanes};
use crate::moments::Hat;
use crate::real::Real;
use crate::{Block, Feed, lock};

/// Stage 1 of the backward kernels: V packs per thread and row, R rows per tile. w is held in
/// registers if W is V, and else (0) read from where the feed has it.
///
/// # Safety
///
/// - `args.x`, `args.dy`, `args.add` readable and `args.dx` writable over (rows, columns), `w` over
///   columns, `stats` over rows; each may be null where [`BackwardArgs`] says that it is optional.
///   They are of E, w of P.
/// - What is written overlaps nothing else, except that `dx` may be `x`, `dy` or one of `add`
///   itself: the same pointer and stride.
/// - `args.partials.sums` is null, or writable over (groups, 1, 2, packs, lanes), 16-byte aligned,
///   with `partials.packs` = V * `block.threads()`; `locks` over 2 * groups words, all zero.
///   Both are used by nothing else during the launch.
/// - 1 <= `columns`, at most V * `block.threads()` packs; rows and work as F asks, `chunks` = 1.
/// - Every block of the grid runs this with the same arguments. (They may start in any order: a
///   block waits for a lock's holder alone.)
#[inline(always)]
pub unsafe fn rows<B, F, E, P, const V: usize, const R: usize, const W: usize>(
    block: &mut B,
    args: &BackwardArgs,
) where
    B: Block,
    F: Feed<B, E, P, 2, 1>,
    E: Element,
    P: Params<E>,
{
    let extent = args.extent;
    let terms = Terms::<E::Real>::new::<E>(args);
    // SAFETY: the caller's promises on x, dy, w and stats.
    let mut feed = unsafe { F::open(block, extent, R, [args.x, args.dy], [args.w], args.stats) };
    let threads = block.threads();
    let mut gradient = block.state(|thread| {
        let w = arch::from_fn(|v| feed.vector(0, v * threads + thread));
        Gradient::<E, V, W> { w, ..Gradient::ZERO }
    });

    while let Some(first) = feed.next(block) {
        // SAFETY: the feed was opened with statistics.
        let hats = |feed: &F| arch::from_fn(|r| Hat::new(unsafe { feed.stats(r) }));
        let hat: [_; R] = hats(&feed);
        let live = |r| live(extent, first, r);
        // SAFETY: asked of packs and rows that exist.
        let read = |feed: &F, r, pack| unsafe { (feed.pack(0, r, pack), feed.pack(1, r, pack)) };
        let (whole, columns) = (F::WHOLE_PACKS, extent.columns);

        let threads = block.threads();
        let sums = block.sum(&mut gradient, |thread, &mut Gradient { w: held, .. }| {
            let pack = |v| v * threads + thread;
            let read = |r, pack| read(&feed, r, pack);
            let w = |v| if W == V { held[v] } else { feed.vector(0, pack(v)) };
            let dots = |terms| dots::<E, V, R>(columns, live, pack, read, w, hat, terms);
            match terms.plain::<E, P>(F::PLAIN_ONLY, whole) {
                Some(plain) => dots(&plain),
                None => dots(&terms),
            }
        });
        feed.recycle(block);
        let c = sums.map(|sums| terms.means(sums));
        // Read again: three registers a row less to hold over the collective.
        let hat = if R > 1 { hats(&feed) } else { hat };

        let threads = block.threads();
        block.each(&mut gradient, |thread, gradient| {
            let (pack, held) = (|v| v * threads + thread, gradient.w);
            let read = |r, pack| read(&feed, r, pack);
            let w = |v| if W == V { held[v] } else { feed.vector(0, pack(v)) };
            let mut rows = |terms| {
                // SAFETY: each thread stores its own packs.
                unsafe { gradient.rows(whole, args, first, live, pack, read, w, hat, c, terms) };
            };
            match terms.plain::<E, P>(F::PLAIN_ONLY, whole) {
                Some(plain) => rows(&plain),
                None => rows(&terms),
            }
        });
    }

    // Stage 2 may start where there is room, and wait: its launch then costs nothing.
    arch::let_next_start();
    let group = block.index() as u32 % args.partials.groups;
    // SAFETY: the caller's promises on the partials.
    unsafe { gradient_to_group(block, &mut gradient, args, group as usize) };
}

/// What the formulae take beside a row's own data.
#[derive(Clone, Copy)]
pub(crate) struct Terms<T> {
    count: Count<T>,
    rms: bool,
    weight_offset: T,
    pub(crate) want_dx: bool,
    /// Whether something is added to dx.
    adds: bool,
    /// Whether c2 is subtracted from w * dy first. 16-bit types allow for it: their product is exact,
    /// and may be fused with the subtraction, which saves an operation. Else x_hat * c1 + c2, small
    /// beside it, is subtracted at once, and rounds off less. (A function of x's type alone, so that
    /// dx does not depend on the type of w.)
    centre: bool,
    /// Whether product and subtraction are to be fused: it is exact, and no offset is added to w.
    fuse: bool,
}

impl<T: Real> Terms<T> {
    #[inline(always)]
    pub(crate) fn new<E: Element>(args: &BackwardArgs) -> Self {
        Terms {
            count: Count::new(&args.extent),
            rms: args.rms,
            weight_offset: T::of(args.weight_offset),
            want_dx: !args.dx.ptr.is_null(),
            adds: !(args.add[0].ptr.is_null() && args.add[1].ptr.is_null()),
            centre: <E as Params<E>>::EXACT_PRODUCTS,
            fuse: false,
        }
    }

    /// The terms as constants, if nothing out of the ordinary is asked for (which may be `known`): a
    /// phase is compiled for them once more, without the branches that options take in its inner
    /// loop. (They had cost up to 17 % of the GB/s: 2331 in place of 2797 at N = 12288, f16,
    /// M = 4096, H200.) Rows that are not `whole` do without.
    #[inline(always)]
    fn plain<E: Element, P: Params<E>>(self, known: bool, whole: bool) -> Option<Self> {
        let plain = self.want_dx && !self.adds && self.weight_offset == T::ZERO;
        (known || whole && plain).then_some(Terms {
            weight_offset: T::ZERO,
            want_dx: true,
            adds: false,
            fuse: P::EXACT_PRODUCTS,
            ..self
        })
    }

    /// c1 and c2, from the row's sums.
    #[inline(always)]
    pub(crate) fn means(self, [c1, c2]: [T; 2]) -> [T; 2] {
        [self.count.mean(c1), if self.rms { T::ZERO } else { self.count.mean(c2) }]
    }
}

/// A thread's share of the sums of x_hat * wdy and of wdy of R rows, from its packs `pack(0)` to
/// `pack(V - 1)` of (x, dy) and w, as far as they exist. A pack of w serves all rows.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "all of a tile")]
pub(crate) fn dots<E: Element, const V: usize, const R: usize>(
    columns: usize,
    live: impl Fn(usize) -> bool,
    pack: impl Fn(usize) -> usize,
    read: impl Fn(usize, usize) -> (Pack, Pack),
    w: impl Fn(usize) -> E::Lanes,
    hat: [Hat<E::Real>; R],
    terms: &Terms<E::Real>,
) -> [[E::Real; 2]; R] {
    // A pack of numbers each: enough to hide an add's latency, and registers are left.
    let mut c = [[<E::Real as Element>::Lanes::ZERO; 2]; R];
    for v in 0..V {
        let pack = pack(v);
        // A branch per pack also keeps ptxas from mixing one pack's sums with the next one's, and so
        // running out of registers.
        if !terms.want_dx || valid_lanes::<E>(columns, pack) == 0 {
            continue;
        }
        let w = weights::<E>(w(v), terms.weight_offset);
        for r in 0..R {
            if !live(r) {
                continue;
            }
            let (x, dy) = read(r, pack);
            let (x, dy) = (E::unpack(x), E::unpack(dy));
            // Past the row's end dy is 0, and so is what is added.
            for l in 0..E::LANES {
                let at = l % E::Real::LANES;
                let x_hat = hat[r].of::<E>(x[l]);
                let wdy = w[l] * dy[l];
                let [c1, c2] = &mut c[r];
                (c1[at], c2[at]) = if v == 0 && l == at {
                    (x_hat * wdy, wdy)
                } else {
                    (x_hat.fma(wdy, c1[at]), c2[at] + wdy)
                };
            }
        }
    }
    c.map(|[c1, c2]| [c1.tree_sum(), c2.tree_sum()])
}

/// A thread's share of dw and db, and of w if it is held.
pub(crate) struct Gradient<E: Element, const V: usize, const W: usize> {
    dw: [E::Lanes; V],
    db: [E::Lanes; V],
    w: [E::Lanes; W],
}

impl<E: Element, const V: usize, const W: usize> Gradient<E, V, W> {
    pub(crate) const ZERO: Self =
        Gradient { dw: [E::Lanes::ZERO; V], db: [E::Lanes::ZERO; V], w: [E::Lanes::ZERO; W] };

    /// A thread's part of R rows from row `first` on, those that are `live`: adds to dw and db, and
    /// stores dx, for its packs `pack(0)` to `pack(V - 1)` of (x, dy) and w, as far as they exist.
    ///
    /// # Safety
    ///
    /// The rows that are `live` must exist in `args`, whole and aligned if `whole`, and the packs be
    /// this thread's.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "all of a tile")]
    pub(crate) unsafe fn rows<const R: usize>(
        &mut self,
        whole: bool,
        args: &BackwardArgs,
        first: usize,
        live: impl Fn(usize) -> bool,
        pack: impl Fn(usize) -> usize,
        read: impl Fn(usize, usize) -> (Pack, Pack),
        w: impl Fn(usize) -> E::Lanes,
        hat: [Hat<E::Real>; R],
        c: [[E::Real; 2]; R],
        terms: &Terms<E::Real>,
    ) {
        let columns = args.extent.columns;
        for v in 0..V {
            let pack = pack(v);
            if none_to_store::<E>(whole, columns, pack) {
                continue;
            }
            let w = weights::<E>(w(v), terms.weight_offset);
            for r in 0..R {
                if !live(r) {
                    continue;
                }
                let (x, dy) = read(r, pack);
                let (x, dy) = (E::unpack(x), E::unpack(dy));
                let [c1, c2] = c[r];
                let mut dx = E::Lanes::ZERO;
                for l in 0..E::LANES {
                    let x_hat = hat[r].of::<E>(x[l]);
                    self.dw[v][l] = dy[l].fma(x_hat, self.dw[v][l]);
                    self.db[v][l] += dy[l];
                    let dx_hat = if !terms.centre {
                        w[l] * dy[l] - x_hat.fma(c1, c2)
                    } else if terms.fuse {
                        (-x_hat).fma(c1, w[l].fma(dy[l], -c2))
                    } else {
                        (-x_hat).fma(c1, w[l] * dy[l] - c2)
                    };
                    dx[l] = dx_hat * hat[r].rstd;
                }
                let row = first + r;
                if terms.adds {
                    // SAFETY: the caller's promise.
                    unsafe { add::<E>(whole, args, row, pack, &mut dx) };
                }
                if terms.want_dx {
                    // SAFETY: the caller's promise.
                    unsafe {
                        memory::store(whole, args.dx.row::<E>(row), columns, pack, E::pack(dx));
                    }
                }
            }
        }
    }
}

/// Adds to pack `pack` of row `row` of dx what is to be added.
///
/// # Safety
///
/// The row must exist in `args`, whole and aligned if `whole`.
#[inline(always)]
unsafe fn add<E: Element>(
    whole: bool,
    args: &BackwardArgs,
    row: usize,
    pack: usize,
    dx: &mut E::Lanes,
) {
    for i in 0..2 {
        let add = args.add[i];
        // No columns, no access.
        let columns = if add.ptr.is_null() { 0 } else { args.extent.columns };
        // SAFETY: the caller's promise.
        let add = E::unpack(unsafe { memory::gather(whole, add.row::<E>(row), columns, pack) });
        for l in 0..E::LANES {
            dx[l] += add[l];
        }
    }
}

/// Stores the block's dw and db as the sums of `slot` (a group, or its chunk), or adds them, under
/// its lock. Nothing if neither is asked for.
///
/// # Safety
///
/// `args.partials` as [`rows`] asks, with `slot` in it.
#[inline(always)]
pub(crate) unsafe fn gradient_to_group<B: Block, E: Element, const V: usize, const W: usize>(
    block: &mut B,
    gradient: &mut B::State<Gradient<E, V, W>>,
    args: &BackwardArgs,
    slot: usize,
) {
    let partials = args.partials;
    if partials.sums.is_null() {
        return;
    }
    let slots = partials.groups.get() as usize * args.extent.chunks.get();
    let columns = partials.packs.get() * E::LANES;
    // SAFETY: the slot's sums lie in the caller's array.
    let sums = unsafe { partials.sums.cast::<E::Real>().add(slot * 2 * columns) };
    // 16 bytes of dw, or of db, at a time: part 0 of each of the thread's packs, then part 1.
    let half = V * (E::LANES / E::Real::LANES);
    let part_of = |gradient: &Gradient<E, V, W>, part: usize| {
        let (lanes, part) =
            if part < half { (&gradient.dw, part) } else { (&gradient.db, part - half) };
        let mut sum = <E::Real as Element>::Lanes::ZERO;
        for l in 0..E::Real::LANES {
            sum[l] = lanes[part % V][E::Real::LANES * (part / V) + l];
        }
        sum
    };
    let mut store = |block: &mut B, first: bool| {
        let threads = block.threads();
        block.each(gradient, |thread, gradient| {
            for part in 0..2 * half {
                if if part < half { args.want_dw } else { args.want_db } {
                    let at = E::Real::LANES * (part * threads + thread);
                    // SAFETY: within the slot's sums, which this block has to itself.
                    unsafe { merge::<E>(first, sums.add(at), part_of(gradient, part)) };
                }
            }
        });
    };
    if block.grid() <= slots {
        // A slot for each block: nobody else comes, and the end of the launch is order enough.
        store(block, true);
    } else {
        // SAFETY: the caller's promises on the locks.
        unsafe { lock::with_lock(block, partials.locks, slots, slot, store) };
    }
}

/// Stores 16 bytes of sums at `sums` (`first`), or adds them.
///
/// # Safety
///
/// This block holds the lock of the sums, and they are this thread's alone.
#[inline(always)]
unsafe fn merge<E: Element>(first: bool, sums: *mut E::Real, lanes: <E::Real as Element>::Lanes) {
    // SAFETY: the caller's promise; the lock orders this after the stores of the block that held it
    // before.
    unsafe {
        let mut sum = E::Real::unpack(arch::load_shared_unless(first, sums.cast()));
        for l in 0..E::Real::LANES {
            sum[l] += lanes[l];
        }
        arch::store_shared(sums.cast(), E::Real::pack(sum));
    }
}
