//! How the blocks' shares of dw and db meet.

use ferronorm::plan::{self, Storage, Want, Work};
use ferronorm::{Device, Dtype, Mode, Options, Reduction};
use libtest_mimic::Failed;
use reference::Case;

use super::tensors::{Ask, Tensors, elements, targets, unwritten};
use crate::common::{Inputs, Outcome, assert_close, assert_same, run};

const MODES: [Mode; 2] = [Mode::Persistent, Mode::Seed];

/// Each gives the right sums.
pub fn close<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2], options: Options) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 40);
    let right = inputs.right();
    for mode in MODES {
        for reduction in [Reduction::Auto, Reduction::GroupLocks, Reduction::Deterministic] {
            let layer = inputs.layer(device, Options { mode, reduction, ..options });
            let found = run(&layer, &inputs)?;
            assert_close(&format!("{mode:?}, {reduction:?}"), &inputs, &found, &right);
        }
    }
    Ok(())
}

/// The plan's groups, and the blocks that share them.
fn planned<E: Dtype, P: Dtype>(
    device: &Device,
    [rows, columns]: [usize; 2],
    options: Options,
) -> Result<[usize; 2], Failed> {
    let storage = Storage { x: E::DTYPE, params: P::DTYPE };
    let aligned = columns.is_multiple_of(E::DTYPE.lanes());
    let work = Work { rows, columns, storage, aligned, plain: true };
    let plan = plan::backward(device.info(), work, options, Want::ALL)?;
    let last = plan.rows.iter().last().ok_or("no launch")?;
    let blocks = last.grid as usize / plan.chunks;
    assert_eq!(plan.used_groups as usize, blocks.min(plan.groups as usize));
    Ok([plan.groups as usize, blocks])
}

/// Each block has a group, and dw and db have the same bits in 20 runs on each of the devices.
pub fn deterministic<E: Dtype, P: Dtype>(
    devices: &[Device],
    shape: [usize; 2],
    options: Options,
) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 41);
    for mode in MODES {
        let options = Options { mode, reduction: Reduction::Deterministic, ..options };
        // With dx, and without: that is other work, which may be read in other tiles.
        let mut first = [None, None];
        for device in devices {
            let [groups, blocks] = planned::<E, P>(device, shape, options)?;
            assert!(groups >= blocks, "{groups} groups for {blocks} blocks");
            let layer = inputs.layer(device, options);
            let tensors = Tensors::new(device, &inputs)?;
            let (_, saved) = tensors.forward(&layer)?;
            for run in 0..20 {
                let mut gradients = unwritten::<E, P>(device, &shape, &[shape[1]])?;
                let dx = if run % 2 == 0 { Ask::Over } else { Ask::No };
                let targets = targets(&mut gradients, [dx, Ask::Over, Ask::Over]);
                layer.backward_into(&saved, &tensors.dy, targets)?;
                let found = [elements(&gradients.dw)?, elements(&gradients.db)?];
                let right = first[run % 2].get_or_insert_with(|| found.clone());
                let what = |name: &str| format!("{name}, {mode:?}, {device}, run {run}");
                assert_same(&what("dw"), &found[0], &right[0]);
                assert_same(&what("db"), &found[1], &right[1]);
            }
        }
    }
    Ok(())
}

/// With group locks there are fewer groups than blocks, and no share is lost: rows of +1 and -1
/// (see `accumulate`) make dw count the rows, and db add up their signs.
pub fn shared<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2], options: Options) -> Outcome {
    let [rows, columns] = shape;
    let sign = |i: usize| if (i / columns * 5 + i % columns * 3) % 7 < 3 { 1.0 } else { -1.0 };
    let x: Vec<f64> = (0..rows * columns).map(sign).collect();
    let (w, b) = (vec![1.0; columns], vec![0.0; columns]);
    let mut inputs = Inputs::<E, P>::new(&Case { x: x.clone(), w, b, dy: x.clone() }, 0.0);
    inputs.norm.rms = true;
    let sum = |column: usize| P::from_f64(x.iter().skip(column).step_by(columns).sum());
    let right_db: Vec<P> = (0..columns).map(sum).collect();
    let right_dw = vec![P::from_f64(rows as f64); columns];

    let options = Options { reduction: Reduction::GroupLocks, ..options };
    let [groups, blocks] = planned::<E, P>(device, shape, options)?;
    assert!(groups < blocks, "{groups} groups for {blocks} blocks");
    let layer = inputs.layer(device, options);
    let tensors = Tensors::new(device, &inputs)?;
    let (_, saved) = tensors.forward(&layer)?;
    for run in 0..10 {
        let gradients = layer.backward(&saved, &tensors.dy)?;
        assert_same(&format!("dw, run {run}"), &elements(&gradients.dw)?, &right_dw);
        assert_same(&format!("db, run {run}"), &elements(&gradients.db)?, &right_db);
    }
    Ok(())
}
