//! Second derivatives are refused, not cut.

use candle_core::{DType, Device, Error, Result, Tensor};
use ferronorm_candle::ops;

mod common;

use common::{Outcome, Suite, numbers, variable};

fn refused(device: &Device) -> Outcome {
    let x = variable(1, &[4, 12], DType::F64, device)?;
    let w = numbers(2, &[12], DType::F64, device)?;
    let norms: [fn(&Tensor, &Tensor) -> Result<Tensor>; 2] =
        [|x, w| ops::layer_norm(x, w, w, 1e-5), |x, w| ops::rms_norm(x, w, 1e-5)];
    for (norm, name) in norms.into_iter().zip(["layer-norm", "rms-norm"]) {
        // dy is 1, and of no variable.
        let first = norm(&x, &w)?.sum_all()?.backward()?;
        assert!(first.get(&x).is_some());
        // dy is 2 y, and of x.
        match norm(&x, &w)?.sqr()?.sum_all()?.backward() {
            Err(Error::BackwardNotSupported { op }) => {
                assert_eq!(op, format!("the backward of {name}"));
            }
            Err(Error::WithBacktrace { inner, .. }) => assert!(inner.to_string().contains(name)),
            Err(error) => return Err(error.into()),
            Ok(_) => panic!("{name}: taken"),
        }
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    // SAFETY: there is no other thread yet.
    unsafe { std::env::set_var("CANDLE_GRAD_DO_NOT_DETACH", "1") };
    let mut suite = Suite::default();
    suite.both("second derivatives are refused", refused);
    suite.run()
}
