//! What a launch passes to a kernel: one `repr(C)` struct, the same on host and device.
//!
//! Pointers are untyped: the types are those of the instance that is launched.

use core::ffi::c_void;
use core::num::{NonZeroU32, NonZeroUsize};

/// A row-major matrix that a kernel reads; null where it is optional and absent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// First element.
    pub ptr: *const c_void,
    /// Elements from the start of one row to the start of the next; 0 if all rows are one.
    pub stride: usize,
}

/// A row-major matrix that a kernel writes; null where it is optional and absent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowsMut {
    /// First element.
    pub ptr: *mut c_void,
    /// Elements from the start of one row to the start of the next.
    pub stride: usize,
}

/// Elements before row `row`: 64-bit arithmetic.
#[inline(always)]
const fn offset(row: usize, stride: usize) -> usize {
    row * stride
}

impl Rows {
    /// No matrix.
    pub const NONE: Rows = Rows { ptr: core::ptr::null(), stride: 0 };

    /// Start of row `row`.
    ///
    /// # Safety
    ///
    /// `row` must be a row of the matrix, which is of E.
    #[inline(always)]
    pub unsafe fn row<E>(&self, row: usize) -> *const E {
        // SAFETY: the caller's promise.
        unsafe { self.ptr.cast::<E>().add(offset(row, self.stride)) }
    }
}

impl RowsMut {
    /// No matrix.
    pub const NONE: RowsMut = RowsMut { ptr: core::ptr::null_mut(), stride: 0 };

    /// Start of row `row`.
    ///
    /// # Safety
    ///
    /// `row` must be a row of the matrix, which is of E.
    #[inline(always)]
    pub unsafe fn row<E>(&self, row: usize) -> *mut E {
        // SAFETY: the caller's promise.
        unsafe { self.ptr.cast::<E>().add(offset(row, self.stride)) }
    }
}

/// The statistics of one row, saved by forward for backward: 16 bytes of f32 or 32 of f64.
///
/// The mean is a pair: `mean + mean_lo` is the row's mean to about twice the precision of `T`, and
/// x_hat = (x - mean - mean_lo) * (rstd + rstd_lo) has no error from the mean even where the row's
/// spread is a millionth of it.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowStats<T> {
    /// The number nearest to the row's mean; 0 in RMSNorm.
    pub mean: T,
    /// What `mean` leaves out.
    pub mean_lo: T,
    /// 1 / sqrt(var + eps).
    pub rstd: T,
    /// What `rstd` leaves out; 0 where x is of 16 bits and its rows are not split.
    pub rstd_lo: T,
}

/// A number in both precisions: a kernel reads the one that it calculates in where it needs it,
/// where a conversion would occupy a register for the whole launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Scalar {
    /// For f64.
    pub double: f64,
    /// For f32: the nearest to it.
    pub single: f32,
}

impl From<f64> for Scalar {
    fn from(double: f64) -> Self {
        Scalar { double, single: double as f32 }
    }
}

/// Sizes shared by the kernels that go over rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Rows M.
    pub rows: usize,
    /// Columns N.
    pub columns: usize,
    /// N as a number.
    pub n: Scalar,
    /// 1 / N.
    pub inverse: Scalar,
    /// Chunks into which a row is split: 1 for the kernels that hold a whole row.
    pub chunks: NonZeroUsize,
    /// Tiles that the ring holds (only for kernels that read through one): at least 1 in forward, which
    /// holds a tile in registers, and 2 in backward.
    pub depth: u32,
    /// Blocks that start late, and the rows that they share (only in forward through a ring).
    pub late: Late,
}

/// The last rows of a launch, and the last blocks of its grid, which share them out among themselves.
/// There is no room for these blocks when the launch begins: they start where others have ended, on the
/// multiprocessors that got through their rows first.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The first of the rows, that of a tile.
    pub first_row: usize,
    /// The blocks; if there are none, there are no such rows.
    pub blocks: u32,
}

impl Late {
    /// All blocks share all rows.
    pub const NONE: Late = Late { first_row: usize::MAX, blocks: 0 };
}

impl Extent {
    /// M rows of N >= 1 columns, each in one piece.
    pub fn new(rows: usize, columns: usize) -> Self {
        let n = columns as f64;
        let (n, inverse) = (n.into(), (1.0 / n).into());
        Extent { rows, columns, n, inverse, chunks: NonZeroUsize::MIN, depth: 0, late: Late::NONE }
    }
}

/// Arguments of the kernels of forward.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ForwardArgs {
    /// Sizes.
    pub extent: Extent,
    /// Added to the variance inside the root.
    pub eps: Scalar,
    /// Added to w; 1 where w is absent, since an absent w is read as 0.
    pub weight_offset: Scalar,
    /// Whether the mean is taken to be 0: RMSNorm.
    pub rms: bool,
    /// Input (M, N).
    pub x: Rows,
    /// Added to x before anything else (M, N); optional.
    pub residual: Rows,
    /// Weight (N); optional.
    pub w: *const c_void,
    /// Bias (N); optional.
    pub b: *const c_void,
    /// Output (M, N): x + residual, which is what is normalised; present if `residual` is.
    pub sum: RowsMut,
    /// Output (M, N).
    pub y: RowsMut,
    /// Output: [`RowStats`] (M).
    pub stats: *mut c_void,
    /// Scratch of the kernels that split rows: (2, M, chunks, 4) numbers, 16-byte aligned.
    pub parts: *mut c_void,
}

/// The (groups, N) partial sums of dw and db, and the groups' locks.
///
/// A group's row holds, for each chunk, its dw, then its db, each in the order in which a block's
/// threads hold them, so that every access is one of 16 bytes beside its neighbours': the first 16
/// bytes of sums of every pack, then (16-bit types) the other 16 of every pack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Partials {
    /// (groups, chunks, 2, packs, lanes) numbers, 16-byte aligned; need not be initialised. Null if
    /// neither dw nor db is asked for.
    pub sums: *mut c_void,
    /// Two words a group and chunk: all locks, then all first-use flags. All zero before stage 1;
    /// stage 2 leaves them zero.
    pub locks: *mut u32,
    /// Groups.
    pub groups: NonZeroU32,
    /// Packs in a chunk of a row of sums: those of its columns, rounded up to what the block's
    /// threads hold.
    pub packs: NonZeroUsize,
}

impl Partials {
    /// None: neither dw nor db is asked for.
    pub const NONE: Partials = Partials {
        sums: core::ptr::null_mut(),
        locks: core::ptr::null_mut(),
        groups: NonZeroU32::MIN,
        packs: NonZeroUsize::MIN,
    };
}

/// Arguments of stage 1 of backward.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BackwardArgs {
    /// Sizes.
    pub extent: Extent,
    /// As in forward.
    pub weight_offset: Scalar,
    /// As in forward.
    pub rms: bool,
    /// Whether the gradient of w is asked for.
    pub want_dw: bool,
    /// Whether the gradient of b is asked for.
    pub want_db: bool,
    /// What forward normalised (M, N).
    pub x: Rows,
    /// Gradient of the output (M, N).
    pub dy: Rows,
    /// Weight (N); optional.
    pub w: *const c_void,
    /// Saved by forward: [`RowStats`] (M).
    pub stats: *const c_void,
    /// Added to dx, each optional (M, N): the gradient of forward's `sum`, and what dx held before.
    pub add: [Rows; 2],
    /// Gradient of the input (M, N); absent if it is not asked for.
    pub dx: RowsMut,
    /// Where dw and db are gathered.
    pub partials: Partials,
    /// Scratch of the kernels that split rows: (M, chunks + 1, 4) numbers, 16-byte aligned.
    pub parts: *mut c_void,
}

/// Arguments of stage 2 of backward.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ColumnsArgs {
    /// Columns N.
    pub columns: usize,
    /// Chunks of a row.
    pub chunks: usize,
    /// Elements of x in a pack.
    pub lanes: usize,
    /// Groups that stage 1 has written: no more than it had blocks for a chunk.
    pub used_groups: u32,
    /// Whether dw is added to what is there; else written over it.
    pub add_dw: bool,
    /// The same of db.
    pub add_db: bool,
    /// Left by stage 1.
    pub partials: Partials,
    /// Gradient of the weight (N); absent if it is not asked for.
    pub dw: *mut c_void,
    /// Gradient of the bias (N); absent if it is not asked for.
    pub db: *mut c_void,
}

/// Arguments of the kernel that moves the bytes of forward or backward and does no more.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LimitArgs {
    /// What is copied.
    pub x: *const c_void,
    /// What is added to it; optional.
    pub dy: *const c_void,
    /// Where the copy or the sum goes.
    pub out: *mut c_void,
    /// Packs of each.
    pub packs: usize,
}

#[cfg(test)]
mod tests {
    use super::offset;

    #[test]
    fn offsets_are_64_bit() {
        let cases: [(usize, usize, u64); 5] = [
            ((1 << 31) - 1, 1, 2_147_483_647),
            (1 << 20, 1 << 11, 2_147_483_648),
            ((1 << 32) + 1, 1, 4_294_967_297),
            (1_048_640, 4096, 4_295_229_440),
            (3, (1 << 33) + 8, 25_769_803_800),
        ];
        for (row, stride, right) in cases {
            assert_eq!(offset(row, stride) as u64, right, "{row} * {stride}");
        }
    }
}
