//! What ferronorm's results are compared with: LayerNorm written plainly in f64, from the
//! formulae and from nothing of the kernels; the data of the seed chapter; and measures of error.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// Forward and backward of one case, in f64.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// (M, N).
    pub y: Vec<f64>,
    /// (M).
    pub mean: Vec<f64>,
    /// (M).
    pub rstd: Vec<f64>,
    /// (M, N).
    pub dx: Vec<f64>,
    /// (N).
    pub dw: Vec<f64>,
    /// (N).
    pub db: Vec<f64>,
}

/// One row's results.
struct Row {
    y: Vec<f64>,
    mean: f64,
    rstd: f64,
    dx: Vec<f64>,
    /// This row's terms of dw.
    dw: Vec<f64>,
}

/// What is computed beside the formula's plain form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Added to the variance, inside the root.
    pub eps: f64,
    /// RMSNorm: mean and its gradient are taken to be 0.
    pub rms: bool,
    /// Added to w.
    pub weight_offset: f64,
}

impl Norm {
    /// LayerNorm with this eps.
    pub fn layer(eps: f64) -> Self {
        Norm { eps, rms: false, weight_offset: 0.0 }
    }
}

/// LayerNorm of rows of `x` (M, N) and its gradients for `dy` (M, N).
///
/// ```text
/// x_hat = (x - mean) / sqrt(var + eps)       y  = x_hat * w + b
/// g     = dy * w                             dx = (g - mean(g) - x_hat * mean(g * x_hat)) * rstd
/// dw    = sum over rows of dy * x_hat        db = sum over rows of dy
/// ```
///
/// In RMSNorm mean and mean(g) are 0, and var is the mean of x^2.
pub fn layer_norm(x: &[f64], w: &[f64], b: &[f64], dy: &[f64], norm: Norm) -> Answer {
    let n = w.len();
    let mean = |values: &mut dyn Iterator<Item = f64>| Sum::of(values) / n as f64;
    let centre = |values: &mut dyn Iterator<Item = f64>| if norm.rms { 0.0 } else { mean(values) };
    let row = |(x, dy): (&[f64], &[f64])| {
        let mu = centre(&mut x.iter().copied());
        // What one f64 leaves of the mean: rows of two near numbers show it.
        let rest = centre(&mut x.iter().map(|x| x - mu));
        let distance = |x: &f64| (x - mu) - rest;
        let var = mean(&mut x.iter().map(|x| distance(x).powi(2)));
        let rstd = 1.0 / (var + norm.eps).sqrt();
        let hat: Vec<f64> = x.iter().map(|x| distance(x) * rstd).collect();
        let weights = || w.iter().map(|w| w + norm.weight_offset);
        let g: Vec<f64> = dy.iter().zip(weights()).map(|(dy, w)| dy * w).collect();
        let mean_g = centre(&mut g.iter().copied());
        let mean_g_hat = mean(&mut g.iter().zip(&hat).map(|(g, hat)| g * hat));
        Row {
            y: hat.iter().zip(weights()).zip(b).map(|((hat, w), b)| hat * w + b).collect(),
            mean: mu,
            rstd,
            dx: g.iter().zip(&hat).map(|(g, hat)| (g - mean_g - hat * mean_g_hat) * rstd).collect(),
            dw: dy.iter().zip(&hat).map(|(dy, hat)| dy * hat).collect(),
        }
    };
    let rows: Vec<Row> = x.par_chunks(n.max(1)).zip(dy.par_chunks(n.max(1))).map(row).collect();
    let (mut dw, mut db) = (vec![Sum::default(); n], vec![Sum::default(); n]);
    let mut answer = Answer::default();
    for (row, dy) in rows.into_iter().zip(dy.chunks(n.max(1))) {
        answer.y.extend(row.y);
        answer.mean.push(row.mean);
        answer.rstd.push(row.rstd);
        answer.dx.extend(row.dx);
        dw.iter_mut().zip(row.dw).for_each(|(sum, term)| sum.add(term));
        db.iter_mut().zip(dy).for_each(|(sum, term)| sum.add(*term));
    }
    answer.dw = dw.into_iter().map(Sum::value).collect();
    answer.db = db.into_iter().map(Sum::value).collect();
    answer
}

/// A sum that carries what rounding leaves (Neumaier 1974): kernels in f64 are compared with it.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: f64,
    rest: f64,
}

impl Sum {
    fn of(values: &mut dyn Iterator<Item = f64>) -> f64 {
        let mut sum = Sum::default();
        values.for_each(|value| sum.add(value));
        sum.value()
    }

    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) =
            if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.rest += (large - sum) + small;
        self.sum = sum;
    }

    /// Infinite and NaN sums have no rest.
    fn value(self) -> f64 {
        if self.sum.is_finite() { self.sum + self.rest } else { self.sum }
    }
}

/// The inputs of one case, before they are rounded to a storage type.
#[derive(Clone, Debug)]
pub struct Case {
    /// (M, N).
    pub x: Vec<f64>,
    /// (N).
    pub w: Vec<f64>,
    /// (N).
    pub b: Vec<f64>,
    /// (M, N).
    pub dy: Vec<f64>,
}

/// The seed chapter's data: x = -2.3 + 0.5 randn, w and b uniform in [0, 1), dy = 0.1 randn.
pub fn seed_case(rows: usize, columns: usize, seed: u64) -> Case {
    // Each row has a generator of its own, so that rows can be made beside each other.
    let normal = |stream: u64, shift: f64, scale: f64| -> Vec<f64> {
        let mut data = vec![0.0; rows * columns];
        data.par_chunks_mut(columns.max(1)).enumerate().for_each(|(row, data)| {
            let mut rng = StdRng::seed_from_u64(seed ^ (stream << 56) ^ ((row as u64) << 8));
            for value in data {
                let z: f64 = StandardNormal.sample(&mut rng);
                *value = shift + scale * z;
            }
        });
        data
    };
    let uniform = |stream: u64| -> Vec<f64> {
        let mut rng = StdRng::seed_from_u64(seed ^ (stream << 56));
        (0..columns).map(|_| rng.random::<f64>()).collect()
    };
    Case { x: normal(1, -2.3, 0.5), w: uniform(2), b: uniform(3), dy: normal(4, 0.0, 0.1) }
}

/// How far results are from the right ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Error {
    /// The largest difference. NaN if any result is.
    pub max_abs: f64,
    /// The L2 norm of the differences over that of the right results. NaN if any result is.
    pub relative_l2: f64,
}

impl Error {
    /// Compares `found` with `right`, of the same length.
    pub fn of(found: impl IntoIterator<Item = f64>, right: &[f64]) -> Error {
        let (mut max_abs, mut difference, mut norm, mut count) = (0.0f64, 0.0, 0.0, 0);
        for (found, right) in found.into_iter().zip(right) {
            let d = (found - right).abs();
            // Unlike `max`, this keeps a NaN.
            max_abs = if d > max_abs || d.is_nan() { d } else { max_abs };
            difference += d * d;
            norm += right * right;
            count += 1;
        }
        assert_eq!(count, right.len(), "fewer results than right ones");
        let relative_l2 = if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() };
        Error { max_abs, relative_l2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_rows() {
        // x_hat of [1, 2, 3, 4]: (x - 2.5) / sqrt(1.25).
        let x = [1.0, 2.0, 3.0, 4.0];
        let w = [1.0, 2.0, 3.0, 4.0];
        let answer = layer_norm(&x, &w, &[0.5; 4], &[1.0; 4], Norm::layer(1e-5));
        assert!((answer.y[3] - (1.5 / 1.25f64.sqrt() * 4.0 + 0.5)).abs() < 1e-4);
        // dy = 1 and w = [1, 2, 3, 4] is a multiple of x_hat plus a constant: dx nearly vanishes.
        let right = [-1.0733e-5, -3.578e-6, 3.578e-6, 1.0733e-5];
        for (dx, right) in answer.dx.iter().zip(right) {
            assert!((dx - right).abs() < 1e-9, "{dx} {right}");
        }
        assert_eq!(answer.db, [1.0; 4]);
    }

    #[test]
    fn dx_is_the_derivative_of_y() {
        let case = seed_case(2, 5, 7);
        let plain = Norm::layer(1e-3);
        for norm in [plain, Norm { rms: true, ..plain }, Norm { weight_offset: 1.0, ..plain }] {
            let all = |x: &[f64]| layer_norm(x, &case.w, &case.b, &case.dy, norm);
            let loss =
                |x: &[f64]| -> f64 { all(x).y.iter().zip(&case.dy).map(|(y, dy)| y * dy).sum() };
            let answer = all(&case.x);
            for i in 0..10 {
                let step = |h: f64| {
                    let mut x = case.x.clone();
                    x[i] += h;
                    loss(&x)
                };
                let slope = (step(1e-5) - step(-1e-5)) / 2e-5;
                assert!((slope - answer.dx[i]).abs() < 1e-8, "{slope} {} {norm:?}", answer.dx[i]);
            }
        }
    }

    #[test]
    fn errors_keep_nan() {
        assert!(Error::of([1.0, f64::NAN], &[1.0, 1.0]).max_abs.is_nan());
        let error = Error::of([1.0, 2.5], &[1.0, 2.0]);
        assert_eq!(error.max_abs, 0.5);
        assert!((error.relative_l2 - 0.5 / 5.0f64.sqrt()).abs() < 1e-15);
    }
}
