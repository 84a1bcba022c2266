//! The yardstick of the benches: a copy and an addition, which move the bytes of forward and of
//! backward and do no more.
//!
//! Written as the kernels of LayerNorm are, and launched as they are, so that the ratio of the two
//! times says what LayerNorm itself costs.

use std::ptr;

use kernels::args::LimitArgs;
use kernels::entry::cpu::Args;

use crate::device::Backend;
use crate::{Dtype, Error, Result, Tensor, plan};

/// y = x, by 16 bytes at a time: 2 tensors moved, as in forward.
///
/// # Errors
///
/// [`Error::Shape`], [`Error::DeviceMismatch`], [`Error::Length`] if the elements are no whole packs
/// of 16 bytes, or a driver error.
pub fn copy<E: Dtype>(x: &Tensor<E>, y: &mut Tensor<E>) -> Result<()> {
    check("y", y, x)?;
    launch(x, ptr::null(), y)
}

/// dx = x + dy, rounded to their type: 3 tensors moved, as in backward.
///
/// # Errors
///
/// As [`copy`].
pub fn add<E: Dtype>(x: &Tensor<E>, dy: &Tensor<E>, dx: &mut Tensor<E>) -> Result<()> {
    check("dy", dy, x)?;
    check("dx", dx, x)?;
    launch(x, dy.as_ptr(), dx)
}

/// `dy` is null, or of a tensor that passes `check`, as `out` must.
fn launch<E: Dtype>(x: &Tensor<E>, dy: *const E, out: &mut Tensor<E>) -> Result<()> {
    let (found, expected) = (x.len(), x.len().next_multiple_of(E::LANES));
    if found != expected {
        return Err(Error::Length { argument: "x", found, expected });
    }
    if x.is_empty() {
        return Ok(());
    }
    let args = LimitArgs {
        x: x.as_ptr().cast(),
        dy: dy.cast(),
        out: out.as_mut_ptr().cast(),
        packs: x.len() / E::LANES,
    };
    let plan = plan::limit(args.packs, E::DTYPE);
    match &*x.device().0 {
        Backend::Cpu(cpu) => {
            // SAFETY: the tensors are on this device, of whole packs, and as long as x; `out` is
            // borrowed for writing, so that it overlaps nothing.
            unsafe { cpu.launch(&plan, Args::Limit(&args)) };
            Ok(())
        }
        Backend::Gpu(gpu) => {
            gpu.enter()?;
            // SAFETY: as above; a buffer's memory is not freed before the stream is idle.
            unsafe { gpu.kernels().limit(&plan, &args, gpu.stream()) }
        }
    }
}

fn check<E: Dtype>(argument: &'static str, found: &Tensor<E>, x: &Tensor<E>) -> Result<()> {
    x.device().check_same(argument, found.device())?;
    if found.shape() == x.shape() {
        return Ok(());
    }
    let (found, expected) = (found.shape().to_vec(), x.shape().to_vec());
    Err(Error::Shape { argument, found, expected })
}
