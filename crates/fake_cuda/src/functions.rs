//! The functions of libcuda that ferronorm calls. Another one is missing, which it takes for one
//! that the driver is too old to have.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::{ptr, slice};

use crate::state::{self, CONTEXT, CURRENT, INVALID_CONTEXT, INVALID_VALUE, Kind, State};

type Handle = usize;

/// Defines functions with libcuda's names. A body runs under the state's lock, unless the function
/// is to fail. `with context:` those that the driver refuses on a thread without one.
///
/// All share one contract, cuda.h's: pointers to results may be written, and host memory is as long
/// as the other arguments say.
macro_rules! functions {
    (@all $($name:ident($state:ident $(, $arg:ident: $ty:ty)*) $context:literal $body:block)*) => {$(
        /// As in cuda.h.
        ///
        /// # Safety
        ///
        /// As in cuda.h.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_uint {
            call(stringify!($name), $context, |$state| $body)
        }
    )*};
    ($(fn $name:ident($state:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {
        functions! { @all $($name($state $(, $arg: $ty)*) false $body)* }
    };
    (with context: $(fn $name:ident($state:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {
        functions! { @all $($name($state $(, $arg: $ty)*) true $body)* }
    };
}

fn call(
    name: &'static str,
    needs_context: bool,
    body: impl FnOnce(&mut State) -> Result<(), u32>,
) -> c_uint {
    let mut state = state::lock();
    let result = state.failure(name).and_then(|()| {
        if needs_context && !(CURRENT.get() && state.retained > 0) {
            return state.misused(format!("{name} without a context"), INVALID_CONTEXT);
        }
        body(&mut state)
    });
    result.err().unwrap_or(0)
}

/// Writes a result.
fn put<T>(place: *mut T, value: T) -> Result<(), u32> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cuda.h's contract for a pointer to a result; not null.
    unsafe { place.write(value) };
    Ok(())
}

functions! {
    fn cuInit(_state, _flags: c_uint) { Ok(()) }
    fn cuDriverGetVersion(state, version: *mut c_int) { put(version, state.version) }
    fn cuDeviceGetCount(state, count: *mut c_int) { put(count, state.devices) }
    fn cuDeviceGet(_state, device: *mut c_int, ordinal: c_int) { put(device, ordinal) }
    fn cuDeviceGetName(_state, name: *mut c_char, length: c_int, _device: c_int) {
        let text = c"Fake GPU".to_bytes_with_nul();
        assert!(text.len() <= length as usize);
        // SAFETY: the caller has that much room.
        unsafe { name.copy_from_nonoverlapping(text.as_ptr().cast(), text.len()) };
        Ok(())
    }
    fn cuDeviceGetAttribute(state, value: *mut c_int, attribute: c_uint, _device: c_int) {
        put(value, match attribute {
            16 => 132,                      // multiprocessors
            75 => state.capability / 10,
            76 => state.capability % 10,
            81 => 228 << 10,                // shared memory of a multiprocessor
            97 => 227 << 10,                // shared memory of a block, at most
            _ => return Err(INVALID_VALUE),
        })
    }
    fn cuDevicePrimaryCtxRetain(state, context: *mut Handle, _device: c_int) {
        state.retained += 1;
        put(context, CONTEXT)
    }
    fn cuDevicePrimaryCtxRelease_v2(state, _device: c_int) {
        match state.retained.checked_sub(1) {
            Some(retained) => state.retained = retained,
            None => return state.misused("released too often".into(), INVALID_CONTEXT),
        }
        Ok(())
    }
    fn cuCtxSetCurrent(_state, context: Handle) {
        CURRENT.set(context == CONTEXT);
        Ok(())
    }
    fn cuCtxGetCurrent(_state, context: *mut Handle) {
        put(context, if CURRENT.get() { CONTEXT } else { 0 })
    }
    // There is room for one context on a thread's stack.
    fn cuCtxPushCurrent_v2(state, context: Handle) {
        if context != CONTEXT || CURRENT.replace(true) {
            return state.misused("a context pushed that was current".into(), INVALID_CONTEXT);
        }
        Ok(())
    }
    fn cuCtxPopCurrent_v2(state, context: *mut Handle) {
        if !CURRENT.replace(false) {
            return state.misused("no context to pop".into(), INVALID_CONTEXT);
        }
        put(context, CONTEXT)
    }
}

functions! {
    with context:

    fn cuCtxGetDevice(_state, device: *mut c_int) { put(device, 0) }
    fn cuModuleUnload(state, module: Handle) { state.destroy(Kind::Module, module) }
    fn cuModuleGetFunction(state, function: *mut Handle, module: Handle, _name: *const c_char) {
        state.check(Kind::Module, module)?;
        put(function, module)
    }
    fn cuFuncSetAttribute(state, function: Handle, _attribute: c_uint, _value: c_int) {
        state.check(Kind::Module, function)
    }
    fn cuStreamCreate(state, stream: *mut Handle, _flags: c_uint) {
        put(stream, state.make(Kind::Stream))
    }
    fn cuStreamDestroy_v2(state, stream: Handle) { state.destroy(Kind::Stream, stream) }
    fn cuStreamSynchronize(state, stream: Handle) { state.check(Kind::Stream, stream) }
    fn cuEventCreate(state, event: *mut Handle, _flags: c_uint) {
        put(event, state.make(Kind::Event))
    }
    fn cuEventDestroy_v2(state, event: Handle) { state.destroy(Kind::Event, event) }
    fn cuEventRecord(state, event: Handle, stream: Handle) {
        state.check(Kind::Event, event)?;
        state.check(Kind::Stream, stream)
    }
    fn cuEventElapsedTime(state, milliseconds: *mut f32, start: Handle, end: Handle) {
        state.check(Kind::Event, start)?;
        state.check(Kind::Event, end)?;
        put(milliseconds, 1.0)
    }
    fn cuMemAlloc_v2(state, address: *mut u64, bytes: usize) { put(address, state.allocate(bytes)?) }
    fn cuMemFree_v2(state, address: u64) { state.free(address) }
    fn cuMemcpyHtoDAsync_v2(state, to: u64, from: *const u8, bytes: usize, stream: Handle) {
        state.check(Kind::Stream, stream)?;
        state.within(to, bytes)?;
        // SAFETY: the caller's memory is as long as said, and an allocation here too.
        unsafe { ptr::copy(from, to as *mut u8, bytes) };
        Ok(())
    }
    fn cuMemcpyDtoHAsync_v2(state, to: *mut u8, from: u64, bytes: usize, stream: Handle) {
        state.check(Kind::Stream, stream)?;
        state.within(from, bytes)?;
        // SAFETY: as above.
        unsafe { ptr::copy(from as *const u8, to, bytes) };
        Ok(())
    }
    fn cuMemsetD8Async(state, address: u64, value: u8, bytes: usize, stream: Handle) {
        state.check(Kind::Stream, stream)?;
        state.within(address, bytes)?;
        // SAFETY: an allocation here is that long.
        unsafe { ptr::write_bytes(address as *mut u8, value, bytes) };
        Ok(())
    }
    fn cuLaunchKernel(
        state, function: Handle, _grid_x: c_uint, _grid_y: c_uint, _grid_z: c_uint,
        _block_x: c_uint, _block_y: c_uint, _block_z: c_uint, _shared_memory: c_uint,
        stream: Handle, _params: *mut *mut c_void, _extra: *mut *mut c_void,
    ) {
        state.check(Kind::Module, function)?;
        state.check(Kind::Stream, stream)
    }
    fn cuLaunchKernelEx(
        state, _config: *const c_void, function: Handle, _params: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        state.check(Kind::Module, function)
    }
}

const ERROR_LOG_BUFFER: c_uint = 5;
const ERROR_LOG_BUFFER_SIZE: c_uint = 6;

/// What the compiler says of a text, by the code that comes with it.
fn compiler_log(code: u32) -> &'static CStr {
    match code {
        218 => {
            c"ptxas application ptx input, line 9; fatal   : Parsing error near '?': syntax error\n"
        }
        222 => c"ptxas application ptx input, line 1; fatal   : Unsupported .version 9.9\n",
        _ => c"",
    }
}

/// As in cuda.h. It compiles nothing; told to fail, it leaves a log as the driver's compiler would.
///
/// # Safety
///
/// As in cuda.h.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    _image: *const c_void,
    count: c_uint,
    options: *const c_uint,
    values: *const *mut c_void,
) -> c_uint {
    let code = call("cuModuleLoadDataEx", true, |state| put(module, state.make(Kind::Module)));
    // SAFETY: cuda.h's contract: as many options and values as `count` says.
    let (options, values) = unsafe {
        (
            slice::from_raw_parts(options, count as usize),
            slice::from_raw_parts(values, count as usize),
        )
    };
    let value = |wanted| options.iter().position(|option| *option == wanted).map(|i| values[i]);
    if let (Some(buffer), Some(size)) = (value(ERROR_LOG_BUFFER), value(ERROR_LOG_BUFFER_SIZE)) {
        let log = compiler_log(code).to_bytes_with_nul();
        assert!(log.len() <= size.addr());
        // SAFETY: the caller's buffer is as long as the size given with it.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(log.as_ptr(), log.len()) };
    }
    code
}

/// A name and a text for a few codes; the others it does not know, as an old driver would not.
macro_rules! texts {
    ($($code:literal $name:literal $text:literal,)*) => {
        texts! { @function cuGetErrorName $($code $name,)* }
        texts! { @function cuGetErrorString $($code $text,)* }
    };
    (@function $function:ident $($code:literal $text:literal,)*) => {
        /// As in cuda.h. It works whatever else fails, but for a driver that is a stub.
        ///
        /// # Safety
        ///
        /// As in cuda.h.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $function(code: c_uint, text: *mut *const c_char) -> c_uint {
            if let Some(code) = state::lock().stub() {
                return code;
            }
            match code {
                $($code => put(text, $text.as_ptr()).err().unwrap_or(0),)*
                _ => put(text, ptr::null()).err().unwrap_or(INVALID_VALUE),
            }
        }
    };
}

texts! {
    2 c"CUDA_ERROR_OUT_OF_MEMORY" c"out of memory",
    100 c"CUDA_ERROR_NO_DEVICE" c"no CUDA-capable device is detected",
    218 c"CUDA_ERROR_INVALID_PTX" c"a PTX JIT compilation failed",
    700 c"CUDA_ERROR_ILLEGAL_ADDRESS" c"an illegal memory access was encountered",
}
