//! Backward, stage 2: the groups' partial sums to dw and db.
//!
//! ```text
//! dw[j] = sum over groups of partial_dw[group][j]       db likewise
//! ```
//!
//! A block takes one float4 column per lane; its warps share the groups among them and meet in one
//! collective. No lock: stage 1 has ended. The order of the sum is fixed (a
//! warp's groups in turn, then the warps in turn), so equal partials give equal bits.

use crate::args::{ColumnsArgs, valid_lanes};
use crate::block::WARP;
use crate::element::{Element, Lanes};
use crate::lock::LockWord;
use crate::{Block, arch};

/// Loads of one thread that are in flight together: the L2's latency is paid once for all.
const IN_FLIGHT: usize = 5;

/// float4 columns that one block reduces.
pub const QUADS_PER_BLOCK: usize = WARP;

/// Stage 2 of the backward kernels. The grid covers a group's row of sums, [`QUADS_PER_BLOCK`] per block.
///
/// # Safety
///
/// - `args.partials` as stage 1 left it, with `used_groups` groups written.
/// - `dw`, `db` writable over columns.
/// - Every block of the grid runs this with the same arguments.
#[inline(always)]
pub unsafe fn reduce<B: Block, E: Element>(block: &mut B, args: &ColumnsArgs<E>) {
    // Stage 1 may still be running: nothing of it is read, and no lock cleared, before this.
    arch::wait_for_previous();
    let partials = args.partials;
    let groups = args.used_groups as usize;
    let quads = partials.packs.get() * E::LANES / 4;
    let first = block.index() * QUADS_PER_BLOCK;
    let warps = block.threads() / WARP;

    let share = |thread: usize| {
        let (warp, lane) = (thread / WARP, thread % WARP);
        let mut sum = [0.0; 4];
        let mut group = warp;
        while group < groups && first + lane < 2 * quads {
            let mut rows = [[0.0; 4]; IN_FLIGHT];
            for (i, row) in rows.iter_mut().enumerate() {
                // A row past the last is loaded too, from the last, and not added: no branch
                // stands between the loads.
                let group = (group + i * warps).min(groups - 1);
                let at = 4 * (group * 2 * quads + first + lane);
                // SAFETY: within the sums; stage 1 wrote them in an earlier launch.
                *row = unsafe { arch::load_shared_f32(partials.sums.add(at)) };
            }
            for (i, row) in rows.iter().enumerate() {
                if group + i * warps < groups {
                    for l in 0..4 {
                        sum[l] += row[l];
                    }
                }
            }
            group += IN_FLIGHT * warps;
        }
        sum
    };
    let take = |lane: usize, sum: [f32; 4]| {
        let quad = first + lane;
        if quad >= 2 * quads {
            return;
        }
        let (gradient, quad) = if quad < quads { (args.dw, quad) } else { (args.db, quad - quads) };
        // The inverse of the order in which stage 1 stores (`backward::merge`).
        let (quarter, pack) = (quad / partials.packs, quad % partials.packs);
        let valid = valid_lanes::<E>(args.columns, pack).saturating_sub(4 * quarter).min(4);
        let mut lanes = E::Lanes::ZERO;
        for l in 0..4 {
            lanes[l] = sum[l];
        }
        // SAFETY: only lanes within the columns are stored, each by one thread of the grid.
        unsafe {
            arch::scatter(gradient.add(pack * E::LANES + 4 * quarter), E::pack(lanes), valid);
        }
    };
    block.lane_sum(share, take);

    if block.index() == 0 {
        let (threads, words) = (block.threads(), 2 * partials.groups.get() as usize);
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
