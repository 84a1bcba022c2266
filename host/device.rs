//! Where tensors live and kernels run: a GPU, or the CPU.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::plan::DeviceInfo;
use crate::ptx::Ptx;
use crate::{Error, Result};

pub(crate) mod buffer;
pub(crate) mod cpu;
pub(crate) mod gpu;

use cpu::Cpu;
use gpu::Gpu;

/// A device with one stream of work. A cheap handle: clones are the same device.
///
/// Two handles made by two calls are two devices, even of one GPU: they have a stream each, and
/// tensors of one are refused by the other.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Backend>);

pub(crate) enum Backend {
    Cpu(Cpu),
    Gpu(Gpu),
}

impl Device {
    /// The CPU, with as many OS threads as it has cores.
    pub fn cpu() -> Device {
        Device::cpu_with_threads(0)
    }

    /// The CPU, with `threads` OS threads; 0 for as many as it has cores.
    pub fn cpu_with_threads(threads: usize) -> Device {
        Device(Arc::new(Backend::Cpu(Cpu::new(threads))))
    }

    /// A GPU, with the newest built kernels that it runs.
    ///
    /// # Errors
    ///
    /// [`Error::NoDriver`], [`Error::StubDriver`], [`Error::NoDevice`], [`Error::Architecture`],
    /// [`Error::DriverTooOld`], [`Error::Load`], or another driver error.
    pub fn gpu(ordinal: u32) -> Result<Device> {
        Ok(Device(Arc::new(Backend::Gpu(Gpu::open(ordinal, None)?))))
    }

    /// A GPU, with the kernels of a PTX file of your choice.
    ///
    /// # Safety
    ///
    /// The file's kernels must keep the promises of those built here: read and write only what
    /// their arguments name. The files of [`crate::ptx::all`] do.
    ///
    /// # Errors
    ///
    /// As [`Device::gpu`].
    pub unsafe fn gpu_with_ptx(ordinal: u32, ptx: &Ptx) -> Result<Device> {
        Ok(Device(Arc::new(Backend::Gpu(Gpu::open(ordinal, Some(ptx))?))))
    }

    /// The first GPU, or the CPU if there is no driver or the driver shows no device.
    ///
    /// # Errors
    ///
    /// As [`Device::gpu`], where there may be a GPU that cannot be used. That goes for a stub too:
    /// the toolkit is there, so that a driver is likely to be.
    pub fn auto() -> Result<Device> {
        match Device::gpu(0) {
            Err(Error::NoDriver { .. } | Error::NoDevice { .. }) => Ok(Device::cpu()),
            device => device,
        }
    }

    /// Whether this is a GPU.
    pub fn is_gpu(&self) -> bool {
        matches!(*self.0, Backend::Gpu(_))
    }

    /// What the planner knows of it.
    pub fn info(&self) -> DeviceInfo {
        match &*self.0 {
            Backend::Cpu(_) => DeviceInfo::CPU,
            Backend::Gpu(gpu) => gpu.info(),
        }
    }

    /// Waits until all work given to the device is done.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`], also for work that failed since the last call.
    pub fn synchronize(&self) -> Result<()> {
        match &*self.0 {
            Backend::Cpu(_) => Ok(()),
            Backend::Gpu(gpu) => gpu.synchronize(),
        }
    }

    /// Runs `work` and waits for it; gives the time that the device took, from its own clock where
    /// it has one.
    ///
    /// # Errors
    ///
    /// Those of `work`, and [`Error::Driver`].
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<Duration> {
        match &*self.0 {
            Backend::Cpu(cpu) => cpu.time(work),
            Backend::Gpu(gpu) => gpu.time(work),
        }
    }

    pub(crate) fn check_same(&self, argument: &'static str, other: &Device) -> Result<()> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(());
        }
        Err(Error::DeviceMismatch {
            argument,
            found: other.to_string(),
            expected: self.to_string(),
        })
    }
}

/// Its name, and a number that tells handles apart.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Backend::Cpu(cpu) => cpu.fmt(f),
            Backend::Gpu(gpu) => gpu.fmt(f),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}
