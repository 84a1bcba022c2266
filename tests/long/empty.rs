//! Rows of no columns: nothing is computed, and nothing is left behind.

use ferronorm::args::RowStats;
use ferronorm::plan::longest_held;
use ferronorm::{
    Device, Dtype, Gradients, Inputs as Views, LayerNorm, Options, Outputs, Saved, Statistics,
    Target, Targets, Tensor,
};

use crate::common::{Inputs, Outcome, assert_close, flat, layer, run};

/// Calls with columns, short and split, are right: before the empty one, so that it finds something
/// in the layer's scratch, and after it.
fn check_others<E: Dtype>(layer: &LayerNorm) -> Outcome {
    for columns in [100, longest_held(E::DTYPE) + 1] {
        let inputs = Inputs::<E>::seed(3, columns, 21);
        assert_close("a call beside", &inputs, &run(layer, &inputs)?, &inputs.right());
    }
    Ok(())
}

fn empty<E: Dtype>(device: &Device, shape: &[usize]) -> ferronorm::Result<Tensor<E>> {
    Tensor::from_slice(device, &[], shape)
}

/// Statistics that are not 0.
fn used<E: Dtype>(device: &Device, rows: usize) -> Result<Statistics<E>, ferronorm::Error> {
    let x: Vec<E> = (0..3 * rows).map(|i| E::from_f64(i as f64 + 1.0)).collect();
    let (x, mut y) =
        (Tensor::from_slice(device, &x, [rows, 3])?, Tensor::zeros(device, [rows, 3])?);
    let mut statistics = Statistics::new(device, rows)?;
    let inputs = Views::<E, E> { x: x.view(), residual: None, w: None, b: None, eps: 1e-5 };
    let outputs = Outputs { y: y.view_mut(), sum: None, statistics: &mut statistics };
    LayerNorm::new(device).forward_into(&inputs, outputs)?;
    assert!(flat(&statistics.to_vec()?).iter().step_by(3).all(|mean| *mean != 0.0));
    Ok(statistics)
}

fn assert_zero<E: Dtype>(what: &str, statistics: &Statistics<E>, rows: usize) -> Outcome {
    let found = statistics.to_vec()?;
    assert_eq!(found.len(), rows, "{what}: statistics");
    for (row, RowStats { mean, mean_lo, rstd, rstd_lo }) in found.into_iter().enumerate() {
        let found: [f64; 4] = [mean, mean_lo, rstd, rstd_lo].map(Into::into);
        assert_eq!(found, [0.0; 4], "{what}: statistics of row {row}");
    }
    Ok(())
}

/// The forms that allocate, on statistics and gradients of their own; and forward over statistics
/// that held others.
pub fn check_none<E: Dtype>(device: &Device) -> Outcome {
    let shapes: [(&[usize], usize); 5] =
        [(&[3, 0], 1), (&[0, 0], 1), (&[0], 1), (&[2, 3, 0, 4], 2), (&[3, 4, 0], 2)];
    for (shape, dims) in shapes {
        let layer = layer(device, Options::default());
        check_others::<E>(&layer)?;
        let layer = layer.dims(dims);
        let (outer, inner) = shape.split_at(shape.len() - dims);
        let rows = outer.iter().product();
        let what = format!("{shape:?}");
        let (x, dy) = (empty::<E>(device, shape)?, empty::<E>(device, shape)?);
        let (w, b) = (empty::<E>(device, inner)?, empty::<E>(device, inner)?);
        for (w, b) in [(Some(&w), Some(&b)), (None, None)] {
            let (y, saved) = layer.forward(&x, w, b, 1e-5)?;
            assert_eq!((y.shape(), y.to_vec()?.len()), (shape, 0), "{what}: y");
            assert_zero(&what, saved.statistics(), rows)?;
            let found = layer.backward(&saved, &dy)?;
            assert_eq!((found.dx.shape(), found.dx.to_vec()?.len()), (shape, 0), "{what}: dx");
            for (found, argument) in [(found.dw, w), (found.db, b)] {
                assert_eq!(found.is_some(), argument.is_some(), "{what}");
                if let Some(found) = found {
                    assert_eq!((found.shape(), found.to_vec()?.len()), (inner, 0), "{what}");
                }
            }

            let mut statistics = used(device, rows)?;
            let inputs = Views { x: x.view(), residual: None, w, b, eps: 1e-5 };
            let mut y = empty(device, shape)?;
            let outputs = Outputs { y: y.view_mut(), sum: None, statistics: &mut statistics };
            layer.forward_into(&inputs, outputs)?;
            assert_zero(&format!("{what}, over others"), &statistics, rows)?;
        }
        check_others::<E>(&layer.dims(1))?;
    }
    Ok(())
}

/// Gradients of nothing, added to nothing.
pub fn check_added<E: Dtype>(device: &Device) -> Outcome {
    for shape in [[3, 0], [0, 0]] {
        let layer = layer(device, Options::default());
        check_others::<E>(&layer)?;
        let (x, dy) = (empty::<E>(device, &shape)?, empty::<E>(device, &shape)?);
        let (w, b) = (empty::<E>(device, &[0])?, empty::<E>(device, &[0])?);
        let (_, saved) = layer.forward(&x, &w, &b, 1e-5)?;
        let Gradients { mut dx, dw, db } = layer.backward(&saved, &dy)?;
        let (mut dw, mut db) = (dw.ok_or("no dw")?, db.ok_or("no db")?);
        let targets = Targets {
            dx: Some(Target::Accumulate(dx.view_mut())),
            dw: Some(Target::Accumulate(&mut dw)),
            db: Some(Target::Accumulate(&mut db)),
        };
        layer.backward_into(&saved, &dy, targets)?;
        layer.backward_timed(&saved, &dy, Targets::default())?;
        let saved: Saved<E, E> = saved;
        assert_zero(&format!("{shape:?}, after backward"), saved.statistics(), shape[0])?;
        check_others::<E>(&layer)?;
    }
    Ok(())
}
