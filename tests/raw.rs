//! The raw layer: launches on device pointers and a stream of the caller's, in a context of the
//! caller's, on strided and unaligned rows, give the bits of the safe layer.

use std::ffi::c_void;
use std::num::NonZeroU32;
use std::process::ExitCode;

use common::{Inputs, Outcome, Outputs, Suite, each_pair, layer, run};
use cust::context::{Context, CurrentContext};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::{Stream, StreamFlags};
use ferronorm::args::{
    BackwardArgs, ColumnsArgs, Extent, ForwardArgs, Partials, RowStats, Rows, RowsMut,
};
use ferronorm::plan::{self, Storage, Want, Work};
use ferronorm::raw::Kernels;
use ferronorm::{Device, Dtype, Options, ptx};

mod common;

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

    fn rows(&self) -> Rows {
        Rows { ptr: self.address() as *const c_void, stride: self.stride }
    }

    fn rows_mut(&self) -> RowsMut {
        RowsMut { ptr: self.address() as *mut c_void, stride: self.stride }
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

const LAYOUTS: [Layout; 6] = [
    Layout { offsets: [0; 4], gaps: [0; 4] },
    Layout { offsets: [8, 16, 0, 24], gaps: [8, 0, 24, 16] },
    Layout { offsets: [1, 3, 5, 7], gaps: [0; 4] },
    Layout { offsets: [0, 1, 0, 3], gaps: [1, 2, 3, 0] },
    // A stride of each matrix's own: all aligned, and none.
    Layout { offsets: [16, 0, 8, 24], gaps: [8, 16, 24, 32] },
    Layout { offsets: [1, 2, 3, 4], gaps: [5, 3, 7, 1] },
];

fn check<E: Dtype, P: Dtype>(device: &Device, shape: [usize; 2]) -> Outcome {
    let inputs = Inputs::<E, P>::seed(shape[0], shape[1], 21);
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

fn check_layout<E: Dtype, P: Dtype>(
    kernels: &Kernels,
    stream: &Stream,
    inputs: &Inputs<E, P>,
    layout: Layout,
    right: &Outputs<E, P>,
) -> Outcome {
    let [rows, columns] = inputs.shape;
    let matrix = |i: usize, data: Option<&[E]>| {
        Matrix::new(inputs.shape, layout.offsets[i], columns + layout.gaps[i], data)
    };
    let (x, dy) = (matrix(0, Some(&inputs.x)), matrix(1, Some(&inputs.dy)));
    let (y, dx) = (matrix(2, None), matrix(3, None));
    let vector = |data: Option<&[P]>| Matrix::new([1, columns], 0, columns, data);
    let (w, b) = (vector(inputs.w.as_deref()), vector(inputs.b.as_deref()));
    let (dw, db) = (vector(None), vector(None));
    let stats = Bytes::new(vec![0xFF; rows * size_of::<RowStats<E::Real>>()]);

    let pointers = [&x, &dy, &y, &dx, &w, &b].map(|matrix| matrix.address());
    let strides = [&x, &dy, &y, &dx].map(|matrix| matrix.stride);
    let aligned = plan::aligned(&pointers, &strides, columns, E::DTYPE);
    let storage = Storage { x: E::DTYPE, params: P::DTYPE };
    let work = Work { rows, columns, storage, aligned, plain: true };
    let forward = plan::forward(kernels.info(), work, Options::default())?;
    let backward = plan::backward(kernels.info(), work, Options::default(), Want::ALL)?;
    let [forward_parts, backward_parts, sums] =
        [forward.parts, backward.parts, backward.sums()].map(|size| Bytes::new(vec![0xFF; size]));
    let locks = Bytes::new(vec![0; 4 * backward.locks()]);
    let partials = Partials {
        sums: sums.address() as *mut c_void,
        locks: locks.address() as *mut u32,
        groups: NonZeroU32::new(backward.groups).expect("a group"),
        packs: backward.packs,
    };
    let extent = Extent::new(rows, columns);
    // SAFETY: all matrices lie on this device with the extent given, nothing overlaps, the locks
    // are 0, and all live until the stream has been waited for.
    unsafe {
        let args = ForwardArgs {
            extent,
            eps: inputs.norm.eps.into(),
            weight_offset: 0.0.into(),
            rms: false,
            x: x.rows(),
            residual: Rows::NONE,
            w: w.rows().ptr,
            b: b.rows().ptr,
            sum: RowsMut::NONE,
            y: y.rows_mut(),
            stats: stats.address() as *mut c_void,
            parts: forward_parts.address() as *mut c_void,
        };
        kernels.forward(&forward, &args, stream.as_inner())?;
        let args = BackwardArgs {
            extent,
            weight_offset: 0.0.into(),
            rms: false,
            want_dw: true,
            want_db: true,
            x: x.rows(),
            dy: dy.rows(),
            w: w.rows().ptr,
            stats: stats.address() as *const c_void,
            add: [Rows::NONE; 2],
            dx: dx.rows_mut(),
            partials,
            parts: backward_parts.address() as *mut c_void,
        };
        kernels.backward_rows(&backward, &args, stream.as_inner())?;
        let args = ColumnsArgs {
            columns,
            chunks: backward.chunks.get(),
            lanes: E::LANES,
            used_groups: backward.used_groups,
            add_dw: false,
            add_db: false,
            partials,
            dw: dw.rows_mut().ptr,
            db: db.rows_mut().ptr,
        };
        kernels.backward_columns(&backward, &args, stream.as_inner())?;
    }
    stream.synchronize()?;

    assert!(y.read("y") == as_bytes(&right.y), "y, {layout:?}");
    assert!(dx.read("dx") == as_bytes(&right.dx), "dx, {layout:?}");
    // dw and db are summed in the order of the tiles, which is another on the unaligned path.
    let near = |found: Vec<u8>, right: &[P]| {
        // SAFETY: made of elements by `read`; `read_unaligned` asks for no alignment.
        let found = found
            .chunks(size_of::<P>())
            .map(|c| unsafe { c.as_ptr().cast::<P>().read_unaligned() });
        reference::Error::of(found.map(P::to_f64), &common::widen(right)).relative_l2
    };
    for (what, matrix, right) in [("dw", &dw, &right.dw), ("db", &db, &right.db)] {
        let error = near(matrix.read(what), right.as_deref().expect("it was asked for"));
        assert!(error < 1e-3, "{what}, {layout:?}: {error}");
    }
    assert!(locks.read().iter().all(|byte| *byte == 0), "stage 2 leaves the locks at 0");
    Ok(())
}

fn main() -> ExitCode {
    let mut suite = Suite::default();
    for shape in [[300, 1024], [33, 8192], [65, 1000], [64, 1023], [20, 12288], [5, 20000]] {
        each_pair!(E, P => {
            let types = Storage { x: E::DTYPE, params: P::DTYPE };
            let name = format!("raw {types} {} x {}", shape[0], shape[1]);
            suite.gpu(&name, move |device| check::<E, P>(device, shape));
        });
    }
    suite.run()
}
