//! Writes rows, easy and hard, and what ferronorm makes of them, for `docs/numerics.py` to hold
//! against PyTorch and others:
//!
//! ```text
//! cargo run --release --example numerics -- errors && python3 docs/numerics.py errors
//! ```
//!
//! For each case the directory gets `<case>.<tensor>`, the elements as they lie in memory, and
//! `cases.tsv` a line: case, type, M, N, eps.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use ferronorm::{Device, Dtype, LayerNorm, Tensor};
use half::{bf16, f16};
use indicatif::{ProgressBar, ProgressIterator};
use reference::{Case, seed_case};

#[derive(Parser)]
struct Options {
    /// Where to write to; made if it is not there.
    directory: PathBuf,
    /// On the CPU, even if there is a GPU: the results are the same.
    #[arg(long)]
    cpu: bool,
}

const EPS: f64 = 1e-5;

/// Rows in f64: of a shape, from the seed chapter's numbers.
type Rows = fn(&mut Case, usize);

/// Name, M, N, and what is done to the seed's rows.
const CASES: [(&str, usize, usize, Rows); 6] = [
    ("seed", 1151, 8192, |_, _| {}),
    ("seed-short", 4096, 768, |_, _| {}),
    // x = mean + spread * z.
    ("mean-1e4-spread-1e-2", 256, 4096, |case, _| shift(case, 1e4, 1e-2)),
    ("mean-100-spread-0.01", 64, 32768, |case, _| shift(case, 100.0, 1e-2)),
    ("spread-8000", 256, 2048, |case, _| shift(case, 0.0, 8e3)),
    // One element of a row is far from all others.
    ("outlier", 256, 4096, |case, columns| {
        case.x.iter_mut().step_by(columns).for_each(|x| *x = 3e4);
    }),
];

fn shift(case: &mut Case, mean: f64, spread: f64) {
    case.x.iter_mut().for_each(|x| *x = mean + spread * (*x + 2.3) / 0.5);
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options { directory, cpu } = Options::parse();
    let device = if cpu { Device::cpu() } else { Device::auto()? };
    fs::create_dir_all(&directory)?;
    let mut lines = String::new();
    let bar = ProgressBar::new(CASES.len() as u64);
    for (name, rows, columns, change) in CASES.into_iter().progress_with(bar) {
        let mut case = seed_case(rows, columns, 1);
        change(&mut case, columns);
        lines += &write::<f32>(&device, &directory, name, [rows, columns], &case)?;
        lines += &write::<f16>(&device, &directory, name, [rows, columns], &case)?;
        lines += &write::<bf16>(&device, &directory, name, [rows, columns], &case)?;
    }
    fs::write(directory.join("cases.tsv"), lines)?;
    println!("{device}: {} cases in {}", 3 * CASES.len(), directory.display());
    Ok(())
}

/// Runs a case rounded to E, writes its tensors, and gives its line.
fn write<E: Dtype>(
    device: &Device,
    directory: &Path,
    name: &str,
    shape @ [rows, columns]: [usize; 2],
    case: &Case,
) -> Result<String, Box<dyn Error>> {
    let name = format!("{name}.{}", E::DTYPE);
    let tensor = |data: &[f64], shape: &[usize]| {
        let data: Vec<E> = data.iter().map(|value| E::from_f64(*value)).collect();
        Tensor::from_slice(device, &data, shape)
    };
    let (x, dy) = (tensor(&case.x, &shape)?, tensor(&case.dy, &shape)?);
    let (w, b) = (tensor(&case.w, &[columns])?, tensor(&case.b, &[columns])?);
    let layer = LayerNorm::new(device);
    let (y, saved) = layer.forward(&x, &w, &b, EPS)?;
    let gradients = layer.backward(&saved, &dy)?;
    let (dw, db) = (gradients.dw.ok_or("no dw")?, gradients.db.ok_or("no db")?);
    let tensors = [
        ("x", &x),
        ("dy", &dy),
        ("w", &w),
        ("b", &b),
        ("y", &y),
        ("dx", &gradients.dx),
        ("dw", &dw),
        ("db", &db),
    ];
    for (tensor_name, tensor) in tensors {
        let path = directory.join(format!("{name}.{tensor_name}"));
        fs::write(path, bytes(&tensor.to_vec()?))?;
    }
    Ok(format!("{name}\t{}\t{rows}\t{columns}\t{EPS}\n", E::DTYPE))
}

/// The elements as they lie in memory.
fn bytes<E: Dtype>(data: &[E]) -> &[u8] {
    // SAFETY: the storage types are plain numbers, without padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}
