//! Subnormal numbers are neither read nor written as 0.

use ferronorm::plan::longest_held;
use ferronorm::{Device, Dtype};
use half::{bf16, f16};

use crate::common::{Inputs, Outcome, Suite, assert_close, assert_near, layer, run, widen};
use crate::ways;

/// The least subnormal number.
fn least<E: Dtype>() -> f64 {
    match E::DTYPE {
        dtype if dtype == f64::DTYPE => f64::from_bits(1),
        dtype if dtype == f32::DTYPE => f32::from_bits(1) as f64,
        dtype if dtype == f16::DTYPE => f16::from_bits(1).to_f64(),
        _ => bf16::from_bits(1).to_f64(),
    }
}

/// y, dx, dw and db of numbers that are right but subnormal, within one of the least of them: w and
/// b are tiny for the first; dy for the others.
pub fn check_results<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    // Multiples of the least, of which four are still subnormal in any type.
    let tiny = |i: usize| 1.0 + (i * 37 % 31) as f64;
    let real = if E::DTYPE == f64::DTYPE { least::<f64>() } else { least::<f32>() };
    let mut small = Inputs::<E, P>::seed(4, columns, 50);
    for (i, (w, b)) in small.w.iter_mut().flatten().zip(small.b.iter_mut().flatten()).enumerate() {
        (*w, *b) = (P::from_f64(tiny(i) * least::<E>()), P::from_f64(-least::<E>() * tiny(i + 1)));
    }
    let mut dim = Inputs::<E, P>::seed(4, columns, 51);
    for (i, dy) in dim.dy.iter_mut().enumerate() {
        *dy = E::from_f64(least::<E>() * tiny(i));
    }
    for options in ways() {
        let found = run(&layer(device, options), &small)?.answer();
        assert_near("y", &found.y, &small.right().y, 0.51 * least::<E>());
        assert!(found.y.iter().any(|y| *y != 0.0), "y is 0");

        let found = run(&layer(device, options), &dim)?.answer();
        let right = dim.right();
        assert_near("db", &found.db, &right.db, 0.0);
        // One rounding of the arithmetic for each row, f32's error of x_hat, and that of storing.
        let dw = 4.0 * real + 1e-6 * 31.0 * least::<E>() * 4.0 + 0.51 * least::<P>();
        assert_near("dw", &found.dw, &right.dw, dw);
        // Some roundings of the arithmetic, times rstd, which is 2.
        let dx = 8.0 * real + 1e-6 * 31.0 * least::<E>() * 8.0 + 0.51 * least::<E>();
        assert_near("dx", &found.dx, &right.dx, dx);
        assert!(found.dx.iter().any(|dx| *dx != 0.0), "dx is 0");
    }
    Ok(())
}

/// Multiples of f16's least number, whose squares are nowhere near f32's: x_hat is right without
/// eps.
fn check_f16<P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let mut inputs = Inputs::<f16, P>::seed(3, columns, 52);
    for (i, x) in inputs.x.iter_mut().enumerate() {
        *x = f16::from_f64(least::<f16>() * ((i * 37 % 101) as f64 - 40.0));
    }
    // dx is of the size of rstd.
    inputs.dy.iter_mut().for_each(|dy| *dy = f16::from_f64(dy.to_f64() / 1024.0));
    inputs.norm.eps = 0.0;
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?;
        assert_close(&format!("{options:?}"), &inputs, &found, &inputs.right());
    }
    Ok(())
}

/// Rows of so small a spread that its square is subnormal or 0, without eps. What is right is found
/// on rows that are larger by a power of two.
fn check_small<E: Dtype, P: Dtype>(device: &Device, columns: usize, size: f64) -> Outcome {
    let mut inputs = Inputs::<E, P>::seed(3, columns, 53);
    for (i, x) in inputs.x.iter_mut().enumerate() {
        *x = E::from_f64(size * ((i * 37 % 101) as f64 - 40.0));
    }
    inputs.norm.eps = 0.0;
    let up = 2f64.powi(-size.log2().round() as i32);
    let large = Inputs::<f64> {
        shape: inputs.shape,
        x: inputs.x.iter().map(|x| x.to_f64() * up).collect(),
        residual: None,
        w: inputs.w.as_ref().map(|w| widen(w)),
        b: inputs.b.as_ref().map(|b| widen(b)),
        dy: widen(&inputs.dy),
        dsum: None,
        norm: inputs.norm,
    };
    let right = large.right();
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?.answer();
        let allowed = if E::DTYPE.size() == 2 { 1e-2 } else { 1e-5 };
        assert_near(&format!("y of size {size:e}"), &found.y, &right.y, allowed);
    }
    Ok(())
}

/// Subnormal x beside an eps that is normal: all of x comes through.
fn check_beside_eps(device: &Device, columns: usize) -> Outcome {
    let unit = least::<f32>();
    let x: Vec<f64> = (0..columns).map(|i| unit * ((i * 7919 % 8191) as f64)).collect();
    let inputs = Inputs::<f32>::plain(columns, &x, 1e-30);
    let right = inputs.right();
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?.answer();
        let largest = right.y.iter().copied().fold(0.0, f64::max);
        assert_near("y", &found.y, &right.y, 1e-3 * largest);
        assert_near("mean", &found.mean, &right.mean, unit);
        assert_near("rstd", &found.rstd, &[1e15], 1e9);
    }
    Ok(())
}

pub fn add(suite: &mut Suite) {
    for columns in [4, 100, 1024, longest_held(f32::DTYPE) + 1] {
        let name = |what: &str| format!("{what}, rows of {columns}");
        suite.both(&name("subnormal f16"), move |device| check_f16::<f16>(device, columns));
        suite.both(&name("subnormal f16, f32 w"), move |device| check_f16::<f32>(device, columns));
        suite.both(&name("subnormal f32 beside eps"), move |device| {
            check_beside_eps(device, columns)
        });
        // Below these the squares are no longer numbers, and a layer without eps has nothing to go by.
        for size in [1e-15, 1e-20] {
            let name = |what: &str| name(&format!("{what}, no eps, size {size:e}"));
            suite.both(&name("f32"), move |device| check_small::<f32, f32>(device, columns, size));
            suite.both(&name("bf16"), move |device| {
                check_small::<bf16, bf16>(device, columns, size)
            });
        }
        for size in [1e-150, 1e-160] {
            let name = name(&format!("f64, no eps, size {size:e}"));
            suite.both(&name, move |device| check_small::<f64, f64>(device, columns, size));
        }
    }
}
