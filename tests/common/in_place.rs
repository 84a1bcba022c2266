//! Launches on memory of a test's own, of which several arguments may be the same: on a GPU by the
//! raw layer, on the CPU likewise, one block after another.

use std::ffi::c_void;

use cust::context::{Context, CurrentContext};
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::{Stream, StreamFlags};
use ferronorm::args::{BackwardArgs, ColumnsArgs, ForwardArgs, Rows, RowsMut};
use ferronorm::plan::{Backward, DeviceInfo, Forward};
use ferronorm::raw::{Cpu, Kernels};
use ferronorm::{Device, Dtype, ptx};
use libtest_mimic::Failed;

use crate::common::Outcome;

/// What runs launches.
pub enum Machine {
    Cpu(Cpu),
    Gpu(Gpu),
}

/// In the order in which they are to be dropped.
pub struct Gpu {
    kernels: Kernels,
    stream: Stream,
    _context: Context,
}

impl Machine {
    /// For a device of the same kind, in a context and on a stream of its own.
    pub fn like(device: &Device) -> Result<Machine, Failed> {
        if !device.is_gpu() {
            return Ok(Machine::Cpu(Cpu::new(1)));
        }
        let context = Context::new(cust::device::Device::get_device(0)?)?;
        CurrentContext::set_current(&context)?;
        let files = ptx::all()?;
        let ring = device.info().ring;
        let file = files.iter().find(|file| (file.target >= ptx::RING_TARGET) == ring);
        // SAFETY: the context is current on this thread, and outlives the kernels.
        let kernels = unsafe { Kernels::load(file.ok_or("no PTX file for the device")?)? };
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
        Ok(Machine::Gpu(Gpu { kernels, stream, _context: context }))
    }

    pub fn info(&self) -> DeviceInfo {
        match self {
            Machine::Cpu(cpu) => cpu.info(),
            Machine::Gpu(gpu) => gpu.kernels.info(),
        }
    }

    /// Runs forward.
    ///
    /// # Safety
    ///
    /// As for [`Kernels::forward`].
    pub unsafe fn forward(&self, plan: &Forward, args: &ForwardArgs) -> Outcome {
        // SAFETY: the caller's promises.
        unsafe {
            match self {
                Machine::Cpu(cpu) => cpu.forward(plan, args),
                Machine::Gpu(Gpu { kernels, stream, .. }) => {
                    kernels.forward(plan, args, stream.as_inner())?;
                    stream.synchronize()?;
                }
            }
        }
        Ok(())
    }

    /// Runs both stages of backward.
    ///
    /// # Safety
    ///
    /// As for [`Kernels::backward_rows`] and [`Kernels::backward_columns`].
    pub unsafe fn backward(
        &self,
        plan: &Backward,
        args: &BackwardArgs,
        columns: &ColumnsArgs,
    ) -> Outcome {
        // SAFETY: the caller's promises.
        unsafe {
            match self {
                Machine::Cpu(cpu) => {
                    cpu.backward_rows(plan, args);
                    cpu.backward_columns(plan, columns);
                }
                Machine::Gpu(Gpu { kernels, stream, .. }) => {
                    kernels.backward_rows(plan, args, stream.as_inner())?;
                    kernels.backward_columns(plan, columns, stream.as_inner())?;
                    stream.synchronize()?;
                }
            }
        }
        Ok(())
    }
}

/// The bytes of numbers.
pub fn bytes<E: Dtype>(data: &[E]) -> &[u8] {
    // SAFETY: the elements are plain numbers, without padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Bytes where a machine's kernels find them, from a 16-byte boundary on.
pub struct Memory {
    place: Place,
    len: usize,
}

enum Place {
    /// From `Box::into_raw`.
    Host(*mut [u128]),
    Device(DeviceBuffer<u8>),
}

impl Memory {
    pub fn new(machine: &Machine, data: &[u8]) -> Result<Memory, Failed> {
        let place = match machine {
            Machine::Cpu(_) => {
                let words: Box<[u128]> = vec![0; data.len().div_ceil(16)].into();
                let words = Box::into_raw(words);
                // SAFETY: as many bytes were just allocated, for this value alone.
                unsafe { words.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
                Place::Host(words)
            }
            Machine::Gpu(_) => Place::Device(DeviceBuffer::from_slice(data)?),
        };
        Ok(Memory { place, len: data.len() })
    }

    pub fn address(&self) -> *mut c_void {
        match &self.place {
            Place::Host(words) => words.cast(),
            Place::Device(buffer) => buffer.as_device_ptr().as_raw() as *mut c_void,
        }
    }

    /// What is there, when no launch is running.
    pub fn read(&self) -> Result<Vec<u8>, Failed> {
        let mut data = vec![0; self.len];
        match &self.place {
            // SAFETY: as many bytes were allocated, and nothing writes them now.
            Place::Host(words) => unsafe {
                data.as_mut_ptr().copy_from_nonoverlapping(words.cast(), self.len);
            },
            Place::Device(buffer) => buffer.copy_to(&mut data)?,
        }
        Ok(data)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Place::Host(words) = self.place {
            // SAFETY: from `Box::into_raw`, and given back once.
            drop(unsafe { Box::from_raw(words) });
        }
    }
}

/// How rows lie: the first `offset` elements in, each `stride` elements after the one before.
#[derive(Clone, Copy)]
pub struct Layout {
    pub shape: [usize; 2],
    pub offset: usize,
    pub stride: usize,
}

impl Layout {
    /// Elements side by side.
    pub fn vector(len: usize) -> Layout {
        Layout { shape: [1, len], offset: 0, stride: len }
    }
}

/// A matrix of elements of `size` bytes, 0xFF all around.
pub struct Matrix {
    memory: Memory,
    layout: Layout,
    size: usize,
    before: Vec<u8>,
}

impl Matrix {
    /// Of `data`, or of 0xFF, which is NaN.
    pub fn new(
        machine: &Machine,
        size: usize,
        layout: Layout,
        data: Option<&[u8]>,
    ) -> Result<Matrix, Failed> {
        let Layout { shape: [rows, columns], offset, stride } = layout;
        let mut before = vec![0xFF; (offset + rows * stride + 16) * size];
        for (row, data) in data.into_iter().flat_map(|d| d.chunks(columns * size)).enumerate() {
            before[(offset + row * stride) * size..][..data.len()].copy_from_slice(data);
        }
        Ok(Matrix { memory: Memory::new(machine, &before)?, layout, size, before })
    }

    pub fn address(&self) -> *mut c_void {
        self.memory.address().wrapping_byte_add(self.layout.offset * self.size)
    }

    pub fn rows(&self) -> Rows {
        Rows { ptr: self.address(), stride: self.layout.stride }
    }

    pub fn rows_mut(&self) -> RowsMut {
        RowsMut { ptr: self.address(), stride: self.layout.stride }
    }

    /// The elements' bytes, row by row; asserts that nothing around them has changed.
    pub fn read(&self, what: &str) -> Result<Vec<u8>, Failed> {
        let Layout { shape: [rows, columns], offset, stride } = self.layout;
        let (mut now, mut elements) = (self.memory.read()?, Vec::new());
        for row in 0..rows {
            let start = (offset + row * stride) * self.size;
            let range = start..start + columns * self.size;
            elements.extend_from_slice(&now[range.clone()]);
            now[range.clone()].copy_from_slice(&self.before[range]);
        }
        assert!(now == self.before, "{what}: written beside the rows");
        Ok(elements)
    }
}
