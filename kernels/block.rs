//! A block of threads, as a kernel body sees it.
//!
//! A body is a sequence of phases. In [`each`](Block::each) every thread works on its own state; a
//! collective ([`sum`](Block::sum), [`lane_sum`](Block::lane_sum)) lets every thread contribute
//! and gives a uniform result. A body never sees one thread's control flow, so it cannot place a
//! barrier where only some threads arrive, and the same body runs on a GPU and on a CPU.
//!
//! **Order.** Floating-point addition is not associative, so the order of every collective is fixed here and
//! kept by both implementations: threads of a warp by halves (lane i with i + 16, then + 8, + 4,
//! + 2, + 1), then the warps' sums by halves of [`MAX_WARPS`], missing warps counting as zero.

use crate::element::Element;
use crate::lock::Gate;
use crate::real::Real;

/// Threads in a warp: the unit of the collectives' order.
pub const WARP: usize = 32;

/// Most warps of a block that takes part in [`Block::sum`].
pub const MAX_WARPS: usize = 16;

/// Chains of [`Block::lane_sum`]: short ones, so that the sum of 32 warps rounds off little more
/// than a tree's.
pub const CHAINS: usize = 4;

/// A block of threads.
pub trait Block: Gate {
    /// One `S` per thread: a thread's registers on a GPU, a `Vec` on the CPU.
    type State<S>;

    /// Index of this block in the grid.
    fn index(&self) -> usize;
    /// Blocks in the grid.
    fn grid(&self) -> usize;
    /// Threads in this block, a multiple of [`WARP`]. To be asked for where it is used.
    fn threads(&self) -> usize;

    /// Every thread's state, made by `init(thread)`.
    fn state<S>(&self, init: impl FnMut(usize) -> S) -> Self::State<S>;

    /// Every thread runs `phase(thread, its state)`. Threads do not see each other's writes before
    /// the next collective.
    fn each<S>(&mut self, state: &mut Self::State<S>, phase: impl FnMut(usize, &mut S));

    /// Every thread runs `phase`; the results are summed over the block, each of the R * K values
    /// by itself. A barrier lies in it: what threads wrote before is seen by all after.
    ///
    /// For blocks of at most [`MAX_WARPS`] warps, and R * K of 1, 2, 4 or 8.
    fn sum<S, T: Real, const R: usize, const K: usize>(
        &mut self,
        state: &mut Self::State<S>,
        phase: impl FnMut(usize, &mut S) -> [[T; K]; R],
    ) -> [[T; K]; R];

    /// Sums `value(thread)`, 16 bytes of numbers, over the threads of the same lane, and hands each
    /// of the [`WARP`] sums to `take(lane, sum)`: every [`CHAINS`]-th warp in turn, then these chains
    /// by halves. For blocks of at most 32 warps, once in a launch.
    fn lane_sum<T: Real>(
        &mut self,
        value: impl FnMut(usize) -> <T as Element>::Lanes,
        take: impl FnMut(usize, <T as Element>::Lanes),
    );
}

/// The sum of the chains of [`Block::lane_sum`], by halves.
#[inline(always)]
pub(crate) fn fold_chains<T: Real>(
    mut chains: [<T as Element>::Lanes; CHAINS],
) -> <T as Element>::Lanes {
    let mut distance = CHAINS / 2;
    while distance > 0 {
        for i in 0..distance {
            for l in 0..T::LANES {
                let other = chains[i + distance][l];
                chains[i][l] += other;
            }
        }
        distance /= 2;
    }
    chains[0]
}
