//! What backward refuses.

use ferronorm::{
    Device, Error, LayerNorm, Reduction, Result, Saved, Statistics, Target, Targets, Tensor,
    Upstream, ViewMut,
};

use super::*;
use crate::common::refusal::{mismatch, shape};

/// Right arguments for a backward, of which a test spoils one.
struct Backward {
    dy: Matrix,
    dsum: Option<Matrix>,
    dx: Option<Matrix>,
    dw: Option<Tensor<f32>>,
    db: Option<Tensor<f32>>,
}

impl Backward {
    fn new(device: &Device) -> Result<Backward> {
        Ok(Backward {
            dy: Matrix::ones(device, SHAPE)?,
            dsum: Some(Matrix::ones(device, SHAPE)?),
            dx: Some(Matrix::poisoned(device, SHAPE)?),
            dw: Some(poisoned(device, [3])?),
            db: Some(poisoned(device, [3])?),
        })
    }

    /// What each form of backward with these arguments says.
    fn calls(
        &mut self,
        layer: &LayerNorm,
        saved: &Saved<'_, f32, f32>,
        refusal: &Refusal,
    ) -> Outcome {
        let dsum = self.dsum.as_ref().map(Matrix::view).transpose()?;
        let upstream = || -> Result<_> { Ok(Upstream { dy: self.dy.view()?, dsum }) };
        // The form that makes its outputs, where none of those is what is refused.
        let of_targets = ["dx:", "dw:", "db:"];
        if !of_targets.iter().any(|start| refusal.1.starts_with(start)) {
            refused(layer.backward(saved, upstream()?), refusal);
        }
        for accumulate in [false, true] {
            for timed in [false, true] {
                let dx = self.dx.as_mut().map(Matrix::view_mut).transpose()?;
                let (dw, db) = (self.dw.as_mut(), self.db.as_mut());
                let targets = targets(accumulate, dx, dw, db);
                if timed {
                    refused(layer.backward_timed(saved, upstream()?, targets), refusal);
                } else {
                    refused(layer.backward_into(saved, upstream()?, targets), refusal);
                }
            }
        }
        Ok(())
    }
}

fn targets<'a>(
    accumulate: bool,
    dx: Option<ViewMut<'a, f32>>,
    dw: Option<&'a mut Tensor<f32>>,
    db: Option<&'a mut Tensor<f32>>,
) -> Targets<'a, f32, f32> {
    if accumulate {
        let [dw, db] = [dw, db].map(|gradient| gradient.map(Target::Accumulate));
        Targets { dx: dx.map(Target::Accumulate), dw, db }
    } else {
        let [dw, db] = [dw, db].map(|gradient| gradient.map(Target::Overwrite));
        Targets { dx: dx.map(Target::Overwrite), dw, db }
    }
}

/// Runs with one argument spoilt, and makes sure that nothing is written.
fn refused_by(
    device: &Device,
    layer: &LayerNorm,
    saved: &Saved<'_, f32, f32>,
    spoil: impl FnOnce(&mut Backward) -> Result<()>,
    refusal: Refusal,
) -> Outcome {
    let mut g = Backward::new(device)?;
    spoil(&mut g)?;
    g.calls(layer, saved, &refusal)?;
    let dx = g.dx.as_ref().map(|matrix| &matrix.tensor);
    untouched(&refusal.1, [dx, g.dw.as_ref(), g.db.as_ref()].into_iter().flatten())?;
    Ok(())
}

fn put_some<T>(place: &mut Option<T>, value: Result<T>) -> Result<()> {
    put(place, value.map(Some))
}

/// The arguments of a forward, to which backward belongs.
struct Inputs {
    x: Matrix,
    w: Tensor<f32>,
}

impl Inputs {
    fn new(device: &Device) -> Result<Inputs> {
        Ok(Inputs { x: Matrix::ones(device, SHAPE)?, w: ones(device, [3])? })
    }

    fn saved(&self, statistics: Statistics<f32>) -> Result<Saved<'_, f32, f32>> {
        let (x, w) = (self.x.view()?, Some(&self.w));
        let inputs = ferronorm::Inputs { x, residual: None, w, b: w, eps: EPS };
        Ok(Saved::new(inputs, statistics))
    }
}

pub fn arguments(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    let inputs = Inputs::new(device)?;
    let saved = inputs.saved(Statistics::new(device, 4)?)?;
    let refused = |spoil: &dyn Fn(&mut Backward) -> Result<()>, refusal| {
        refused_by(device, layer, &saved, spoil, refusal)
    };
    let new = |shape: &[usize]| Matrix::poisoned(device, shape);
    refused(&|g| put(&mut g.dy, new(&[4, 3])), shape("dy", [4, 3], SHAPE))?;
    refused(&|g| put(&mut g.dy, new(&[2, 3, 2])), shape("dy", [2, 3, 2], SHAPE))?;
    refused(&|g| put_some(&mut g.dsum, new(&[12])), shape("dsum", [12], SHAPE))?;
    refused(&|g| put_some(&mut g.dx, new(&[1, 12])), shape("dx", [1, 12], SHAPE))?;
    refused(&|g| put_some(&mut g.dw, poisoned(device, [2])), shape("dw", [2], [3]))?;
    refused(&|g| put_some(&mut g.db, poisoned(device, [1, 3])), shape("db", [1, 3], [3]))?;

    let other = &Device::cpu();
    let on_other = |argument| mismatch(argument, other, device);
    let new = |shape: &[usize]| Matrix::poisoned(other, shape);
    refused(&|g| put(&mut g.dy, new(&SHAPE)), on_other("dy"))?;
    refused(&|g| put_some(&mut g.dsum, new(&SHAPE)), on_other("dsum"))?;
    refused(&|g| put_some(&mut g.dx, new(&SHAPE)), on_other("dx"))?;
    refused(&|g| put_some(&mut g.dw, poisoned(other, [3])), on_other("dw"))?;
    refused(&|g| put_some(&mut g.db, poisoned(other, [3])), on_other("db"))?;
    works(layer)
}

/// Takes the matrix out of a backward, to lie at other strides.
type Pick = fn(&mut Backward) -> Option<&mut Matrix>;

pub fn layouts(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    let inputs = Inputs::new(device)?;
    let saved = inputs.saved(Statistics::new(device, 4)?)?;
    let refused = |pick: Pick, steps: [usize; 3], refusal| {
        let spoil = |g: &mut Backward| {
            let matrix = pick(g).expect("all are given");
            *matrix = Matrix::ones(device, [1])?.strided(steps)?;
            Ok(())
        };
        refused_by(device, layer, &saved, spoil, refusal)
    };
    let dx: (_, Pick) = ("dx", |g| g.dx.as_mut());
    let read: [(_, Pick); 2] = [("dy", |g| Some(&mut g.dy)), ("dsum", |g| g.dsum.as_mut())];
    for (argument, pick) in read.into_iter().chain([dx]) {
        for (steps, wanted) in BAD_STRIDES {
            refused(pick, steps, strides(argument, steps, wanted))?;
        }
    }
    for (steps, wanted) in OVERLAPPING {
        refused(dx.1, steps, strides(dx.0, steps, wanted))?;
    }
    works(layer)
}

pub fn layers(device: &Device) -> Outcome {
    let none = |_: &mut Backward| Ok(());
    let inputs = Inputs::new(device)?;
    let saved = inputs.saved(Statistics::new(device, 4)?)?;
    let refused = |layer: &LayerNorm, refusal| refused_by(device, layer, &saved, none, refusal);
    let other = &Device::cpu();
    refused(&LayerNorm::new(other), mismatch("x", device, other))?;
    works(&LayerNorm::new(other))?;
    for (layer, refusal) in bad_dims(device) {
        refused(&layer, refusal)?;
    }
    refused(&LayerNorm::new(device).dims(2), shape("w", [3], [2, 3]))?;
    for (options, refusal) in zero_options() {
        for layer in [LayerNorm::new(device), LayerNorm::rms(device)] {
            refused(&layer.options(options), refusal.clone())?;
        }
    }
    for (groups, blocks) in [(1, None), (3, None), (1, Some(2))] {
        let (reduction, wanted) = (Reduction::Deterministic, blocks.unwrap_or(4));
        let options = Options { reduction, groups: Some(groups), blocks, ..Options::default() };
        let text = format!(
            "groups: {groups}, where a deterministic reduction of {wanted} blocks wants {wanted}"
        );
        let error = Error::Groups { found: groups, wanted };
        refused(&LayerNorm::with_options(device, options), (error, text))?;
        works(&LayerNorm::with_options(device, Options { groups: Some(wanted), ..options }))?;
    }
    works(&LayerNorm::new(device))
}

/// What backward is told of the forward.
pub fn saved(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    let none = |_: &mut Backward| Ok(());
    let new = || Inputs::new(device);
    let statistics = || Statistics::new(device, 4);
    for rows in [0, 3, 5, 12] {
        let inputs = new()?;
        let saved = inputs.saved(Statistics::new(device, rows)?)?;
        refused_by(device, layer, &saved, none, length("statistics", rows, 4))?;
    }
    let other = &Device::cpu();
    {
        let inputs = new()?;
        let saved = inputs.saved(Statistics::new(other, 4)?)?;
        refused_by(device, layer, &saved, none, mismatch("statistics", other, device))?;
    }
    let inputs = Inputs { x: Matrix::ones(other, SHAPE)?, ..new()? };
    refused_by(device, layer, &inputs.saved(statistics()?)?, none, mismatch("x", other, device))?;
    let inputs = Inputs { w: ones(other, [3])?, ..new()? };
    refused_by(device, layer, &inputs.saved(statistics()?)?, none, mismatch("w", other, device))?;
    let inputs = Inputs { w: ones(device, [4])?, ..new()? };
    refused_by(device, layer, &inputs.saved(statistics()?)?, none, shape("w", [4], [3]))?;
    for (steps, wanted) in BAD_STRIDES {
        let inputs = Inputs { x: Matrix::ones(device, [1])?.strided(steps)?, ..new()? };
        let saved = inputs.saved(statistics()?)?;
        refused_by(device, layer, &saved, none, strides("x", steps, wanted))?;
    }

    // A gradient of what was not there.
    let (x, one) = (Matrix::ones(device, SHAPE)?, ones(device, [3])?);
    for (w, b, refusal) in [
        (None, Some(&one), absent("dw", "w")),
        (Some(&one), None, absent("db", "b")),
        (None, None, absent("dw", "w")),
    ] {
        let inputs = ferronorm::Inputs { x: x.view()?, residual: None, w, b, eps: EPS };
        let saved = Saved::new(inputs, statistics()?);
        refused_by(device, layer, &saved, none, refusal)?;
    }
    works(layer)
}
