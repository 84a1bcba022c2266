//! Very many rows: the same seven again and again, so that each can be looked at.

use ferronorm::args::RowStats;
use ferronorm::{Device, Dtype, Mode, Options, Tensor};

use crate::common::{Inputs, Outcome, Outputs, assert_close, assert_near, assert_same, layer};

const CYCLE: usize = 7;

/// The first seven rows are right, and all others have their bits. dy is 1, so that db is M.
pub fn check<E: Dtype>(device: &Device, shape: [usize; 2]) -> Outcome {
    let [rows, columns] = shape;
    let mut inputs = Inputs::<E, f32>::seed(CYCLE, columns, 61);
    inputs.dy.fill(E::from_f64(1.0));
    let right = inputs.right();
    // Each row's dw, as often as it is there.
    let dw: Vec<f64> = (0..columns)
        .map(|column| {
            let x_hat = |row: usize| {
                let x = inputs.x[row * columns + column].to_f64();
                (x - right.mean[row]) * right.rstd[row]
            };
            (0..CYCLE).map(|row| (rows - row).div_ceil(CYCLE) as f64 * x_hat(row)).sum()
        })
        .collect();

    let x: Vec<E> = inputs.x.iter().copied().cycle().take(rows * columns).collect();
    let x = Tensor::from_slice(device, &x, shape)?;
    let vector = |data: &Option<Vec<f32>>| {
        data.as_ref().map(|data| Tensor::from_slice(device, data, [columns])).transpose()
    };
    let (w, b) = (vector(&inputs.w)?, vector(&inputs.b)?);
    let one = Tensor::from_slice(device, &inputs.dy[..columns], [columns])?;
    for mode in [Mode::Persistent, Mode::Seed] {
        let layer = layer(device, Options { mode, ..Options::default() });
        let (y, saved) = layer.forward(&x, w.as_ref(), b.as_ref(), inputs.norm.eps)?;
        let gradients = layer.backward(&saved, one.view().strided(0, &shape, &[0, 1])?)?;
        let (y, dx, stats) = (y.to_vec()?, gradients.dx.to_vec()?, saved.statistics().to_vec()?);
        let first = Outputs {
            y: y[..CYCLE * columns].to_vec(),
            sum: None,
            stats: stats[..CYCLE].to_vec(),
            dx: dx[..CYCLE * columns].to_vec(),
            dw: None,
            db: None,
        };
        assert_close(&format!("{mode:?}"), &inputs, &first, &right);
        for (i, y) in y.chunks(CYCLE * columns).enumerate() {
            assert_cycle(mode, i, y, &first.y);
        }
        for (i, dx) in dx.chunks(CYCLE * columns).enumerate() {
            assert_cycle(mode, i, dx, &first.dx);
        }
        let same = |(row, stats): (usize, &RowStats<E::Real>)| *stats == first.stats[row % CYCLE];
        let wrong = stats.iter().enumerate().find(|it| !same(*it)).map(|(row, _)| row);
        assert_eq!((stats.len(), wrong), (rows, None), "{mode:?}: statistics");

        let [found_dw, db] = [gradients.dw, gradients.db].map(|it| it.unwrap().to_vec());
        assert_same(&format!("{mode:?}: db"), &db?, &vec![rows as f32; columns]);
        let found_dw: Vec<f64> = found_dw?.into_iter().map(f64::from).collect();
        // A block adds up to tens of thousands of equal numbers, and rounds them alike.
        let allowed = 1e-4 * rows as f64;
        assert_near(&format!("{mode:?}: dw"), &found_dw, &dw, allowed);
    }
    Ok(())
}

/// Seven rows (or the last few) have the bits of the first.
fn assert_cycle<E: Dtype>(mode: Mode, cycle: usize, found: &[E], first: &[E]) {
    let bits = |value: &E| value.to_f64().to_bits();
    if !found.iter().map(bits).eq(first.iter().take(found.len()).map(bits)) {
        assert_same(
            &format!("{mode:?}, rows from {}", cycle * CYCLE),
            found,
            &first[..found.len()],
        );
    }
}
