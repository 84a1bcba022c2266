//! How to join LayerNorm to a graph of your own: two of them, one after the other, and a loss.
//!
//! ```text
//! cargo run --release --example autograd
//! ```
//!
//! ```text
//! x -> LayerNorm(w1, b1) -> h -> LayerNorm(w2, b2) -> y -> loss = sum((y - target)^2) / 2
//! ```
//!
//! Forward gives each layer's y and what its backward needs (`saved`). Backward goes the other way:
//! dx of one layer is dy of the layer before. Every gradient is then held against differences of the
//! loss.

use std::process::ExitCode;

use ferronorm::{Device, LayerNorm, Result, Tensor};

const ROWS: usize = 5;
const COLUMNS: usize = 24;
const EPS: f64 = 1e-5;

/// x, w1, b1, w2 and b2, in f64, where differences are exact enough.
type Parameters = [Vec<f64>; 5];

const NAMES: [&str; 5] = ["dx", "dw1", "db1", "dw2", "db2"];

/// Numbers between -1 and 1, others for each `which`.
fn numbers(which: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 7919 + which * 104_729 + 1) as f64).sin()).collect()
}

fn upload(device: &Device, data: &[f64]) -> Result<Tensor<f64>> {
    let shape: &[usize] = if data.len() == COLUMNS { &[COLUMNS] } else { &[ROWS, COLUMNS] };
    Tensor::from_slice(device, data, shape)
}

/// The loss, and its gradient for y.
fn loss(y: &[f64], target: &[f64]) -> (f64, Vec<f64>) {
    let dy: Vec<f64> = y.iter().zip(target).map(|(y, target)| y - target).collect();
    (dy.iter().map(|d| d * d).sum::<f64>() / 2.0, dy)
}

/// The loss and its gradients for all parameters.
fn step(layer: &LayerNorm, parameters: &Parameters, target: &[f64]) -> Result<(f64, Parameters)> {
    let device = layer.device();
    let [x, w1, b1, w2, b2] = parameters.each_ref().map(|data| upload(device, data));
    let (x, w1, b1, w2, b2) = (x?, w1?, b1?, w2?, b2?);

    let (h, saved1) = layer.forward(&x, &w1, &b1, EPS)?;
    let (y, saved2) = layer.forward(&h, &w2, &b2, EPS)?;
    let (loss, dy) = loss(&y.to_vec()?, target);

    let second = layer.backward(&saved2, &upload(device, &dy)?)?;
    let first = layer.backward(&saved1, &second.dx)?;
    let all = [Some(first.dx), first.dw, first.db, second.dw, second.db];
    let [dx, dw1, db1, dw2, db2] =
        all.map(|gradient| gradient.map_or(Ok(Vec::new()), |gradient| gradient.to_vec()));
    Ok((loss, [dx?, dw1?, db1?, dw2?, db2?]))
}

fn main() -> Result<ExitCode> {
    let device = Device::auto()?;
    println!("{device}, f64, {ROWS} x {COLUMNS}");
    let layer = LayerNorm::new(&device);
    let lengths = [ROWS * COLUMNS, COLUMNS, COLUMNS, COLUMNS, COLUMNS];
    let mut parameters: Parameters = std::array::from_fn(|i| numbers(i, lengths[i]));
    let target = numbers(9, ROWS * COLUMNS);
    let (loss, gradients) = step(&layer, &parameters, &target)?;
    println!("loss {loss:.6}");

    // Differences to both sides are off by h^2 and by the loss's rounding over h.
    let h = 1e-5;
    let mut failed = false;
    for (i, name) in NAMES.iter().enumerate() {
        let mut worst = 0.0f64;
        for at in 0..lengths[i] {
            let before = parameters[i][at];
            let mut losses = [0.0; 2];
            for (loss, value) in losses.iter_mut().zip([before + h, before - h]) {
                parameters[i][at] = value;
                *loss = step(&layer, &parameters, &target)?.0;
            }
            parameters[i][at] = before;
            let difference = (losses[0] - losses[1]) / (2.0 * h);
            let gradient = gradients[i].get(at).copied().unwrap_or(f64::NAN);
            // NaN is worse than anything.
            worst = if (gradient - difference).abs() <= worst {
                worst
            } else {
                (gradient - difference).abs()
            };
        }
        let right = worst < 1e-7;
        failed |= !right;
        println!("{name:3}  off by {worst:.1e} at most  {}", if right { "PASS" } else { "FAIL" });
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
