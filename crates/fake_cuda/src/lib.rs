//! A stand-in for `libcuda.so.1`, for tests of what ferronorm does where the driver, the device or
//! the memory is not as it should be.
//!
//! It is no model of a GPU: a launch does nothing, so no result may be judged through it. Device
//! memory is host memory. It keeps account of what is made and destroyed, and takes note where the
//! driver is misused: what is freed twice, copied out of bounds, or used without a context.
//!
//! The environment variable `FAKE_CUDA` describes the driver at its first call, in items with commas
//! between them:
//!
//! - `version=12080`, `capability=75`, `devices=0`, `memory=1048576` (bytes): what it says it has;
//! - `cuInit=100`: this function fails with this code; `all=34`: every function does.
//!
//! Tests can also have one call fail: see [`fake_cuda_fail`]. A code that CUDA knows
//! as sticky, such as 700, comes back from every call after the first that returned it.

mod functions;
mod state;

use std::ffi::c_char;

use state::State;

/// Forgets everything but `FAKE_CUDA`.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_reset() {
    *state::lock() = State::from_environment();
}

/// Has the call with this number from now, 0 for the next one, fail with `code`.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_fail(number: u64, code: u32) {
    state::lock().fault = Some((number, code));
}

/// Writes the name of the function that [`fake_cuda_fail`] made fail, or nothing if the call has not
/// come yet. Returns the length.
///
/// # Safety
///
/// `text` may be written for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_cuda_failed(text: *mut c_char, capacity: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { write(state::lock().failed.unwrap_or_default(), text, capacity) }
}

/// Writes what the driver was misused for, a sentence each. Returns the length.
///
/// # Safety
///
/// As for [`fake_cuda_failed`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_cuda_misuse(text: *mut c_char, capacity: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { write(&state::lock().misuse.join("; "), text, capacity) }
}

/// Writes what has been made and not been destroyed. Returns the length.
///
/// # Safety
///
/// As for [`fake_cuda_failed`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_cuda_left(text: *mut c_char, capacity: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { write(&state::lock().left(), text, capacity) }
}

/// As much of `from` as there is room for.
///
/// # Safety
///
/// `to` may be written for `capacity` bytes.
unsafe fn write(from: &str, to: *mut c_char, capacity: usize) -> usize {
    let length = from.len().min(capacity);
    // SAFETY: neither is longer; the caller's promise.
    unsafe { to.copy_from_nonoverlapping(from.as_ptr().cast(), length) };
    length
}
