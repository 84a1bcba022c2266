//! What the tests share: where a check runs, numbers, the composed reference, and errors.
#![allow(dead_code, reason = "each test file is a crate of its own and uses its part")]

use std::process::ExitCode;
use std::sync::LazyLock;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use libtest_mimic::{Arguments, Failed, Trial};

/// Of a check. Wrong results panic, which counts as failed too.
pub type Outcome = std::result::Result<(), Failed>;

/// The types of x, and of w and b, that there are kernels for.
pub const PAIRS: [(DType, DType); 6] = [
    (DType::F64, DType::F64),
    (DType::F32, DType::F32),
    (DType::F16, DType::F16),
    (DType::F16, DType::F32),
    (DType::BF16, DType::BF16),
    (DType::BF16, DType::F32),
];

/// The first CUDA device, or why there is none.
static CUDA: LazyLock<Result<Device>> = LazyLock::new(|| Device::new_cuda(0));

/// Whether candle is built for CUDA and the driver shows a device.
fn cuda_is_there() -> bool {
    #[cfg(feature = "cuda")]
    return candle_core::cuda_backend::cudarc::driver::CudaContext::device_count()
        .is_ok_and(|count| count > 0);
    #[cfg(not(feature = "cuda"))]
    false
}

/// The checks of a test file: a trial for each, on each of its devices.
///
/// Without a CUDA device its trials are reported as ignored. One that is there and cannot be opened
/// fails them.
#[derive(Default)]
pub struct Suite(Vec<Trial>);

impl Suite {
    /// `check`, on the CPU and on CUDA.
    pub fn both<C>(&mut self, name: &str, check: C)
    where
        C: Fn(&Device) -> Outcome + Clone + Send + 'static,
    {
        self.cpu(name, check.clone());
        self.cuda(name, check);
    }

    /// `check`, on the CPU.
    pub fn cpu(&mut self, name: &str, check: impl Fn(&Device) -> Outcome + Send + 'static) {
        self.0.push(Trial::test(format!("cpu {name}"), move || check(&Device::Cpu)));
    }

    /// `check`, on the first CUDA device.
    pub fn cuda(&mut self, name: &str, check: impl Fn(&Device) -> Outcome + Send + 'static) {
        let trial = Trial::test(format!("cuda {name}"), move || match &*CUDA {
            Ok(device) => check(device),
            Err(error) => Err(error.into()),
        });
        self.0.push(trial.with_ignored_flag(!cuda_is_there()));
    }

    /// Runs them as the command line says.
    pub fn run(self) -> ExitCode {
        libtest_mimic::run(&Arguments::from_args(), self.0).exit_code()
    }
}

/// Numbers between -1 and 1, others for each `which`, as a variable.
pub fn variable(which: usize, shape: &[usize], dtype: DType, device: &Device) -> Result<Var> {
    Var::from_tensor(&numbers(which, shape, dtype, device)?)
}

/// Numbers between -1 and 1, others for each `which`.
pub fn numbers(which: usize, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    let data: Vec<f64> =
        (0..count).map(|i| ((i * 7919 + which * 104_729 + 1) as f64).sin()).collect();
    Tensor::from_vec(data, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

/// The elements, in f64.
pub fn flat(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

/// LayerNorm or RMSNorm of operations that candle can differentiate.
pub fn composed(rms: bool, x: &Tensor, w: &Tensor, b: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    let x = if rms { x.clone() } else { x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)? };
    let spread = (x.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?;
    let y = x.broadcast_div(&spread)?.broadcast_mul(w)?;
    b.map_or(Ok(y.clone()), |b| y.broadcast_add(b))
}

/// Asserts that the distance from `right` is at most `allowed` of its length, over all elements.
pub fn assert_close(what: &str, found: &[f64], right: &[f64], allowed: f64) {
    assert_eq!(found.len(), right.len(), "{what}: elements");
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let off = norm(&mut found.iter().zip(right).map(|(found, right)| found - right));
    let length = norm(&mut right.iter().copied());
    // NaN is not close.
    assert!(off <= allowed * length, "{what}: off by {off:e} of {length:e}, allowed {allowed:e}");
}

/// What an error of rounding to a type comes to, with room for f32 or f64 sums before it.
pub fn allowed(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-14,
        DType::F32 => 1e-6,
        DType::F16 => 6e-4,
        _ => 5e-3,
    }
}
