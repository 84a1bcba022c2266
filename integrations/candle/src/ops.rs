//! The operations, on tensors.
//!
//! x is of f64, f32, f16 or bf16, of 1 to 8 dimensions, and normalised over the last. Rows are read
//! where they lie, also at a stride; where no one stride leads from row to row, or a row has gaps, x
//! is made contiguous first. w and b have one dimension, of the length of a row. They are of x's
//! type, or of f32 where that has 16 bits. Sums are f32, or f64 for f64.
//!
//! All have a backward for all their arguments. It computes what the graph asks for: no dx where x
//! comes from no variable. It has no backward itself: with candle's `CANDLE_GRAD_DO_NOT_DETACH`, which
//! is for second derivatives, it is an error.

use candle_core::{D, DType, Error, Result, Shape, Tensor};

use crate::norm::Norm;
use crate::place::matrix;

/// y = (x - mean) / sqrt(var + eps) * w + b for each row of x.
///
/// # Errors
///
/// A shape, type or eps that is not as the module says, with the argument's name; tensors on
/// different devices; a device other than the CPU and, with the feature `cuda`, CUDA's.
pub fn layer_norm(x: &Tensor, w: &Tensor, b: &Tensor, eps: f64) -> Result<Tensor> {
    with_bias(false, x, w, b, eps)
}

/// [`layer_norm`] without b.
///
/// # Errors
///
/// As [`layer_norm`].
pub fn layer_norm_no_bias(x: &Tensor, w: &Tensor, eps: f64) -> Result<Tensor> {
    without_bias(false, x, w, eps)
}

/// y = x / sqrt(mean(x^2) + eps) * w for each row of x.
///
/// # Errors
///
/// As [`layer_norm`].
pub fn rms_norm(x: &Tensor, w: &Tensor, eps: f64) -> Result<Tensor> {
    without_bias(true, x, w, eps)
}

/// [`rms_norm`] plus b.
///
/// # Errors
///
/// As [`layer_norm`].
pub fn rms_norm_with_bias(x: &Tensor, w: &Tensor, b: &Tensor, eps: f64) -> Result<Tensor> {
    with_bias(true, x, w, b, eps)
}

fn with_bias(rms: bool, x: &Tensor, w: &Tensor, b: &Tensor, eps: f64) -> Result<Tensor> {
    let (norm, x) = (norm(rms, eps)?, rows(x)?);
    let columns = x.dim(D::Minus1)?;
    let (w, b) = (vector("w", w, w.dtype(), columns)?, vector("b", b, w.dtype(), columns)?);
    x.apply_op3(&w, &b, norm)
}

fn without_bias(rms: bool, x: &Tensor, w: &Tensor, eps: f64) -> Result<Tensor> {
    let (norm, x) = (norm(rms, eps)?, rows(x)?);
    let columns = x.dim(D::Minus1)?;
    let w = vector("w", w, w.dtype(), columns)?;
    x.apply_op2(&w, norm)
}

fn norm(rms: bool, eps: f64) -> Result<Norm> {
    match eps.is_finite() && eps >= 0.0 {
        true => Ok(Norm::new(rms, eps)),
        false => Err(Error::wrap(ferronorm::Error::Epsilon { found: eps })),
    }
}

/// x, or a copy of it that the kernels can read.
fn rows(x: &Tensor) -> Result<Tensor> {
    match matrix(x.layout(), "x") {
        Ok(_) => Ok(x.clone()),
        Err(ferronorm::Error::Strides { .. }) => x.contiguous(),
        Err(error) => Err(Error::wrap(error)),
    }
}

/// A parameter, its elements side by side.
fn vector(name: &'static str, vector: &Tensor, dtype: DType, columns: usize) -> Result<Tensor> {
    if vector.dims() != [columns] {
        let (expected, got) = (Shape::from(columns), vector.shape().clone());
        return Err(Error::UnexpectedShape { msg: name.into(), expected, got }.bt());
    }
    if vector.dtype() != dtype {
        return Err(Error::UnexpectedDType { msg: name, expected: dtype, got: vector.dtype() }.bt());
    }
    vector.contiguous()
}
