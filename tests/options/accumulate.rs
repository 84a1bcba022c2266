//! Gradients that are added to what is there.

use ferronorm::plan::DataType;
use ferronorm::{Device, Dtype, Gradients, Options, Tensor};
use reference::{Case, seed_case};

use super::tensors::{Ask, Tensors, elements, subsets, targets};
use crate::common::{Inputs, Outcome, assert_same, nans, round, widen};

/// Rows of +1 and -1 in RMSNorm with eps = 0 have x_hat = x exactly. With w = 1 and dy = x, dx is 0
/// beside the gradient of the sum, dw is M, and db is the sum of a column: integers, in whatever
/// order they are added.
pub fn exact<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2], options: Options) -> Outcome {
    let [rows, columns] = shape;
    let sign = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        if (row * 31 + column * 17) % 7 < 3 { 1.0 } else { -1.0 }
    };
    let integers = |len: usize, step: f64, most: f64| -> Vec<f64> {
        (0..len).map(|i| step * (i % 7) as f64 - most).collect()
    };
    let x: Vec<f64> = (0..rows * columns).map(sign).collect();
    let (w, b) = (vec![1.0; columns], vec![0.0; columns]);
    let dsum = integers(x.len(), 1.0, 3.0);
    let mut inputs = Inputs::<E, P>::new(&Case { x: x.clone(), w, b, dy: x.clone() }, 0.0);
    inputs.norm.rms = true;
    inputs.dsum = Some(round(&dsum));

    let column_sum = |column: usize| x.iter().skip(column).step_by(columns).sum();
    let gradient = [dsum, vec![rows as f64; columns], (0..columns).map(column_sum).collect()];
    // Multiples of 8, since bf16 has no others past 1024.
    let before = [x.len(), columns, columns].map(|len| integers(len, 8.0, 24.0));

    let layer = inputs.layer(device, options);
    let tensors = Tensors::new(device, &inputs)?;
    let (y, saved) = tensors.forward(&layer)?;
    assert_same("y = x_hat = x", &y.to_vec()?, &inputs.x);
    for adds in subsets() {
        let asks = adds.map(|add| if add { Ask::Add } else { Ask::Over });
        let vector = |k: usize| {
            let data = if adds[k] { round(&before[k]) } else { nans::<P>(columns) };
            Tensor::from_slice(device, &data, [columns])
        };
        let dx = if adds[0] { round(&before[0]) } else { nans::<E>(x.len()) };
        let dx = Tensor::from_slice(device, &dx, shape)?;
        let mut gradients = Gradients { dx, dw: Some(vector(1)?), db: Some(vector(2)?) };
        for times in [1.0, 2.0] {
            layer.backward_into(&saved, tensors.upstream(), targets(&mut gradients, asks))?;
            let right = |k: usize| -> Vec<f64> {
                let added = |(before, gradient): (&f64, &f64)| before + times * gradient;
                let sums = before[k].iter().zip(&gradient[k]).map(added);
                if adds[k] { sums.collect() } else { gradient[k].clone() }
            };
            let what = |name: &str| format!("{name}, {asks:?}, {times} times");
            assert_same(&what("dx"), &gradients.dx.to_vec()?, &round(&right(0)));
            assert_same(&what("dw"), &elements(&gradients.dw)?, &round(&right(1)));
            assert_same(&what("db"), &elements(&gradients.db)?, &round(&right(2)));
        }
    }
    Ok(())
}

/// What was there and the gradient meet before rounding: the result is the number of its type that
/// is nearest to their sum, but for the error of the calculation.
pub fn rounds_once<E: Dtype, P: Dtype>(
    device: &Device,
    shape: [usize; 2],
    options: Options,
) -> Outcome {
    let [rows, columns] = shape;
    let mut inputs = Inputs::<E, P>::seed(rows, columns, 36);
    let more = seed_case(rows, columns, 37);
    for dsum in [None, Some(round(&more.dy))] {
        inputs.dsum = dsum;
        let right = inputs.right();
        let dx_before: Vec<E> = more.x.iter().map(|x| E::from_f64((x + 2.3) / 3.0)).collect();
        let (dw_before, db_before): (Vec<P>, Vec<P>) = (round(&more.w), round(&more.b));
        let layer = inputs.layer(device, options);
        let tensors = Tensors::new(device, &inputs)?;
        let (_, saved) = tensors.forward(&layer)?;
        let mut gradients = Gradients {
            dx: Tensor::from_slice(device, &dx_before, shape)?,
            dw: Some(Tensor::from_slice(device, &dw_before, [columns])?),
            db: Some(Tensor::from_slice(device, &db_before, [columns])?),
        };
        layer.backward_into(&saved, tensors.upstream(), targets(&mut gradients, [Ask::Add; 3]))?;
        assert_nearest("dx", &gradients.dx.to_vec()?, &dx_before, &right.dx);
        assert_nearest("dw", &elements(&gradients.dw)?, &dw_before, &right.dw);
        assert_nearest("db", &elements(&gradients.db)?, &db_before, &right.db);
    }
    Ok(())
}

/// What is allowed beside the one rounding is the error of the calculation, a hundredth of what a
/// 16-bit gradient loses when it is rounded before it is added.
fn assert_nearest<T: Dtype>(what: &str, found: &[T], before: &[T], gradient: &[f64]) {
    let unit = if T::DTYPE == DataType::F64 { 1e-14 } else { 2e-6 };
    let before = widen(before);
    let scale = before.iter().chain(gradient).fold(0.0f64, |most, value| most.max(value.abs()));
    assert_eq!((found.len(), before.len()), (gradient.len(), gradient.len()), "{what}: length");
    for (i, found) in widen(found).into_iter().enumerate() {
        let right = before[i] + gradient[i];
        let nearest = T::from_f64(right).to_f64();
        let allowed = (nearest - right).abs() + unit * scale;
        // NaN is not at most anything.
        let near = (found - right).abs() <= allowed;
        assert!(near, "{what}[{i}]: {found:e}, where {right:e} is right and {nearest:e} nearest");
    }
}
