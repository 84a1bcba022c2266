//! Results that are known to the bit, or nearly.

use ferronorm::{Device, Dtype, Mode, Options};
use half::{bf16, f16};
use reference::Case;

use crate::common::{
    Inputs, Outcome, Suite, assert_close, assert_near, assert_same, layer, round, run, widen,
};
use crate::ways;

/// A constant row gives b, to the bit; its x_hat is 0, and so is its share of dw. dx is finite.
pub fn check_constant<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let constants = [1234.567, 0.1, -3333.3, 1e-3, 1.0 / 3.0, 40001.0, 0.0];
    let mut inputs = Inputs::<E, P>::seed(constants.len(), columns, 2);
    for (x, constant) in inputs.x.chunks_mut(columns).zip(constants) {
        x.fill(E::from_f64(constant));
    }
    // b is a number of E: y takes all of it. (0 + -0 is 0.)
    let mut right: Vec<E> = round(&widen(&inputs.b.unwrap()));
    right[0] = E::from_f64(0.0);
    let mut b: Vec<P> = round(&widen(&right));
    b[0] = P::from_f64(-0.0);
    inputs.b = Some(b);
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?;
        for (row, constant) in constants.into_iter().enumerate() {
            let what = format!("{options:?}, a row of {constant}");
            assert_same(&what, inputs.row(&found.y, row), &right);
            let stats = found.stats[row];
            let mean = [stats.mean, stats.mean_lo].map(Into::into);
            assert_eq!(mean, [E::from_f64(constant).to_f64(), 0.0], "{what}: mean");
            assert_near(&what, &[stats.rstd.into()], &[1e5f64.sqrt()], 1e-4);
        }
        let found = found.answer();
        assert!(found.dx.iter().all(|dx| dx.is_finite()), "{options:?}: dx");
        assert_near("dw", &found.dw, &vec![0.0; columns], 0.0);
    }
    Ok(())
}

/// tracel-ai/burn#1992: a row of zeros.
fn check_zeros(device: &Device) -> Outcome {
    let dy = [1.0, 2.0, 3.0, 4.0];
    let case = Case { x: vec![0.0; 4], w: vec![1.0; 4], b: vec![0.0; 4], dy: dy.to_vec() };
    for options in ways() {
        let found = run(&layer(device, options), &Inputs::<f32>::new(&case, 1e-5))?.answer();
        assert_near("y", &found.y, &[0.0; 4], 0.0);
        assert_near("dx", &found.dx, &[-474.3416, -158.1139, 158.1139, 474.3416], 1e-4);
        assert_near("dw", &found.dw, &[0.0; 4], 0.0);
        assert_near("db", &found.db, &dy, 0.0);
    }
    Ok(())
}

/// NVIDIA/apex#1715: weights of exactly 0 lose x_hat where backward divides by them.
pub fn check_zero_weights<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let mut inputs = Inputs::<E, P>::seed(9, columns, 3);
    let zero = |inputs: &mut Inputs<E, P>, columns: &[usize]| {
        let w = inputs.w.as_mut().unwrap();
        columns.iter().for_each(|column| w[*column] = P::from_f64(0.0));
    };
    zero(&mut inputs, &[0, 3, columns / 2, columns - 1]);
    let b: Vec<E> = round(&widen(&inputs.b.unwrap()));
    inputs.b = Some(round(&widen(&b)));
    let mut all = inputs.clone();
    zero(&mut all, &Vec::from_iter(0..columns));
    for options in ways() {
        let what = format!("{options:?}");
        let some = run(&layer(device, options), &inputs)?;
        assert_close(&what, &inputs, &some, &inputs.right());
        // w is nothing to dw and db; y is b, and dx 0.
        let found = run(&layer(device, options), &all)?;
        found.assert_same_columns(&some, &what);
        let found = found.answer();
        assert_near(&format!("{what}: y"), &found.y, &widen(&b).repeat(9), 0.0);
        assert_near(&format!("{what}: dx"), &found.dx, &vec![0.0; 9 * columns], 0.0);
    }
    Ok(())
}

/// microsoft/onnxruntime#29034, #17692: rows of `size` and -`size`, whose variance is beyond f16.
fn check_f16_variance<P: Dtype>(device: &Device, columns: usize, size: f64) -> Outcome {
    let sign = |i| if i % 2 == 0 { 1.0 } else { -1.0 };
    let x: Vec<f64> = (0..columns).map(|i| size * sign(i)).collect();
    let right: Vec<f64> = (0..columns).map(sign).collect();
    let inputs = Inputs::<f16, P>::plain(columns, &x, 1e-5);
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?.answer();
        assert_near("y", &found.y, &right, 0.0);
        assert_near("rstd", &found.rstd, &[1.0 / size], 1e-7 / size);
        assert_near("dw", &found.dw, &right, 1e-6);
    }
    Ok(())
}

/// linkedin/Liger-Kernel: statistics saved as bf16, a mean of 100.75 as 101. With dy = 1, dw of one
/// row is x_hat.
fn check_saved_statistics(device: &Device) -> Outcome {
    let right = [-1.341619, -0.447206, 0.447206, 1.341619];
    let inputs = Inputs::<bf16, f32>::plain(4, &[100.0, 100.5, 101.0, 101.5], 1e-5);
    for options in ways() {
        let found = run(&layer(device, options), &inputs)?.answer();
        assert_near("dw", &found.dw, &right, 1e-5);
        assert_near("mean", &found.mean, &[100.75], 0.0);
        assert_near("rstd", &found.rstd, &[1.0 / 0.31251f64.sqrt()], 2e-7);
    }
    Ok(())
}

/// Sums of integers over many rows are exact in f32: db of dy = 1 is M, and that of dy = 1 and -1
/// in turn is 0. Summed in 16 bits they would stop at 256 or 2048.
fn check_sums<E: Dtype, P: Dtype>(device: &Device, rows: usize) -> Outcome {
    let mut inputs = Inputs::<E, P>::seed(rows, 8, 32);
    for (i, dy) in inputs.dy.iter_mut().enumerate() {
        let (row, column) = (i / 8, i % 8);
        *dy = E::from_f64(if column == 5 && row % 2 == 1 { -1.0 } else { 1.0 });
    }
    let mut right = [P::from_f64(rows as f64).to_f64(); 8];
    right[5] = (rows % 2) as f64;
    let five = Options { groups: Some(5), ..Options::default() };
    // A block to each of so many rows takes a CPU long.
    let ways = ways().into_iter().filter(|way| device.is_gpu() || way.mode != Mode::Seed);
    for options in ways.chain([five]) {
        let found = run(&layer(device, options), &inputs)?.answer();
        for (found, right) in found.db.into_iter().zip(right) {
            assert_eq!(found, right, "{options:?}: db of {rows} rows");
        }
    }
    Ok(())
}

pub fn add(suite: &mut Suite) {
    suite.both("zeros with a known dx", check_zeros);
    for columns in [4, 2048, 20_000] {
        for size in [8000.0, 496.0] {
            let name = |w| format!("f16 rows of {size} and -{size}, {columns}, {w}");
            suite.both(&name("f16 w"), move |device| {
                check_f16_variance::<f16>(device, columns, size)
            });
            suite.both(&name("f32 w"), move |device| {
                check_f16_variance::<f32>(device, columns, size)
            });
        }
    }
    suite.both("statistics are not rounded to bf16", check_saved_statistics);
    // 2^17 is a number of all of them but f16, where it is infinite.
    let many = 131_072;
    suite.both("sums of bf16", move |device| check_sums::<bf16, bf16>(device, many));
    suite.both("sums of bf16 in f32", move |device| check_sums::<bf16, f32>(device, many));
    suite.both("sums of f16", move |device| check_sums::<f16, f16>(device, many));
    suite.both("fewer sums of f16", |device| check_sums::<f16, f16>(device, 32_768));
    suite.both("sums of f16 in f32", |device| check_sums::<f16, f32>(device, 65_537));
    suite.both("sums of f32", |device| check_sums::<f32, f32>(device, 65_537));
}
