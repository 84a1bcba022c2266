//! The limit of LayerNorm's speed: elementwise kernels that move the same bytes.
//!
//! ```text
//! out = x         as forward, which reads x and writes y
//! out = x + dy    as backward, which reads x and dy and writes dx
//! ```

use crate::Block;
use crate::args::LimitArgs;
use crate::element::{Element, Pack};
use crate::forward::add_packs;
use crate::memory;

/// Packs of each tensor that a thread takes: all are loaded before the first is stored.
pub const PACKS: usize = 4;

/// Copies x, or adds dy to it where there is one. The grid covers the packs, [`PACKS`] a thread.
///
/// # Safety
///
/// - `args.x`, and `args.dy` unless null, are readable over `args.packs` packs, and `args.out`
///   writable, each from a 16-byte boundary on if `ALIGNED`; `out` overlaps neither.
/// - Every block of the grid runs this with the same arguments.
#[inline(always)]
pub unsafe fn elementwise<B: Block, E: Element, const ALIGNED: bool>(
    block: &mut B,
    args: &LimitArgs,
) {
    let (x, dy) = (args.x.cast::<E>(), args.dy.cast::<E>());
    // SAFETY: the caller's promises.
    unsafe {
        if dy.is_null() {
            map::<B, E, ALIGNED, 1>(block, args, [x], |[x]| x);
        } else {
            map::<B, E, ALIGNED, 2>(block, args, [x, dy], |[x, dy]| add_packs::<E>(x, dy));
        }
    }
}

/// Stores what `value` makes of the packs of `inputs`.
///
/// # Safety
///
/// As for [`elementwise`].
#[inline(always)]
unsafe fn map<B: Block, E: Element, const ALIGNED: bool, const K: usize>(
    block: &mut B,
    args: &LimitArgs,
    inputs: [*const E; K],
    value: impl Fn([Pack; K]) -> Pack,
) {
    let threads = block.threads();
    let share = PACKS * threads;
    let first = block.index() * share;
    let columns = args.packs.saturating_sub(first).min(share) * E::LANES;
    let first = first * E::LANES;
    let mut none = block.state(|_| ());
    block.each(&mut none, |thread, _| {
        let pack = |v| v * threads + thread;
        let mut packs = [[Pack::default(); K]; PACKS];
        // SAFETY: the caller's promises; each thread stores its own packs.
        unsafe {
            for v in 0..PACKS {
                for k in 0..K {
                    packs[v][k] = memory::load(ALIGNED, inputs[k].add(first), columns, pack(v));
                }
            }
            let out = args.out.cast::<E>().add(first);
            for v in 0..PACKS {
                memory::store(ALIGNED, out, columns, pack(v), value(packs[v]));
            }
        }
    });
}
