//! What goes into a LayerNorm and what comes out.

use kernels::Element;
use kernels::args::RowStats;

use crate::device::buffer::Buffer;
use crate::{Device, Dtype, Result, Tensor, View, ViewMut};

/// What forward reads. Rows are x's last dimensions, as many as the layer normalises over; they may
/// have any stride from one to the next, each tensor its own.
pub struct Inputs<'a, E, P> {
    /// Any leading dimensions, then the normalised ones.
    pub x: View<'a, E>,
    /// Added to x before anything else, and rounded to the type of x; of its shape.
    pub residual: Option<View<'a, E>>,
    /// Weight, of the normalised shape; of the type of x, or f32 for 16-bit x. None is as 1.
    pub w: Option<&'a Tensor<P>>,
    /// Bias, likewise. None is as 0.
    pub b: Option<&'a Tensor<P>>,
    /// Added to the variance, inside the root.
    pub eps: f64,
}

impl<E, P> Clone for Inputs<'_, E, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, P> Copy for Inputs<'_, E, P> {}

/// What forward writes. None of it can be an input: the borrow checker refuses in-place work here.
pub struct Outputs<'a, E: Element> {
    /// Of the shape of x.
    pub y: ViewMut<'a, E>,
    /// x + residual, of the shape of x: given if and only if there is a residual.
    pub sum: Option<ViewMut<'a, E>>,
    /// As many as x has rows.
    pub statistics: &'a mut Statistics<E>,
}

/// What [`crate::LayerNorm::forward_residual`] gives.
pub struct Residual<E: Element> {
    /// The normalised sum.
    pub y: Tensor<E>,
    /// x + residual. For [`Saved::new`] it takes the place of x.
    pub sum: Tensor<E>,
    /// The statistics of the sum's rows.
    pub statistics: Statistics<E>,
}

/// The row statistics that forward saves: in f32, or f64 for f64.
pub struct Statistics<E: Element>(pub(super) Buffer<RowStats<E::Real>>);

impl<E: Dtype> Statistics<E> {
    /// Room for the statistics of `rows` rows.
    ///
    /// # Errors
    ///
    /// [`crate::Error::OutOfMemory`], or another driver error.
    pub fn new(device: &Device, rows: usize) -> Result<Self> {
        Ok(Statistics(Buffer::zeroed(device, rows)?))
    }

    pub(super) fn output(device: &Device, rows: usize) -> Result<Self> {
        Ok(Statistics(Buffer::new(device, rows)?))
    }

    /// Each row's mean, its rest and rstd, after the work before it.
    ///
    /// # Errors
    ///
    /// A driver error, also of the work before it.
    pub fn to_vec(&self) -> Result<Vec<RowStats<E::Real>>> {
        self.0.to_vec()
    }
}

/// What forward saves for backward: its own arguments, borrowed, and the statistics.
pub struct Saved<'a, E: Element, P> {
    pub(super) inputs: Inputs<'a, E, P>,
    pub(super) statistics: Statistics<E>,
}

impl<'a, E: Element, P> Saved<'a, E, P> {
    /// The inputs of a [`crate::LayerNorm::forward_into`], and the statistics that it wrote. If it
    /// had a residual, x is now the stored sum; the residual itself is not looked at.
    pub fn new(inputs: Inputs<'a, E, P>, statistics: Statistics<E>) -> Self {
        Saved { inputs, statistics }
    }

    /// The row statistics.
    pub fn statistics(&self) -> &Statistics<E> {
        &self.statistics
    }
}

/// The gradients that come from above. Made of dy alone by `into()`.
pub struct Upstream<'a, E> {
    /// Of y, and of its shape. Rows may be one and the same (stride 0).
    pub dy: View<'a, E>,
    /// Of forward's sum, which is added to dx.
    pub dsum: Option<View<'a, E>>,
}

impl<'a, E> From<View<'a, E>> for Upstream<'a, E> {
    fn from(dy: View<'a, E>) -> Self {
        Upstream { dy, dsum: None }
    }
}

impl<'a, E> From<&'a Tensor<E>> for Upstream<'a, E> {
    fn from(dy: &'a Tensor<E>) -> Self {
        Upstream::from(dy.view())
    }
}

/// The gradients of forward's arguments.
pub struct Gradients<E, P> {
    /// Of x, and of its residual.
    pub dx: Tensor<E>,
    /// Of w, if there was one.
    pub dw: Option<Tensor<P>>,
    /// Of b, if there was one.
    pub db: Option<Tensor<P>>,
}

impl<E: Dtype, P: Dtype> Gradients<E, P> {
    /// Room for the gradients of a forward's arguments.
    ///
    /// # Errors
    ///
    /// [`crate::Error::OutOfMemory`], or another driver error.
    pub fn new(device: &Device, saved: &Saved<'_, E, P>) -> Result<Self> {
        let Inputs { x, w, b, .. } = saved.inputs;
        let like = |tensor: &Tensor<P>| Tensor::output(device, tensor.shape());
        Ok(Gradients {
            dx: Tensor::output(device, x.shape())?,
            dw: w.map(like).transpose()?,
            db: b.map(like).transpose()?,
        })
    }
}

/// Where a gradient goes.
pub enum Target<T> {
    /// Over what is there.
    Overwrite(T),
    /// Added to what is there: in the precision of the calculation, rounded once.
    Accumulate(T),
}

/// The gradients that are asked for; what is `None` is neither written nor launched for.
pub struct Targets<'a, E, P> {
    /// Of x, and of its shape.
    pub dx: Option<Target<ViewMut<'a, E>>>,
    /// Of w, and of its shape.
    pub dw: Option<Target<&'a mut Tensor<P>>>,
    /// Of b, and of its shape.
    pub db: Option<Target<&'a mut Tensor<P>>>,
}

/// Nothing is asked for.
impl<E, P> Default for Targets<'_, E, P> {
    fn default() -> Self {
        Targets { dx: None, dw: None, db: None }
    }
}

/// All of them, over what is there.
impl<'a, E, P> From<&'a mut Gradients<E, P>> for Targets<'a, E, P> {
    fn from(gradients: &'a mut Gradients<E, P>) -> Self {
        Targets {
            dx: Some(Target::Overwrite(gradients.dx.view_mut())),
            dw: gradients.dw.as_mut().map(Target::Overwrite),
            db: gradients.db.as_mut().map(Target::Overwrite),
        }
    }
}
