//! Arguments that do not fit are candle's errors, and name the argument.

use candle_core::{DType, Device, Error, Result, Tensor};
use ferronorm_candle::ops;

mod common;

use common::{Outcome, Suite, numbers};

/// The error without its backtrace.
fn refused(result: Result<Tensor>) -> Error {
    match result {
        Err(Error::WithBacktrace { inner, .. }) => *inner,
        Err(error) => error,
        Ok(y) => panic!("taken, and gave {:?}", y.shape()),
    }
}

fn shapes(device: &Device) -> Outcome {
    let of = |shape: &[usize]| numbers(1, shape, DType::F32, device);
    let (x, right, wrong) = (of(&[2, 8])?, of(&[8])?, of(&[7])?);
    for (name, result) in [
        ("w", ops::layer_norm(&x, &wrong, &right, 1e-5)),
        ("b", ops::layer_norm(&x, &right, &wrong, 1e-5)),
        ("w", ops::layer_norm(&x, &of(&[1, 8])?, &right, 1e-5)),
        ("w", ops::rms_norm(&x, &wrong, 1e-5)),
    ] {
        match refused(result) {
            Error::UnexpectedShape { msg, expected, got } => {
                assert_eq!((msg.as_str(), expected.dims()), (name, &[8][..]));
                assert_ne!(got, expected);
            }
            other => panic!("{name}: {other}"),
        }
    }
    Ok(())
}

fn ranks(device: &Device) -> Outcome {
    let of = |shape: &[usize]| numbers(1, shape, DType::F32, device);
    let w = of(&[1])?;
    assert!(matches!(refused(ops::rms_norm(&of(&[])?, &w, 1e-5)), Error::Wrapped(text)
        if text.to_string() == "x: 0 dimensions, where 1 to 8 are wanted"));
    let error = refused(ops::rms_norm(&of(&[1; 9])?, &w, 1e-5)).to_string();
    assert!(error.contains("9 dimensions"), "{error}");
    Ok(())
}

fn types(device: &Device) -> Outcome {
    let of = |shape: &[usize], dtype| numbers(1, shape, dtype, device);
    let x = of(&[2, 8], DType::F32)?;
    let (single, double) = (of(&[8], DType::F32)?, of(&[8], DType::F64)?);
    let integers = of(&[2, 8], DType::I64)?;
    assert!(matches!(
        refused(ops::layer_norm(&integers, &single, &single, 1e-5)),
        Error::UnsupportedDTypeForOp(DType::I64, "layer-norm")
    ));
    assert!(matches!(
        refused(ops::layer_norm(&x, &single, &double, 1e-5)),
        Error::UnexpectedDType { msg: "b", expected: DType::F32, got: DType::F64 }
    ));
    let error = refused(ops::rms_norm(&x, &double, 1e-5)).to_string();
    assert_eq!(error, "w and b: f64, where x is f32: f32 is wanted");
    Ok(())
}

fn eps(device: &Device) -> Outcome {
    let of = |shape: &[usize]| numbers(1, shape, DType::F32, device);
    let (x, w) = (of(&[2, 8])?, of(&[8])?);
    for eps in [-1e-5, f64::NAN, f64::INFINITY] {
        let error = refused(ops::layer_norm(&x, &w, &w, eps)).to_string();
        assert!(error.starts_with("eps: "), "{error}");
    }
    Ok(())
}

fn devices(device: &Device) -> Outcome {
    let x = numbers(1, &[2, 8], DType::F32, device)?;
    let w = numbers(1, &[8], DType::F32, &Device::Cpu)?;
    for result in [ops::layer_norm(&x, &w, &w, 1e-5), ops::rms_norm(&x, &w, 1e-5)] {
        assert!(matches!(refused(result), Error::DeviceMismatchBinaryOp { .. }));
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let mut suite = Suite::default();
    suite.both("shapes", shapes);
    suite.both("ranks", ranks);
    suite.both("types", types);
    suite.both("eps", eps);
    suite.cuda("devices", devices);
    suite.run()
}
