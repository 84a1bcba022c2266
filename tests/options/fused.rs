//! An addition before the norm, and what comes from above for its result.

use ferronorm::{Device, Dtype, Options, Tile};
use reference::seed_case;

use crate::common::{Inputs, Outcome, assert_close, assert_same, round, run};

/// x + residual has the bits of an addition by itself, and all else those of a run on its result.
/// (`run` holds forward_residual and forward_into against each other.)
pub fn residual<E: Dtype, P: Dtype>(
    device: &Device,
    shape: [usize; 2],
    options: Options,
) -> Outcome {
    let more = seed_case(shape[0], shape[1], 35);
    // Of another size than x, so that the sum is rounded in most places.
    let residual: Vec<f64> = more.x.iter().map(|x| x / 7.0).collect();
    let mut fused = Inputs::<E, P>::seed(shape[0], shape[1], 34);
    fused.residual = Some(round(&residual));
    for dsum in [None, Some(round(&more.dy))] {
        let what = if dsum.is_some() { "with dsum" } else { "without dsum" };
        fused.dsum = dsum;
        // A residual is not plain work, which may be read in other tiles: row by row both have one
        // order of dw and db.
        let options = Options { tile: Tile::One, ..options };
        let found = run(&fused.layer(device, options), &fused)?;
        let sum = found.sum.as_ref().ok_or("no sum")?;
        assert_same("sum", sum, &fused.normalised());
        assert_close(what, &fused, &found, &fused.right());

        let apart = Inputs { x: fused.normalised(), residual: None, ..fused.clone() };
        let right = run(&apart.layer(device, options), &apart)?;
        assert!(right.sum.is_none());
        found.assert_same_rows(&right, what);
        found.assert_same_columns(&right, what);
    }
    Ok(())
}
