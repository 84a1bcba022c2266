//! Rows whose mean is large beside their spread: the variance must not cancel.

use std::process::ExitCode;

use common::{Inputs, Outcome, Suite, assert_close, assert_near, assert_same, each_dtype};
use common::{layer, run};
use ferronorm::plan::DataType;
use ferronorm::{Device, Dtype, Options, Tile};
use reference::{Error, seed_case};

mod common;

/// A constant row gives b, to the bit: its x_hat is 0, and so is dw.
fn check_constant<E: Dtype>(device: &Device, columns: usize) -> Outcome {
    let constants = [1234.567, 0.1, -3333.3, 1e-3, 1.0 / 3.0, 40001.0, 0.0];
    let mut inputs = Inputs::<E>::seed(constants.len(), columns, 2);
    for (row, constant) in inputs.x.chunks_mut(columns).zip(constants) {
        row.fill(E::from_f64(constant));
    }
    let mut b = inputs.b.take().expect("the seed's data has one");
    b[0] = E::from_f64(0.0);
    inputs.b = Some(b.clone());
    // rstd in the precision of the calculation.
    let allowed = if E::DTYPE == DataType::F64 { 1e-12 } else { 1e-4 };
    for tile in [Tile::Auto, Tile::Several] {
        let found = run(&layer(device, Options { tile, ..Options::default() }), &inputs)?;
        for (row, constant) in constants.into_iter().enumerate() {
            let what = format!("{tile:?}, a row of {constant}");
            assert_same(&what, inputs.row(&found.y, row), &b);
            let stats = found.stats[row];
            let (mean, rest): (f64, f64) = (stats.mean.into(), stats.mean_lo.into());
            assert_eq!((mean, rest), (E::from_f64(constant).to_f64(), 0.0), "{what}: mean");
            let rstd = [stats.rstd.into()];
            assert_near(&format!("{what}: rstd"), &rstd, &[1e5f64.sqrt()], allowed);
        }
        let dw = found.dw.expect("it was asked for");
        assert_same("dw", &dw, &vec![E::from_f64(0.0); columns]);
    }
    Ok(())
}

/// f32 rows of mean `mean` and spread `spread`, with w = 1 and b = 0: y, which is x_hat, is right to
/// 1e-6, and all else as usual. f64 rows likewise: all is right to its precision.
fn check_offset(device: &Device, shape: [usize; 2], mean: f64, spread: f64) -> Outcome {
    check_offset_of::<f32>(device, shape, mean, spread)?;
    check_offset_of::<f64>(device, shape, mean, spread)
}

fn check_offset_of<E: Dtype>(
    device: &Device,
    [rows, columns]: [usize; 2],
    mean: f64,
    spread: f64,
) -> Outcome {
    let case = seed_case(rows, columns, 4);
    let x: Vec<f64> = case.x.iter().map(|x| mean + spread * (x + 2.3) / 0.5).collect();
    let mut inputs = Inputs::<E>::plain(columns, &x, 1e-12);
    inputs.dy = Inputs::<E>::new(&case, 1e-12).dy;
    let right = inputs.right();
    let found = run(&layer(device, Options::default()), &inputs)?;
    let error = Error::of(found.answer().y, &right.y);
    assert!(error.relative_l2 <= 1e-6, "x_hat: {error:?}");
    assert_close("the rest", &inputs, &found, &right);
    Ok(())
}

/// Rows whose first elements are far from the others: a rough mean taken from there is off by more than
/// the spread of the row, and must not cost the variance its digits.
fn check_far_start<E: Dtype>(device: &Device, columns: usize, far: f64) -> Outcome {
    let mut case = seed_case(6, columns, 6);
    for (row, x) in case.x.chunks_mut(columns).enumerate() {
        // As many as a pack of any type has, or fewer: then the rest of the pack is near.
        x[..[8, 4, 2, 1, 16, 0][row].min(columns)].fill(far);
    }
    let mut inputs = Inputs::<E>::plain(columns, &case.x, 1e-12);
    inputs.dy = Inputs::<E>::new(&case, 1e-12).dy;
    let right = inputs.right();
    for tile in [Tile::Auto, Tile::Several] {
        let found = run(&layer(device, Options { tile, ..Options::default() }), &inputs)?;
        let allowed = if E::DTYPE == DataType::F64 { 1e-13 } else { 5e-7 };
        let stats = found.stats.iter().zip(&right.rstd);
        let ratios: Vec<f64> = stats.map(|(stats, right)| stats.rstd.into() / right).collect();
        assert_near(&format!("{tile:?}: rstd / right"), &ratios, &[1.0; 6], allowed);
        assert_close(&format!("{tile:?}"), &inputs, &found, &right);
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_dtype!(E => for columns in [1, 3, 5, 7, 100, 769, 1000, 3001, 4097, 15871, 16385] {
        let name = format!("{} constant rows of {columns}", E::DTYPE);
        suite.both(&name, move |device| check_constant::<E>(device, columns));
    });
    each_dtype!(E => for columns in [100, 512, 1023, 4096, 8192, 15872] {
        for far in [1e3, -3e4] {
            let name = format!("{} rows of {columns} that begin with {far}", E::DTYPE);
            suite.both(&name, move |device| check_far_start::<E>(device, columns, far));
        }
    });
    for columns in [100, 1000, 1023, 4096, 8191, 16384, 20001] {
        let name = format!("mean 1e4, spread 1e-3, rows of {columns}");
        suite.both(&name, move |device| check_offset(device, [8, columns], 1e4, 1e-3));
        let name = format!("mean -1e4, spread 1e-3, rows of {columns}");
        suite.both(&name, move |device| check_offset(device, [8, columns], -1e4, 1e-3));
    }
    let name = "pytorch/pytorch#51102 rows of mean 2000";
    suite.both(name, |device| check_offset(device, [5, 4], 2000.0, 1.0));
    let name = "pytorch/pytorch#40302 long rows of mean 100 and spread 0.01";
    suite.both(name, |device| check_offset(device, [16, 16384], 100.0, 0.01));
    suite.run()
}
