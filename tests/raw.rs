//! The raw layer: launches on device pointers and a stream of the caller's, in a context of the
//! caller's, on strided and unaligned rows, give the bits of the safe layer.

use std::num::{NonZeroU32, NonZeroUsize};
use std::process::ExitCode;

use common::{Inputs, Outcome, Suite, each_dtype, layer, run};
use cust::context::{Context, CurrentContext};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::{Stream, StreamFlags};
use ferronorm::args::{
    BackwardArgs, ColumnsArgs, Extent, ForwardArgs, Partials, RowStats, Rows, RowsMut,
};
use ferronorm::plan::{self, Work};
use ferronorm::raw::Kernels;
use ferronorm::{Device, Dtype, Options, ptx};

mod common;

const EPS: f32 = 1e-5;

/// The bytes of numbers.
fn as_bytes<E: Dtype>(data: &[E]) -> &[u8] {
    // SAFETY: the elements are plain numbers, without padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Bytes on the device. The tests' guard: what is around a tensor must keep its bytes.
struct Bytes {
    buffer: DeviceBuffer<u8>,
    before: Vec<u8>,
}

impl Bytes {
    fn new(data: Vec<u8>) -> Bytes {
        let buffer = DeviceBuffer::from_slice(&data).expect("device memory");
        Bytes { buffer, before: data }
    }

    fn address(&self) -> usize {
        self.buffer.as_device_ptr().as_raw() as usize
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.before.len()];
        self.buffer.copy_to(&mut bytes).expect("a copy from the device");
        bytes
    }
}

/// A matrix on the device: `offset` elements in, rows `stride` elements apart, 0xFF all around.
struct Matrix {
    bytes: Bytes,
    shape: [usize; 2],
    offset: usize,
    stride: usize,
    size: usize,
}

impl Matrix {
    fn new<E: Dtype>(
        shape: [usize; 2],
        offset: usize,
        stride: usize,
        data: Option<&[E]>,
    ) -> Matrix {
        let size = size_of::<E>();
        let mut bytes = vec![0xFF; (offset + shape[0] * stride + 16) * size];
        for (row, data) in data.into_iter().flat_map(|data| data.chunks(shape[1])).enumerate() {
            let start = (offset + row * stride) * size;
            let data = as_bytes(data);
            bytes[start..start + data.len()].copy_from_slice(data);
        }
        Matrix { bytes: Bytes::new(bytes), shape, offset, stride, size }
    }

    fn address(&self) -> usize {
        self.bytes.address() + self.offset * self.size
    }

    fn rows<E>(&self) -> Rows<E> {
        Rows { ptr: self.address() as *const E, stride: self.stride }
    }

    fn rows_mut<E>(&self) -> RowsMut<E> {
        RowsMut { ptr: self.address() as *mut E, stride: self.stride }
    }

    /// The elements' bytes, row by row; asserts that nothing around them has changed.
    fn read(&self, what: &str) -> Vec<u8> {
        let (now, mut elements) = (self.bytes.read(), Vec::new());
        let mut around = self.bytes.before.clone();
        for row in 0..self.shape[0] {
            let start = (self.offset + row * self.stride) * self.size;
            let range = start..start + self.shape[1] * self.size;
            elements.extend_from_slice(&now[range.clone()]);
            around[range.clone()].copy_from_slice(&now[range]);
        }
        assert!(now == around, "{what}: written beside its rows");
        elements
    }
}

/// How the matrices lie: elements before x, dy, y and dx, and between their rows.
#[derive(Clone, Copy, Debug)]
struct Layout {
    offsets: [usize; 4],
    gaps: [usize; 4],
}

const LAYOUTS: [Layout; 4] = [
    Layout { offsets: [0; 4], gaps: [0; 4] },
    Layout { offsets: [8, 16, 0, 24], gaps: [8, 0, 24, 16] },
    Layout { offsets: [1, 3, 5, 7], gaps: [0; 4] },
    Layout { offsets: [0, 1, 0, 3], gaps: [1, 2, 3, 0] },
];

fn check<E: Dtype>(device: &Device, shape: [usize; 2]) -> Outcome {
    let inputs = Inputs::<E>::seed(shape[0], shape[1], 21);
    let options = Options::default();
    let right = run(&layer(device, options), &inputs)?;

    let gpu = cust::device::Device::get_device(0)?;
    let context = Context::new(gpu)?;
    CurrentContext::set_current(&context)?;
    let capability = device.info();
    let files = ptx::all()?;
    let file = files.iter().find(|file| (file.target >= ptx::RING_TARGET) == capability.ring);
    // SAFETY: the context is current, and outlives the kernels.
    let kernels = unsafe { Kernels::load(file.expect("the file that the device runs"))? };
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    for layout in LAYOUTS {
        check_layout(&kernels, &stream, &inputs, layout, &right)?;
    }
    Ok(())
}

fn check_layout<E: Dtype>(
    kernels: &Kernels,
    stream: &Stream,
    inputs: &Inputs<E>,
    layout: Layout,
    right: &common::Outputs<E>,
) -> Outcome {
    let [rows, columns] = inputs.shape;
    let matrix = |i: usize, data: Option<&[E]>| {
        Matrix::new(inputs.shape, layout.offsets[i], columns + layout.gaps[i], data)
    };
    let (x, dy) = (matrix(0, Some(&inputs.x)), matrix(1, Some(&inputs.dy)));
    let (y, dx) = (matrix(2, None), matrix(3, None));
    let vector = |data| Matrix::new([1, columns], 0, columns, data);
    let (w, b) = (vector(Some(&inputs.w)), vector(Some(&inputs.b)));
    let (dw, db) = (vector(None), vector(None));
    let stats = Bytes::new(vec![0xFF; rows * size_of::<RowStats>()]);

    let pointers = [&x, &dy, &y, &dx, &w, &b].map(|matrix| matrix.address());
    let strides = [&x, &dy, &y, &dx].map(|matrix| matrix.stride);
    let aligned = plan::aligned(&pointers, &strides, columns, E::DTYPE);
    let work = Work { rows, columns, dtype: E::DTYPE, aligned };
    let forward = plan::forward(kernels.info(), work, Options::default())?;
    let backward = plan::backward(kernels.info(), work, Options::default())?;
    let sums = Bytes::new(vec![0xFF; 4 * backward.sums()]);
    let locks = Bytes::new(vec![0; 4 * backward.locks()]);
    let partials = Partials {
        sums: sums.address() as *mut f32,
        locks: locks.address() as *mut u32,
        groups: NonZeroU32::new(backward.groups).expect("a group"),
        packs: NonZeroUsize::new(backward.packs).expect("a pack"),
    };
    let extent = Extent::new(rows, columns as u32);
    // SAFETY: all matrices lie on this device with the extent given, nothing overlaps, the locks
    // are 0, and all live until the stream has been waited for.
    unsafe {
        let args = ForwardArgs {
            extent,
            eps: EPS,
            x: x.rows(),
            w: w.rows::<E>().ptr,
            b: b.rows::<E>().ptr,
            y: y.rows_mut(),
            stats: stats.address() as *mut RowStats,
        };
        kernels.forward(&forward, &args, stream.as_inner())?;
        let args = BackwardArgs {
            extent,
            x: x.rows(),
            dy: dy.rows(),
            w: w.rows::<E>().ptr,
            stats: stats.address() as *const RowStats,
            dx: dx.rows_mut(),
            partials,
        };
        kernels.backward_rows(&backward.rows, &args, stream.as_inner())?;
        let args = ColumnsArgs {
            columns: columns as u32,
            used_groups: backward.used_groups(),
            partials,
            dw: dw.rows_mut::<E>().ptr,
            db: db.rows_mut::<E>().ptr,
        };
        kernels.backward_columns(&backward.columns, &args, stream.as_inner())?;
    }
    stream.synchronize()?;

    assert!(y.read("y") == as_bytes(&right.y), "y, {layout:?}");
    assert!(dx.read("dx") == as_bytes(&right.dx), "dx, {layout:?}");
    // dw and db are summed in the order of the tiles, which is another on the unaligned path.
    let near = |found: Vec<u8>, right: &[E]| {
        // SAFETY: made of elements by `read`; `read_unaligned` asks for no alignment.
        let found = found
            .chunks(size_of::<E>())
            .map(|c| unsafe { c.as_ptr().cast::<E>().read_unaligned() });
        let right: Vec<f64> = right.iter().map(|v| v.to_f64()).collect();
        reference::Error::of(found.map(E::to_f64), &right).relative_l2
    };
    for (what, matrix, right) in [("dw", &dw, &right.dw), ("db", &db, &right.db)] {
        let error = near(matrix.read(what), right);
        assert!(error < 1e-3, "{what}, {layout:?}: {error}");
    }
    assert!(locks.read().iter().all(|byte| *byte == 0), "stage 2 leaves the locks at 0");
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    for shape in [[300, 1024], [33, 8192], [65, 1000], [64, 1023], [20, 12288]] {
        let name = format!("raw {} x {}", shape[0], shape[1]);
        suite.gpu(&name, move |device| {
            each_dtype!(E => check::<E>(device, shape)?);
            Ok(())
        });
    }
    suite.run()
}
