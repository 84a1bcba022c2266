//! candle's CPU memory, and ferronorm's CPU executor.

use std::ffi::c_void;
use std::ptr;
use std::sync::LazyLock;

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cpu_backend::CpuDevice;
use candle_core::{CpuStorage, DType, Error, Result, Shape};
use ferronorm::args::{BackwardArgs, ColumnsArgs, ForwardArgs, RowStats};
use ferronorm::plan::{Backward, DeviceInfo, Forward};
use ferronorm::raw;

use super::Place;

/// The threads of all calls, as many as there are cores.
static EXECUTOR: LazyLock<raw::Cpu> = LazyLock::new(|| raw::Cpu::new(0));

/// The CPU.
pub(crate) struct Cpu;

/// Memory in units of 16 aligned bytes.
pub(crate) type Bytes = Vec<RowStats<f32>>;

/// Runs `$body` with `$data` as the `Vec` of a storage of a type that there are kernels for.
macro_rules! each {
    ($storage:expr, $data:ident => $body:expr) => {
        match $storage {
            CpuStorage::F64($data) => Ok($body),
            CpuStorage::F32($data) => Ok($body),
            CpuStorage::F16($data) => Ok($body),
            CpuStorage::BF16($data) => Ok($body),
            other => Err(Error::UnsupportedDTypeForOp(other.dtype(), "norm").bt()),
        }
    };
}

impl Place for Cpu {
    type Storage = CpuStorage;
    type Bytes = Bytes;
    /// A launch is over when it returns.
    type Guard<'a> = ();

    fn info(&self) -> DeviceInfo {
        EXECUTOR.info()
    }

    fn tensor(&self, shape: &Shape, dtype: DType) -> Result<CpuStorage> {
        // SAFETY: numbers of any bits, which the caller's launch writes.
        unsafe { CpuDevice.alloc_uninit(shape, dtype) }
    }

    fn bytes(&self, len: usize) -> Result<Bytes> {
        self.zeros(len)
    }

    fn zeros(&self, len: usize) -> Result<Bytes> {
        Ok(vec![RowStats::default(); len.div_ceil(size_of::<RowStats<f32>>())])
    }

    fn read(&self, storage: &CpuStorage) -> Result<(*const c_void, ())> {
        each!(storage, data => (data.as_ptr().cast(), ()))
    }

    fn write(&self, storage: &mut CpuStorage) -> Result<(*mut c_void, ())> {
        each!(storage, data => (data.as_mut_ptr().cast(), ()))
    }

    fn read_bytes(&self, bytes: &Bytes) -> (*const c_void, ()) {
        (bytes.as_ptr().cast(), ())
    }

    fn write_bytes(&self, bytes: &mut Bytes) -> (*mut c_void, ()) {
        match bytes.is_empty() {
            true => (ptr::null_mut(), ()),
            false => (bytes.as_mut_ptr().cast(), ()),
        }
    }

    unsafe fn forward(&self, plan: &Forward, args: &ForwardArgs) -> Result<()> {
        // SAFETY: the caller's promises.
        unsafe { EXECUTOR.forward(plan, args) };
        Ok(())
    }

    unsafe fn backward(
        &self,
        plan: &Backward,
        rows: &BackwardArgs,
        columns: &ColumnsArgs,
    ) -> Result<()> {
        // SAFETY: the caller's promises.
        unsafe {
            EXECUTOR.backward_rows(plan, rows);
            EXECUTOR.backward_columns(plan, columns);
        }
        Ok(())
    }
}
