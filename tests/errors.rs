//! What is refused, and how: the variant with its fields, the text, nothing written, and the layer
//! as good as before.

use std::process::ExitCode;

use common::refusal::{Refusal, length, mismatch, refused, shape};
use common::{Outcome, Suite, assert_same, nans, poisoned};
use ferronorm::args::RowStats;
use ferronorm::plan::MAX_COLUMNS;
use ferronorm::ptx::{self, Ptx};
use ferronorm::{Device, Error, Gradients, LayerNorm, Options, Result, Statistics, Tensor};

mod common;

const SHAPE: [usize; 2] = [2, 3];
const EPS: f32 = 1e-5;

/// Puts a value that may fail to be made in a place.
fn put<T>(place: &mut T, value: Result<T>) -> Result<()> {
    *place = value?;
    Ok(())
}

fn ones(device: &Device, shape: [usize; 2]) -> Result<Tensor<f32>> {
    Tensor::from_slice(device, &vec![1.0; shape[0] * shape[1]], shape)
}

/// Right arguments for a forward, of which a test spoils one.
struct Forward {
    x: Tensor<f32>,
    w: Tensor<f32>,
    b: Tensor<f32>,
    eps: f32,
    y: Tensor<f32>,
    statistics: Statistics,
}

impl Forward {
    fn new(device: &Device) -> Result<Forward> {
        Ok(Forward {
            x: ones(device, SHAPE)?,
            w: ones(device, [1, 3])?,
            b: ones(device, [1, 3])?,
            eps: EPS,
            y: poisoned(device, SHAPE)?,
            statistics: Statistics::new(device, 2)?,
        })
    }

    /// Runs with one argument spoilt, and makes sure of what is left.
    fn refused(
        layer: &LayerNorm,
        spoil: impl FnOnce(&mut Forward) -> Result<()>,
        refusal: Refusal,
    ) -> Outcome {
        let mut f = Forward::new(layer.device())?;
        spoil(&mut f)?;
        let result = layer.forward_into(&f.x, &f.w, &f.b, f.eps, &mut f.y, &mut f.statistics);
        refused(result, &refusal);
        let text = &refusal.1;
        untouched(text, [&f.y])?;
        assert!(f.statistics.to_vec()?.iter().all(|s| *s == RowStats::default()), "{text}");
        if !(text.starts_with("y:") || text.starts_with("statistics:")) {
            refused(layer.forward(&f.x, &f.w, &f.b, f.eps), &refusal);
        }
        Ok(())
    }
}

/// The outputs still hold the NaNs that they came with.
fn untouched<'a>(text: &str, outputs: impl IntoIterator<Item = &'a Tensor<f32>>) -> Result<()> {
    for output in outputs {
        let output = output.to_vec()?;
        assert_same(text, &output, &nans(output.len()));
    }
    Ok(())
}

/// The layer gives right results: a constant row gives b, and db is the number of rows.
fn works(layer: &LayerNorm) -> Outcome {
    let f = Forward::new(layer.device())?;
    let (y, saved) = layer.forward(&f.x, &f.w, &f.b, f.eps)?;
    assert_eq!(y.to_vec()?, [1.0; 6]);
    let gradients = layer.backward(&saved, &ones(layer.device(), SHAPE)?)?;
    assert_eq!(gradients.db.to_vec()?, [2.0; 3]);
    Ok(())
}

fn forward(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    let refused = |spoil: &dyn Fn(&mut Forward) -> Result<()>, refusal| {
        Forward::refused(layer, spoil, refusal)
    };
    refused(&|f| put(&mut f.w, ones(device, [3, 1])), shape("w", [3, 1], [1, 3]))?;
    refused(&|f| put(&mut f.b, ones(device, [1, 4])), shape("b", [1, 4], [1, 3]))?;
    refused(&|f| put(&mut f.y, poisoned(device, [3, 2])), shape("y", [3, 2], SHAPE))?;
    refused(&|f| put(&mut f.statistics, Statistics::new(device, 3)), length("statistics", 3, 2))?;
    for eps in [f32::NAN, f32::INFINITY, -1e-5] {
        let text = format!("eps: {eps}, where a finite number of at least 0 is wanted");
        refused(&|f| put(&mut f.eps, Ok(eps)), (Error::Epsilon { found: eps }, text))?;
    }

    let other = &Device::cpu();
    let mismatch = |argument| mismatch(argument, other, device);
    refused(&|f| put(&mut f.x, ones(other, SHAPE)), mismatch("x"))?;
    refused(&|f| put(&mut f.w, ones(other, [1, 3])), mismatch("w"))?;
    refused(&|f| put(&mut f.b, ones(other, [1, 3])), mismatch("b"))?;
    refused(&|f| put(&mut f.y, poisoned(other, SHAPE)), mismatch("y"))?;
    refused(&|f| put(&mut f.statistics, Statistics::new(other, 2)), mismatch("statistics"))?;
    works(layer)
}

fn columns(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    for n in [0, MAX_COLUMNS + 1, 65537] {
        let spoil = |f: &mut Forward| {
            f.x = ones(device, [2, n])?;
            f.w = ones(device, [1, n])?;
            f.b = ones(device, [1, n])?;
            f.y = poisoned(device, [2, n])?;
            Ok(())
        };
        let text = format!("columns: {n}, where 1 to {MAX_COLUMNS} are supported");
        let error = Error::Columns { found: n, most: MAX_COLUMNS };
        Forward::refused(layer, spoil, (error, text))?;
    }
    works(layer)
}

fn poisoned_gradients(device: &Device) -> Result<Gradients<f32>> {
    Ok(Gradients {
        dx: poisoned(device, SHAPE)?,
        dw: poisoned(device, [1, 3])?,
        db: poisoned(device, [1, 3])?,
    })
}

fn backward(device: &Device) -> Outcome {
    let layer = &LayerNorm::new(device);
    let f = Forward::new(device)?;
    let (_, saved) = layer.forward(&f.x, &f.w, &f.b, f.eps)?;
    type Spoil<'a> = &'a dyn Fn(&mut Tensor<f32>, &mut Gradients<f32>) -> Result<()>;
    let refused = |layer: &LayerNorm, spoil: Spoil, refusal: Refusal| -> Result<()> {
        let (mut dy, mut g) = (ones(device, SHAPE)?, poisoned_gradients(device)?);
        spoil(&mut dy, &mut g)?;
        refused(layer.backward_into(&saved, &dy, &mut g), &refusal);
        refused(layer.backward_timed(&saved, &dy, &mut g), &refusal);
        untouched(&refusal.1, [&g.dx, &g.dw, &g.db])
    };
    refused(layer, &|dy, _| put(dy, ones(device, [3, 2])), shape("dy", [3, 2], SHAPE))?;
    refused(layer, &|_, g| put(&mut g.dx, poisoned(device, [1, 6])), shape("dx", [1, 6], SHAPE))?;
    refused(layer, &|_, g| put(&mut g.dw, poisoned(device, [1, 2])), shape("dw", [1, 2], [1, 3]))?;
    refused(layer, &|_, g| put(&mut g.db, poisoned(device, [2, 3])), shape("db", [2, 3], [1, 3]))?;

    let other = &Device::cpu();
    let on_other = |argument| mismatch(argument, other, device);
    refused(layer, &|dy, _| put(dy, ones(other, SHAPE)), on_other("dy"))?;
    refused(layer, &|_, g| put(&mut g.dx, poisoned(other, SHAPE)), on_other("dx"))?;
    refused(layer, &|_, g| put(&mut g.dw, poisoned(other, [1, 3])), on_other("dw"))?;
    refused(layer, &|_, g| put(&mut g.db, poisoned(other, [1, 3])), on_other("db"))?;
    // A layer of another device takes nothing of this one.
    refused(&LayerNorm::new(other), &|_, _| Ok(()), mismatch("x", device, other))?;

    for (option, options) in zero_options() {
        let text = format!("{option}: 0, where at least 1 is wanted");
        let layer = LayerNorm::with_options(device, options);
        refused(&layer, &|_, _| Ok(()), (Error::ZeroOption { option }, text))?;
    }
    works(layer)
}

fn zero_options() -> [(&'static str, Options); 2] {
    let (default, zero) = (Options::default(), Some(0));
    [
        ("blocks", Options { blocks: zero, ..default }),
        ("groups", Options { groups: zero, ..default }),
    ]
}

fn options(device: &Device) -> Outcome {
    for (option, options) in zero_options() {
        let layer = LayerNorm::with_options(device, options);
        let text = format!("{option}: 0, where at least 1 is wanted");
        Forward::refused(&layer, |_| Ok(()), (Error::ZeroOption { option }, text))?;
    }
    works(&LayerNorm::new(device))
}

fn tensors(device: &Device) -> Outcome {
    refused(Tensor::from_slice(device, &[1.0f32; 5], SHAPE), &length("data", 5, 6));
    let mut tensor = ones(device, SHAPE)?;
    refused(tensor.copy_from_slice(&[2.0; 7]), &length("data", 7, 6));
    assert_eq!(tensor.to_vec()?, [1.0; 6]);

    let huge = [usize::MAX, 2];
    let text = format!("shape: {huge:?} has more elements than memory can hold");
    refused(Tensor::<f32>::zeros(device, huge), &(Error::TooLarge { found: huge }, text));
    // Countable, but no machine has it; the device must still work.
    match Tensor::<f32>::zeros(device, [1 << 58, 1]) {
        Err(Error::OutOfMemory { bytes, .. }) => assert_eq!(bytes, 1 << 60),
        other => panic!("{:?}", other.map(|tensor| tensor.shape())),
    }
    works(&LayerNorm::new(device))
}

fn no_such_gpu(_: &Device) -> Outcome {
    let error = Device::gpu(99).expect_err("there are not 100 GPUs");
    let text = error.to_string();
    match error {
        Error::NoDriver { reason } => {
            assert_eq!(text, reason);
            assert!(text.contains("no CUDA driver") && text.contains("libcuda"), "{text}");
        }
        Error::NoDevice { ordinal: 99, count } => {
            assert!(count < 100);
            assert_eq!(text, format!("device 99: the driver shows {count} devices"));
        }
        error => return Err(error.into()),
    }
    Ok(())
}

fn ptx_files(_: &Device) -> Outcome {
    let missing = Error::Ptx { directive: ".target" };
    refused(Ptx::parse(".version 8.0\n"), &(missing, "PTX: no .target directive".into()));
    let old = Error::Architecture { found: 70, needed: 75 };
    let text = "device of compute capability 70: the kernels need 75 or newer".into();
    refused(ptx::pick(70, (13, 0)), &(old, text));
    match ptx::pick(90, (9, 0)) {
        Err(Error::DriverTooOld { driver: (9, 0), needed, .. }) => assert!(needed > (9, 0)),
        other => panic!("{other:?}"),
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    suite.both("forward", forward);
    suite.both("columns", columns);
    suite.both("backward", backward);
    suite.both("options of 0", options);
    suite.both("tensors", tensors);
    suite.cpu("no such GPU", no_such_gpu);
    suite.cpu("PTX files", ptx_files);
    suite.run()
}
