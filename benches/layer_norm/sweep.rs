//! A sweep over N: its files, its plots, its table.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressIterator, ProgressStyle};

use crate::measure::{Bench, Measured};
use crate::results::{Direction, Results, Times};
use crate::{Arguments, plot, table};

pub fn run(arguments: &Arguments, mut bench: Bench) -> Result<(), Box<dyn Error>> {
    let all = || (2..=31).map(|i| 512 * i).collect();
    let columns: Vec<usize> = arguments.cols.clone().unwrap_or_else(all);
    let mut results = Results::new(&bench.device, bench.rows, arguments.dtype);
    results.driver = driver();
    results.date = arguments.date.clone();
    for direction in Direction::BOTH {
        let none = columns.iter().map(|columns| (*columns, Times::new()));
        results.times_mut(direction).extend(none);
    }
    // The peers first: a file that does not fit is refused before the time is spent.
    if let Some(file) = &arguments.peers {
        results.join(Results::load(file)?)?;
    }
    // Draws on a terminal only.
    let bar = ProgressBar::new(columns.len() as u64);
    bar.set_style(ProgressStyle::with_template("{wide_bar} {pos}/{len}, {eta} left")?);
    for &columns in columns.iter().progress_with(bar) {
        let Measured { forward, backward, .. } = bench.measure(arguments.dtype, columns)?;
        results.forward_us.entry(columns).or_default().extend(forward);
        results.backward_us.entry(columns).or_default().extend(backward);
    }
    let directory = arguments.out.clone().unwrap_or_else(|| PathBuf::from("target/sweep"));
    fs::create_dir_all(&directory)?;
    let stem = directory.join(format!("{}-{}", arguments.name, arguments.dtype));
    fs::write(named(&stem, ".json"), serde_json::to_string_pretty(&results)? + "\n")?;
    fs::write(named(&stem, ".csv"), results.csv()?)?;
    println!("{}, .csv", named(&stem, ".json").display());
    show(&results, &stem)
}

/// Draws the plots, whose names start with `stem`, and prints the table.
pub fn show(results: &Results, stem: &Path) -> Result<(), Box<dyn Error>> {
    if let Some(directory) = stem.parent() {
        fs::create_dir_all(directory)?;
    }
    for direction in Direction::BOTH {
        let path = named(stem, &format!("-{}.png", direction.name()));
        plot::draw(results, direction, &path)?;
        println!("{}", path.display());
    }
    table::print(results);
    Ok(())
}

fn named(stem: &Path, end: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// The version of NVIDIA's kernel module, the first number that Linux has of it.
fn driver() -> Option<String> {
    let text = fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    text.split_whitespace().find(version).map(str::to_owned)
}
