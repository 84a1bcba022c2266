//! NaN and infinity in row 3 of 8. A row of which one element is not finite is NaN, and never a
//! wrong number; nothing else changes by a bit.

use std::fmt::Debug;

use ferronorm::{Device, Dtype, Options};
use reference::Norm;

use crate::common::{Inputs, Outcome, Outputs, assert_same, run};
use crate::{assert_nan, assert_others_same, ways};

const BAD: usize = 3;

/// Runs the inputs, and what `bad` makes of them for each of `values`: in every way, and as RMSNorm.
fn each_way<E: Dtype, P: Dtype, V: Copy + Debug>(
    device: &Device,
    columns: usize,
    values: &[V],
    bad: impl Fn(&mut Inputs<E, P>, V),
    check: impl Fn(&Inputs<E, P>, Outputs<E, P>, Outputs<E, P>, V, &str),
) -> Outcome {
    let plain = Inputs::<E, P>::seed(8, columns, 7);
    let rms = Inputs { norm: Norm { rms: true, ..plain.norm }, ..plain.clone() };
    let ways = ways().map(|options| (&plain, options)).into_iter();
    for (inputs, options) in ways.chain([(&rms, Options::default())]) {
        let layer = inputs.layer(device, options);
        let good = run(&layer, inputs)?;
        for value in values {
            let mut changed = inputs.clone();
            bad(&mut changed, *value);
            let what = format!("{value:?}, {options:?}, {:?}", inputs.norm);
            check(inputs, run(&layer, &changed)?, good.clone(), *value, &what);
        }
    }
    Ok(())
}

/// pytorch/pytorch#173885, #162489: x. dw, to which each row gives its x_hat, is NaN too; x is
/// nothing to db.
pub fn check_x<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let values = [
        ([nan, 0.0], columns / 2),
        ([inf, 0.0], 0),
        ([0.0, -inf], columns - 2),
        ([inf, -inf], columns / 3),
    ];
    let bad = |inputs: &mut Inputs<E, P>, (values, place): ([f64; 2], usize)| {
        for (i, value) in values.into_iter().enumerate() {
            inputs.x[BAD * columns + place + i] = E::from_f64(value);
        }
    };
    each_way(device, columns, &values, bad, |inputs, found, good, _, what| {
        assert_others_same(inputs, &found, &good, BAD, what);
        let row = found.only_row(inputs, BAD);
        assert_nan(&format!("{what}: y"), &row.y);
        assert_nan(&format!("{what}: dx"), &row.dx);
        assert!(row.answer().rstd[0].is_nan(), "{what}: rstd");
        assert!(row.answer().mean[0].is_nan() != inputs.norm.rms, "{what}: mean");
        assert_nan(&format!("{what}: dw"), &found.dw.unwrap());
        assert_same(&format!("{what}: db"), &found.db.unwrap(), &good.db.unwrap());
    })
}

/// dy: its row of dx is NaN; dw and db of its column are NaN, or infinite as IEEE adds.
pub fn check_dy<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let values = [(f64::NAN, 0), (f64::INFINITY, columns - 1), (f64::NEG_INFINITY, columns / 2)];
    let bad = |inputs: &mut Inputs<E, P>, (value, column): (f64, usize)| {
        inputs.dy[BAD * columns + column] = E::from_f64(value);
    };
    each_way(device, columns, &values, bad, |inputs, found, good, (value, column), what| {
        assert_others_same(inputs, &found, &good, BAD, what);
        assert_nan(what, inputs.row(&found.dx, BAD));
        assert_same(&format!("{what}: y"), &found.y, &good.y);
        let x = inputs.x[BAD * columns + column].to_f64();
        let x_hat = x - found.answer().mean[BAD];
        for (name, found, good, right) in [
            ("dw", found.dw.unwrap(), good.dw.unwrap(), value * x_hat),
            ("db", found.db.unwrap(), good.db.unwrap(), value),
        ] {
            let mut expected = good;
            expected[column] = found[column];
            assert_same(&format!("{what}: {name}"), &found, &expected);
            assert_as(&format!("{what}: {name}"), found[column].to_f64(), right);
        }
    })
}

/// w: its column of y is NaN, and all of dx; it is nothing to dw and db.
pub fn check_w<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let bad = |inputs: &mut Inputs<E, P>, value: f64| {
        inputs.w.as_mut().unwrap()[columns - 1] = P::from_f64(value);
    };
    each_way(device, columns, &[f64::NAN], bad, |_, found, good, value, what| {
        assert_column(&format!("{what}: y"), &found.y, &good.y, columns, value);
        assert_nan(&format!("{what}: dx"), &found.dx);
        found.assert_same_columns(&good, what);
    })
}

/// b: its column of y; it is nothing to any gradient.
pub fn check_b<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let bad = |inputs: &mut Inputs<E, P>, value: f64| {
        inputs.b.as_mut().unwrap()[columns - 1] = P::from_f64(value);
    };
    each_way(device, columns, &values, bad, |_, found, good, value, what| {
        assert_column(&format!("{what}: y"), &found.y, &good.y, columns, value);
        assert_same(&format!("{what}: dx"), &found.dx, &good.dx);
        found.assert_same_columns(&good, what);
    })
}

fn assert_as(what: &str, found: f64, right: f64) {
    assert!(found == right || found.is_nan() && right.is_nan(), "{what}: {found}, not {right}");
}

/// The last column is `value` all over; the others have the bits of `good`.
fn assert_column<E: Dtype>(what: &str, found: &[E], good: &[E], columns: usize, value: f64) {
    let mut expected = good.to_vec();
    for (row, expected) in expected.chunks_mut(columns).enumerate() {
        let last = found[(row + 1) * columns - 1];
        assert_as(what, last.to_f64(), value);
        expected[columns - 1] = last;
    }
    assert_same(what, found, &expected);
}
