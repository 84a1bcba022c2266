use super::*;
use crate::Error;

/// dy = 1, so that db counts rows: exact, whatever the order of the sums.
fn rows_counted(
    layer: &LayerNorm,
    [rows, columns]: [usize; 2],
    fail_stage: Option<usize>,
) -> Result<Vec<f32>> {
    let device = layer.device();
    let x: Vec<f32> = (0..rows * columns).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let x = Tensor::from_slice(device, &x, [rows, columns])?;
    let w = Tensor::from_slice(device, &vec![1.0; columns], [columns])?;
    let b = Tensor::from_slice(device, &vec![0.0; columns], [columns])?;
    let dy = Tensor::from_slice(device, &vec![1.0; rows * columns], [rows, columns])?;
    let (_, saved) = layer.forward(&x, &w, &b, 1e-5)?;
    let mut gradients = Gradients::new(device, &saved)?;
    layer.stages(
        &saved,
        (&dy).into(),
        (&mut gradients).into(),
        |stage, launch| match fail_stage {
            Some(fail) if stage == fail => Err(Error::Epsilon { found: -1.0 }),
            _ => launch(),
        },
    )?;
    gradients.db.expect("forward had a b").to_vec()
}

#[test]
fn locks_are_clean_after_a_launch_that_failed() {
    let options = Options { mode: plan::Mode::Seed, groups: Some(3), ..Options::default() };
    let layer = LayerNorm::with_options(&Device::cpu_with_threads(2), options);
    for columns in [64, plan::longest_held(f32::DTYPE) + 2] {
        let count = |fail| rows_counted(&layer, [100, columns], fail);
        let right = vec![100.0; columns];
        assert_eq!(count(None).unwrap(), right);
        for fail in [1, 0, 1] {
            assert!(count(Some(fail)).is_err());
            assert_eq!(count(None).unwrap(), right, "after stage {fail}");
        }
    }
}

#[test]
fn a_lock_left_taken_does_not_hang_the_next_launch() {
    for device in [Some(Device::cpu_with_threads(2)), Device::gpu(0).ok()].into_iter().flatten() {
        let options = Options { reduction: plan::Reduction::GroupLocks, ..Options::default() };
        let layer = LayerNorm::with_options(&device, options);
        assert!(rows_counted(&layer, [100, 64], Some(1)).is_err());
        {
            let mut scratch = layer.scratch.lock().unwrap();
            scratch.poison().unwrap();
        }
        assert_eq!(rows_counted(&layer, [100, 64], None).unwrap(), [100.0; 64], "{device}");
    }
}
