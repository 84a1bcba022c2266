//! Layouts: those of public bug reports, and rows at strides of their own.

use ferronorm::{
    Device, Dtype, Error, Gradients, Inputs as Arguments, LayerNorm, Options, Outputs as Written,
    Result, Saved, Statistics, Target, Targets, Tensor, Upstream, View, ViewMut,
};

use super::tensors::Tensors;
use crate::common::{Inputs, Outcome, Outputs, assert_close, nans, poisoned, run};

/// How a matrix lies in a tensor of its own: as the layer is told, and as rows `step` apart.
#[derive(Clone, Debug)]
struct Place {
    offset: usize,
    step: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl Place {
    /// Rows `columns + gap` apart.
    fn rows([rows, columns]: [usize; 2], offset: usize, gap: usize) -> Place {
        let step = columns + gap;
        Place { offset, step, shape: vec![rows, columns], strides: vec![step, 1] }
    }

    /// `data` in its place (NaN without any), and NaN before, between and after its rows.
    fn put<E: Dtype>(
        &self,
        device: &Device,
        data: Option<&[E]>,
        [rows, columns]: [usize; 2],
    ) -> Result<Tensor<E>> {
        let mut all = nans::<E>(self.offset + (rows - 1) * self.step + columns + 3);
        for (row, data) in data.into_iter().flat_map(|data| data.chunks(columns)).enumerate() {
            all[self.offset + row * self.step..][..columns].copy_from_slice(data);
        }
        Tensor::from_slice(device, &all, [all.len()])
    }

    /// The matrix; asserts that around it all is NaN as before.
    fn take<E: Dtype>(&self, tensor: &Tensor<E>, [rows, columns]: [usize; 2]) -> Result<Vec<E>> {
        let mut all = tensor.to_vec()?;
        let mut matrix = Vec::new();
        for row in 0..rows {
            let row = &mut all[self.offset + row * self.step..][..columns];
            matrix.extend_from_slice(row);
            row.fill(E::from_f64(f64::NAN));
        }
        assert!(all.iter().all(|value| value.to_f64().is_nan()), "written beside {self:?}");
        Ok(matrix)
    }

    fn view<'a, E: Dtype>(&self, tensor: &'a Tensor<E>) -> Result<View<'a, E>> {
        tensor.view().strided(self.offset, &self.shape, &self.strides)
    }

    fn view_mut<'a, E: Dtype>(&self, tensor: &'a mut Tensor<E>) -> Result<ViewMut<'a, E>> {
        tensor.view_mut().strided(self.offset, &self.shape, &self.strides)
    }
}

/// Forward and backward with x, residual, sum, y, dy, dsum and dx in these places. (`inputs` has
/// all of them.)
fn run_at<E: Dtype, P: Dtype>(
    layer: &LayerNorm,
    inputs: &Inputs<E, P>,
    places: &[Place; 7],
) -> Result<Outputs<E, P>> {
    let (device, shape) = (layer.device(), inputs.shape);
    let put = |k: usize, data: Option<&[E]>| places[k].put(device, data, shape);
    let (x, residual) = (put(0, Some(&inputs.x))?, put(1, inputs.residual.as_deref())?);
    let (mut sum, mut y) = (put(2, None)?, put(3, None)?);
    let (dy, dsum) = (put(4, Some(&inputs.dy))?, put(5, inputs.dsum.as_deref())?);
    let mut dx = put(6, None)?;
    let vector = |data: &Vec<P>| Tensor::from_slice(device, data, [shape[1]]);
    let w = inputs.w.as_ref().map(vector).transpose()?;
    let b = inputs.b.as_ref().map(vector).transpose()?;

    let arguments = Arguments {
        x: places[0].view(&x)?,
        residual: Some(places[1].view(&residual)?),
        w: w.as_ref(),
        b: b.as_ref(),
        eps: inputs.norm.eps,
    };
    let mut statistics = Statistics::new(device, shape[0])?;
    let written = Written {
        y: places[3].view_mut(&mut y)?,
        sum: Some(places[2].view_mut(&mut sum)?),
        statistics: &mut statistics,
    };
    layer.forward_into(&arguments, written)?;

    let saved = Saved::new(Arguments { x: places[2].view(&sum)?, ..arguments }, statistics);
    let (mut dw, mut db) = (poisoned(device, [shape[1]])?, poisoned(device, [shape[1]])?);
    let targets = Targets {
        dx: Some(Target::Overwrite(places[6].view_mut(&mut dx)?)),
        dw: Some(Target::Overwrite(&mut dw)),
        db: Some(Target::Overwrite(&mut db)),
    };
    let upstream = Upstream { dy: places[4].view(&dy)?, dsum: Some(places[5].view(&dsum)?) };
    layer.backward_into(&saved, upstream, targets)?;
    Ok(Outputs {
        y: places[3].take(&y, shape)?,
        stats: saved.statistics().to_vec()?,
        sum: Some(places[2].take(&sum, shape)?),
        dx: places[6].take(&dx, shape)?,
        dw: Some(dw.to_vec()?),
        db: Some(db.to_vec()?),
    })
}

/// Inputs with all that a run can have.
fn complete<E: Dtype, P: Dtype>([rows, columns]: [usize; 2]) -> Inputs<E, P> {
    let mut inputs = Inputs::<E, P>::seed(rows, columns, 42);
    inputs.residual = Some(inputs.dy.clone());
    inputs.dsum = Some(inputs.x.clone());
    inputs
}

fn check_at<E: Dtype, P: Dtype>(
    layer: &LayerNorm,
    inputs: &Inputs<E, P>,
    places: &[Place; 7],
) -> Outcome {
    let what = format!("{places:?}");
    let right = run(layer, inputs)?;
    let found = run_at(layer, inputs, places)?;
    found.assert_same_rows(&right, &what);
    // dw and db are summed in the order of the tiles, which are others off the 16-byte boundaries.
    assert_close(&what, inputs, &found, &inputs.right());
    Ok(())
}

/// Each tensor's rows have a stride of their own, in whole packs or not.
pub fn strided<E: Dtype, P: Dtype>(
    device: &Device,
    shape: [usize; 2],
    options: Options,
) -> Outcome {
    let inputs = complete::<E, P>(shape);
    let layer = inputs.layer(device, options);
    let lanes = E::DTYPE.lanes();
    let gaps = [3, 5, 0, 2, 6, 1, 4];
    check_at(&layer, &inputs, &gaps.map(|gap| Place::rows(shape, 2 * gap * lanes, gap * lanes)))?;
    check_at(&layer, &inputs, &gaps.map(|gap| Place::rows(shape, 7 - gap, gap)))
}

/// The strides of dimensions of one element lead nowhere, however large.
pub fn padded<E: Dtype, P: Dtype>(device: &Device) -> Outcome {
    let layouts: [([usize; 2], &[usize], &[usize]); 3] = [
        ([64, 128], &[64, 1, 128], &[128, 4_194_304, 1]),
        ([1, 128], &[1, 128], &[1 << 31, 1]),
        ([64, 128], &[1, 64, 1, 128], &[1, 128, usize::MAX, 1]),
    ];
    for (matrix, shape, strides) in layouts {
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        let place = Place { offset: 0, step: matrix[1], shape, strides };
        let inputs = complete::<E, P>(matrix);
        let layer = inputs.layer(device, Options::default());
        check_at(&layer, &inputs, &[(); 7].map(|()| place.clone()))?;
    }
    Ok(())
}

/// dy of one row for all, and of one element for all.
pub fn expanded<E: Dtype, P: Dtype>(device: &Device) -> Outcome {
    for (shape @ [rows, columns], options) in super::cases::<E>() {
        let mut inputs = Inputs::<E, P>::seed(rows, columns, 43);
        let row = inputs.dy[..columns].to_vec();
        inputs.dy = row.repeat(rows);
        let layer = inputs.layer(device, options);
        let mut right = run(&layer, &inputs)?;
        let tensors = Tensors::new(device, &inputs)?;
        let (_, saved) = tensors.forward(&layer)?;
        let dy = Tensor::from_slice(device, &row, [columns])?;
        let gradients = layer.backward(&saved, dy.view().strided(0, &shape, &[0, 1])?)?;
        assert_close("one row", &inputs, &right, &inputs.right());
        assert_gradients(&gradients, &mut right)?;

        let scalar = dy.view().strided(0, &shape, &[0, 0])?;
        refused_strides(layer.backward(&saved, scalar), "dy", &shape, &[0, 0]);
    }
    // Rows of one element: a stride from one to the next does not come into it.
    let mut inputs = Inputs::<E, P>::seed(9, 1, 44);
    inputs.dy = vec![inputs.dy[0]; 9];
    let layer = inputs.layer(device, Options::default());
    let mut right = run(&layer, &inputs)?;
    let tensors = Tensors::new(device, &inputs)?;
    let (_, saved) = tensors.forward(&layer)?;
    let scalar = Tensor::from_slice(device, &inputs.dy[..1], [1])?;
    let gradients = layer.backward(&saved, scalar.view().strided(0, &[9, 1], &[0, 0])?)?;
    assert_gradients(&gradients, &mut right)
}

/// The gradients have the bits of `right`.
fn assert_gradients<E: Dtype, P: Dtype>(
    found: &Gradients<E, P>,
    right: &mut Outputs<E, P>,
) -> Outcome {
    let expected = right.clone();
    right.dx = found.dx.to_vec()?;
    right.dw = found.dw.as_ref().map(Tensor::to_vec).transpose()?;
    right.db = found.db.as_ref().map(Tensor::to_vec).transpose()?;
    right.assert_same_rows(&expected, "expanded");
    right.assert_same_columns(&expected, "expanded");
    Ok(())
}

/// Every second column, a transposed matrix, rows with two strides between them: refused before
/// anything is written.
pub fn refused<E: Dtype, P: Dtype>(device: &Device) -> Outcome {
    let big = Tensor::from_slice(device, &[E::from_f64(1.0); 96], [96])?;
    let layouts: [(&[usize], &[usize]); 5] = [
        (&[4, 12], &[24, 2]),
        (&[12, 4], &[1, 12]),
        (&[1, 12], &[96, 2]),
        (&[4, 2, 8], &[24, 8, 1]),
        (&[4, 8], &[12, 0]),
    ];
    for (shape, strides) in layouts {
        let layer = LayerNorm::new(device);
        let x = big.view().strided(0, shape, strides)?;
        let arguments = Arguments::<E, P> { x, residual: None, w: None, b: None, eps: 1e-5 };
        let rows = shape[..shape.len() - 1].iter().product();
        let mut statistics = Statistics::new(device, rows)?;
        let mut y = poisoned::<E>(device, shape)?;
        let outputs = Written { y: y.view_mut(), sum: None, statistics: &mut statistics };
        refused_strides(layer.forward_into(&arguments, outputs), "x", shape, strides);
        assert!(y.to_vec()?.iter().all(|y| y.to_f64().is_nan()), "a refused call has written");
    }
    Ok(())
}

fn refused_strides<T>(result: Result<T>, wrong: &str, sizes: &[usize], steps: &[usize]) {
    match result {
        Err(Error::Strides { argument, shape, strides, .. }) => {
            assert_eq!((argument, &shape[..], &strides[..]), (wrong, sizes, steps));
        }
        Err(error) => panic!("{wrong} {sizes:?} {steps:?}: {error}"),
        Ok(_) => panic!("{wrong} {sizes:?} {steps:?}: not refused"),
    }
}
