//! What a launch passes to a kernel: one `repr(C)` struct, the same on host and device.

use core::num::{NonZeroU32, NonZeroUsize};

use crate::element::Element;

/// A row-major matrix that a kernel reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rows<E> {
    /// First element.
    pub ptr: *const E,
    /// Elements from the start of one row to the start of the next.
    pub stride: usize,
}

/// A row-major matrix that a kernel writes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowsMut<E> {
    /// First element.
    pub ptr: *mut E,
    /// Elements from the start of one row to the start of the next.
    pub stride: usize,
}

impl<E> Rows<E> {
    /// Start of row `row`; the offset is 64-bit arithmetic.
    ///
    /// # Safety
    ///
    /// `row` must be a row of the matrix.
    #[inline(always)]
    pub unsafe fn row(&self, row: usize) -> *const E {
        // SAFETY: the caller's promise.
        unsafe { self.ptr.add(row * self.stride) }
    }
}

impl<E> RowsMut<E> {
    /// Start of row `row`; the offset is 64-bit arithmetic.
    ///
    /// # Safety
    ///
    /// `row` must be a row of the matrix.
    #[inline(always)]
    pub unsafe fn row(&self, row: usize) -> *mut E {
        // SAFETY: the caller's promise.
        unsafe { self.ptr.add(row * self.stride) }
    }
}

/// The statistics of one row, saved by forward for backward: 16 bytes, so one load.
///
/// The mean is a pair: `mean + mean_lo` is the row's mean to about twice f32's precision, and
/// x_hat = (x - mean - mean_lo) * rstd has no error from the mean even where the row's spread is
/// a millionth of it.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowStats {
    /// The f32 nearest to the row's mean.
    pub mean: f32,
    /// What `mean` leaves out.
    pub mean_lo: f32,
    /// 1 / sqrt(var + eps).
    pub rstd: f32,
    /// Zero; keeps the size a power of two.
    pub pad: f32,
}

/// Sizes shared by the kernels that go over rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Rows M.
    pub rows: usize,
    /// Columns N.
    pub columns: u32,
    /// 1 / N, rounded to f32.
    pub inverse: f32,
    /// Tiles that the ring holds, at least 2 (only for kernels that read through one).
    pub depth: u32,
}

impl Extent {
    /// M rows of N >= 1 columns.
    pub fn new(rows: usize, columns: u32) -> Self {
        Extent { rows, columns, inverse: 1.0 / columns as f32, depth: 0 }
    }
}

/// Arguments of the forward kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForwardArgs<E> {
    /// Sizes.
    pub extent: Extent,
    /// Added to the variance inside the root.
    pub eps: f32,
    /// Input (M, N).
    pub x: Rows<E>,
    /// Weight (N).
    pub w: *const E,
    /// Bias (N).
    pub b: *const E,
    /// Output (M, N).
    pub y: RowsMut<E>,
    /// Output (M).
    pub stats: *mut RowStats,
}

/// The (groups, N) partial sums of dw and db, and the groups' locks.
///
/// A group's row holds its dw, then its db, each in the order in which a block's threads hold them,
/// so that every access is one of 16 bytes beside its neighbours': lanes 0 to 3 of every pack, then
/// (16-bit types) lanes 4 to 7 of every pack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Partials {
    /// (groups, 2, packs, lanes) f32, 16-byte aligned; need not be initialised.
    pub sums: *mut f32,
    /// Two words a group: `groups` locks, then `groups` first-use flags. All zero before stage 1;
    /// stage 2 leaves them zero.
    pub locks: *mut u32,
    /// Groups.
    pub groups: NonZeroU32,
    /// Packs in a row of sums: those of N, rounded up to what the block's threads hold.
    pub packs: NonZeroUsize,
}

/// Arguments of stage 1 of backward.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BackwardArgs<E> {
    /// Sizes.
    pub extent: Extent,
    /// Input of forward (M, N).
    pub x: Rows<E>,
    /// Gradient of the output (M, N).
    pub dy: Rows<E>,
    /// Weight (N).
    pub w: *const E,
    /// Saved by forward (M).
    pub stats: *const RowStats,
    /// Gradient of the input (M, N), written.
    pub dx: RowsMut<E>,
    /// Where dw and db are gathered.
    pub partials: Partials,
}

/// Arguments of stage 2 of backward.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ColumnsArgs<E> {
    /// Columns N.
    pub columns: u32,
    /// Groups that stage 1 has written: no more than it had blocks.
    pub used_groups: u32,
    /// Left by stage 1.
    pub partials: Partials,
    /// Gradient of the weight (N), written.
    pub dw: *mut E,
    /// Gradient of the bias (N), written.
    pub db: *mut E,
}

/// Lanes of `E` that lie in pack `pack` of a row of `columns`: 0, some, or all of them.
#[inline(always)]
pub fn valid_lanes<E: Element>(columns: u32, pack: usize) -> usize {
    (columns as usize).saturating_sub(pack * E::LANES).min(E::LANES)
}
