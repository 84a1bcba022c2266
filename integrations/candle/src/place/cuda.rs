//! candle's CUDA memory, in its context and on its stream, and the kernels loaded for that context.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cuda_backend::cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop, sys,
};
use candle_core::cuda_backend::{CudaStorageSlice, WrapErr};
use candle_core::{CudaDevice, CudaStorage, DType, Error, Result, Shape};
use ferronorm::args::{BackwardArgs, ColumnsArgs, ForwardArgs};
use ferronorm::plan::{Backward, DeviceInfo, Forward};
use ferronorm::ptx;
use ferronorm::raw::Kernels;

use super::Place;

/// A device of candle's; its context is current on this thread.
pub(crate) struct Cuda {
    device: CudaDevice,
    stream: Arc<CudaStream>,
    kernels: Arc<Kernels>,
}

/// CUDA aligns memory to more than 16 bytes. It has none of no length.
pub(crate) type Bytes = Option<CudaSlice<u8>>;

/// Runs `$body` with `$data` as the slice of a storage of a type that there are kernels for.
macro_rules! each {
    ($dtype:expr, $slice:expr, $data:ident => $body:expr) => {
        match $slice {
            CudaStorageSlice::F64($data) => Ok($body),
            CudaStorageSlice::F32($data) => Ok($body),
            CudaStorageSlice::F16($data) => Ok($body),
            CudaStorageSlice::BF16($data) => Ok($body),
            _ => Err(Error::UnsupportedDTypeForOp($dtype, "norm").bt()),
        }
    };
}

impl Cuda {
    /// Makes the device's context current, and loads the kernels if no device has had it before.
    pub(crate) fn new(device: &CudaDevice) -> Result<Cuda> {
        let stream = device.cuda_stream();
        stream.context().bind_to_thread().w()?;
        let kernels = kernels(stream.context())?;
        Ok(Cuda { device: device.clone(), stream, kernels })
    }

    fn stream(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }
}

/// The kernels for a device's primary context, which is current.
fn kernels(context: &Arc<CudaContext>) -> Result<Arc<Kernels>> {
    // The context is kept too: the driver ends a primary context that nobody holds, and the kernels
    // in it.
    type Loaded = (Arc<CudaContext>, Arc<Kernels>);
    static LOADED: Mutex<BTreeMap<usize, Loaded>> = Mutex::new(BTreeMap::new());
    // A thread that panics leaves the map as it was.
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, kernels)) = loaded.get(&context.ordinal()) {
        return Ok(kernels.clone());
    }
    let (major, minor) = context.compute_capability().w()?;
    let mut version = 0;
    // SAFETY: `version` is a place to write to.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().w()?;
    let driver = (version as u32 / 1000, version as u32 % 1000 / 10);
    let ptx = ptx::pick((10 * major + minor) as u32, driver).map_err(error)?;
    // SAFETY: the context is current. It lives as long as the value beside it, and `Cuda::new` makes
    // it current before any other method is called; a static is not dropped.
    let kernels = Arc::new(unsafe { Kernels::load(&ptx) }.map_err(error)?);
    loaded.insert(context.ordinal(), (context.clone(), kernels.clone()));
    Ok(kernels)
}

/// candle's error for one of the driver's.
fn error(error: ferronorm::Error) -> Error {
    Error::Cuda(Box::new(error)).bt()
}

impl Place for Cuda {
    type Storage = CudaStorage;
    type Bytes = Bytes;
    type Guard<'a> = Option<SyncOnDrop<'a>>;

    fn info(&self) -> DeviceInfo {
        self.kernels.info()
    }

    fn tensor(&self, shape: &Shape, dtype: DType) -> Result<CudaStorage> {
        // SAFETY: numbers of any bits, which the caller's launch writes.
        unsafe { self.device.alloc_uninit(shape, dtype) }
    }

    fn bytes(&self, len: usize) -> Result<Bytes> {
        // SAFETY: bytes of any value, which the caller's launch writes before it reads them.
        (len > 0).then(|| unsafe { self.device.alloc(len) }).transpose()
    }

    fn zeros(&self, len: usize) -> Result<Bytes> {
        (len > 0).then(|| self.device.alloc_zeros(len)).transpose()
    }

    fn read<'a>(&'a self, storage: &'a CudaStorage) -> Result<(*const c_void, Self::Guard<'a>)> {
        each!(storage.dtype(), &storage.slice, data => {
            let (address, guard) = data.device_ptr(&self.stream);
            (address as *const c_void, Some(guard))
        })
    }

    fn write<'a>(&'a self, storage: &'a mut CudaStorage) -> Result<(*mut c_void, Self::Guard<'a>)> {
        let dtype = storage.dtype();
        each!(dtype, &mut storage.slice, data => {
            let (address, guard) = data.device_ptr_mut(&self.stream);
            (address as *mut c_void, Some(guard))
        })
    }

    fn read_bytes<'a>(&'a self, bytes: &'a Bytes) -> (*const c_void, Self::Guard<'a>) {
        let Some(bytes) = bytes else { return (ptr::null(), None) };
        let (address, guard) = bytes.device_ptr(&self.stream);
        (address as *const c_void, Some(guard))
    }

    fn write_bytes<'a>(&'a self, bytes: &'a mut Bytes) -> (*mut c_void, Self::Guard<'a>) {
        let Some(bytes) = bytes else { return (ptr::null_mut(), None) };
        let (address, guard) = bytes.device_ptr_mut(&self.stream);
        (address as *mut c_void, Some(guard))
    }

    unsafe fn forward(&self, plan: &Forward, args: &ForwardArgs) -> Result<()> {
        // SAFETY: the caller's promises; the stream is of the context that `new` made current.
        unsafe { self.kernels.forward(plan, args, self.stream().cast()) }.map_err(error)
    }

    unsafe fn backward(
        &self,
        plan: &Backward,
        rows: &BackwardArgs,
        columns: &ColumnsArgs,
    ) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.kernels.backward_rows(plan, rows, self.stream().cast()) }.map_err(error)?;
        // SAFETY: as above.
        unsafe { self.kernels.backward_columns(plan, columns, self.stream().cast()) }.map_err(error)
    }
}
