//! A row's results depend on that row alone: not on how many others there are, on where it lies,
//! on what they hold, or on when it runs.

use std::process::ExitCode;

use common::{
    Inputs, Outcome, Outputs, Suite, assert_close, assert_same, each_dtype, each_pair, flat, layer,
    run,
};
use ferronorm::plan::{DataType, Storage};
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

/// pytorch/pytorch#149301: an anchor row, first, in the middle and last of M rows.
fn check_anchor<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let anchor = Inputs::<E, P>::seed(1, columns, 5);
    let right = run(&layer(device, Options::default()), &anchor)?;
    assert_close("the anchor alone", &anchor, &right, &anchor.right());
    for rows in [1, 2, 17, 33, 128, 257, 1024] {
        let mut inputs = Inputs::<E, P>::seed(rows, columns, 6);
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
                found.only_row(&inputs, place).assert_same_rows(&right, &what);
            }
        }
    }
    Ok(())
}

fn is_nan<E: Dtype>(what: &str, values: &[E]) {
    assert!(values.iter().all(|value| value.to_f64().is_nan()), "{what}: not NaN all over");
}

/// Row 3 of 8 is bad; the others keep their bits.
fn assert_others_same<E: Dtype, P: Dtype>(
    inputs: &Inputs<E, P>,
    found: &Outputs<E, P>,
    good: &Outputs<E, P>,
    what: &str,
) {
    for row in (0..8).filter(|row| *row != 3) {
        let right = good.only_row(inputs, row);
        found.only_row(inputs, row).assert_same_rows(&right, &format!("{what}, row {row}"));
    }
}

/// A result that there is.
fn some<T>(gradient: &Option<Vec<T>>) -> &[T] {
    gradient.as_deref().expect("it was asked for")
}

/// pytorch/pytorch#173885, #162489: a row that holds a NaN or an infinity is NaN, and never a wrong
/// number; dw, which sums its x_hat, is NaN too, but db, to which x is nothing, is not.
fn check_bad_x<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let inputs = Inputs::<E, P>::seed(8, columns, 7);
    let infinite = [f64::INFINITY; 2];
    for options in ways() {
        let layer = layer(device, options);
        let good = run(&layer, &inputs)?;
        for values in [[f64::NAN, 0.0], [f64::INFINITY, 0.0], [0.0, f64::NEG_INFINITY], infinite] {
            let what = format!("{values:?} in x, {options:?}");
            let mut bad = inputs.clone();
            for (place, value) in values.into_iter().enumerate() {
                bad.x[3 * columns + columns / 2 + place] = E::from_f64(value);
            }
            let found = run(&layer, &bad)?;
            assert_others_same(&inputs, &found, &good, &what);
            let row = found.only_row(&inputs, 3);
            is_nan(&format!("{what}: y"), &row.y);
            is_nan(&format!("{what}: dx"), &row.dx);
            is_nan::<f64>(&format!("{what}: rstd"), &[row.stats[0].rstd.into()]);
            is_nan(&format!("{what}: dw"), some(&found.dw));
            assert_same(&format!("{what}: db"), some(&found.db), some(&good.db));
        }
    }
    Ok(())
}

/// A row whose variance is beyond its type is no wrong number either: scaled by a power of two, its
/// results have the same bits, apart from the scale of dx and the statistics.
fn check_large_x<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let (size, scale) = match E::DTYPE {
        DataType::F64 => (1e200, 2f64.powi(-630)),
        _ => (1e30, 2f64.powi(-66)),
    };
    let mut large = Inputs::<E, P>::seed(8, columns, 7);
    let range = 3 * columns..4 * columns;
    large.x[3 * columns + columns / 2] = E::from_f64(size);
    large.x[3 * columns + columns / 2 + 1] = E::from_f64(-size);
    let scaled = |values: &[E]| -> Vec<E> {
        values.iter().map(|value| E::from_f64(value.to_f64() * scale)).collect()
    };
    let mut small = large.clone();
    small.x[range.clone()].copy_from_slice(&scaled(&large.x[range]));
    for options in ways() {
        let layer = layer(device, options);
        let (found, good) = (run(&layer, &large)?, run(&layer, &small)?);
        let what = format!("{options:?}");
        assert_close(&what, &small, &good, &small.right());
        assert_others_same(&large, &found, &good, &what);
        let [row, right] = [&found, &good].map(|outputs| outputs.only_row(&large, 3));
        assert_same(&format!("{what}: y"), &row.y, &right.y);
        assert_same(&format!("{what}: dx"), &row.dx, &scaled(&right.dx));
        // mean, its rest and 1 / rstd grow with x.
        let [mut row, right] = [flat(&row.stats), flat(&right.stats)];
        row[..2].iter_mut().for_each(|mean| *mean *= scale);
        row[2] /= scale;
        assert_same(&format!("{what}: statistics"), &row, &right);
        found.assert_same_columns(&good, &what);
    }
    Ok(())
}

/// A NaN in dy spoils dx of its row, and dw and db of its column.
fn check_bad_dy<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let inputs = Inputs::<E, P>::seed(8, columns, 7);
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
        for (name, found, good) in [("dw", &found.dw, &good.dw), ("db", &found.db, &good.db)] {
            let (found, good) = (some(found), some(good));
            is_nan(name, &found[column..]);
            assert_same(&format!("{what}: {name}"), &found[..column], &good[..column]);
        }
    }
    Ok(())
}

/// flashinfer-ai/flashinfer#3607: two sums meet in the same shared memory without a barrier. Rows
/// of very different means beside each other, in few blocks, again and again.
fn check_repeats<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let mut inputs = Inputs::<E, P>::seed(22, columns, 8);
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
    each_pair!(E, P => for columns in [104, 257] {
        let types = Storage { x: E::DTYPE, params: P::DTYPE };
        let name = |what: &str| format!("{what}, {types}, rows of {columns}");
        suite.both(&name("anchor"), move |device| check_anchor::<E, P>(device, columns));
        suite.both(&name("bad x"), move |device| check_bad_x::<E, P>(device, columns));
        if E::DTYPE != DataType::F16 {
            suite.both(&name("large x"), move |device| check_large_x::<E, P>(device, columns));
        }
        suite.both(&name("bad dy"), move |device| check_bad_dy::<E, P>(device, columns));
        suite.both(&name("repeats"), move |device| check_repeats::<E, P>(device, columns));
    });
    // Whole packs, two and more to a thread (f64: more than a block holds).
    each_dtype!(E => {
        let name = format!("anchor, {}, rows of 4160", E::DTYPE);
        suite.gpu(&name, |device| check_anchor::<E, E>(device, 4160));
        let name = format!("bad x, {}, rows of 4160", E::DTYPE);
        suite.both(&name, |device| check_bad_x::<E, E>(device, 4160));
        if E::DTYPE != DataType::F16 {
            let name = format!("large x, {}, rows of 4160", E::DTYPE);
            suite.both(&name, |device| check_large_x::<E, E>(device, 4160));
        }
    });
    suite.run()
}
