//! Every gradient, beside differences of the loss in f64.

use candle_core::Var;
use candle_core::{DType, Device, Result, Tensor};
use ferronorm_candle::ops;

mod common;

use common::{Outcome, Suite, flat, numbers, variable};

const ROWS: usize = 3;
const COLUMNS: usize = 10;

fn loss(rms: bool, variables: &[Tensor; 3], dy: &Tensor) -> Result<Tensor> {
    let [x, w, b] = variables;
    let y = match rms {
        false => ops::layer_norm(x, w, b, 1e-5)?,
        true => ops::rms_norm_with_bias(x, w, b, 1e-5)?,
    };
    // Not linear in y, so that dy is not a constant.
    ((y.sqr()? + &y)? * dy)?.sum_all()
}

fn check(device: &Device, rms: bool) -> Outcome {
    let shapes: [&[usize]; 3] = [&[ROWS, COLUMNS], &[COLUMNS], &[COLUMNS]];
    let dy = numbers(9, shapes[0], DType::F64, device)?;
    let mut variables = Vec::new();
    for (i, shape) in shapes.iter().enumerate() {
        variables.push(variable(i, shape, DType::F64, device)?);
    }
    let tensors = |variables: &[Var]| std::array::from_fn(|i| variables[i].as_tensor().clone());
    let gradients = loss(rms, &tensors(&variables), &dy)?.backward()?;

    // Differences to both sides are off by h^2 and by the loss's rounding over h.
    let h = 1e-5;
    for (i, name) in ["dx", "dw", "db"].into_iter().enumerate() {
        let gradient = flat(gradients.get(&variables[i]).expect("a gradient"))?;
        for (at, gradient) in gradient.iter().enumerate() {
            let mut losses = [0.0; 2];
            for (loss_there, step) in losses.iter_mut().zip([h, -h]) {
                let mut moved = flat(&variables[i])?;
                moved[at] += step;
                let mut there = tensors(&variables);
                there[i] = Tensor::from_vec(moved, shapes[i], device)?;
                *loss_there = loss(rms, &there, &dy)?.to_scalar()?;
            }
            let difference = (losses[0] - losses[1]) / (2.0 * h);
            let off = (gradient - difference).abs();
            assert!(off < 1e-7, "{name}[{at}]: {gradient}, by differences {difference}");
        }
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let mut suite = Suite::default();
    suite.both("layer_norm", |device| check(device, false));
    suite.both("rms_norm", |device| check(device, true));
    suite.run()
}
