//! Two rows that are far apart, and two that are long.

use ferronorm::{
    Device, Mode, Options, Outputs as Written, Saved, Statistics, Target, Targets, Tensor, Tile,
};
use half::f16;

use crate::common::{Inputs, Outcome, Outputs, assert_close, assert_near, layer, nans, run};

/// Two rows `stride` elements apart, in each of x, dy, y and dx: they give the bits that they give
/// beside each other, and what lies beside them stays 0.
pub fn check(device: &Device, columns: usize, stride: usize) -> Outcome {
    const BESIDE: usize = 64;
    let (shape, strides) = ([2, columns], [stride, 1]);
    let inputs = Inputs::<f16, f32>::seed(2, columns, 62);
    let starts = [BESIDE, BESIDE + stride];
    let lay = |tensor: &mut Tensor<f16>, rows: &[f16]| -> Outcome {
        for (start, row) in starts.into_iter().zip(rows.chunks(columns)) {
            tensor.write(start, row)?;
        }
        Ok(())
    };
    let vector = |data: &Option<Vec<f32>>| {
        data.as_ref().map(|data| Tensor::from_slice(device, data, [columns])).transpose()
    };
    let (w, b) = (vector(&inputs.w)?, vector(&inputs.b)?);
    let zeros = || Tensor::<f16>::zeros(device, [stride + columns + 2 * BESIDE]);
    let [mut x, mut dy, mut y, mut dx] = [zeros()?, zeros()?, zeros()?, zeros()?];
    lay(&mut x, &inputs.x)?;
    lay(&mut dy, &inputs.dy)?;

    for (mode, tile) in
        [(Mode::Persistent, Tile::Auto), (Mode::Persistent, Tile::Several), (Mode::Seed, Tile::One)]
    {
        let layer = layer(device, Options { mode, tile, ..Options::default() });
        let right = run(&layer, &inputs)?;
        assert_close("rows beside each other", &inputs, &right, &inputs.right());
        lay(&mut y, &nans(2 * columns))?;
        lay(&mut dx, &nans(2 * columns))?;
        let arguments = ferronorm::Inputs {
            x: x.view().strided(BESIDE, &shape, &strides)?,
            residual: None,
            w: w.as_ref(),
            b: b.as_ref(),
            eps: inputs.norm.eps,
        };
        let mut statistics = Statistics::new(device, 2)?;
        let y_view = y.view_mut().strided(BESIDE, &shape, &strides)?;
        let written = Written { y: y_view, sum: None, statistics: &mut statistics };
        layer.forward_into(&arguments, written)?;
        let stats = statistics.to_vec()?;
        let saved = Saved::new(arguments, statistics);
        let mut dw = Tensor::zeros(device, [columns])?;
        let mut db = Tensor::zeros(device, [columns])?;
        let targets = Targets {
            dx: Some(Target::Overwrite(dx.view_mut().strided(BESIDE, &shape, &strides)?)),
            dw: Some(Target::Overwrite(&mut dw)),
            db: Some(Target::Overwrite(&mut db)),
        };
        layer.backward_into(&saved, dy.view().strided(BESIDE, &shape, &strides)?, targets)?;

        let pick = |tensor: &Tensor<f16>| -> Result<Vec<f16>, ferronorm::Error> {
            let mut rows = vec![];
            for start in starts {
                let all = tensor.read(start - BESIDE..start + columns + BESIDE)?;
                let (before, rest) = all.split_at(BESIDE);
                let (row, after) = rest.split_at(columns);
                assert!(before.iter().chain(after).all(|it| it.to_bits() == 0), "beside {start}");
                rows.extend(row);
            }
            Ok(rows)
        };
        let (y, dx) = (pick(&y)?, pick(&dx)?);
        let (dw, db) = (Some(dw.to_vec()?), Some(db.to_vec()?));
        let found = Outputs { y, sum: None, stats, dx, dw, db };
        let what = format!("{mode:?}, {tile:?}");
        found.assert_same_rows(&right, &what);
        assert_close(&what, &inputs, &found, &inputs.right());
        // Where rows are not whole packs apart, they are never taken several at a time.
        if stride.is_multiple_of(8) {
            found.assert_same_columns(&right, &what);
        }
    }
    Ok(())
}

/// Two split rows of zeros but for one element: x_hat is the root of N - 1 there, and minus one over
/// it elsewhere.
pub fn check_spikes(device: &Device, columns: usize) -> Outcome {
    let (value, n) = (30_000.0, columns as f64);
    let (high, low) = ((n - 1.0).sqrt(), -1.0 / (n - 1.0).sqrt());
    let end = 2 * columns;
    let mut x = Tensor::<f16>::zeros(device, [2, columns])?;
    x.write(0, &[f16::from_f64(value)])?;
    x.write(end - 1, &[f16::from_f64(-value)])?;
    let layer = layer(device, Options::default());
    let none = None::<&Tensor<f16>>;
    let (y, saved) = layer.forward(&x, none, none, 0.0)?;
    // Some elements from here on are all this number, to f16's last digit.
    let near = |tensor: &Tensor<f16>, start: usize, count: usize, right: f64| -> Outcome {
        let found: Vec<f64> =
            tensor.read(start..start + count)?.into_iter().map(f16::to_f64).collect();
        let allowed = 5e-4 * right.abs() + 2f64.powi(-24);
        assert_near(&format!("from {start} on"), &found, &vec![right; count], allowed);
        Ok(())
    };
    near(&y, 0, 1, high)?;
    near(&y, 1, 10_000, low)?;
    near(&y, columns - 10_000, 10_000, low)?;
    near(&y, columns, 10_000, -low)?;
    near(&y, end - 10_001, 10_000, -low)?;
    near(&y, end - 1, 1, -high)?;
    drop(y);
    let rstd = n / ((n - 1.0).sqrt() * value);
    for (stats, mean) in saved.statistics().to_vec()?.into_iter().zip([value / n, -value / n]) {
        assert_near("mean", &[stats.mean.into()], &[mean], 1e-6 * mean.abs());
        assert_near("rstd", &[stats.rstd.into()], &[rstd], 1e-6 * rstd);
    }

    let mut dy = Tensor::<f16>::zeros(device, [2, columns])?;
    dy.write(columns, &[f16::from_f64(1.0)])?;
    let dx = layer.backward(&saved, &dy)?.dx;
    let (c1, c2) = (-low / n, 1.0 / n);
    let right = |dy: f64, x_hat: f64| (dy - c2 - x_hat * c1) * rstd;
    near(&dx, 0, columns.min(10_000), 0.0)?;
    near(&dx, columns - 10_000, 10_000, 0.0)?;
    near(&dx, columns, 1, right(1.0, -low))?;
    near(&dx, columns + 1, 10_000, right(0.0, -low))?;
    near(&dx, end - 10_001, 10_000, right(0.0, -low))?;
    near(&dx, end - 1, 1, right(0.0, -high))?;
    Ok(())
}
