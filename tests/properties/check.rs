//! One problem: its data, the calls, and what must then be true.

use ferronorm::args::RowStats;
use ferronorm::{
    Device, Dtype, LayerNorm, Outputs, Result, Saved, Statistics, Target, Targets, Tensor, Upstream,
};
use reference::seed_case;

use super::common::{Inputs, nans, round};
use super::near::Rights;
use super::placed::{Bits, Placed, assert_bits};
use super::problem::{Goes, Problem};

/// What dx, dw and db are added to.
struct Before<E, P> {
    dx: Vec<E>,
    dw: Vec<P>,
    db: Vec<P>,
}

/// What the calls wrote.
struct Found<E: Dtype, P> {
    y: Vec<E>,
    sum: Option<Vec<E>>,
    stats: Vec<RowStats<E::Real>>,
    dx: Vec<E>,
    dw: Option<Vec<P>>,
    db: Option<Vec<P>>,
}

pub fn check<E: Bits, P: Bits>(device: &Device, problem: &Problem) -> Result<()> {
    let (inputs, before) = data::<E, P>(problem);
    let dims = problem.normalised.len();
    let layer = inputs.layer(device, problem.options).dims(dims);
    // Leaves NaNs in the scratch.
    let bad = Inputs { dy: nans(inputs.dy.len()), ..inputs.clone() };
    call(&layer, problem, &bad, &before)?;
    let found = call(&layer, problem, &inputs, &before)?;

    let (right, real) = (Rights::new(&inputs), E::DTYPE.real());
    if let Some(sum) = &found.sum {
        assert_bits("sum", sum, &inputs.normalised());
    }
    right.y.assert_near("y", real, &found.y);
    let stats = |of: fn(&RowStats<E::Real>) -> f64| found.stats.iter().map(of).collect::<Vec<_>>();
    let mean = stats(|s| s.mean.into() + s.mean_lo.into());
    right.mean.assert_values_near("mean", real, real, &mean);
    right.rstd.assert_values_near("rstd", real, real, &stats(|s| s.rstd.into()));
    let Rights { mut dx, mut dw, mut db, .. } = right;
    let onto = problem.goes.map(|goes| goes == Goes::Onto);
    if onto[0] {
        dx = dx.onto(&before.dx);
    }
    if onto[1] {
        dw = dw.onto(&before.dw);
    }
    if onto[2] {
        db = db.onto(&before.db);
    }
    if problem.goes[0] == Goes::Nowhere {
        assert_bits("dx, which is not asked for", &found.dx, &vec![E::GUARD; found.dx.len()]);
    } else {
        dx.assert_near("dx", real, &found.dx);
    }
    if let Some(found) = &found.dw {
        dw.assert_near("dw", real, found);
    }
    if let Some(found) = &found.db {
        db.assert_near("db", real, found);
    }
    Ok(())
}

fn data<E: Bits, P: Bits>(problem: &Problem) -> (Inputs<E, P>, Before<E, P>) {
    let shape @ [rows, columns] = problem.shape();
    let mut case = seed_case(rows, columns, problem.data.seed);
    let more = seed_case(rows, columns, problem.data.seed + 1000);
    case.x.iter_mut().for_each(|x| *x += 2.3 + problem.data.mean);
    // A mean of dy of 0 would hide what is made of it.
    case.dy.iter_mut().for_each(|dy| *dy += 0.05);
    if problem.dy.stride == 0 {
        (columns..rows * columns).for_each(|i| case.dy[i] = case.dy[i - columns]);
    }
    let inputs = Inputs {
        shape,
        x: round(&case.x),
        residual: problem.residual.map(|_| round(&more.x)),
        w: problem.w.then(|| round(&case.w)),
        b: problem.b.then(|| round(&case.b)),
        dy: round(&case.dy),
        dsum: problem.dsum.map(|_| round(&more.dy)),
        norm: problem.norm,
    };
    (inputs, Before { dx: round(&more.x), dw: round(&more.w), db: round(&more.b) })
}

/// Forward and backward, from and to where the problem says.
fn call<E: Bits, P: Bits>(
    layer: &LayerNorm,
    problem: &Problem,
    inputs: &Inputs<E, P>,
    before: &Before<E, P>,
) -> Result<Found<E, P>> {
    let device = layer.device();
    let placed = |place, data: &Vec<E>| Placed::new(device, problem, place, data);
    let vector = |data: &Vec<P>| Tensor::from_slice(device, data, &problem.normalised);

    let x = placed(problem.x, &inputs.x)?;
    let residual = match (problem.residual, &inputs.residual) {
        (Some(place), Some(data)) => Some(placed(place, data)?),
        _ => None,
    };
    let w = inputs.w.as_ref().map(vector).transpose()?;
    let b = inputs.b.as_ref().map(vector).transpose()?;
    let mut y = Placed::empty(device, problem, problem.y)?;
    let mut sum = Placed::empty(device, problem, problem.sum)?;
    let mut statistics = Statistics::new(device, inputs.shape[0])?;
    let arguments = ferronorm::Inputs {
        x: x.view()?,
        residual: residual.as_ref().map(Placed::view).transpose()?,
        w: w.as_ref(),
        b: b.as_ref(),
        eps: problem.norm.eps,
    };
    let outputs = Outputs {
        y: y.view_mut()?,
        sum: if residual.is_some() { Some(sum.view_mut()?) } else { None },
        statistics: &mut statistics,
    };
    layer.forward_into(&arguments, outputs)?;
    let stats = statistics.to_vec()?;
    let y = y.written("y")?;
    let normalised = sum.written("sum")?;
    if residual.is_none() {
        assert_bits("sum of nothing", &normalised, &vec![E::GUARD; normalised.len()]);
    }

    let dy = placed(problem.dy, &inputs.dy)?;
    let dsum = match (problem.dsum, &inputs.dsum) {
        (Some(place), Some(data)) => Some(placed(place, data)?),
        _ => None,
    };
    let [dx_goes, dw_goes, db_goes] = problem.goes;
    let mut dx = match dx_goes {
        Goes::Onto => placed(problem.dx, &before.dx)?,
        _ => Placed::empty(device, problem, problem.dx)?,
    };
    let gradient = |goes, before: &Vec<P>| match goes {
        Goes::Nowhere => Ok(None),
        Goes::Over => vector(&vec![P::GUARD; before.len()]).map(Some),
        Goes::Onto => vector(before).map(Some),
    };
    let mut dw = gradient(dw_goes, &before.dw)?;
    let mut db = gradient(db_goes, &before.db)?;
    let taken = if residual.is_some() { &sum } else { &x };
    let saved = Saved::new(ferronorm::Inputs { x: taken.view()?, ..arguments }, statistics);
    let upstream = Upstream { dy: dy.view()?, dsum: dsum.as_ref().map(Placed::view).transpose()? };
    let targets = Targets {
        dx: target(dx_goes, Some(dx.view_mut()?)),
        dw: target(dw_goes, dw.as_mut()),
        db: target(db_goes, db.as_mut()),
    };
    layer.backward_into(&saved, upstream, targets)?;
    let found = Found {
        y,
        sum: residual.is_some().then_some(normalised),
        stats,
        dx: dx.written("dx")?,
        dw: dw.map(|dw| dw.to_vec()).transpose()?,
        db: db.map(|db| db.to_vec()).transpose()?,
    };

    x.assert_unchanged("x")?;
    dy.assert_unchanged("dy")?;
    for (what, read) in [("residual", &residual), ("dsum", &dsum)] {
        read.as_ref().map_or(Ok(()), |read| read.assert_unchanged(what))?;
    }
    if let Some(right) = &found.sum {
        assert_bits("sum after backward", &sum.written("sum after backward")?, right);
    }
    for (what, read, right) in [("w", &w, &inputs.w), ("b", &b, &inputs.b)] {
        if let (Some(read), Some(right)) = (read, right) {
            assert_bits(what, &read.to_vec()?, right);
        }
    }
    Ok(found)
}

fn target<T>(goes: Goes, place: Option<T>) -> Option<Target<T>> {
    match goes {
        Goes::Nowhere => None,
        Goes::Over => place.map(Target::Overwrite),
        Goes::Onto => place.map(Target::Accumulate),
    }
}
