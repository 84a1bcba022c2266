//! A block of threads, as a kernel body sees it.
//!
//! A body is a sequence of phases. In [`each`](Block::each) every thread works on its own state; a
//! collective ([`sum`](Block::sum), [`column_sum`](Block::column_sum)) lets every thread contribute
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

/// Sums that [`Block::column_sum`] gives.
pub const COLUMNS: usize = 8;

/// Chains of [`Block::column_sum`].
pub const CHAINS: usize = WARP / COLUMNS;

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

    /// Sums `value(thread)`, 16 bytes of numbers, over the threads with the same `thread` mod
    /// [`COLUMNS`], and hands the sums to `take(column, sum)`: of the threads of a column, every
    /// [`CHAINS`]-th in turn, with what the additions round off, then these chains by halves. For
    /// blocks of at most 8 warps, once in a launch.
    fn column_sum<T: Real>(
        &mut self,
        value: impl FnMut(usize) -> <T as Element>::Lanes,
        take: impl FnMut(usize, <T as Element>::Lanes),
    );
}
