//! Rows of several dimensions.

use ferronorm::{Device, Dtype, Options, plan};

use super::tensors::Tensors;
use crate::common::refusal::{self, refused};
use crate::common::{Inputs, Outcome, Outputs, run};

/// The last dimensions, as many as the layer is told, are as one.
pub fn check<E: Dtype, P: Dtype>(device: &Device) -> Outcome {
    for dims in 1..=4 {
        check_shape::<E, P>(device, &[2, 3, 4, 5], dims)?;
    }
    let split = plan::longest_held(E::DTYPE) / 5 + 1;
    check_shape::<E, P>(device, &[3, 5, split], 2)
}

fn check_shape<E: Dtype, P: Dtype>(device: &Device, shape: &[usize], dims: usize) -> Outcome {
    let what = format!("{shape:?}, {dims} of it");
    let (outer, normalised) = shape.split_at(shape.len() - dims);
    let (rows, columns) = (outer.iter().product(), normalised.iter().product());
    let inputs = Inputs::<E, P>::seed(rows, columns, 39);
    let right = run(&inputs.layer(device, Options::default()), &inputs)?;

    let layer = inputs.layer(device, Options::default()).dims(dims);
    let tensors = Tensors::shaped(device, &inputs, shape, normalised)?;
    let (y, saved) = tensors.forward(&layer)?;
    let gradients = layer.backward(&saved, &tensors.dy)?;
    let (dw, db) = (gradients.dw.ok_or("no dw")?, gradients.db.ok_or("no db")?);
    assert_eq!((y.shape(), gradients.dx.shape()), (shape, shape), "{what}");
    assert_eq!((dw.shape(), db.shape()), (normalised, normalised), "{what}");
    let found = Outputs {
        y: y.to_vec()?,
        sum: None,
        stats: saved.statistics().to_vec()?,
        dx: gradients.dx.to_vec()?,
        dw: Some(dw.to_vec()?),
        db: Some(db.to_vec()?),
    };
    found.assert_same_rows(&right, &what);
    found.assert_same_columns(&right, &what);

    if dims > 1 {
        // As many elements, but not the dimensions.
        let tensors = Tensors::shaped(device, &inputs, shape, &[columns])?;
        refused(tensors.forward(&layer), &refusal::shape("w", [columns], normalised));
    }
    Ok(())
}
