//! One LayerNorm in pointers: from what a framework knows of it to plans and kernel arguments.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::ptr;

use kernels::args::{BackwardArgs, ColumnsArgs, Extent, ForwardArgs, Partials, Rows, RowsMut};

use crate::plan::{self, Backward, DeviceInfo, Forward, Storage, Want, Work};
use crate::{Error, Options, Result};

/// What both directions share: M rows of N columns, their types and addresses.
///
/// Residuals, weight offsets and sums onto older gradients are not of it: for those, fill
/// [`ForwardArgs`] and [`BackwardArgs`] yourself.
///
/// ```
/// use ferronorm::args::{RowStats, Rows, RowsMut};
/// use ferronorm::plan::{DataType, Storage};
/// use ferronorm::raw::{Call, Cpu};
///
/// # fn main() -> ferronorm::Result<()> {
/// let (x, mut y, mut stats) = ([1.0f32, 3.0], [0.0f32; 2], [RowStats::<f32>::default(); 1]);
/// let call = Call {
///     rows: 1,
///     columns: 2,
///     storage: Storage::of(DataType::F32),
///     eps: 0.0,
///     rms: false,
///     x: Rows { ptr: x.as_ptr().cast(), stride: 2 },
///     w: std::ptr::null(),
///     b: std::ptr::null(),
/// };
/// let (cpu, y_rows) = (Cpu::new(1), RowsMut { ptr: y.as_mut_ptr().cast(), stride: 2 });
/// let plan = call.plan_forward(cpu.info(), y_rows, Default::default())?;
/// assert_eq!(plan.parts, 0, "bytes of scratch: none for rows of this length");
/// let args = call.forward(y_rows, stats.as_mut_ptr().cast(), std::ptr::null_mut());
/// // SAFETY: the arrays are of these sizes and types, and only this thread uses them.
/// unsafe { cpu.forward(&plan, &args) };
/// assert_eq!(y, [-1.0, 1.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Rows M.
    pub rows: usize,
    /// Columns N.
    pub columns: usize,
    /// Types of x, dy, y and dx, and of w, b, dw and db: a pair of [`Storage::ALL`].
    pub storage: Storage,
    /// Added to the variance inside the root. A row for which the sum is negative is NaN.
    pub eps: f64,
    /// RMSNorm: the mean is taken to be 0.
    pub rms: bool,
    /// Input (M, N).
    pub x: Rows,
    /// Weight (N); null for none.
    pub w: *const c_void,
    /// Bias (N); null for none.
    pub b: *const c_void,
}

/// What backward reads and writes beside what [`Call`] names.
#[derive(Clone, Copy, Debug)]
pub struct Gradients {
    /// Gradient of y (M, N).
    pub dy: Rows,
    /// Gradient of x (M, N); [`RowsMut::NONE`] if it is not asked for.
    pub dx: RowsMut,
    /// Gradient of w (N); null if it is not asked for.
    pub dw: *mut c_void,
    /// Gradient of b (N); null if it is not asked for.
    pub db: *mut c_void,
}

impl Gradients {
    fn want(&self) -> Want {
        Want { dx: !self.dx.ptr.is_null(), dw: !self.dw.is_null(), db: !self.db.is_null() }
    }
}

/// Scratch memory of backward, of the sizes that its plan says; null where that is 0.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// [`Backward::sums`] bytes, 16-byte aligned.
    pub sums: *mut c_void,
    /// [`Backward::locks`] words: 0 before, 0 after.
    pub locks: *mut u32,
    /// [`Backward::parts`] bytes, 16-byte aligned.
    pub parts: *mut c_void,
}

impl Call {
    /// Plans forward for a device.
    ///
    /// # Errors
    ///
    /// [`Error::Dtypes`], and those of [`plan::forward`].
    pub fn plan_forward(
        &self,
        device: DeviceInfo,
        y: RowsMut,
        options: Options,
    ) -> Result<Forward> {
        self.check()?;
        let rows = [self.x, Rows { ptr: y.ptr, stride: y.stride }];
        plan::forward(device, self.work(rows, self.b), options)
    }

    /// Forward's arguments. `stats` has room for M [`kernels::args::RowStats`] of f32, or of f64 if
    /// x is of that; `parts` has [`Forward::parts`] bytes, 16-byte aligned.
    pub fn forward(&self, y: RowsMut, stats: *mut c_void, parts: *mut c_void) -> ForwardArgs {
        ForwardArgs {
            extent: self.extent(),
            eps: self.eps.into(),
            weight_offset: self.weight_offset().into(),
            rms: self.rms,
            x: self.x,
            residual: Rows::NONE,
            w: self.w,
            b: self.b,
            sum: RowsMut::NONE,
            y,
            stats,
            parts,
        }
    }

    /// Plans backward for a device.
    ///
    /// # Errors
    ///
    /// [`Error::Dtypes`], and those of [`plan::backward`].
    pub fn plan_backward(
        &self,
        device: DeviceInfo,
        gradients: &Gradients,
        options: Options,
    ) -> Result<Backward> {
        self.check()?;
        let (want, Gradients { dy, dx, .. }) = (gradients.want(), *gradients);
        let work = self.work([self.x, dy], ptr::null());
        let aligned = work.aligned && self.aligned(&[Rows { ptr: dx.ptr, stride: dx.stride }], &[]);
        plan::backward(device, Work { aligned, plain: want.dx, ..work }, options, want)
    }

    /// The arguments of both stages of backward. `stats` is what forward wrote.
    pub fn backward(
        &self,
        plan: &Backward,
        gradients: &Gradients,
        stats: *const c_void,
        scratch: Scratch,
    ) -> (BackwardArgs, ColumnsArgs) {
        let (want, Gradients { dy, dx, dw, db }) = (gradients.want(), *gradients);
        let Scratch { sums, locks, parts } = scratch;
        let groups = NonZeroU32::new(plan.groups).unwrap_or(NonZeroU32::MIN);
        let partials = Partials { sums, locks, groups, packs: plan.packs };
        let rows = BackwardArgs {
            extent: self.extent(),
            weight_offset: self.weight_offset().into(),
            rms: self.rms,
            want_dw: want.dw,
            want_db: want.db,
            x: self.x,
            dy,
            w: self.w,
            stats,
            add: [Rows::NONE; 2],
            dx,
            partials,
            parts,
        };
        let columns = ColumnsArgs {
            columns: self.columns,
            chunks: plan.chunks.get(),
            lanes: self.storage.x.lanes(),
            used_groups: plan.used_groups,
            add_dw: false,
            add_db: false,
            partials,
            dw,
            db,
        };
        (rows, columns)
    }

    fn check(&self) -> Result<()> {
        match Storage::ALL.contains(&self.storage) {
            true => Ok(()),
            false => Err(Error::Dtypes { x: self.storage.x, w: self.storage.params }),
        }
    }

    fn extent(&self) -> Extent {
        Extent::new(self.rows, self.columns)
    }

    /// An absent w is read as 0, and so is 1 by what is added to it.
    fn weight_offset(&self) -> f64 {
        if self.w.is_null() { 1.0 } else { 0.0 }
    }

    fn work(&self, rows: [Rows; 2], b: *const c_void) -> Work {
        let Call { columns, storage, w, .. } = *self;
        let aligned = self.aligned(&rows, &[w, b]);
        Work { rows: self.rows, columns, storage, aligned, plain: true }
    }

    fn aligned(&self, rows: &[Rows], vectors: &[*const c_void]) -> bool {
        let of = |pointer: *const c_void, stride| {
            plan::aligned(&[pointer as usize], &[stride], self.columns, self.storage.x)
        };
        rows.iter().all(|rows| of(rows.ptr, rows.stride)) && vectors.iter().all(|v| of(*v, 0))
    }
}
