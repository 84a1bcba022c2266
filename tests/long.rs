//! Rows longer than a block holds, which are split, and rows that are as long as it holds; and rows
//! of no columns.

use std::process::ExitCode;

use common::{
    Inputs, Outcome, Suite, assert_close, assert_near, each_dtype, each_pair, layer, nans, run,
};
use ferronorm::plan::{Storage, longest_held};
use ferronorm::{Device, Dtype, Mode, Options, Reduction};
use reference::Norm;

mod common;
#[path = "long/empty.rs"]
mod empty;

/// The ways to share rows and chunks among blocks, and blocks among groups.
fn ways() -> [Options; 5] {
    let default = Options::default();
    let locks = Reduction::GroupLocks;
    [
        default,
        Options { mode: Mode::Seed, ..default },
        Options { blocks: Some(2), ..default },
        Options { blocks: Some(3), groups: Some(2), reduction: locks, ..default },
        Options {
            blocks: Some(5),
            groups: Some(5),
            reduction: Reduction::Deterministic,
            ..default
        },
    ]
}

fn name<E: Dtype, P: Dtype>(what: &str, shape: [usize; 2]) -> String {
    let [rows, columns] = shape;
    format!("{what} {} {rows}x{columns}", Storage { x: E::DTYPE, params: P::DTYPE })
}

/// All results against the reference; the rows' own have the same bits in each of `ways`.
fn check_ways<E: Dtype, P: Dtype>(
    device: &Device,
    inputs: &Inputs<E, P>,
    ways: &[Options],
) -> Outcome {
    let right = inputs.right();
    let mut first = None;
    for options in ways {
        let what = format!("{options:?}");
        let found = run(&inputs.layer(device, *options), inputs)?;
        assert_close(&what, inputs, &found, &right);
        first.get_or_insert(found.clone()).assert_same_rows(&found, &what);
    }
    Ok(())
}

fn seed<E: Dtype, P: Dtype>([rows, columns]: [usize; 2]) -> Inputs<E, P> {
    Inputs::seed(rows, columns, (rows * columns) as u64)
}

/// Everything that forward and backward can do beside the plain form.
fn check_rest<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2]) -> Outcome {
    let plain = seed::<E, P>(shape);
    let more = seed::<E, P>([shape[0], shape[1] + 1]);
    let matrix = |data: &[E]| Some(data[..plain.x.len()].to_vec());
    let both = Inputs { residual: matrix(&more.x), dsum: matrix(&more.dy), ..plain.clone() };
    let rms = Norm { rms: true, weight_offset: 1.0, ..plain.norm };
    for inputs in [
        both.clone(),
        Inputs { norm: rms, ..both },
        Inputs { b: None, norm: rms, ..plain.clone() },
        Inputs { w: None, b: None, ..plain.clone() },
    ] {
        check_ways(device, &inputs, &ways()[..2])?;
    }
    Ok(())
}

/// One element that is not 0, at a column of its own in each row: with eps = 0, x_hat is the root
/// of N - 1 there, and minus one over it elsewhere, whatever the element. So is dw of that row, and
/// db counts the rows.
fn check_spikes<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let chunk = 4 * 256 * E::DTYPE.lanes();
    let held = longest_held(E::DTYPE);
    let last = columns - 1;
    let places = [last, last - 1, held, held - 1, chunk, chunk - 1, last / chunk * chunk, 0];
    let (high, low) = ((last as f64).sqrt(), -1.0 / (last as f64).sqrt());
    // In 16 bits y is rounded once, by half of the last of 11 or 8 bits.
    let relative = [E::DTYPE.real().size(), E::DTYPE.size()].map(|size| match size {
        8 => 1e-13,
        4 => 5e-7,
        _ if E::DTYPE == half::f16::DTYPE => 5e-4,
        _ => 4e-3,
    });
    for (row, place) in places.into_iter().enumerate() {
        let mut x = vec![0.0f64; columns];
        x[place] = [1000.0, -3.0, 0.5][row % 3];
        let sign = x[place].signum();
        let inputs = Inputs::<E, P>::plain(columns, &x, 0.0);
        let found = run(&layer(device, Options::default()), &inputs)?.answer();
        let what = format!("a spike in column {place}");
        let mean = x[place] / columns as f64;
        assert_near(&format!("{what}: mean"), &found.mean, &[mean], relative[0] * mean.abs());
        let rstd = high / mean.abs() / columns as f64 * (columns as f64 / last as f64);
        assert_near(&format!("{what}: rstd"), &found.rstd, &[rstd], relative[0] * rstd);
        for (column, y) in found.y.iter().enumerate() {
            let right = sign * if column == place { high } else { low };
            let allowed = relative[1] * right.abs();
            assert!((y - right).abs() <= allowed, "{what}: y[{column}]: {y}, not {right}");
        }
        assert_near(&format!("{what}: db"), &found.db, &vec![1.0; columns], 0.0);
        let right = sign * high;
        let allowed = (relative[0] + if P::DTYPE.size() == 2 { relative[1] } else { 0.0 }) * high;
        assert_near(&format!("{what}: dw"), &found.dw[place..=place], &[right], allowed);
    }
    Ok(())
}

/// A NaN in the last column of dy comes out in all of dx's row, and at the end of dw and db alone.
fn check_last_dy<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let mut inputs = seed::<E, P>([2, columns]);
    inputs.dy[columns - 1] = nans(1)[0];
    let found = run(&layer(device, Options::default()), &inputs)?.answer();
    let nan = |values: &[f64]| values.iter().filter(|value| value.is_nan()).count();
    assert_eq!(nan(&found.y), 0, "y");
    assert_eq!((nan(&found.dx[..columns]), nan(&found.dx)), (columns, columns), "dx");
    for (name, found) in [("dw", &found.dw), ("db", &found.db)] {
        assert_eq!((nan(found), nan(&found[columns - 1..])), (1, 1), "{name}");
    }
    Ok(())
}

/// The shapes for rows of which a block holds `held` columns, and of ways how many: fewer for more.
fn shapes(held: usize) -> Vec<(Vec<usize>, usize, usize)> {
    vec![
        (vec![1, 2, 3, 7], held, 5),
        (vec![1, 2, 3, 7], held + 1, 5),
        (vec![1, 7], 65_535, 1),
        (vec![3], 65_536, 2),
        (vec![2, 7], 65_537, 1),
        (vec![2, 3], 262_144, 1),
        (vec![1, 2], 1_000_003, 1),
    ]
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_pair!(E, P => {
        let held = longest_held(E::DTYPE);
        for (rows, columns, count) in shapes(held) {
            for rows in rows {
                let shape = [rows, columns];
                suite.both(&name::<E, P>("all", shape), move |device| {
                    check_ways(device, &seed::<E, P>(shape), &ways()[..count])
                });
            }
        }
        let columns = held + 1;
        suite.both(&name::<E, P>("residual, RMS and the rest", [3, columns]), move |device| {
            check_rest::<E, P>(device, [3, columns])
        });
        suite.both(&name::<E, P>("a NaN in the last dy", [2, columns]), move |device| {
            check_last_dy::<E, P>(device, columns)
        });
        for columns in [held + 1, 65_537] {
            suite.both(&name::<E, P>("spikes", [1, columns]), move |device| {
                check_spikes::<E, P>(device, columns)
            });
        }
        suite.gpu(&name::<E, P>("spikes", [1, 1_000_003]), |device| {
            check_spikes::<E, P>(device, 1_000_003)
        });
        suite.gpu(&name::<E, P>("all", [16, 262_144]), |device| {
            check_ways(device, &seed::<E, P>([16, 262_144]), &ways())
        });
    });
    let shape = [3, 10_000_019];
    suite.gpu(&name::<f32, f32>("all", shape), move |device| {
        check_ways(device, &seed::<f32, f32>(shape), &ways()[..1])
    });
    suite.gpu(&name::<half::f16, f32>("all", shape), move |device| {
        check_ways(device, &seed::<half::f16, f32>(shape), &ways()[..1])
    });
    each_dtype!(E => {
        suite.both(&format!("no columns, {}", E::DTYPE), empty::check_none::<E>);
        suite.both(&format!("no columns, accumulated, {}", E::DTYPE), empty::check_added::<E>);
    });
    suite.run()
}
