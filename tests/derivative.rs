//! The gradients are those of what forward computes: its own finite differences, in f64.

use std::process::ExitCode;

use common::{Inputs, Outcome, Suite, round, run};
use ferronorm::plan::{DataType, longest_held};
use ferronorm::{Device, LayerNorm, Options, Result, Tensor};
use reference::{Norm, seed_case};

mod common;

/// The step of the differences: their error is about STEP^2, and that of rounding 1e-16 / STEP.
const STEP: f64 = 1e-5;
/// For the first, by the third derivative.
const ALLOWED: f64 = 1e-8;

/// What the loss is differentiated by.
#[derive(Clone, Copy, Debug)]
enum Argument {
    X,
    Residual,
    W,
    B,
}

impl Argument {
    /// Its elements; none if it is absent.
    fn of(self, inputs: &mut Inputs<f64>) -> &mut [f64] {
        let Inputs { x, residual, w, b, .. } = inputs;
        match self {
            Argument::X => x,
            Argument::Residual => residual.as_deref_mut().unwrap_or_default(),
            Argument::W => w.as_deref_mut().unwrap_or_default(),
            Argument::B => b.as_deref_mut().unwrap_or_default(),
        }
    }
}

/// The terms of the loss: dy * y, and with a residual dsum * sum.
fn loss(layer: &LayerNorm, inputs: &Inputs<f64>) -> Result<Vec<f64>> {
    let (device, shape @ [_, columns]) = (layer.device(), inputs.shape);
    let vector = |data: &Vec<f64>| Tensor::from_slice(device, data, [columns]);
    let x = Tensor::from_slice(device, &inputs.x, shape)?;
    let w = inputs.w.as_ref().map(vector).transpose()?;
    let b = inputs.b.as_ref().map(vector).transpose()?;
    let (w, b, eps) = (w.as_ref(), b.as_ref(), inputs.norm.eps);
    let by = |value: &[f64], c: &[f64]| value.iter().zip(c).map(|(v, c)| v * c).collect();
    let (Some(residual), Some(dsum)) = (&inputs.residual, &inputs.dsum) else {
        return Ok(by(&layer.forward(&x, w, b, eps)?.0.to_vec()?, &inputs.dy));
    };
    let residual = Tensor::from_slice(device, residual, shape)?;
    let found = layer.forward_residual(&x, &residual, w, b, eps)?;
    let mut terms: Vec<f64> = by(&found.y.to_vec()?, &inputs.dy);
    terms.extend::<Vec<f64>>(by(&found.sum.to_vec()?, dsum));
    Ok(terms)
}

/// The derivative of the loss by element `i` of `argument`, and how far off it may be by rounding.
fn slope(
    layer: &LayerNorm,
    inputs: &Inputs<f64>,
    argument: Argument,
    i: usize,
) -> Result<[f64; 2]> {
    let at = |step: f64| {
        let mut moved = inputs.clone();
        let element = &mut argument.of(&mut moved)[i];
        *element += step;
        let place = *element;
        Ok((place, loss(layer, &moved)?))
    };
    let ((right, more), (left, less)) = (at(STEP)?, at(-STEP)?);
    // Term by term: the loss itself is large beside what a step makes of it.
    let differences = more.iter().zip(&less).map(|(more, less)| more - less);
    // The rounding of one rstd is in all terms of its row.
    let size: f64 = more.iter().map(|term| term.abs()).sum();
    Ok([differences.sum::<f64>() / (right - left), f64::EPSILON * size / STEP])
}

/// Which elements to try: all, or of many those about the ends of a row and of its chunks.
fn elements(count: usize) -> Vec<usize> {
    match count {
        0..=100 => (0..count).collect(),
        _ => vec![0, 1, 2047, 2048, count / 2, count - 2, count - 1],
    }
}

fn check(device: &Device, shape: [usize; 2], norm: Norm, residual: bool) -> Outcome {
    let [rows, columns] = shape;
    let (case, more) = (seed_case(rows, columns, 11), seed_case(rows, columns, 12));
    let mut inputs = Inputs::<f64> { norm, ..Inputs::new(&case, norm.eps) };
    // Means that are not 0, so that no term of dx is.
    inputs.dy.iter_mut().for_each(|dy| *dy += 0.3);
    if residual {
        inputs.residual = Some(round(&more.x));
        inputs.dsum = Some(more.dy.iter().map(|dy| dy - 0.2).collect());
    }
    let layer = inputs.layer(device, Options::default());
    let found = run(&layer, &inputs)?;
    let (dx, dw, db) = (found.dx, found.dw.unwrap_or_default(), found.db.unwrap_or_default());
    for (argument, gradient) in
        [(Argument::X, &dx), (Argument::Residual, &dx), (Argument::W, &dw), (Argument::B, &db)]
    {
        let count = argument.of(&mut inputs).len();
        for i in elements(count) {
            let [slope, rounding] = slope(&layer, &inputs, argument, i)?;
            let (found, off) = (gradient[i], (gradient[i] - slope).abs());
            assert!(
                off <= ALLOWED * (1.0 + slope.abs()) + rounding,
                "by {argument:?}[{i}]: {found}, where the loss has a slope of {slope}"
            );
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    // A large eps, so that it is seen in the gradients, and no two near x make a cliff.
    let layer = Norm::layer(0.1);
    let norms = [
        ("LayerNorm", layer),
        ("RMSNorm", Norm { rms: true, ..layer }),
        ("LayerNorm of 1 + w", Norm { weight_offset: 1.0, ..layer }),
        ("RMSNorm of 1 + w", Norm { rms: true, weight_offset: 1.0, ..layer }),
    ];
    let split = longest_held(DataType::F64) + 3;
    for (name, norm) in norms {
        for shape @ [rows, columns] in [[3, 1], [3, 2], [3, 5], [3, 33], [1, split]] {
            for (residual, with) in [(false, ""), (true, " with a residual")] {
                let name = format!("{name}{with}, {rows}x{columns}");
                suite.both(&name, move |device| check(device, shape, norm, residual));
            }
        }
    }
    suite.run()
}
