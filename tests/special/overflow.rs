//! Numbers whose squares overflow are normalised all the same, and so is what shares their tile.
//! Where the sum of a row overflows the row is NaN.

use std::f64::consts::SQRT_2;

use ferronorm::plan::longest_held;
use ferronorm::{Device, Dtype};
use half::{bf16, f16};
use reference::Norm;

use crate::common::{Inputs, Outcome, Suite, assert_close, assert_near, assert_same, layer, run};
use crate::{assert_nan, assert_others_same, ways};

/// A row of this size, of one of several kinds.
fn kinds<E: Dtype>(columns: usize, size: f64) -> [Vec<E>; 3] {
    let z = Inputs::<f64>::seed(1, columns, 40).x;
    let of = |value: &dyn Fn(usize) -> f64| -> Vec<E> {
        (0..columns).map(|i| E::from_f64(size * value(i))).collect()
    };
    [
        of(&|i| (z[i] + 3.3) / 2.0),
        of(&|i| if i % 2 == 0 { 1.0 } else { -0.5 }),
        // A mean a hundred times the spread.
        of(&|i| (1.0 + 0.02 * (z[i] + 2.3)) / 8.0),
    ]
}

fn known(device: &Device) -> Outcome {
    let right = [SQRT_2, -SQRT_2, 0.0, 0.0];
    for rms in [false, true] {
        let mut inputs = Inputs::<f32>::plain(4, &[1e30, -1e30, 0.0, 0.0], 1e-5);
        inputs.norm.rms = rms;
        inputs.dy = [0.3, -1.0, 2.0, 0.1].to_vec();
        for options in ways() {
            let found = run(&inputs.layer(device, options), &inputs)?;
            assert_close("known", &inputs, &found, &inputs.right());
            let found = found.answer();
            assert_near("y", &found.y, &right, 1e-6);
            assert_near("mean", &found.mean, &[0.0], 0.0);
            let rstd = 1e-30 * SQRT_2;
            assert_near("rstd", &found.rstd, &[rstd], 1e-6 * rstd);
            assert!(found.dx.iter().all(|dx| dx.is_finite() && *dx != 0.0), "{:?}", found.dx);
        }
    }
    Ok(())
}

/// Rows of all sizes, each by itself, as LayerNorm and RMSNorm.
fn check_sizes<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    for size in [1e15, 3e18, 1e19, 1e25, 1e30] {
        for (kind, x) in kinds::<E>(columns, size).into_iter().enumerate() {
            for rms in [false, true] {
                let mut inputs = Inputs::<E, P>::seed(1, columns, 41);
                inputs.x.clone_from(&x);
                inputs.norm.rms = rms;
                let right = inputs.right();
                let count = if columns < 4096 { 3 } else { 1 };
                for options in &ways()[..count] {
                    let what = format!("size {size}, kind {kind}, RMS {rms}, {options:?}");
                    let found = run(&inputs.layer(device, *options), &inputs)?;
                    assert_close(&what, &inputs, &found, &right);
                }
            }
        }
    }
    Ok(())
}

/// A large row at each place of a tile: it has the bits that it has alone, and the rows beside it
/// those that they have without it.
fn check_tile<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let [x, ..] = kinds::<E>(columns, 1e25);
    for rms in [false, true] {
        let mut inputs = Inputs::<E, P>::seed(9, columns, 42);
        inputs.norm.rms = rms;
        let dy = inputs.row(&inputs.dy, 8).to_vec();
        let large = Inputs { shape: [1, columns], x: x.clone(), dy, ..inputs.clone() };
        for options in ways() {
            let layer = inputs.layer(device, options);
            let (good, alone) = (run(&layer, &inputs)?, run(&layer, &large)?);
            // A tile has at most four rows; the last has one.
            for row in [0, 1, 2, 3, 6, 8] {
                let what = format!("row {row}, RMS {rms}, {options:?}");
                let mut changed = inputs.clone();
                changed.x[row * columns..][..columns].copy_from_slice(&large.x);
                changed.dy[row * columns..][..columns].copy_from_slice(&large.dy);
                let found = run(&layer, &changed)?;
                assert_others_same(&inputs, &found, &good, row, &what);
                found.only_row(&inputs, row).assert_same_rows(&alone, &what);
            }
        }
    }
    Ok(())
}

/// f64 up to 1e301. What is right is found on rows that are smaller by a power of two, and what is
/// found is made as small.
fn check_f64(device: &Device, columns: usize) -> Outcome {
    for exponent in [505, 512, 664, 1000] {
        let scale = 2f64.powi(exponent);
        for (kind, x) in kinds::<f64>(columns, 1.0).into_iter().enumerate() {
            for rms in [false, true] {
                let mut small = Inputs::<f64>::seed(1, columns, 43);
                (small.x, small.norm) = (x.clone(), Norm { rms, ..Norm::layer(0.0) });
                let mut inputs = small.clone();
                inputs.norm.eps = 1e-5;
                inputs.x.iter_mut().for_each(|x| *x *= scale);
                let mut found = run(&inputs.layer(device, ways()[0]), &inputs)?;
                for stats in &mut found.stats {
                    stats.mean /= scale;
                    stats.mean_lo /= scale;
                    stats.rstd *= scale;
                }
                found.dx.iter_mut().for_each(|dx| *dx *= scale);
                let what = format!("2^{exponent}, kind {kind}, RMS {rms}");
                assert_close(&what, &small, &found, &small.right());
            }
        }
    }
    Ok(())
}

/// A row whose sum is beyond f32 is NaN, and never a wrong number; the others keep their bits.
/// RMSNorm sums no x, and is right.
fn check_sum<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let inputs = Inputs::<E, P>::seed(8, columns, 44);
    for options in ways() {
        let good = run(&layer(device, options), &inputs)?;
        let mut bad = inputs.clone();
        bad.x[3 * columns..][..columns].fill(E::from_f64(3e38));
        let found = run(&layer(device, options), &bad)?;
        let what = format!("{options:?}");
        assert_others_same(&inputs, &found, &good, 3, &what);
        let row = found.only_row(&inputs, 3);
        assert_nan(&format!("{what}: y"), &row.y);
        assert_nan(&format!("{what}: dx"), &row.dx);
        assert_nan(&format!("{what}: dw"), &found.dw.unwrap());
        assert_same(&format!("{what}: db"), &found.db.unwrap(), &good.db.unwrap());

        bad.norm.rms = true;
        let right = bad.right();
        let found = run(&bad.layer(device, options), &bad)?;
        let (y, right_y) = (bad.row(&found.y, 3), &right.y[3 * columns..][..columns]);
        for (y, right) in y.iter().zip(right_y) {
            let (y, allowed) = (y.to_f64(), if E::DTYPE.size() == 2 { 4e-3 } else { 1e-6 });
            assert!((y - right).abs() <= allowed * right.abs(), "{what}: RMS: {y}, not {right}");
        }
        let rstd = found.answer().rstd[3];
        assert_near(&what, &[rstd], &[right.rstd[3]], 1e-6 * right.rstd[3]);
    }
    Ok(())
}

/// f16 ends at 65504, whose sums and squares are far from f32's end.
fn check_largest_f16<P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let mut inputs = Inputs::<f16, P>::seed(4, columns, 45);
    inputs.x[..columns].fill(f16::MAX);
    for (i, x) in inputs.x[columns..].iter_mut().enumerate() {
        *x = if i % 3 == 0 { f16::MIN } else { f16::MAX };
    }
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?;
        assert_close(&format!("{options:?}"), &inputs, &found, &inputs.right());
        assert_near("mean", &found.answer().mean[..1], &[65504.0], 0.0);
    }
    Ok(())
}

pub fn add(suite: &mut Suite) {
    suite.both("f32 rows of 1e30 with a known y", known);
    let held = longest_held(f32::DTYPE);
    for columns in [4, 5, 33, 256, 1024, 4096, 5000, held + 1, 70_001] {
        let name = |what: &str| format!("{what}, rows of {columns}");
        macro_rules! pair {
            ($E:ty, $P:ty, $storage:literal) => {
                suite.both(&name(concat!("all sizes, ", $storage)), move |device| {
                    check_sizes::<$E, $P>(device, columns)
                });
                suite.both(&name(concat!("sums beyond f32, ", $storage)), move |device| {
                    check_sum::<$E, $P>(device, columns)
                });
                if [33, 256, 1024, 4096, held + 1].contains(&columns) {
                    suite
                        .both(&name(concat!("large beside ordinary, ", $storage)), move |device| {
                            check_tile::<$E, $P>(device, columns)
                        });
                }
            };
        }
        pair!(f32, f32, "f32");
        pair!(bf16, bf16, "bf16");
        pair!(bf16, f32, "bf16 with f32 w");
        suite.both(&name("f64 up to 1e301"), move |device| check_f64(device, columns));
        suite.both(&name("the largest f16"), move |device| {
            check_largest_f16::<f16>(device, columns)
        });
        suite.both(&name("the largest f16 with f32 w"), move |device| {
            check_largest_f16::<f32>(device, columns)
        });
    }
    for columns in [256, 4097] {
        let name = format!("large beside ordinary, f64, rows of {columns}");
        suite.both(&name, move |device| check_tile::<f64, f64>(device, columns));
    }
}
