//! Which types of w and b go with which of x.

use ferronorm::plan::{DataType, Storage};
use ferronorm::{Inputs, Outputs, Saved, Statistics};
use half::{bf16, f16};

use super::*;

/// x of E with w, or b, or both of P.
fn refused_pair<E: Dtype, P: Dtype>(layer: &LayerNorm, wanted: &str) -> Outcome {
    let device = layer.device();
    let (x, one) = (ones::<E>(device, SHAPE)?, ones::<P>(device, [3])?);
    let error = Error::Dtypes { x: E::DTYPE, w: P::DTYPE };
    let (x_type, w_type) = (E::DTYPE, P::DTYPE);
    let text = format!("w and b: {w_type}, where x is {x_type}: {wanted} is wanted");
    let refusal = &(error, text);
    for (w, b) in [(Some(&one), Some(&one)), (Some(&one), None), (None, Some(&one))] {
        refused(layer.forward(&x, w, b, EPS), refusal);
        refused(layer.forward_residual(&x, &x, w, b, EPS), refusal);
        let mut y = poisoned::<E>(device, SHAPE)?;
        let mut statistics = Statistics::new(device, 4)?;
        let inputs = Inputs { x: x.view(), residual: None, w, b, eps: EPS };
        let outputs = Outputs { y: y.view_mut(), sum: None, statistics: &mut statistics };
        refused(layer.forward_into(&inputs, outputs), refusal);
        untouched(&refusal.1, [&y])?;
        refused(layer.backward(&Saved::new(inputs, statistics), &x), refusal);
    }
    // Where there is neither, their type does not matter.
    let (y, saved) = layer.forward(&x, None::<&Tensor<P>>, None, EPS)?;
    assert_same("y", &y.to_vec()?, &[E::from_f64(0.0); 12]);
    let gradients = layer.backward(&saved, &x)?;
    assert_same("dx", &gradients.dx.to_vec()?, &[E::from_f64(0.0); 12]);
    assert!(gradients.dw.is_none() && gradients.db.is_none());
    works(layer)
}

pub fn pairs(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    refused_pair::<f64, f32>(layer, "f64")?;
    refused_pair::<f64, f16>(layer, "f64")?;
    refused_pair::<f64, bf16>(layer, "f64")?;
    refused_pair::<f32, f64>(layer, "f32")?;
    refused_pair::<f32, f16>(layer, "f32")?;
    refused_pair::<f32, bf16>(layer, "f32")?;
    refused_pair::<f16, f64>(layer, "f16 or f32")?;
    refused_pair::<f16, bf16>(layer, "f16 or f32")?;
    refused_pair::<bf16, f64>(layer, "bf16 or f32")?;
    refused_pair::<bf16, f16>(layer, "bf16 or f32")?;
    let refused = 10;
    assert_eq!(DataType::ALL.len().pow(2), refused + Storage::ALL.len(), "all are tried");
    Ok(())
}
