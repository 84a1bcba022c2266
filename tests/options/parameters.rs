//! w and b there or not, w's offset, and no mean.

use ferronorm::{Device, Dtype, Error, LayerNorm, Options, Saved, Tile};

use super::tensors::{Ask, Tensors, targets, unwritten};
use crate::common::refusal::refused;
use crate::common::{Inputs, Outcome, assert_close, assert_same, flat, round, run};

/// An absent w is 1 and an absent b is 0, to the bit, and whatever w's offset; an absent one has no
/// gradient, and none may be asked for.
pub fn presence<E: Dtype, P: Dtype>(
    device: &Device,
    shape: [usize; 2],
    options: Options,
) -> Outcome {
    let given = Inputs::<E, P>::seed(shape[0], shape[1], 31);
    let like = |value: f64| Some(round(&vec![value; shape[1]]));
    for (w, b) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("w {w}, b {b}");
        let w_or = |other| if w { given.w.clone() } else { other };
        let b_or = |other| if b { given.b.clone() } else { other };
        let full = Inputs { w: w_or(like(1.0)), b: b_or(like(0.0)), ..given.clone() };
        let mut bare = Inputs { w: w_or(None), b: b_or(None), ..given.clone() };
        let right = run(&full.layer(device, options), &full)?;
        let mut found = run(&bare.layer(device, options), &bare)?;
        assert_close(&what, &bare, &found, &bare.right());
        found.assert_same_rows(&right, &what);
        assert_eq!((found.dw.is_some(), found.db.is_some()), (w, b), "{what}");
        // Those that one run alone has are not compared.
        found.dw = found.dw.or_else(|| right.dw.clone());
        found.db = found.db.or_else(|| right.db.clone());
        found.assert_same_columns(&right, &what);

        let tensors = Tensors::new(device, &bare)?;
        let layer = bare.layer(device, options);
        absent(&layer, &tensors.forward(&layer)?.1, &tensors, (w, b))?;

        if !w {
            bare.norm.weight_offset = 0.25;
            let found = run(&bare.layer(device, options), &bare)?;
            found.assert_same_rows(&right, &format!("{what}, with an offset"));
        }
    }
    Ok(())
}

/// Asks for the gradient of each parameter that is absent.
fn absent<E: Dtype, P: Dtype>(
    layer: &LayerNorm,
    saved: &Saved<'_, E, P>,
    tensors: &Tensors<E, P>,
    (w, b): (bool, bool),
) -> Outcome {
    let [rows, columns] = [tensors.x.shape()[0], tensors.x.shape()[1]];
    let mut gradients = unwritten::<E, P>(layer.device(), &[rows, columns], &[columns])?;
    let asks = [
        (w, [Ask::Over, Ask::Over, Ask::No], "dw", "w"),
        (w, [Ask::No, Ask::Add, Ask::No], "dw", "w"),
        (b, [Ask::Over, Ask::No, Ask::Over], "db", "b"),
        (b, [Ask::No, Ask::No, Ask::Add], "db", "b"),
    ];
    for (_, asks, given, absent) in asks.into_iter().filter(|(there, ..)| !there) {
        let result = layer.backward_into(saved, &tensors.dy, targets(&mut gradients, asks));
        let text = format!("{given}: given, where there is no {absent}");
        refused(result, &(Error::Absent { given, absent }, text));
    }
    let nothing = [&gradients.dw, &gradients.db].into_iter().flatten();
    let mut written = gradients.dx.to_vec()?.iter().any(|dx| !dx.to_f64().is_nan());
    for gradient in nothing {
        written |= gradient.to_vec()?.iter().any(|value| !value.to_f64().is_nan());
    }
    assert!(!written, "a refused call has written");
    Ok(())
}

/// w is counted from 1.
pub fn offset<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2], options: Options) -> Outcome {
    let mut inputs = Inputs::<E, P>::seed(shape[0], shape[1], 32);
    inputs.norm.weight_offset = 1.0;
    let found = run(&inputs.layer(device, options), &inputs)?;
    assert_close("offset 1", &inputs, &found, &inputs.right());

    // Eighths, of which a bf16 holds each in question less 1 too: the sum is w again, exactly.
    let eighths: Vec<f64> = (0..shape[1]).map(|i| (i * 5 % 31) as f64 / 8.0).collect();
    let less: Vec<f64> = eighths.iter().map(|w| w - 1.0).collect();
    let counted = Inputs { w: Some(round(&less)), ..inputs.clone() };
    let mut plain = Inputs { w: Some(round(&eighths)), ..inputs };
    plain.norm.weight_offset = 0.0;
    // An offset is not plain work, which may be read in other tiles: dw and db then have another
    // order, unless both go row by row.
    let options = Options { tile: Tile::One, ..options };
    let right = run(&plain.layer(device, options), &plain)?;
    let found = run(&counted.layer(device, options), &counted)?;
    found.assert_same_rows(&right, "w - 1, offset 1");
    found.assert_same_columns(&right, "w - 1, offset 1");
    Ok(())
}

/// The mean is 0, and not near it; where a row's is, y is LayerNorm's.
pub fn rms<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2], options: Options) -> Outcome {
    let [rows, columns] = shape;
    let mut inputs = Inputs::<E, P>::seed(rows, columns, 33);
    inputs.norm.rms = true;
    let found = run(&inputs.layer(device, options), &inputs)?;
    assert_close("RMSNorm", &inputs, &found, &inputs.right());
    let flat = flat(&found.stats);
    assert!(flat.chunks(3).all(|row| row[..2] == [0.0; 2]), "mean and mean_lo are 0");

    // Each row and its mirror image, with the other sign, so that the mean is 0. Of so small whole
    // numbers, what LayerNorm's rough mean is off (by sixteenths) leaves sums and squares exact.
    let whole = |row: usize, column: usize| ((column * 5 + row * 3) % 3 + 1) as f64;
    let mirrored = |i: usize| {
        let (row, column, mirror) = (i / columns, i % columns, columns - 1 - i % columns);
        match column.cmp(&mirror) {
            std::cmp::Ordering::Less => whole(row, column),
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => -whole(row, mirror),
        }
    };
    inputs.x = (0..rows * columns).map(|i| E::from_f64(mirrored(i))).collect();
    let found = run(&inputs.layer(device, options), &inputs)?;
    inputs.norm.rms = false;
    let right = run(&inputs.layer(device, options), &inputs)?;
    assert_close("rows of mean 0", &inputs, &right, &inputs.right());
    assert_same("RMSNorm's y of rows of mean 0", &found.y, &right.y);
    Ok(())
}
