//! eps: inside the root, however small, and 0.

use ferronorm::{Device, Dtype};

use crate::common::{
    Inputs, Outcome, Suite, assert_close, assert_near, assert_same, layer, run, widen,
};
use crate::{assert_nan, assert_others_same, ways};

/// eps = 1e-12 is not lost in 16 bits: a constant row's rstd is its root.
pub fn check_tiny<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let mut inputs = Inputs::<E, P>::seed(5, columns, 30);
    for (x, value) in inputs.x.chunks_mut(columns).zip([0.0, 1.0, -2.5, 1000.0, 1e-3]) {
        x.fill(E::from_f64(value));
    }
    inputs.norm.eps = 1e-12;
    // dx is of the size of rstd by dy, and must be below f16's end.
    inputs.dy.iter_mut().for_each(|dy| *dy = E::from_f64(dy.to_f64() / 512.0));
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?;
        assert_near("rstd", &found.answer().rstd, &[1e6; 5], 0.2);
        assert_close(&format!("{options:?}"), &inputs, &found, &inputs.right());
    }
    Ok(())
}

/// Without eps rows are right; but a constant one has an rstd of infinity, and is NaN, as IEEE
/// makes of 0 by infinity.
pub fn check_zero<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let constant = 3;
    let mut inputs = Inputs::<E, P>::seed(8, columns, 31);
    inputs.norm.eps = 0.0;
    for options in ways() {
        let good = run(&layer(device, options), &inputs)?;
        // One column and two are constant, or cancel to nothing.
        if columns > 2 {
            assert_close(&format!("{options:?}"), &inputs, &good, &inputs.right());
        }
        let mut changed = inputs.clone();
        changed.x[constant * columns..][..columns].fill(E::from_f64(0.1));
        let found = run(&layer(device, options), &changed)?;
        assert_others_same(&inputs, &found, &good, constant, &format!("{options:?}"));
        let row = found.only_row(&inputs, constant);
        assert_nan("y", &row.y);
        assert_nan("dx", &row.dx);
        let mean = E::from_f64(0.1).to_f64();
        assert_eq!((row.answer().mean[0], row.answer().rstd[0]), (mean, f64::INFINITY));
        assert_nan("dw", &found.dw.unwrap());
        assert_same("db", &found.db.unwrap(), &good.db.unwrap());
    }
    Ok(())
}

/// tracel-ai/burn#2185: eps outside the root.
fn check_inside(device: &Device) -> Outcome {
    let right = [-0.447214, -0.149071, 0.149071, 0.447214];
    let inputs = Inputs::<f32>::plain(4, &[0.001, 0.002, 0.003, 0.004], 1e-5);
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?;
        assert_near("y", &widen(&found.y), &right, 1e-6);
    }
    Ok(())
}

/// eps and the variance are both as small as they can be told from 0.
fn check_smallest(device: &Device) -> Outcome {
    // A constant row, and one whose variance is a quarter of eps.
    for eps in [1e-37f64, 1e-30, 1e-20, 1e20] {
        let spread = eps.sqrt() / 2.0;
        let x: Vec<f64> = (0..64).map(|i| if i % 2 == 0 { spread } else { -spread }).collect();
        let inputs = Inputs::<f32>::plain(64, &x, eps);
        let found = run(&layer(device, ways()[0]), &inputs)?.answer();
        let right = inputs.right();
        assert_near("rstd", &found.rstd, &right.rstd, 1e-6 * right.rstd[0]);
        assert_near("y", &found.y, &right.y, 1e-6);
        let inputs = Inputs::<f32>::plain(64, &[spread; 64], eps);
        let found = run(&layer(device, ways()[0]), &inputs)?.answer();
        assert_near("rstd", &found.rstd, &[1.0 / eps.sqrt()], 1e-6 / eps.sqrt());
        assert_near("y", &found.y, &[0.0; 64], 0.0);
    }
    Ok(())
}

pub fn add(suite: &mut Suite) {
    suite.both("eps inside the root", check_inside);
    suite.both("eps of all sizes", check_smallest);
}
