//! A GPU gives the CPU's bits, with each of the built PTX files; and a CPU gives its own, whatever
//! its number of threads.
//!
//! y, the statistics and dx in every mode. dw and db where each block has a group of its own (else
//! the order of arrival at the lock is free) and both devices have the same blocks and tiles.

use std::process::ExitCode;
use std::sync::LazyLock;

use common::{Inputs, Outcome, Suite, each_pair, layer, run};
use ferronorm::plan::{self, DataType, Storage, Work};
use ferronorm::{Device, Dtype, Mode, Options, Tile, ptx};

mod common;

const SHAPES: [[usize; 2]; 17] = [
    [1151, 8192],
    [257, 1000],
    [64, 1023],
    [37, 15872],
    [9, 16384],
    [137, 9216],
    [133, 13312],
    [1000, 256],
    [4096, 1024],
    [300, 3584],
    // Three packs a thread: of 16 bits, of f32, of both.
    [200, 2304],
    [600, 768],
    [133, 1151],
    [70, 4097],
    [5, 1],
    // Longer than a block holds.
    [3, 20000],
    [2, 70001],
];

/// Shapes whose last rows are for late blocks (f64 has none).
const LATE: [[usize; 2]; 3] = [[60_001, 40], [40_000, 520], [2200, 11_000]];

/// A GPU, in every mode and with every tile, and the CPU as it plans by itself.
fn check_rows<E: Dtype, P: Dtype>(gpu: &Device, shape: [usize; 2]) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 12);
    let right = run(&layer(&Device::cpu(), Options::default()), &inputs)?;
    for mode in [Mode::Persistent, Mode::Seed] {
        for tile in [Tile::Auto, Tile::One, Tile::Several] {
            let options = Options { mode, tile, ..Options::default() };
            let found = run(&layer(gpu, options), &inputs)?;
            found.assert_same_rows(&right, &format!("{mode:?}, {tile:?}"));
        }
    }
    Ok(())
}

/// Forward of a GPU and of the CPU.
fn check_late<E: Dtype, P: Dtype>(gpu: &Device, [rows, columns]: [usize; 2]) -> Outcome {
    let storage = Storage { x: E::DTYPE, params: P::DTYPE };
    if gpu.info().ring && E::DTYPE != DataType::F64 {
        let work = Work { rows, columns, storage, aligned: true, plain: true };
        let plan = plan::forward(gpu.info(), work, Options::default())?;
        assert!(plan.steps.iter().all(|launch| launch.late.blocks > 0), "{plan:?}");
    }
    let inputs = Inputs::<E, P>::seed(rows, columns, 16);
    let right = run(&layer(&Device::cpu(), Options::default()), &inputs)?;
    let found = run(&layer(gpu, Options::default()), &inputs)?;
    found.assert_same_rows(&right, "with late blocks");
    Ok(())
}

/// A GPU and the CPU with the same blocks (of each chunk, where rows are split) and tiles. A GPU
/// without a ring takes single rows, even if asked for several.
fn check_columns<E: Dtype, P: Dtype>(gpu: &Device, shape: [usize; 2], tile: Tile) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 13);
    let cpu_tile = if gpu.info().ring { tile } else { Tile::One };
    for blocks in [1, 33, 200] {
        let options = Options { blocks: Some(blocks), tile, ..Options::default() };
        let cpu_options = Options { tile: cpu_tile, ..options };
        let right = run(&layer(&Device::cpu(), cpu_options), &inputs)?;
        let found = run(&layer(gpu, options), &inputs)?;
        found.assert_same_rows(&right, &format!("{blocks} blocks"));
        found.assert_same_columns(&right, &format!("{blocks} blocks"));
    }
    Ok(())
}

/// A device gives the same bits again.
fn check_again<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2]) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 14);
    let first = run(&layer(device, Options::default()), &inputs)?;
    for _ in 0..3 {
        let again = run(&layer(device, Options::default()), &inputs)?;
        again.assert_same_rows(&first, "again");
        again.assert_same_columns(&first, "again");
    }
    Ok(())
}

/// The CPU with 1 thread, and with more.
fn check_threads<E: Dtype, P: Dtype>(shape: [usize; 2]) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 15);
    for tile in [Tile::One, Tile::Several] {
        let options = Options { tile, ..Options::default() };
        let right = run(&layer(&Device::cpu_with_threads(1), options), &inputs)?;
        for threads in [2, 7] {
            let found = run(&layer(&Device::cpu_with_threads(threads), options), &inputs)?;
            let what = format!("{tile:?}, {threads} threads");
            found.assert_same_rows(&right, &what);
            found.assert_same_columns(&right, &what);
        }
    }
    Ok(())
}

/// The GPU with the built PTX file for the oldest architecture, opened once.
static OLDEST: LazyLock<ferronorm::Result<Device>> = LazyLock::new(|| {
    let [.., oldest] = ptx::all()?;
    // SAFETY: a file that was built here.
    unsafe { Device::gpu_with_ptx(0, &oldest) }
});

fn oldest() -> Result<&'static Device, &'static ferronorm::Error> {
    OLDEST.as_ref()
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_pair!(E, P => for shape @ [rows, columns] in SHAPES {
        let types = Storage { x: E::DTYPE, params: P::DTYPE };
        let name = |what: &str| format!("{what} {types} {rows}x{columns}");
        suite.gpu(&name("as the CPU"), move |gpu| check_rows::<E, P>(gpu, shape));
        suite.gpu(&name("as the CPU, oldest PTX"), move |_| {
            check_rows::<E, P>(oldest()?, shape)
        });
        for tile in [Tile::One, Tile::Several] {
            let name = |what: &str| name(&format!("{what}, {tile:?},"));
            suite.gpu(&name("dw and db as the CPU"), move |gpu| {
                check_columns::<E, P>(gpu, shape, tile)
            });
            suite.gpu(&name("dw and db as the CPU, oldest PTX"), move |_| {
                check_columns::<E, P>(oldest()?, shape, tile)
            });
        }
        suite.gpu(&name("again"), move |gpu| check_again::<E, P>(gpu, shape));
    });
    each_pair!(E, P => for shape @ [rows, columns] in LATE {
        let types = Storage { x: E::DTYPE, params: P::DTYPE };
        let name = format!("as the CPU, late blocks, {types} {rows}x{columns}");
        suite.gpu(&name, move |gpu| check_late::<E, P>(gpu, shape));
    });
    let shapes = [[257, 1000], [100, 33], [64, 4097], [11, 20000]];
    each_pair!(E, P => for shape @ [rows, columns] in shapes {
        let types = Storage { x: E::DTYPE, params: P::DTYPE };
        let name = format!("threads {types} {rows}x{columns}");
        suite.cpu(&name, move |_| check_threads::<E, P>(shape));
    });
    suite.run()
}
