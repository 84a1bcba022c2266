//! A GPU as a device: its primary context, one stream, the loaded kernels.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cust::context::{Context, CurrentContext};
use cust::device::DeviceAttribute;
use cust::sys::{self, CUevent, CUevent_flags_enum, CUstream, CUstream_flags_enum};

use crate::driver::{self, DriverError, check};
use crate::plan::DeviceInfo;
use crate::ptx::{self, Ptx};
use crate::raw::Kernels;
use crate::{Error, Result};

pub(crate) struct Gpu {
    name: String,
    ordinal: u32,
    number: u32,
    stream: CUstream,
    /// Before the context, as fields are dropped in order.
    kernels: Kernels,
    context: Context,
}

// SAFETY: the driver's handles may be used from any thread, at once; every call sets the context
// current on its thread first.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Gpu {
    pub(crate) fn open(ordinal: u32, ptx: Option<&Ptx>) -> Result<Gpu> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        driver::library().map_err(|reason| Error::NoDriver { reason: reason.into() })?;
        let no_device = |count| Error::NoDevice { ordinal, count };
        let none = sys::CUresult::CUDA_ERROR_NO_DEVICE as u32;
        let stub = sys::CUresult::CUDA_ERROR_STUB_LIBRARY as u32;
        cust::init(cust::CudaFlags::empty()).map_err(|error| match DriverError::from(error) {
            error if error.code == none => no_device(0),
            error if error.code == stub => Error::StubDriver,
            source => Error::Driver { operation: "starting the driver", source },
        })?;
        let count =
            cust::device::Device::num_devices().map_err(Error::driver("cuDeviceGetCount"))?;
        if ordinal >= count {
            return Err(no_device(count));
        }
        let device = cust::device::Device::get_device(ordinal);
        let device = device.map_err(Error::driver("cuDeviceGet"))?;
        let attribute = |attribute| {
            device.get_attribute(attribute).map_err(Error::driver("cuDeviceGetAttribute"))
        };
        let capability = 10 * attribute(DeviceAttribute::ComputeCapabilityMajor)?
            + attribute(DeviceAttribute::ComputeCapabilityMinor)?;
        let (capability, driver) = (capability as u32, driver_version()?);
        let ptx = match ptx {
            Some(ptx) => ptx.check(capability, driver).map(|()| *ptx)?,
            None => ptx::pick(capability, driver)?,
        };
        let name = device.name().map_err(Error::driver("cuDeviceGetName"))?;
        let context = Context::new(device).map_err(Error::driver("opening the context"))?;
        // cust has done this, and does not say whether it failed.
        CurrentContext::set_current(&context).map_err(Error::driver("cuCtxSetCurrent"))?;
        // SAFETY: the context is current on this thread.
        let kernels = unsafe { Kernels::load(&ptx)? };
        let mut stream = ptr::null_mut();
        let flags = CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `stream` is a place to write to.
        check(unsafe { sys::cuStreamCreate(&mut stream, flags) })
            .map_err(Error::driver("cuStreamCreate"))?;
        Ok(Gpu {
            name,
            ordinal,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            stream,
            kernels,
            context,
        })
    }

    /// Makes this device's context current on the calling thread.
    pub(crate) fn enter(&self) -> Result<()> {
        CurrentContext::set_current(&self.context).map_err(Error::driver("cuCtxSetCurrent"))
    }

    pub(crate) fn stream(&self) -> CUstream {
        self.stream
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    pub(crate) fn info(&self) -> DeviceInfo {
        self.kernels.info()
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream is this device's own.
        check(unsafe { sys::cuStreamSynchronize(self.stream) })
            .map_err(Error::driver("waiting for the device"))
    }

    /// The time between two events on the stream, around `work`.
    pub(crate) fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
        self.enter()?;
        let (start, stop) = (Event::new()?, Event::new()?);
        start.record(self.stream)?;
        work()?;
        stop.record(self.stream)?;
        self.synchronize()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are recorded and reached.
        check(unsafe { sys::cuEventElapsedTime(&mut milliseconds, start.0, stop.0) })
            .map_err(Error::driver("cuEventElapsedTime"))?;
        Ok(Duration::from_secs_f64(milliseconds as f64 * 1e-3))
    }

    /// Copies `bytes` from host memory, in the stream's order, and waits.
    ///
    /// # Safety
    ///
    /// `source` readable and `target`, on this device, writable for `bytes`.
    pub(crate) unsafe fn upload(
        &self,
        target: u64,
        source: *const c_void,
        bytes: usize,
    ) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise; the copy is over when `synchronize` returns.
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(target, source, bytes, self.stream) })
            .map_err(Error::driver("copying to the device"))?;
        self.synchronize()
    }

    /// Copies `bytes` to host memory, in the stream's order, and waits.
    ///
    /// # Safety
    ///
    /// `source`, on this device, readable and `target` writable for `bytes`.
    pub(crate) unsafe fn download(
        &self,
        target: *mut c_void,
        source: u64,
        bytes: usize,
    ) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise; the copy is over when `synchronize` returns.
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(target, source, bytes, self.stream) })
            .map_err(Error::driver("copying from the device"))?;
        self.synchronize()
    }

    /// Sets `bytes` to `value` in the stream's order; does not wait.
    ///
    /// # Safety
    ///
    /// `target`, on this device, writable for `bytes`.
    pub(crate) unsafe fn fill(&self, target: u64, value: u8, bytes: usize) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        check(unsafe { sys::cuMemsetD8Async(target, value, bytes, self.stream) })
            .map_err(Error::driver("filling device memory"))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Makes the context current, for the kernels too. Nothing can be done about an error here,
        // and a lost context frees all of it anyway.
        if self.synchronize().is_ok() {
            // SAFETY: the stream is this device's own, idle, and not used again.
            unsafe { sys::cuStreamDestroy_v2(self.stream) };
        } else {
            self.kernels.abandon();
        }
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, GPU {} (#{})", self.name, self.ordinal, self.number)
    }
}

/// The CUDA version that the driver serves.
fn driver_version() -> Result<(u32, u32)> {
    let mut version = 0;
    // SAFETY: `version` is a place to write to.
    check(unsafe { sys::cuDriverGetVersion(&mut version) })
        .map_err(Error::driver("cuDriverGetVersion"))?;
    Ok((version as u32 / 1000, version as u32 % 1000 / 10))
}

/// A CUDA event, destroyed when dropped.
struct Event(CUevent);

impl Event {
    fn new() -> Result<Event> {
        let mut event = ptr::null_mut();
        let flags = CUevent_flags_enum::CU_EVENT_DEFAULT as u32;
        // SAFETY: `event` is a place to write to.
        check(unsafe { sys::cuEventCreate(&mut event, flags) })
            .map_err(Error::driver("cuEventCreate"))?;
        Ok(Event(event))
    }

    fn record(&self, stream: CUstream) -> Result<()> {
        // SAFETY: event and stream live.
        check(unsafe { sys::cuEventRecord(self.0, stream) }).map_err(Error::driver("cuEventRecord"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: destroyed once; the driver keeps it until it is reached.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}
