//! A run's inputs on a device, and the gradients asked for.

use ferronorm::{
    Device, Dtype, Gradients, LayerNorm, Result, Saved, Target, Targets, Tensor, Upstream,
};

use crate::common::{Inputs, poisoned};

/// A run's inputs.
pub struct Tensors<E, P> {
    pub x: Tensor<E>,
    pub w: Option<Tensor<P>>,
    pub b: Option<Tensor<P>>,
    pub dy: Tensor<E>,
    pub dsum: Option<Tensor<E>>,
    eps: f64,
}

impl<E: Dtype, P: Dtype> Tensors<E, P> {
    /// Those of `inputs`, as one matrix or vector each. A residual has no place here.
    pub fn new(device: &Device, inputs: &Inputs<E, P>) -> Result<Self> {
        let [_, columns] = inputs.shape;
        Self::shaped(device, inputs, &inputs.shape, &[columns])
    }

    /// The same in other shapes: of x and its like, and of w and b.
    pub fn shaped(
        device: &Device,
        inputs: &Inputs<E, P>,
        shape: &[usize],
        normalised: &[usize],
    ) -> Result<Self> {
        assert!(inputs.residual.is_none());
        let matrix = |data: &Vec<E>| Tensor::from_slice(device, data, shape);
        let vector = |data: &Vec<P>| Tensor::from_slice(device, data, normalised);
        Ok(Tensors {
            x: matrix(&inputs.x)?,
            w: inputs.w.as_ref().map(vector).transpose()?,
            b: inputs.b.as_ref().map(vector).transpose()?,
            dy: matrix(&inputs.dy)?,
            dsum: inputs.dsum.as_ref().map(matrix).transpose()?,
            eps: inputs.norm.eps,
        })
    }

    /// y, and what backward needs.
    pub fn forward(&self, layer: &LayerNorm) -> Result<(Tensor<E>, Saved<'_, E, P>)> {
        layer.forward(&self.x, self.w.as_ref(), self.b.as_ref(), self.eps)
    }

    /// dy and dsum.
    pub fn upstream(&self) -> Upstream<'_, E> {
        Upstream { dy: self.dy.view(), dsum: self.dsum.as_ref().map(Tensor::view) }
    }
}

/// Whether a gradient is asked for, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ask {
    No,
    Over,
    Add,
}

impl Ask {
    fn target<T>(self, place: T) -> Option<Target<T>> {
        match self {
            Ask::No => None,
            Ask::Over => Some(Target::Overwrite(place)),
            Ask::Add => Some(Target::Accumulate(place)),
        }
    }
}

/// What is asked for of dx, dw and db.
pub fn targets<E: Dtype, P: Dtype>(
    gradients: &mut Gradients<E, P>,
    [dx, dw, db]: [Ask; 3],
) -> Targets<'_, E, P> {
    Targets {
        dx: dx.target(gradients.dx.view_mut()),
        dw: gradients.dw.as_mut().and_then(|place| dw.target(place)),
        db: gradients.db.as_mut().and_then(|place| db.target(place)),
    }
}

/// Gradients of w and b too, of NaN.
pub fn unwritten<E: Dtype, P: Dtype>(
    device: &Device,
    shape: &[usize],
    normalised: &[usize],
) -> Result<Gradients<E, P>> {
    Ok(Gradients {
        dx: poisoned(device, shape)?,
        dw: Some(poisoned(device, normalised)?),
        db: Some(poisoned(device, normalised)?),
    })
}

/// Each choice among three.
pub fn subsets() -> impl Iterator<Item = [bool; 3]> {
    (0..8).map(|bits| [1, 2, 4].map(|bit| bits & bit != 0))
}

/// The elements of a gradient that is there.
pub fn elements<E: Dtype>(gradient: &Option<Tensor<E>>) -> Result<Vec<E>> {
    gradient.as_ref().expect("a gradient").to_vec()
}
