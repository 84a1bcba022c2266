//! The gradients that are asked for, and no others.

use ferronorm::plan::{self, Kernel, Storage, Want, Work};
use ferronorm::{Device, Dtype, Options};

use super::tensors::{Ask, Tensors, elements, subsets, targets, unwritten};
use crate::common::{Inputs, Outcome, assert_same, nans, run};

/// Each subset: what is asked for has the bits that it has among all, the rest keeps its NaNs.
pub fn each_subset<E: Dtype, P: Dtype>(
    device: &Device,
    shape: [usize; 2],
    options: Options,
) -> Outcome {
    let [rows, columns] = shape;
    let mut inputs = Inputs::<E, P>::seed(rows, columns, 38);
    inputs.dsum = Some(inputs.x.clone());
    let layer = inputs.layer(device, options);
    let right = run(&layer, &inputs)?;
    let (right_dw, right_db) = (right.dw.ok_or("no dw")?, right.db.ok_or("no db")?);
    let tensors = Tensors::new(device, &inputs)?;
    let (_, saved) = tensors.forward(&layer)?;
    for wanted in subsets() {
        let mut gradients = unwritten::<E, P>(device, &shape, &[columns])?;
        let asks = wanted.map(|wanted| if wanted { Ask::Over } else { Ask::No });
        layer.backward_into(&saved, tensors.upstream(), targets(&mut gradients, asks))?;
        let what = |name: &str| format!("{name}, {asks:?}");
        let dx = if wanted[0] { &right.dx } else { &nans(rows * columns) };
        assert_same(&what("dx"), &gradients.dx.to_vec()?, dx);
        let dw = if wanted[1] { &right_dw } else { &nans(columns) };
        assert_same(&what("dw"), &elements(&gradients.dw)?, dw);
        let db = if wanted[2] { &right_db } else { &nans(columns) };
        assert_same(&what("db"), &elements(&gradients.db)?, db);
    }
    Ok(())
}

/// What is not asked for is not launched for, and has no scratch.
pub fn planned<E: Dtype, P: Dtype>(
    device: &Device,
    shape: [usize; 2],
    options: Options,
) -> Outcome {
    use Kernel::{BackwardRows, LongApply, LongDots, LongMeans};
    let [rows, columns] = shape;
    let storage = Storage { x: E::DTYPE, params: P::DTYPE };
    let split = columns > plan::longest_held(E::DTYPE);
    let aligned = columns.is_multiple_of(E::DTYPE.lanes());
    for [dx, dw, db] in subsets() {
        let work = Work { rows, columns, storage, aligned, plain: dx };
        let plan = plan::backward(device.info(), work, options, Want { dx, dw, db })?;
        let launched: Vec<Kernel> = plan.rows.iter().map(|step| step.instance.kernel).collect();
        let wanted: &[Kernel] = match (split, dx, dw || db) {
            (_, false, false) => &[],
            (false, ..) => &[BackwardRows],
            (true, true, _) => &[LongDots, LongMeans, LongApply],
            (true, false, true) => &[LongApply],
        };
        let what = format!("dx {dx}, dw {dw}, db {db}");
        assert_eq!(launched, wanted, "{what}");
        let columns = plan.columns.map(|launch| launch.instance.kernel);
        assert_eq!(columns, (dw || db).then_some(Kernel::BackwardColumns), "{what}");
        assert_eq!(plan.sums() > 0, dw || db, "{what}: partial sums");
        assert_eq!(plan.parts > 0, split && dx, "{what}: the chunks' sums");
    }
    Ok(())
}
