//! y and all gradients, beside candle's composed operations in f64, for types, shapes and strides.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use ferronorm_candle::ops;

mod common;

use common::{Outcome, PAIRS, Suite, allowed, assert_close, composed, flat, numbers, variable};

const EPS: f64 = 1e-5;

/// A variable's shape, and how x comes of it.
struct View {
    name: &'static str,
    base: &'static [usize],
    x: fn(&Tensor) -> Result<Tensor>,
}

const VIEWS: [View; 12] = [
    View { name: "one row", base: &[16], x: |v| Ok(v.clone()) },
    View { name: "rows", base: &[37, 48], x: |v| Ok(v.clone()) },
    View { name: "unaligned rows", base: &[7, 33], x: |v| Ok(v.clone()) },
    View { name: "many rows", base: &[300, 257], x: |v| Ok(v.clone()) },
    View { name: "3-D", base: &[2, 3, 64], x: |v| Ok(v.clone()) },
    View { name: "4-D", base: &[2, 3, 2, 20], x: |v| Ok(v.clone()) },
    View { name: "split rows", base: &[3, 20_000], x: |v| Ok(v.clone()) },
    View { name: "a row stride", base: &[9, 100], x: |v| v.narrow(1, 0, 64) },
    View { name: "an offset", base: &[3, 4, 50], x: |v| v.narrow(2, 3, 41) },
    View { name: "one row for all", base: &[1, 40], x: |v| v.broadcast_as((6, 40)) },
    View { name: "gaps in rows", base: &[24, 10], x: |v| v.t() },
    View { name: "no one stride", base: &[3, 4, 16], x: |v| v.transpose(0, 1) },
];

/// y, and the gradients of the variables.
fn run(
    norm: impl Fn(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>,
    view: &View,
    [v, w, b]: [&Var; 3],
    bias: bool,
    dy: &Tensor,
) -> Result<Vec<Vec<f64>>> {
    let b = bias.then_some(b);
    let y = norm(&(view.x)(v)?, w, b.map(Var::as_tensor))?;
    let gradients = (&y * dy)?.sum_all()?.backward()?;
    let gradient = |variable: &Var| flat(gradients.get(variable).expect("a gradient"));
    let mut results = vec![flat(&y)?, gradient(v)?, gradient(w)?];
    results.extend(b.map(gradient).transpose()?);
    Ok(results)
}

fn check(device: &Device, rms: bool, bias: bool, (x, params): (DType, DType)) -> Outcome {
    let norm = |x: &Tensor, w: &Tensor, b: Option<&Tensor>| match (rms, b) {
        (false, Some(b)) => ops::layer_norm(x, w, b, EPS),
        (false, None) => ops::layer_norm_no_bias(x, w, EPS),
        (true, Some(b)) => ops::rms_norm_with_bias(x, w, b, EPS),
        (true, None) => ops::rms_norm(x, w, EPS),
    };
    for view in &VIEWS {
        let v = variable(1, view.base, x, device)?;
        let shape = (view.x)(&v)?.dims().to_vec();
        let columns = shape.last().copied().into_iter().collect::<Vec<_>>();
        let w = variable(2, &columns, params, device)?;
        let b = variable(3, &columns, params, device)?;
        let dy = numbers(4, &shape, x, device)?;
        let found = run(norm, view, [&v, &w, &b], bias, &dy)?;

        let exact = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64);
        let exact_variable = |variable: &Var| Var::from_tensor(&exact(variable)?);
        let (v, w, b) = (exact_variable(&v)?, exact_variable(&w)?, exact_variable(&b)?);
        let reference = |x: &Tensor, w: &Tensor, b: Option<&Tensor>| composed(rms, x, w, b, EPS);
        let right = run(reference, view, [&v, &w, &b], bias, &exact(&dy)?)?;

        assert_eq!(found.len(), right.len());
        for (i, (found, right)) in found.iter().zip(&right).enumerate() {
            let dtype = if i < 2 { x } else { params };
            // Where one row serves for all, candle adds their dx up, each time in x's type.
            let more = if i == 1 && view.name == "one row for all" { 4.0 } else { 1.0 };
            let what = format!("{}, {}", view.name, ["y", "dx", "dw", "db"][i]);
            assert_close(&what, found, right, more * allowed(dtype));
        }
    }
    Ok(())
}

/// Only what the graph asks for, and that right.
fn frozen(device: &Device) -> Outcome {
    let (x, w) =
        (variable(1, &[6, 24], DType::F32, device)?, variable(2, &[24], DType::F32, device)?);
    let b = variable(3, &[24], DType::F32, device)?;
    let dy = numbers(4, &[6, 24], DType::F32, device)?;
    let gradients = |x: &Tensor, w: &Tensor, b: &Tensor| {
        (ops::layer_norm(x, w, b, EPS)? * &dy)?.sum_all()?.backward()
    };
    let all = gradients(&x, &w, &b)?;
    let tensors: [&Tensor; 3] = [&x, &w, &b];
    for trained in 0..3 {
        let mut args = tensors.map(Tensor::detach);
        args[trained] = tensors[trained].clone();
        let some = gradients(&args[0], &args[1], &args[2])?;
        for (i, tensor) in args.iter().enumerate() {
            assert_eq!(some.get(tensor).is_some(), i == trained, "{i} where {trained} is trained");
        }
        let found = flat(some.get(tensors[trained]).expect("a gradient"))?;
        assert_eq!(found, flat(all.get(tensors[trained]).expect("a gradient"))?, "{trained}");
    }
    let nothing = ops::layer_norm(&x.detach(), &w.detach(), &b.detach(), EPS)?;
    assert!(!nothing.track_op());
    Ok(())
}

/// A gradient that comes with a stride of 0, and one that comes transposed.
fn strided_dy(device: &Device) -> Outcome {
    let x = variable(1, &[6, 24], DType::F64, device)?;
    let (w, b) = (numbers(2, &[24], DType::F64, device)?, numbers(3, &[24], DType::F64, device)?);
    for loss in [
        |y: &Tensor| y.mean(D::Minus1)?.sqr()?.sum_all(),
        |y: &Tensor| {
            let weights = Tensor::arange(0f64, 24. * 6., y.device())?.reshape((24, 6))?;
            (y.t()? * weights)?.sum_all()
        },
    ] {
        let found = loss(&ops::layer_norm(&x, &w, &b, EPS)?)?.backward()?;
        let right = loss(&composed(false, &x, &w, Some(&b), EPS)?)?.backward()?;
        let of = |gradients: &candle_core::backprop::GradStore| {
            flat(gradients.get(&x).expect("a gradient"))
        };
        assert_close("dx", &of(&found)?, &of(&right)?, 1e-13);
    }
    Ok(())
}

/// One graph gone through twice, and a norm of a norm.
fn again(device: &Device) -> Outcome {
    let x = variable(1, &[6, 24], DType::F64, device)?;
    let (w, b) = (variable(2, &[24], DType::F64, device)?, variable(3, &[24], DType::F64, device)?);
    let dy = numbers(4, &[6, 24], DType::F64, device)?;
    let h = ops::layer_norm(&x, &w, &b, EPS)?;
    let loss = (ops::rms_norm(&h, &w, EPS)? * &dy)?.sum_all()?;
    let right = composed(false, &x, &w, Some(&b), EPS)?;
    let right = (composed(true, &right, &w, None, EPS)? * &dy)?.sum_all()?.backward()?;
    for _ in 0..2 {
        let found = loss.backward()?;
        for (name, variable) in [("dx", &x), ("dw", &w), ("db", &b)] {
            let of = |gradients: &candle_core::backprop::GradStore| {
                flat(gradients.get(variable).expect("a gradient"))
            };
            assert_close(name, &of(&found)?, &of(&right)?, 1e-13);
        }
    }
    Ok(())
}

/// Tensors without elements.
fn empty(device: &Device) -> Outcome {
    for (shape, columns) in [([0, 8], 8), ([3, 0], 0)] {
        let x = variable(1, &shape, DType::F32, device)?;
        let w = variable(2, &[columns], DType::F32, device)?;
        let b = variable(3, &[columns], DType::F32, device)?;
        let y = ops::layer_norm(&x, &w, &b, EPS)?;
        assert_eq!(y.dims(), shape);
        let gradients = y.sum_all()?.backward()?;
        assert_eq!(gradients.get(&x).expect("dx").dims(), shape);
        assert_eq!(flat(gradients.get(&w).expect("dw"))?, vec![0.0; columns]);
        assert_eq!(flat(gradients.get(&b).expect("db"))?, vec![0.0; columns]);
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let mut suite = Suite::default();
    for (x, params) in PAIRS {
        for rms in [false, true] {
            for bias in [false, true] {
                let norm = if rms { "rms_norm" } else { "layer_norm" };
                let ending = if bias { "" } else { ", no bias" };
                let name = format!("{norm} {} w {}{ending}", x.as_str(), params.as_str());
                suite.both(&name, move |device| check(device, rms, bias, (x, params)));
            }
        }
    }
    suite.both("only what is trained has a gradient", frozen);
    suite.both("a strided gradient of y", strided_dy);
    suite.both("a graph twice, and a norm of a norm", again);
    suite.cpu("no elements", empty);
    suite.run()
}
