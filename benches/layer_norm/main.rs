//! Forward and backward on the seed chapter's data: microseconds, GB/s, and the ratio to the limit.
//!
//! ```text
//! cargo bench
//! cargo bench -- --dtype bf16 --cols 4096,8192
//! cargo bench -- --sweep --peers peers.json      # N = 1024 to 15872: JSON, CSV, plots
//! cargo bench -- --plot target/sweep/sweep-f16.json
//! ```
//!
//! GB/s counts 2 (forward) or 3 (backward) tensors of M x N moved once, the seed's formula. The limit
//! is an elementwise kernel that moves the same bytes, `ferronorm::limit`. On a GPU the time is that
//! of all kernels of the direction, from the device's clock; the L2 cache is cleared before each
//! repeat, and the median counts. Results are checked before they are timed.

use std::error::Error;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use ferronorm::{Device, Options, Tile};

use crate::measure::Bench;
use crate::results::{Results, Type};

mod measure;
mod plot;
mod results;
mod sweep;
mod table;

/// Times ferronorm's LayerNorm.
#[derive(Parser)]
struct Arguments {
    /// Rows M; by default 4096 on a GPU, 512 on the CPU.
    #[arg(long)]
    rows: Option<usize>,
    /// Columns N; by default a few, and 512 i for i in 2..=31 in a sweep.
    #[arg(long, value_delimiter = ',')]
    cols: Option<Vec<usize>>,
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
    /// Writes NAME-DTYPE.json, .csv, -forward.png and -backward.png.
    #[arg(long)]
    sweep: bool,
    /// Where a sweep's files go; by default target/sweep. Where plots go; by default beside FILE.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What a sweep's files are called.
    #[arg(long, default_value = "sweep")]
    name: String,
    /// Others' times, in the form of a sweep's JSON, to show beside ours.
    #[arg(long, value_name = "FILE", requires = "sweep")]
    peers: Option<PathBuf>,
    /// The date to note in the sweep's JSON.
    #[arg(long, value_name = "YYYY-MM-DD", requires = "sweep")]
    date: Option<String>,
    /// Draws the plots of a sweep's JSON again; times nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    plot: Option<PathBuf>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TileChoice {
    Auto,
    One,
    Several,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    if let Some(file) = &arguments.plot {
        let results = Results::load(file)?;
        let beside = file.with_extension("");
        let stem = match (&arguments.out, beside.file_name()) {
            (Some(directory), Some(name)) => directory.join(name),
            _ => beside,
        };
        return sweep::show(&results, &stem);
    }
    let device = Device::auto()?;
    let rows = arguments.rows.unwrap_or(if device.is_gpu() { 4096 } else { 512 });
    let note = if device.is_gpu() { "" } else { " (there is no GPU: these are the CPU's times)" };
    println!("{device}, M = {rows}, {}{note}", arguments.dtype);
    let tile = match arguments.tile {
        TileChoice::Auto => Tile::Auto,
        TileChoice::One => Tile::One,
        TileChoice::Several => Tile::Several,
    };
    let (blocks, groups) = (arguments.blocks, arguments.groups);
    let options = Options { blocks, groups, tile, ..Options::default() };
    let bench = Bench::new(device, rows, arguments.repeats, options)?;
    if arguments.sweep { sweep::run(&arguments, bench) } else { table::run(&arguments, bench) }
}
