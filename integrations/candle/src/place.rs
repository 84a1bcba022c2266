//! Where tensors lie and kernels run: the CPU, or a CUDA device. `launch` is written for either.

use std::ffi::c_void;

use candle_core::backend::BackendStorage;
use candle_core::{DType, Error, Layout, Result, Shape};
use ferronorm::args::{BackwardArgs, ColumnsArgs, ForwardArgs};
use ferronorm::layout::Matrix;
use ferronorm::plan::{Backward, DataType, DeviceInfo, Forward};

pub(crate) mod cpu;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;

/// Memory of candle's, and launches on it.
pub(crate) trait Place {
    /// A tensor's memory.
    type Storage: BackendStorage;
    /// Memory of ours, 16-byte aligned.
    type Bytes;
    /// Lives while a launch is made: its end says that what comes later has to wait for the launch.
    type Guard<'a>
    where
        Self: 'a;

    /// What the planner needs to know.
    fn info(&self) -> DeviceInfo;

    /// Memory for a tensor; a launch is to write all of it.
    fn tensor(&self, shape: &Shape, dtype: DType) -> Result<Self::Storage>;

    /// Memory that a launch is to write before it reads.
    fn bytes(&self, len: usize) -> Result<Self::Bytes>;

    /// Memory of zeros.
    fn zeros(&self, len: usize) -> Result<Self::Bytes>;

    /// The first element, to be read.
    fn read<'a>(&'a self, storage: &'a Self::Storage) -> Result<(*const c_void, Self::Guard<'a>)>;

    /// The first element, to be written.
    fn write<'a>(
        &'a self,
        storage: &'a mut Self::Storage,
    ) -> Result<(*mut c_void, Self::Guard<'a>)>;

    /// As [`Place::read`].
    fn read_bytes<'a>(&'a self, bytes: &'a Self::Bytes) -> (*const c_void, Self::Guard<'a>);

    /// As [`Place::write`].
    fn write_bytes<'a>(&'a self, bytes: &'a mut Self::Bytes) -> (*mut c_void, Self::Guard<'a>);

    /// Launches forward.
    ///
    /// # Safety
    ///
    /// The plan was made for [`Place::info`] and the work of the arguments, whose pointers come of
    /// this place's memory, and the guards still live.
    unsafe fn forward(&self, plan: &Forward, args: &ForwardArgs) -> Result<()>;

    /// Launches both stages of backward.
    ///
    /// # Safety
    ///
    /// As for [`Place::forward`].
    unsafe fn backward(
        &self,
        plan: &Backward,
        rows: &BackwardArgs,
        columns: &ColumnsArgs,
    ) -> Result<()>;
}

/// A tensor as an operation gets it.
pub(crate) struct Arg<'a, S>(pub(crate) &'a S, pub(crate) &'a Layout);

impl<S> Clone for Arg<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Arg<'_, S> {}

/// The rows of a layout, without its offset.
pub(crate) fn matrix(layout: &Layout, argument: &'static str) -> ferronorm::Result<Matrix> {
    ferronorm::layout::Layout::strided(layout.dims(), layout.stride())?.matrix(1, argument)
}

/// The kernels' type for a tensor's.
pub(crate) fn data_type(dtype: DType, op: &'static str) -> Result<DataType> {
    match dtype {
        DType::F64 => Ok(DataType::F64),
        DType::F32 => Ok(DataType::F32),
        DType::F16 => Ok(DataType::F16),
        DType::BF16 => Ok(DataType::Bf16),
        other => Err(Error::UnsupportedDTypeForOp(other, op).bt()),
    }
}
