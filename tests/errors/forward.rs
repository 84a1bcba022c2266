//! What forward refuses.

use ferronorm::args::RowStats;
use ferronorm::{Device, Error, Inputs, LayerNorm, Outputs, Result, Statistics, Tensor};

use super::*;
use crate::common::refusal::{mismatch, shape};

/// Right arguments for a forward, of which a test spoils one.
struct Forward {
    x: Matrix,
    residual: Option<Matrix>,
    w: Option<Tensor<f32>>,
    b: Option<Tensor<f32>>,
    eps: f64,
    y: Matrix,
    sum: Option<Matrix>,
    statistics: Statistics<f32>,
}

impl Forward {
    fn new(device: &Device) -> Result<Forward> {
        Ok(Forward {
            x: Matrix::ones(device, SHAPE)?,
            residual: Some(Matrix::ones(device, SHAPE)?),
            w: Some(ones(device, [3])?),
            b: Some(ones(device, [3])?),
            eps: EPS,
            y: Matrix::poisoned(device, SHAPE)?,
            sum: Some(Matrix::poisoned(device, SHAPE)?),
            statistics: Statistics::new(device, 4)?,
        })
    }

    fn inputs(&self) -> Result<Inputs<'_, f32, f32>> {
        let (w, b) = (self.w.as_ref(), self.b.as_ref());
        let residual = self.residual.as_ref().map(Matrix::view).transpose()?;
        Ok(Inputs { x: self.x.view()?, residual, w, b, eps: self.eps })
    }
}

/// Runs with one argument spoilt, and makes sure of what is left.
fn refused_by(
    layer: &LayerNorm,
    spoil: impl FnOnce(&mut Forward) -> Result<()>,
    refusal: Refusal,
) -> Outcome {
    let text = &refusal.1;
    let mut f = Forward::new(layer.device())?;
    spoil(&mut f)?;
    let Forward { x, residual, w, b, eps, .. } = &f;
    // The forms that make their outputs, where none of those is what is refused.
    let whole = [Some(x), residual.as_ref()].into_iter().flatten().all(|m| m.strided.is_none());
    let of_outputs = ["y:", "sum:", "statistics:", "residual: given"];
    if whole && !of_outputs.iter().any(|start| text.starts_with(start)) {
        let (w, b) = (w.as_ref(), b.as_ref());
        match residual {
            Some(_) if text.starts_with("residual:") => {}
            _ => refused(layer.forward(&x.tensor, w, b, *eps), &refusal),
        }
        if let Some(residual) = residual {
            refused(layer.forward_residual(&x.tensor, &residual.tensor, w, b, *eps), &refusal);
        }
    }

    let (mut y, mut sum, mut statistics) = (
        std::mem::replace(&mut f.y, Matrix::ones(layer.device(), [0])?),
        f.sum.take(),
        std::mem::replace(&mut f.statistics, Statistics::new(layer.device(), 0)?),
    );
    let outputs = Outputs {
        y: y.view_mut()?,
        sum: sum.as_mut().map(Matrix::view_mut).transpose()?,
        statistics: &mut statistics,
    };
    refused(layer.forward_into(&f.inputs()?, outputs), &refusal);
    untouched(text, [Some(&y), sum.as_ref()].into_iter().flatten().map(|matrix| &matrix.tensor))?;
    assert!(statistics.to_vec()?.iter().all(|s| *s == RowStats::default()), "{text}");
    Ok(())
}

fn put_some<T>(place: &mut Option<T>, value: Result<T>) -> Result<()> {
    put(place, value.map(Some))
}

pub fn arguments(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    let refused =
        |spoil: &dyn Fn(&mut Forward) -> Result<()>, refusal| refused_by(layer, spoil, refusal);
    let new = |shape: &[usize]| Matrix::poisoned(device, shape);
    refused(&|f| put_some(&mut f.residual, new(&[4, 3])), shape("residual", [4, 3], SHAPE))?;
    refused(&|f| put_some(&mut f.w, ones(device, [1, 3])), shape("w", [1, 3], [3]))?;
    refused(&|f| put_some(&mut f.w, ones(device, [2, 3])), shape("w", [2, 3], [3]))?;
    refused(&|f| put_some(&mut f.b, ones(device, [4])), shape("b", [4], [3]))?;
    refused(&|f| put_some(&mut f.b, ones(device, [])), shape("b", [], [3]))?;
    refused(&|f| put(&mut f.y, new(&[2, 3, 2])), shape("y", [2, 3, 2], SHAPE))?;
    refused(&|f| put(&mut f.y, new(&[12])), shape("y", [12], SHAPE))?;
    refused(&|f| put_some(&mut f.sum, new(&[4, 3])), shape("sum", [4, 3], SHAPE))?;
    for rows in [0, 3, 5, 12] {
        let spoil = |f: &mut Forward| put(&mut f.statistics, Statistics::new(device, rows));
        refused(&spoil, length("statistics", rows, 4))?;
    }
    refused(&|f| put(&mut f.residual, Ok(None)), absent("sum", "residual"))?;
    refused(&|f| put(&mut f.sum, Ok(None)), absent("residual", "sum"))?;
    for (eps, text) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (-1e-5, "-1e-5"),
        (-5e-324, "-5e-324"),
    ] {
        let text = format!("eps: {text}, where a finite number of at least 0 is wanted");
        refused(&|f| put(&mut f.eps, Ok(eps)), (Error::Epsilon { found: eps }, text))?;
    }

    let other = &Device::cpu();
    let mismatch = |argument| mismatch(argument, other, device);
    let new = |shape: &[usize]| Matrix::poisoned(other, shape);
    refused(&|f| put(&mut f.x, new(&SHAPE)), mismatch("x"))?;
    refused(&|f| put_some(&mut f.residual, new(&SHAPE)), mismatch("residual"))?;
    refused(&|f| put_some(&mut f.w, ones(other, [3])), mismatch("w"))?;
    refused(&|f| put_some(&mut f.b, ones(other, [3])), mismatch("b"))?;
    refused(&|f| put(&mut f.y, new(&SHAPE)), mismatch("y"))?;
    refused(&|f| put_some(&mut f.sum, new(&SHAPE)), mismatch("sum"))?;
    refused(&|f| put(&mut f.statistics, Statistics::new(other, 4)), mismatch("statistics"))?;
    works(layer)
}

/// Takes the matrix out of a forward, to lie at other strides.
type Pick = fn(&mut Forward) -> Option<&mut Matrix>;

pub fn layouts(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    let refused = |pick: Pick, steps: [usize; 3], refusal| {
        let spoil = |f: &mut Forward| {
            let matrix = pick(f).expect("all are given");
            *matrix = Matrix::ones(device, [1])?.strided(steps)?;
            Ok(())
        };
        refused_by(layer, spoil, refusal)
    };
    let inputs: [(_, Pick); 2] = [("x", |f| Some(&mut f.x)), ("residual", |f| f.residual.as_mut())];
    let outputs: [(_, Pick); 2] = [("y", |f| Some(&mut f.y)), ("sum", |f| f.sum.as_mut())];
    for (argument, pick) in inputs.into_iter().chain(outputs) {
        for (steps, wanted) in BAD_STRIDES {
            refused(pick, steps, strides(argument, steps, wanted))?;
        }
    }
    for (argument, pick) in outputs {
        for (steps, wanted) in OVERLAPPING {
            refused(pick, steps, strides(argument, steps, wanted))?;
        }
    }
    works(layer)
}

pub fn layers(device: &Device) -> Outcome {
    let none = |_: &mut Forward| Ok(());
    for (layer, refusal) in bad_dims(device) {
        refused_by(&layer, none, refusal)?;
    }
    // w and b have the shape of what is normalised.
    refused_by(&LayerNorm::new(device).dims(2), none, shape("w", [3], [2, 3]))?;
    let two = |f: &mut Forward| put_some(&mut f.w, ones(device, [2, 3]));
    refused_by(&LayerNorm::new(device).dims(2), two, shape("b", [3], [2, 3]))?;
    let all = |f: &mut Forward| put_some(&mut f.w, ones(device, [12]));
    refused_by(&LayerNorm::new(device).dims(3), all, shape("w", [12], SHAPE))?;
    for (options, refusal) in zero_options() {
        for layer in [LayerNorm::new(device), LayerNorm::rms(device)] {
            refused_by(&layer.options(options), none, refusal.clone())?;
        }
    }
    works(&LayerNorm::new(device))
}
