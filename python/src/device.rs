//! Where a call runs: the CPU, or a GPU in its primary context, which is the one that torch, CuPy
//! and every other user of the CUDA runtime work in.

use std::collections::HashMap;
use std::process;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cust::sys::{self, CUcontext, CUdevice, CUdevice_attribute_enum as Attribute, CUresult};
use ferronorm::driver::{self, DriverError, check};
use ferronorm::plan::DeviceInfo;
use ferronorm::raw::{Cpu, Kernels};
use ferronorm::{Error, Result, ptx};
use pyo3::Python;

pub enum Device {
    Cpu(Cpu),
    Gpu(Gpu),
}

/// A GPU's kernels, and the context that they are loaded in.
pub struct Gpu {
    context: CUcontext,
    kernels: Kernels,
}

// SAFETY: the driver's handles may be used from any thread, at once; a call makes the context current
// on its thread first.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// The CPU for -1, else the GPU of that number. Opened when it is first asked for, and kept for good.
pub fn get(ordinal: i32) -> Result<&'static Device> {
    /// By number and process: a forked child has none of its parent's threads.
    static DEVICES: Mutex<Option<HashMap<(u32, i32), &'static Device>>> = Mutex::new(None);
    // Nothing is left half done by a thread that panics here.
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices.get_or_insert_default();
    let key = (process::id(), ordinal);
    if let Some(device) = devices.get(&key) {
        return Ok(device);
    }
    let device = match u32::try_from(ordinal) {
        Ok(ordinal) => Device::Gpu(Gpu::open(ordinal)?),
        Err(_) => Device::Cpu(Cpu::new(0)),
    };
    let device: &'static Device = Box::leak(Box::new(device));
    devices.insert(key, device);
    Ok(device)
}

impl Device {
    /// What the planner needs to know of it.
    pub fn info(&self) -> DeviceInfo {
        match self {
            Device::Cpu(cpu) => cpu.info(),
            Device::Gpu(gpu) => gpu.kernels.info(),
        }
    }

    /// Does work, which takes long on the CPU: other threads of Python run meanwhile. A GPU's launch
    /// is over sooner than the interpreter is given up and got back.
    pub fn work<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
        match self {
            Device::Cpu(_) => py.detach(work),
            Device::Gpu(_) => work(),
        }
    }
}

impl Gpu {
    fn open(ordinal: u32) -> Result<Gpu> {
        driver::library().map_err(|reason| Error::NoDriver { reason: reason.into() })?;
        // SAFETY: 0 is the one value of the flags.
        call("cuInit", unsafe { sys::cuInit(0) })?;
        let mut count = 0;
        // SAFETY: `count` is a place to write to.
        call("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        let count = count as u32;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let (mut device, mut version, mut context) = (0, 0, ptr::null_mut());
        // SAFETY: `device` is a place to write to.
        call("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
        // SAFETY: `version` is a place to write to.
        call("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
        let driver = (version as u32 / 1000, version as u32 % 1000 / 10);
        let ptx = ptx::pick(capability(device)?, driver)?;
        // SAFETY: `context` is a place to write to, `device` was given by the driver. It is kept for
        // good, so that nothing is released.
        call("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&mut context, device)
        })?;
        let _entered = Entered::new(context)?;
        // SAFETY: the context is current, lives as long as the process, and is made current by
        // `with` for each call.
        let kernels = unsafe { Kernels::load(&ptx)? };
        Ok(Gpu { context, kernels })
    }

    /// Works with the kernels while their context is current on this thread: it need not be, in a
    /// thread of autograd's or for another device than torch's current one.
    pub fn with<T>(&self, work: impl FnOnce(&Kernels) -> Result<T>) -> Result<T> {
        let _entered = Entered::new(self.context)?;
        work(&self.kernels)
    }
}

/// Compute capability times ten.
fn capability(device: CUdevice) -> Result<u32> {
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: `value` is a place to write to, `device` was given by the driver.
        let result = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
        call("cuDeviceGetAttribute", result).map(|()| value as u32)
    };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    Ok(10 * major + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?)
}

/// A context that is current until this is dropped; then the one before it is again.
struct Entered {
    pushed: bool,
}

impl Entered {
    fn new(context: CUcontext) -> Result<Entered> {
        let mut current = ptr::null_mut();
        // SAFETY: `current` is a place to write to.
        call("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut current) })?;
        let pushed = current != context;
        if pushed {
            // SAFETY: a primary context that is retained for good.
            call("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(context) })?;
        }
        Ok(Entered { pushed })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut context = ptr::null_mut();
            // SAFETY: pushed by `new` on this thread; calls in between leave the stack as it was.
            unsafe { sys::cuCtxPopCurrent_v2(&mut context) };
        }
    }
}

fn call(operation: &'static str, result: CUresult) -> Result<()> {
    let no_device = CUresult::CUDA_ERROR_NO_DEVICE as u32;
    let stub = CUresult::CUDA_ERROR_STUB_LIBRARY as u32;
    check(result).map_err(|source: DriverError| match source.code {
        code if code == stub => Error::StubDriver,
        code if code == no_device => Error::NoDevice { ordinal: 0, count: 0 },
        _ => Error::Driver { operation, source },
    })
}
