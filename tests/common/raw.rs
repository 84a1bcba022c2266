//! A problem for the raw layer: device memory of the test's own, and the launches on it.

use std::ffi::c_void;

use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::Stream;
use ferronorm::args::{RowStats, Rows, RowsMut};
use ferronorm::plan::{self, Storage};
use ferronorm::raw::{Call, Gradients, Kernels, Scratch};
use ferronorm::{Dtype, Options, Result};

use super::Inputs;

/// The bytes of numbers.
pub fn as_bytes<E: Dtype>(data: &[E]) -> &[u8] {
    // SAFETY: the elements are plain numbers, without padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Bytes on the device. The tests' guard: what is around a tensor must keep its bytes.
pub struct Bytes {
    buffer: DeviceBuffer<u8>,
    before: Vec<u8>,
}

impl Bytes {
    pub fn new(data: Vec<u8>) -> Bytes {
        let buffer = DeviceBuffer::from_slice(&data).expect("device memory");
        Bytes { buffer, before: data }
    }

    pub fn address(&self) -> usize {
        self.buffer.as_device_ptr().as_raw() as usize
    }

    /// Overwrites the bytes from `start` on.
    pub fn write(&mut self, start: usize, data: &[u8]) {
        let mut target = self.buffer.index(start..start + data.len());
        target.copy_from(data).expect("a copy to the device");
    }

    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.before.len()];
        self.buffer.copy_to(&mut bytes).expect("a copy from the device");
        bytes
    }
}

/// A matrix on the device: `offset` elements in, rows `stride` elements apart, 0xFF all around.
pub struct Matrix {
    bytes: Bytes,
    shape: [usize; 2],
    offset: usize,
    pub stride: usize,
    size: usize,
}

impl Matrix {
    pub fn new<E: Dtype>(
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

    pub fn address(&self) -> usize {
        self.bytes.address() + self.offset * self.size
    }

    pub fn rows(&self) -> Rows {
        Rows { ptr: self.address() as *const c_void, stride: self.stride }
    }

    pub fn rows_mut(&self) -> RowsMut {
        RowsMut { ptr: self.address() as *mut c_void, stride: self.stride }
    }

    /// Writes contiguous elements.
    pub fn write(&mut self, data: &[u8]) {
        assert!(
            self.stride == self.shape[1] && data.len() == self.shape[0] * self.stride * self.size
        );
        self.bytes.write(self.offset * self.size, data);
    }

    /// Sets the contiguous elements' bytes to 0xFF.
    pub fn poison(&mut self) {
        self.write(&vec![0xFF; self.shape[0] * self.stride * self.size]);
    }

    /// The elements' bytes, row by row; asserts that nothing around them has changed.
    pub fn read(&self, what: &str) -> Vec<u8> {
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

/// How the matrices lie: elements before x, dy, y and dx, and between their rows; and the vectors:
/// elements before w, b, dw and db.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub offsets: [usize; 4],
    pub gaps: [usize; 4],
    pub vectors: [usize; 4],
}

/// A problem's tensors on the device, and its plans.
pub struct Raw {
    pub x: Matrix,
    pub dy: Matrix,
    pub y: Matrix,
    pub dx: Matrix,
    /// w and b, kept for their memory.
    _inputs: [Matrix; 2],
    pub dw: Matrix,
    pub db: Matrix,
    pub stats: Bytes,
    forward_parts: Bytes,
    backward_parts: Bytes,
    sums: Bytes,
    pub locks: Bytes,
    call: Call,
    gradients: Gradients,
    forward: plan::Forward,
    backward: plan::Backward,
}

impl Raw {
    /// `inputs` in memory that lies as `layout` says, all outputs and scratch 0xFF, planned for
    /// `kernels`.
    pub fn new<E: Dtype, P: Dtype>(
        kernels: &Kernels,
        inputs: &Inputs<E, P>,
        layout: Layout,
        options: Options,
    ) -> Result<Raw> {
        let [rows, columns] = inputs.shape;
        let matrix = |i: usize, data: Option<&[E]>| {
            Matrix::new(inputs.shape, layout.offsets[i], columns + layout.gaps[i], data)
        };
        let (x, dy) = (matrix(0, Some(&inputs.x)), matrix(1, Some(&inputs.dy)));
        let (y, dx) = (matrix(2, None), matrix(3, None));
        let vector = |i: usize, data: Option<&[P]>| {
            Matrix::new([1, columns], layout.vectors[i], columns, data)
        };
        let (w, b) = (vector(0, inputs.w.as_deref()), vector(1, inputs.b.as_deref()));
        let (dw, db) = (vector(2, None), vector(3, None));
        let stats = Bytes::new(vec![0xFF; rows * size_of::<RowStats<E::Real>>()]);

        let call = Call {
            rows,
            columns,
            storage: Storage { x: E::DTYPE, params: P::DTYPE },
            eps: inputs.norm.eps,
            rms: false,
            x: x.rows(),
            w: w.rows().ptr,
            b: b.rows().ptr,
        };
        let gradients = Gradients {
            dy: dy.rows(),
            dx: dx.rows_mut(),
            dw: dw.rows_mut().ptr,
            db: db.rows_mut().ptr,
        };
        let forward = call.plan_forward(kernels.info(), y.rows_mut(), options)?;
        let backward = call.plan_backward(kernels.info(), &gradients, options)?;
        let [forward_parts, backward_parts, sums] =
            [forward.parts, backward.parts, backward.sums()]
                .map(|size| Bytes::new(vec![0xFF; size]));
        let locks = Bytes::new(vec![0; 4 * backward.locks()]);
        Ok(Raw {
            call,
            gradients,
            _inputs: [w, b],
            x,
            dy,
            y,
            dx,
            dw,
            db,
            stats,
            forward_parts,
            backward_parts,
            sums,
            locks,
            forward,
            backward,
        })
    }

    /// Launches forward and backward.
    ///
    /// # Safety
    ///
    /// The context of `kernels` is current, `stream` is of it, and the value lives until the stream
    /// has been waited for. Copies to the device are over.
    pub unsafe fn launch(&self, kernels: &Kernels, stream: &Stream) -> Result<()> {
        let stream = stream.as_inner();
        let address = |bytes: &Bytes| bytes.address() as *mut c_void;
        let scratch = Scratch {
            sums: address(&self.sums),
            locks: address(&self.locks).cast(),
            parts: address(&self.backward_parts),
        };
        let (call, stats) = (&self.call, address(&self.stats));
        let forward = call.forward(self.y.rows_mut(), stats, address(&self.forward_parts));
        let (rows, columns) = call.backward(&self.backward, &self.gradients, stats, scratch);
        // SAFETY: all matrices lie on this device with the extent given, nothing overlaps, the locks
        // are 0, and the caller's promises.
        unsafe {
            kernels.forward(&self.forward, &forward, stream)?;
            kernels.backward_rows(&self.backward, &rows, stream)?;
            kernels.backward_columns(&self.backward, &columns, stream)
        }
    }

    /// Whether every lock and flag is 0, as stage 2 leaves them.
    pub fn unlocked(&self) -> bool {
        self.locks.read().iter().all(|byte| *byte == 0)
    }
}

/// The built kernels that `device` runs, for the context that is current.
///
/// # Safety
///
/// A context must be current, on the GPU of `device`, and outlive the kernels.
pub unsafe fn load(device: &ferronorm::Device) -> Result<Kernels> {
    let (files, ring) = (ferronorm::ptx::all()?, device.info().ring);
    let file = files.iter().find(|file| (file.target >= ferronorm::ptx::RING_TARGET) == ring);
    // SAFETY: the caller's promise.
    unsafe { Kernels::load(file.expect("the file that the device runs")) }
}
