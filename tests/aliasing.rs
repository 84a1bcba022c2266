//! In place: what a kernel writes may be what it reads, with the bits of a run that has memory for
//! each.
//!
//! Tensors cannot be asked for it: an output is borrowed for writing and an input for reading, and
//! the borrow checker refuses one tensor as both. Callers of the raw layer can. So this is below
//! the safe API: the raw layer on a GPU, and on the CPU, where there is none, the kernels'
//! functions.

use std::num::NonZeroU32;
use std::process::ExitCode;

use common::{Inputs, Outcome, Suite, each_pair, layer, run};
use ferronorm::args::{BackwardArgs, ColumnsArgs, Extent, ForwardArgs, Partials, Rows, RowsMut};
use ferronorm::plan::{self, Storage, Want, Work};
use ferronorm::{Device, Dtype, Options, Tile};
use in_place::{Layout, Machine, Matrix, Memory, bytes};
use libtest_mimic::Failed;

mod common;

#[path = "common/in_place.rs"]
mod in_place;

/// Where a result goes: to memory of its own, or over an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Over {
    Nothing,
    X,
    Residual,
    Dy,
    Dsum,
    /// What is added to dx: it accumulates in place.
    Before,
}

/// The inputs, and what dx is added to.
struct Job<'a, E, P> {
    machine: &'a Machine,
    inputs: Inputs<E, P>,
    before: Vec<E>,
    options: Options,
}

impl<E: Dtype, P: Dtype> Job<'_, E, P> {
    /// All matrices lie alike, on 16-byte boundaries where N allows it and off them elsewhere.
    fn matrix(&self, data: Option<&[E]>) -> Result<Matrix, Failed> {
        let shape @ [_, columns] = self.inputs.shape;
        let lanes = E::DTYPE.lanes();
        let offset = if columns.is_multiple_of(lanes) { lanes } else { 1 };
        let layout = Layout { shape, offset, stride: columns + 2 * offset };
        Matrix::new(self.machine, E::DTYPE.size(), layout, data.map(bytes))
    }

    fn vector(&self, data: Option<&Vec<P>>) -> Result<Matrix, Failed> {
        let layout = Layout::vector(self.inputs.shape[1]);
        Matrix::new(self.machine, P::DTYPE.size(), layout, data.map(|data| bytes(data)))
    }

    fn statistics(&self, data: Option<&[u8]>) -> Result<Matrix, Failed> {
        let layout = Layout::vector(4 * self.inputs.shape[0]);
        Matrix::new(self.machine, E::DTYPE.real().size(), layout, data)
    }

    fn work(&self, plain: bool) -> Work {
        let ([rows, columns], storage) =
            (self.inputs.shape, Storage { x: E::DTYPE, params: P::DTYPE });
        let aligned = columns.is_multiple_of(E::DTYPE.lanes());
        Work { rows, columns, storage, aligned, plain }
    }

    /// y, the statistics, and the sum if there is to be one.
    fn forward(&self, y: Over, sum: Option<Over>) -> Result<Vec<Vec<u8>>, Failed> {
        let (inputs, [rows, columns]) = (&self.inputs, self.inputs.shape);
        let x = self.matrix(Some(&inputs.x))?;
        let residual = self.matrix(inputs.residual.as_deref())?;
        let (own_y, own_sum, stats) =
            (self.matrix(None)?, self.matrix(None)?, self.statistics(None)?);
        let (w, b) = (self.vector(inputs.w.as_ref())?, self.vector(inputs.b.as_ref())?);
        let place = |over: Over, own| match over {
            Over::X => &x,
            Over::Residual => &residual,
            _ => own,
        };
        let (y_at, sum_at) = (place(y, &own_y), sum.map(|over| place(over, &own_sum)));

        let plan = plan::forward(self.machine.info(), self.work(sum.is_none()), self.options)?;
        let parts = Memory::new(self.machine, &vec![0xFF; plan.parts])?;
        let args = ForwardArgs {
            extent: Extent::new(rows, columns),
            eps: inputs.norm.eps.into(),
            weight_offset: 0.0.into(),
            rms: false,
            x: x.rows(),
            residual: sum_at.map_or(Rows::NONE, |_| residual.rows()),
            w: w.address(),
            b: b.address(),
            sum: sum_at.map_or(RowsMut::NONE, Matrix::rows_mut),
            y: y_at.rows_mut(),
            stats: stats.address(),
            parts: parts.address(),
        };
        // SAFETY: all memory is this machine's and of the extent given; y and the sum overlap
        // nothing but, being the same, x or the residual.
        unsafe { self.machine.forward(&plan, &args)? };

        let written = |over| y == over || sum == Some(over);
        self.assert_kept("x", &x, written(Over::X), &inputs.x)?;
        let data = inputs.residual.as_deref().unwrap_or_default();
        self.assert_kept("residual", &residual, written(Over::Residual), data)?;
        let mut results = vec![y_at.read("y")?, stats.read("statistics")?];
        results.extend(sum_at.map(|sum| sum.read("sum")).transpose()?);
        Ok(results)
    }

    /// dx, dw and db, of x as it is. With `adds`, dsum and `before` are added to dx.
    fn backward(&self, stats: &[u8], dx: Over, adds: bool) -> Result<Vec<Vec<u8>>, Failed> {
        let (inputs, [rows, columns]) = (&self.inputs, self.inputs.shape);
        let (x, dy) = (self.matrix(Some(&inputs.x))?, self.matrix(Some(&inputs.dy))?);
        let dsum = self.matrix(inputs.dsum.as_deref())?;
        let (before, own) = (self.matrix(Some(&self.before))?, self.matrix(None)?);
        let (w, dw, db) = (self.vector(inputs.w.as_ref())?, self.vector(None)?, self.vector(None)?);
        let stats = self.statistics(Some(stats))?;
        let dx_at = match dx {
            Over::X => &x,
            Over::Dy => &dy,
            Over::Dsum => &dsum,
            Over::Before => &before,
            _ => &own,
        };

        let plan = plan::backward(self.machine.info(), self.work(!adds), self.options, Want::ALL)?;
        let parts = Memory::new(self.machine, &vec![0xFF; plan.parts])?;
        let sums = Memory::new(self.machine, &vec![0xFF; plan.sums()])?;
        let locks = Memory::new(self.machine, &vec![0; 4 * plan.locks()])?;
        let partials = Partials {
            sums: sums.address(),
            locks: locks.address().cast(),
            groups: NonZeroU32::new(plan.groups).ok_or("no group")?,
            packs: plan.packs,
        };
        let args = BackwardArgs {
            extent: Extent::new(rows, columns),
            weight_offset: 0.0.into(),
            rms: false,
            want_dw: true,
            want_db: true,
            x: x.rows(),
            dy: dy.rows(),
            w: w.address(),
            stats: stats.address(),
            add: if adds { [dsum.rows(), before.rows()] } else { [Rows::NONE; 2] },
            dx: dx_at.rows_mut(),
            partials,
            parts: parts.address(),
        };
        let reduction = ColumnsArgs {
            columns,
            chunks: plan.chunks.get(),
            lanes: E::DTYPE.lanes(),
            used_groups: plan.used_groups,
            add_dw: false,
            add_db: false,
            partials,
            dw: dw.address(),
            db: db.address(),
        };
        // SAFETY: as above: dx overlaps nothing but, being the same, an argument; the locks are 0.
        unsafe { self.machine.backward(&plan, &args, &reduction)? };

        self.assert_kept("x", &x, dx == Over::X, &inputs.x)?;
        self.assert_kept("dy", &dy, dx == Over::Dy, &inputs.dy)?;
        let data = inputs.dsum.as_deref().unwrap_or_default();
        self.assert_kept("dsum", &dsum, dx == Over::Dsum, data)?;
        self.assert_kept("before", &before, dx == Over::Before, &self.before)?;
        Ok(vec![dx_at.read("dx")?, dw.read("dw")?, db.read("db")?])
    }

    /// An argument that nothing was to be written over is as it was.
    fn assert_kept(&self, what: &str, matrix: &Matrix, written: bool, data: &[E]) -> Outcome {
        assert!(written || matrix.read(what)? == bytes(data), "{what} has changed");
        Ok(())
    }
}

fn check<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2], options: Options) -> Outcome {
    use Over::*;
    let mut inputs = Inputs::<E, P>::seed(shape[0], shape[1], 51);
    let more = Inputs::<E, P>::seed(shape[0], shape[1], 52);
    (inputs.residual, inputs.dsum) = (Some(more.x), Some(more.dy));
    let machine = &Machine::like(device)?;
    let before = inputs.x.iter().rev().copied().collect();
    let job = Job { machine, inputs, before, options };

    let right = job.forward(Nothing, None)?;
    assert!(job.forward(X, None)? == right, "y over x");
    let stats = &right[1];

    let right = job.forward(Nothing, Some(Nothing))?;
    let safe = run(&layer(device, options), &job.inputs)?;
    assert!(right[0] == bytes(&safe.y), "y, not in place, is that of the safe layer");
    let places = [(Nothing, Residual), (Nothing, X), (X, Nothing), (Residual, Nothing)];
    for (y, sum) in places.into_iter().chain([(X, Residual), (Residual, X)]) {
        assert!(job.forward(y, Some(sum))? == right, "y over {y:?}, sum over {sum:?}");
    }

    for adds in [false, true] {
        let right = job.backward(stats, Nothing, adds)?;
        let places: &[Over] = if adds { &[X, Dy, Dsum, Before] } else { &[X, Dy] };
        for dx in places {
            let found = job.backward(stats, *dx, adds)?;
            assert!(found == right, "dx over {dx:?}, {}", if adds { "added" } else { "alone" });
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    each_pair!(E, P => {
        let storage = Storage { x: E::DTYPE, params: P::DTYPE };
        let longest = plan::longest_held(E::DTYPE);
        // Through a ring, where there is one; in whole packs; by a block a row; in packs with gaps; as
        // long as a block holds; and split, off and on the boundaries.
        for (shape @ [rows, columns], tile) in [
            ([300, 1024], Tile::Several),
            ([40, 1024], Tile::One),
            ([40, 1152], Tile::Auto),
            ([40, 1023], Tile::One),
            ([9, longest], Tile::One),
            ([3, longest + 5], Tile::One),
            ([2, 2 * longest], Tile::One),
        ] {
            let options = Options { tile, ..Options::default() };
            let name = format!("{storage} {rows}x{columns}, {tile:?}");
            suite.both(&name, move |device| check::<E, P>(device, shape, options));
        }
    });
    suite.run()
}
