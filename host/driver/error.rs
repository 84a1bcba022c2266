//! The driver's errors with their names and texts, and the compiler's log for a module.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;

use cust::error::CudaError;
use cust::sys::{self, CUjit_option, CUmodule, CUresult};

use super::code::{cuGetErrorName, cuGetErrorString, last_raw_code};

/// A failed call of the driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} ({code}): {text}")]
pub struct DriverError {
    /// The number that the driver returned.
    pub code: u32,
    /// Its name in cuda.h, such as `CUDA_ERROR_INVALID_VALUE`.
    pub name: String,
    /// The driver's sentence about it.
    pub text: String,
}

impl DriverError {
    /// Describes a number, in the driver's words where it is loaded and knows the number.
    pub fn new(code: u32) -> Self {
        let name = ask(cuGetErrorName, code);
        let text = ask(cuGetErrorString, code);
        Self {
            code,
            name: name.unwrap_or_else(|| "unrecognized CUDA error".into()),
            text: text.unwrap_or_else(|| "the driver has no text for it".into()),
        }
    }
}

impl From<CudaError> for DriverError {
    /// Call it on the thread that got the error, before the next call of the driver: cust knows
    /// fewer codes than the driver returns, and the number is then this thread's last one.
    fn from(error: CudaError) -> Self {
        match error {
            CudaError::UnknownError => Self::new(unknown_code()),
            CudaError::InvalidMemoryAllocation | CudaError::OptixError => {
                Self { code: error as u32, name: format!("{error:?}"), text: error.to_string() }
            }
            _ => Self::new(error as u32),
        }
    }
}

/// `Ok` if `result` is success.
///
/// Call it on the thread that made the call, before the next one: for a code that cust's enum
/// lacks, the number is this thread's last one.
pub fn check(result: CUresult) -> Result<(), DriverError> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        CUresult::CUDA_ERROR_UNKNOWN => Err(DriverError::new(unknown_code())),
        _ => Err(DriverError::new(result as u32)),
    }
}

/// The number behind an unknown error.
fn unknown_code() -> u32 {
    match last_raw_code() {
        0 => CUresult::CUDA_ERROR_UNKNOWN as u32,
        raw => raw,
    }
}

fn ask(
    function: unsafe extern "C" fn(c_uint, *mut *const c_char) -> CUresult,
    code: u32,
) -> Option<String> {
    let mut text = ptr::null();
    // SAFETY: `text` is a local, and any number may be asked for.
    let result = unsafe { function(code, &mut text) };
    if result != CUresult::CUDA_SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: on success this is a constant string of the driver or of this crate.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

const LOG_BYTES: usize = 16 * 1024;

/// Compiles PTX into a module of the current context. On failure the compiler's log comes with
/// the error; it is empty if the driver did not get as far as to compile.
///
/// # Safety
///
/// The kernels' own code is as the caller means it to be: the driver compiles what it is given,
/// and runs it at the launch. The caller unloads the module, and uses it in this context only.
pub unsafe fn load_module(ptx: &CStr) -> Result<CUmodule, (DriverError, String)> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // cuda.h passes a number by its value, in the place of a pointer.
    let mut values: [*mut c_void; 2] =
        [log.as_mut_ptr().cast(), ptr::without_provenance_mut(LOG_BYTES)];
    let mut module = ptr::null_mut();
    // SAFETY: both arrays hold as many entries as said, the log is as long as said, `ptx` ends in
    // NUL, and all outlive the call.
    let result = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            ptx.as_ptr().cast(),
            options.len() as c_uint,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    match check(result) {
        Ok(()) => Ok(module),
        Err(error) => {
            // The buffer was zeroed, so the text ends at the first NUL.
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
            Err((error, String::from_utf8_lossy(&log[..end]).trim().to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{NO_LIBRARY, code::accept, library};

    #[test]
    fn success_is_ok() {
        assert_eq!(check(CUresult::CUDA_SUCCESS), Ok(()));
    }

    #[test]
    fn an_error_prints_its_name_and_number() {
        let error = check(CUresult::CUDA_ERROR_INVALID_VALUE).unwrap_err();
        assert_eq!((error.code, error.name.as_str()), (1, "CUDA_ERROR_INVALID_VALUE"));
        assert!(error.to_string().starts_with("CUDA_ERROR_INVALID_VALUE (1): "), "{error}");
    }

    #[test]
    fn an_unknown_code_keeps_its_number() {
        assert_eq!(check(accept(98_765)).unwrap_err().code, 98_765);
        assert_eq!(DriverError::from(CudaError::UnknownError).code, 98_765);
        assert_eq!(check(accept(999)).unwrap_err().code, 999);
    }

    #[test]
    fn an_error_of_cust_itself_has_a_text() {
        let error = DriverError::from(CudaError::InvalidMemoryAllocation);
        assert_eq!(
            error.to_string(),
            "InvalidMemoryAllocation (100100): Invalid memory allocation"
        );
    }

    #[test]
    fn without_a_library_no_module_is_loaded() {
        if library().is_err() {
            // SAFETY: nothing is compiled.
            let (error, log) = unsafe { load_module(c".version 6.3") }.unwrap_err();
            assert_eq!(error.code, NO_LIBRARY as u32);
            assert_eq!(error.text, "no CUDA driver library could be opened");
            assert_eq!(log, "");
        }
    }
}
