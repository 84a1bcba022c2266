//! Backward, stage 2: the groups' partial sums to dw and db.
//!
//! ```text
//! dw[j] = sum over groups of partial_dw[group][j]       db likewise
//! ```
//!
//! A block takes a few float4 columns; its threads share out the groups of each and meet in one
//! collective. Blocks are small, so that many multiprocessors share the work. No lock: stage 1 has
//! ended. The order of the sum is fixed (a thread's groups in turn,
//! then the threads as [`Block::column_sum`] says), so equal partials give equal bits. What the
//! additions round off is added up beside them: stage 2 waits for memory, and has the time.

use core::ffi::c_void;

use crate::args::ColumnsArgs;
use crate::block::COLUMNS;
use crate::element::{Element, Lanes};
use crate::lock::LockWord;
use crate::real::{add_lanes, total_lanes};
use crate::{Block, arch};

/// Loads of one thread that are in flight together: the L2's latency is paid once for all.
const IN_FLIGHT: usize = 5;

/// 16-byte columns that one block reduces.
pub const QUADS_PER_BLOCK: usize = COLUMNS;

/// Stage 2 of the backward kernels, for dw and db of P. The grid covers a group's row of sums, each
/// chunk by itself, [`QUADS_PER_BLOCK`] per block.
///
/// # Safety
///
/// - `args.partials` as stage 1 left it, with `used_groups` groups written.
/// - `dw`, `db` null or writable over columns; the other arguments those of stage 1.
/// - Every block of the grid runs this with the same arguments.
#[inline(always)]
pub unsafe fn reduce<B: Block, P: Element>(block: &mut B, args: &ColumnsArgs) {
    let partials = args.partials;
    let groups = args.used_groups as usize;
    let packs = partials.packs;
    // A chunk of a group's row: its dw, then its db.
    let quads = packs.get() * args.lanes / P::Real::LANES;
    let blocks = (2 * quads).div_ceil(QUADS_PER_BLOCK).max(1);
    let (chunk, first) = (block.index() / blocks, block.index() % blocks * QUADS_PER_BLOCK);
    let threads = block.threads() / COLUMNS;
    let end = |quad: usize| quad >= 2 * quads || gradient(args, quads, quad).0.is_null();

    let share = |thread: usize| {
        // Stage 1 may still be running: nothing of it is read, and no lock cleared, before this.
        arch::wait_for_previous();
        let (own, column) = (thread / COLUMNS, thread % COLUMNS);
        let (mut sum, mut rest) =
            (<P::Real as Element>::Lanes::ZERO, <P::Real as Element>::Lanes::ZERO);
        let mut group = if end(first + column) { groups } else { own };
        while group < groups {
            let mut rows = [sum; IN_FLIGHT];
            for (i, row) in rows.iter_mut().enumerate() {
                // A row past the last is loaded too, from the last, and not added: no branch
                // stands between the loads.
                let group = (group + i * threads).min(groups - 1);
                let at = (group * args.chunks + chunk) * 2 * quads + first + column;
                // SAFETY: within the sums; stage 1 wrote them in an earlier launch.
                *row = P::Real::unpack(unsafe {
                    arch::load_shared_unless(false, partials.sums.cast::<crate::Pack>().add(at))
                });
            }
            for (i, row) in rows.iter().enumerate() {
                if group + i * threads < groups {
                    add_lanes::<P::Real>(&mut sum, &mut rest, *row);
                }
            }
            group += IN_FLIGHT * threads;
        }
        total_lanes::<P::Real>(sum, rest)
    };
    let take = |column: usize, sum: <P::Real as Element>::Lanes| {
        let quad = first + column;
        if end(quad) {
            return;
        }
        let (gradient, add) = gradient(args, quads, quad);
        let quad = if quad < quads { quad } else { quad - quads };
        // The inverse of the order in which stage 1 stores (`backward::gradient_to_group`).
        let (part, pack) = (quad / packs, quad % packs);
        let column = (chunk * packs.get() + pack) * args.lanes + part * P::Real::LANES;
        let valid = args.columns.saturating_sub(column).min(P::Real::LANES);
        // SAFETY: only elements within the columns are touched, each by one thread of the grid.
        unsafe {
            let at = gradient.cast::<P>().add(column);
            let before = P::unpack(arch::gather(at, if add { valid } else { 0 }));
            let mut lanes = P::Lanes::ZERO;
            for l in 0..P::Real::LANES {
                lanes[l] = sum[l] + before[l];
            }
            arch::scatter(at, P::pack(lanes), valid);
        }
    };
    block.column_sum::<P::Real>(share, take);

    if block.index() == 0 {
        let words = 2 * partials.groups.get() as usize * args.chunks;
        let threads = block.threads();
        let mut none = block.state(|_| ());
        block.each(&mut none, |thread, _| {
            let mut word = thread;
            while word < words {
                // SAFETY: within the locks; no block of this launch takes one.
                unsafe { B::Word::at(partials.locks.add(word)) }.store_relaxed(0);
                word += threads;
            }
        });
    }
}

/// Where quad `quad` of a chunk's sums goes, and whether it is added to what is there.
#[inline(always)]
fn gradient(args: &ColumnsArgs, quads: usize, quad: usize) -> (*mut c_void, bool) {
    if quad < quads { (args.dw, args.add_dw) } else { (args.db, args.add_db) }
}
