//! Every result against LayerNorm in f64, on the seed chapter's data: each storage type, rows that
//! fill the last pack and that do not, every number of packs a thread may hold, fewer rows than
//! groups and more, and every way to give rows to blocks.

use std::process::ExitCode;

use common::{Inputs, Outcome, Suite, assert_close, each_dtype, each_pair, layer, run};
use ferronorm::plan::Storage;
use ferronorm::{Device, Dtype, Mode, Options, Tile};

mod common;

const COLUMNS: [usize; 19] = [
    1, 2, 31, 33, 768, 769, 1000, 1023, 1025, 1535, 2501, 3584, 4096, 4097, 8192, 8704, 9215,
    15872, 16384,
];

/// The rows to try with rows of `columns`: around the seed's number of groups, and the seed's own
/// 1151 where that is not too many for a CPU.
fn rows(columns: usize) -> Vec<usize> {
    let groups = match columns {
        0..=1024 => 256,
        1025..=4096 => 128,
        4097..=8192 => 96,
        _ => 64,
    };
    match columns {
        0..=1025 => vec![1, 2, groups - 1, groups, groups + 1, 1151],
        1026..=8192 => vec![1, 2, groups - 1, groups, groups + 1],
        _ => vec![1, 2, groups + 1],
    }
}

/// The ways to give rows to blocks.
fn ways() -> [(&'static str, Options); 4] {
    let few = Options { blocks: Some(7), groups: Some(3), ..Options::default() };
    [
        ("persistent", Options::default()),
        ("seed", Options { mode: Mode::Seed, ..Options::default() }),
        ("7 blocks, 3 groups, row by row", Options { tile: Tile::One, ..few }),
        ("7 blocks, 3 groups, several rows", Options { tile: Tile::Several, ..few }),
    ]
}

fn check<E: Dtype, P: Dtype>(device: &Device, rows: usize, columns: usize) -> Outcome {
    let inputs = Inputs::<E, P>::seed(rows, columns, (rows * columns) as u64);
    let right = inputs.right();
    for (way, options) in ways() {
        let found = run(&layer(device, options), &inputs).map_err(|e| format!("{way}: {e}"))?;
        assert_close(way, &inputs, &found, &right);
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_pair!(E, P => for columns in COLUMNS {
        let types = Storage { x: E::DTYPE, params: P::DTYPE };
        let rows = if E::DTYPE == P::DTYPE { rows(columns) } else { vec![17] };
        for rows in rows {
            let name = format!("{types} {rows}x{columns}");
            suite.both(&name, move |device| check::<E, P>(device, rows, columns));
        }
    });
    // The seed's own shape, in its own type, and on the GPU in each.
    suite.cpu("f16 1151x8192", |device| check::<half::f16, half::f16>(device, 1151, 8192));
    each_dtype!(E => {
        let name = format!("{} 1151x8192", E::DTYPE);
        suite.gpu(&name, |device| check::<E, E>(device, 1151, 8192));
    });
    suite.run()
}
