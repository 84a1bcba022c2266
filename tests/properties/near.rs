//! How near each element must be.
//!
//! The L2 norms of `common::close` are relative to a whole result. Here a result may be one
//! element, or one that its terms cancel in; so each element has an allowance of its own, by the
//! size of the terms that it is a sum of.

use ferronorm::Dtype;
use ferronorm::plan::DataType;
use reference::Answer;

use super::common::{Inputs, widen};

/// Arithmetic may err by so many roundings of each of a sum's terms.
const ROUNDINGS: f64 = 24.0;

/// The largest relative error of rounding to this type, and the largest absolute one of rounding
/// to a subnormal.
fn rounding(dtype: DataType) -> [f64; 2] {
    let (digits, least) = match dtype {
        DataType::F64 => (53, 1075),
        DataType::F32 => (24, 150),
        DataType::F16 => (11, 25),
        DataType::Bf16 => (8, 134),
    };
    [0.5f64.powi(digits), 0.5f64.powi(least)]
}

/// A right result, and for each element the sum of its terms' magnitudes.
pub struct Right {
    pub values: Vec<f64>,
    pub terms: Vec<f64>,
}

impl Right {
    /// Of a gradient that is added to `before`.
    pub fn onto<E: Dtype>(self, before: &[E]) -> Self {
        let before = widen(before);
        let sums = |values: Vec<f64>, more: fn(f64) -> f64| {
            values.iter().zip(&before).map(|(value, before)| value + more(*before)).collect()
        };
        Right { values: sums(self.values, |b| b), terms: sums(self.terms, f64::abs) }
    }

    /// `found`, which was calculated in `real` and stored as E, is near.
    pub fn assert_near<E: Dtype>(&self, what: &str, real: DataType, found: &[E]) {
        self.assert_values_near(what, real, E::DTYPE, &widen(found));
    }

    /// The same of numbers of type `dtype`.
    pub fn assert_values_near(&self, what: &str, real: DataType, dtype: DataType, found: &[f64]) {
        let [arithmetic, _] = rounding(real);
        let [storing, least] = rounding(dtype);
        assert_eq!(found.len(), self.values.len(), "{what}: length");
        for (i, found) in found.iter().enumerate() {
            let (right, terms) = (self.values[i], self.terms[i]);
            let allowed = storing * right.abs() + ROUNDINGS * arithmetic * terms + least;
            let off = (found - right).abs();
            // NaN is not at most anything.
            assert!(
                off <= allowed,
                "{what}[{i}]: {found:e}, where {right:e} is right: off by {off:.1e}, \
                 {allowed:.1e} allowed"
            );
        }
    }
}

/// Every right result of a forward and a backward.
pub struct Rights {
    pub y: Right,
    pub mean: Right,
    pub rstd: Right,
    pub dx: Right,
    pub dw: Right,
    pub db: Right,
}

impl Rights {
    pub fn new<E: Dtype, P: Dtype>(inputs: &Inputs<E, P>) -> Self {
        let Answer { y, mean, rstd, dx, dw, db } = inputs.right();
        let (norm, [rows, columns]) = (inputs.norm, inputs.shape);
        let w = inputs.w.as_ref().map(|w| widen(w));
        let weight = |c: usize| w.as_ref().map_or(1.0, |w| w[c] + norm.weight_offset).abs();
        let b = inputs.b.as_ref().map_or(vec![0.0; columns], |b| widen(b));
        let x = widen(&inputs.normalised());
        let dy = widen(&inputs.dy);
        let dsum = inputs.dsum.as_ref().map(|dsum| widen(dsum));

        let mut terms = Terms::default();
        (terms.dw, terms.db) = (vec![0.0; columns], vec![0.0; columns]);
        for row in 0..rows {
            let at = |c: usize| row * columns + c;
            let average =
                |of: &dyn Fn(usize) -> f64| (0..columns).map(of).sum::<f64>() / columns as f64;
            // x_hat is the difference of two numbers, which are of the size of the row's spread.
            // The one x_hat of a row of one column is 0, exactly.
            let hat = |c: usize| match (columns, norm.rms) {
                (1, false) => 0.0,
                _ => ((x[at(c)] - mean[row]) * rstd[row]).abs() + 1.0,
            };
            let g = |c: usize| (dy[at(c)] * weight(c)).abs();
            let mean_g = if norm.rms { 0.0 } else { average(&g) };
            let mean_g_hat = average(&|c| g(c) * hat(c));
            terms.mean.push(if norm.rms { 0.0 } else { average(&|c| x[at(c)].abs()) });
            for c in 0..columns {
                terms.y.push(hat(c) * weight(c) + b[c].abs());
                // So are the terms of the one dx: they cancel exactly.
                let inner = if hat(c) == 0.0 { 0.0 } else { g(c) + mean_g + hat(c) * mean_g_hat };
                terms
                    .dx
                    .push(inner * rstd[row] + dsum.as_ref().map_or(0.0, |dsum| dsum[at(c)].abs()));
                terms.dw[c] += dy[at(c)].abs() * hat(c);
                terms.db[c] += dy[at(c)].abs();
            }
        }
        let right = |values, terms| Right { values, terms };
        Rights {
            y: right(y, terms.y),
            mean: right(mean, terms.mean),
            rstd: right(rstd.clone(), rstd),
            dx: right(dx, terms.dx),
            dw: right(dw, terms.dw),
            db: right(db, terms.db),
        }
    }
}

#[derive(Default)]
struct Terms {
    y: Vec<f64>,
    mean: Vec<f64>,
    dx: Vec<f64>,
    dw: Vec<f64>,
    db: Vec<f64>,
}
