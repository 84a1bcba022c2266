//! The seed chapter's unit test as a program: forward and backward on the seed's data, compared
//! with an independent f64 reference.
//!
//! ```text
//! cargo run --release --example verify
//! cargo run --release --example verify -- --all
//! ```

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ferronorm::plan::{self, DataType, Work};
use ferronorm::{Device, Dtype, Gradients, LayerNorm, Mode, Options, Statistics, Tensor};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};
use reference::{Answer, Error, layer_norm, seed_case};

/// Checks ferronorm against an f64 reference on the seed chapter's data.
#[derive(Parser)]
struct Arguments {
    /// Rows M.
    #[arg(long, default_value_t = 1151)]
    rows: usize,
    /// Columns N.
    #[arg(long, default_value_t = 8192)]
    cols: usize,
    /// Storage type of x, w, b, y and their gradients.
    #[arg(long, value_enum, default_value = "f16")]
    dtype: Type,
    /// Where to run.
    #[arg(long, value_enum, default_value = "auto")]
    device: Place,
    /// How rows are given to blocks.
    #[arg(long, value_enum, default_value = "persistent")]
    mode: Blocks,
    /// All types, and columns from 1 to 15872, in both modes.
    #[arg(long)]
    all: bool,
    /// Seed of the random data.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F32,
    F16,
    Bf16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Place {
    Auto,
    Gpu,
    Cpu,
}

#[derive(Clone, Copy, ValueEnum)]
enum Blocks {
    Persistent,
    Seed,
}

const EPS: f32 = 1e-5;
/// The seed's `atol`.
const MAX_ABS: f64 = 1e-2;
/// f32 elements that fill any L2 cache.
const FLUSH: usize = 64 << 20;
const ALL_COLUMNS: [usize; 11] = [1, 2, 31, 33, 769, 1000, 1023, 1025, 4097, 8192, 15872];

/// Relative L2 error allowed: the storage type's rounding, at most 2^-11 of a value in f16 and 2^-8
/// in bf16 and about 0.4 of that on average; in f32 the rounding of sums over thousands of terms.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F32 => 2e-6,
        DataType::F16 => 6e-4,
        DataType::Bf16 => 5e-3,
    }
}

struct Report {
    passed: bool,
    text: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let device = match arguments.device {
        Place::Auto => Device::auto(),
        Place::Gpu => Device::gpu(0),
        Place::Cpu => Ok(Device::cpu()),
    };
    match device.and_then(|device| run(&arguments, &device)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("verify: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, device: &Device) -> ferronorm::Result<bool> {
    println!("device  {device}");
    let types: &[Type] =
        if arguments.all { &[Type::F32, Type::F16, Type::Bf16] } else { &[arguments.dtype] };
    let columns: &[usize] = if arguments.all { &ALL_COLUMNS } else { &[arguments.cols] };
    let modes: &[Blocks] = if arguments.all {
        &[Blocks::Persistent, Blocks::Seed]
    } else {
        std::slice::from_ref(&arguments.mode)
    };

    let bar = ProgressBar::new((types.len() * columns.len() * modes.len()) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}").expect("a template"));
    let mut passed = 0;
    for &dtype in types {
        for &n in columns {
            for &mode in modes {
                bar.set_message(format!("N = {n}"));
                let report = match dtype {
                    Type::F32 => check::<f32>(arguments, device, n, mode)?,
                    Type::F16 => check::<f16>(arguments, device, n, mode)?,
                    Type::Bf16 => check::<bf16>(arguments, device, n, mode)?,
                };
                passed += report.passed as u64;
                bar.suspend(|| print!("{}", report.text));
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let all = bar.length() == Some(passed);
    println!("\n{passed} passed, {} failed", bar.length().unwrap_or(0) - passed);
    Ok(all)
}

/// One case: runs it, compares it, and describes both.
fn check<E: Dtype>(
    arguments: &Arguments,
    device: &Device,
    columns: usize,
    mode: Blocks,
) -> ferronorm::Result<Report> {
    let rows = arguments.rows;
    let case = seed_case(rows, columns, arguments.seed);
    let round = |data: &[f64]| -> Vec<E> { data.iter().map(|v| E::from_f64(*v)).collect() };
    let widen = |data: &[E]| -> Vec<f64> { data.iter().map(|v| v.to_f64()).collect() };
    let (x, w, b, dy) = (round(&case.x), round(&case.w), round(&case.b), round(&case.dy));
    let right = layer_norm(&widen(&x), &widen(&w), &widen(&b), &widen(&dy), EPS as f64);

    let mode = match mode {
        Blocks::Persistent => Mode::Persistent,
        Blocks::Seed => Mode::Seed,
    };
    let options = Options { mode, ..Options::default() };
    let layer = LayerNorm::with_options(device, options);
    let x = Tensor::from_slice(device, &x, [rows, columns])?;
    let w = Tensor::from_slice(device, &w, [1, columns])?;
    let b = Tensor::from_slice(device, &b, [1, columns])?;
    let dy = Tensor::from_slice(device, &dy, [rows, columns])?;
    let (mut y, saved) = layer.forward(&x, &w, &b, EPS)?;
    let mut gradients = Gradients::new(device, [rows, columns])?;
    layer.backward_timed(&saved, &dy, &mut gradients)?;

    // Timed on the second run: the first loads code and allocates scratch. On a GPU a long fill
    // goes before each, so that no launch gap counts, and nothing is left in the L2 cache.
    let mut statistics = Statistics::new(device, rows)?;
    let mut flush = Tensor::<f32>::zeros(device, [if device.is_gpu() { FLUSH } else { 0 }, 1])?;
    flush.clear()?;
    let forward = device.time(|| layer.forward_into(&x, &w, &b, EPS, &mut y, &mut statistics))?;
    flush.clear()?;
    let times = layer.backward_timed(&saved, &dy, &mut gradients)?;

    let stats = statistics.to_vec()?;
    let found = Answer {
        y: widen(&y.to_vec()?),
        mean: stats.iter().map(|s| s.mean as f64 + s.mean_lo as f64).collect(),
        rstd: stats.iter().map(|s| s.rstd as f64).collect(),
        dx: widen(&gradients.dx.to_vec()?),
        dw: widen(&gradients.dw.to_vec()?),
        db: widen(&gradients.db.to_vec()?),
    };

    let aligned = plan::aligned(&[], &[columns], columns, E::DTYPE);
    let work = Work { rows, columns, dtype: E::DTYPE, aligned };
    let forward_plan = plan::forward(device.info(), work, options)?;
    let backward_plan = plan::backward(device.info(), work, options)?;
    let mut report = describe(work, mode, &forward_plan, &backward_plan);
    report.text += &format!(
        "  time    forward {}   backward rows {} + columns {}\n",
        microseconds(forward),
        microseconds(times.rows),
        microseconds(times.columns),
    );
    compare(&mut report, &found, &right, E::DTYPE, columns);
    Ok(report)
}

fn describe(work: Work, mode: Mode, forward: &plan::Launch, backward: &plan::Backward) -> Report {
    let Work { rows, columns, dtype, .. } = work;
    let shape = |launch: &plan::Launch| {
        format!("{} grid {} block {}", launch.instance, launch.grid, launch.block)
    };
    let text = format!(
        "\nM = {rows}, N = {columns}, {dtype}, {mode:?}\n  plan    {}\n          {} groups {}\n          {}\n",
        shape(forward),
        shape(&backward.rows),
        backward.groups,
        shape(&backward.columns),
    );
    Report { passed: true, text }
}

/// Adds a line per result to the report.
fn compare(report: &mut Report, found: &Answer, right: &Answer, dtype: DataType, columns: usize) {
    report.text += "          max abs error   rel L2 error   allowed\n";
    let results = [
        ("y", &found.y, &right.y, dtype),
        ("mean", &found.mean, &right.mean, DataType::F32),
        ("rstd", &found.rstd, &right.rstd, DataType::F32),
        ("dx", &found.dx, &right.dx, dtype),
        ("dw", &found.dw, &right.dw, dtype),
        ("db", &found.db, &right.db, dtype),
    ];
    for (name, found, right, dtype) in results {
        let error = Error::of(found.iter().copied(), right);
        let allowed = tolerance(dtype);
        // With one column x_hat, dx and dw are 0, and a relative error says nothing; rstd is
        // 1 / sqrt(eps), and eps is rounded to f32 on its way.
        let vanishes = columns == 1 && matches!(name, "dx" | "dw");
        // bfloat16 rounds a value of 8 by as much as 2^-5: more than the seed's tolerance, which
        // is for f16.
        let largest = right.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let rounding = if dtype == DataType::Bf16 { largest * 2f64.powi(-8) } else { 0.0 };
        let max_abs = if name == "rstd" { f64::INFINITY } else { MAX_ABS + rounding };
        let passed = error.max_abs <= max_abs && (vanishes || error.relative_l2 <= allowed);
        report.passed &= passed;
        report.text += &format!(
            "  {name:5}   {:13.2e}   {:12.2e}   {allowed:7.0e}   {}\n",
            error.max_abs,
            error.relative_l2,
            if passed { "PASS" } else { "FAIL" },
        );
    }
}

fn microseconds(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}
