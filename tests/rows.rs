//! A row's results depend on that row alone: not on how many others there are, on where it lies,
//! on what they hold, or on when it runs.

use std::process::ExitCode;

use common::{Inputs, Outcome, Outputs, Suite, assert_close, assert_same, each_dtype, layer, run};
use ferronorm::{Device, Dtype, Mode, Options, Tile};

mod common;

/// The ways to give rows to blocks.
fn ways() -> [Options; 4] {
    let default = Options::default();
    [
        default,
        Options { mode: Mode::Seed, ..default },
        Options { tile: Tile::Several, ..default },
        Options { blocks: Some(2), ..default },
    ]
}

/// Every result of row `row`.
fn row_of<E: Dtype>(inputs: &Inputs<E>, outputs: &Outputs<E>, row: usize) -> Outputs<E> {
    Outputs {
        y: inputs.row(&outputs.y, row).to_vec(),
        stats: vec![outputs.stats[row]],
        dx: inputs.row(&outputs.dx, row).to_vec(),
        dw: vec![],
        db: vec![],
    }
}

/// pytorch/pytorch#149301: an anchor row, first, in the middle and last of M rows.
fn check_anchor<E: Dtype>(device: &Device, columns: usize) -> Outcome {
    let anchor = Inputs::<E>::seed(1, columns, 5);
    let right = run(&layer(device, Options::default()), &anchor)?;
    assert_close("the anchor alone", &anchor, &right, &anchor.right());
    for rows in [1, 2, 17, 33, 128, 257, 1024] {
        let mut inputs = Inputs::<E>::seed(rows, columns, 6);
        (inputs.w, inputs.b) = (anchor.w.clone(), anchor.b.clone());
        let places = [0, rows / 2, rows - 1];
        for place in places {
            let range = place * columns..(place + 1) * columns;
            inputs.x[range.clone()].copy_from_slice(&anchor.x);
            inputs.dy[range].copy_from_slice(&anchor.dy);
        }
        for options in ways() {
            let found = run(&layer(device, options), &inputs)?;
            for place in places {
                let what = format!("row {place} of {rows}, {options:?}");
                row_of(&inputs, &found, place).assert_same_rows(&right, &what);
            }
        }
    }
    Ok(())
}

fn is_nan<E: Dtype>(what: &str, values: &[E]) {
    assert!(values.iter().all(|value| value.to_f64().is_nan()), "{what}: not NaN all over");
}

/// Row 3 of 8 is bad; the others keep their bits.
fn assert_others_same<E: Dtype>(
    inputs: &Inputs<E>,
    found: &Outputs<E>,
    good: &Outputs<E>,
    what: &str,
) {
    for row in (0..8).filter(|row| *row != 3) {
        let right = row_of(inputs, good, row);
        row_of(inputs, found, row).assert_same_rows(&right, &format!("{what}, row {row}"));
    }
}

/// pytorch/pytorch#173885, #162489: a row that holds a NaN or an infinity, or (f32) whose variance
/// is beyond f32, is NaN, and never a wrong number; dw, which sums its x_hat, is NaN too, but db,
/// to which x is nothing, is not.
fn check_bad_x<E: Dtype>(device: &Device, columns: usize) -> Outcome {
    let inputs = Inputs::<E>::seed(8, columns, 7);
    let overflow = if E::DTYPE == f32::DTYPE { [1e30, -1e30] } else { [f64::INFINITY; 2] };
    for options in ways() {
        let layer = layer(device, options);
        let good = run(&layer, &inputs)?;
        for values in [[f64::NAN, 0.0], [f64::INFINITY, 0.0], [0.0, f64::NEG_INFINITY], overflow] {
            let what = format!("{values:?} in x, {options:?}");
            let mut bad = inputs.clone();
            for (place, value) in values.into_iter().enumerate() {
                bad.x[3 * columns + columns / 2 + place] = E::from_f64(value);
            }
            let found = run(&layer, &bad)?;
            assert_others_same(&inputs, &found, &good, &what);
            let row = row_of(&inputs, &found, 3);
            is_nan(&format!("{what}: y"), &row.y);
            is_nan(&format!("{what}: dx"), &row.dx);
            is_nan(&format!("{what}: rstd"), &[row.stats[0].rstd]);
            is_nan(&format!("{what}: dw"), &found.dw);
            assert_same(&format!("{what}: db"), &found.db, &good.db);
        }
    }
    Ok(())
}

/// A NaN in dy spoils dx of its row, and dw and db of its column.
fn check_bad_dy<E: Dtype>(device: &Device, columns: usize) -> Outcome {
    let inputs = Inputs::<E>::seed(8, columns, 7);
    let column = columns - 1;
    let mut bad = inputs.clone();
    bad.dy[3 * columns + column] = E::from_f64(f64::NAN);
    for options in ways() {
        let layer = layer(device, options);
        let (good, found) = (run(&layer, &inputs)?, run(&layer, &bad)?);
        let what = format!("{options:?}");
        assert_others_same(&inputs, &found, &good, &what);
        is_nan("dx", inputs.row(&found.dx, 3));
        assert_same("y", &found.y, &good.y);
        for (name, found, good) in [("dw", found.dw, good.dw), ("db", found.db, good.db)] {
            is_nan(name, &found[column..]);
            assert_same(&format!("{what}: {name}"), &found[..column], &good[..column]);
        }
    }
    Ok(())
}

/// flashinfer-ai/flashinfer#3607: two sums meet in the same shared memory without a barrier. Rows
/// of very different means beside each other, in few blocks, again and again.
fn check_repeats<E: Dtype>(device: &Device, columns: usize) -> Outcome {
    let mut inputs = Inputs::<E>::seed(22, columns, 8);
    for (row, x) in inputs.x.chunks_mut(columns).enumerate() {
        let (shift, scale) = [(1000.0, 1.0), (-5.0, 0.01), (0.0, 300.0), (2.0, 1.0)][row % 4];
        x.iter_mut().for_each(|x| *x = E::from_f64(shift + scale * x.to_f64()));
    }
    let right = inputs.right();
    for tile in [Tile::One, Tile::Several] {
        let options = Options { blocks: Some(2), tile, ..Options::default() };
        let layer = layer(device, options);
        let first = run(&layer, &inputs)?;
        assert_close("the first run", &inputs, &first, &right);
        for again in 1..500 {
            let found = run(&layer, &inputs)?;
            found.assert_same_rows(&first, &format!("{tile:?}, run {again}"));
            found.assert_same_columns(&first, &format!("{tile:?}, run {again}"));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_dtype!(E => for columns in [104, 257] {
        let name = |what: &str| format!("{what}, {}, rows of {columns}", E::DTYPE);
        suite.both(&name("anchor"), move |device| check_anchor::<E>(device, columns));
        suite.both(&name("bad x"), move |device| check_bad_x::<E>(device, columns));
        suite.both(&name("bad dy"), move |device| check_bad_dy::<E>(device, columns));
        suite.both(&name("repeats"), move |device| check_repeats::<E>(device, columns));
    });
    // Whole packs, two and more to a thread.
    each_dtype!(E => {
        let name = format!("anchor, {}, rows of 4160", E::DTYPE);
        suite.gpu(&name, |device| check_anchor::<E>(device, 4160));
        let name = format!("bad x, {}, rows of 4160", E::DTYPE);
        suite.both(&name, |device| check_bad_x::<E>(device, 4160));
    });
    suite.run()
}
