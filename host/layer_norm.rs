//! LayerNorm on owned tensors: forward returns y and what backward needs; backward takes it.

use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kernels::args::{BackwardArgs, ColumnsArgs, Extent, ForwardArgs, Partials, Rows};

use crate::device::Backend;
use crate::plan::{self, Options, Want};
use crate::scratch::Scratch;
use crate::{Device, Dtype, Result, Tensor};

mod arguments;
mod checks;

pub use arguments::{
    Gradients, Inputs, Outputs, Residual, Saved, Statistics, Target, Targets, Upstream,
};

/// LayerNorm over the last dimensions, on one device.
///
/// Work goes to the device's stream in the order of the calls; on a GPU, calls return before it is
/// done. The `_into` forms launch and nothing else: they allocate only when a larger shape than any
/// before needs more scratch. The other forms allocate their results first.
pub struct LayerNorm {
    device: Device,
    options: Options,
    /// Normalised dimensions.
    dims: usize,
    rms: bool,
    weight_offset: f64,
    scratch: Mutex<Scratch>,
}

/// What each of backward's stages took.
#[derive(Clone, Copy, Debug)]
pub struct KernelTimes {
    /// Stage 1.
    pub rows: Duration,
    /// Stage 2.
    pub columns: Duration,
}

impl LayerNorm {
    /// LayerNorm over the last dimension, on `device`, as the planner thinks best.
    pub fn new(device: &Device) -> Self {
        Self::with_options(device, Options::default())
    }

    /// The same, with choices of the caller's.
    pub fn with_options(device: &Device, options: Options) -> Self {
        let scratch = Mutex::new(Scratch::new(device));
        let device = device.clone();
        LayerNorm { device, options, dims: 1, rms: false, weight_offset: 0.0, scratch }
    }

    /// RMSNorm over the last dimension: the mean is taken to be 0, so
    /// y = x / sqrt(mean(x^2) + eps) * w + b (Zhang and Sennrich 2019).
    pub fn rms(device: &Device) -> Self {
        LayerNorm { rms: true, ..Self::new(device) }
    }

    /// The same layer with choices of the caller's.
    pub fn options(self, options: Options) -> Self {
        LayerNorm { options, ..self }
    }

    /// Normalises over the last `dims` dimensions, which w and b then have.
    pub fn dims(self, dims: usize) -> Self {
        LayerNorm { dims, ..self }
    }

    /// Multiplies by `weight_offset + w` where there is a w: 1 for weights stored as their distance
    /// from 1.
    pub fn weight_offset(self, weight_offset: f64) -> Self {
        LayerNorm { weight_offset, ..self }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// y = (x - mean) / sqrt(var + eps) * w + b for each row of x, the last dimensions of it, of
    /// whose shape w and b are; either may be `None`. And what [`LayerNorm::backward`] needs.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Shape`], [`crate::Error::Rank`], [`crate::Error::Dtypes`],
    /// [`crate::Error::DeviceMismatch`], [`crate::Error::Epsilon`], [`crate::Error::ZeroOption`],
    /// [`crate::Error::OutOfMemory`], or another driver error.
    pub fn forward<'a, E: Dtype, P: Dtype>(
        &self,
        x: &'a Tensor<E>,
        w: impl Into<Option<&'a Tensor<P>>>,
        b: impl Into<Option<&'a Tensor<P>>>,
        eps: f64,
    ) -> Result<(Tensor<E>, Saved<'a, E, P>)> {
        let inputs = Inputs { x: x.view(), residual: None, w: w.into(), b: b.into(), eps };
        let rows = self.check_inputs(&inputs)?.matrix.rows;
        let mut y = Tensor::output(&self.device, x.shape())?;
        let mut statistics = Statistics::output(&self.device, rows)?;
        let outputs = Outputs { y: y.view_mut(), sum: None, statistics: &mut statistics };
        self.forward_into(&inputs, outputs)?;
        Ok((y, Saved { inputs, statistics }))
    }

    /// [`LayerNorm::forward`] of x + residual, rounded to their type: the same bits as an addition
    /// before it. The sum is returned too, for the next layer and for backward.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward`].
    pub fn forward_residual<'a, E: Dtype, P: Dtype>(
        &self,
        x: &'a Tensor<E>,
        residual: &'a Tensor<E>,
        w: impl Into<Option<&'a Tensor<P>>>,
        b: impl Into<Option<&'a Tensor<P>>>,
        eps: f64,
    ) -> Result<Residual<E>> {
        let residual = Some(residual.view());
        let inputs = Inputs { x: x.view(), residual, w: w.into(), b: b.into(), eps };
        let rows = self.check_inputs(&inputs)?.matrix.rows;
        let mut y = Tensor::output(&self.device, x.shape())?;
        let mut sum = Tensor::output(&self.device, x.shape())?;
        let mut statistics = Statistics::output(&self.device, rows)?;
        let outputs =
            Outputs { y: y.view_mut(), sum: Some(sum.view_mut()), statistics: &mut statistics };
        self.forward_into(&inputs, outputs)?;
        Ok(Residual { y, sum, statistics })
    }

    /// Forward of views into memory of the caller's. [`Saved::new`] makes of it what backward needs.
    ///
    /// What is written cannot be what is read, since it is borrowed for writing:
    ///
    /// ```compile_fail,E0502
    /// # use ferronorm::{Device, Inputs, LayerNorm, Outputs, Result, Statistics, Tensor};
    /// # fn in_place(layer: &LayerNorm, x: &mut Tensor<f32>, w: &Tensor<f32>) -> Result<()> {
    /// let mut statistics = Statistics::new(layer.device(), 8)?;
    /// let inputs = Inputs { x: x.view(), residual: None, w: Some(w), b: None, eps: 1e-5 };
    /// let y = x.view_mut(); // refused: x is borrowed by `inputs`
    /// layer.forward_into(&inputs, Outputs { y, sum: None, statistics: &mut statistics })
    /// # }
    /// ```
    ///
    /// (The raw layer takes pointers, and guarantees in-place work where pointer and stride are the
    /// same.)
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward`], [`crate::Error::Strides`] for a layout that the kernels do not
    /// take, [`crate::Error::Length`] for the statistics, and [`crate::Error::Absent`] for a sum
    /// without a residual or the other way round.
    pub fn forward_into<E: Dtype, P: Dtype>(
        &self,
        inputs: &Inputs<'_, E, P>,
        outputs: Outputs<'_, E>,
    ) -> Result<()> {
        let mut work = self.check_inputs(inputs)?;
        let Outputs { mut y, mut sum, statistics } = outputs;
        let (x, y) = (work.matrix, self.check_output("y", &mut y, inputs.x.layout(), &mut work)?);
        let sum = self.check_sum(&mut sum, inputs.x.layout(), &mut work)?;
        self.check_statistics(statistics, x.rows)?;
        let offset = self.offset(inputs.w.is_some());
        let plain = (offset == 0.0 || inputs.w.is_none()) && inputs.residual.is_none();
        let plan = plan::forward(self.device.info(), work.plan(plain), self.options)?;
        if x.columns == 0 {
            // The statistics of an empty row are 0.
            return statistics.0.fill_bytes(0);
        }
        // The kernels of one call share the scratch; calls take turns on the stream.
        let mut scratch = (plan.parts > 0).then(|| self.scratch());
        let parts = match &mut scratch {
            Some(scratch) => scratch.parts(plan.parts)?.cast(),
            None => ptr::null_mut(),
        };
        let args = ForwardArgs {
            extent: Extent::new(x.rows, x.columns),
            eps: inputs.eps.into(),
            weight_offset: offset.into(),
            rms: self.rms,
            x: Rows { ptr: inputs.x.as_ptr().cast(), stride: x.stride },
            residual: work.residual,
            w: pointer(inputs.w),
            b: pointer(inputs.b),
            sum,
            y,
            stats: statistics.0.as_mut_ptr().cast(),
            parts,
        };
        match &*self.device.0 {
            Backend::Cpu(cpu) => {
                // SAFETY: the tensors are on this device, their views lie within them, and what is
                // written is borrowed for writing, so that it overlaps nothing.
                unsafe { cpu.forward(&plan, &args) };
                Ok(())
            }
            Backend::Gpu(gpu) => {
                gpu.enter()?;
                // SAFETY: as above; a buffer's memory is not freed before the stream is idle.
                unsafe { gpu.kernels().forward(&plan, &args, gpu.stream()) }
            }
        }
    }

    /// The gradients of x, and of w and b if forward had them, from dy, the gradient of y.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward`].
    pub fn backward<'u, E: Dtype, P: Dtype>(
        &self,
        saved: &Saved<'_, E, P>,
        upstream: impl Into<Upstream<'u, E>>,
    ) -> Result<Gradients<E, P>> {
        let upstream = upstream.into();
        self.check_upstream(saved, &upstream)?;
        let mut gradients = Gradients::new(&self.device, saved)?;
        self.backward_into(saved, upstream, &mut gradients)?;
        Ok(gradients)
    }

    /// The gradients that `targets` asks for, into memory of the caller's, over what is there or
    /// added to it.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::forward_into`], and [`crate::Error::Absent`] for the gradient of an absent
    /// argument.
    pub fn backward_into<'u, 't, E: Dtype, P: Dtype>(
        &self,
        saved: &Saved<'_, E, P>,
        upstream: impl Into<Upstream<'u, E>>,
        targets: impl Into<Targets<'t, E, P>>,
    ) -> Result<()> {
        self.stages(saved, upstream.into(), targets.into(), |_, launch| launch())
    }

    /// [`LayerNorm::backward_into`], with the time of each stage. Waits for each.
    ///
    /// # Errors
    ///
    /// As [`LayerNorm::backward_into`].
    pub fn backward_timed<'u, 't, E: Dtype, P: Dtype>(
        &self,
        saved: &Saved<'_, E, P>,
        upstream: impl Into<Upstream<'u, E>>,
        targets: impl Into<Targets<'t, E, P>>,
    ) -> Result<KernelTimes> {
        let mut times = [Duration::ZERO; 2];
        self.stages(saved, upstream.into(), targets.into(), |stage, launch| {
            times[stage] = self.device.time(launch)?;
            Ok(())
        })?;
        Ok(KernelTimes { rows: times[0], columns: times[1] })
    }

    /// Both stages, each launched by `run(0 or 1, launch)`.
    fn stages<E: Dtype, P: Dtype>(
        &self,
        saved: &Saved<'_, E, P>,
        upstream: Upstream<'_, E>,
        targets: Targets<'_, E, P>,
        mut run: impl FnMut(usize, &mut dyn FnMut() -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let inputs = &saved.inputs;
        let mut work = self.check_upstream(saved, &upstream)?;
        let targets = self.check_targets(saved, targets, &mut work)?;
        let want = Want { dx: !targets.dx.ptr.is_null(), dw: targets.want_dw, db: targets.want_db };
        let offset = self.offset(inputs.w.is_some());
        let adds = !(work.dsum.ptr.is_null() && targets.add.ptr.is_null());
        let plain = (offset == 0.0 || inputs.w.is_none()) && want.dx && !adds;
        let plan = plan::backward(self.device.info(), work.plan(plain), self.options, want)?;
        let x = work.matrix;

        let mut scratch = self.scratch();
        let parts = match plan.parts {
            0 => ptr::null_mut(),
            bytes => scratch.parts(bytes)?.cast(),
        };
        let partials = match plan.columns {
            Some(_) => scratch.partials(&plan)?,
            None => Partials { packs: plan.packs, ..Partials::NONE },
        };
        let args = BackwardArgs {
            extent: Extent::new(x.rows, x.columns),
            weight_offset: offset.into(),
            rms: self.rms,
            want_dw: want.dw,
            want_db: want.db,
            x: Rows { ptr: inputs.x.as_ptr().cast(), stride: x.stride },
            dy: work.dy,
            w: pointer(inputs.w),
            stats: saved.statistics.0.as_ptr().cast(),
            add: [work.dsum, targets.add],
            dx: targets.dx,
            partials,
            parts,
        };
        let columns = ColumnsArgs {
            columns: x.columns,
            chunks: plan.chunks.get(),
            lanes: E::LANES,
            used_groups: plan.used_groups,
            add_dw: targets.add_dw,
            add_db: targets.add_db,
            partials,
            dw: targets.dw,
            db: targets.db,
        };
        match &*self.device.0 {
            // SAFETY: the tensors are on this device, their views lie within them, and what is
            // written is borrowed for writing; the scratch is this call's alone while it is locked,
            // and its locks are 0.
            Backend::Cpu(cpu) => unsafe {
                run(0, &mut || {
                    cpu.backward_rows(&plan, &args);
                    Ok(())
                })?;
                run(1, &mut || {
                    cpu.backward_columns(&plan, &columns);
                    Ok(())
                })?;
            },
            Backend::Gpu(gpu) => {
                gpu.enter()?;
                let (kernels, stream) = (gpu.kernels(), gpu.stream());
                // SAFETY: as above; launches on one stream run in their order, so that calls share
                // the scratch in turn.
                unsafe {
                    run(0, &mut || kernels.backward_rows(&plan, &args, stream))?;
                    run(1, &mut || kernels.backward_columns(&plan, &columns, stream))?;
                }
            }
        }
        if plan.columns.is_some() {
            scratch.launched();
        }
        Ok(())
    }

    fn scratch(&self) -> std::sync::MutexGuard<'_, Scratch> {
        // A panic elsewhere leaves nothing half done here: the scratch knows if it is clean.
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is added to w. An absent one is read as 0, and so is 1 by it.
    fn offset(&self, weighted: bool) -> f64 {
        if weighted { self.weight_offset } else { 1.0 }
    }
}

/// The elements of an optional vector; null for none.
fn pointer<P: Dtype>(vector: Option<&Tensor<P>>) -> *const std::ffi::c_void {
    vector.map_or(ptr::null(), |vector| vector.as_ptr().cast())
}

#[cfg(test)]
mod tests;
