//! Layers made as candle-nn's are: names, values, and a gradient for each variable.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{LayerNormConfig, VarBuilder, VarMap};
use ferronorm_candle::{LayerNorm, RmsNorm, layer_norm, layer_norm_no_bias, rms_norm};

mod common;

use common::{Outcome, Suite, assert_close, composed, flat, numbers};

const EPS: f64 = 1e-6;

fn builders(device: &Device) -> Outcome {
    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, DType::F32, device);
    let no_mean = LayerNormConfig { eps: EPS, remove_mean: false, affine: true };
    let layers: [(&str, Box<dyn Module>); 4] = [
        ("norm", Box::new(layer_norm(16, EPS, builder.pp("norm"))?)),
        ("plain", Box::new(layer_norm_no_bias(16, EPS, builder.pp("plain"))?)),
        ("rms", Box::new(rms_norm(16, EPS, builder.pp("rms"))?)),
        ("config", Box::new(layer_norm(16, no_mean, builder.pp("config"))?)),
    ];
    let mut names: Vec<String> = variables.data().lock().expect("a lock").keys().cloned().collect();
    names.sort();
    let all = ["config.bias", "config.weight", "norm.bias", "norm.weight", "plain.weight"];
    assert_eq!(names, [&all[..], &["rms.weight"]].concat());

    // The variables' first values are 1 and 0.
    let x = numbers(1, &[2, 3, 16], DType::F32, device)?;
    let one = Tensor::ones(16, DType::F32, device)?;
    for (name, layer) in layers {
        let y = layer.forward(&x)?;
        let rms = ["rms", "config"].contains(&name);
        assert_close(name, &flat(&y)?, &flat(&composed(rms, &x, &one, None, EPS)?)?, 1e-6);
        let gradients = y.sqr()?.sum_all()?.backward()?;
        for (key, variable) in variables.data().lock().expect("a lock").iter() {
            let own = key.starts_with(name);
            assert_eq!(gradients.get(variable).is_some(), own, "{key} of {name}");
        }
    }
    Ok(())
}

/// Old checkpoints say gamma and beta.
fn old_names(device: &Device) -> Outcome {
    let tensors = [("gamma", 2), ("beta", 3)]
        .map(|(name, which)| Ok((name.to_owned(), numbers(which, &[16], DType::F32, device)?)));
    let tensors = tensors.into_iter().collect::<candle_core::Result<_>>()?;
    let layer = layer_norm(16, EPS, VarBuilder::from_tensors(tensors, DType::F32, device))?;
    let found = [layer.weight(), layer.bias().expect("a bias")];
    for (which, found) in [2, 3].into_iter().zip(found) {
        assert_eq!(flat(found)?, flat(&numbers(which, &[16], DType::F32, device)?)?);
    }
    Ok(())
}

/// Layers of tensors, and candle-nn's own as ours.
fn from_parts(device: &Device) -> Outcome {
    let of = |which, shape: &[usize]| numbers(which, shape, DType::F32, device);
    let (x, w, b) = (of(1, &[5, 16])?, of(2, &[16])?, of(3, &[16])?);
    let norm = LayerNorm::new(w.clone(), b.clone(), EPS);
    let theirs = LayerNorm::from(candle_nn::LayerNorm::new(w.clone(), b.clone(), EPS));
    assert!(norm.remove_mean() && theirs.remove_mean());
    assert_eq!((norm.eps(), theirs.eps()), (EPS, EPS));
    let right = flat(&composed(false, &x, &w, Some(&b), EPS)?)?;
    for norm in [norm, theirs] {
        assert_close("layer", &flat(&norm.forward(&x)?)?, &right, 1e-6);
    }
    let plain = LayerNorm::new_no_bias(w.clone(), EPS);
    let right = flat(&composed(false, &x, &w, None, EPS)?)?;
    assert_close("no bias", &flat(&plain.forward(&x)?)?, &right, 1e-6);

    let right = flat(&composed(true, &x, &w, None, EPS)?)?;
    let theirs = RmsNorm::from(candle_nn::RmsNorm::new(w.clone(), EPS));
    for norm in [RmsNorm::new(w.clone(), EPS), theirs] {
        assert_eq!(norm.eps(), EPS);
        assert_eq!(flat(norm.weight())?, flat(&w)?);
        assert_close("rms", &flat(&norm.forward(&x)?)?, &right, 1e-6);
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    let mut suite = Suite::default();
    suite.both("builders", builders);
    suite.both("old names", old_names);
    suite.both("from parts", from_parts);
    suite.run()
}
