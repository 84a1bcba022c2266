//! Threads and devices: what is made on one thread is used on another and dropped on a third, memory
//! is not freed under work that uses it, and no device is taken for another.

use std::process::ExitCode;
use std::thread;

use common::refusal::{mismatch, refused};
use common::{Inputs, Outcome, Suite, layer, run};
use ferronorm::{Device, Error, Gradients, Options, Tensor};

mod common;

const SHAPE: [usize; 2] = [70, 1000];

/// Runs `work` on a thread of its own.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("a thread without a panic"))
}

/// Another handle of the same device: a stream, scratch and, on a GPU, kernels of its own.
fn again(device: &Device) -> ferronorm::Result<Device> {
    if device.is_gpu() { Device::gpu(0) } else { Ok(Device::cpu_with_threads(2)) }
}

/// All orders of `0..4`.
fn orders() -> Vec<[usize; 4]> {
    let all = (0..256).map(|i| [i / 64, i / 16 % 4, i / 4 % 4, i % 4]);
    all.filter(|order| (0..4).all(|i| order.contains(&i))).collect()
}

/// Made on one thread, launched on another, read on a third, and dropped on a fourth, in every order.
fn check_orders(device: &Device) -> Outcome {
    let inputs = Inputs::<f32>::seed(SHAPE[0], SHAPE[1], 71);
    let right = run(&layer(device, Options::default()), &inputs)?;
    for order in orders() {
        let (device, x, w, b, dy) = elsewhere(|| -> ferronorm::Result<_> {
            let device = again(device)?;
            let vector = |data: &Option<Vec<f32>>| {
                Tensor::from_slice(&device, data.as_deref().unwrap_or(&[]), [SHAPE[1]])
            };
            let x = Tensor::from_slice(&device, &inputs.x, SHAPE)?;
            let dy = Tensor::from_slice(&device, &inputs.dy, SHAPE)?;
            let (w, b) = (vector(&inputs.w)?, vector(&inputs.b)?);
            Ok((device, x, w, b, dy))
        })?;
        let (layer, y, gradients) = elsewhere(|| -> ferronorm::Result<_> {
            let layer = layer(&device, Options::default());
            let (y, saved) = layer.forward(&x, &w, &b, inputs.norm.eps)?;
            let gradients = elsewhere(|| layer.backward(&saved, &dy))?;
            Ok((layer, y, gradients))
        })?;
        let (found_y, found_dx) =
            elsewhere(|| Ok::<_, Error>((y.to_vec()?, gradients.dx.to_vec()?)))?;
        assert!(found_y == right.y && found_dx == right.dx, "{order:?}: other bits");
        elsewhere(move || {
            let (mut device, mut layer) = (Some(device), Some(layer));
            let (mut inputs, mut outputs) = (Some([x, w, b, dy]), Some((y, gradients)));
            for which in order {
                match which {
                    0 => drop(device.take()),
                    1 => drop(layer.take()),
                    2 => drop(inputs.take()),
                    _ => drop(outputs.take()),
                }
            }
        });
    }
    Ok(())
}

/// Inputs are dropped as soon as the launches that read them have returned, and their memory is taken
/// and overwritten at once.
fn check_drops(device: &Device) -> Outcome {
    let inputs = Inputs::<f32>::seed(2000, 1024, 72);
    let shape = inputs.shape;
    let layer = layer(device, Options::default());
    let right = run(&layer, &inputs)?;
    for _ in 0..20 {
        let x = Tensor::from_slice(device, &inputs.x, shape)?;
        let dy = Tensor::from_slice(device, &inputs.dy, shape)?;
        let w = Tensor::from_slice(device, inputs.w.as_deref().unwrap_or(&[]), [shape[1]])?;
        let b = Tensor::from_slice(device, inputs.b.as_deref().unwrap_or(&[]), [shape[1]])?;
        let (y, saved) = layer.forward(&x, &w, &b, inputs.norm.eps)?;
        let Gradients { dx, dw, db } = layer.backward(&saved, &dy)?;
        drop(saved);
        drop((x, dy, w, b));
        let over = Tensor::from_slice(device, &vec![f32::NAN; shape[0] * shape[1]], shape)?;
        let found = (y.to_vec()?, dx.to_vec()?);
        assert!(found == (right.y.clone(), right.dx.clone()), "y or dx: other bits");
        drop((over, dw, db));
    }
    Ok(())
}

/// Tensors of one handle are refused by another, and the first does its work while the other's
/// context is the thread's.
fn check_two(one: &Device, other: &Device) -> Outcome {
    let inputs = Inputs::<f32>::seed(SHAPE[0], SHAPE[1], 73);
    let right = run(&layer(one, Options::default()), &inputs)?;
    let tensor = |device: &Device| Tensor::from_slice(device, &inputs.x, SHAPE);
    let (x, foreign) = (tensor(one)?, tensor(other)?);
    let layer_of_one = layer(one, Options::default());
    let none = None::<&Tensor<f32>>;
    refused(layer_of_one.forward(&foreign, none, none, 1e-5), &mismatch("x", other, one));
    let (_, saved) = layer_of_one.forward(&x, none, none, 1e-5)?;
    refused(layer_of_one.backward(&saved, &foreign), &mismatch("dy", other, one));

    let runs = |device: &Device| run(&layer(device, Options::default()), &inputs);
    for turn in 0..4 {
        // Each call leaves its device's context with the thread.
        let found = [runs(one)?, runs(other)?];
        for found in found {
            found.assert_same_rows(&right, &format!("turn {turn}"));
        }
        foreign.to_vec()?;
        let (y, _) = layer_of_one.forward(&x, none, none, 1e-5)?;
        assert_eq!(y.to_vec()?.len(), inputs.x.len());
    }
    let both = thread::scope(|scope| {
        [one, other]
            .map(|device| scope.spawn(|| (0..20).map(|_| runs(device)).collect::<Vec<_>>()))
            .map(|thread| thread.join().expect("a thread without a panic"))
    });
    for found in both.into_iter().flatten() {
        found?.assert_same_rows(&right, "at once");
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    suite.both("every order of drops, each on another thread", check_orders);
    suite.both("inputs dropped under way", check_drops);
    suite.both("two handles of one device", |device| check_two(device, &again(device)?));
    suite.gpus("two GPUs", check_two);
    suite.gpus("two GPUs, the other way round", |one, other| check_two(other, one));
    suite.run()
}
