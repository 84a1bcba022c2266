//! A program of all that the host does, run again and again: each time another call of the driver
//! fails. Whichever it is, the error has its code, nothing is misused and nothing is left.

use std::collections::BTreeSet;

use ferronorm::driver::DriverError;
use ferronorm::{Device, Error, LayerNorm, Options, Result, Tensor, Tile};

use crate::fake::Fake;

/// All that the crate calls of the driver is in here; the rows are read through a ring, where the
/// kernels have one.
fn program() -> Result<()> {
    let device = Device::gpu(0)?;
    let (rows, columns) = (8, 1024);
    let x = Tensor::<f32>::zeros(&device, [rows, columns])?;
    let w = Tensor::from_slice(&device, &vec![1.0f32; columns], [columns])?;
    let layer =
        LayerNorm::with_options(&device, Options { tile: Tile::Several, ..Options::default() });
    let mut saved = None;
    device.time(|| {
        saved = Some(layer.forward(&x, &w, &w, 1e-5)?);
        Ok(())
    })?;
    if let Some((y, saved)) = &saved {
        let gradients = layer.backward(saved, y)?;
        gradients.dx.to_vec()?;
    }
    device.synchronize()
}

/// The driver's code in an error.
fn code(error: &Error) -> Option<u32> {
    match error {
        Error::Driver { source, .. }
        | Error::Load { source, .. }
        | Error::OutOfMemory { source: Some(source), .. } => Some(source.code),
        _ => None,
    }
}

/// Calls whose failure cannot be told, since they are made when something is dropped; or after
/// which memory may not be freed, since nobody knows whether a kernel still uses it.
const IN_DROP: [&str; 7] = [
    "cuCtxSetCurrent",
    "cuDevicePrimaryCtxRelease_v2",
    "cuEventDestroy_v2",
    "cuMemFree_v2",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
];

/// Runs the program until none of its calls is left to fail; they are of so many `functions`.
fn each(failure: u32, functions: usize) {
    let fake = Fake::open();
    let sticky = failure == 700;
    let mut seen = BTreeSet::new();
    for number in 0.. {
        fake.reset();
        fake.fail(number, failure);
        let result = program();
        let failed = fake.failed();
        if failed.is_empty() {
            result.expect("nothing has failed");
            assert_eq!((fake.misuse(), fake.left()), Default::default());
            break;
        }
        let call = format!("call {number}, {failed}: {result:?}");
        match &result {
            Ok(()) => assert!(IN_DROP.contains(&failed.as_str()), "{call}"),
            Err(error) => {
                assert_eq!(code(error), Some(failure), "{call}");
                // The code with its name and text ends the sentence, but for a full memory.
                let source = DriverError::new(failure).to_string();
                let full = matches!(error, Error::OutOfMemory { .. });
                assert!(full || error.to_string().contains(&source), "{call}");
            }
        }
        assert_eq!(fake.misuse(), "", "{call}");
        // A lost context frees all that it had when it goes.
        if !sticky && !IN_DROP.contains(&failed.as_str()) {
            assert_eq!(fake.left(), "", "{call}");
        }
        seen.insert(failed);
    }
    assert_eq!(seen.len(), functions, "{seen:?}");
}

pub fn fails() {
    // One code that the driver returns, and one that no version knows.
    each(2, 28);
    each(999_999, 28);
}

/// The functions for dependent launches and for much shared memory are not called.
pub fn fails_without_ring() {
    each(2, 26);
}

/// After this code, every call fails.
pub fn loses() {
    each(700, 28);
}
