//! The same bits: as ferronorm's own tensors, on CUDA as on the CPU, and from many threads at once.

use std::thread;

use candle_core::{DType, Device, Result, Tensor};
use ferronorm_candle::ops;

mod common;

use common::{Outcome, PAIRS, Suite, flat, numbers, variable};

const EPS: f64 = 1e-5;

/// y, dx, dw and db. Numbers of 16 and 32 bits keep their bits in f64.
fn results(device: &Device, shape: [usize; 2], types: (DType, DType)) -> Result<[Vec<f64>; 4]> {
    let x = variable(1, &shape, types.0, device)?;
    let w = variable(2, &shape[1..], types.1, device)?;
    let b = variable(3, &shape[1..], types.1, device)?;
    let dy = numbers(4, &shape, types.0, device)?;
    let y = ops::layer_norm(&x, &w, &b, EPS)?;
    let gradients = (&y * dy)?.sum_all()?.backward()?;
    let gradient = |of: &Tensor| flat(gradients.get(of).expect("a gradient"));
    Ok([flat(&y)?, gradient(&x)?, gradient(&w)?, gradient(&b)?])
}

/// ferronorm's own layer, on the CPU.
fn own(_: &Device) -> Outcome {
    let shape = [33, 200];
    let found = results(&Device::Cpu, shape, (DType::F64, DType::F64))?;
    let device = ferronorm::Device::cpu();
    let tensor = |which, shape: &[usize]| -> std::result::Result<_, libtest_mimic::Failed> {
        let data = flat(&numbers(which, shape, DType::F64, &Device::Cpu)?)?;
        Ok(ferronorm::Tensor::from_slice(&device, &data, shape)?)
    };
    let (x, w, b) = (tensor(1, &shape)?, tensor(2, &shape[1..])?, tensor(3, &shape[1..])?);
    let layer = ferronorm::LayerNorm::new(&device);
    let (y, saved) = layer.forward(&x, &w, &b, EPS)?;
    let gradients = layer.backward(&saved, &tensor(4, &shape)?)?;
    let (dw, db) = (gradients.dw.expect("dw"), gradients.db.expect("db"));
    let right = [y.to_vec()?, gradients.dx.to_vec()?, dw.to_vec()?, db.to_vec()?];
    assert_eq!(found, right);
    Ok(())
}

/// y and dx on CUDA, where the kernels are other code; dw and db go by the device's blocks.
fn as_on_the_cpu(device: &Device) -> Outcome {
    for types in PAIRS {
        for shape in [[65, 1024], [33, 257], [3, 20_000]] {
            let [y, dx, ..] = results(device, shape, types)?;
            let [cpu_y, cpu_dx, ..] = results(&Device::Cpu, shape, types)?;
            assert!(y == cpu_y && dx == cpu_dx, "{types:?}, {shape:?}");
        }
    }
    Ok(())
}

/// Calls at the same time do not share scratch, and a device's kernels load once.
fn threads(device: &Device) -> Outcome {
    let types = (DType::F32, DType::F32);
    let shape = |i: usize| [40 + i, 300 + 17 * i];
    let alone = (0..4).map(|i| results(device, shape(i), types)).collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        for (i, alone) in alone.iter().enumerate() {
            scope.spawn(move || {
                for _ in 0..10 {
                    let found = results(device, shape(i), types).expect("results");
                    assert!(found == *alone, "thread {i}");
                }
            });
        }
    });
    Ok(())
}

fn main() -> std::process::ExitCode {
    let mut suite = Suite::default();
    suite.cpu("as ferronorm's own tensors", own);
    suite.cuda("y and dx as on the CPU", as_on_the_cpu);
    suite.both("from threads", threads);
    suite.run()
}
