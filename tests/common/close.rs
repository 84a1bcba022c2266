//! How close results must be.

use ferronorm::Dtype;
use ferronorm::plan::DataType;
use reference::{Answer, Error};

use super::{Inputs, Outputs};

/// Relative L2 error allowed.
///
/// | type | allowed | since                                                                  |
/// |------|---------|------------------------------------------------------------------------|
/// | f64  | 4e-15   | arithmetic is f64: 1e-16 an operation, some in a row, and sums          |
/// | f32  | 2e-6    | arithmetic is f32: 6e-8 an operation, some in a row, and sums          |
/// | f16  | 6e-4    | storing rounds to 11 bits: by 2^-12 RMS, by 2^-11 = 4.9e-4 at worst    |
/// | bf16 | 5e-3    | storing rounds to 8 bits: by 2^-9 RMS, by 2^-8 = 3.9e-3 at worst       |
///
/// The inputs are rounded before, so that the storage type of what is read adds nothing.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 => 4e-15,
        DataType::F32 => 2e-6,
        DataType::F16 => 6e-4,
        DataType::Bf16 => 5e-3,
    }
}

fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Results are as close to `right` as [`tolerance`] asks; mean and rstd as f32, whatever the type.
///
/// With one column x_hat, dx and dw are 0, and must be found so. With two, dx is what is left of
/// its terms after all but eps / var of them has cancelled: f32's error is that of the terms.
pub fn assert_close<E: Dtype, P: Dtype>(
    what: &str,
    inputs: &Inputs<E, P>,
    found: &Outputs<E, P>,
    right: &Answer,
) {
    let (present, found) = ([found.dw.is_some(), found.db.is_some()], found.answer());
    let columns = inputs.shape[1];
    let real = E::DTYPE.real();
    let terms = || {
        let term = |(i, dy): (usize, &E)| {
            let w = inputs.w.as_ref().map_or(1.0, |w| w[i % columns].to_f64());
            dy.to_f64() * w * right.rstd[i / columns]
        };
        norm(inputs.dy.iter().enumerate().map(term))
    };
    let cancelled = if columns == 2 { tolerance(real) * terms() } else { 0.0 };
    let results = [
        ("y", &found.y, &right.y, E::DTYPE, 0.0),
        ("mean", &found.mean, &right.mean, real, 0.0),
        ("rstd", &found.rstd, &right.rstd, real, 0.0),
        ("dx", &found.dx, &right.dx, E::DTYPE, cancelled),
        ("dw", &found.dw, &right.dw, P::DTYPE, 0.0),
        ("db", &found.db, &right.db, P::DTYPE, 0.0),
    ];
    for (name, found, right, dtype, more) in results {
        if matches!((name, present), ("dw", [false, _]) | ("db", [_, false])) {
            continue;
        }
        assert_eq!(found.len(), right.len(), "{what}: {name}: length");
        let difference = norm(found.iter().zip(right).map(|(found, right)| found - right));
        let allowed = tolerance(dtype) * norm(right.iter().copied()) + more;
        let error = Error::of(found.iter().copied(), right);
        // NaN is not at most anything.
        assert!(
            difference <= allowed,
            "{what}: {name}: off by {difference:.3e} (L2), {allowed:.3e} allowed; {error:?}"
        );
    }
}

/// Every element is within `allowed` of the right one.
pub fn assert_near(what: &str, found: &[f64], right: &[f64], allowed: f64) {
    assert_eq!(found.len(), right.len(), "{what}: length");
    for (i, (found, right)) in found.iter().zip(right).enumerate() {
        assert!((found - right).abs() <= allowed, "{what}[{i}]: {found}, where {right} is right");
    }
}

/// Bits are equal.
pub fn assert_same<E: Dtype>(what: &str, found: &[E], right: &[E]) {
    assert_eq!(found.len(), right.len(), "{what}: length");
    // To f64 and no two numbers of a storage type become one.
    let differ = |(_, (a, b)): &(usize, (&E, &E))| a.to_f64().to_bits() != b.to_f64().to_bits();
    let pairs = || found.iter().zip(right).enumerate();
    if let Some((i, (a, b))) = pairs().find(differ) {
        let (a, b, count) = (a.to_f64(), b.to_f64(), pairs().filter(differ).count());
        panic!("{what}[{i}]: {a:e}, where {b:e} is right; {count} of {} differ", found.len());
    }
}
