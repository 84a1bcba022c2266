//! The group locks under load, held to exact integers.
//!
//! ```text
//! cargo run --release --example stress
//! cargo run --release --example stress -- --runs 1000
//! ```
//!
//! Rows are half +1 and half -1, so that mean = 0 and var = 1 exactly, and with eps = 0 x_hat = x.
//! With dy = 1, db is M and dw a sum of +1 and -1: whole numbers that f32 holds exactly in whatever
//! order blocks arrive. A sum that is lost, doubled or read too early is off by a whole number, and
//! is counted.

use std::process::ExitCode;
use std::thread;

use clap::Parser;
use ferronorm::{Device, Gradients, LayerNorm, Mode, Options, Reduction, Result, Tensor};
use indicatif::{ProgressBar, ProgressStyle};

/// Runs backward many times on data whose gradients are whole numbers, and counts the wrong ones.
#[derive(Parser)]
struct Arguments {
    /// Backward calls of each case; of the slowest, a block a row and one lock for all, a hundredth.
    #[arg(long, default_value_t = 100)]
    runs: usize,
    /// The CPU, even where there is a GPU.
    #[arg(long)]
    cpu: bool,
}

/// One problem, and how it is to be summed.
struct Case {
    name: String,
    shape: [usize; 2],
    options: Options,
    runs: usize,
    /// Handles of the device, each with a stream and scratch of its own, that run it at once.
    streams: usize,
}

fn cases(gpu: bool, runs: usize) -> Vec<Case> {
    let shapes: &[[usize; 2]] = if gpu {
        &[[8192, 2048], [65_536, 512], [1_048_576, 64], [300, 16_400]]
    } else {
        &[[1024, 256], [8192, 32], [40, 16_400]]
    };
    let case = |name: String, shape: [usize; 2], options, runs: usize, streams| Case {
        name,
        shape,
        options,
        runs: runs.max(1),
        streams,
    };
    let mut cases = Vec::new();
    for &shape in shapes {
        for reduction in [Reduction::GroupLocks, Reduction::Deterministic] {
            let options = Options { reduction, ..Options::default() };
            cases.push(case(format!("{reduction:?}"), shape, options, runs, 1));
        }
        for groups in [1, 16, 256] {
            let options = Options { mode: Mode::Seed, groups: Some(groups), ..Options::default() };
            let slow = groups == 1 || shape[0] > 500_000;
            let runs = if slow { runs / 100 } else { runs / 10 };
            cases.push(case(format!("a block a row, {groups} groups"), shape, options, runs, 1));
        }
    }
    let options = Options { reduction: Reduction::GroupLocks, ..Options::default() };
    cases.push(case("GroupLocks, two streams".into(), shapes[0], options, runs, 2));
    cases
}

/// x, and the right dw: row r is +1 from column 7r on, around the end, for half a row.
fn signs([rows, columns]: [usize; 2]) -> (Vec<f32>, Vec<f32>) {
    let (mut x, mut dw) = (Vec::with_capacity(rows * columns), vec![0.0; columns]);
    for row in 0..rows {
        for (column, dw) in dw.iter_mut().enumerate() {
            let sign = if (column + 7 * row) % columns < columns / 2 { 1.0 } else { -1.0 };
            x.push(sign);
            *dw += sign;
        }
    }
    (x, dw)
}

/// Runs a case on one handle of the device; gives the number of wrong sums.
fn run(device: &Device, case: &Case, progress: &ProgressBar) -> Result<usize> {
    let shape @ [rows, columns] = case.shape;
    let (x, right) = signs(shape);
    let x = Tensor::from_slice(device, &x, shape)?;
    let dy = Tensor::from_slice(device, &vec![1.0; rows * columns], shape)?;
    let w = Tensor::from_slice(device, &vec![1.0; columns], [columns])?;
    let b = Tensor::zeros(device, [columns])?;
    let layer = LayerNorm::with_options(device, case.options);
    let (_, saved) = layer.forward(&x, &w, &b, 0.0)?;
    let mut gradients = Gradients {
        dx: Tensor::zeros(device, shape)?,
        dw: Some(Tensor::zeros(device, [columns])?),
        db: Some(Tensor::zeros(device, [columns])?),
    };
    let nan = vec![f32::NAN; columns];
    let mut wrong = 0;
    for _ in 0..case.runs {
        for gradient in [&mut gradients.dw, &mut gradients.db].into_iter().flatten() {
            gradient.copy_from_slice(&nan)?;
        }
        layer.backward_into(&saved, &dy, &mut gradients)?;
        let [dw, db] = [&gradients.dw, &gradients.db].map(|gradient| gradient.as_ref());
        let (dw, db) = (dw.map(Tensor::to_vec), db.map(Tensor::to_vec));
        let (dw, db) = (dw.transpose()?.unwrap_or_default(), db.transpose()?.unwrap_or_default());
        // NaN is wrong as well.
        wrong += dw.iter().zip(&right).filter(|(found, right)| found != right).count();
        wrong += db.iter().filter(|found| **found != rows as f32).count();
        progress.inc(1);
    }
    Ok(wrong)
}

fn main() -> std::result::Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let open = || if arguments.cpu { Ok(Device::cpu()) } else { Device::auto() };
    let device = open()?;
    println!("{device}");
    let cases = cases(device.is_gpu(), arguments.runs);
    let total = cases.iter().map(|case| case.runs * case.streams).sum::<usize>() as u64;
    let progress = ProgressBar::new(total)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {eta} {msg}")?);
    let (mut wrong, mut sums) = (0, 0);
    for case in &cases {
        let [rows, columns] = case.shape;
        let what = format!("{rows} x {columns}, {}", case.name);
        progress.set_message(what.clone());
        let more = (1..case.streams).map(|_| open()).collect::<Result<Vec<_>>>()?;
        let found = thread::scope(|scope| {
            let handles = [&device].into_iter().chain(&more);
            let threads: Vec<_> =
                handles.map(|device| scope.spawn(|| run(device, case, &progress))).collect();
            let found = threads.into_iter().map(|thread| thread.join());
            found
                .map(|found| found.unwrap_or_else(|_| panic!("{what}: a panic")))
                .sum::<Result<usize>>()
        })?;
        let all = case.runs * case.streams;
        let line = format!("{what:55} {all:6} runs  {found} wrong sums");
        if progress.is_hidden() {
            println!("{line}")
        } else {
            progress.println(line)
        }
        (wrong, sums) = (wrong + found, sums + 2 * columns * all);
    }
    progress.finish_and_clear();
    println!("\n{wrong} wrong sums of {sums}, in {total} backward calls");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
