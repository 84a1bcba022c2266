//! What is refused, and how: the variant with its fields, the text, nothing written, and the layer
//! as good as before.

use std::process::ExitCode;

use common::refusal::{Refusal, length, refused};
use common::{Outcome, Suite, assert_same, nans, poisoned};
use ferronorm::ptx::{self, Ptx};
use ferronorm::{Device, Dtype, Error, LayerNorm, Options, Result, Tensor, View, ViewMut};

#[path = "errors/backward.rs"]
mod backward;
mod common;
#[path = "errors/forward.rs"]
mod forward;
#[path = "errors/types.rs"]
mod types;

/// Four rows of three.
const SHAPE: [usize; 3] = [2, 2, 3];
const EPS: f64 = 1e-5;

/// A tensor, and how much of it is an argument: all of it, or a shape at strides.
struct Matrix {
    tensor: Tensor<f32>,
    strided: Option<[[usize; 3]; 2]>,
}

impl Matrix {
    fn ones(device: &Device, shape: impl AsRef<[usize]>) -> Result<Matrix> {
        Ok(Matrix { tensor: ones(device, shape)?, strided: None })
    }

    fn poisoned(device: &Device, shape: impl AsRef<[usize]>) -> Result<Matrix> {
        Ok(Matrix { tensor: poisoned(device, shape)?, strided: None })
    }

    /// [`SHAPE`] at strides, in a tensor that has room for it.
    fn strided(self, strides: [usize; 3]) -> Result<Matrix> {
        let tensor = poisoned(self.tensor.device(), [64])?;
        Ok(Matrix { tensor, strided: Some([SHAPE, strides]) })
    }

    fn view(&self) -> Result<View<'_, f32>> {
        match self.strided {
            Some([shape, strides]) => self.tensor.view().strided(0, &shape, &strides),
            None => Ok(self.tensor.view()),
        }
    }

    fn view_mut(&mut self) -> Result<ViewMut<'_, f32>> {
        match self.strided {
            Some([shape, strides]) => self.tensor.view_mut().strided(0, &shape, &strides),
            None => Ok(self.tensor.view_mut()),
        }
    }
}

/// Strides of [`SHAPE`] that no argument may have, and what is wanted.
const BAD_STRIDES: [([usize; 3], &str); 3] = [
    ([12, 6, 2], "row-major order without gaps in the normalised dimensions"),
    ([6, 3, 0], "row-major order without gaps in the normalised dimensions"),
    ([9, 3, 1], "one stride from each row to the next"),
];

/// Strides at which rows share elements: of no use for what is written.
const OVERLAPPING: [([usize; 3], &str); 2] = [
    ([4, 2, 1], "a stride from row to row of at least the columns"),
    ([0, 0, 1], "a stride from row to row of at least the columns"),
];

fn ones<E: Dtype>(device: &Device, shape: impl AsRef<[usize]>) -> Result<Tensor<E>> {
    let shape = shape.as_ref();
    Tensor::from_slice(device, &vec![E::from_f64(1.0); shape.iter().product()], shape)
}

/// Puts a value that may fail to be made in a place.
fn put<T>(place: &mut T, value: Result<T>) -> Result<()> {
    *place = value?;
    Ok(())
}

/// The outputs still hold the NaNs that they came with.
fn untouched<'a, E: Dtype>(
    text: &str,
    outputs: impl IntoIterator<Item = &'a Tensor<E>>,
) -> Result<()> {
    for output in outputs {
        let output = output.to_vec()?;
        assert_same(text, &output, &nans(output.len()));
    }
    Ok(())
}

fn strides(argument: &'static str, strides: [usize; 3], wanted: &'static str) -> Refusal {
    let (shape, strides) = (SHAPE.to_vec(), strides.to_vec());
    let text =
        format!("{argument}: shape {shape:?} with strides {strides:?}, where {wanted} is wanted");
    (Error::Strides { argument, shape, strides, wanted }, text)
}

fn absent(given: &'static str, absent: &'static str) -> Refusal {
    (Error::Absent { given, absent }, format!("{given}: given, where there is no {absent}"))
}

/// The layers that no call can use, and what each says.
fn bad_dims(device: &Device) -> [(LayerNorm, Refusal); 4] {
    let layer = |dims| LayerNorm::new(device).dims(dims);
    let rank = |argument, found, wanted| Error::Rank { argument, found, wanted };
    [
        (layer(0), (rank("dims", 0, 1..=8), "dims: 0 dimensions, where 1 to 8 are wanted".into())),
        (layer(9), (rank("dims", 9, 1..=8), "dims: 9 dimensions, where 1 to 8 are wanted".into())),
        (layer(4), (rank("x", 3, 4..=8), "x: 3 dimensions, where 4 to 8 are wanted".into())),
        (layer(8), (rank("x", 3, 8..=8), "x: 3 dimensions, where 8 are wanted".into())),
    ]
}

fn zero_options() -> [(Options, Refusal); 2] {
    let (default, zero) = (Options::default(), Some(0));
    let refusal =
        |option| (Error::ZeroOption { option }, format!("{option}: 0, where at least 1 is wanted"));
    [
        (Options { blocks: zero, ..default }, refusal("blocks")),
        (Options { groups: zero, ..default }, refusal("groups")),
    ]
}

/// The layer gives right results: a constant row gives b, and db is the number of rows.
fn works(layer: &LayerNorm) -> Outcome {
    works_on(layer, &SHAPE)
}

fn works_on(layer: &LayerNorm, shape: &[usize]) -> Outcome {
    let device = layer.device();
    let (rows, columns) = (shape[..shape.len() - 1].iter().product::<usize>(), shape.last());
    let x = ones::<f32>(device, shape)?;
    let w = ones(device, [*columns.expect("a dimension")])?;
    let (y, saved) = layer.forward(&x, &w, &w, EPS)?;
    assert_eq!((y.shape(), y.to_vec()?), (shape, vec![1.0; x.len()]));
    let gradients = layer.backward(&saved, &ones(device, shape)?)?;
    assert_eq!((gradients.dx.shape(), gradients.dx.to_vec()?), (shape, vec![0.0; x.len()]));
    let [dw, db] = [gradients.dw, gradients.db].map(|gradient| gradient.map(|g| g.to_vec()));
    assert_eq!(dw.transpose()?, Some(vec![0.0; w.len()]));
    assert_eq!(db.transpose()?, Some(vec![rows as f32; w.len()]));
    Ok(())
}

/// Rows of any length are taken.
fn lengths(device: &Device) -> Outcome {
    let layer = LayerNorm::new(device);
    for n in [0, 1, 16384, 16385, 65537] {
        works_on(&layer, &[2, n])?;
        works_on(&layer, &[n])?;
    }
    works_on(&layer, &[0, 3])?;
    works(&layer)
}

fn tensors(device: &Device) -> Outcome {
    refused(Tensor::from_slice(device, &[1.0f32; 5], [2, 3]), &length("data", 5, 6));
    let mut tensor = ones(device, [2, 3])?;
    refused(tensor.copy_from_slice(&[2.0f32; 7]), &length("data", 7, 6));
    assert_eq!(tensor.to_vec()?, [1.0; 6]);

    let huge = vec![usize::MAX, 2];
    let text = format!("shape: {huge:?} has more elements than memory can hold");
    let too_large = Error::TooLarge { found: huge.clone() };
    refused(Tensor::<f32>::zeros(device, huge), &(too_large, text));
    // Countable, but no machine has it; the device must still work.
    match Tensor::<f32>::zeros(device, [1 << 58, 1]) {
        Err(Error::OutOfMemory { bytes, .. }) => assert_eq!(bytes, 1 << 60),
        other => panic!("{:?}", other.map(|tensor| tensor.shape().to_vec())),
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
    suite.both("forward", forward::arguments);
    suite.both("forward, strides", forward::layouts);
    suite.both("forward, layers", forward::layers);
    suite.both("backward", backward::arguments);
    suite.both("backward, strides", backward::layouts);
    suite.both("backward, layers", backward::layers);
    suite.both("backward, what forward saved", backward::saved);
    suite.both("types", types::pairs);
    suite.both("lengths of rows", lengths);
    suite.both("tensors", tensors);
    suite.cpu("no such GPU", no_such_gpu);
    suite.cpu("PTX files", ptx_files);
    suite.run()
}
