//! The tables that are printed.

use std::error::Error;

use ferronorm::plan::{self, Launch, Storage, Want, Work};

use crate::Arguments;
use crate::measure::{Bench, Measured};
use crate::results::{Direction, GROUP_LOCKS, OWN, Results, SEED, Times, Type, is_limit};

/// The lengths of rows that are timed if no others are asked for.
const COLUMNS: [usize; 6] = [1024, 2048, 4096, 8192, 12288, 15872];

/// Times each N, and prints a line for it and the launches that were timed.
pub fn run(arguments: &Arguments, mut bench: Bench) -> Result<(), Box<dyn Error>> {
    let columns = arguments.cols.as_deref().unwrap_or(&COLUMNS);
    let mut results = Results::new(&bench.device, bench.rows, arguments.dtype);
    println!("of: the share of the limit, a kernel that moves the same bytes and does no more");
    println!("host: to call forward and backward, without waiting for either");
    println!(
        "{:6} {:>24} {:>24} {:>24} {:>24} {:>8}",
        "", "forward", "backward", GROUP_LOCKS, "seed mode", "host"
    );
    let head = format!("{:>9} {:>7} {:>6}", "us", "GB/s", "of");
    println!("{:>6} {head} {head} {head} {head} {:>8}", "N", "us");
    for &columns in columns {
        let Measured { forward, backward, host } = bench.measure(arguments.dtype, columns)?;
        results.forward_us.insert(columns, forward);
        results.backward_us.insert(columns, backward);
        let cell = |direction, name| cell(&results, direction, columns, name);
        println!(
            "{columns:6} {} {} {} {} {}",
            cell(Direction::Forward, OWN),
            cell(Direction::Backward, OWN),
            cell(Direction::Backward, GROUP_LOCKS),
            cell(Direction::Backward, SEED),
            host.map_or(format!("{:>8}", "-"), |us| format!("{us:8.1}")),
        );
        print_plan(&bench, arguments.dtype, columns)?;
    }
    Ok(())
}

fn cell(results: &Results, direction: Direction, columns: usize, name: &str) -> String {
    let us = results.times(direction)[&columns][name].unwrap_or(f64::NAN);
    let rate = rate(results.gb_per_s(direction, columns, us));
    let ratio = results.limit(direction, columns).map(|limit| limit / us);
    format!("{us:9.1} {rate:>7} {}", share(ratio))
}

fn rate(gb_per_s: f64) -> String {
    let digits = if gb_per_s < 100.0 { 1 } else { 0 };
    format!("{gb_per_s:.digits$}")
}

fn share(ratio: Option<f64>) -> String {
    ratio.map_or(format!("{:>6}", "-"), |ratio| format!("{:4.0} %", 100.0 * ratio))
}

fn print_plan(bench: &Bench, dtype: Type, columns: usize) -> ferronorm::Result<()> {
    let (storage, device) = (Storage::of(dtype.into()), bench.device.info());
    let aligned = plan::aligned(&[], &[columns], columns, storage.x);
    let work = Work { rows: bench.rows, columns, storage, aligned, plain: true };
    let forward = plan::forward(device, work, bench.options)?;
    let backward = plan::backward(device, work, bench.options, Want::ALL)?;
    for launch in forward.steps.iter().chain(backward.rows.iter()).chain(&backward.columns) {
        let Launch { instance, grid, block, .. } = launch;
        println!("       {instance} grid {grid} block {block}");
    }
    Ok(())
}

/// A sweep's outcome: ours beside the limit and the best peer.
pub fn print(results: &Results) {
    for direction in Direction::BOTH {
        println!("\n{}, GB/s", direction.name());
        println!("{:>6} {:>9} {:>8}   {:<32} {:>8}", "N", OWN, "of limit", "best peer", "of peer");
        for (columns, times) in results.times(direction) {
            let Some(own) = times.get(OWN).copied().flatten() else { continue };
            let limit = results.limit(direction, *columns).map(|limit| limit / own);
            let gb_per_s = |us| rate(results.gb_per_s(direction, *columns, us));
            let peer = best_peer(times);
            let named = peer.map(|(name, us)| format!("{name} {}", gb_per_s(us)));
            let ratio = peer.map(|(_, us)| us / own);
            println!(
                "{columns:6} {:>9} {:>8}   {:<32} {:>8}",
                gb_per_s(own),
                share(limit),
                named.as_deref().unwrap_or("-"),
                share(ratio),
            );
        }
    }
}

fn best_peer(times: &Times) -> Option<(&str, f64)> {
    let ours = |name: &str| [OWN, GROUP_LOCKS, SEED].contains(&name);
    times
        .iter()
        .filter(|(name, _)| !ours(name) && !is_limit(name))
        .filter_map(|(name, us)| Some((name.as_str(), (*us)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
}
