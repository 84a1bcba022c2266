//! What a caller may choose.

/// How rows are given to blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Blocks stay for many rows; the grid comes from the device.
    #[default]
    Persistent,
    /// One block per row, and groups by the seed's table: the algorithm to the letter, kept to
    /// compare with.
    Seed,
}

/// How many rows a block takes at a time. y and dx do not depend on it; dw and db are summed in
/// another order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tile {
    /// The planner's choice.
    #[default]
    Auto,
    /// One, read from global memory.
    One,
    /// As many as the kernels with a ring take, where rows are whole aligned packs and there is a
    /// ring (or, on the CPU, none is needed); else one.
    Several,
}

/// How the blocks' shares of dw and db meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// The planner's choice: as [`Reduction::Deterministic`], which is also the faster, but for
    /// [`Mode::Seed`]. Two blocks that share a group and end together wait for each other's whole
    /// merge: 0.8 us with 2 blocks to a group, 5 us with 4 (f16, M = 4096, N = 1024, H200).
    #[default]
    Auto,
    /// Blocks share groups, and take turns under their locks: few partial sums, whose last bits
    /// depend on the order of the blocks' arrival.
    GroupLocks,
    /// A group for each block, summed in a fixed order: dw and db have the same bits in every run.
    /// (They still depend on the number of blocks.)
    Deterministic,
}

/// What a caller may choose. The default is the planner's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// How rows are given to blocks.
    pub mode: Mode,
    /// Blocks of the kernels that go over rows, at most; `None` for the planner's choice.
    pub blocks: Option<u32>,
    /// Groups whose blocks share a lock and a row of partial sums; `None` for what `reduction` says.
    pub groups: Option<u32>,
    /// How many rows a block takes at a time.
    pub tile: Tile,
    /// How the blocks' shares of dw and db meet.
    pub reduction: Reduction,
}

/// The gradients that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of x.
    pub dx: bool,
    /// Of w.
    pub dw: bool,
    /// Of b.
    pub db: bool,
}

impl Want {
    /// All of them.
    pub const ALL: Want = Want { dx: true, dw: true, db: true };
}
