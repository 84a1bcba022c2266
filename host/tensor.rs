//! Tensors on a device.

use std::ops::Range;

use half::{bf16, f16};
use kernels::Element;

use crate::device::buffer::Buffer;
use crate::layout::Layout;
use crate::plan::DataType;
use crate::{Device, Error, Result, View, ViewMut};

mod sealed {
    pub trait Sealed {}
}

/// A storage type of tensors: `f64`, `f32`, [`half::f16`] or [`half::bf16`].
pub trait Dtype: Element<Real: Into<f64>> + Default + sealed::Sealed {
    /// Its name.
    const DTYPE: DataType;
    /// Its value.
    fn to_f64(self) -> f64;
    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
}

macro_rules! dtypes {
    ($($type:ty, $name:ident, |$value:ident| $nearest:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Dtype for $type {
            const DTYPE: DataType = DataType::$name;

            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            fn from_f64($value: f64) -> Self {
                $nearest
            }
        }
    )*};
}

dtypes! {
    f64, F64, |value| value;
    f32, F32, |value| value as f32;
    f16, F16, |value| f16::from_f32(to_odd(value));
    bf16, Bf16, |value| bf16::from_f32(to_odd(value));
}

/// `value` in f32, rounded to odd: cut off, with a last bit of 1 if anything was. A second rounding
/// to fewer bits then comes out as one from `value` would (Boldo and Melquiond 2008).
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || !near.is_finite() {
        return near;
    }
    let away = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(away)) | 1)
}

/// Elements in memory of its own on a device, in row-major order without gaps.
pub struct Tensor<E> {
    buffer: Buffer<E>,
    layout: Layout,
}

impl<E> Tensor<E> {
    /// All of it, to read.
    pub fn view(&self) -> View<'_, E> {
        View::from(self)
    }

    /// All of it, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_, E> {
        ViewMut::from(self)
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl<E: Dtype> Tensor<E> {
    /// A copy of `data`, in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if `data` does not fill `shape`, [`Error::Rank`], [`Error::TooLarge`],
    /// [`Error::OutOfMemory`], or another driver error.
    pub fn from_slice(device: &Device, data: &[E], shape: impl AsRef<[usize]>) -> Result<Self> {
        let layout = Layout::contiguous(shape.as_ref())?;
        check_length("data", data.len(), layout.count())?;
        Ok(Tensor { buffer: Buffer::from_slice(device, data)?, layout })
    }

    /// Zeros.
    ///
    /// # Errors
    ///
    /// [`Error::Rank`], [`Error::TooLarge`], [`Error::OutOfMemory`], or another driver error.
    pub fn zeros(device: &Device, shape: impl AsRef<[usize]>) -> Result<Self> {
        let layout = Layout::contiguous(shape.as_ref())?;
        Ok(Tensor { buffer: Buffer::zeroed(device, layout.count())?, layout })
    }

    /// Memory for a kernel to write.
    pub(crate) fn output(device: &Device, shape: impl AsRef<[usize]>) -> Result<Self> {
        let layout = Layout::contiguous(shape.as_ref())?;
        Ok(Tensor { buffer: Buffer::new(device, layout.count())?, layout })
    }

    /// Copies `data` over the tensor, after the work before it.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] if `data` does not fill the tensor, or a driver error.
    pub fn copy_from_slice(&mut self, data: &[E]) -> Result<()> {
        check_length("data", data.len(), self.len())?;
        self.buffer.write(0, data)
    }

    /// Copies `data` over the elements from `offset` on, in row-major order, after the work before
    /// it.
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if the tensor ends before `data` does, or a driver error.
    pub fn write(&mut self, offset: usize, data: &[E]) -> Result<()> {
        self.check_bounds("data", &(offset..offset.saturating_add(data.len())))?;
        self.buffer.write(offset, data)
    }

    /// Sets all elements to zero, in the order of the device's work; does not wait.
    ///
    /// # Errors
    ///
    /// A driver error.
    pub fn clear(&mut self) -> Result<()> {
        self.buffer.fill_bytes(0)
    }

    /// A copy of the elements, in row-major order, after the work before it.
    ///
    /// # Errors
    ///
    /// A driver error, also of the work before it.
    pub fn to_vec(&self) -> Result<Vec<E>> {
        self.buffer.to_vec()
    }

    /// A copy of these elements, counted in row-major order, after the work before it.
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if the tensor has not all of them, or a driver error, also of the work
    /// before it.
    pub fn read(&self, range: Range<usize>) -> Result<Vec<E>> {
        self.check_bounds("range", &range)?;
        self.buffer.read(range)
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    fn check_bounds(&self, argument: &'static str, range: &Range<usize>) -> Result<()> {
        if range.start <= range.end && range.end <= self.len() {
            return Ok(());
        }
        Err(Error::Bounds { argument, found: range.clone(), elements: self.len() })
    }
}

fn check_length(argument: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Length { argument, found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_are_rounded_once() {
        let f16s = [
            (1.0 + 2f64.powi(-11) + 2f64.powi(-40), 1.0009765625),
            (1.0 + 2f64.powi(-11), 1.0),
            (1.0 + 2f64.powi(-11) - 2f64.powi(-40), 1.0),
            (-1.0 - 2f64.powi(-11) - 2f64.powi(-40), -1.0009765625),
            (1.5 * 2f64.powi(-25), 2f64.powi(-24)),
            (65520.0, f64::INFINITY),
        ];
        for (value, right) in f16s {
            assert_eq!(<f16 as Dtype>::from_f64(value).to_f64(), right, "{value:e}");
        }
        let value = 1.0 + 2f64.powi(-8) + 2f64.powi(-30);
        assert_eq!(<bf16 as Dtype>::from_f64(value).to_f64(), 1.0078125);
        assert!(<bf16 as Dtype>::from_f64(f64::NAN).is_nan());
    }
}
