//! What a row gives depends on the row: y, its statistics and dx have the same bits however many
//! rows there are beside it, wherever it lies among them and in memory, and however the work is
//! shared out.

use std::process::ExitCode;

use common::{Inputs, Outcome, Outputs, Suite, assert_close, each_pair, layer, run};
use ferronorm::plan::{Storage, longest_held};
use ferronorm::{Device, Dtype, Mode, Options, Reduction, Tensor, Tile};
use strided::{Place, run_at};

mod common;
#[path = "common/strided.rs"]
mod strided;

const ROWS: [usize; 7] = [1, 2, 17, 33, 128, 257, 1024];

/// The ways to give rows to blocks, and blocks to groups.
fn ways() -> [Options; 10] {
    let default = Options::default();
    let (seed, several) = (Mode::Seed, Tile::Several);
    let locks = Reduction::GroupLocks;
    [
        default,
        Options { mode: seed, ..default },
        Options { tile: Tile::One, ..default },
        Options { tile: several, ..default },
        Options { blocks: Some(1), ..default },
        Options { reduction: locks, ..default },
        Options { mode: seed, tile: several, reduction: Reduction::Deterministic, ..default },
        Options { blocks: Some(3), tile: several, reduction: locks, ..default },
        Options { blocks: Some(7), groups: Some(3), tile: Tile::One, ..default },
        Options { blocks: Some(1000), reduction: Reduction::Deterministic, ..default },
    ]
}

/// Every result of rows `rows`.
fn rows_of<E: Dtype, P: Dtype>(
    outputs: &Outputs<E, P>,
    columns: usize,
    rows: std::ops::Range<usize>,
) -> Outputs<E, P> {
    let elements = rows.start * columns..rows.end * columns;
    Outputs {
        y: outputs.y[elements.clone()].to_vec(),
        sum: None,
        stats: outputs.stats[rows].to_vec(),
        dx: outputs.dx[elements].to_vec(),
        dw: None,
        db: None,
    }
}

/// A row, and what it gives alone.
struct Anchor<E: Dtype, P: Dtype> {
    inputs: Inputs<E, P>,
    right: Outputs<E, P>,
}

impl<E: Dtype, P: Dtype> Anchor<E, P> {
    fn new(device: &Device, columns: usize) -> ferronorm::Result<Self> {
        let inputs = Inputs::seed(1, columns, 5);
        let right = run(&layer(device, Options::default()), &inputs)?;
        assert_close("the anchor alone", &inputs, &right, &inputs.right());
        Ok(Anchor { inputs, right })
    }

    /// It is the first, the middle and the last.
    fn places(rows: usize) -> [usize; 3] {
        [0, rows / 2, rows - 1]
    }

    /// `rows` rows: others of several sizes, and at its places this one.
    fn among(&self, rows: usize) -> Inputs<E, P> {
        let columns = self.inputs.shape[1];
        let mut inputs = Inputs::<E, P>::seed(rows, columns, 6);
        (inputs.w, inputs.b) = (self.inputs.w.clone(), self.inputs.b.clone());
        for (row, x) in inputs.x.chunks_mut(columns).enumerate() {
            let scale = [1.0, 300.0, 0.01][row % 3];
            x.iter_mut().for_each(|x| *x = E::from_f64(scale * x.to_f64()));
        }
        for place in Self::places(rows) {
            let range = place * columns..(place + 1) * columns;
            inputs.x[range.clone()].copy_from_slice(&self.inputs.x);
            inputs.dy[range].copy_from_slice(&self.inputs.dy);
        }
        inputs
    }

    fn assert_found(&self, found: &Outputs<E, P>, what: &str) {
        let rows = found.stats.len();
        for place in Self::places(rows) {
            let row = rows_of(found, self.inputs.shape[1], place..place + 1);
            row.assert_same_rows(&self.right, &format!("row {place} of {rows}, {what}"));
        }
    }
}

/// pytorch/pytorch#149301: the anchor among others, in every way.
fn check_ways<E: Dtype, P: Dtype>(device: &Device, columns: usize, rows: &[usize]) -> Outcome {
    let anchor = Anchor::<E, P>::new(device, columns)?;
    for rows in rows {
        let inputs = anchor.among(*rows);
        for options in ways() {
            let found = run(&layer(device, options), &inputs)?;
            anchor.assert_found(&found, &format!("{options:?}"));
        }
    }
    Ok(())
}

/// Views at offsets and strides of whole packs, of none, and of some of both; and all rows one.
fn check_views<E: Dtype, P: Dtype>(device: &Device, columns: usize) -> Outcome {
    let anchor = Anchor::<E, P>::new(device, columns)?;
    let lanes = E::DTYPE.lanes();
    let packs = Place { before: 3 * lanes, between: 5 * lanes };
    let odd = Place { before: 1, between: 3 };
    let even = Place { before: lanes, between: lanes / 2 };
    let whole = Place::WHOLE;
    for rows in [1, 2, 17] {
        let inputs = anchor.among(rows);
        for places in
            [[packs; 4], [odd; 4], [even; 4], [whole, packs, odd, even], [odd, whole, packs, whole]]
        {
            for tile in [Tile::Auto, Tile::One, Tile::Several] {
                let options = Options { tile, ..Options::default() };
                let found = run_at(&layer(device, options), &inputs, places)?;
                anchor.assert_found(&found, &format!("{places:?}, {tile:?}"));
            }
        }
    }
    check_expanded(device, &anchor, 33)
}

/// `rows` times the anchor itself, by a stride of 0.
fn check_expanded<E: Dtype, P: Dtype>(
    device: &Device,
    anchor: &Anchor<E, P>,
    rows: usize,
) -> Outcome {
    let Inputs { shape: [_, columns], x, w, b, dy, norm, .. } = &anchor.inputs;
    let tensor = |data: &Vec<E>| Tensor::from_slice(device, data, [*columns]);
    let vector = |data: &Vec<P>| Tensor::from_slice(device, data, [*columns]);
    let (x, dy) = (tensor(x)?, tensor(dy)?);
    let (w, b) = (w.as_ref().map(vector).transpose()?, b.as_ref().map(vector).transpose()?);
    let shape = [rows, *columns];
    let expanded = |tensor| ferronorm::View::from(tensor).strided(0, &shape, &[0, 1]);
    let layer = layer(device, Options::default());
    let inputs = ferronorm::Inputs {
        x: expanded(&x)?,
        residual: None,
        w: w.as_ref(),
        b: b.as_ref(),
        eps: norm.eps,
    };
    let mut y = Tensor::zeros(device, shape)?;
    let mut statistics = ferronorm::Statistics::new(device, rows)?;
    let outputs = ferronorm::Outputs { y: y.view_mut(), sum: None, statistics: &mut statistics };
    layer.forward_into(&inputs, outputs)?;
    let stats = statistics.to_vec()?;
    let saved = ferronorm::Saved::new(inputs, statistics);
    let dx = layer.backward(&saved, expanded(&dy)?)?.dx.to_vec()?;
    let found = Outputs { y: y.to_vec()?, sum: None, stats, dx, dw: None, db: None };
    for row in 0..rows {
        let row_found = rows_of::<E, P>(&found, *columns, row..row + 1);
        row_found.assert_same_rows(&anchor.right, &format!("row {row}, expanded"));
    }
    Ok(())
}

/// A batch without its last row gives what the batch gives, without its last row.
fn check_shorter<E: Dtype, P: Dtype>(device: &Device, columns: usize, rows: &[usize]) -> Outcome {
    for rows in rows {
        let all = Inputs::<E, P>::seed(*rows, columns, 7);
        let rest = rows - 1;
        let elements = rest * columns;
        let shorter = Inputs {
            shape: [rest, columns],
            x: all.x[..elements].to_vec(),
            dy: all.dy[..elements].to_vec(),
            ..all.clone()
        };
        for options in &ways()[..4] {
            let layer = layer(device, *options);
            let right = rows_of(&run(&layer, &all)?, columns, 0..rest);
            let what = format!("{rest} of {rows} rows, {options:?}");
            run(&layer, &shorter)?.assert_same_rows(&right, &what);
        }
    }
    Ok(())
}

/// A CPU gives its bits whatever its number of threads.
fn check_threads<E: Dtype, P: Dtype>(columns: usize) -> Outcome {
    let anchor = Anchor::<E, P>::new(&Device::cpu_with_threads(1), columns)?;
    let inputs = anchor.among(33);
    for threads in [1, 2, 3, 16] {
        let device = Device::cpu_with_threads(threads);
        for options in &ways()[..6] {
            let found = run(&layer(&device, *options), &inputs)?;
            anchor.assert_found(&found, &format!("{threads} threads, {options:?}"));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_pair!(E, P => {
        let split = longest_held(E::DTYPE) + 3;
        let storage = Storage { x: E::DTYPE, params: P::DTYPE };
        // How many of `ROWS` a CPU is given, and the GPU.
        for (columns, cpu, gpu) in
            [(33, 7, 7), (769, 7, 7), (1024, 6, 7), (4096, 4, 7), (8192, 3, 7), (split, 3, 6)]
        {
            let name = |what: &str| format!("{what}, {storage}, rows of {columns}");
            suite.cpu(&name("any way"), move |device| {
                check_ways::<E, P>(device, columns, &ROWS[..cpu])
            });
            suite.gpu(&name("any way"), move |device| {
                check_ways::<E, P>(device, columns, &ROWS[..gpu])
            });
            suite.both(&name("views"), move |device| check_views::<E, P>(device, columns));
            suite.both(&name("a shorter batch"), move |device| {
                check_shorter::<E, P>(device, columns, &[2, 5, 18])
            });
        }
        for columns in [100, 1024, split] {
            let name = format!("threads, {storage}, rows of {columns}");
            suite.cpu(&name, move |_| check_threads::<E, P>(columns));
        }
    });
    suite.run()
}
