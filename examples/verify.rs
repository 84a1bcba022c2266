//! The seed chapter's unit test as a program: forward and backward on the seed's data, compared
//! with an independent f64 reference.
//!
//! ```text
//! cargo run --release --example verify
//! cargo run --release --example verify -- --all
//! ```

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use ferronorm::plan::{self, DataType, Storage, Want, Work};
use ferronorm::{
    Device, Dtype, Gradients, Inputs, LayerNorm, Mode, Options, Outputs, Statistics, Tensor,
};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressStyle};
use reference::{Answer, Norm, layer_norm, seed_case};
use report::Report;

#[path = "verify/report.rs"]
mod report;

/// Checks ferronorm against an f64 reference on the seed chapter's data.
#[derive(Parser)]
struct Arguments {
    /// Rows M.
    #[arg(long, default_value_t = 1151)]
    rows: usize,
    /// Columns N.
    #[arg(long, default_value_t = 8192)]
    cols: usize,
    /// Storage type of x, y and their gradients.
    #[arg(long, value_enum, default_value = "f16")]
    dtype: Type,
    /// Storage type of w, b and their gradients, if not that of x: f32 beside 16-bit x.
    #[arg(long, value_enum)]
    weights: Option<Type>,
    /// RMSNorm: the mean is taken to be 0.
    #[arg(long)]
    rms: bool,
    /// Where to run.
    #[arg(long, value_enum, default_value = "auto")]
    device: Place,
    /// How rows are given to blocks.
    #[arg(long, value_enum, default_value = "persistent")]
    mode: Blocks,
    /// All pairs of types, and columns from 1 to 20000, in both modes; and RMSNorm of some of them.
    #[arg(long)]
    all: bool,
    /// Seed of the random data.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F64,
    F32,
    F16,
    Bf16,
}

impl From<Type> for DataType {
    fn from(dtype: Type) -> DataType {
        match dtype {
            Type::F64 => DataType::F64,
            Type::F32 => DataType::F32,
            Type::F16 => DataType::F16,
            Type::Bf16 => DataType::Bf16,
        }
    }
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

/// One case to check.
#[derive(Clone, Copy)]
struct Case {
    storage: Storage,
    rows: usize,
    columns: usize,
    mode: Mode,
    rms: bool,
    seed: u64,
}

const EPS: f64 = 1e-5;
/// f32 elements that fill any L2 cache.
const FLUSH: usize = 64 << 20;
/// The last is longer than a block holds, whatever the type.
const ALL_COLUMNS: [usize; 12] = [1, 2, 31, 33, 769, 1000, 1023, 1025, 4097, 8192, 15872, 20000];
const RMS_COLUMNS: [usize; 3] = [1023, 8192, 20000];

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
    let cases = cases(arguments);
    let bar = ProgressBar::new(cases.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}").expect("a template"));
    let mut passed = 0;
    for case in &cases {
        bar.set_message(format!("N = {}", case.columns));
        let report = check_pair(device, case)?;
        passed += report.passed as usize;
        bar.suspend(|| print!("{}", report.text));
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!("\n{passed} passed, {} failed", cases.len() - passed);
    Ok(passed == cases.len())
}

/// What the command line asks for.
fn cases(arguments: &Arguments) -> Vec<Case> {
    let Arguments { rows, cols: columns, dtype, weights, rms, seed, .. } = *arguments;
    let storage = Storage { x: dtype.into(), params: weights.unwrap_or(dtype).into() };
    let mode = match arguments.mode {
        Blocks::Persistent => Mode::Persistent,
        Blocks::Seed => Mode::Seed,
    };
    let case = Case { storage, rows, columns, mode, rms, seed };
    if !arguments.all {
        return vec![case];
    }
    let each = |storage| {
        let plain = ALL_COLUMNS.into_iter().flat_map(move |columns| {
            let modes = [Mode::Persistent, Mode::Seed];
            modes.map(|mode| Case { storage, columns, mode, rms: false, ..case })
        });
        let rms = RMS_COLUMNS.map(|columns| Case {
            storage,
            columns,
            mode: Mode::Persistent,
            rms: true,
            ..case
        });
        plain.chain(rms)
    };
    Storage::ALL.into_iter().flat_map(each).collect()
}

/// One case, in its types. Those that no kernel is for are the library's to refuse.
fn check_pair(device: &Device, case: &Case) -> ferronorm::Result<Report> {
    fn of<E: Dtype>(device: &Device, case: &Case) -> ferronorm::Result<Report> {
        match case.storage.params {
            DataType::F64 => check::<E, f64>(device, case),
            DataType::F32 => check::<E, f32>(device, case),
            DataType::F16 => check::<E, f16>(device, case),
            DataType::Bf16 => check::<E, bf16>(device, case),
        }
    }
    match case.storage.x {
        DataType::F64 => of::<f64>(device, case),
        DataType::F32 => of::<f32>(device, case),
        DataType::F16 => of::<f16>(device, case),
        DataType::Bf16 => of::<bf16>(device, case),
    }
}

fn round<E: Dtype>(data: &[f64]) -> Vec<E> {
    data.iter().map(|value| E::from_f64(*value)).collect()
}

fn widen<E: Dtype>(data: &[E]) -> Vec<f64> {
    data.iter().map(|value| value.to_f64()).collect()
}

/// Runs one case, compares it, and describes both.
fn check<E: Dtype, P: Dtype>(device: &Device, case: &Case) -> ferronorm::Result<Report> {
    let Case { storage, rows, columns, mode, rms, seed } = *case;
    let data = seed_case(rows, columns, seed);
    let (x, dy) = (round::<E>(&data.x), round::<E>(&data.dy));
    let (w, b) = (round::<P>(&data.w), round::<P>(&data.b));
    let norm = Norm { rms, ..Norm::layer(EPS) };
    let right = layer_norm(&widen(&x), &widen(&w), &widen(&b), &widen(&dy), norm);

    let options = Options { mode, ..Options::default() };
    let layer = if rms { LayerNorm::rms(device) } else { LayerNorm::new(device) };
    let layer = layer.options(options);
    let x = Tensor::from_slice(device, &x, [rows, columns])?;
    let w = Tensor::from_slice(device, &w, [columns])?;
    let b = Tensor::from_slice(device, &b, [columns])?;
    let dy = Tensor::from_slice(device, &dy, [rows, columns])?;
    let (mut y, saved) = layer.forward(&x, &w, &b, EPS)?;
    let mut gradients = Gradients::new(device, &saved)?;
    layer.backward_timed(&saved, &dy, &mut gradients)?;

    // Timed on the second run: the first loads code and allocates scratch. On a GPU a long fill
    // goes before each, so that no launch gap counts, and nothing is left in the L2 cache.
    let mut statistics = Statistics::new(device, rows)?;
    let mut flush = Tensor::<f32>::zeros(device, [if device.is_gpu() { FLUSH } else { 0 }])?;
    let inputs = Inputs { x: x.view(), residual: None, w: Some(&w), b: Some(&b), eps: EPS };
    flush.clear()?;
    let forward = device.time(|| {
        let (y, statistics) = (y.view_mut(), &mut statistics);
        layer.forward_into(&inputs, Outputs { y, sum: None, statistics })
    })?;
    flush.clear()?;
    let times = layer.backward_timed(&saved, &dy, &mut gradients)?;

    let stats = statistics.to_vec()?;
    let vector = |gradient: Option<Tensor<P>>| match gradient {
        Some(gradient) => gradient.to_vec().map(|values| widen(&values)),
        None => Ok(vec![]),
    };
    let found = Answer {
        y: widen(&y.to_vec()?),
        mean: stats.iter().map(|s| s.mean.into() + s.mean_lo.into()).collect(),
        rstd: stats.iter().map(|s| s.rstd.into()).collect(),
        dx: widen(&gradients.dx.to_vec()?),
        dw: vector(gradients.dw)?,
        db: vector(gradients.db)?,
    };

    let aligned = plan::aligned(&[], &[columns], columns, E::DTYPE);
    let work = Work { rows, columns, storage, aligned, plain: true };
    let forward_plan = plan::forward(device.info(), work, options)?;
    let backward_plan = plan::backward(device.info(), work, options, Want::ALL)?;
    let mut report = Report::new(case, &forward_plan, &backward_plan);
    report.add_times(forward, times);
    report.compare(case, &found, &right);
    Ok(report)
}
