//! The group locks, held to exact integers.
//!
//! Rows are half +1 and half -1, so that mean = 0 and var = 1 exactly, and with eps = 0 x_hat = x.
//! With dy = 1, db is M and dw a sum of +1 and -1: integers that f32 holds exactly in whatever
//! order blocks arrive. A sum that is lost, doubled, or read too early is off by a whole number.

use std::process::ExitCode;

use common::{Outcome, Suite, assert_same, layer, nans, poisoned};
use ferronorm::{Device, Gradients, LayerNorm, Mode, Options, Reduction, Result, Tensor};

mod common;

#[derive(Clone, Copy)]
struct Case {
    shape: [usize; 2],
    options: Options,
    runs: usize,
}

/// Inputs on a device, and what must come of them.
struct Job {
    shape: [usize; 2],
    x: Tensor<f32>,
    w: Tensor<f32>,
    b: Tensor<f32>,
    dy: Tensor<f32>,
    dw: Vec<f32>,
}

impl Job {
    fn new(device: &Device, shape: [usize; 2]) -> Result<Job> {
        let [rows, columns] = shape;
        // Row r is +1 from column 7r on, around the end, for half a row: each column has another
        // share of +1, and the mean of each row is 0.
        let sign = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            if (column + 7 * row) % columns < columns / 2 { 1.0 } else { -1.0 }
        };
        let x: Vec<f32> = (0..rows * columns).map(sign).collect();
        let dw = (0..columns).map(|c| x.iter().skip(c).step_by(columns).sum()).collect();
        Ok(Job {
            shape,
            x: Tensor::from_slice(device, &x, shape)?,
            w: Tensor::from_slice(device, &vec![1.0; columns], [columns])?,
            b: Tensor::zeros(device, [columns])?,
            dy: Tensor::from_slice(device, &vec![1.0; rows * columns], shape)?,
            dw,
        })
    }

    /// Forward, then `runs` times backward, each checked.
    fn run(&self, layer: &LayerNorm, runs: usize) -> Result<()> {
        let [rows, columns] = self.shape;
        let device = layer.device();
        let (y, saved) = layer.forward(&self.x, &self.w, &self.b, 0.0)?;
        assert_same("y = x_hat = x", &y.to_vec()?, &self.x.to_vec()?);
        let mut gradients = Gradients {
            dx: poisoned(device, self.shape)?,
            dw: Some(poisoned(device, [columns])?),
            db: Some(poisoned(device, [columns])?),
        };
        let db = vec![rows as f32; columns];
        for run in 0..runs {
            for gradient in [&mut gradients.dw, &mut gradients.db].into_iter().flatten() {
                gradient.copy_from_slice(&nans(columns))?;
            }
            layer.backward_into(&saved, &self.dy, &mut gradients)?;
            for (name, found, right) in
                [("dw", &gradients.dw, &self.dw), ("db", &gradients.db, &db)]
            {
                let found = found.as_ref().expect("it was asked for").to_vec()?;
                assert_same(&format!("run {run}: {name}"), &found, right);
            }
        }
        // w * dy is the same all over a row, and so its own mean; and x_hat's mean is 0.
        assert_same("dx", &gradients.dx.to_vec()?, &vec![0.0; rows * columns]);
        Ok(())
    }
}

fn check(device: &Device, Case { shape, options, runs }: Case) -> Outcome {
    Ok(Job::new(device, shape)?.run(&layer(device, options), runs)?)
}

/// Shapes take turns on one layer, and so on one scratch: its locks and flags lie elsewhere for
/// each, and a word that a shape leaves set would mislead the next.
fn check_turns(device: &Device, options: Options) -> Outcome {
    let layer = layer(device, options);
    let shapes = [[65, 32], [300, 256], [3, 512], [1, 2], [1000, 64], [3, 16400], [257, 98]];
    let jobs = shapes.iter().map(|shape| Job::new(device, *shape)).collect::<Result<Vec<_>>>()?;
    for _ in 0..5 {
        for job in jobs.iter().chain(jobs.iter().rev()) {
            job.run(&layer, 2)?;
        }
    }
    Ok(())
}

/// Threads share one layer.
fn check_shared(device: &Device, options: Options) -> Outcome {
    let layer = layer(device, options);
    let jobs = [[200, 64], [33, 256], [500, 32]].map(|shape| Job::new(device, shape));
    std::thread::scope(|scope| {
        let run = |job: Result<Job>| {
            let layer = &layer;
            scope.spawn(move || job?.run(layer, 20))
        };
        let threads = jobs.map(run);
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => Ok(result?),
            Err(_) => Err("a thread panicked".into()),
        })
    })
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    for mode in [Mode::Persistent, Mode::Seed] {
        let options = Options { mode, ..Options::default() };
        for groups in [None, Some(1), Some(2), Some(5)] {
            let options = Options { groups, ..options };
            let what = match groups {
                Some(groups) => format!("{mode:?}, groups {groups}"),
                None => format!("{mode:?}"),
            };
            for shape @ [rows, columns] in [[300, 64], [257, 510]] {
                let case = Case { shape, options, runs: 100 };
                suite.both(&format!("{what}, {rows}x{columns}"), move |d| check(d, case));
            }
            // Longer than a block holds: each chunk has locks of its own.
            let case = Case { shape: [40, 16400], options, runs: 5 };
            suite.both(&format!("{what}, 40x16400"), move |d| check(d, case));
            let name = format!("{what}, shapes in turn");
            suite.both(&name, move |device| check_turns(device, options));
            let name = format!("{what}, threads at once");
            suite.both(&name, move |device| check_shared(device, options));
        }
        let case = Case { shape: [2048, 512], options, runs: 100 };
        suite.cpu(&format!("{mode:?}, 2048x512"), move |device| check(device, case));
        // Where the seed's lock, on a GPU, gives a wrong sum in most runs.
        let case = Case { shape: [8192, 2048], options, runs: 100 };
        suite.gpu(&format!("{mode:?}, 8192x2048"), move |device| check(device, case));

        // Groups that no block comes to must not be summed.
        let few_rows = Options { groups: Some(16), ..options };
        let case = Case { shape: [5, 64], options: few_rows, runs: 100 };
        suite.both(&format!("{mode:?}, 5 rows, 16 groups"), move |device| check(device, case));
        let case = Case { shape: [5, 16400], options: few_rows, runs: 5 };
        let name = format!("{mode:?}, 5 split rows, 16 groups");
        suite.both(&name, move |device| check(device, case));
    }
    for reduction in [Reduction::GroupLocks, Reduction::Deterministic] {
        let options = Options { reduction, ..Options::default() };
        let case = Case { shape: [300, 64], options, runs: 100 };
        suite.both(&format!("{reduction:?}, 300x64"), move |device| check(device, case));
        let name = format!("{reduction:?}, shapes in turn");
        suite.both(&name, move |device| check_turns(device, options));
    }
    let few_blocks = Options { blocks: Some(3), groups: Some(8), ..Options::default() };
    let case = Case { shape: [100, 64], options: few_blocks, runs: 100 };
    suite.both("3 blocks, 8 groups", move |device| check(device, case));
    suite.run()
}
