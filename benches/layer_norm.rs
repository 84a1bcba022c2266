//! Forward and backward on the seed chapter's data: microseconds and GB/s.
//!
//! ```text
//! cargo bench
//! cargo bench -- --dtype bf16 --cols 4096,8192
//! ```
//!
//! GB/s counts 2 (forward) or 3 (backward) tensors of M x N moved once, the seed's formula. On a
//! GPU the time is that of all kernels of the direction, from the device's clock; the L2 cache is
//! cleared before each repeat, and the median counts. Results are checked before they are timed.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use ferronorm::plan::{self, Launch, Storage, Want, Work};
use ferronorm::{
    Device, Dtype, Gradients, Inputs, LayerNorm, Mode, Options, Outputs, Statistics, Tensor, Tile,
};
use half::{bf16, f16};
use reference::{Error, Norm, layer_norm, seed_case};

/// Times ferronorm's LayerNorm.
#[derive(Parser)]
struct Arguments {
    /// Rows M; by default 4096 on a GPU, 512 on the CPU.
    #[arg(long)]
    rows: Option<usize>,
    /// Columns N.
    #[arg(long, value_delimiter = ',', default_value = "1024,2048,4096,8192,12288,15872")]
    cols: Vec<usize>,
    /// Storage type.
    #[arg(long, value_enum, default_value = "f16")]
    dtype: Type,
    /// Repeats, of which the median counts.
    #[arg(long, default_value_t = 30)]
    repeats: usize,
    /// Blocks of the kernels that go over rows, instead of the planner's choice.
    #[arg(long)]
    blocks: Option<u32>,
    /// Groups, instead of the planner's choice.
    #[arg(long)]
    groups: Option<u32>,
    /// Rows per tile.
    #[arg(long, value_enum, default_value = "auto")]
    tile: TileChoice,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Type {
    F64,
    F32,
    F16,
    Bf16,
}

#[derive(Clone, Copy, ValueEnum)]
enum TileChoice {
    Auto,
    One,
    Several,
}

fn main() -> ferronorm::Result<()> {
    let arguments = Arguments::parse();
    let device = Device::auto()?;
    let rows = arguments.rows.unwrap_or(if device.is_gpu() { 4096 } else { 512 });
    println!("{device}, M = {rows}");
    println!("{:>6} {:>22} {:>22} {:>22}", "N", "forward", "backward", "backward, seed mode");
    for &columns in &arguments.cols {
        match arguments.dtype {
            Type::F64 => bench::<f64>(&arguments, &device, rows, columns)?,
            Type::F32 => bench::<f32>(&arguments, &device, rows, columns)?,
            Type::F16 => bench::<f16>(&arguments, &device, rows, columns)?,
            Type::Bf16 => bench::<bf16>(&arguments, &device, rows, columns)?,
        }
    }
    Ok(())
}

fn bench<E: Dtype>(
    arguments: &Arguments,
    device: &Device,
    rows: usize,
    columns: usize,
) -> ferronorm::Result<()> {
    let case = seed_case(rows, columns, 0);
    let round = |data: &[f64]| -> Vec<E> { data.iter().map(|v| E::from_f64(*v)).collect() };
    let x = Tensor::from_slice(device, &round(&case.x), [rows, columns])?;
    let w = Tensor::from_slice(device, &round(&case.w), [columns])?;
    let b = Tensor::from_slice(device, &round(&case.b), [columns])?;
    let dy = Tensor::from_slice(device, &round(&case.dy), [rows, columns])?;
    let mut flush = Tensor::<f32>::zeros(device, [if device.is_gpu() { 64 << 20 } else { 0 }])?;

    let tile = match arguments.tile {
        TileChoice::Auto => Tile::Auto,
        TileChoice::One => Tile::One,
        TileChoice::Several => Tile::Several,
    };
    let (blocks, groups) = (arguments.blocks, arguments.groups);
    let options = Options { blocks, groups, tile, ..Options::default() };
    let layer = LayerNorm::with_options(device, options);
    let seed = LayerNorm::with_options(device, Options { mode: Mode::Seed, ..Options::default() });

    let (mut y, saved) = layer.forward(&x, &w, &b, 1e-5)?;
    let mut statistics = Statistics::new(device, rows)?;
    let mut gradients = Gradients::new(device, &saved)?;
    for layer in [&layer, &seed] {
        layer.backward_into(&saved, &dy, &mut gradients)?;
        check(&case, &y, &gradients)?;
    }

    let mut median = |call: &mut dyn FnMut() -> ferronorm::Result<()>| {
        let mut times = Vec::with_capacity(arguments.repeats);
        for _ in 0..arguments.repeats.max(1) {
            flush.clear()?;
            times.push(device.time(&mut *call)?);
        }
        times.sort();
        Ok::<_, ferronorm::Error>(times[times.len() / 2])
    };
    let inputs = Inputs { x: x.view(), residual: None, w: Some(&w), b: Some(&b), eps: 1e-5 };
    let forward = median(&mut || {
        let (y, statistics) = (y.view_mut(), &mut statistics);
        layer.forward_into(&inputs, Outputs { y, sum: None, statistics })
    })?;
    let backward = median(&mut || layer.backward_into(&saved, &dy, &mut gradients))?;
    let literal = median(&mut || seed.backward_into(&saved, &dy, &mut gradients))?;
    let bytes = rows * columns * size_of::<E>();
    println!(
        "{columns:6} {} {} {}",
        rate(forward, 2 * bytes),
        rate(backward, 3 * bytes),
        rate(literal, 3 * bytes),
    );
    let aligned = plan::aligned(&[], &[columns], columns, E::DTYPE);
    let work = Work { rows, columns, storage: Storage::of(E::DTYPE), aligned, plain: true };
    let forward = plan::forward(device.info(), work, options)?;
    let backward = plan::backward(device.info(), work, options, Want::ALL)?;
    for launch in forward.steps.iter().chain(backward.rows.iter()).chain(&backward.columns) {
        let Launch { instance, grid, block, .. } = launch;
        println!("       {instance} grid {grid} block {block}");
    }
    Ok(())
}

fn rate(time: Duration, bytes: usize) -> String {
    let seconds = time.as_secs_f64();
    let gigabytes = bytes as f64 / seconds * 1e-9;
    let digits = if gigabytes < 100.0 { 1 } else { 0 };
    format!("{:8.1} us {gigabytes:6.digits$} GB/s", seconds * 1e6)
}

/// Stops the run if results are wrong: a wrong kernel has no speed.
fn check<E: Dtype>(
    case: &reference::Case,
    y: &Tensor<E>,
    gradients: &Gradients<E, E>,
) -> ferronorm::Result<()> {
    let round =
        |data: &[f64]| -> Vec<f64> { data.iter().map(|v| E::from_f64(*v).to_f64()).collect() };
    let (w, b) = (round(&case.w), round(&case.b));
    let right = layer_norm(&round(&case.x), &w, &b, &round(&case.dy), Norm::layer(1e-5));
    let Gradients { dx, dw, db } = gradients;
    let results = [
        (Some(y), right.y),
        (Some(dx), right.dx),
        (dw.as_ref(), right.dw),
        (db.as_ref(), right.db),
    ];
    for (found, right) in results {
        let found = found.expect("forward had w and b").to_vec()?;
        let error = Error::of(found.into_iter().map(E::to_f64), &right);
        assert!(error.relative_l2 < 5e-3, "wrong results: {error:?}");
    }
    Ok(())
}
