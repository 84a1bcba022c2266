//! Forward and backward of one LayerNorm: planned when made, then launched with scratch memory of
//! the size that was planned.
//!
//! Sizes and strides are in elements, addresses are numbers, and 0 is the address of what is absent.

use std::ffi::c_void;

use cust::sys::CUstream;
use ferronorm::args::{Rows, RowsMut};
use ferronorm::plan::{self, Storage};
use ferronorm::raw::{Call, Gradients, Scratch};
use ferronorm::{Options, Reduction, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::device::{self, Device};
use crate::raise;

/// Each block has a group of its own: same bits in every run, and no lock is read.
const OPTIONS: Options = Options {
    mode: plan::Mode::Persistent,
    blocks: None,
    groups: None,
    tile: plan::Tile::Auto,
    reduction: Reduction::Deterministic,
};

/// A planned forward.
#[pyclass(frozen)]
pub struct Forward {
    device: &'static Device,
    call: Call,
    plan: plan::Forward,
    y: RowsMut,
    stats: *mut c_void,
}

/// A planned backward.
#[pyclass(frozen)]
pub struct Backward {
    device: &'static Device,
    call: Call,
    plan: plan::Backward,
    gradients: Gradients,
    stats: *const c_void,
}

// SAFETY: the addresses are followed in `launch` alone, whose caller answers for them.
unsafe impl Send for Forward {}
// SAFETY: as above.
unsafe impl Sync for Forward {}
// SAFETY: as above.
unsafe impl Send for Backward {}
// SAFETY: as above.
unsafe impl Sync for Backward {}

#[pymethods]
impl Forward {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "one call instead of many for each field")]
    fn new(
        device: i32,
        types: usize,
        rows: usize,
        columns: usize,
        eps: f64,
        rms: bool,
        x: usize,
        x_stride: usize,
        w: usize,
        b: usize,
        y: usize,
        stats: usize,
    ) -> PyResult<Forward> {
        let (device, storage) = (device::get(device).map_err(raise)?, storage(types)?);
        present(rows.saturating_mul(columns), &[("x", x), ("y", y)])?;
        present(rows, &[("stats", stats)])?;
        aligned("stats", stats)?;
        let x = Rows { ptr: address(x), stride: x_stride };
        let (w, b) = (address(w), address(b));
        let call = Call { rows, columns, storage, eps, rms, x, w, b };
        let y = RowsMut { ptr: address_mut(y), stride: columns };
        let plan = call.plan_forward(device.info(), y, OPTIONS).map_err(raise)?;
        Ok(Forward { device, call, plan, y, stats: address_mut(stats) })
    }

    /// Bytes of scratch memory, 16-byte aligned; for rows that are split, else 0.
    #[getter]
    fn scratch(&self) -> usize {
        self.plan.parts
    }

    /// Launches on a CUstream of the device; on the CPU runs to the end.
    fn launch(&self, py: Python<'_>, stream: usize, scratch: usize) -> PyResult<()> {
        present(self.scratch(), &[("scratch", scratch)])?;
        aligned("scratch", scratch)?;
        self.device.work(py, || self.run(stream, scratch)).map_err(raise)
    }
}

impl Forward {
    fn run(&self, stream: usize, scratch: usize) -> Result<()> {
        let args = self.call.forward(self.y, self.stats, address_mut(scratch));
        match self.device {
            // SAFETY: planned for the CPU and these arguments. The package's Python half, which alone
            // makes these objects, holds arrays of the types and sizes said for the whole call, and
            // what is written is newly allocated.
            Device::Cpu(cpu) => unsafe {
                cpu.forward(&self.plan, &args);
                Ok(())
            },
            // SAFETY: as above, planned for these kernels, whose context is current; the stream is
            // the framework's current one of this device, in whose order it reuses memory.
            Device::Gpu(gpu) => gpu
                .with(|kernels| unsafe { kernels.forward(&self.plan, &args, stream as CUstream) }),
        }
    }
}

#[pymethods]
impl Backward {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "one call instead of many for each field")]
    fn new(
        device: i32,
        types: usize,
        rows: usize,
        columns: usize,
        eps: f64,
        rms: bool,
        x: usize,
        x_stride: usize,
        w: usize,
        stats: usize,
        dy: usize,
        dy_stride: usize,
        dx: usize,
        dw: usize,
        db: usize,
    ) -> PyResult<Backward> {
        let (device, storage) = (device::get(device).map_err(raise)?, storage(types)?);
        present(rows.saturating_mul(columns), &[("x", x), ("dy", dy)])?;
        present(rows, &[("stats", stats)])?;
        aligned("stats", stats)?;
        let x = Rows { ptr: address(x), stride: x_stride };
        let (w, b) = (address(w), address(0));
        let call = Call { rows, columns, storage, eps, rms, x, w, b };
        let gradients = Gradients {
            dy: Rows { ptr: address(dy), stride: dy_stride },
            dx: RowsMut { ptr: address_mut(dx), stride: columns },
            dw: address_mut(dw),
            db: address_mut(db),
        };
        let plan = call.plan_backward(device.info(), &gradients, OPTIONS).map_err(raise)?;
        Ok(Backward { device, call, plan, gradients, stats: address(stats) })
    }

    /// Bytes of scratch memory, 16-byte aligned; they may hold anything.
    #[getter]
    fn scratch(&self) -> usize {
        // Sums and parts are whole packs of 16 bytes.
        self.plan.sums() + self.plan.parts + self.locks()
    }

    /// Launches both stages on a CUstream of the device; on the CPU runs to the end.
    fn launch(&self, py: Python<'_>, stream: usize, scratch: usize) -> PyResult<()> {
        present(self.scratch(), &[("scratch", scratch)])?;
        aligned("scratch", scratch)?;
        self.device.work(py, || self.run(stream, scratch)).map_err(raise)
    }
}

impl Backward {
    /// Bytes of locks: none without stage 2.
    fn locks(&self) -> usize {
        self.plan.columns.map_or(0, |_| size_of::<u32>() * self.plan.locks())
    }

    fn run(&self, stream: usize, scratch: usize) -> Result<()> {
        let plan = &self.plan;
        let (sums, parts) = (scratch, scratch + plan.sums());
        let locks = parts + plan.parts;
        let scratch = Scratch {
            sums: address_mut(if plan.sums() > 0 { sums } else { 0 }),
            parts: address_mut(if plan.parts > 0 { parts } else { 0 }),
            locks: address_mut(if self.locks() > 0 { locks } else { 0 }).cast(),
        };
        let (rows, columns) = self.call.backward(plan, &self.gradients, self.stats, scratch);
        match self.device {
            // SAFETY: as in `Forward::run`. No block shares a group, so that no lock is read.
            Device::Cpu(cpu) => unsafe {
                cpu.backward_rows(plan, &rows);
                cpu.backward_columns(plan, &columns);
                Ok(())
            },
            // SAFETY: as above. The scratch is of this call alone, and both stages are on one stream.
            Device::Gpu(gpu) => gpu.with(|kernels| unsafe {
                kernels.backward_rows(plan, &rows, stream as CUstream)?;
                kernels.backward_columns(plan, &columns, stream as CUstream)
            }),
        }
    }
}

fn storage(types: usize) -> PyResult<Storage> {
    let wrong =
        || PyValueError::new_err(format!("types: {types}, where a place in TYPES is wanted"));
    Storage::ALL.get(types).copied().ok_or_else(wrong)
}

/// Refuses an address of 0 where there is something to read or write.
fn present(size: usize, arguments: &[(&str, usize)]) -> PyResult<()> {
    match arguments.iter().find(|(_, address)| size > 0 && *address == 0) {
        Some((name, _)) => Err(PyValueError::new_err(format!(
            "{name}: no memory, where {size} elements are wanted"
        ))),
        None => Ok(()),
    }
}

/// Refuses an address that is not on a 16-byte boundary.
fn aligned(name: &str, address: usize) -> PyResult<()> {
    match address.is_multiple_of(16) {
        true => Ok(()),
        false => {
            Err(PyValueError::new_err(format!("{name}: at {address:#x}, not 16-byte aligned")))
        }
    }
}

fn address(number: usize) -> *const c_void {
    std::ptr::with_exposed_provenance(number)
}

fn address_mut(number: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number)
}
