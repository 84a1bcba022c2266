//! More elements than 2^31 and 2^32, rows as far apart, and more rows than 2^16, 2^20 and 2^23. The
//! largest need a GPU with room for them: 35 GB. Each check is run on small shapes too, where a CPU
//! can follow.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use common::{Inputs, Outcome, Outputs, Suite, assert_close, assert_near, assert_same, layer, run};
use ferronorm::{Device, Dtype, Mode, Options, Tensor};
use half::{bf16, f16};

mod common;
#[path = "large/cycle.rs"]
mod cycle;
#[path = "large/strides.rs"]
mod strides;

/// Adds a check that has the GPU's memory to itself: one at a time.
fn add_large(suite: &mut Suite, name: &str, check: impl Fn(&Device) -> Outcome + Send + 'static) {
    static TURN: Mutex<()> = Mutex::new(());
    suite.gpu(name, move |device| {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        check(device)
    });
}

const MARKED: usize = 16;

/// Zeros, but for 16 rows from each of the rows `marks` on, the last of which end x. dy is 1, by a
/// stride of 0, so that db is M. Looks at the marked rows, and at those before them and in between.
fn check_marks<E: Dtype>(device: &Device, shape: [usize; 2], marks: &[usize]) -> Outcome {
    let [rows, columns] = shape;
    let mut marked = Inputs::<E, f32>::seed(MARKED, columns, 60);
    marked.dy.fill(E::from_f64(1.0));
    let mut zeros = marked.clone();
    (zeros.shape, zeros.dy) = ([1, columns], marked.dy[..columns].to_vec());
    zeros.x = vec![E::default(); columns];

    let mut x = Tensor::zeros(device, shape)?;
    for mark in marks {
        x.write(mark * columns, &marked.x)?;
    }
    let vector = |data: &Option<Vec<f32>>| {
        data.as_ref().map(|data| Tensor::from_slice(device, data, [columns])).transpose()
    };
    let (w, b) = (vector(&marked.w)?, vector(&marked.b)?);
    let layer = layer(device, Options::default());
    let (y, saved) = layer.forward(&x, w.as_ref(), b.as_ref(), marked.norm.eps)?;
    let places: Vec<[usize; 2]> =
        marks.iter().flat_map(|mark| [[*mark, MARKED], [mark - 1, 1]]).collect();
    let places = [&[[0, 1], [marks[0] / 2, 1]], &places[..]].concat();
    let read = |tensor: &Tensor<E>, [row, count]: [usize; 2]| {
        tensor.read(row * columns..(row + count) * columns)
    };
    let read_all = |tensor: &Tensor<E>| -> ferronorm::Result<Vec<Vec<E>>> {
        places.iter().map(|place| read(tensor, *place)).collect()
    };
    let y = {
        // Dropped here, to leave room for dx.
        let y = y;
        read_all(&y)?
    };
    let one = Tensor::from_slice(device, &zeros.dy, [columns])?;
    let gradients = layer.backward(&saved, one.view().strided(0, &shape, &[0, 1])?)?;
    let dx = read_all(&gradients.dx)?;
    let stats = saved.statistics().to_vec()?;
    for (([row, count], y), dx) in places.into_iter().zip(y).zip(dx) {
        let inputs = if count == 1 { &zeros } else { &marked };
        let stats = stats[row..row + count].to_vec();
        let found = Outputs { y, sum: None, stats, dx, dw: None, db: None };
        assert_close(&format!("row {row} of {rows}"), inputs, &found, &inputs.right());
    }

    let [dw, db] = [gradients.dw, gradients.db].map(|gradient| gradient.unwrap().to_vec());
    assert_same("db", &db?, &vec![rows as f32; columns]);
    let dw: Vec<f64> = dw?.into_iter().map(f64::from).collect();
    let right = marked.right().dw.into_iter().map(|dw| dw * marks.len() as f64);
    // Sums of 16 numbers around 1.
    assert_near("dw", &dw, &right.collect::<Vec<_>>(), 2e-5);
    Ok(())
}

/// NVIDIA/apex#411: right for 65535 rows, wrong for 65536. No two rows are the same.
fn check_many<E: Dtype>(device: &Device, rows: usize, allowed: f64) -> Outcome {
    let mut inputs = Inputs::<E>::seed(rows, 8, 10);
    for (row, x) in inputs.x.chunks_mut(8).enumerate() {
        x[row % 8] = E::from_f64(x[row % 8].to_f64() + row as f64 / 1024.0);
    }
    let right = inputs.right();
    for mode in [Mode::Persistent, Mode::Seed] {
        let found = run(&layer(device, Options { mode, ..Options::default() }), &inputs)?;
        assert_close(&format!("{mode:?}"), &inputs, &found, &right);
        // One row that is wrong is lost in a norm over all; not in a look at each.
        assert_near(&format!("{mode:?}: y"), &found.answer().y, &right.y, allowed);
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    suite.both("few rows with marks", |device| {
        check_marks::<bf16>(device, [216, 256], &[100, 200])?;
        check_marks::<f16>(device, [1016, 256], &[1000])
    });
    let (half, all) = (1 << 23, 1 << 24);
    add_large(&mut suite, "2^31 elements and more, bf16", move |device| {
        check_marks::<bf16>(device, [half + MARKED, 256], &[half])
    });
    add_large(&mut suite, "2^31 elements and more, f16", move |device| {
        check_marks::<f16>(device, [half + MARKED, 256], &[half])
    });
    add_large(&mut suite, "2^32 elements and more, bf16", move |device| {
        check_marks::<bf16>(device, [all + MARKED, 256], &[half - 8, all])
    });

    for rows in [65535, 65536, 65537] {
        let name = |dtype| format!("{rows} rows of 8, {dtype}");
        suite.both(&name("f32"), move |device| check_many::<f32>(device, rows, 1e-5));
        // y is below 4, where half of f16's last digit is 2^-10.
        suite.both(&name("f16"), move |device| check_many::<f16>(device, rows, 1.01 / 1024.0));
    }
    suite.both("2^20 rows of 8, f32", |device| cycle::check::<f32>(device, [1 << 20, 8]));
    suite.both("100003 rows of 3, bf16", |device| cycle::check::<bf16>(device, [100_003, 3]));
    add_large(&mut suite, "2^20 rows of 32, f16", |device| {
        cycle::check::<f16>(device, [1 << 20, 32])
    });
    add_large(&mut suite, "2^23 + 1 rows of 3, bf16", |device| {
        cycle::check::<bf16>(device, [(1 << 23) + 1, 3])
    });

    for (columns, stride) in [(128, 1000), (128, 1001), (16_385, 20_000)] {
        let name = format!("rows of {columns}, {stride} apart");
        suite.both(&name, move |device| strides::check(device, columns, stride));
    }
    for (columns, stride) in
        [(128, (1 << 31) + 8), (128, (1 << 31) + 9), (16_385, (1 << 31) + 8), (128, (1 << 32) + 8)]
    {
        let name = format!("rows of {columns}, {stride} apart");
        add_large(&mut suite, &name, move |device| strides::check(device, columns, stride));
    }
    suite.both("a row of 20001", |device| strides::check_spikes(device, 20_001));
    add_large(&mut suite, "rows of more than 2^30", |device| {
        strides::check_spikes(device, (1 << 30) + 24)
    });
    suite.run()
}
