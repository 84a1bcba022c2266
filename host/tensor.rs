//! Matrices on a device.

use half::{bf16, f16};
use kernels::entry::cpu::Compiled;

use crate::device::buffer::Buffer;
use crate::plan::DataType;
use crate::{Device, Error, Result};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// A storage type of tensors: `f32`, [`half::f16`] or [`half::bf16`].
pub trait Dtype: Compiled + Default + sealed::Sealed {
    /// Its name.
    const DTYPE: DataType;
    /// Its value.
    fn to_f64(self) -> f64;
    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
}

impl Dtype for f32 {
    const DTYPE: DataType = DataType::F32;

    fn to_f64(self) -> f64 {
        self as f64
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Dtype for f16 {
    const DTYPE: DataType = DataType::F16;

    fn to_f64(self) -> f64 {
        f16::to_f64(self)
    }

    fn from_f64(value: f64) -> Self {
        f16::from_f64(value)
    }
}

impl Dtype for bf16 {
    const DTYPE: DataType = DataType::Bf16;

    fn to_f64(self) -> f64 {
        bf16::to_f64(self)
    }

    fn from_f64(value: f64) -> Self {
        bf16::from_f64(value)
    }
}

/// A row-major matrix (rows, columns) of `E`, owned, on a device. A vector of N is (1, N).
pub struct Tensor<E> {
    buffer: Buffer<E>,
    shape: [usize; 2],
}

impl<E: Dtype> Tensor<E> {
    /// A copy of `data`, row by row.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if `data` does not fill `shape`, [`Error::TooLarge`],
    /// [`Error::OutOfMemory`], or another driver error.
    pub fn from_slice(device: &Device, data: &[E], shape: [usize; 2]) -> Result<Self> {
        check_length("data", data.len(), shape)?;
        Ok(Tensor { buffer: Buffer::from_slice(device, data)?, shape })
    }

    /// Zeros.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`], [`Error::OutOfMemory`], or another driver error.
    pub fn zeros(device: &Device, shape: [usize; 2]) -> Result<Self> {
        Ok(Tensor { buffer: Buffer::zeroed(device, count(shape)?)?, shape })
    }

    /// Memory for a kernel to write.
    pub(crate) fn output(device: &Device, shape: [usize; 2]) -> Result<Self> {
        Ok(Tensor { buffer: Buffer::new(device, count(shape)?)?, shape })
    }

    /// Copies `data` over the tensor, after the work before it.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if `data` does not fill the tensor, or a driver error.
    pub fn copy_from_slice(&mut self, data: &[E]) -> Result<()> {
        check_length("data", data.len(), self.shape)?;
        self.buffer.copy_from(data)
    }

    /// Sets all elements to zero, in the order of the device's work; does not wait.
    ///
    /// # Errors
    ///
    /// A driver error.
    pub fn clear(&mut self) -> Result<()> {
        self.buffer.fill_bytes(0)
    }

    /// A copy of the elements, row by row, after the work before it.
    ///
    /// # Errors
    ///
    /// A driver error, also of the work before it.
    pub fn to_vec(&self) -> Result<Vec<E>> {
        self.buffer.to_vec()
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    pub(crate) fn as_ptr(&self) -> *const E {
        self.buffer.as_ptr()
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut E {
        self.buffer.as_mut_ptr()
    }
}

/// Elements of a shape, if memory can hold them: an allocation has at most isize::MAX bytes.
fn count([rows, columns]: [usize; 2]) -> Result<usize> {
    let count = rows.checked_mul(columns).filter(|count| *count <= isize::MAX as usize / 8);
    count.ok_or(Error::TooLarge { found: [rows, columns] })
}

fn check_length(argument: &'static str, found: usize, shape: [usize; 2]) -> Result<()> {
    let expected = count(shape)?;
    if found == expected { Ok(()) } else { Err(Error::Length { argument, found, expected }) }
}
