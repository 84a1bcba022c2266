//! Rows that other LayerNorm kernels got wrong, each named after the public report of it.

use std::process::ExitCode;

use common::{Inputs, Outcome, Suite, assert_close, assert_near, each_pair, layer, run};
use ferronorm::plan::Storage;
use ferronorm::{Device, Dtype, Mode, Options, Tile};
use half::{bf16, f16};
use reference::Case;

mod common;

/// One row, and what is right. The right values may be those of the first columns only.
#[derive(Clone, Copy)]
struct Row {
    report: &'static str,
    x: &'static [f64],
    w: Option<&'static [f64]>,
    dy: Option<&'static [f64]>,
    right: &'static [Right],
}

/// A result, its values, and how far off each may be: the last digit given, or f32's rounding.
type Right = (Output, &'static [f64], f64);

#[derive(Clone, Copy, PartialEq)]
enum Output {
    Y,
    Mean,
    Rstd,
    Dx,
    Dw,
    Db,
}

use Output::*;

const MLX: [f64; 16] = [
    1449.570556640625,
    1448.8741455078125,
    1450.650390625,
    1449.2633056640625,
    1449.7763671875,
    1449.317138671875,
    1449.3297119140625,
    1449.077880859375,
    1449.2181396484375,
    1449.4329833984375,
    1449.1605224609375,
    1449.413330078125,
    1449.7933349609375,
    1450.066650390625,
    1449.7762451171875,
    1450.364990234375,
];
/// x_hat of four equally spaced numbers, a unit apart.
const SPACED: [f64; 4] = [-1.341635, -0.447212, 0.447212, 1.341635];
const SPACED_RIGHT: &[Right] = &[(Y, &SPACED, 1e-6), (Rstd, &[0.894424], 1e-6)];
const ZEROS: [f64; 4] = [0.0; 4];

/// In f32, with eps = 1e-5, and w = 1, b = 0 and dy = 1 unless given.
const ROWS: [Row; 9] = [
    Row {
        report: "microsoft/onnxruntime#28463 40000",
        x: &[40000.0, 40001.0, 40002.0, 40003.0],
        w: None,
        dy: None,
        right: SPACED_RIGHT,
    },
    Row {
        report: "microsoft/onnxruntime#28463 80000",
        x: &[80000.0, 80001.0, 80002.0, 80003.0],
        w: None,
        dy: None,
        right: SPACED_RIGHT,
    },
    Row {
        report: "microsoft/onnxruntime#28463 below zero",
        x: &[-80003.0, -80002.0, -80001.0, -80000.0],
        w: None,
        dy: None,
        right: SPACED_RIGHT,
    },
    Row {
        report: "microsoft/onnxruntime#21935 variance below zero",
        x: &[1234.0; 256],
        w: None,
        dy: None,
        right: &[(Y, &[0.0; 256], 0.0), (Mean, &[1234.0], 0.0), (Rstd, &[316.2278], 5e-5)],
    },
    Row {
        report: "ml-explore/mlx#2238 mean 1449",
        x: &MLX,
        w: None,
        dy: None,
        right: &[
            (Y, &[0.005810, -1.492209, 2.328592, -0.655104], 1e-6),
            (Mean, &[1449.567856], 1e-6),
            (Rstd, &[2.151055], 1e-6),
        ],
    },
    Row {
        report: "tracel-ai/burn#2185 eps outside the root",
        x: &[0.001, 0.002, 0.003, 0.004],
        w: None,
        dy: None,
        right: &[(Y, &[-0.447214, -0.149071, 0.149071, 0.447214], 1e-6)],
    },
    Row {
        report: "tenstorrent/tt-metal#53204 a mean taken off twice",
        x: &[1.0, 2.0, 3.0, 4.0],
        w: None,
        dy: None,
        right: &[(Dx, &ZEROS, 1e-6)],
    },
    Row {
        report: "tenstorrent/tt-metal#53204 a mean taken off twice, w",
        x: &[1.0, 2.0, 3.0, 4.0],
        w: Some(&[1.0, 2.0, 3.0, 4.0]),
        dy: None,
        right: &[(Dx, &[-1.0733e-5, -3.578e-6, 3.578e-6, 1.0733e-5], 1e-6)],
    },
    Row {
        report: "tracel-ai/burn#1992 a row of zeros",
        x: &ZEROS,
        w: None,
        dy: Some(&[1.0, 2.0, 3.0, 4.0]),
        right: &[
            (Y, &ZEROS, 0.0),
            (Dx, &[-474.3416, -158.1139, 158.1139, 474.3416], 1e-4),
            (Dw, &ZEROS, 0.0),
            (Db, &[1.0, 2.0, 3.0, 4.0], 0.0),
        ],
    },
];

fn check_row(device: &Device, row: Row) -> Outcome {
    let ones = vec![1.0; row.x.len()];
    let case = Case {
        x: row.x.to_vec(),
        w: row.w.unwrap_or(&ones).to_vec(),
        b: vec![0.0; row.x.len()],
        dy: row.dy.unwrap_or(&ones).to_vec(),
    };
    check_values(device, &Inputs::<f32>::new(&case, 1e-5), row.right)
}

fn check_values<E: Dtype>(device: &Device, inputs: &Inputs<E>, right: &[Right]) -> Outcome {
    for options in [
        Options::default(),
        Options { mode: Mode::Seed, ..Options::default() },
        Options { tile: Tile::Several, ..Options::default() },
    ] {
        let found = run(&layer(device, options), inputs)?.answer();
        for (output, right, allowed) in right {
            let (name, found) = match output {
                Y => ("y", &found.y),
                Mean => ("mean", &found.mean),
                Rstd => ("rstd", &found.rstd),
                Dx => ("dx", &found.dx),
                Dw => ("dw", &found.dw),
                Db => ("db", &found.db),
            };
            assert_near(name, &found[..right.len()], right, *allowed);
        }
    }
    Ok(())
}

/// microsoft/onnxruntime#29034, #17692: the variance is beyond f16.
fn check_f16_variance(device: &Device, size: f64) -> Outcome {
    let sign = |i| if i % 2 == 0 { 1.0 } else { -1.0 };
    let x: Vec<f64> = (0..2048).map(|i| size * sign(i)).collect();
    let right: Vec<f64> = (0..2048).map(sign).collect();
    let inputs = Inputs::<f16>::plain(2048, &x, 1e-5);
    let found = run(&layer(device, Options::default()), &inputs)?.answer();
    assert_near("y", &found.y, &right, 0.0);
    assert_near("rstd", &found.rstd, &[1.0 / size], 1e-7 / size);
    Ok(())
}

/// linkedin/Liger-Kernel: statistics saved as bf16, a mean of 100.75 as 101. dw is x_hat, rounded
/// but once.
fn check_saved_statistics(device: &Device) -> Outcome {
    let inputs = Inputs::<bf16>::plain(4, &[100.0, 100.5, 101.0, 101.5], 1e-5);
    let found = run(&layer(device, Options::default()), &inputs)?.answer();
    let right = [-1.341619, -0.447206, 0.447206, 1.341619].map(|v| bf16::from_f64(v).to_f64());
    assert_near("dw", &found.dw, &right, 0.0);
    assert_near("mean", &found.mean, &[100.75], 0.0);
    assert_near("rstd", &found.rstd, &[1.0 / 0.31251f64.sqrt()], 2e-7);
    Ok(())
}

/// tenstorrent/tt-metal#53204: dx has neither a mean nor a share of x_hat. Both at a dy whose mean
/// is not 0 (eps = 0: with it, a trace of x_hat is right).
fn check_dx_is_orthogonal(device: &Device) -> Outcome {
    for columns in [31, 1000, 5000] {
        let mut inputs = Inputs::<f32>::seed(9, columns, 1);
        inputs.norm.eps = 0.0;
        inputs.dy.iter_mut().for_each(|dy| *dy += 0.7);
        let right = inputs.right();
        let found = run(&layer(device, Options::default()), &inputs)?;
        for row in 0..9 {
            let (mean, rstd) = (right.mean[row], right.rstd[row]);
            let x_hat = inputs.row(&inputs.x, row).iter().map(|x| (*x as f64 - mean) * rstd);
            let dx = inputs.row(&found.dx, row).iter().map(|dx| *dx as f64);
            let size: f64 = dx.clone().map(f64::abs).sum();
            assert!(size > 0.0);
            let sum = dx.clone().sum::<f64>();
            assert!(sum.abs() <= 1e-6 * size, "row {row}: sum of dx {sum:e} of {size}");
            let share: f64 = dx.zip(x_hat).map(|(dx, hat)| dx * hat).sum();
            assert!(share.abs() <= 1e-6 * size, "row {row}: dx by x_hat {share:e} of {size}");
        }
    }
    Ok(())
}

/// NVIDIA/apex#1715: a weight of exactly 0 loses x_hat where backward divides by it.
fn check_zero_weight<E: Dtype, P: Dtype>(device: &Device) -> Outcome {
    let mut inputs = Inputs::<E, P>::seed(40, 100, 3);
    inputs.w.as_mut().expect("the seed's data has one")[3] = P::from_f64(0.0);
    let found = run(&layer(device, Options::default()), &inputs)?;
    assert_close("w[3] = 0", &inputs, &found, &inputs.right());
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    for row in ROWS {
        suite.both(row.report, move |device| check_row(device, row));
    }
    for size in [8000.0, 496.0] {
        let name = format!("microsoft/onnxruntime#29034 f16 rows of {size} and -{size}");
        suite.both(&name, move |device| check_f16_variance(device, size));
    }
    suite.both("linkedin/Liger-Kernel statistics as bf16", check_saved_statistics);
    suite
        .both("tenstorrent/tt-metal#53204 dx is orthogonal to 1 and x_hat", check_dx_is_orthogonal);
    each_pair!(E, P => {
        let types = Storage { x: E::DTYPE, params: P::DTYPE };
        suite.both(&format!("NVIDIA/apex#1715 a weight of 0, {types}"), check_zero_weight::<E, P>);
    });
    suite.run()
}
