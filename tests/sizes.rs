//! Numbers of rows at which grids, groups and offsets of other kernels went wrong.

use std::process::ExitCode;

use common::{Inputs, Outcome, Suite, assert_close, assert_near, each_dtype, layer, run};
use ferronorm::{Device, Dtype, Error, Mode, Options, Tensor, Tile, limit};

mod common;

fn modes() -> [Options; 2] {
    [Mode::Persistent, Mode::Seed].map(|mode| Options { mode, ..Options::default() })
}

/// BobMcDear/attorch#18, fla-org/flash-linear-attention#1249: M is no multiple of the groups or of
/// a tile. With dy = 1, db is M.
fn check_db(device: &Device, rows: usize) -> Outcome {
    let mut inputs = Inputs::<f32>::seed(rows, 32, 9);
    inputs.dy.fill(1.0);
    let five = Options { groups: Some(5), ..Options::default() };
    let several = Options { blocks: Some(6), groups: Some(4), tile: Tile::Several, ..five };
    for options in modes().into_iter().chain([five, several]) {
        let found = run(&layer(device, options), &inputs)?.answer();
        assert_near(&format!("{options:?}: db"), &found.db, &[rows as f64; 32], 0.0);
    }
    Ok(())
}

/// NVIDIA/apex#411: right for 65535 rows, wrong for 65536. No two rows are the same.
fn check_many(device: &Device, rows: usize) -> Outcome {
    let mut inputs = Inputs::<f32>::seed(rows, 8, 10);
    for (row, x) in inputs.x.chunks_mut(8).enumerate() {
        x[row % 8] += row as f32 / 1024.0;
    }
    let right = inputs.right();
    for options in modes() {
        let found = run(&layer(device, options), &inputs)?;
        assert_close(&format!("{options:?}"), &inputs, &found, &right);
        // One row that is wrong is lost in a norm over all; not in a look at each.
        assert_near(&format!("{options:?}: y"), &found.answer().y, &right.y, 1e-5);
    }
    Ok(())
}

/// pytorch/pytorch#81090: the numbers from 0 to 6399999, 32 a row. Every row has the same x_hat.
fn check_arange(device: &Device) -> Outcome {
    let rows = 200_000;
    let x: Vec<f32> = (0..rows * 32).map(|i| i as f32).collect();
    let x = Tensor::from_slice(device, &x, [rows, 32])?;
    let w = Tensor::from_slice(device, &[1.0f32; 32], [32])?;
    let b = Tensor::zeros(device, [32])?;
    let (y, _) = layer(device, Options::default()).forward(&x, &w, &b, 1e-5)?;
    let right: Vec<f64> =
        (0..32).map(|column| (column as f64 - 15.5) / (85.25f64 + 1e-5).sqrt()).collect();
    assert!((right[0] + 1.678744).abs() < 1e-6, "as in the report");
    for (row, y) in y.to_vec()?.chunks(32).enumerate() {
        let y: Vec<f64> = y.iter().map(|y| *y as f64).collect();
        assert_near(&format!("row {row}: y"), &y, &right, 1e-6);
    }
    Ok(())
}

/// pytorch/pytorch#28614, Dao-AILab/flash-attention#1620: no rows. There is no y and no dx; dw and
/// db are sums of nothing, and written; and the next call works.
fn check_none<E: Dtype>(device: &Device) -> Outcome {
    for options in modes() {
        let layer = layer(device, options);
        for columns in [1, 100, 4097, 16385] {
            // The rows before leave sums in the scratch, for a stage 2 that reads any.
            let some = Inputs::<E>::seed(3, columns, 11);
            let none = Inputs { x: vec![], dy: vec![], shape: [0, columns], ..some.clone() };
            for _ in 0..2 {
                let found = run(&layer, &some)?;
                assert_close("rows", &some, &found, &some.right());
                let found = run(&layer, &none)?.answer();
                assert!(found.y.is_empty() && found.rstd.is_empty() && found.dx.is_empty());
                assert_near("dw", &found.dw, &vec![0.0; columns], 0.0);
                assert_near("db", &found.db, &vec![0.0; columns], 0.0);
            }
        }
    }
    Ok(())
}

/// The benches' yardstick: packs that do not fill a thread's share, or a block's; and elements that
/// are no whole packs. The integers are exact in every type.
fn check_limit<E: Dtype>(device: &Device, packs: usize) -> Outcome {
    let tensor = |length: usize, factor: usize| {
        let data: Vec<E> = (0..length).map(|i| E::from_f64((factor * i % 61) as f64)).collect();
        Tensor::from_slice(device, &data, [length])
    };
    let values = |tensor: &Tensor<E>| -> ferronorm::Result<Vec<f64>> {
        Ok(tensor.to_vec()?.into_iter().map(E::to_f64).collect())
    };
    let length = packs * E::LANES;
    let (x, dy, mut out) = (tensor(length, 1)?, tensor(length, 7)?, tensor(length, 0)?);
    let (left, right) = (values(&x)?, values(&dy)?);
    let sums: Vec<f64> = left.iter().zip(&right).map(|(x, dy)| x + dy).collect();
    limit::copy(&x, &mut out)?;
    assert_near("copy", &values(&out)?, &left, 0.0);
    limit::add(&x, &dy, &mut out)?;
    assert_near("add", &values(&out)?, &sums, 0.0);

    let part = tensor(length + 1, 1)?;
    let refused = limit::copy(&part, &mut tensor(length + 1, 0)?);
    assert!(matches!(refused, Err(Error::Length { argument: "x", .. })), "{refused:?}");
    let refused = limit::add(&x, &part, &mut out);
    assert!(matches!(refused, Err(Error::Shape { argument: "dy", .. })), "{refused:?}");
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    for rows in [1, 2, 3, 4, 5, 63, 64, 65, 255, 256, 257, 1023, 1025] {
        suite.both(&format!("db of {rows} rows"), move |device| check_db(device, rows));
    }
    for rows in [65535, 65536, 65537] {
        suite.both(&format!("{rows} rows"), move |device| check_many(device, rows));
    }
    suite.both("rows of a long range", check_arange);
    for packs in [0, 1, 255, 257, 1023, 1025, 5000] {
        each_dtype!(E => suite.both(&format!("limit of {packs} packs, {}", E::DTYPE), move |device| {
            check_limit::<E>(device, packs)
        }));
    }
    each_dtype!(E => suite.both(&format!("no rows, {}", E::DTYPE), check_none::<E>));
    suite.run()
}
