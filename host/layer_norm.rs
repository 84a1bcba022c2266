//! LayerNorm on owned tensors: forward returns y and what backward needs; backward takes it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kernels::args::{BackwardArgs, ColumnsArgs, Extent, ForwardArgs, RowStats, Rows, RowsMut};

use crate::device::Backend;
use crate::device::buffer::Buffer;
use crate::plan::{self, Options, Work};
use crate::scratch::Scratch;
use crate::{Device, Dtype, Result, Tensor};

mod checks;

/// LayerNorm over the last dimension, on one device.
///
/// Work goes to the device's stream in the order of the calls; on a GPU, calls return before it is
/// done. The `_into` forms launch and nothing else: they allocate only when a larger shape than any
/// before needs more scratch. The other forms allocate their results first.
pub struct LayerNorm {
    device: Device,
    options: Options,
    scratch: Mutex<Scratch>,
}

/// The row statistics that forward saves.
pub struct Statistics(Buffer<RowStats>);

impl Statistics {
    /// Room for the statistics of `rows` rows.
    ///
    /// # Errors
    ///
    /// [`crate::Error::OutOfMemory`], or another driver error.
    pub fn new(device: &Device, rows: usize) -> Result<Self> {
        Ok(Statistics(Buffer::zeroed(device, rows)?))
    }

    /// Each row's mean, its rest and rstd, after the work before it.
    ///
    /// # Errors
    ///
    /// A driver error, also of the work before it.
    pub fn to_vec(&self) -> Result<Vec<RowStats>> {
        self.0.to_vec()
    }
}

/// What forward saves for backward: the statistics, and its own arguments, borrowed.
pub struct Saved<'a, E> {
    x: &'a Tensor<E>,
    w: &'a Tensor<E>,
    statistics: Statistics,
}

impl<'a, E> Saved<'a, E> {
    /// What [`LayerNorm::forward_into`] saved: its x and w, and the statistics that it wrote.
    pub fn new(x: &'a Tensor<E>, w: &'a Tensor<E>, statistics: Statistics) -> Self {
        Saved { x, w, statistics }
    }

    /// The row statistics.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}

/// The gradients of forward's arguments.
pub struct Gradients<E> {
    /// Of x: (M, N).
    pub dx: Tensor<E>,
    /// Of w: (1, N).
    pub dw: Tensor<E>,
    /// Of b: (1, N).
    pub db: Tensor<E>,
}

impl<E: Dtype> Gradients<E> {
    /// Room for the gradients of an x of this shape.
    ///
    /// # Errors
    ///
    /// [`crate::Error::OutOfMemory`], or another driver error.
    pub fn new(device: &Device, [rows, columns]: [usize; 2]) -> Result<Self> {
        Ok(Gradients {
            dx: Tensor::output(device, [rows, columns])?,
            dw: Tensor::output(device, [1, columns])?,
            db: Tensor::output(device, [1, columns])?,
        })
    }
}

/// What each of backward's kernels took.
#[derive(Clone, Copy, Debug)]
pub struct KernelTimes {
    /// Stage 1.
    pub rows: Duration,
    /// Stage 2.
    pub columns: Duration,
}

impl LayerNorm {
    /// LayerNorm on `device`, as the planner thinks best.
    pub fn new(device: &Device) -> Self {
        Self::with_options(device, Options::default())
    }

    /// LayerNorm on `device`, with choices of the caller's.
    pub fn with_options(device: &Device, options: Options) -> Self {
        let scratch = Mutex::new(Scratch::new(device));
        LayerNorm { device: device.clone(), options, scratch }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// y = (x - mean) / sqrt(var + eps) * w + b for each row of x (M, N), with w and b (1, N); and
    /// what [`LayerNorm::backward`] needs.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Shape`], [`crate::Error::DeviceMismatch`], [`crate::Error::Epsilon`],
    /// [`crate::Error::Columns`], [`crate::Error::ZeroOption`], [`crate::Error::OutOfMemory`], or
    /// another driver error.
    pub fn forward<'a, E: Dtype>(
        &self,
        x: &'a Tensor<E>,
        w: &'a Tensor<E>,
        b: &Tensor<E>,
        eps: f32,
    ) -> Result<(Tensor<E>, Saved<'a, E>)> {
        self.check_forward(x, w, b, eps)?;
        let mut y = Tensor::output(&self.device, x.shape())?;
        let mut statistics = Statistics(Buffer::new(&self.device, x.shape()[0])?);
        self.forward_into(x, w, b, eps, &mut y, &mut statistics)?;
        Ok((y, Saved { x, w, statistics }))
    }

    /// [`LayerNorm::forward`] into memory of the caller's. [`Saved::new`] makes of it what backward
    /// needs.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward`], and [`crate::Error::Length`] for the statistics.
    pub fn forward_into<E: Dtype>(
        &self,
        x: &Tensor<E>,
        w: &Tensor<E>,
        b: &Tensor<E>,
        eps: f32,
        y: &mut Tensor<E>,
        statistics: &mut Statistics,
    ) -> Result<()> {
        self.check_forward(x, w, b, eps)?;
        self.check_tensor("y", y, x.shape())?;
        let [rows, columns] = x.shape();
        self.check_statistics(statistics, rows)?;
        let launch = plan::forward(self.device.info(), work::<E>(rows, columns), self.options)?;
        let args = ForwardArgs {
            extent: Extent::new(rows, columns as u32),
            eps,
            x: Rows { ptr: x.as_ptr(), stride: columns },
            w: w.as_ptr(),
            b: b.as_ptr(),
            y: RowsMut { ptr: y.as_mut_ptr(), stride: columns },
            stats: statistics.0.as_mut_ptr(),
        };
        match &*self.device.0 {
            // SAFETY: the tensors are on this device, checked for size, and `y` and `statistics`
            // are borrowed for writing, so that they overlap nothing.
            Backend::Cpu(cpu) => unsafe { cpu.forward(&launch, &args) },
            Backend::Gpu(gpu) => {
                gpu.enter()?;
                // SAFETY: as above; a buffer's memory is not freed before the stream is idle.
                unsafe { gpu.kernels().forward(&launch, &args, gpu.stream())? }
            }
        }
        Ok(())
    }

    /// The gradients of x, w and b from dy (M, N), the gradient of y.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward`].
    pub fn backward<E: Dtype>(&self, saved: &Saved<'_, E>, dy: &Tensor<E>) -> Result<Gradients<E>> {
        self.check_backward(saved.x, saved.w, &saved.statistics, dy)?;
        let mut gradients = Gradients::new(&self.device, saved.x.shape())?;
        self.backward_into(saved, dy, &mut gradients)?;
        Ok(gradients)
    }

    /// [`LayerNorm::backward`] into memory of the caller's.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward`].
    pub fn backward_into<E: Dtype>(
        &self,
        saved: &Saved<'_, E>,
        dy: &Tensor<E>,
        gradients: &mut Gradients<E>,
    ) -> Result<()> {
        self.stages(saved, dy, gradients, |_, launch| launch())
    }

    /// [`LayerNorm::backward_into`], with the time of each kernel. Waits for each.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward`].
    pub fn backward_timed<E: Dtype>(
        &self,
        saved: &Saved<'_, E>,
        dy: &Tensor<E>,
        gradients: &mut Gradients<E>,
    ) -> Result<KernelTimes> {
        let mut times = [Duration::ZERO; 2];
        self.stages(saved, dy, gradients, |stage, launch| {
            times[stage] = self.device.time(launch)?;
            Ok(())
        })?;
        Ok(KernelTimes { rows: times[0], columns: times[1] })
    }

    /// Both stages, each launched by `run(0 or 1, launch)`.
    fn stages<E: Dtype>(
        &self,
        saved: &Saved<'_, E>,
        dy: &Tensor<E>,
        gradients: &mut Gradients<E>,
        mut run: impl FnMut(usize, &mut dyn FnMut() -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let Saved { x, w, statistics } = saved;
        self.check_backward(x, w, statistics, dy)?;
        let [rows, columns] = x.shape();
        self.check_tensor("dx", &gradients.dx, [rows, columns])?;
        self.check_tensor("dw", &gradients.dw, [1, columns])?;
        self.check_tensor("db", &gradients.db, [1, columns])?;
        let plan = plan::backward(self.device.info(), work::<E>(rows, columns), self.options)?;

        // A panic elsewhere leaves nothing half done here: the scratch knows if it is clean.
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let partials = scratch.take(&plan)?;
        let args = BackwardArgs {
            extent: Extent::new(rows, columns as u32),
            x: Rows { ptr: x.as_ptr(), stride: columns },
            dy: Rows { ptr: dy.as_ptr(), stride: columns },
            w: w.as_ptr(),
            stats: statistics.0.as_ptr(),
            dx: RowsMut { ptr: gradients.dx.as_mut_ptr(), stride: columns },
            partials,
        };
        let columns_args = ColumnsArgs {
            columns: columns as u32,
            used_groups: plan.used_groups(),
            partials,
            dw: gradients.dw.as_mut_ptr(),
            db: gradients.db.as_mut_ptr(),
        };
        match &*self.device.0 {
            // SAFETY: the tensors are on this device, checked for size, and the gradients are
            // borrowed for writing; the scratch is this call's alone while it is locked, and its
            // locks are 0.
            Backend::Cpu(cpu) => unsafe {
                run(0, &mut || {
                    cpu.backward_rows(&plan.rows, &args);
                    Ok(())
                })?;
                run(1, &mut || {
                    cpu.backward_columns(&plan.columns, &columns_args);
                    Ok(())
                })?;
            },
            Backend::Gpu(gpu) => {
                gpu.enter()?;
                let (kernels, stream) = (gpu.kernels(), gpu.stream());
                // SAFETY: as above; launches on one stream run in their order, so that calls share
                // the scratch in turn.
                unsafe {
                    run(0, &mut || kernels.backward_rows(&plan.rows, &args, stream))?;
                    run(1, &mut || kernels.backward_columns(&plan.columns, &columns_args, stream))?;
                }
            }
        }
        scratch.launched();
        Ok(())
    }
}

/// The planner's view of tensors that this library allocated: rows follow each other, from a
/// 16-byte boundary on.
fn work<E: Dtype>(rows: usize, columns: usize) -> Work {
    let aligned = plan::aligned(&[], &[columns], columns, E::DTYPE);
    Work { rows, columns, dtype: E::DTYPE, aligned }
}

#[cfg(test)]
mod tests;
