//! Trains a small MLP-mixer to sort digits, with LayerNorm from ferronorm.
//!
//! ```text
//! cargo run --release --example train
//! cargo run --release --example train -- --beside       # and with candle-nn's, which is not trained
//! ```
//!
//! It makes its data itself, prints the loss, draws its curve to `target/loss.png`, and fails if the loss
//! has not fallen below `--below`. The same numbers in every run on one kind of device.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarBuilder, VarMap, loss};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

mod mixer;
mod plot;

use mixer::{DIGITS, LENGTH, Mixer, Norm};

/// Sequences in a batch.
const BATCH: usize = 64;
/// Batches that the last loss is a mean of.
const LAST: usize = 20;

#[derive(Parser)]
struct Options {
    /// Batches to train on.
    #[arg(long, default_value_t = 300)]
    steps: usize,
    /// What the loss must fall below; 2.3 is a guess.
    #[arg(long, default_value_t = 0.2)]
    below: f64,
    /// Where the loss's curve goes.
    #[arg(long, default_value = "target/loss.png")]
    plot: PathBuf,
    /// Trains a second model, with candle-nn's LayerNorm.
    #[arg(long)]
    beside: bool,
    /// Trains on the first CUDA device.
    #[arg(long)]
    cuda: bool,
}

/// Digits in any order, and the same digits sorted.
fn batch(random: &mut StdRng, device: &Device) -> Result<(Tensor, Tensor)> {
    let mut digits = || Vec::from_iter((0..LENGTH).map(|_| random.random_range(0..DIGITS as u32)));
    let rows = Vec::from_iter((0..BATCH).map(|_| digits()));
    let mut sorted = rows.clone();
    sorted.iter_mut().for_each(|row| row.sort_unstable());
    Ok((Tensor::new(rows, device)?, Tensor::new(sorted, device)?))
}

/// Gives the matrices first values that are the same in every run; candle's are not.
fn seed(variables: &VarMap, random: &mut StdRng) -> Result<()> {
    let variables = variables.data().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut named = Vec::from_iter(variables.iter().filter(|(_, variable)| variable.rank() == 2));
    named.sort_by_key(|(name, _)| *name);
    for (_, variable) in named {
        let bound = (3.0 / variable.dim(1)? as f32).sqrt();
        let values = (0..variable.elem_count()).map(|_| random.random_range(-bound..bound));
        let values = Tensor::from_iter(values, variable.device())?;
        variable.set(&values.reshape(variable.shape())?)?;
    }
    Ok(())
}

/// Trains a model with `norm`, and returns the loss of each batch.
fn train(name: &str, norm: Norm, options: &Options, device: &Device) -> Result<Vec<f64>> {
    let mut random = StdRng::seed_from_u64(1);
    let variables = VarMap::new();
    let mixer = Mixer::new(norm, VarBuilder::from_varmap(&variables, DType::F32, device))?;
    seed(&variables, &mut random)?;
    let parameters = ParamsAdamW { lr: 3e-3, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), parameters)?;

    let style =
        ProgressStyle::with_template("{prefix:10} {bar:40} {pos}/{len} {elapsed} loss {msg}");
    let bar = ProgressBar::new(options.steps as u64).with_prefix(name.to_owned());
    bar.set_style(style.map_err(candle_core::Error::wrap)?);
    let mut losses = Vec::new();
    for step in 1..=options.steps {
        let (digits, sorted) = batch(&mut random, device)?;
        let scores = mixer.forward(&digits)?.flatten_to(1)?;
        let loss = loss::cross_entropy(&scores, &sorted.flatten_all()?)?;
        optimizer.backward_step(&loss)?;
        let loss: f32 = loss.to_scalar()?;
        losses.push(loss.into());
        bar.set_message(format!("{loss:.3}"));
        bar.inc(1);
        if step == 1 || step % options.steps.div_ceil(8) == 0 || step == options.steps {
            bar.suspend(|| println!("{name:10} step {step:5}  loss {loss:.4}"));
        }
    }
    bar.finish_and_clear();
    Ok(losses)
}

fn main() -> std::result::Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let device = if options.cuda { Device::new_cuda(0)? } else { Device::Cpu };
    let ours: Norm =
        |size, builder| Ok(Box::new(ferronorm_candle::layer_norm(size, 1e-5, builder)?));
    let theirs: Norm = |size, builder| Ok(Box::new(candle_nn::layer_norm(size, 1e-5, builder)?));

    let mut curves = vec![("ferronorm", train("ferronorm", ours, &options, &device)?)];
    if options.beside {
        curves.push(("candle-nn", train("candle-nn", theirs, &options, &device)?));
    }
    if let Some(directory) = options.plot.parent() {
        std::fs::create_dir_all(directory)?;
    }
    plot::draw(&options.plot, &curves)?;

    let losses = &curves[0].1;
    let last = &losses[losses.len().saturating_sub(LAST)..];
    let last = last.iter().sum::<f64>() / last.len() as f64;
    // A loss of NaN is not below.
    let fallen = last < options.below;
    let verdict = if fallen { "PASS" } else { "FAIL" };
    println!("loss {last:.4} over the last {LAST} batches, below {}: {verdict}", options.below);
    println!("{}", options.plot.display());
    Ok(if fallen { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
