//! Result codes: the known set, and the texts for them.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_uint};

use cust::sys::{self, CUresult};

use super::Symbol;

/// What every driver function returns where no driver library could be opened. The driver says
/// `CUDA_ERROR_NO_DEVICE` when it is there and has no device, so the two can be told apart.
pub const NO_LIBRARY: CUresult = CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;

macro_rules! known_codes {
    ($($name:ident),* $(,)?) => {
        /// The enum's variant with this number, if there is one.
        fn known(raw: c_uint) -> Option<CUresult> {
            match raw {
                $(x if x == CUresult::$name as c_uint => Some(CUresult::$name),)*
                _ => None,
            }
        }

        /// The variant's name. The match has no wildcard: a variant left out does not compile.
        const fn name_of(code: CUresult) -> &'static CStr {
            const fn c_str(text: &'static str) -> &'static CStr {
                match CStr::from_bytes_with_nul(text.as_bytes()) {
                    Ok(text) => text,
                    Err(_) => c"CUDA_ERROR_UNKNOWN",
                }
            }
            match code {
                $(CUresult::$name => const { c_str(concat!(stringify!($name), "\0")) },)*
            }
        }

        #[cfg(test)]
        const KNOWN: &[CUresult] = &[$(CUresult::$name),*];
    };
}

known_codes! {
    CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_INITIALIZED,
    CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_PROFILER_DISABLED, CUDA_ERROR_PROFILER_NOT_INITIALIZED,
    CUDA_ERROR_PROFILER_ALREADY_STARTED, CUDA_ERROR_PROFILER_ALREADY_STOPPED,
    CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE,
    CUDA_ERROR_DEVICE_NOT_LICENSED, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_CONTEXT,
    CUDA_ERROR_CONTEXT_ALREADY_CURRENT, CUDA_ERROR_MAP_FAILED, CUDA_ERROR_UNMAP_FAILED,
    CUDA_ERROR_ARRAY_IS_MAPPED, CUDA_ERROR_ALREADY_MAPPED, CUDA_ERROR_NO_BINARY_FOR_GPU,
    CUDA_ERROR_ALREADY_ACQUIRED, CUDA_ERROR_NOT_MAPPED, CUDA_ERROR_NOT_MAPPED_AS_ARRAY,
    CUDA_ERROR_NOT_MAPPED_AS_POINTER, CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_UNSUPPORTED_LIMIT,
    CUDA_ERROR_CONTEXT_ALREADY_IN_USE, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_INVALID_PTX,
    CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    CUDA_ERROR_JIT_COMPILATION_DISABLED, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
    CUDA_ERROR_INVALID_SOURCE, CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_INVALID_HANDLE,
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_READY,
    CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
    CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT, CUDA_ERROR_TOO_MANY_PEERS,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
    CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
    CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED,
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED,
    CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, CUDA_ERROR_MPS_CONNECTION_FAILED,
    CUDA_ERROR_MPS_RPC_FAILURE, CUDA_ERROR_MPS_SERVER_NOT_READY, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_MERGE,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
    CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_TIMEOUT,
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, CUDA_ERROR_EXTERNAL_DEVICE, CUDA_ERROR_UNKNOWN,
}

thread_local! {
    static LAST: Cell<c_uint> = const { Cell::new(0) };
}

/// The number that the last failed driver call of this thread returned, 0 if none failed yet.
///
/// This is where a code that cust reports as `UnknownError` can still be seen.
pub fn last_raw_code() -> u32 {
    LAST.get()
}

/// Turns a number from the driver into the enum, and keeps it if it is an error.
pub(super) fn accept(raw: c_uint) -> CUresult {
    if raw == CUresult::CUDA_SUCCESS as c_uint {
        return CUresult::CUDA_SUCCESS;
    }
    LAST.set(raw);
    known(raw).unwrap_or(CUresult::CUDA_ERROR_UNKNOWN)
}

fn text_of(code: CUresult) -> &'static CStr {
    match code {
        NO_LIBRARY if super::library().is_err() => c"no CUDA driver library could be opened",
        _ => name_of(code),
    }
}

/// Asks the driver for a text about `error`, and gives a built-in one where it has none: cust's
/// `Display` panics when this fails, and it must be able to print that there is no driver.
///
/// # Safety
///
/// `text` is null or may be written, and `symbol` is one of the two functions below.
unsafe fn describe(
    symbol: &Symbol,
    error: c_uint,
    text: *mut *const c_char,
    built_in: fn(CUresult) -> &'static CStr,
) -> CUresult {
    type Real = unsafe extern "C" fn(c_uint, *mut *const c_char) -> c_uint;
    if text.is_null() {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    if let Ok(address) = symbol.address() {
        // SAFETY: both functions have had this signature since they exist.
        let real = unsafe { std::mem::transmute::<super::Address, Real>(address) };
        // SAFETY: any number may be asked for, and the caller vouches for `text`.
        if unsafe { real(error, text) } == CUresult::CUDA_SUCCESS as c_uint {
            return CUresult::CUDA_SUCCESS;
        }
    }
    let found = known(error).map(built_in);
    // SAFETY: not null, and the caller vouches that it may be written.
    unsafe { *text = found.map_or(std::ptr::null(), CStr::as_ptr) };
    match found {
        Some(_) => CUresult::CUDA_SUCCESS,
        None => CUresult::CUDA_ERROR_INVALID_VALUE,
    }
}

/// Defines one of the two. They take a plain number, since the layers here ask about codes that
/// the enum lacks; the enum is passed in the same way.
macro_rules! text_function {
    ($name:ident, $built_in:ident) => {
        const _: unsafe extern "C" fn(CUresult, *mut *const c_char) -> CUresult = sys::$name;

        driver!(@hide $name);

        // SAFETY: the name is libcuda's own. A program that is linked with libcuda too, as candle's
        // are, has its calls come here and go on to it.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub(super) unsafe extern "C" fn $name(
            error: c_uint,
            text: *mut *const c_char,
        ) -> CUresult {
            static SYMBOL: Symbol = Symbol::new(concat!(stringify!($name), "\0"));
            // SAFETY: passed on from the caller, and the symbol is this function's own.
            unsafe { describe(&SYMBOL, error, text, $built_in) }
        }
    };
}

text_function!(cuGetErrorName, name_of);
text_function!(cuGetErrorString, text_of);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_codes_map_to_themselves() {
        assert_eq!(KNOWN.len(), 87);
        for &code in KNOWN {
            assert_eq!(accept(code as c_uint), code);
            assert_eq!(name_of(code).to_str(), Ok(format!("{code:?}").as_str()));
        }
        let numbers: std::collections::BTreeSet<_> = KNOWN.iter().map(|&c| c as c_uint).collect();
        let accepted = (0..=100_000).filter(|&raw| known(raw).is_some());
        assert!(accepted.eq(numbers.iter().copied()));
    }

    #[test]
    fn unknown_codes_become_one_and_keep_their_number() {
        for raw in [8_888, 225, 226, 912, 914, 1_000, u32::MAX] {
            assert_eq!(accept(raw), CUresult::CUDA_ERROR_UNKNOWN);
            assert_eq!(last_raw_code(), raw);
        }
        assert_eq!(accept(0), CUresult::CUDA_SUCCESS);
        assert_eq!(last_raw_code(), u32::MAX);
    }

    #[test]
    fn cust_prints_every_error_without_a_panic() {
        for &code in KNOWN {
            let mut text = std::ptr::null();
            // SAFETY: `text` is a local.
            let result = unsafe { sys::cuGetErrorString(code, &mut text) };
            assert_eq!(result, CUresult::CUDA_SUCCESS);
            assert!(!text.is_null());
        }
        assert!(!cust::error::CudaError::SharedObjectInitFailed.to_string().is_empty());
    }

    #[test]
    fn a_null_pointer_for_the_text_is_refused() {
        // SAFETY: null is allowed here.
        let result = unsafe { cuGetErrorName(1, std::ptr::null_mut()) };
        assert_eq!(result, CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}
