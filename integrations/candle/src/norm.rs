//! The operation in candle's graph: forward keeps the rows' statistics for backward.

use std::sync::OnceLock;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::op::BackpropOp;
use candle_core::{
    CpuStorage, CustomOp2, CustomOp3, Error, Layout, Result, Shape, Storage, Tensor,
};

use crate::launch;
#[cfg(feature = "cuda")]
use crate::place::cuda;
use crate::place::{Arg, cpu, matrix};

/// One LayerNorm or RMSNorm of one x. The graph holds it until x's gradient is computed.
pub(crate) struct Norm {
    rms: bool,
    eps: f64,
    saved: OnceLock<Saved>,
}

/// A row's statistics, where they were computed.
enum Saved {
    Cpu(cpu::Bytes),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Bytes),
}

impl Norm {
    pub(crate) fn new(rms: bool, eps: f64) -> Norm {
        Norm { rms, eps, saved: OnceLock::new() }
    }

    pub(crate) fn is_rms(&self) -> bool {
        self.rms
    }

    pub(crate) fn eps(&self) -> f64 {
        self.eps
    }

    /// Its name in errors.
    pub(crate) fn op(&self) -> &'static str {
        if self.rms { "rms-norm" } else { "layer-norm" }
    }

    /// Its backward's name in errors.
    fn op_backward(&self) -> &'static str {
        if self.rms { "the backward of rms-norm" } else { "the backward of layer-norm" }
    }

    fn cpu(
        &self,
        x: Arg<'_, CpuStorage>,
        w: Arg<'_, CpuStorage>,
        b: Option<Arg<'_, CpuStorage>>,
    ) -> Result<(CpuStorage, Shape)> {
        let (y, stats) = launch::forward(self, &cpu::Cpu, x, w, b)?;
        self.save(Saved::Cpu(stats))?;
        Ok((y, x.1.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        x: Arg<'_, CudaStorage>,
        w: Arg<'_, CudaStorage>,
        b: Option<Arg<'_, CudaStorage>>,
    ) -> Result<(CudaStorage, Shape)> {
        let place = cuda::Cuda::new(&x.0.device)?;
        let (y, stats) = launch::forward(self, &place, x, w, b)?;
        self.save(Saved::Cuda(stats))?;
        Ok((y, x.1.shape().clone()))
    }

    fn save(&self, saved: Saved) -> Result<()> {
        self.saved.set(saved).map_err(|_| Error::msg("a norm is of one x"))
    }

    /// The gradients of x, w and b; `None` where the graph does not ask for one.
    fn backward(
        &self,
        x: &Tensor,
        w: &Tensor,
        b: Option<&Tensor>,
        dy: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        if dy.shape() != x.shape() {
            let (expected, got) = (x.shape().clone(), dy.shape().clone());
            return Err(Error::UnexpectedShape { msg: "dy".into(), expected, got }.bt());
        }
        if dy.dtype() != x.dtype() {
            let (expected, got) = (x.dtype(), dy.dtype());
            return Err(Error::UnexpectedDType { msg: "dy", expected, got }.bt());
        }
        if dy.track_op() {
            // candle keeps the graph of dy only where it is told to, for second derivatives.
            return Err(Error::BackwardNotSupported { op: self.op_backward() }.bt());
        }
        let dy = match matrix(dy.layout(), "dy") {
            Ok(_) => dy.clone(),
            Err(_) => dy.contiguous()?,
        };
        let want = [x.track_op(), w.track_op(), b.is_some_and(Tensor::track_op)];
        let [(sx, lx), (sw, lw), (sdy, ldy)] = [x, w, &dy].map(Tensor::storage_and_layout);
        let gradients = match (&*sx, &*sw, &*sdy, self.saved.get()) {
            (Storage::Cpu(x), Storage::Cpu(w), Storage::Cpu(dy), Some(Saved::Cpu(stats))) => {
                let args = [Arg(x, lx), Arg(w, lw), Arg(dy, ldy)];
                let gradients = launch::backward(self, &cpu::Cpu, args, stats, want)?;
                gradients.map(|gradient| gradient.map(Storage::Cpu))
            }
            #[cfg(feature = "cuda")]
            (Storage::Cuda(x), Storage::Cuda(w), Storage::Cuda(dy), Some(Saved::Cuda(stats))) => {
                let args = [Arg(x, lx), Arg(w, lw), Arg(dy, ldy)];
                let place = cuda::Cuda::new(&x.device)?;
                let gradients = launch::backward(self, &place, args, stats, want)?;
                gradients.map(|gradient| gradient.map(Storage::Cuda))
            }
            _ => {
                let (lhs, rhs) = (x.device().location(), dy.device().location());
                return Err(Error::DeviceMismatchBinaryOp { lhs, rhs, op: self.op() }.bt());
            }
        };
        let shapes = [lx, lw, lw].map(Layout::shape).into_iter();
        let mut tensors = shapes.zip(gradients).map(|(shape, gradient)| {
            gradient.map(|storage| Tensor::from_storage(storage, shape, BackpropOp::none(), false))
        });
        Ok(std::array::from_fn(|_| tensors.next().flatten()))
    }
}

impl CustomOp2 for Norm {
    fn name(&self) -> &'static str {
        self.op()
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.cpu(Arg(x, lx), Arg(w, lw), None)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        lx: &Layout,
        w: &CudaStorage,
        lw: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.cuda(Arg(x, lx), Arg(w, lw), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [dx, dw, _] = self.backward(x, w, None, dy)?;
        Ok((dx, dw))
    }
}

impl CustomOp3 for Norm {
    fn name(&self) -> &'static str {
        self.op()
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        lx: &Layout,
        w: &CpuStorage,
        lw: &Layout,
        b: &CpuStorage,
        lb: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.cpu(Arg(x, lx), Arg(w, lw), Some(Arg(b, lb)))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        lx: &Layout,
        w: &CudaStorage,
        lw: &Layout,
        b: &CudaStorage,
        lb: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.cuda(Arg(x, lx), Arg(w, lw), Some(Arg(b, lb)))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        b: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [dx, dw, db] = self.backward(x, w, Some(b), dy)?;
        Ok((dx, dw, db))
    }
}
