//! Owned memory of a device.

use std::mem::ManuallyDrop;
use std::ops::Range;

use cust::memory::DeviceBuffer;
use cust::sys;

use super::{Backend, Device};
use crate::driver::DriverError;
use crate::{Error, Result};

/// `len` elements of `T` on a device.
pub(crate) struct Buffer<T> {
    memory: Memory<T>,
    len: usize,
    device: Device,
}

enum Memory<T> {
    Cpu(Vec<T>),
    /// At least 16 bytes, so that the driver has something to give.
    Gpu(ManuallyDrop<DeviceBuffer<u8>>),
}

impl<T: Copy + Default> Buffer<T> {
    /// Memory that the caller writes before it is read. (On the CPU it is zeroed all the same.)
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self> {
        // Whole granules: a kernel may read those that a row lies in.
        let bytes = len.saturating_mul(size_of::<T>()).max(1);
        let bytes = bytes.checked_next_multiple_of(16).unwrap_or(bytes);
        let memory = match &*device.0 {
            Backend::Cpu(_) => {
                let mut data = Vec::new();
                let reserved = data.try_reserve_exact(len);
                reserved.map_err(|_| Error::OutOfMemory { bytes, source: None })?;
                data.resize(len, T::default());
                Memory::Cpu(data)
            }
            Backend::Gpu(gpu) => {
                gpu.enter()?;
                // SAFETY: bytes have no invalid values.
                let buffer = unsafe { DeviceBuffer::uninitialized(bytes) };
                Memory::Gpu(ManuallyDrop::new(buffer.map_err(|error| {
                    let source = DriverError::from(error);
                    if source.code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32 {
                        Error::OutOfMemory { bytes, source: Some(source) }
                    } else {
                        Error::Driver { operation: "allocating device memory", source }
                    }
                })?))
            }
        };
        let mut buffer = Buffer { memory, len, device: device.clone() };
        buffer.clear_padding(bytes)?;
        Ok(buffer)
    }

    /// Zeroes what lies behind the elements in the last granule of `bytes`: it may be read with them,
    /// and though it makes no difference, a tool that looks for reads of what was never written would
    /// find one.
    fn clear_padding(&mut self, bytes: usize) -> Result<()> {
        let padding = bytes.saturating_sub(self.len * size_of::<T>());
        let end = self.as_mut_ptr() as u64 + bytes as u64;
        match &*self.device.0 {
            // SAFETY: the end of the buffer's own memory.
            Backend::Gpu(gpu) if padding > 0 => unsafe {
                gpu.fill(end - padding as u64, 0, padding)
            },
            _ => Ok(()),
        }
    }

    /// Memory of zero bytes.
    pub(crate) fn zeroed(device: &Device, len: usize) -> Result<Self> {
        let mut buffer = Self::new(device, len)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    pub(crate) fn from_slice(device: &Device, data: &[T]) -> Result<Self> {
        let mut buffer = Self::new(device, data.len())?;
        buffer.write(0, data)?;
        Ok(buffer)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn as_ptr(&self) -> *const T {
        match &self.memory {
            Memory::Cpu(data) => data.as_ptr(),
            Memory::Gpu(buffer) => buffer.as_device_ptr().as_raw() as *const T,
        }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        match &mut self.memory {
            Memory::Cpu(data) => data.as_mut_ptr(),
            Memory::Gpu(buffer) => buffer.as_device_ptr().as_raw() as *mut T,
        }
    }

    /// Sets every byte.
    pub(crate) fn fill_bytes(&mut self, value: u8) -> Result<()> {
        let bytes = self.len * size_of::<T>();
        let target = self.as_mut_ptr();
        match &*self.device.0 {
            // SAFETY: the vector's own memory; the callers' types take any bytes.
            Backend::Cpu(_) => unsafe { target.cast::<u8>().write_bytes(value, bytes) },
            // SAFETY: the buffer's own memory.
            Backend::Gpu(gpu) => unsafe { gpu.fill(target as u64, value, bytes)? },
        }
        Ok(())
    }

    /// Copies `data` over the elements from `offset` on, which the buffer must have, after the work
    /// before it.
    pub(crate) fn write(&mut self, offset: usize, data: &[T]) -> Result<()> {
        assert!(offset <= self.len && data.len() <= self.len - offset);
        let target = self.as_mut_ptr().wrapping_add(offset) as u64;
        match (&mut self.memory, &*self.device.0) {
            (Memory::Cpu(memory), _) => memory[offset..][..data.len()].copy_from_slice(data),
            (Memory::Gpu(_), Backend::Gpu(gpu)) if !data.is_empty() => {
                // SAFETY: the buffer goes on for at least `data` from `target`, as asserted.
                unsafe { gpu.upload(target, data.as_ptr().cast(), size_of_val(data))? }
            }
            (Memory::Gpu(_), _) => {}
        }
        Ok(())
    }

    /// A copy of these elements, which the buffer must have, after the work before it.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Vec<T>> {
        assert!(range.start <= range.end && range.end <= self.len);
        let mut data = vec![T::default(); range.len()];
        match (&self.memory, &*self.device.0) {
            (Memory::Cpu(memory), _) => data.copy_from_slice(&memory[range]),
            (Memory::Gpu(_), Backend::Gpu(gpu)) if !data.is_empty() => {
                let source = self.as_ptr().wrapping_add(range.start) as u64;
                let bytes = size_of_val(&data[..]);
                // SAFETY: the buffer goes on for at least `bytes` from `source`, as asserted.
                unsafe { gpu.download(data.as_mut_ptr().cast(), source, bytes)? }
            }
            (Memory::Gpu(_), _) => {}
        }
        Ok(data)
    }

    /// A copy of all elements, after the work before it.
    pub(crate) fn to_vec(&self) -> Result<Vec<T>> {
        self.read(0..self.len)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let (Memory::Gpu(buffer), Backend::Gpu(gpu)) = (&mut self.memory, &*self.device.0) {
            // Work on the stream may still use the memory. After an error the context is lost, and
            // the memory with it.
            if gpu.synchronize().is_ok() {
                // SAFETY: dropped once, here, while the context is current.
                unsafe { ManuallyDrop::drop(buffer) };
            }
        }
    }
}
